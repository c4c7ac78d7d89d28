//! `ldmatrix`, `stmatrix` and `movmatrix`: numbered 16-bit elements, moved.

use crate::hardware::Check;
use crate::hardware::case::{Case, Registers, copy, declare, load, store};
use crate::hardware::elements::{extent, places, put};
use crate::hardware::multiply::LANES;
use warpwright_layout::Layout;
use warpwright_layout::atom::{COPY_TABLE, CopyAtom};

const BITS: usize = 16;
/// The rows of shared memory that a case uses, 16 bytes each.
const ROWS: usize = 32;
const ROW_BYTES: usize = 16;

pub(crate) fn checks() -> Vec<Check> {
    let moves = |row: &&warpwright_layout::atom::CopyRow| row.instruction.contains("matrix");
    COPY_TABLE.iter().filter(moves).map(|row| check(row.name)).collect()
}

/// Where in shared memory a row of the tile lies: not where the next would be.
fn scattered(row: usize) -> usize {
    (5 * row + 3) % ROWS
}

fn group(name: char, layout: &Layout) -> Registers {
    Registers { name, count: extent(layout, 1) * BITS / 32, bits: 32 }
}

/// Registers whose elements are numbered as the layout says.
fn numbered(layout: &Layout) -> Vec<u8> {
    let share = extent(layout, 1) * BITS / 8;
    let mut bytes = vec![0; LANES * share];
    for (lane, value, place) in places(layout) {
        put(&mut bytes, 8 * lane * share + value * BITS, BITS, place as u64 + 1);
    }
    bytes
}

/// Shared memory with the tile's elements numbered, and where each lane's row lies in it.
fn scattered_rows(layout: &Layout) -> (Vec<u8>, Vec<u8>) {
    let mut memory = vec![0; ROWS * ROW_BYTES];
    let mut addresses = vec![0; LANES * 4];
    for (lane, value, place) in places(layout) {
        let row = place as usize * BITS / 8 / ROW_BYTES;
        let column = place as usize * BITS / 8 % ROW_BYTES;
        put(&mut memory, 8 * (scattered(row) * ROW_BYTES + column), BITS, place as u64 + 1);
        if value == 0 {
            put(&mut addresses, 8 * 4 * lane, 32, (scattered(row) * ROW_BYTES) as u64);
        }
    }
    (memory, addresses)
}

fn check(name: &str) -> Check {
    let atom = CopyAtom::named(name, BITS as i64).expect("a row of the table");
    let (source, target, instruction) = (atom.source(), atom.target(), atom.instruction());
    let address = Registers { name: 'p', count: 1, bits: 32 };
    let shared_bytes = ROWS * ROW_BYTES;
    let to_place = "add.u32 %p0, %p0, %shared;\n";
    let (input, expected, body) = if instruction.starts_with("movmatrix") {
        let (a, d) = (group('a', source), group('d', target));
        let body = format!("{}{}{instruction} %d0, %a0;\n{}", load(&[a], 0), declare(d), store(d));
        (numbered(source), numbered(target), body)
    } else if instruction.starts_with("ldmatrix") {
        let d = group('d', target);
        let (memory, addresses) = scattered_rows(source);
        let body = format!(
            "{}{}{to_place}{}{instruction} {}, [%p0];\n{}",
            copy(true, LANES, shared_bytes),
            load(&[address], shared_bytes),
            declare(d),
            d.list(),
            store(d)
        );
        ([memory, addresses].concat(), numbered(target), body)
    } else {
        let a = group('a', source);
        let (memory, addresses) = scattered_rows(target);
        let held = numbered(source);
        let shares = held.chunks(a.bytes()).zip(addresses.chunks(4));
        let input = shares.flat_map(|(held, address)| [held, address].concat()).collect::<Vec<u8>>();
        // What the instruction leaves alone must be zero.
        let cleared = [vec![0; shared_bytes], input].concat();
        let body = format!(
            "{}{}{to_place}{instruction} [%p0], {};\nbar.sync 0;\n{}",
            copy(true, LANES, shared_bytes),
            load(&[a, address], shared_bytes),
            a.list(),
            copy(false, LANES, shared_bytes)
        );
        (cleared, memory, body)
    };
    let case = Case {
        name: name.into(),
        threads: LANES,
        shared_bytes,
        input,
        output_bytes: expected.len(),
        map: None,
        body,
    };
    Check { case, expected }
}
