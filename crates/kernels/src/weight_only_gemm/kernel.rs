//! The kernel: y (rows, n) = x (rows, k) · Wᵀ with int4 weights W (n, k), by the tensor cores of sm_90a.
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

use warpwright::arch::limits::WARPGROUP_SIZE;
use warpwright::layout::Error;
use warpwright::layout::atom::{Major, SharedSwizzle};
use warpwright::prelude::*;

use crate::rows::RowElement;

/// Rows of W of a CTA.
pub(super) const TILE: u32 = 64;
/// Weights of a row in a stage.
pub(super) const DEPTH: u32 = 128;
/// Weights of a row that share a scale: those of 16 bytes.
pub(super) const GROUP: u32 = 32;
/// Groups of a stage.
const GROUPS: u32 = DEPTH / GROUP;
/// Words of a group.
const WORDS: u32 = GROUP / 8;
/// Warpgroups that multiply.
const CONSUMERS: u32 = 2;
/// The most rows of x.
pub(super) const MAX_ROWS: u32 = 128;
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
pub(super) struct Int4Gemm {
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

impl Int4Gemm {
    pub(super) fn new(rows: u32, adds: bool) -> Self {
        let columns = rows.next_power_of_two().clamp(16, MAX_ROWS);
        let (stage, exchanged) = (TILE * DEPTH / 2 + columns * DEPTH * 2, TILE * columns * 4);
        let available = if columns <= ROWS_OF_TWO { SHARED_BYTES / 2 } else { SHARED_BYTES };
        Self { columns, stages: ((available - exchanged) / stage).min(MAX_STAGES), adds }
    }

    /// Bytes of W in a stage.
    pub(super) fn weight_tile() -> Result<TmaTile, Error> {
        TmaTile::with_swizzle::<u8>((TILE, DEPTH / 2), Major::K, SharedSwizzle::Bytes64)
    }

    /// The rows of x in a stage.
    pub(super) fn x_tile(&self) -> Result<TmaTile, Error> {
        TmaTile::new::<bf16>((self.columns, DEPTH), Major::K)
    }

    /// `scales` and `zero_points` are (n, k / 32), `y` (rows, n).
    #[kernel]
    pub(super) fn run<U: RowElement>(
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
            let (thread, turn) = (consumer.thread() % WARPGROUP_SIZE, consumer.warpgroup());
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
                    exchanged.at(i * WARPGROUP_SIZE).store(accumulators.get(i));
                }
            }
            consumer.sync();
            if turn.eq(0u32) {
                for i in 0..accumulators.len() {
                    let row = first + row + i / 2 % 2 * 8;
                    let column = thread % 4 * 2 + (i / 4 * 8 + i % 2);
                    if row.lt(n) & column.lt(rows) {
                        let to = y.at(column.mul_wide(n)).at(row);
                        let mut sum = accumulators.get(i) + exchanged.at(i * WARPGROUP_SIZE).load();
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
