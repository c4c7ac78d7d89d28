//! `mma` of m16n8 shapes of f16, bf16 and tf32, as the hardware adds, in the host's vectors.
//!
//! It is one warp's MMA of a `wgmma`: its A and accumulator are in registers alike, and B in them
//! as A is.

use warpwright_arch::DataType;

use super::aligned_sum::{AlignedSum, COLUMNS, ROWS};
use super::multiply::Multiply;
use super::warpgroup::{Registers, add_to};
use super::warpgroup_operands::{Operands, fill_floats, least_exponent};
use super::{Column, Shape};

/// An MMA that can be computed in this way.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct FloatMultiply {
    element: DataType,
    depth: usize,
    sum: AlignedSum,
}

impl FloatMultiply {
    /// The same MMA, if it is dense and of 16-bit floats or tf32.
    pub fn of(multiply: &Multiply) -> Option<FloatMultiply> {
        let (Shape { m, n, k }, types) = (multiply.shape(), multiply.types());
        let group = match types.a {
            DataType::F16 | DataType::Bf16 => 16,
            DataType::Tf32 => 8,
            _ => return None,
        };
        let kept = (types.d == DataType::F32).then_some(!0);
        let sum = AlignedSum { group, fraction_bits: 25, kept };
        let fits = (m, n) == (16, 8) && types.c == types.d && !multiply.is_sparse();
        fits.then_some(FloatMultiply { element: types.a, depth: k, sum })
    }

    /// Adds A B to an accumulator. Each register holds the words of eight rows of A (columns of B),
    /// four of each.
    #[inline(always)]
    pub fn multiply(
        &self,
        operands: &mut Operands,
        a: &[&Column],
        b: &[&Column],
        accumulator: &mut impl Registers,
    ) {
        let FloatMultiply { element, depth, sum } = *self;
        let width = element.bits() as usize;
        let (each, mask) = (32 / width, u32::MAX >> (32 - width));
        let (left, right) = operands.warp();
        left.reserve(depth);
        let columns = right.reserve(8, depth);
        for step in 0..depth {
            let (word, below) = (step / each, step % each * width);
            let (mut rows, mut values) = ([0; ROWS], [0.0; ROWS]);
            for row in 0..ROWS {
                rows[row] = a[word / 4 * 2 + row / 8][row % 8 * 4 + word % 4] >> below & mask;
            }
            fill_floats(element, &rows, false, &mut values);
            left.set(step, &values, least_exponent(element));
            let mut bits = [0; 8];
            for column in 0..8 {
                bits[column % 2 * COLUMNS + column / 2] = b[word / 4][4 * column + word % 4] >> below & mask;
            }
            fill_floats(element, &bits, false, &mut columns[8 * step..8 * step + 8]);
        }
        right.find_exponents(least_exponent(element));
        add_to(sum, left, right, 8, true, accumulator);
    }
}

#[cfg(test)]
mod tests {
    use super::super::accumulate::IntegerSum;
    use super::super::{LANES, Order};
    use super::*;
    use warpwright_arch::mma::Types;

    impl Registers for Vec<Column> {
        fn column(&self, register: usize) -> &Column {
            &self[register]
        }

        fn column_mut(&mut self, register: usize) -> &mut Column {
            &mut self[register]
        }
    }

    /// Compared with the MMA that gathers matrices and adds in f64.
    #[test]
    fn it_is_the_multiply_it_stands_for() {
        let mut state = 1u32;
        for (word, element, result) in [
            ("m16n8k8", DataType::F16, DataType::F16),
            ("m16n8k16", DataType::F16, DataType::F16),
            ("m16n8k16", DataType::F16, DataType::F32),
            ("m16n8k8", DataType::Bf16, DataType::F32),
            ("m16n8k4", DataType::Tf32, DataType::F32),
            ("m16n8k8", DataType::Tf32, DataType::F32),
        ] {
            let types = Types { d: result, a: element, b: element, c: result };
            let shape = Shape::from_word(word).expect("a shape");
            let orders = (Order::Row, Order::Column);
            let multiply = Multiply::dense(shape, types, orders, IntegerSum::Wrapping).expect("it exists");
            let fast = FloatMultiply::of(&multiply).expect("it is one of these");
            for _ in 0..200 {
                let mut registers = |count: usize, element: DataType| -> Vec<Column> {
                    let mut word = || {
                        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                        let bits = state ^ state >> 15;
                        // Near one, of either sign.
                        match element {
                            DataType::F16 => bits & 0x8fff_8fff | 0x3000_3000,
                            DataType::Bf16 => bits & 0x83ff_83ff | 0x3c00_3c00,
                            _ => bits & 0x83ff_ffff | 0x3c00_0000,
                        }
                    };
                    (0..count).map(|_| std::array::from_fn::<u32, LANES, _>(|_| word())).collect()
                };
                let fragments = multiply.fragments();
                let a = registers(fragments.a.registers(), element);
                let b = registers(fragments.b.registers(), element);
                let mut c = registers(fragments.c.registers(), result);
                let mut expected = c.clone();
                multiply.words(&a, &b, &c, None, &mut expected);
                let (a, b): (Vec<&Column>, Vec<&Column>) = (a.iter().collect(), b.iter().collect());
                fast.multiply(&mut Operands::default(), &a, &b, &mut c);
                assert_eq!(c, expected, "{word} {element:?} {result:?}");
            }
        }
    }
}
