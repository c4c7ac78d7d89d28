//! The kernel: a CTA has rows of the weights, and its warps take turns along k.
//!
//! ```text
//! k-blocks of a row, 128 bytes    | warp 0 | warp 1 | .. | warp 0 | ..
//! stages of a warp, 16 rows       cp.async keeps them in flight; no other warp waits for them
//! a chunk of 16 bytes             lane (g, t): word t of rows g and g + 8      A of the MMA
//!                                 the same k of vector g                       B of the MMA
//! ```
//!
//! Which k a lane's words have does not matter to a sum over k: x is loaded for the same lane. A
//! group has an accumulator of its own, which is scaled in f32 when the group ends. The warps' sums
//! are added in order at the end: results do not depend on a schedule. CTAs of more than 8 vectors
//! read the weights again for each 8.

use warpwright::lang::async_copy::{commit_async_copies, copy_async_or_zero, wait_async_copies};
use warpwright::layout::atom::MmaAtom;
use warpwright::prelude::*;

use super::dequantize::ZeroPoint;
use super::problem::{MAX_BATCH, WeightFormat};
use crate::rows::{Chunk, RowElement};
use crate::vector;

/// The kernel and its configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Gemv {
    pub(super) format: WeightFormat,
    pub(super) k: u32,
    pub(super) group: u32,
    /// Vectors of a CTA.
    pub(super) batch: u32,
    pub(super) has_zero_points: bool,
    /// Whether the products are added to y.
    pub(super) adds: bool,
    /// Warps of a CTA.
    pub(super) warps: u32,
    /// Tiles of 16 rows of a CTA.
    pub(super) tiles: u32,
    /// Stages of a warp.
    pub(super) stages: u32,
}

/// What the kernel reads.
#[derive(Clone, Copy, DeviceValue, KernelParameter)]
pub(super) struct GemvInputs<S: Element> {
    weights: Global<u8>,
    scales: Global<S>,
    zero_points: Global<u8>,
    x: Global<bf16>,
    n: Reg<u32>,
    /// All vectors.
    batch: Reg<u32>,
}

/// Rows of an MMA.
const TILE: u32 = 16;
/// Words of a row of a stage, and of a chunk.
const ROW_WORDS: u32 = 32;
const CHUNK_WORDS: u32 = 4;
const CHUNKS: u32 = ROW_WORDS / CHUNK_WORDS;

const ATOM: &str = "SM80_16x8x16_F32BF16BF16F32_TN";

impl Gemv {
    /// Rows of a CTA.
    pub(super) fn rows(&self) -> u32 {
        TILE * self.tiles
    }

    /// Words of a row of the weights.
    fn words(&self) -> u32 {
        self.k / self.format.per_word()
    }

    /// k-blocks of a row.
    fn blocks(&self) -> u32 {
        self.words().div_ceil(ROW_WORDS)
    }

    /// Words of a stage of a warp.
    fn stage_words(&self) -> u32 {
        self.rows() * ROW_WORDS
    }

    /// Bytes of shared memory: the stages, and the sums of warps.
    pub(super) fn shared_bytes(&self) -> u32 {
        4 * self.warps * (self.stage_words() * self.stages + self.rows() * MAX_BATCH)
    }

    /// Chunks that share a scale, and groups of a k-block.
    fn chunks_of_group(&self) -> u32 {
        self.group / (self.format.per_word() * CHUNK_WORDS)
    }

