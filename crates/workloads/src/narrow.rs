//! GEMMs of MXFP8, MXFP6, MXFP4 and NVFP4, and the quantization to them, on the command line.

use warpwright::arch::Capability;
use warpwright::prelude::*;
use warpwright::runtime::{Buffer, Storable};
use warpwright_harness::{
    Compared, HostNumber, Options, Prepared, Random, Refused, Result, Setup, Strided, Work, Workload,
    compare, data_types, exactly, product,
};

use warpwright_kernels::gemm::Gemm;
use warpwright_kernels::gemm::device::quantize::QuantizeInput;
use warpwright_kernels::gemm::host::config::{TmaInstruction, has_scaled_mma_sync};
use warpwright_kernels::gemm::problem::block_scaled::{BlockScaled, BlockScaledFormat};
use warpwright_kernels::gemm::problem::scales::ScaleFactors;
use warpwright_kernels::gemm::problem::types::GemmOutput;
use warpwright_kernels::operations::Operations;

data_types! {
    /// Types of C.
    enum OutputType by with_output_type { f32, bf16, f16 }
}

data_types! {
    /// Types of a matrix that is quantized.
    enum SourceType by with_source { f32, bf16 }
}

/// C = A·B of MXFP8, MXFP6, MXFP4 or NVFP4: a scale for every 16 or 32 elements along k.
#[derive(Clone, Debug, Options)]
pub(super) struct ScaledGemmWorkload {
    /// Rows of A and C.
    #[option(default = 256, min = 1, max = 1 << 30)]
    m: u32,
    /// Columns of B and C.
    #[option(default = 256, min = 1, max = 1 << 30)]
    n: u32,
    /// Columns of A and rows of B.
    #[option(default = 256, min = 1, max = 1 << 30)]
    k: u32,
    /// Format of A.
    format: BlockScaledFormat,
    /// Format of B, if it differs from A's: MXFP8 and MXFP6 formats can be mixed.
    b_format: Option<BlockScaledFormat>,
    /// Data type of C.
    #[option(default = OutputType::bf16)]
    output: OutputType,
    /// Scale of A·B.
    #[option(default = 1.0)]
    alpha: f32,
    /// Rank of the algorithm in the heuristic's list, from 0, the cheapest.
    #[option(default = 0)]
    rank: u32,
}

/// A matrix on the device in a narrow format.
struct Quantized {
    format: BlockScaledFormat,
    extents: (u32, u32),
    values: Buffer<u8>,
    scales: Buffer<u8>,
}

impl Quantized {
    fn random(setup: &Setup, format: BlockScaledFormat, (rows, k): (u32, u32), seed: u64) -> Result<Self> {
        let (operations, stream) = (Operations::new(setup.device()), setup.device().stream()?);
        let from: Buffer<f32> =
            setup.input(rows as usize * k as usize, |length| Random::new(seed).normal(length))?;
        let mut values = setup.output::<u8>(format.value_bytes((rows, k)))?;
        let mut scales = setup.output::<u8>(format.scale_bytes((rows, k)))?;
        operations.quantize(&stream, (rows, k), &from, format, 1.0, &mut values, &mut scales)?;
        stream.synchronize()?;
        Ok(Self { format, extents: (rows, k), values, scales })
    }

    fn operand(&self) -> BlockScaled<'_> {
        BlockScaled { format: self.format, values: &self.values, scales: &self.scales }
    }

    /// The numbers that the elements stand for.
    fn exact(&self) -> Result<Vec<f64>> {
        Ok(dequantized(self.format, self.extents, &self.values.to_vec()?, &self.scales.to_vec()?))
    }
}

/// The numbers of a matrix (rows, k) in a narrow format.
pub(crate) fn dequantized(
    format: BlockScaledFormat,
    (rows, k): (u32, u32),
    values: &[u8],
    scales: &[u8],
) -> Vec<f64> {
    let of_type = format.data_type();
    let number = |row: u32, column: u32| {
        let bit = column * of_type.bits();
        let at = row as usize * format.row_bytes(k) as usize + (bit / 8) as usize;
        let bytes = [at, at + 1].map(|at| values.get(at).copied().unwrap_or(0));
        let code = u32::from(u16::from_le_bytes(bytes)) >> (bit % 8) & ((1 << of_type.bits()) - 1);
        let scale = scales[format.scale_index((row, column / format.scales().block()), k)];
        let scale = match format.scales() {
            ScaleFactors::Vec32Ue8m0 if scale == u8::MAX => f64::NAN,
            ScaleFactors::Vec32Ue8m0 => 2f64.powi(i32::from(scale) - 127),
            ScaleFactors::Vec16Ue4m3 => e4m3::from_bits(scale).exact(),
        };
        scale
            * match format {
                BlockScaledFormat::Mxfp8E4m3 => e4m3::from_bits(code as u8).exact(),
                BlockScaledFormat::Mxfp8E5m2 => e5m2::from_bits(code as u8).exact(),
                _ => {
                    let sign = 1 << (of_type.bits() - 1);
                    let magnitude = magnitudes(format)[(code & (sign - 1)) as usize];
                    if code & sign == 0 { magnitude } else { -magnitude }
                }
            }
    };
    (0..rows).flat_map(|row| (0..k).map(move |column| (row, column))).map(|(row, k)| number(row, k)).collect()
}

