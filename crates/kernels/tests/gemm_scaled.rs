//! The GEMM whose blocks have scales: every way, granularity, type and schedule against the product of what the operands stand for.

use warpwright::prelude::*;
use warpwright::runtime::{Buffer, Device, Schedule, Storable};
use warpwright_kernels::gemm::GemmOutput;
use warpwright_kernels::gemm::multiply::Product;
use warpwright_kernels::gemm::multiply_scaled::{Granularities, Narrow, Scaled, ScaledWay};
use warpwright_kernels::gemm::plan::Shape;
use warpwright_kernels::gemm::scales::Granularity::{self, Block, Row};
use warpwright_kernels::operations::{OperationError, Operations};

type Outcome = Result<(), Box<dyn std::error::Error>>;

const ALL: [Granularities; 4] = [(Row, Block), (Row, Row), (Block, Block), (Block, Row)];

/// Pseudorandom numbers below `limit`.
fn numbers(count: usize, seed: u64, limit: u64) -> Vec<u64> {
    let mut state = seed;
    let mut next = || {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 33) % limit
    };
    (0..count).map(|_| next()).collect()
}

/// An operand (rows, k) on the host, and what its elements stand for.
struct Operand {
    granularity: Granularity,
    values: Vec<f32>,
    scales: Vec<f32>,
    meant: Vec<f64>,
}

impl Operand {
    /// Small whole numbers, scaled by powers of two: whatever is summed, in whatever order, is exact.
    fn exact(granularity: Granularity, (rows, k): (u32, u32), seed: u64) -> Self {
        let scale = |number: u64| f32::from_bits((125 + number as u32) << 23);
        let scales = numbers(granularity.count((rows, k)), seed, 5).into_iter().map(scale).collect();
        let values = numbers((rows * k) as usize, seed + 1, 5).into_iter().map(|value| value as f32 - 2.0);
        Self::new(granularity, (rows, k), values.collect(), scales)
    }

    fn new(granularity: Granularity, (rows, k): (u32, u32), values: Vec<f32>, scales: Vec<f32>) -> Self {
        let meant = values.iter().enumerate().map(|(at, &value)| {
            let (row, column) = (at as u32 / k, at as u32 % k);
            f64::from(value) * f64::from(scales[granularity.index((row, column), (rows, k))])
        });
        Self { granularity, meant: meant.collect(), values, scales }
    }
}

/// A product of operands on a device, and what it should be.
struct Case<T, C> {
    product: Product,
    granularities: Granularities,
    expected: Vec<f64>,
    a: (Buffer<T>, Buffer<f32>),
    b: (Buffer<T>, Buffer<f32>),
    c: Buffer<C>,
}

impl<T: Narrow, C: GemmOutput + Storable> Case<T, C> {
    fn new(
        device: &Device,
        (m, n, k): (u32, u32, u32),
        (a, b): (Operand, Operand),
        input: impl Fn(f32) -> T,
        before: C,
    ) -> Result<Self, Box<dyn std::error::Error>> {
        let mut expected = Vec::new();
        for row in a.meant.chunks(k as usize) {
            for column in b.meant.chunks(k as usize) {
                expected.push(row.iter().zip(column).map(|(a, b)| a * b).sum());
            }
        }
        let there = |operand: &Operand| -> Result<_, warpwright::runtime::Error> {
            let values: Vec<T> = operand.values.iter().map(|&value| input(value)).collect();
            Ok((device.buffer_from(&values)?, device.buffer_from(&operand.scales)?))
        };
        Ok(Self {
            product: Product::new(m, n, k),
            granularities: (a.granularity, b.granularity),
            expected,
            a: there(&a)?,
            b: there(&b)?,
            c: device.buffer_from(&vec![before; m as usize * n as usize])?,
        })
    }

    /// All ways to compute it.
    fn ways(&self, device: &Device) -> Vec<ScaledWay> {
        let Product { m, n, k, .. } = self.product;
        let shape = Shape { batch: 1, m, n, k, input_bytes: T::BYTES, output_bytes: C::BYTES };
        ScaledWay::all(shape, self.granularities, device.properties().sm_count)
    }

