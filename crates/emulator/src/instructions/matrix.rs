//! `mma.sync` (PTX ISA, "Warp Level Matrix Multiply-Accumulate Instructions").
//!
//! The form that GEMMs of the sm_80 class live on, m16n8k16 of 16-bit floats into f32, has a loop of its own, made for
//! the host's vectors.

use warpwright_ptx::syntax::{Instruction, Type};

use super::Decoder;
use crate::decode::{DecodeError, Words};
use crate::memory::Trouble;
use crate::operation::{EffectBody, Execution, Kind, vectored_effect};
use crate::registers::{LANES, Registers, Slot, blend};

pub(super) fn decode(d: Decoder<'_, '_, '_>, i: &Instruction, w: &mut Words<'_>) -> Result<(), DecodeError> {
    const BF16: &str = "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32";
    const F16: &str = "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32";
    let text = i.opcode.as_str();
    if text != BF16 && text != F16 {
        return Err(DecodeError::new("The emulator does not know this form of `mma`."));
    }
    while w.take_first(|_| Some(())).is_some() {}
    d.expect_operands(i, 4)?;
    let mut registers =
        |index: usize, count: usize, ty: Type, write: bool| -> Result<Vec<Slot>, DecodeError> {
            let elements = d.elements(&i.operands[index])?;
            if elements.len() != count {
                return Err(DecodeError::new(format!(
                    "Operand {index} of `mma` has {count} registers here."
                )));
            }
            elements
                .iter()
                .map(|element| if write { d.destination(element, ty) } else { d.source(element, ty) })
                .collect()
        };
    let array =
        |slots: Vec<Slot>| -> [Slot; 4] { std::array::from_fn(|index| slots[index.min(slots.len() - 1)]) };
    let c = array(registers(3, 4, Type::F32, false)?);
    let a = array(registers(1, 4, Type::B32, false)?);
    let b = registers(2, 2, Type::B32, false)?;
    let into = array(registers(0, 4, Type::F32, true)?);
    let operands = Fragments { d: into, a, b: [b[0], b[1]], c };
    d.emit(Kind::Aligned(if text == BF16 {
        vectored_effect(SixteenBit { operands, widen: widen_bf16 })
    } else {
        vectored_effect(SixteenBit { operands, widen: widen_f16 })
    }));
    Ok(())
}

struct Fragments {
    d: [Slot; 4],
    a: [Slot; 4],
    b: [Slot; 2],
    c: [Slot; 4],
}

/// m16n8k16 of 16-bit floats into f32.
struct SixteenBit<W> {
    operands: Fragments,
    widen: W,
}

#[inline(always)]
fn widen_bf16(bits: u16) -> f32 {
    f32::from_bits(u32::from(bits) << 16)
}

/// A half's exponent, moved to f32's place, is short by 112, for subnormals too; infinities and NaNs keep theirs full.
#[inline(always)]
fn widen_f16(bits: u16) -> f32 {
    let magnitude = u32::from(bits & 0x7fff) << 13;
    let scaled = (f32::from_bits(magnitude) * f32::from_bits((127 + 112) << 23)).to_bits();
    let special = magnitude | 0x7f80_0000;
    let finite = bits & 0x7c00 != 0x7c00;
    f32::from_bits(u32::from(bits & 0x8000) << 16 | if finite { scaled } else { special })
}

/// The halves of a column: of lane t, elements 2 (t % 4) and the next of row t / 4. So they are 8 rows of 8.
#[inline(always)]
fn rows<W: Fn(u16) -> f32>(column: &[u32; LANES], widen: &W) -> [f32; 64] {
    let mut values = [0.0; 64];
    for lane in 0..LANES {
        values[2 * lane] = widen(column[lane] as u16);
        values[2 * lane + 1] = widen((column[lane] >> 16) as u16);
    }
    values
}

/// B by rows of k: column g of lane t / 4 becomes element g of row k.
#[inline(always)]
fn transposed(low: &[f32; 64], high: &[f32; 64]) -> [[f32; 8]; 16] {
    let mut rows = [[0.0; 8]; 16];
    for k in 0..8 {
        for n in 0..8 {
            rows[k][n] = low[8 * n + k];
            rows[k + 8][n] = high[8 * n + k];
        }
    }
    rows
}

impl<W: Fn(u16) -> f32 + Send + Sync + 'static> EffectBody for SixteenBit<W> {
    #[inline(always)]
    fn execute(&self, execution: &mut Execution<'_>, mask: u32) -> Result<(), Box<Trouble>> {
        let Fragments { d, a, b, c } = &self.operands;
        let registers: &mut Registers = execution.registers;
        let widen = &self.widen;
        let b = transposed(&rows(registers.word(b[0]), widen), &rows(registers.word(b[1]), widen));
        for half in 0..2 {
            let (low, high) =
                (rows(registers.word(a[half]), widen), rows(registers.word(a[half + 2]), widen));
            let (even, odd) = (*registers.word(c[2 * half]), *registers.word(c[2 * half + 1]));
            let mut sums = [[0.0f32; 8]; 8];
            for row in 0..8 {
                for pair in 0..4 {
                    sums[row][2 * pair] = f32::from_bits(even[4 * row + pair]);
                    sums[row][2 * pair + 1] = f32::from_bits(odd[4 * row + pair]);
                }
            }
            for (row, sums) in sums.iter_mut().enumerate() {
                for k in 0..8 {
                    for n in 0..8 {
                        sums[n] = low[8 * row + k].mul_add(b[k][n], sums[n]);
                    }
                }
                for k in 0..8 {
                    for n in 0..8 {
                        sums[n] = high[8 * row + k].mul_add(b[k + 8][n], sums[n]);
                    }
                }
            }
            let (mut even, mut odd) = ([0; LANES], [0; LANES]);
            for row in 0..8 {
                for pair in 0..4 {
                    even[4 * row + pair] = sums[row][2 * pair].to_bits();
                    odd[4 * row + pair] = sums[row][2 * pair + 1].to_bits();
                }
            }
            blend(registers.word_mut(d[2 * half]), mask, even);
            blend(registers.word_mut(d[2 * half + 1]), mask, odd);
        }
        execution.block.mma_multiply_adds += 16 * 8 * 16;
        Ok(())
    }
}