impl Workload for ScaledGemmWorkload {
    const NAME: &'static str = "scaled-gemm";

    fn supports(capability: &Capability) -> bool {
        has_scaled_mma_sync(capability) || TmaInstruction::of(capability) == Some(TmaInstruction::Tcgen05)
    }

    /// A, B, their scales and C are moved once.
    fn work(&self) -> Work {
        let [m, n, k] = [self.m, self.n, self.k].map(f64::from);
        let of = |format: BlockScaledFormat, rows: u32| {
            (format.value_bytes((rows, self.k)) + format.scale_bytes((rows, self.k))) as f64
        };
        let output = with_output_type!(self.output, C => f64::from(C::BYTES));
        let bytes = of(self.format, self.m) + of(self.b_format.unwrap_or(self.format), self.n);
        Work { operations: 2.0 * m * n * k, bytes: bytes + m * n * output }
    }

    fn prepare(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        with_output_type!(self.output, C => self.prepare_typed::<C>(setup))
    }
}

impl ScaledGemmWorkload {
    fn prepare_typed<C: GemmOutput + HostNumber>(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        let (m, n, k) = (self.m, self.n, self.k);
        let (a, b) = (self.format, self.b_format.unwrap_or(self.format));
        let operations = Operations::new(setup.device());
        let gemm = Gemm::new(m, n, k).alpha(self.alpha);
        let algorithms = operations.block_scaled_algorithms::<C>(&gemm, a, b)?;
        let past = || format!("--rank {}: the ranks are 0 to {}", self.rank, algorithms.len() - 1);
        let algorithm = *algorithms.get(self.rank as usize).ok_or_else(|| Refused::new(past()))?;
        let buffers = setup.buffers(self.work(), |seed| {
            let of_b = Quantized::random(setup, b, (n, k), seed + 1)?;
            let c = setup.output::<C>(m as usize * n as usize)?;
            Ok((Quantized::random(setup, a, (m, k), seed)?, of_b, c))
        })?;
        let alpha = f64::from(self.alpha);
        Ok(buffers
            .launch(move |stream, (a, b, c)| {
                let gemm = gemm.algorithm(algorithm);
                Ok(operations.gemm(stream, &gemm, a.operand(), b.operand(), c)?)
            })
            .verify(move |(a, b, c)| {
                let [m, n, k] = [m, n, k].map(|extent| extent as usize);
                let (a, b) = (a.exact()?, b.exact()?);
                let of = |a: &[f64], b: &[f64]| {
                    let a = Strided { values: a, row_stride: k, column_stride: 1 };
                    product((m, n, k), a, Strided { values: b, row_stride: 1, column_stride: k })
                };
                let magnitudes = |values: &[f64]| values.iter().map(|value| value.abs()).collect::<Vec<_>>();
                // Sums are rounded once for each MMA.
                let sizes = of(&magnitudes(&a), &magnitudes(&b));
                let compared =
                    c.to_vec()?.into_iter().zip(of(&a, &b)).zip(sizes).map(|((found, sum), size)| {
                        let expected = alpha * sum;
                        let rounding = C::ROUNDING * expected.abs() * 1.01 + C::SMALLEST;
                        let tolerance = rounding + 2.0 * f32::ROUNDING * alpha.abs() * size;
                        Compared { found: found.exact(), expected, tolerance }
                    });
                Ok(compare(compared, |index| vec![index as usize / n, index as usize % n])?)
            }))
    }
}

