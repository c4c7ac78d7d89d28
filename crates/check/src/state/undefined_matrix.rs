//! Undefined elements of matrices in registers: what `ldmatrix` loads and `stmatrix` stores, and how `mma` and
//! `movmatrix` pass it on.
//!
//! PTX ISA, "Matrix Fragments for mma.m16n8k16" and its neighbors: a lane holds A of rows `lane / 4` and, in every
//! second register, `lane / 4 + 8`, B of column `lane / 4`, and C and D of these rows and of columns
//! `lane % 4 * 2` and the next.

use warpwright_events::{FULL, Instruction, LANES, Register, lanes};

use crate::state::undefined::{Undefined, UndefinedRegisters};

/// Rows of 16 bytes that `ldmatrix` loads: the lanes that give their addresses, and the bytes that nothing has
/// written.
pub(crate) type UnwrittenRows = Vec<(u32, u16)>;

/// The lanes of a mask for which a condition holds.
fn lanes_where(condition: impl Fn(usize) -> bool) -> u32 {
    (0..LANES).filter(|lane| condition(*lane)).fold(0, |mask, lane| mask | 1 << lane)
}

/// The lanes in which a register that `ldmatrix` writes, the one at `index`, is undefined.
pub(crate) fn undefined_lanes(instruction: &Instruction, index: usize, rows: &UnwrittenRows) -> u32 {
    let unwritten = |row: usize| {
        rows.iter()
            .filter(|(lanes, _)| lanes >> (8 * index + row) & 1 != 0)
            .fold(0, |all, (_, bytes)| all | bytes)
    };
    match instruction.name().contains(".trans") {
        false => lanes_where(|lane| unwritten(lane / 4) >> (lane % 4 * 4) & 0xf != 0),
        true => lanes_where(|lane| {
            let first = lane % 4 * 2;
            (unwritten(first) | unwritten(first + 1)) >> (lane / 4 * 2) & 3 != 0
        }),
    }
}

/// The bytes of a row that `stmatrix` stores which are undefined, if its register is in these lanes.
pub(crate) fn stored_bytes(instruction: &Instruction, row: usize, undefined: u32) -> u16 {
    let is_transposed = instruction.name().contains(".trans");
    lanes(undefined).fold(0, |bytes, lane| match is_transposed {
        false if lane / 4 == row => bytes | 0xf << (lane % 4 * 4),
        true if lane % 4 == row / 2 => bytes | 3 << (lane / 4 * 2),
        _ => bytes,
    })
}

/// The operands of an `mma` whose fragments are known.
struct Product<'a> {
    a: &'a [Register],
    b: &'a [Register],
    c: &'a [Register],
    d: &'a [Register],
    /// Whether it has 16 rows and not 8.
    is_tall: bool,
}

impl<'a> Product<'a> {
    fn of(instruction: &'a Instruction) -> Option<Self> {
        let (name, d, reads) = (instruction.name(), &*instruction.writes, &*instruction.reads);
        let is_tall = name.contains(".m16n8");
        let is_short = name.contains(".m8n8") && !name.contains(".f16");
        // Sparse ones have other fragments of A.
        if name.contains(".sp") || !(is_tall || is_short) {
            return None;
        }
        let of_b = match (is_tall, name.contains(".block_scale")) {
            (_, true) => 2,
            (true, false) => reads.len().checked_sub(d.len())? / 3,
            (false, false) => 1,
        };
        let of_a = if is_tall { 2 * of_b } else { of_b };
        let (a, rest) = reads.split_at_checked(of_a)?;
        let (b, rest) = rest.split_at_checked(of_b)?;
        Some(Self { a, b, c: rest.get(..d.len())?, d, is_tall })
    }

    /// The row of D, and its columns, that a lane has in a register.
    fn place(&self, register: usize, lane: usize) -> (usize, u32) {
        let (row, column) = (lane / 4, lane % 4 * 2);
        match (self.is_tall, self.d.len()) {
            (false, _) => (row, 1 << (column + register % 2)),
            (true, 2) => (row + 8 * register, 3 << column),
            (true, _) => (row + 8 * (register / 2), 1 << (column + register % 2)),
        }
    }
}

impl UndefinedRegisters {
    /// `mma`: a row of D is undefined if one of A is, and a column if one of B is.
    pub(crate) fn multiply(&mut self, instruction: &Instruction) {
        let Some(product) = Product::of(instruction) else {
            return instruction.writes.iter().for_each(|register| self.write(*register, FULL, None));
        };
        let of = |register: &Register| self.of(&[*register], FULL).map_or(0, |value| value.lanes);
        let (mut rows, mut columns) = (0u32, 0u32);
        for (index, register) in product.a.iter().enumerate() {
            lanes(of(register)).for_each(|lane| rows |= 1 << (lane / 4 + 8 * (index % 2)));
        }
        for register in product.b {
            lanes(of(register)).for_each(|lane| columns |= 1 << (lane / 4));
        }
        let Some(source) = self.of(&instruction.reads, FULL) else { return };
        let results: Vec<u32> = (product.c.iter().enumerate())
            .map(|(register, c)| {
                of(c)
                    | lanes_where(|lane| {
                        let (row, of_lane) = product.place(register, lane);
                        rows >> row & 1 != 0 || columns & of_lane != 0
                    })
            })
            .collect();
        for (register, lanes) in product.d.iter().zip(results) {
            self.write(*register, FULL, Undefined { lanes, ..source }.within(FULL));
        }
    }

    /// `movmatrix`: each lane takes two elements of a column.
    pub(crate) fn transpose(&mut self, instruction: &Instruction) {
        let [from] = &*instruction.reads else { return };
        let Some(source) = self.of(&[*from], FULL) else { return };
        let lanes = lanes_where(|lane| {
            let first = lane % 4 * 8 + lane / 8;
            source.lanes >> first & 1 != 0 || source.lanes >> (first + 4) & 1 != 0
        });
        for to in &instruction.writes {
            self.write(*to, FULL, Undefined { lanes, ..source }.within(FULL));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lane_of_a_product_has_two_rows_and_two_columns() {
        let registers: Vec<Register> = (0..4).map(Register).collect();
        let product = |d: usize, is_tall| Product { a: &[], b: &[], c: &[], d: &registers[..d], is_tall };
        assert_eq!(product(4, true).place(3, 6), (9, 1 << 5));
        assert_eq!(product(4, true).place(0, 31), (7, 1 << 6));
        assert_eq!(product(2, true).place(1, 6), (9, 3 << 4));
        assert_eq!(product(2, false).place(1, 6), (1, 1 << 5));
    }
}