    /// Multiplies, twice, so that what the first left in the workspace is met by the second; and compares.
    fn check(
        &mut self,
        device: &Device,
        operations: &Operations,
        way: ScaledWay,
        of: impl Fn(C) -> f64,
    ) -> Outcome {
        let stream = device.stream()?;
        let a = Scaled { values: &self.a.0, scales: &self.a.1, granularity: self.granularities.0 };
        let b = Scaled { values: &self.b.0, scales: &self.b.1, granularity: self.granularities.1 };
        for _ in 0..2 {
            operations.multiply_scaled_by(&stream, self.product, way, a, b, &mut self.c)?;
        }
        let found: Vec<f64> = self.c.to_vec()?.into_iter().map(of).collect();
        let wrong = found.iter().zip(&self.expected).position(|(found, expected)| found != expected);
        let columns = self.product.n as usize;
        assert_eq!(
            wrong.map(|index| (index / columns, index % columns, found[index], self.expected[index])),
            None,
            "(row, column, found, expected) of {:?}, {:?} by {way}",
            self.product,
            self.granularities
        );
        Ok(())
    }
}

fn exact_case<T: Narrow, C: GemmOutput + Storable>(
    device: &Device,
    (m, n, k): (u32, u32, u32),
    granularities: Granularities,
    input: impl Fn(f32) -> T,
    before: C,
) -> Result<Case<T, C>, Box<dyn std::error::Error>> {
    let a = Operand::exact(granularities.0, (m, k), 3);
    let b = Operand::exact(granularities.1, (n, k), 5);
    Case::new(device, (m, n, k), (a, b), input, before)
}

fn hopper(schedule: Schedule) -> Result<Device, Box<dyn std::error::Error>> {
    Ok(Device::emulated(warpwright::arch::Arch::named("h200")?, schedule)?)
}

#[test]
fn every_way_is_right_with_every_granularity() -> Outcome {
    for (turn, (schedule, extents)) in [
        (Schedule::Eager, (200, 328, 400)),
        (Schedule::Latest, (5, 264, 1040)),
        (Schedule::Random(7), (72, 520, 272)),
        (Schedule::Random(8), (1, 131, 16)),
    ]
    .into_iter()
    .enumerate()
    {
        let device = hopper(schedule)?;
        let operations = Operations::new(&device);
        for (offset, granularities) in ALL.into_iter().enumerate() {
            let mut case =
                exact_case::<e4m3, f32>(&device, extents, granularities, e4m3::from_f32, f32::NAN)?;
            let ways = case.ways(&device);
            assert!(ways.len() >= 8, "{} ways", ways.len());
            // Each way meets each granularity in one of the shapes.
            for way in ways.into_iter().skip((turn + offset) % 4).step_by(4) {
                case.check(&device, &operations, way, f64::from)?;
            }
        }
    }
    Ok(())
}

#[test]
fn every_type_is_right() -> Outcome {
    let device = Device::named("emu:h200")?;
    let operations = Operations::new(&device);
    let extents = (136, 200, 304);
    let mut case = exact_case(&device, extents, (Row, Block), e5m2::from_f32, bf16::NAN)?;
    case.expected.iter_mut().for_each(|sum| *sum = f64::from(bf16::from_f32(*sum as f32)));
    for way in case.ways(&device) {
        case.check(&device, &operations, way, f64::from)?;
    }
    let mut case = exact_case(&device, extents, (Row, Row), e4m3::from_f32, f16::NAN)?;
    case.expected.iter_mut().for_each(|sum| *sum = f64::from(f16::from_f32(*sum as f32)));
    for way in case.ways(&device) {
        case.check(&device, &operations, way, f64::from)?;
    }
    Ok(())
}

#[test]
fn every_way_is_clean_under_the_checkers() -> Outcome {
    let device = hopper(Schedule::Random(3))?.checked()?;
    let operations = Operations::new(&device);
    for granularities in [(Row, Block), (Block, Row)] {
        let extents = (72, 200, 304);
        let mut case = exact_case::<e4m3, f32>(&device, extents, granularities, e4m3::from_f32, f32::NAN)?;
        for way in case.ways(&device) {
            case.check(&device, &operations, way, f64::from)?;
        }
    }
    Ok(())
}