/// Quantizes a matrix to MXFP8, MXFP6, MXFP4 or NVFP4.
#[derive(Clone, Debug, Options)]
pub(super) struct QuantizeWorkload {
    /// Rows.
    #[option(default = 1024, min = 1, max = 1 << 30)]
    m: u32,
    /// Columns: the k of a GEMM.
    #[option(default = 1024, min = 1, max = 1 << 30)]
    k: u32,
    /// Format of the result.
    format: BlockScaledFormat,
    /// Data type of the matrix.
    #[option(default = SourceType::bf16)]
    input: SourceType,
}

impl Workload for QuantizeWorkload {
    const NAME: &'static str = "quantize";

    fn work(&self) -> Work {
        let extents = (self.m, self.k);
        let input = with_source!(self.input, T => f64::from(T::BYTES));
        let output = (self.format.value_bytes(extents) + self.format.scale_bytes(extents)) as f64;
        Work { operations: 0.0, bytes: f64::from(self.m) * f64::from(self.k) * input + output }
    }

    fn prepare(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        with_source!(self.input, T => self.prepare_typed::<T>(setup))
    }
}

impl QuantizeWorkload {
    fn prepare_typed<T: QuantizeInput + HostNumber + Storable>(
        &self,
        setup: &Setup,
    ) -> Result<Box<dyn Prepared>> {
        let (extents, format) = ((self.m, self.k), self.format);
        let operations = Operations::new(setup.device());
        let buffers = setup.buffers(self.work(), |seed| {
            let from = setup.input(extents.0 as usize * extents.1 as usize, |length| {
                Random::new(seed).normal(length).into_iter().map(T::round).collect()
            })?;
            let (values, scales) = (format.value_bytes(extents), format.scale_bytes(extents));
            let outputs = (setup.output::<u8>(values)?, setup.output::<u8>(scales)?);
            Ok((from, outputs))
        })?;
        Ok(buffers
            .launch(move |stream, (from, (values, scales))| {
                Ok(operations.quantize(stream, extents, from, format, 1.0, values, scales)?)
            })
            .verify(move |(from, (values, scales))| {
                let numbers: Vec<f32> =
                    from.to_vec()?.into_iter().map(|value| value.exact() as f32).collect();
                let (expected, of_scales) = quantized(format, extents, &numbers, 1.0);
                exactly(&scales.to_vec()?, |index| f64::from(of_scales[index]))?;
                exactly(&values.to_vec()?, |index| f64::from(expected[index]))
            }))
    }
}

/// The magnitudes of a format in the order of their codes.
fn magnitudes(format: BlockScaledFormat) -> Vec<f64> {
    match format {
        BlockScaledFormat::Mxfp8E4m3 => (0..=0x7e).map(|code| e4m3::from_bits(code).exact()).collect(),
        BlockScaledFormat::Mxfp8E5m2 => (0..=0x7b).map(|code| e5m2::from_bits(code).exact()).collect(),
        BlockScaledFormat::Mxfp6E2m3 => small_magnitudes(3, 0),
        BlockScaledFormat::Mxfp6E3m2 => small_magnitudes(2, -2),
        BlockScaledFormat::Mxfp4 | BlockScaledFormat::Nvfp4 => small_magnitudes(1, 0),
    }
}

/// The magnitudes of a float without infinities and NaN: of 4 bits with one fraction bit, else of 6.
/// `exponent` is that of the smallest normal number.
fn small_magnitudes(fraction: u32, exponent: i32) -> Vec<f64> {
    let codes = if fraction == 1 { 8 } else { 32 };
    let steps = 1 << fraction;
    let magnitude = |code: i32| match code / steps {
        0 => f64::from(code) / f64::from(steps) * 2f64.powi(exponent),
        binade => (1.0 + f64::from(code % steps) / f64::from(steps)) * 2f64.powi(exponent + binade - 1),
    };
    (0..codes).map(magnitude).collect()
}

/// The code of the nearest of those magnitudes; of two, the even one.
fn nearest(magnitudes: &[f64], number: f64) -> u8 {
    let after = magnitudes.partition_point(|magnitude| *magnitude < number);
    if after == 0 || after == magnitudes.len() {
        return after.min(magnitudes.len() - 1) as u8;
    }
    let (below, above) = (number - magnitudes[after - 1], magnitudes[after] - number);
    let is_below = below < above || (below == above && after % 2 == 1);
    if is_below { after as u8 - 1 } else { after as u8 }
}

