//! GEMMs of MXFP8, MXFP6, MXFP4 and NVFP4: every algorithm, batches, epilogues, and what is refused.
//!
//! The numbers are those of e2m1 times a power of two for each block, which quantize without loss in
//! every format, and whose sums are exact: results must be equal.

use warpwright::runtime::{Buffer, Device, Schedule, Storable, Stream};
use warpwright_kernels::gemm::Gemm;
use warpwright_kernels::gemm::device::mainloop::mma_sync::MmaSyncConfiguration;
use warpwright_kernels::gemm::host::config::Algorithm;
use warpwright_kernels::gemm::problem::batching::{Batch, Problem};
use warpwright_kernels::gemm::problem::block_scaled::BlockScaled;
use warpwright_kernels::gemm::problem::block_scaled::BlockScaledFormat::{
    self, Mxfp4, Mxfp6E2m3, Mxfp6E3m2, Mxfp8E4m3, Mxfp8E5m2, Nvfp4,
};
use warpwright_kernels::gemm::problem::epilogue::Activation;
use warpwright_kernels::gemm::problem::types::{GemmOutput, MatrixLayout};
use warpwright_kernels::operations::Operations;
use warpwright_testing::{in_threads, one_in};

use crate::emulated::{blackwell, geforce};
use crate::matrices::whole;
use crate::products::{compare, multiplied};

type Outcome = Result<(), Box<dyn std::error::Error>>;

const PAIRS: [(BlockScaledFormat, BlockScaledFormat); 9] = [
    (Mxfp8E4m3, Mxfp8E4m3),
    (Mxfp8E4m3, Mxfp8E5m2),
    (Mxfp8E5m2, Mxfp8E4m3),
    (Mxfp6E2m3, Mxfp6E2m3),
    (Mxfp6E2m3, Mxfp6E3m2),
    (Mxfp6E3m2, Mxfp8E4m3),
    (Mxfp8E5m2, Mxfp6E2m3),
    (Mxfp4, Mxfp4),
    (Nvfp4, Nvfp4),
];

/// Numbers of e2m1 with a power of two for each 16 of a row, whose first has the largest.
fn numbers(rows: u32, k: u32, seed: u64) -> Vec<f32> {
    let columns = k as usize;
    let steps = whole(rows as usize * columns, seed);
    let number = |(at, step): (usize, f32)| {
        let (row, column) = (at / columns, at % columns);
        let power = [0.5, 1.0, 2.0][(row + column / 32) % 3];
        power * if column % 16 == 0 { 6.0 } else { step * 1.5 }
    };
    steps.into_iter().enumerate().map(number).collect()
}

/// Quantized matrices on a device, one after another.
struct Operand {
    format: BlockScaledFormat,
    values: Buffer<u8>,
    scales: Buffer<u8>,
}

impl Operand {
    fn new(
        operations: &Operations,
        stream: &Stream,
        format: BlockScaledFormat,
        (rows, k): (u32, u32),
        matrices: &[Vec<f32>],
    ) -> Result<Self, Box<dyn std::error::Error>> {
        let device = operations.device();
        let (mut all_values, mut all_scales) = (Vec::new(), Vec::new());
        for matrix in matrices {
            let mut values = device.uninitialized::<u8>(format.value_bytes((rows, k)))?;
            let mut scales = device.uninitialized::<u8>(format.scale_bytes((rows, k)))?;
            let from = device.buffer_from(matrix)?;
            operations.quantize(stream, (rows, k), &from, format, 1.0, &mut values, &mut scales)?;
            all_values.extend(values.to_vec()?);
            all_scales.extend(scales.to_vec()?);
        }
        Ok(Self {
            format,
            values: device.buffer_from(&all_values)?,
            scales: device.buffer_from(&all_scales)?,
        })
    }

    fn narrow(&self) -> BlockScaled<'_> {
        BlockScaled { format: self.format, values: &self.values, scales: &self.scales }
    }
}

