//! Products of matrices spread over the registers of a warp, for every atom of `mma`, `mma.sp` and
//! `wmma`.
//!
//! All matrices hold small whole numbers, so that the product is exact in every type.

use crate::hardware::Check;
use crate::hardware::case::{Case, Registers, declare, load, store};
use crate::hardware::elements::{Matrix, accumulator_bits, places, put};
use warpwright_arch::DataType;
use warpwright_layout::atom::{MmaAtom, Operand};

pub(crate) const LANES: usize = 32;

pub(crate) fn checks() -> Vec<Check> {
    let mut checks = Vec::new();
    for atom in MmaAtom::all().into_iter().filter(|atom| !atom.family.is_warpgroup()) {
        let selectors = atom.metadata().map_or(1, |metadata| metadata.selectors());
        checks.extend((0..selectors).map(|selector| check(&atom, selector)));
    }
    checks
}

fn matrix(atom: &MmaAtom, operand: Operand) -> Matrix {
    Matrix::new(atom.element(operand), operand as u64)
}

/// The registers of an operand.
pub(crate) fn registers(atom: &MmaAtom, operand: Operand) -> Registers {
    let bits = if atom.element(operand).bits() == 64 { 64 } else { 32 };
    let count = atom.registers(operand).expect("the table's atoms are known") as usize * 32 / bits;
    Registers { name: ['a', 'b', 'c', 'd'][operand as usize], count, bits }
}

/// Calls `visit` with (lane, value, row, column) of every element that a lane holds; the four
/// quadpairs of a warp, which multiply apart, are given the same.
fn visit(atom: &MmaAtom, operand: Operand, mut visit: impl FnMut(usize, usize, i64, i64)) {
    let rows = atom.tile(operand).0;
    let lanes = atom.threads().expect("known").offsets().expect("known");
    let repeats = LANES / lanes.len();
    for (thread, value, place) in places(&atom.thread_values(operand).expect("known")) {
        for quadpair in 0..repeats {
            visit(lanes[thread] as usize + 4 * quadpair, value, place % rows, place / rows);
        }
    }
}

fn check(atom: &MmaAtom, selector: i64) -> Check {
    let inputs = [Operand::A, Operand::B, Operand::C];
    let mut groups = inputs.map(|operand| registers(atom, operand)).to_vec();
    if atom.metadata().is_some() {
        groups.push(Registers { name: 'e', count: 1, bits: 32 });
    }
    let share: usize = groups.iter().map(|it| it.bytes()).sum();
    let mut input = vec![0; LANES * share];
    let mut start = 0;
    for (operand, group) in inputs.into_iter().zip(&groups) {
        let (matrix, bits) = (matrix(atom, operand), atom.element(operand).bits() as usize);
        visit(atom, operand, |lane, value, row, column| {
            put(&mut input, 8 * (lane * share + start) + value * bits, bits, matrix.bits(row, column));
        });
        start += group.bytes();
    }
    if atom.metadata().is_some() {
        for lane in 0..LANES {
            put(&mut input, 8 * (lane * share + start), 32, u64::from(metadata(atom.a, lane)));
        }
    }

    let d = registers(atom, Operand::D);
    let mut expected = vec![0; LANES * d.bytes()];
    let bits = atom.d.bits() as usize;
    let left = left(atom, selector);
    visit(atom, Operand::D, |lane, value, row, column| {
        let sum = product(atom, &left, row, column);
        put(&mut expected, 8 * lane * d.bytes() + value * bits, bits, accumulator_bits(atom.d, sum));
    });

    let sparse = if atom.metadata().is_some() { format!(", %e0, {selector:#x}") } else { String::new() };
    let [a, b, c] = [0, 1, 2].map(|at: usize| groups[at].list());
    let (instruction, operands) = (atom.instruction(), format!("{}, {a}, {b}, {c}{sparse}", d.list()));
    let body = format!("{}{}{instruction} {operands};\n{}", load(&groups, 0), declare(d), store(d));
    let name = if selector == 0 { atom.name() } else { format!("{}.{selector}", atom.name()) };
    let case =
        Case { name, threads: LANES, shared_bytes: 0, input, output_bytes: expected.len(), map: None, body };
    Check { case, expected }
}

/// A as (m, k) whole numbers, zeros where a sparse one stores nothing.
fn left(atom: &MmaAtom, selector: i64) -> Vec<Vec<i64>> {
    let (m, _, k) = atom.shape;
    let values = matrix(atom, Operand::A);
    let Some(metadata) = atom.metadata() else {
        return (0..m).map(|row| (0..k).map(|column| values.value(row, column)).collect()).collect();
    };
    let mut entries = vec![0; (m * metadata.entries) as usize];
    let chosen = 4 / metadata.selectors();
    for (lane, value, place) in places(&metadata.thread_values().expect("known")) {
        if lane as i64 % 4 / chosen == selector {
            let bits = metadata.entry_bits as usize;
            entries[place as usize] =
                i64::from(self::metadata(atom.a, lane) >> (bits * value) & ((1 << bits) - 1));
        }
    }
    let mut full = vec![vec![0; k as usize]; m as usize];
    for row in 0..m {
        for stored in 0..k / 2 {
            let entry = entries[(row + m * metadata.entry_of(stored)) as usize];
            full[row as usize][metadata.column(stored, entry) as usize] = values.value(row, stored);
        }
    }
    full
}

/// A register of metadata in which every entry is legal: two different places of four, rising, or
/// one of two.
fn metadata(element: DataType, lane: usize) -> u32 {
    const PAIRS: [u32; 6] = [0b0100, 0b1000, 0b1100, 0b1001, 0b1101, 0b1110];
    let mixed = |at: u32| (lane as u32 * 8 + at).wrapping_mul(2_654_435_761) >> 16;
    (0..8).fold(0, |word, at| {
        let entries = match element {
            DataType::Tf32 => [0b0100, 0b1110][mixed(at) as usize % 2],
            _ => PAIRS[mixed(at) as usize % 6],
        };
        word | entries << (4 * at)
    })
}

fn product(atom: &MmaAtom, left: &[Vec<i64>], row: i64, column: i64) -> i64 {
    let (b, c) = (matrix(atom, Operand::B), matrix(atom, Operand::C));
    let exclusive_or = atom.instruction().contains(".xor.");
    let one = |k: i64| {
        let (x, y) = (left[row as usize][k as usize], b.value(column, k));
        if exclusive_or { x ^ y } else { x * y }
    };
    c.value(row, column) + (0..atom.shape.2).map(one).sum::<i64>()
}
