//! Quantization of matrices to [block-scaled formats](crate::gemm::problem::block_scaled).
//!
//! ```text
//! a thread     a block of 16 or 32 elements of a row: largest magnitude -> scale -> elements
//! a CTA        a quarter of a tile of scales: 32 rows, four blocks each, padding included
//! ```
//!
//! A float is rounded with integers and one sum: adding 1.5 · 2^23 quanta leaves the number of
//! quanta, rounded to the nearest even, in the lower bits. So every GPU quantizes alike, and a host
//! does.

use warpwright::arch::DataType;
use warpwright::prelude::*;
use warpwright::runtime::{Buffer, LaunchCounts, Storable, Stream};

use crate::gemm::problem::block_scaled::BlockScaledFormat;
use crate::gemm::problem::scales::{SCALE_TILE, ScaleFactors};
use crate::operations::{Operations, Result, expect_length};

/// A type that is quantized.
pub trait QuantizeInput: Element {
    /// An element as f32.
    #[track_caller]
    fn to_f32(element: Reg<Self>) -> Reg<f32>;
}

impl QuantizeInput for f32 {
    fn to_f32(element: Reg<f32>) -> Reg<f32> {
        element
    }
}

impl QuantizeInput for bf16 {
    fn to_f32(element: Reg<bf16>) -> Reg<f32> {
        element.convert()
    }
}

/// A float of few bits.
#[derive(Clone, Copy)]
pub(crate) struct SmallFloat {
    /// Bits of the mantissa.
    pub(crate) mantissa: u32,
    /// The exponent of the smallest normal number, and of the largest.
    pub(crate) exponents: (i32, i32),
    /// The code of the largest number.
    pub(crate) largest: u32,
    /// The bits of a code.
    pub(crate) bits: u32,
}

impl SmallFloat {
    /// The float of that type: of 8, 6 or 4 bits.
    pub(crate) fn of(data_type: DataType) -> Self {
        match data_type {
            DataType::E4m3 => Self { mantissa: 3, exponents: (-6, 8), largest: 0x7e, bits: 8 },
            DataType::E5m2 => Self { mantissa: 2, exponents: (-14, 15), largest: 0x7b, bits: 8 },
            DataType::E2m3 => Self { mantissa: 3, exponents: (0, 2), largest: 0x1f, bits: 6 },
            DataType::E3m2 => Self { mantissa: 2, exponents: (-2, 4), largest: 0x1f, bits: 6 },
            _ => Self { mantissa: 1, exponents: (0, 2), largest: 0x7, bits: 4 },
        }
    }

    /// The mantissa of the largest number as that of an f32.
    fn largest_mantissa(self) -> u32 {
        (self.largest & ((1 << self.mantissa) - 1)) << (F32_MANTISSA - self.mantissa)
    }
}

/// Bits of the mantissa of an f32, its bias, and its bits without a sign.
const F32_MANTISSA: u32 = 23;
const F32_BIAS: u32 = 127;
const MAGNITUDE: u32 = 0x7fff_ffff;

/// The bits of an infinity.
const INFINITY: u32 = 0x7f80_0000;

/// The largest number of e2m1.
const LARGEST_E2M1: f32 = 6.0;

/// NaN as ue8m0, and as e4m3.
const NAN_UE8M0: u32 = 0xff;
const NAN_E4M3: u32 = 0x7f;

/// Threads of a CTA.
const THREADS: u32 = 128;

#[device]
impl SmallFloat {
    /// The code of a finite number, rounded to the nearest even; of one past the largest, the
    /// largest.
    fn encode(self, number: Reg<f32>) -> Reg<u32> {
        let bits = number.bit_cast::<u32>();
        let magnitude = bits & MAGNITUDE;
        let smallest = (F32_BIAS as i32 + self.exponents.0) as u32;
        let most = (F32_BIAS as i32 + self.exponents.1 + 1) as u32;
        let exponent = (magnitude >> F32_MANTISSA).max(smallest).min(most);
        // 1.5 · 2^23 quanta: the sum's last bit is a quantum.
        let shift =
            ((exponent + (F32_MANTISSA - self.mantissa)) << F32_MANTISSA) | (1u32 << (F32_MANTISSA - 1));
        let sum = magnitude.bit_cast::<f32>() + shift.bit_cast::<f32>();
        let quanta = sum.bit_cast::<u32>() - shift;
        let code = (((exponent - smallest) << self.mantissa) + quanta).min(self.largest);
        code | ((bits >> 31u32) << (self.bits - 1))
    }

