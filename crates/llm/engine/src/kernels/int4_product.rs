//! y (rows, n) = x (rows, k) · Wᵀ with int4 weights W (n, k), by the tensor cores of sm_90a: for more rows
//! than a GEMV takes.
//!
//! ```text
//! producer      TMA: 128 weights of each of 64 rows of W, and the same k of all rows of x
//! consumers     two warpgroups, which take k-blocks in turn: words of W to bf16 in registers, A of wgmma; B is x
//! end           the second warpgroup's accumulators are added to those of the first
//!
//! a word of W   k 0 1 | 2 3 | 4 5 | 6 7      byte t has the weights that lane t of a quad multiplies
//! ```
//!
//! Weights depend on no kernel: the first stages have them before the predecessor ends.

use warpwright::layout::Error;
use warpwright::layout::atom::{Major, SharedSwizzle};
use warpwright::prelude::*;
use warpwright::runtime::{Buffer, Launch, Stream, TileMaps};
use warpwright_kernels::gemm::problem::error::GemmError;
use warpwright_kernels::operations::{Operations, Result, expect_length};

use crate::number::Number;

/// Rows of W of a CTA.
const TILE: u32 = 64;
/// Weights of a row in a stage.
const DEPTH: u32 = 128;
/// Weights of a row that share a scale: those of 16 bytes.
const GROUP: u32 = 32;
/// Groups of a stage.
const GROUPS: u32 = DEPTH / GROUP;
/// Words of a group.
const WORDS: u32 = GROUP / 8;
/// Warpgroups that multiply.
const CONSUMERS: u32 = 2;
/// Threads of a warpgroup.
const WARPGROUP: u32 = 128;
/// The most rows of x.
pub(crate) const MAX_ROWS: u32 = 128;
/// Rows of x with which an SM has registers for two CTAs (72 and 96 a thread for 16 and 64 rows, ptxas 13.0).
const ROWS_OF_TWO: u32 = 32;
/// Shared memory of an SM for stages.
const SHARED_BYTES: u32 = 216 << 10;

/// More stages hide no more latency.
const MAX_STAGES: u32 = 12;

/// The table of `lop3` of (a & b) | c.
const AND_OR: u8 = 0xea;
/// A pair of 128 in bf16, whose next numbers are one apart.
const PAIR_OF_128: u32 = 0x4300_4300;

/// The kernel and its configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Int4Product {
    /// Rows of x, padded.
    columns: u32,
    stages: u32,
    /// Whether the products are added to y.
    adds: bool,
}

/// The scales and zero points of a row's groups in a k-block.
#[derive(Clone, Copy, DeviceValue)]
struct Factors {
    scales: [Reg<u32>; 2],
    zero_points: Reg<u32>,
}

impl Int4Product {
    fn new(rows: u32, adds: bool) -> Self {
        let columns = rows.next_power_of_two().clamp(16, MAX_ROWS);
        let (stage, exchanged) = (TILE * DEPTH / 2 + columns * DEPTH * 2, TILE * columns * 4);
        let available = if columns <= ROWS_OF_TWO { SHARED_BYTES / 2 } else { SHARED_BYTES };
        Self { columns, stages: ((available - exchanged) / stage).min(MAX_STAGES), adds }
    }

    /// Bytes of W in a stage.
    fn weight_tile() -> Result<TmaTile, Error> {
        TmaTile::with_swizzle::<u8>((TILE, DEPTH / 2), Major::K, SharedSwizzle::Bytes64)
    }

    /// The rows of x in a stage.
    fn x_tile(&self) -> Result<TmaTile, Error> {
        TmaTile::new::<bf16>((self.columns, DEPTH), Major::K)
    }

