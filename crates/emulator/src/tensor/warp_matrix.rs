//! Fragment layouts of `wmma`. PTX does not specify them; these are those of H200, as recorded.
//!
//! They are core matrices in another order, and m8n32 is the transpose of m32n8: its A is held as a
//! B would be, its B as an A, and its accumulator by columns. A and B of f16 fill eight registers
//! regardless of their size, by repetition.

use warpwright_arch::DataType;
use warpwright_arch::mma::Types;

use super::Shape;
use super::accumulate::IntegerSum;
use super::fragment::{Fragment, Lying};
use super::multiply::{Fragments, Multiply, UnknownMultiply};

/// Registers that hold A or B of f16.
const REPEATED_REGISTERS: usize = 8;

/// A matrix of an MMA.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)] // the operands' own names
pub enum Operand {
    A,
    B,
    /// C or D.
    Accumulator,
}

/// The fragment that `wmma.mma` multiplies. The words of b1 count as elements.
pub fn fragment(shape: Shape, operand: Operand, element: DataType) -> Fragment {
    if element == DataType::B1 {
        in_memory(shape, operand, element)
    } else {
        of_units(shape, operand, element, 1)
    }
}

/// The fragment that is loaded and stored: elements narrower than a byte are taken by words of 32
/// bits.
pub fn in_memory(shape: Shape, operand: Operand, element: DataType) -> Fragment {
    of_units(shape, operand, element, units(element))
}

/// Elements in the smallest unit of memory that a fragment is loaded by.
pub fn units(element: DataType) -> usize {
    if element.bits() < 8 { 32 / element.bits() as usize } else { 1 }
}

/// A fragment of units of `unit` adjacent elements along k.
fn of_units(shape: Shape, operand: Operand, element: DataType, each: usize) -> Fragment {
    let bits = element.bits() * each as u32;
    let Shape { m, n, k } = Shape { k: shape.k / each, ..shape };
    let quarter = (32 / bits as usize).max(1);
    let depth = 4 * quarter;
    let turned = n == 32;
    let (size, origins, lying, per_core) = match operand {
        Operand::A => ((m, k), stacks(m, k, depth), Lying::Along, quarter),
        Operand::B if turned => ((k, n), flipped(stacks(n, k, depth)), Lying::Across, quarter),
        Operand::B => ((k, n), flipped(rows(n, k, depth)), Lying::Across, quarter),
        Operand::Accumulator if turned => ((m, n), flipped(stacks(n, m, 8)), Lying::Across, 2),
        Operand::Accumulator => ((m, n), stacks(m, n, 8), Lying::Along, 2),
    };
    let repeats = match operand {
        Operand::A | Operand::B if element == DataType::F16 => REPEATED_REGISTERS / origins.len(),
        _ => 1,
    };
    Fragment::of_cores(size, bits, per_core, &origins.repeat(repeats), lying)
}

/// Core matrices of 8 rows: for every 16 rows, those at the left from top to bottom, then those to
/// their right.
fn stacks(height: usize, width: usize, core_width: usize) -> Vec<(usize, usize)> {
    let blocks = (0..height).step_by(16);
    let columns = |top| (0..width).step_by(core_width).map(move |left| (top, left));
    let stack = |(top, left)| (top..height.min(top + 16)).step_by(8).map(move |row| (row, left));
    blocks.flat_map(columns).flat_map(stack).collect()
}

/// Core matrices of 8 rows, row after row.
fn rows(height: usize, width: usize, core_width: usize) -> Vec<(usize, usize)> {
    let row = |top| (0..width).step_by(core_width).map(move |left| (top, left));
    (0..height).step_by(8).flat_map(row).collect()
}

fn flipped(origins: Vec<(usize, usize)>) -> Vec<(usize, usize)> {
    origins.into_iter().map(|(row, column)| (column, row)).collect()
}

/// A `wmma.mma`.
pub fn multiply(shape: Shape, types: Types, integers: IntegerSum) -> Result<Multiply, UnknownMultiply> {
    let fragments = Fragments {
        a: fragment(shape, Operand::A, types.a),
        b: fragment(shape, Operand::B, types.b),
        c: fragment(shape, Operand::Accumulator, types.c),
        d: fragment(shape, Operand::Accumulator, types.d),
    };
    Multiply::with_fragments(shape, types, integers, fragments)
}

#[cfg(test)]
mod tests {
    use super::*;
    use warpwright_arch::mma::{self, Family, MMA_TABLE};

    #[test]
    fn every_element_is_held_as_often_as_every_other() {
        for row in MMA_TABLE.iter().filter(|row| row.family == Family::Wmma) {
            let mma::Shape { m, n, k } = row.shape;
            let shape = Shape::new(m as usize, n as usize, k as usize);
            for operand in [Operand::A, Operand::B, Operand::Accumulator] {
                let fragment = fragment(shape, operand, row.inputs[0].0);
                let mut owners = vec![0; fragment.rows() * fragment.columns()];
                for lane in 0..super::super::LANES {
                    for index in 0..fragment.elements() {
                        let (row, column) = fragment.place(lane, index);
                        owners[row * fragment.columns() + column] += 1;
                    }
                }
                assert!(owners[0] > 0 && owners.iter().all(|&count| count == owners[0]), "{fragment:?}");
            }
        }
    }
}