    /// The number of a positive finite code.
    fn decode(self, code: Reg<u32>) -> Reg<f32> {
        let smallest = (F32_BIAS as i32 + self.exponents.0) as u32;
        let exponent = code >> self.mantissa;
        let normal = ((exponent + (smallest - 1)) << F32_MANTISSA)
            | ((code & ((1u32 << self.mantissa) - 1)) << (F32_MANTISSA - self.mantissa));
        let quantum = f32::exp2((self.exponents.0 - self.mantissa as i32) as f32);
        exponent.eq(0u32).select(code.convert::<f32>() * quantum, normal.bit_cast::<f32>())
    }
}

/// The kernel of a format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Quantize {
    format: BlockScaledFormat,
    /// Whether k is a multiple of the rows' padding, so that blocks are whole and aligned.
    whole: bool,
}

impl Quantize {
    #[kernel]
    fn run<T: QuantizeInput>(
        &self,
        from: &Global<T>,
        values: &mut Global<u32>,
        scales: &mut Global<u8>,
        rows: u32,
        k: u32,
        tensor_scale: f32,
    ) {
        launch::threads(THREADS);
        let block = self.format.scales().block();
        // Rows are padded to pairs of blocks of 16, or to four of 32.
        let row = self.format.row_elements(1);
        let padded = (k + (row - 1)) / row * row;
        let (blocks, tiles) = (padded / block, (k + (block * SCALE_TILE.1 - 1)) / (block * SCALE_TILE.1));
        // A CTA has one of the four rows of a tile that are 32 apart, and so has a thread's column of
        // four bytes: thread 4 * row + block.
        let (tile, quarter) = (block_idx().x / 4u32, block_idx().x % 4u32);
        let (within, of_tile) = (thread_idx().x / 4u32, thread_idx().x % 4u32);
        let row = tile / tiles * SCALE_TILE.0 + quarter * 32u32 + within;
        let at = tile % tiles * SCALE_TILE.1 + of_tile;
        let mut scale = constant(0u32);
        if row < rows && at < blocks {
            let of_row = |length: Reg<u32>| {
                row.convert::<u64>() * length.convert::<u64>() + (at * block).convert::<u64>()
            };
            // 32 elements are as many words as an element has bits.
            let to = values.at(of_row(padded) / 16u64 * u64::from(self.bits()) / 2u64);
            let left = k - (at * block).min(k);
            scale = self.block(&from.at(of_row(k)), left, &to, tensor_scale);
        }
        let index =
            tile.convert::<u64>() * 512u64 + (within * 16u32 + quarter * 4u32 + of_tile).convert::<u64>();
        scales.at(index).store(scale.convert::<u8>());
    }

    /// Bits of an element.
    fn bits(&self) -> u32 {
        self.format.data_type().bits()
    }

    /// Quantizes a block of which `left` elements are inside; its scale.
    #[device]
    fn block<T: QuantizeInput>(
        &self,
        from: &Global<T>,
        left: Reg<u32>,
        to: &Global<u32>,
        tensor_scale: Reg<f32>,
    ) -> Reg<u32> {
        let float = SmallFloat::of(self.format.data_type());
        let block = self.format.scales().block();
        let mut elements = Vec::new();
        for first in (0..block).step_by(4) {
            if self.whole {
                for element in from.at(first).load_vector::<4>() {
                    elements.push(T::to_f32(element));
                }
            } else {
                elements.extend((first..first + 4).map(|index| inside(from, index, left)));
            }
        }
        let magnitudes = elements.iter().map(|element| element.bit_cast::<u32>() & MAGNITUDE);
        // Magnitudes are in the order of their bits, NaN last.
        let largest = magnitudes.reduce(|one, other| one.max(other)).unwrap_or(constant(0u32));
        let (scale, factor) = match self.format.scales() {
            ScaleFactors::Vec32Ue8m0 => power_of_two(float, largest),
            ScaleFactors::Vec16Ue4m3 => fraction(largest.bit_cast::<f32>(), tensor_scale),
        };
        let nan = if block == 32 { NAN_UE8M0 } else { NAN_E4M3 };
        let is_finite = largest.lt(INFINITY);
        let mut words = vec![constant(0u32); (block * float.bits / 32) as usize];
        for (position, element) in (0..).zip(&elements) {
            let code = is_finite.select(float.encode(*element * factor), 0u32);
            let (word, shift) = ((position * float.bits / 32) as usize, position * float.bits % 32);
            words[word] = words[word] | (code << shift);
            if shift + float.bits > 32 {
                words[word + 1] = words[word + 1] | (code >> (32 - shift));
            }
        }
        for (index, word) in (0..).zip(words) {
            to.at(index).store(word);
        }
        is_finite.select(scale, nan)
    }
}