/// The elements and the scales of a matrix (rows, k), by search.
pub(crate) fn quantized(
    format: BlockScaledFormat,
    (rows, k): (u32, u32),
    numbers: &[f32],
    tensor_scale: f32,
) -> (Vec<u8>, Vec<u8>) {
    let (codes, block, bits) = (magnitudes(format), format.scales().block(), format.data_type().bits());
    let largest = codes[codes.len() - 1];
    let e4m3s = magnitudes(BlockScaledFormat::Mxfp8E4m3);
    let mut values = vec![0; format.value_bytes((rows, k))];
    let mut scales = vec![0; format.scale_bytes((rows, k))];
    for (row, at) in (0..rows).flat_map(|row| (0..k.div_ceil(block)).map(move |at| (row, at))) {
        let columns = at * block..k.min((at + 1) * block);
        let of_block: Vec<f32> =
            columns.clone().map(|column| numbers[row as usize * k as usize + column as usize]).collect();
        let is_finite = of_block.iter().all(|number| number.is_finite());
        let most = of_block.iter().fold(0f32, |most, number| most.max(number.abs()));
        let (scale, factor) = match format.scales() {
            ScaleFactors::Vec32Ue8m0 => {
                let power = (-127..=127).find(|power| f64::from(most) <= largest * 2f64.powi(*power));
                let power = power.unwrap_or(127);
                (if is_finite { (power + 127) as u8 } else { 0xff }, 2f64.powi(-power) as f32)
            }
            ScaleFactors::Vec16Ue4m3 => {
                let code = nearest(&e4m3s, f64::from(most / 6.0 / tensor_scale));
                let decoded = e4m3s[usize::from(code)] as f32 * tensor_scale;
                (if is_finite { code } else { 0x7f }, if decoded > 0.0 { 1.0 / decoded } else { 0.0 })
            }
        };
        scales[format.scale_index((row, at), k)] = scale;
        for (column, number) in columns.zip(of_block).filter(|_| is_finite) {
            let sign = u8::from(number.is_sign_negative()) << (bits - 1);
            let code = nearest(&codes, f64::from((number * factor).abs())) | sign;
            let bit = column * bits;
            let byte = row as usize * format.row_bytes(k) as usize + (bit / 8) as usize;
            let [low, high] = (u16::from(code) << (bit % 8)).to_le_bytes();
            values[byte] |= low;
            if high != 0 {
                values[byte + 1] |= high;
            }
        }
    }
    (values, scales)
}

#[cfg(test)]
mod tests {
    use warpwright::runtime::Device;

    use super::*;

    /// Zeros, ties, subnormal, huge, infinite and NaN numbers, blocks that are cut, and every scale.
    #[test]
    fn every_number_is_rounded_to_the_nearest() -> Result<()> {
        let device = Device::named("emu:a100")?;
        let (operations, stream) = (Operations::new(&device), device.stream()?);
        let (rows, k) = (67, 149);
        let mut numbers: Vec<f32> = Random::new(3).normal(rows as usize * k as usize);
        for (index, number) in numbers.iter_mut().enumerate() {
            // Magnitudes from block to block, and few bits, so that ties are frequent.
            let power = (index / 64) as i32 * 5 % 250 - 120;
            *number = (*number * 8.0).round() * 2f32.powi(power) / 8.0;
        }
        for (index, special) in
            [f32::NAN, f32::INFINITY, f32::MAX, f32::MIN_POSITIVE, 1e-45, -0.0].into_iter().enumerate()
        {
            numbers[index * 301] = special;
        }
        numbers[2000..2100].fill(0.0);
        for format in [
            BlockScaledFormat::Mxfp8E4m3,
            BlockScaledFormat::Mxfp8E5m2,
            BlockScaledFormat::Mxfp6E2m3,
            BlockScaledFormat::Mxfp6E3m2,
            BlockScaledFormat::Mxfp4,
            BlockScaledFormat::Nvfp4,
        ] {
            for (rows, k, tensor_scale) in [(rows, k, 1.0), (67, 96, 1.0), (67, 128, 1.0), (67, 128, 0.0625)]
            {
                let numbers = &numbers[..rows as usize * k as usize];
                let from = device.buffer_from(numbers)?;
                let mut values = device.uninitialized::<u8>(format.value_bytes((rows, k)))?;
                let mut scales = device.uninitialized::<u8>(format.scale_bytes((rows, k)))?;
                operations.quantize(
                    &stream,
                    (rows, k),
                    &from,
                    format,
                    tensor_scale,
                    &mut values,
                    &mut scales,
                )?;
                let expected = quantized(format, (rows, k), numbers, tensor_scale);
                assert_eq!(scales.to_vec()?, expected.1, "scales of {format:?}, k {k}");
                assert_eq!(values.to_vec()?, expected.0, "elements of {format:?}, k {k}");
            }
        }
        Ok(())
    }
}