    /// `scales` and `zero_points` are (n, k / 32), `y` (rows, n).
    #[kernel]
    fn run<U: Number>(
        &self,
        weights: &TensorMap,
        x: &TensorMap,
        scales: &Global<bf16>,
        zero_points: &Global<u8>,
        y: &mut Global<U>,
        n: u32,
        k: u32,
        rows: u32,
    ) {
        let [producer, consumer] = roles([warpgroups(1), warpgroups(CONSUMERS)]);
        let mut stages = Pipeline::stages(self.stages);
        let of_w = stages.operand::<u8>(Self::weight_tile());
        let of_x = stages.operand::<bf16>(self.x_tile());
        let pipeline = stages.connect(consumer, ConsumerSchedule::Cooperative, ClusterGrid::new((1, 1)));
        let exchanged = dynamic_shared_aligned::<f32>(TILE * self.columns, 16);
        let (first, k_blocks) = (block_idx().x * TILE, k / DEPTH);
        if producer.is_mine() {
            producer.begin();
            if producer.leads() {
                let mut pipeline = pipeline.producer();
                let loads = |block: Reg<u32>| {
                    let of_w = of_w.load(weights, (first, block * (DEPTH / 2)), None);
                    [of_w, of_x.load(x, (constant(0u32), block * DEPTH), None)]
                };
                let begun = k_blocks.min(self.stages);
                for stage in constant(0u32)..begun {
                    let [of_w, of_x] = loads(stage);
                    pipeline.load_ahead(stage, &[of_w], &[of_x]);
                }
                launch::grid_dependency_wait();
                launch::grid_dependency_launch();
                for stage in constant(0u32)..begun {
                    let [_, of_x] = loads(stage);
                    pipeline.load_others(&[of_x]);
                }
                for block in begun..k_blocks {
                    pipeline.load(loads(block));
                }
                pipeline.tail();
            }
        } else {
            consumer.begin();
            launch::grid_dependency_wait();
            launch::grid_dependency_launch();
            let mut pipeline = pipeline.consumer();
            let mma = TiledMma::warpgroups(format!("SM90_64x{}x16_F32BF16BF16_RS", self.columns).as_str(), 1);
            let (thread, turn) = (consumer.thread() % WARPGROUP, consumer.warpgroup());
            let part = mma.thread(thread);
            let mut accumulators: Fragment<f32> = part.c_fragment((TILE, self.columns));
            let mut a: Fragment<bf16> = part.a_fragment((TILE, DEPTH));
            let b = mma.b_operand(of_x.tensor());
            accumulators.clear();
            let row = thread / 32 * 16 + thread % 32 / 4;
            let of_rows: Vec<Reg<u64>> =
                [0, 8].map(|half| (first + row + half).min(n - 1).mul_wide(k / GROUP)).to_vec();
            let factors_of = |block: Reg<u32>| -> Vec<Factors> {
                let block = block.min(k_blocks - 1) * GROUPS;
                let of_row = |of_row: &Reg<u64>| {
                    let at = *of_row + block.convert::<u64>();
                    let scales = scales.at(at).cast::<u32>().load_vector::<2>();
                    Factors { scales, zero_points: zero_points.at(at).cast::<u32>().load() }
                };
                of_rows.iter().map(of_row).collect()
            };
            let mut factors = factors_of(turn);
            for block in constant(0u32)..k_blocks {
                let stage = pipeline.wait();
                if (block % CONSUMERS).eq(turn) {
                    let later = factors_of(block + CONSUMERS);
                    let of_stage = of_w.memory().at(stage.index() * (TILE * DEPTH / 2));
                    for half in 0..2u32 {
                        let (row, of_row) = (row + 8 * half, factors[half as usize]);
                        for group in 0..GROUPS {
                            // The 64-byte swizzle of TMA.
                            let piece = (row / 2 % 4) ^ group;
                            let from = of_stage.at(row * (DEPTH / 2) + piece * (DEPTH / 2 / GROUPS));
                            let words = from.cast::<u32>().load_vector::<4>();
                            let (scale, zero) = of_row.of_group(group);
                            for (index, word) in (group * WORDS..).zip(words) {
                                let pair = pair_of(word, thread % 4);
                                let pair = (pair - zero) * scale;
                                let at = index / 2 * 8 + index % 2 * 4 + 2 * half;
                                a.set_word(at, pair.bit_cast::<u32>());
                            }
                        }
                    }
                    factors = later;
                    multiply(&mma, &mut accumulators, &a, &b.slice((All, All, stage)), Accumulate::Yes);
                    wait_multiplications(0);
                    consumer.sync_warpgroup();
                }
                pipeline.release();
            }
            let exchanged = exchanged.at(thread);
            if turn.ne(0u32) {
                for i in 0..accumulators.len() {
                    exchanged.at(i * WARPGROUP).store(accumulators.get(i));
                }
            }
            consumer.sync();
            if turn.eq(0u32) {
                for i in 0..accumulators.len() {
                    let row = first + row + i / 2 % 2 * 8;
                    let column = thread % 4 * 2 + (i / 4 * 8 + i % 2);
                    if row.lt(n) & column.lt(rows) {
                        let to = y.at(column.mul_wide(n)).at(row);
                        let mut sum = accumulators.get(i) + exchanged.at(i * WARPGROUP).load();
                        if self.adds {
                            sum = sum + to.load().convert::<f32>();
                        }
                        to.store(sum.convert::<U>());
                    }
                }
            }
        }
    }
}

#[device]
impl Factors {
    /// The scale of a group, and 128 more than its zero point: pairs.
    fn of_group(&self, group: u32) -> (Reg<bf16x2>, Reg<bf16x2>) {
        let word = self.scales[group as usize / 2];
        let scale = word.prmt(word, if group % 2 == 0 { 0x1010u32 } else { 0x3232 });
        let zero = self.zero_points.prmt(0u32, 0x4440 + group) * 0x0001_0001u32 + PAIR_OF_128;
        (scale.bit_cast(), zero.bit_cast())
    }
}

/// The two weights of a byte of a word, each 128 more.
#[device]
fn pair_of(word: Reg<u32>, byte: Reg<u32>) -> Reg<bf16x2> {
    let byte = word.prmt(0u32, byte + 0x4440u32);
    (byte * 0x1001u32).lop3(0x000f_000fu32, PAIR_OF_128, AND_OR).bit_cast()
}