/// An element, or 0 past the last.
#[device]
fn inside<T: QuantizeInput>(from: &Global<T>, index: u32, left: Reg<u32>) -> Reg<f32> {
    let mut element = constant(0.0f32);
    if left > index {
        element = T::to_f32(from.at(index).load());
    }
    element
}

/// The smallest power of two of which a block's largest magnitude is no more than the largest
/// number times it, as ue8m0; and its inverse.
#[device]
fn power_of_two(float: SmallFloat, largest: Reg<u32>) -> (Reg<u32>, Reg<f32>) {
    let exceeds = (largest & ((1u32 << F32_MANTISSA) - 1)).gt(float.largest_mantissa()).to_u32();
    let exponent = (largest >> F32_MANTISSA) + exceeds;
    let most = float.exponents.1 as u32;
    let scale = exponent.max(most) - most;
    (scale, ((2 * F32_BIAS - scale) << F32_MANTISSA).bit_cast::<f32>())
}

/// The largest magnitude over 6 and the tensor's scale, as e4m3; and the inverse of both.
#[device]
fn fraction(largest: Reg<f32>, tensor_scale: Reg<f32>) -> (Reg<u32>, Reg<f32>) {
    let float = SmallFloat::of(DataType::E4m3);
    let scale = float.encode(largest / LARGEST_E2M1 / tensor_scale);
    let decoded = float.decode(scale) * tensor_scale;
    let inverse = constant(1.0f32) / decoded;
    (scale, decoded.gt(0.0f32).select(inverse, 0.0f32))
}

impl Operations {
    /// Quantizes a row-major matrix (rows, k) of f32 or bf16 to a block-scaled format, with its scales
    /// and their padding.
    ///
    /// A block has the smallest power of two as its scale with which no element exceeds the largest
    /// of the format; with NVFP4 the block's largest magnitude over 6 and over `tensor_scale`,
    /// rounded to e4m3. Elements are rounded to the nearest, halves to even. A block with a NaN or
    /// an infinity has a NaN as its scale. `tensor_scale` is NVFP4's alone: 1 for the others.
    ///
    /// # Errors
    /// A buffer has a wrong length, or the device failed.
    #[allow(clippy::too_many_arguments, reason = "a matrix, its format, and the two buffers of the result")]
    pub fn quantize<T: QuantizeInput + Storable>(
        &self,
        stream: &Stream,
        (rows, k): (u32, u32),
        from: &Buffer<T>,
        format: BlockScaledFormat,
        tensor_scale: f32,
        values: &mut Buffer<u8>,
        scales: &mut Buffer<u8>,
    ) -> Result<LaunchCounts> {
        expect_length("the matrix", rows as usize * k as usize, from.len())?;
        expect_length("the values", format.value_bytes((rows, k)), values.len())?;
        expect_length("the scales", format.scale_bytes((rows, k)), scales.len())?;
        // Four CTAs a tile of 512 bytes of scales.
        let ctas = self.grid("the quantization", format.scale_bytes((rows, k)) as u64 / 128)?;
        if ctas == 0 {
            return Ok(LaunchCounts::default());
        }
        let quantize = Quantize { format, whole: format.row_elements(k) == k };
        let compiled = self.kernel(quantize, Quantize::run::<T>)?;
        Ok(compiled.launch(stream, ctas, (from, values.cast_mut::<u32>(), scales, rows, k, tensor_scale))?)
    }
}