/// Every `share`-th algorithm of a shape and its formats.
fn check<C: GemmOutput + Storable>(
    device: &Device,
    (m, n, k): (u32, u32, u32),
    (a, b): (BlockScaledFormat, BlockScaledFormat),
    share: usize,
    to_f32: fn(C) -> f32,
) -> Outcome {
    let algorithms = Operations::new(device).block_scaled_algorithms::<C>(&Gemm::new(m, n, k), a, b)?;
    assert!(algorithms.len() > 8, "{} algorithms", algorithms.len());
    check_algorithms(device, (m, n, k), (a, b), one_in(share, algorithms), to_f32)
}

fn check_algorithms<C: GemmOutput + Storable>(
    device: &Device,
    (m, n, k): (u32, u32, u32),
    (a, b): (BlockScaledFormat, BlockScaledFormat),
    algorithms: impl IntoIterator<Item = Algorithm>,
    to_f32: fn(C) -> f32,
) -> Outcome {
    let (operations, stream) = (Operations::new(device), device.stream()?);
    let (of_a, of_b) = (numbers(m, k, 1), numbers(n, k, 2));
    let expected = multiplied(Problem::new(m, n, k), &of_a, &of_b);
    let left = Operand::new(&operations, &stream, a, (m, k), &[of_a])?;
    let right = Operand::new(&operations, &stream, b, (n, k), &[of_b])?;
    let gemm = Gemm::new(m, n, k);
    for algorithm in algorithms {
        let mut c = device.uninitialized::<C>(m as usize * n as usize)?;
        operations.gemm(&stream, &gemm.algorithm(algorithm), left.narrow(), right.narrow(), &mut c)?;
        compare(&c, to_f32, &expected, &format!("{a:?} x {b:?} by {algorithm}"))?;
    }
    Ok(())
}

#[test]
fn every_algorithm_of_every_format_is_right() -> Outcome {
    let devices = [
        blackwell(Schedule::Eager)?,
        blackwell(Schedule::Latest)?,
        blackwell(Schedule::Random(3))?.checked()?,
    ];
    for (turn, formats) in PAIRS.into_iter().enumerate() {
        let shape = [(130, 136, 300), (5, 264, 520), (129, 1, 33)][turn % 3];
        check::<f32>(&devices[turn % 3], shape, formats, 17, |found| found)?;
    }
    Ok(())
}

#[test]
#[ignore = "a quarter of an hour long: every algorithm of every format at every shape"]
fn every_algorithm_of_every_format_is_right_at_every_shape() {
    const SHAPES: [(u32, u32, u32); 5] =
        [(130, 136, 300), (5, 264, 520), (129, 1, 33), (257, 129, 64), (300, 520, 1)];
    let all = PAIRS.into_iter().flat_map(|formats| SHAPES.map(|shape| (formats, shape)));
    in_threads(all, |(formats, shape)| {
        let device = blackwell(Schedule::Random(5)).and_then(Device::checked).expect("an emulated device");
        check::<f32>(&device, shape, formats, 1, |found| found).expect("every algorithm is right");
    });
}

/// Every tile by `mma.sync` with scales, at depths with whole and with cut tiles of scales.
#[test]
fn mma_sync_with_scales_is_right() -> Outcome {
    let devices =
        [geforce(Schedule::Eager)?, geforce(Schedule::Latest)?, geforce(Schedule::Random(3))?.checked()?];
    let tiles = MmaSyncConfiguration::all(devices[0].properties().capability);
    for (turn, formats) in PAIRS.into_iter().enumerate() {
        for (shape, first) in
            [(130, 136, 300), (5, 264, 544), (129, 1, 33), (128, 128, 256)].into_iter().zip(0..)
        {
            let algorithms = tiles.iter().skip(first).step_by(5).map(|tile| Algorithm::MmaSync(*tile));
            check_algorithms::<f32>(&devices[(turn + first) % 3], shape, formats, algorithms, |found| found)?;
        }
    }
    Ok(())
}

#[test]
fn batches_and_epilogues_are_right() -> Outcome {
    batches(blackwell(Schedule::Random(1))?, &[Mxfp8E4m3, Mxfp6E2m3, Nvfp4])?;
    batches(geforce(Schedule::Random(1))?, &[Mxfp8E4m3, Mxfp6E3m2, Nvfp4])
}