/// Whether the kernel multiplies that many rows of x with rows of `k` weights.
pub(crate) fn takes(operations: &Operations, rows: u32, k: u32) -> bool {
    let has_wgmma = operations.device().properties().capability.target == "sm_90a";
    has_wgmma && rows <= MAX_ROWS && k.is_multiple_of(DEPTH)
}

/// Weights (n, k) with a scale and a zero point for each 32.
#[derive(Clone, Copy)]
pub(crate) struct Int4Weights<'l> {
    pub(crate) n: u32,
    pub(crate) k: u32,
    pub(crate) weights: &'l Buffer<u8>,
    pub(crate) scales: &'l Buffer<bf16>,
    pub(crate) zero_points: &'l Buffer<u8>,
}

/// y = x Wᵀ, or y += x Wᵀ, where the kernel [takes] the shape.
pub(crate) fn int4_product<U: Number>(
    (operations, stream): (&Operations, &Stream),
    Int4Weights { n, k, weights, scales, zero_points }: Int4Weights<'_>,
    x: &Buffer<bf16>,
    (y, adds): (&mut Buffer<U>, bool),
) -> Result<()> {
    let rows = (x.len() / k as usize) as u32;
    expect_length("the output of a product", rows as usize * n as usize, y.len())?;
    if rows == 0 || n == 0 {
        return Ok(());
    }
    let product = Int4Product::new(rows, adds);
    let weights =
        TileMaps::new((n.into(), (k / 2).into()), &Int4Product::weight_tile().map_err(GemmError::from)?)?
            .of(weights)?;
    let x = TileMaps::new((rows.into(), k.into()), &product.x_tile().map_err(GemmError::from)?)?.of(x)?;
    let kernel = operations.kernel(product, Int4Product::run::<U>)?;
    let shape: Launch = kernel.shape(n.div_ceil(TILE)).overlapping();
    kernel.launch(stream, shape, (&weights, &x, scales, zero_points, y, n, k, rows))?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use warpwright::emulator::Schedule;
    use warpwright::runtime::Device;

    use super::*;

    /// Any numbers of rows and of results, one stage and several rounds of stages, stored and added.
    #[test]
    fn products_are_those_of_dequantized_weights() {
        for (rows, n, k, adds) in
            [(9, 72, 128, false), (16, 64, 1920, true), (40, 200, 384, false), (100, 65, 1152, true)]
        {
            let device = Device::with_schedule("emu:h200", Schedule::Random(5)).expect("an emulator");
            let device = device.checked().expect("checkers");
            let (operations, stream) = (Operations::new(&device), device.stream().expect("a stream"));
            assert!(takes(&operations, rows, k));
            let mut state = 7u32;
            let mut random = || {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                state >> 16
            };
            let [rows, n, k] = [rows, n, k].map(|extent| extent as usize);
            let weights: Vec<u8> = (0..n * k / 2).map(|_| random() as u8).collect();
            let scale = |_| bf16::from_f32((random() % 7 + 1) as f32 / 64.0);
            let scales: Vec<bf16> = (0..n * k / 32).map(scale).collect();
            let zero_points: Vec<u8> = (0..n * k / 32).map(|_| (random() % 16) as u8).collect();
            let x: Vec<bf16> = (0..rows * k).map(|_| bf16::from_f32(random() as f32 % 9.0 - 4.0)).collect();
            let weight = |row: usize, column: usize| {
                let (at, group) = (row * k + column, (row * k + column) / 32);
                let stored = weights[at / 2] >> (at % 2 * 4) & 15;
                scales[group].to_f32() * (f32::from(stored) - f32::from(zero_points[group]))
            };
            let mut y = device.buffer_from(&vec![1f32; rows * n]).expect("memory");
            let [of_weights, of_zeros] =
                [&weights, &zero_points].map(|bytes| device.buffer_from(bytes).expect("memory"));
            let (of_scales, of_x) =
                (device.buffer_from(&scales).expect("memory"), device.buffer_from(&x).expect("memory"));
            let matrix = Int4Weights {
                n: n as u32,
                k: k as u32,
                weights: &of_weights,
                scales: &of_scales,
                zero_points: &of_zeros,
            };
            int4_product((&operations, &stream), matrix, &of_x, (&mut y, adds)).expect("a product");
            for (at, found) in y.to_vec().expect("results").into_iter().enumerate() {
                let (row, column) = (at / n, at % n);
                let product = |i: usize| f64::from(weight(column, i) * x[row * k + i].to_f32());
                let sum: f64 = (0..k).map(product).sum();
                let expected = sum + if adds { 1.0 } else { 0.0 };
                // Products are exact, and sums of few bits.
                assert!((f64::from(found) - expected).abs() <= 1e-3, "{at}: {found}, not {expected}");
            }
        }
    }
}
