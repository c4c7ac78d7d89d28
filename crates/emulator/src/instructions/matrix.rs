//! `mma` and `mma.sp` (PTX ISA, "Warp-level matrix multiply-accumulate instructions").

use warpwright_arch::mma::Types;
use warpwright_arch::{DataType, tcgen05};
use warpwright_events::LANES;

use super::small_matrix;
use crate::decode::{DecodeError, Decoded, Decoder, Row};
use crate::execution::effect::{EffectBody, Execution, vectored_effect};
use crate::launch::failure::Failure;
use crate::operation::kind::Kind;
use crate::registers::{Slot, blend};
use crate::tensor::accumulate::IntegerSum;
use crate::tensor::float_multiply::FloatMultiply;
use crate::tensor::half_multiply::{self, Function, Half};
use crate::tensor::multiply::Multiply;
use crate::tensor::{Column, Order, Shape, warpgroup};

/// The most registers of A, B or an accumulator of floats in an MMA of one warp.
const MOST_REGISTERS: usize = 4;

pub(super) fn decode(d: Decoder<'_, '_, '_>, i: &Row<'_>) -> Decoded {
    let sparse = i.has("sp") || i.has("sp::ordered_metadata");
    if let Some(kind) = i.find(tcgen05::Kind::from_ptx) {
        return small_matrix::decode(d, i, kind, sparse);
    }
    let (shape, orders) = header(i)?;
    let [result, a, b, c] = data_types(i)[..] else { return Err(i.names_no("types of four matrices")) };
    let (types, integers) = (Types { d: result, a, b, c }, integer_sum(i));
    let multiply = if sparse {
        Multiply::sparse(shape, types, integers, usize::try_from(i.literal(5)?).unwrap_or(usize::MAX))
    } else {
        Multiply::dense(shape, types, orders, integers)
    };
    let multiply = multiply.map_err(|error| DecodeError::new(error.to_string()))?;
    let metadata = if sparse { Some(d.source_at(i, 4)?) } else { None };
    let slots = operands(d, i)?;
    d.emit(effect(multiply, slots, metadata));
    Ok(())
}

/// The shape, and the orders of A and B.
pub(super) fn header(i: &Row<'_>) -> Result<(Shape, (Order, Order)), DecodeError> {
    let shape = i.find(Shape::from_word).ok_or_else(|| i.names_no("shape"))?;
    let mut orders = i.all(|word| match word {
        "row" => Some(Order::Row),
        "col" => Some(Order::Column),
        _ => None,
    });
    Ok((shape, (orders.next().unwrap_or(Order::Row), orders.next().unwrap_or(Order::Column))))
}

/// The modifiers of integer accumulation.
pub(super) fn integer_sum(i: &Row<'_>) -> IntegerSum {
    let sums =
        [("xor", IntegerSum::Differing), ("and", IntegerSum::Common), ("satfinite", IntegerSum::Saturating)];
    i.choose(&sums).unwrap_or(IntegerSum::Wrapping)
}

/// The types of the matrices, in the order of the name.
pub(super) fn data_types(i: &Row<'_>) -> Vec<DataType> {
    i.all(DataType::from_ptx).collect()
}

/// The slots of the registers of D, A, B and C, which are the first four operands.
pub(super) fn operands(d: Decoder<'_, '_, '_>, i: &Row<'_>) -> Result<[Box<[Slot]>; 4], DecodeError> {
    let sources = [d.sources_at(i, 1)?, d.sources_at(i, 2)?, d.sources_at(i, 3)?];
    let [a, b, c] = sources.map(Vec::into_boxed_slice);
    Ok([d.destinations_at(i, 0)?.into(), a, b, c])
}

/// The MMA as an operation.
pub(super) fn effect(multiply: Multiply, slots: [Box<[Slot]>; 4], metadata: Option<Slot>) -> Kind {
    let [d, a, b, c] = slots;
    let Types { d: result, a: element, c: old, .. } = multiply.types();
    let half = match element {
        DataType::F16 => Some(Half::F16),
        DataType::Bf16 => Some(Half::Bf16),
        _ => None,
    };
    Kind::Aligned(match half {
        Some(half) if !multiply.is_sparse() && result == DataType::F32 && old == DataType::F32 => {
            match (&*d, &*a, &*b, &*c) {
                (&[d0, d1, d2, d3], &[a0, a1], &[b0], &[c0, c1, c2, c3]) => vectored_effect(HalfMultiply {
                    multiply: half_multiply::function(half),
                    d: [d0, d1, d2, d3],
                    a: [[a0, a1]],
                    b: [b0],
                    c: [c0, c1, c2, c3],
                }),
                (&[d0, d1, d2, d3], &[a0, a1, a2, a3], &[b0, b1], &[c0, c1, c2, c3]) => {
                    vectored_effect(HalfMultiply {
                        multiply: half_multiply::function(half),
                        d: [d0, d1, d2, d3],
                        a: [[a0, a1], [a2, a3]],
                        b: [b0, b1],
                        c: [c0, c1, c2, c3],
                    })
                }
                _ => vectored_effect(AnyMultiply { multiply, d, a, b, c, metadata }),
            }
        }
        _ => match FloatMultiply::of(&multiply) {
            Some(float) => {
                let multiply_adds = multiply.multiply_adds() as u64;
                vectored_effect(ExactMultiply { float, multiply_adds, d, a, b, c })
            }
            None => vectored_effect(AnyMultiply { multiply, d, a, b, c, metadata }),
        },
    })
}