/// Each product has scales of its own, and all have one B.
fn batches(device: Device, formats: &[BlockScaledFormat]) -> Outcome {
    let (operations, stream) = (Operations::new(&device), device.stream()?);
    let (m, n, k, count) = (33, 72, 70, 3);
    let (bias, of_b) = (whole(n as usize * 3, 9), numbers(n, k, 4));
    let biases = device.buffer_from(&bias)?;
    for &format in formats {
        let all: Vec<_> = (0..count).map(|number| numbers(m, k, 10 + number)).collect();
        let a = Operand::new(&operations, &stream, format, (m, k), &all)?;
        let b = Operand::new(&operations, &stream, format, (n, k), std::slice::from_ref(&of_b))?;
        let batch = Batch::new(Problem::new(m, n, k), count as u32).sharing_b();
        let gemm = Gemm::from(batch).alpha(0.25).bias(&biases).activation(Activation::Relu);
        let mut c = device.buffer_from(&vec![f32::NAN; (m * n) as usize * count as usize])?;
        operations.gemm(&stream, &gemm, a.narrow(), b.narrow(), &mut c)?;
        let sums = all.iter().flat_map(|a| multiplied(Problem::new(m, n, k), a, &of_b));
        let expected = sums.enumerate().map(|(index, sum)| {
            let (product, column) = (index / (m * n) as usize, index % n as usize);
            (0.25 * sum + bias[product * n as usize + column]).max(0.0)
        });
        compare(&c, |found| found, &expected.collect::<Vec<_>>(), &format!("a batch of {format:?}"))?;
    }
    Ok(())
}

#[test]
fn refusals_name_the_rule() -> Outcome {
    let device = blackwell(Schedule::Eager)?;
    let (operations, stream) = (Operations::new(&device), device.stream()?);
    let of = |format| Operand::new(&operations, &stream, format, (16, 32), &[numbers(16, 32, 1)]);
    let (mx, nv) = (of(Mxfp8E4m3)?, of(Nvfp4)?);
    let mut c = device.zeros::<f32>(256)?;
    let gemm = Gemm::new(16, 16, 32);
    let offsets = device.buffer_from(&[0u32, 16])?;
    let row_major = gemm.layouts(MatrixLayout::RowMajor, MatrixLayout::RowMajor);
    let strided = Gemm::from(Batch::new(Problem::new(16, 16, 32), 2)).strides(513, 512, 256);
    for (gemm, a, b, reason) in [
        (gemm, &mx, &nv, "MXFP8 and NVFP4 operands do not multiply: use MXFP8 or MXFP6 for both"),
        (row_major, &mx, &mx, "need a contiguous k: use a row-major A and a column-major B"),
        (
            gemm.along_m(&offsets),
            &mx,
            &mx,
            "have no groups along m, and no groups of unlike problems: use a batch",
        ),
        (strided, &mx, &mx, "operands of a batch have no gaps"),
        (Gemm::new(16, 16, 64), &mx, &mx, "A: expected a length of 1024, found 512"),
        (Gemm::new(200, 16, 16), &mx, &mx, "A: expected a length of 6400, found 512"),
    ] {
        let outcome = operations.gemm(&stream, &gemm, a.narrow(), b.narrow(), &mut c);
        let words = outcome.map(|_| ()).expect_err(reason).to_string();
        assert!(words.contains(reason), "{words}");
    }
    let hopper = Device::named("emu:h200")?;
    let (there, stream) = (Operations::new(&hopper), hopper.stream()?);
    let operand = Operand::new(&there, &stream, Nvfp4, (16, 32), &[numbers(16, 32, 1)])?;
    let mut c = hopper.zeros::<f32>(256)?;
    let outcome = there.gemm(&stream, &gemm, operand.narrow(), operand.narrow(), &mut c);
    let words = outcome.map(|_| ()).expect_err("no tcgen05 there").to_string();
    assert!(words.contains("mma.sync with scales (sm_120a), and the device is sm_90a"), "{words}");
    Ok(())
}