    /// `weights`, `scales` and `zero_points` are those of `QuantizedWeights`, `x` is (batch, k),
    /// `y` (batch, n).
    #[kernel]
    pub(super) fn run<S: RowElement, O: RowElement>(&self, inputs: GemvInputs<S>, y: &mut Global<O>) {
        launch::threads(32 * self.warps);
        let (thread, lane) = (thread_idx().x, lane_id());
        let warp = warp::broadcast(thread / 32, 0);
        let first_row = block_idx().x * self.rows();
        let stages = dynamic_shared::<u32>(self.warps * self.stages * self.stage_words());
        let mine = stages.at(warp * (self.stages * self.stage_words()));

        let mut sums: Vec<[Reg<f32>; 4]> =
            (0..self.tiles).map(|_| [(); 4].map(|()| constant(0f32))).collect();
        for stage in 0..self.stages - 1 {
            self.copy(inputs, first_row, warp + stage * self.warps, mine.at(stage * self.stage_words()));
        }
        let (mut read, mut write) = (constant(0u32), constant(self.stages - 1));
        let mut block = warp;
        while block < self.blocks() {
            let factors = self.factors(inputs, first_row, block);
            let x = self.batch_elements(inputs, block);
            wait_async_copies(self.stages - 2);
            sync_warp(u32::MAX);
            let ahead = block + (self.stages - 1) * self.warps;
            self.copy(inputs, first_row, ahead, mine.at(write * self.stage_words()));
            let from = mine.at(read * self.stage_words());
            for tile in 0..self.tiles {
                let products = self.multiply(from.at(tile * TILE * ROW_WORDS), &factors[tile as usize], &x);
                let tile = tile as usize;
                sums[tile] = std::array::from_fn(|index| sums[tile][index] + products[index]);
            }
            write = read;
            read = (read + 1).eq(self.stages).select(0u32, read + 1);
            block = block + self.warps;
        }

        // The sums of all warps: (warps, rows, batch).
        let exchanged = shared_array::<f32>(self.warps * self.rows() * MAX_BATCH);
        let of_warp = exchanged.at(warp * (self.rows() * MAX_BATCH));
        for (tile, sums) in sums.iter().enumerate() {
            let at = of_warp.at((lane / 4 + TILE * tile as u32) * MAX_BATCH + lane % 4 * 2);
            at.store_vector([sums[0], sums[1]]);
            at.at(8 * MAX_BATCH).store_vector([sums[2], sums[3]]);
        }
        sync_threads();
        for index in (thread..self.rows() * self.batch).step_by(32 * self.warps) {
            let (vector, row) = (first_vector() + index / self.rows(), index % self.rows());
            let mut sum = constant(0f32);
            for warp in 0..self.warps {
                let of_warp = exchanged.at(warp * self.rows() * MAX_BATCH);
                sum = sum + of_warp.at(row * MAX_BATCH + index / self.rows()).load();
            }
            if first_row + row < inputs.n && vector < inputs.batch {
                let to = y.at(vector.mul_wide(inputs.n)).at(first_row + row);
                if self.adds {
                    sum = sum + Chunk::load(to, 1, Access::new()).values()[0];
                }
                Chunk::<O>::of(&[sum]).store(to, Access::new());
            }
        }
    }
}

/// The first vector of the CTA.
#[device]
fn first_vector() -> Reg<u32> {
    block_idx().y * MAX_BATCH
}

/// The factors of a tile's rows g and g + 8 for each group of a k-block.
#[derive(Clone, DeviceValue)]
struct Factors {
    scales: Vec<[Reg<f32>; 2]>,
    zero_points: Vec<[ZeroPoint; 2]>,
}

#[device]
impl Gemv {
    /// Starts the copies of a k-block of all rows, if there is one. Chunk c of row r is at c ^ (r %
    /// 8), so that the lanes that read a column of chunks meet no bank conflict.
    fn copy<S: RowElement>(
        &self,
        inputs: GemvInputs<S>,
        first_row: Reg<u32>,
        block: Reg<u32>,
        to: Shared<u32>,
    ) {
        let (lane, words) = (lane_id(), self.words());
        let chunk = lane % CHUNKS;
        let word = block * ROW_WORDS + chunk * CHUNK_WORDS;
        if block < self.blocks() {
            for step in 0..self.rows() * CHUNKS / 32 {
                let row = lane / CHUNKS + step * (32 / CHUNKS);
                let of_all = (first_row + row).min(inputs.n - 1);
                let from = inputs.weights.cast::<u32>().at(of_all.mul_wide(words)).at(word);
                let at = row * ROW_WORDS + (chunk ^ (row % CHUNKS)) * CHUNK_WORDS;
                copy_async_or_zero(to.at(at), from, CHUNK_WORDS, word.lt(words));
            }
        }
        commit_async_copies();
    }