/// Long sums lose what the tensor cores lose inside of blocks, and no more: a sixth of the limit for a sum that never leaves them.
#[test]
fn sums_between_blocks_are_as_exact_as_f32() -> Outcome {
    let device = Device::named("emu:h200")?;
    let (operations, stream) = (Operations::new(&device), device.stream()?);
    let (m, n, k) = (64, 72, 4096);
    let operand = |granularity: Granularity, rows, seed| {
        let values = numbers((rows * k) as usize, seed, 256).into_iter().map(|bits| {
            let value = e4m3::from_bits(bits as u8).to_f32();
            if value.is_nan() { 1.0 } else { value }
        });
        let scales = numbers(granularity.count((rows, k)), seed + 1, 1000);
        let scales = scales.into_iter().map(|number| 0.001 + number as f32 / 1000.0);
        Operand::new(granularity, (rows, k), values.collect(), scales.collect())
    };
    let operands = (operand(Row, m, 11), operand(Block, n, 13));
    // The size of a block's sums: four times the deviation of a sum of its terms with random signs.
    let size = |a: &[f64], b: &[f64]| 4.0 * a.iter().zip(b).map(|(a, b)| (a * b).powi(2)).sum::<f64>().sqrt();
    let mut sizes = Vec::new();
    for row in operands.0.meant.chunks(k as usize) {
        for column in operands.1.meant.chunks(k as usize) {
            sizes.push(row.chunks(128).zip(column.chunks(128)).map(|(a, b)| size(a, b)).sum::<f64>());
        }
    }
    let mut case = Case::<e4m3, f32>::new(&device, (m, n, k), operands, e4m3::from_f32, f32::NAN)?;
    let (a, b) = (Scaled::by_row(&case.a.0, &case.a.1), Scaled::by_block(&case.b.0, &case.b.1));
    operations.multiply_scaled(&stream, case.product, a, b, &mut case.c)?;
    for (index, found) in case.c.to_vec()?.into_iter().enumerate() {
        let error = (f64::from(found) - case.expected[index]).abs();
        // A block is four steps of the tensor cores, which keep 13 bits of its size (measured on an H200).
        let limit = 4.0 * sizes[index] / 8192.0;
        assert!(error <= limit, "{found} at {index}, not {}: off by {error}", case.expected[index]);
    }
    Ok(())
}

#[test]
fn what_cannot_be_multiplied_is_refused_in_words() -> Outcome {
    let device = Device::named("emu:h200")?;
    let (operations, stream) = (Operations::new(&device), device.stream()?);
    let values = device.buffer_from(&[e4m3::from_f32(1.0); 64 * 32])?;
    let scales = device.buffer_from(&[1f32; 64])?;
    let mut c = device.buffer_from(&[0f32; 64 * 64])?;
    let mut refused = |product, a, b| {
        let outcome: Result<_, OperationError> = operations.multiply_scaled(&stream, product, a, b, &mut c);
        outcome.map(|_| ()).expect_err("it is refused").to_string()
    };
    let (a, b) = (Scaled::by_row(&values, &scales), Scaled::by_block(&values, &scales));
    let words = refused(Product::new(64, 64, 32), a, b);
    assert_eq!(words, "B's scales has 64 elements where 4 are needed");
    let words = refused(Product::new(64, 64, 33), a, b);
    assert!(words.contains("k is 33") && words.contains("multiple of 16"), "{words}");
    let words =
        refused(Product { b: warpwright_kernels::gemm::Order::RowMajor, ..Product::new(64, 64, 32) }, a, b);
    assert!(words.contains("B column-major"), "{words}");
    let words = refused(Product::new(64, 32, 32), a, a);
    assert_eq!(words, "B has 2048 elements where 1024 are needed");
    let ampere = Device::named("emu:a100")?;
    let (operations, stream) = (Operations::new(&ampere), ampere.stream()?);
    let (values, scales) = (ampere.uninitialized::<e4m3>(16)?, ampere.uninitialized::<f32>(4)?);
    let mut c = ampere.uninitialized::<f32>(1)?;
    let a = Scaled::by_row(&values, &scales);
    let outcome = operations.multiply_scaled(&stream, Product::new(1, 1, 16), a, a, &mut c);
    assert!(outcome.expect_err("no wgmma there").to_string().contains("the device is sm_80"));
    Ok(())
}

#[test]
fn nothing_to_multiply_leaves_zeros_or_nothing() -> Outcome {
    let device = Device::named("emu:h200")?;
    let (operations, stream) = (Operations::new(&device), device.stream()?);
    let (values, scales) = (device.uninitialized::<e4m3>(0)?, device.uninitialized::<f32>(0)?);
    let none = Scaled::by_row(&values, &scales);
    let mut c = device.buffer_from(&[7f32; 64])?;
    operations.multiply_scaled(&stream, Product::new(8, 8, 0), none, none, &mut c)?;
    assert_eq!(c.to_vec()?, [0.0; 64]);
    let mut c = device.uninitialized::<f32>(0)?;
    operations.multiply_scaled(&stream, Product::new(0, 0, 16), none, none, &mut c)?;
    Ok(())
}
