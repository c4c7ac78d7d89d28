//! Which element of memory `wmma.load` puts in which register, and where `wmma.store` puts a
//! register.
//!
//! Elements are numbered. Those too narrow for their number are loaded once for each digit of it.

use crate::hardware::Check;
use crate::hardware::case::{Case, declare, load, store};
use crate::hardware::elements::{places, put};
use crate::hardware::multiply::{LANES, registers};
use std::collections::HashSet;
use warpwright_layout::atom::{Family, MmaAtom, Operand};

pub(crate) fn checks() -> Vec<Check> {
    let mut seen = HashSet::new();
    let mut checks = Vec::new();
    for atom in MmaAtom::all().into_iter().filter(|atom| atom.family == Family::Wmma) {
        for operand in Operand::ALL {
            for by_rows in orders(&atom, operand) {
                let instruction = instruction(&atom, operand, by_rows);
                let digits = if operand == Operand::D { 1 } else { digits(&atom, operand) };
                for digit in 0..digits {
                    let name = format!("{instruction}.{digit}");
                    if seen.insert(name.clone()) {
                        checks.push(check(&atom, operand, by_rows, digit, name));
                    }
                }
            }
        }
    }
    checks
}

/// Whether an operand lies by rows: of A and B the atom says so, accumulators may either way.
fn orders(atom: &MmaAtom, operand: Operand) -> Vec<bool> {
    match operand {
        Operand::A => vec![atom.a_k_major],
        Operand::B => vec![!atom.b_k_major],
        Operand::C | Operand::D => vec![true, false],
    }
}

fn instruction(atom: &MmaAtom, operand: Operand, by_rows: bool) -> String {
    let (m, n, k) = atom.shape;
    let order = if by_rows { "row" } else { "col" };
    let (verb, letter) = match operand {
        Operand::A => ("load", "a"),
        Operand::B => ("load", "b"),
        Operand::C => ("load", "c"),
        Operand::D => ("store", "d"),
    };
    format!("wmma.{verb}.{letter}.sync.aligned.{order}.m{m}n{n}k{k}.global.{}", atom.element(operand))
}

/// How many elements' widths the largest number takes.
fn digits(atom: &MmaAtom, operand: Operand) -> i64 {
    let (rows, columns) = atom.tile(operand);
    let width = i64::from((rows * columns).ilog2());
    (width + atom.bits(operand) - 1) / atom.bits(operand)
}

fn check(atom: &MmaAtom, operand: Operand, by_rows: bool, digit: i64, name: String) -> Check {
    let (rows, columns) = atom.tile(operand);
    let bits = atom.element(operand).bits() as usize;
    // Tiles of B are (n, k), B in memory (k, n): its rows are the tile's columns.
    let columns_together = by_rows != (operand == Operand::B);
    let in_memory = |place: i64| {
        let (row, column) = (place % rows, place / rows);
        if columns_together { row * columns + column } else { row + column * rows }
    };
    let stride = if columns_together { columns } else { rows };
    let group = registers(atom, operand);
    let mut memory = vec![0; (rows * columns) as usize * bits / 8];
    let mut held = vec![0; LANES * group.bytes()];
    for (lane, value, place) in places(&atom.thread_values(operand).expect("known")) {
        let number = in_memory(place);
        let digit = (number >> (digit * bits as i64)) as u64;
        put(&mut memory, number as usize * bits, bits, digit);
        put(&mut held, 8 * lane * group.bytes() + value * bits, bits, digit);
    }
    let instruction = instruction(atom, operand, by_rows);
    let (input, expected, body) = if operand == Operand::D {
        (held, memory, format!("{}{instruction} [%out], {}, {stride};\n", load(&[group], 0), group.list()))
    } else {
        let text = format!("{instruction} {}, [%in], {stride};\n", group.list());
        (memory, held, format!("{}{text}{}", declare(group), store(group)))
    };
    let case =
        Case { name, threads: LANES, shared_bytes: 0, input, output_bytes: expected.len(), map: None, body };
    Check { case, expected }
}