    /// The scales and zero points of a k-block. Past the last group they are the last one's: x is
    /// zero there.
    fn factors<S: RowElement>(
        &self,
        inputs: GemvInputs<S>,
        first_row: Reg<u32>,
        block: Reg<u32>,
    ) -> Vec<Factors> {
        let (groups, of_block) = (self.k / self.group, CHUNKS / self.chunks_of_group());
        let lanes = (1 << groups.trailing_zeros()).min(of_block);
        let mut of_tiles = vec![];
        for tile in 0..self.tiles {
            let mut factors = Factors { scales: vec![], zero_points: vec![] };
            let rows = [0, 8].map(|half| {
                let row = (first_row + lane_id() / 4 + (tile * TILE + half)).min(inputs.n - 1);
                row.mul_wide(groups)
            });
            for first in (0..of_block).step_by(lanes as usize) {
                let group = (block * of_block + first).min(groups - lanes);
                let scales = rows.map(|row| {
                    Chunk::load(inputs.scales.at(row).at(group), lanes, vector::read_once()).values()
                });
                let zeros = rows.map(|row| self.zeros(inputs.zero_points.at(row).at(group), lanes));
                for lane in 0..lanes as usize {
                    factors.scales.push([scales[0][lane], scales[1][lane]]);
                    factors.zero_points.push([zeros[0][lane], zeros[1][lane]]);
                }
            }
            of_tiles.push(factors);
        }
        of_tiles
    }

    /// Zero points of consecutive groups.
    fn zeros(&self, from: Global<u8>, lanes: u32) -> Vec<ZeroPoint> {
        if !self.has_zero_points {
            return vec![self.format.zero_point(None); lanes as usize];
        }
        let bytes = vector::load_lanes(from, lanes, vector::read_once());
        bytes.into_iter().map(|byte| self.format.zero_point(Some(byte.convert()))).collect::<Vec<_>>()
    }

    /// The elements of vector g that belong to this lane's words of each chunk of a k-block, in the
    /// order of the words' pairs; zeros past the end of a row. Past the batch they are the last
    /// vector's, whose results nobody stores.
    fn batch_elements<S: RowElement>(&self, inputs: GemvInputs<S>, block: Reg<u32>) -> Vec<Vec<Reg<u32>>> {
        let per_word = self.format.per_word();
        let row = (first_vector() + lane_id() / 4).min(inputs.batch - 1).mul_wide(self.k / 2);
        let row = inputs.x.cast::<u32>().at(row);
        let are_whole = self.words().is_multiple_of(ROW_WORDS);
        let mut all = vec![];
        for chunk in 0..CHUNKS {
            let word = block * ROW_WORDS + chunk * CHUNK_WORDS + lane_id() % 4;
            let load =
                || vector::load_lanes(row.at(word * (per_word / 2)), per_word / 2, vector::read_once());
            let mut elements = vec![];
            if are_whole {
                elements = load();
            } else {
                elements = vec![constant(0u32); per_word as usize / 2];
                if word < self.words() {
                    elements = load();
                }
            }
            all.push(self.format.in_order(&elements));
        }
        all
    }

    /// The products of a k-block of 16 rows, in the MMA's order of accumulators.
    fn multiply(&self, from: Shared<u32>, factors: &Factors, x: &[Vec<Reg<u32>>]) -> [Reg<f32>; 4] {
        let atom = MmaAtom::named(ATOM).expect("an atom of sm_80");
        let (row, word) = (lane_id() / 4, lane_id() % 4);
        let mut products = [constant(0f32); 4];
        for (group, (scales, zeros)) in factors.scales.iter().zip(&factors.zero_points).enumerate() {
            let mut of_group = [(); 4].map(|()| constant(0f32));
            for chunk in
                (0..self.chunks_of_group()).map(|chunk| group as u32 * self.chunks_of_group() + chunk)
            {
                let at = row * ROW_WORDS + (row ^ chunk) * CHUNK_WORDS + word;
                let words = [from.at(at).load(), from.at(at + 8 * ROW_WORDS).load()];
                let [low, high] = [0, 1].map(|half| self.format.pairs(words[half], zeros[half]));
                for (index, x) in x[chunk as usize].chunks(2).enumerate() {
                    let a = [low[2 * index], high[2 * index], low[2 * index + 1], high[2 * index + 1]];
                    mma_sync(&mut of_group, &a, x, &atom);
                }
            }
            let scaled = |index: usize| scales[index / 2].mul_add(of_group[index], products[index]);
            products = std::array::from_fn(scaled);
        }
        products
    }
}