/// Any MMA.
struct AnyMultiply {
    multiply: Multiply,
    d: Box<[Slot]>,
    a: Box<[Slot]>,
    b: Box<[Slot]>,
    c: Box<[Slot]>,
    metadata: Option<Slot>,
}

impl EffectBody for AnyMultiply {
    #[inline(always)]
    fn execute(&self, execution: &mut Execution<'_>, mask: u32) -> Result<(), Box<Failure>> {
        execution.block.mma_multiply_adds += self.multiply.multiply_adds() as u64;
        let registers = &mut *execution.registers;
        if self.multiply.types().d == DataType::F64 {
            let read = |slots: &[Slot]| slots.iter().map(|&slot| *registers.long(slot)).collect::<Vec<_>>();
            let mut d = vec![[0; LANES]; self.d.len()];
            self.multiply.longs(&read(&self.a), &read(&self.b), &read(&self.c), &mut d);
            for (slot, column) in self.d.iter().zip(d) {
                blend(registers.long_mut(*slot), mask, column);
            }
            return Ok(());
        }
        let read = |slots: &[Slot]| slots.iter().map(|&slot| *registers.word(slot)).collect::<Vec<_>>();
        let mut d = vec![[0; LANES]; self.d.len()];
        let metadata = self.metadata.map(|slot| registers.word(slot));
        self.multiply.words(&read(&self.a), &read(&self.b), &read(&self.c), metadata, &mut d);
        for (slot, column) in self.d.iter().zip(d) {
            blend(registers.word_mut(*slot), mask, column);
        }
        Ok(())
    }
}

/// An MMA of 16-bit floats or tf32, with the hardware's rounding.
struct ExactMultiply {
    float: FloatMultiply,
    multiply_adds: u64,
    d: Box<[Slot]>,
    a: Box<[Slot]>,
    b: Box<[Slot]>,
    c: Box<[Slot]>,
}

/// The registers of C, which become those of D.
struct Accumulator([Column; MOST_REGISTERS]);

impl warpgroup::Registers for Accumulator {
    #[inline(always)]
    fn column(&self, register: usize) -> &Column {
        &self.0[register]
    }

    #[inline(always)]
    fn column_mut(&mut self, register: usize) -> &mut Column {
        &mut self.0[register]
    }
}

impl EffectBody for ExactMultiply {
    #[inline(always)]
    fn execute(&self, execution: &mut Execution<'_>, mask: u32) -> Result<(), Box<Failure>> {
        execution.block.mma_multiply_adds += self.multiply_adds;
        let registers = &mut *execution.registers;
        // Copies, for registers of D may be among them, in another order.
        let held = |slots: &[Slot]| -> [Column; MOST_REGISTERS] {
            std::array::from_fn(|index| slots.get(index).map_or([0; LANES], |&slot| *registers.word(slot)))
        };
        let (a, b, mut accumulator) = (held(&self.a), held(&self.b), Accumulator(held(&self.c)));
        let operands = execution.block.warpgroups.operands();
        self.float.multiply(operands, &a.each_ref(), &b.each_ref(), &mut accumulator);
        for (slot, column) in self.d.iter().zip(accumulator.0) {
            blend(registers.word_mut(*slot), mask, column);
        }
        Ok(())
    }
}

/// m16n8k8 or m16n8k16 from f16 or bf16 into f32.
struct HalfMultiply<const K: usize> {
    multiply: Function<K>,
    d: [Slot; 4],
    a: [[Slot; 2]; K],
    b: [Slot; K],
    c: [Slot; 4],
}

impl<const K: usize> EffectBody for HalfMultiply<K> {
    #[inline(always)]
    fn execute(&self, execution: &mut Execution<'_>, mask: u32) -> Result<(), Box<Failure>> {
        execution.block.mma_multiply_adds += (16 * 8 * 8 * K) as u64;
        let registers = &mut *execution.registers;
        let first = registers.word(self.d[0]);
        let (mut a, mut b) = ([[first; 2]; K], [first; K]);
        for step in 0..K {
            a[step] = [registers.word(self.a[step][0]), registers.word(self.a[step][1])];
            b[step] = registers.word(self.b[step]);
        }
        let [c0, c1, c2, c3] = self.c;
        let c = [registers.word(c0), registers.word(c1), registers.word(c2), registers.word(c3)];
        let product = (self.multiply)(a, b, c);
        for (slot, values) in self.d.iter().zip(&product.0) {
            blend(registers.word_mut(*slot), mask, *values);
        }
        Ok(())
    }
}
