//! The kernel: a persistent CTA multiplies tiles of 16 rows of the weights, and its warps take
//! turns along k.
//!
//! ```text
//! k-blocks of a row, 128 bytes    | warp 0 | warp 1 | .. | warp 0 | ..
//! stages of a warp, 16 rows       cp.async keeps them in flight, across tiles; no other warp waits
//! a quad of a row                 lane (g, t): piece t of rows g and g + 8      A of the MMA
//!                                 the same k of vector g                        B of the MMA
//! ```
//!
//! The words of weights that share a scale are dealt out to the four lanes of a quad, up to 16
//! consecutive bytes each. Which k a lane's words have does not matter to a sum over k: `vectors`
//! has the elements of x in the same order. A group has an accumulator of its own, which is scaled
//! in f32 when the group ends. The warps' sums are added in order at the end of a tile: results do
//! not depend on a schedule. More than 8 vectors read the weights again for each 8.
//!
//! Long vectors are divided along k, which leaves room for stages and reads the vectors less often:
//!
//! ```text
//! k of a row    | CTA 0 of a cluster  | CTA 1 | ..     all multiply the same tiles
//! k of a CTA    | part 0 | part 1 | ..                 vectors of one part in shared memory at a time
//! ```
//!
//! The sums of a CTA's tiles then wait in shared memory, and the CTAs of a cluster add theirs in the
//! end.
//!
//! Weights that no predecessor writes are copied before it ends: when a CTA exits, one of the next
//! launch takes its place on the SM.

use warpwright::lang::async_copy::{commit_async_copies, copy_async, copy_async_or_zero, wait_async_copies};
use warpwright::layout::atom::MmaAtom;
use warpwright::prelude::*;

use super::dequantize::ZeroPoint;
use super::problem::{MAX_BATCH, WeightFormat};
use super::vectors::Vectors;
use crate::overlap;
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
    /// Whether the launch overlaps its predecessor.
    pub(super) overlaps: bool,
    /// Whether the predecessor writes neither weights nor what belongs to them.
    pub(super) constant: bool,
    /// Warps of a CTA.
    pub(super) warps: u32,
    /// Stages of a warp.
    pub(super) stages: u32,
    /// CTAs that an SM has registers for.
    pub(super) ctas: u32,
    /// Bytes of shared memory that a CTA takes at least, so that an SM does not hold more of them.
    pub(super) room: u32,
    /// CTAs that share k: a cluster.
    pub(super) cluster: u32,
    /// Parts of a CTA's k, whose vectors shared memory holds one at a time.
    pub(super) parts: u32,
}

/// What the kernel reads.
#[derive(Clone, Copy, DeviceValue, KernelParameter)]
pub(super) struct GemvInputs<S: Element> {
    weights: Global<u8>,
    scales: Global<S>,
    zero_points: Global<u8>,
    pub(super) x: Global<bf16>,
    n: Reg<u32>,
    /// All vectors.
    pub(super) batch: Reg<u32>,
}

/// A part of k: its first k-block, and the one after its last.
#[derive(Clone, Copy, DeviceValue)]
pub(super) struct Part {
    pub(super) first: Reg<u32>,
    pub(super) end: Reg<u32>,
}

/// A k-block of a tile, for one warp.
#[derive(Clone, Copy, DeviceValue)]
struct Position {
    part: Part,
    tile: Reg<u32>,
    block: Reg<u32>,
}

/// What does not change in the main loop: the compiler would compute it again for each k-block.
#[derive(Clone, Copy, DeviceValue)]
struct Lane {
    warp: Reg<u32>,
    /// The k-blocks of the CTA: the first one, and the one after its last.
    begin: Reg<u32>,
    end: Reg<u32>,
    tiles: Reg<u32>,
    /// The CTA's first tile, and tiles from one to its next.
    first_tile: Reg<u32>,
    step: Reg<u32>,
    /// The last row.
    last: Reg<u32>,
    /// The row of the first chunk that the lane copies, its place in a row, and in a stage.
    copied_row: Reg<u32>,
    copied_chunk: Reg<u32>,
    copied_to: Reg<u32>,
    /// Row g.
    row: Reg<u32>,
    /// Where the lane begins to read a stage.
    piece: Reg<u32>,
    /// The lane's first unit of vector g.
    x: Shared<u32>,
}

/// Rows of an MMA.
pub(super) const TILE: u32 = 16;
/// Words of a row of a stage, and of a chunk.
const ROW_WORDS: u32 = 32;
const CHUNK_WORDS: u32 = 4;
const CHUNKS: u32 = ROW_WORDS / CHUNK_WORDS;
/// Words of a stage.
const STAGE_WORDS: u32 = TILE * ROW_WORDS;
/// Tiles of a CTA at most where k is divided.
pub(super) const TILES_OF_PARTS: u32 = 16;

const ATOM: &str = "SM80_16x8x16_F32F16F16F32_TN";

impl Gemv {
    /// Words of a row of the weights.
    fn words(&self) -> u32 {
        self.k / self.format.per_word()
    }

    /// k-blocks of a row.
    pub(super) fn blocks(&self) -> u32 {
        self.words().div_ceil(ROW_WORDS)
    }

    /// Elements of a vector that meet a k-block.
    pub(super) fn block_elements(&self) -> u32 {
        ROW_WORDS * self.format.per_word()
    }

    /// k-blocks of a CTA, and of a part of them.
    pub(super) fn cta_blocks(&self) -> u32 {
        self.blocks().div_ceil(self.cluster)
    }

    pub(super) fn part_blocks(&self) -> u32 {
        self.cta_blocks().div_ceil(self.parts)
    }

    /// Whether the sums of tiles wait in shared memory.
    pub(super) fn divides_k(&self) -> bool {
        self.parts > 1 || self.cluster > 1
    }

    /// Vectors of a row of sums, and sums of a warp.
    fn sums_of_row(&self) -> u32 {
        self.batch.next_multiple_of(2)
    }

    fn sums(&self) -> u32 {
        TILE * self.sums_of_row()
    }

    /// Words of a lane's piece, and of four of them.
    fn piece_words(&self) -> u32 {
        (self.group / self.format.per_word() / 4).min(CHUNK_WORDS)
    }

    fn quad_words(&self) -> u32 {
        4 * self.piece_words()
    }

    /// Units of a vector that meet a piece.
    pub(super) fn piece_units(&self) -> u32 {
        self.piece_words() * self.format.per_word() / super::vectors::UNIT
    }

    /// Quads of a k-block and of a group.
    fn quads(&self) -> u32 {
        ROW_WORDS / self.quad_words()
    }

    fn quads_of_group(&self) -> u32 {
        self.group / self.format.per_word() / self.quad_words()
    }

    /// Groups of a k-block.
    fn groups_of_block(&self) -> u32 {
        self.block_elements() / self.group
    }

    /// Words of shared memory: the stages, the vectors, two times the sums of all warps, and the
    /// sums of tiles.
    fn shared_words(&self) -> u32 {
        let sums_of_tiles = if self.divides_k() { TILES_OF_PARTS * TILE * self.batch } else { 0 };
        let vectors = self.batch * self.vector_words() + self.words_of_scales();
        let stages = self.warps * (self.stages * STAGE_WORDS + 2 * self.sums());
        (stages + vectors + sums_of_tiles).max(self.room / 4)
    }

    pub(super) fn shared_bytes(&self) -> u32 {
        4 * self.shared_words()
    }

    /// `weights`, `scales` and `zero_points` are those of `QuantizedWeights`, `x` is (batch, k),
    /// `y` (batch, n).
    #[kernel]
    pub(super) fn run<S: RowElement, O: RowElement>(&self, inputs: GemvInputs<S>, y: &mut Global<O>) {
        launch::threads(32 * self.warps);
        launch::blocks_per_sm(self.ctas);
        if self.cluster > 1 {
            launch::cluster(self.cluster, 1, 1);
        }
        let warp = warp::broadcast(thread_idx().x / 32, 0);
        let shared = dynamic_shared::<u32>(self.shared_words());
        let stages = shared.at(warp * (self.stages * STAGE_WORDS));
        let units = shared.at(self.warps * self.stages * STAGE_WORDS);
        let scales = units.at(self.batch * self.vector_words());
        let vectors = Vectors { units, scales: scales.cast::<f32>() };
        let mut sums_of_warps = scales.at(self.words_of_scales()).cast::<f32>();
        let mut other_sums = sums_of_warps.at(self.warps * self.sums());
        let sums_of_tiles = other_sums.at(self.warps * self.sums());
        let lane = self.lane(inputs, warp, vectors);

        let first = self.position_of_part(lane.begin, lane);
        let mut part = first.part;
        let mut loaded = vec![];
        if !self.constant {
            overlap::wait(self.overlaps);
            loaded = self.load_units(inputs, part, warp);
        }
        let mut positions = vec![first];
        for stage in 1..self.stages as usize {
            positions.push(self.next(positions[stage - 1], lane));
        }
        let mut ahead = positions.pop().expect("there are stages");
        let mut factors: Vec<Factors<S>> =
            positions.iter().map(|position| self.factors(inputs, lane, *position)).collect();
        for (stage, position) in (0..).zip(positions) {
            self.copy(inputs, lane, position, stages.at(stage * STAGE_WORDS));
        }
        overlap::launch(self.overlaps);
        if self.constant {
            overlap::wait(self.overlaps);
            loaded = self.load_units(inputs, part, warp);
        }
        let (mut read, mut write) = (constant(0u32), constant(self.stages - 1));
        loop {
            self.store_units(inputs, (part, warp), &loaded, vectors);
            sync_threads();
            let mut sums_of_tile = sums_of_tiles;
            for tile in (lane.first_tile..lane.tiles).step_by(lane.step) {
                let mut sums = [(); 4].map(|()| constant(0f32));
                for block in (part.first + warp..part.end).step_by(self.warps) {
                    let of_block = self.widened(&factors[0]);
                    let mut later: Vec<Factors<S>> = factors[1..].iter().map(Factors::duplicate).collect();
                    wait_async_copies(self.stages - 2);
                    sync_warp(u32::MAX);
                    self.copy(inputs, lane, ahead, stages.at(write * STAGE_WORDS));
                    later.push(self.factors(inputs, lane, ahead));
                    factors = later;
                    ahead = self.next(ahead, lane);
                    let from = (stages.at(read * STAGE_WORDS), lane.piece);
                    let of_part = block - part.first;
                    let x = lane.x.at(of_part * self.unit_words(self.quads(), 0));
                    let products = self.multiply(from, &of_block, x);
                    let scales = self.scales(vectors, of_part);
                    sums =
                        std::array::from_fn(|index| scales[index % 2].mul_add(products[index], sums[index]));
                    write = read;
                    read = (read + 1).eq(self.stages).select(0u32, read + 1);
                }
                // Threads that still add the tile before read the other sums.
                self.store_sums(sums_of_warps.at(warp * self.sums()), sums);
                sync_threads();
                self.finish(inputs, *y, (tile, part, lane), (sums_of_warps, sums_of_tile));
                sums_of_tile = sums_of_tile.at(TILE * self.batch);
                (sums_of_warps, other_sums) = (other_sums, sums_of_warps);
            }
            if self.parts == 1 {
                break;
            }
            part = self.position_of_part(part.end, lane).part;
            if part.first >= lane.end {
                break;
            }
            loaded = self.load_units(inputs, part, warp);
        }
        if self.cluster > 1 {
            self.finish_cluster(inputs, *y, lane, sums_of_tiles);
        }
    }
}

/// The first vector of the CTA.
#[device]
pub(super) fn first_vector() -> Reg<u32> {
    block_idx().y * MAX_BATCH
}

/// Consecutive bytes, at an address that is a multiple of their number: up to four in a word.
#[track_caller]
fn packed_bytes(from: Global<u8>, count: u32, access: Access) -> Vec<Reg<u32>> {
    match count {
        1 => vec![from.load_with(access).convert()],
        2 => vec![from.cast::<u16>().load_with(access).convert()],
        _ => vector::load_lanes(from.cast::<u32>(), count / 4, access),
    }
}

/// The factors of rows g and g + 8 for each group of a k-block, as they come from memory. They are
/// loaded with the weights: behind the copies in flight, a load takes as long as a copy.
#[derive(Clone, DeviceValue)]
struct Factors<S> {
    scales: Vec<[Chunk<S>; 2]>,
    /// Up to four zero points in a word.
    zero_points: Vec<[Vec<Reg<u32>>; 2]>,
}

impl<S: RowElement> Factors<S> {
    /// The same factors in registers of their own.
    #[track_caller]
    fn duplicate(&self) -> Self {
        let scales = self.scales.iter().map(|rows| [0, 1].map(|row| rows[row].duplicate()));
        let copy = |words: &Vec<Reg<u32>>| words.iter().map(|word| word.duplicate()).collect();
        let zero_points = self.zero_points.iter().map(|rows| [0, 1].map(|row| copy(&rows[row])));
        Self { scales: scales.collect(), zero_points: zero_points.collect() }
    }
}

/// The factors of each group of a k-block as they are used: of rows g and g + 8.
struct Widened {
    scales: Vec<[Reg<f32>; 2]>,
    zero_points: Vec<[ZeroPoint; 2]>,
}

#[device]
impl Gemv {
    fn lane<S: RowElement>(&self, inputs: GemvInputs<S>, warp: Reg<u32>, vectors: Vectors) -> Lane {
        let lane = lane_id();
        let (copied_row, copied_chunk) = (lane / CHUNKS, lane % CHUNKS);
        let (row, piece) = (lane / 4, lane % 4);
        let chunk = copied_chunk ^ self.swizzle(copied_row);
        let vector = row.min(self.batch - 1);
        let (mut begin, mut end) = (constant(0u32), constant(self.blocks()));
        if self.cluster > 1 {
            begin = cluster_rank() * self.cta_blocks();
            end = (begin + self.cta_blocks()).min(self.blocks());
        }
        Lane {
            warp,
            begin,
            end,
            tiles: inputs.n.div_ceil(TILE),
            first_tile: block_idx().x / self.cluster,
            step: grid_dim().x / self.cluster,
            last: inputs.n - 1,
            copied_row,
            copied_chunk,
            copied_to: copied_row * ROW_WORDS + chunk * CHUNK_WORDS,
            row,
            piece: self.piece(lane),
            x: vectors.units.at(vector * self.vector_words() + piece * super::vectors::UNIT_WORDS),
        }
    }

    /// The first position of a warp in the part that begins with a k-block.
    fn position_of_part(&self, first: Reg<u32>, lane: Lane) -> Position {
        let end = (first + self.part_blocks()).min(lane.end);
        Position { part: Part { first, end }, tile: lane.first_tile, block: first + lane.warp }
    }

    /// The position after one: along k, then the CTA's tiles, then the parts.
    fn next(&self, position: Position, lane: Lane) -> Position {
        let mut next = position;
        next.block = position.block + self.warps;
        if next.block >= position.part.end {
            next.tile = position.tile + lane.step;
            next.block = position.part.first + lane.warp;
            if self.parts > 1 {
                if next.tile >= lane.tiles {
                    next = self.position_of_part(position.part.end, lane);
                }
            }
        }
        next
    }

    /// Starts the copies of a k-block of a tile, if there is one.
    fn copy<S: RowElement>(&self, inputs: GemvInputs<S>, lane: Lane, position: Position, to: Shared<u32>) {
        let words = self.words();
        if position.block < position.part.end && position.tile < lane.tiles {
            let chunk = position.block * CHUNKS + lane.copied_chunk;
            let from = inputs.weights.at(chunk * (4 * CHUNK_WORDS));
            let first_row = position.tile * TILE + lane.copied_row;
            for step in 0..TILE * CHUNKS / 32 {
                let row = step * (32 / CHUNKS);
                let from = from.at((first_row + row).min(lane.last).mul_wide(4 * words)).cast::<u32>();
                let swizzle = self.swizzle(constant(row)) * CHUNK_WORDS;
                let to = to.at((lane.copied_to ^ swizzle) + row * ROW_WORDS);
                if words.is_multiple_of(ROW_WORDS) {
                    copy_async(to, from, CHUNK_WORDS);
                } else {
                    copy_async_or_zero(to, from, CHUNK_WORDS, chunk.lt(words / CHUNK_WORDS));
                }
            }
        }
        commit_async_copies();
    }

    /// What the index of a chunk of a row is exclusively or-ed with: pieces that lanes read at once
    /// are in other banks. It is that of the row's last two bits, and that of the others.
    fn swizzle(&self, row: Reg<u32>) -> Reg<u32> {
        row % (CHUNKS / self.piece_words()) * self.piece_words()
    }

    /// The scales and zero points of a k-block. Past the last group they are the last one's: x is
    /// zero there.
    fn factors<S: RowElement>(&self, inputs: GemvInputs<S>, lane: Lane, position: Position) -> Factors<S> {
        let (groups, of_block) = (self.k / self.group, self.groups_of_block());
        let lanes = (1 << groups.trailing_zeros()).min(of_block);
        let mut factors = Factors { scales: vec![], zero_points: vec![] };
        let first_row = position.tile * TILE + lane.row;
        let rows = [0, 8].map(|half| (first_row + half).min(lane.last));
        for first in (0..of_block).step_by(lanes as usize) {
            let group = (position.block * of_block + first).min(groups - lanes);
            let access = overlap::read_once(self.overlaps);
            // Bytes: one multiply-add makes an address.
            let scales = inputs.scales.cast::<u8>().at(group * S::BYTES);
            let scales_of = |row: Reg<u32>| scales.at(row.mul_wide(groups * S::BYTES)).cast::<S>();
            factors.scales.push(rows.map(|row| Chunk::load(scales_of(row), lanes, access)));
            if self.has_zero_points {
                let zeros = inputs.zero_points.at(group);
                let zeros_of = |row: Reg<u32>| zeros.at(row.mul_wide(groups));
                factors.zero_points.push(rows.map(|row| packed_bytes(zeros_of(row), lanes, access)));
            }
        }
        factors
    }

    /// The products of a k-block of 16 rows, in the MMA's order of accumulators.
    fn multiply(
        &self,
        (from, piece): (Shared<u32>, Reg<u32>),
        factors: &Widened,
        x: Shared<u32>,
    ) -> [Reg<f32>; 4] {
        let atom = MmaAtom::named(ATOM).expect("an atom of sm_80");
        let words = self.pieces(from, piece);
        let mut products = [(); 4].map(|()| constant(0f32));
        for group in 0..self.groups_of_block() {
            let mut of_group = [(); 4].map(|()| constant(0f32));
            let zeros = factors.zero_points[group as usize];
            for quad in (0..self.quads_of_group()).map(|quad| group * self.quads_of_group() + quad) {
                let pairs = [0, 1].map(|half: usize| {
                    let words = words[quad as usize][half].iter();
                    let pairs = words.map(|word| self.format.pairs(*word, zeros[half]));
                    pairs.flatten().collect::<Vec<_>>()
                });
                for unit in 0..self.piece_units() {
                    let x = x.at(self.unit_words(quad, unit)).load_vector::<4>();
                    for (half, x) in x.chunks(2).enumerate() {
                        let pair = 4 * unit as usize + 2 * half;
                        let a = [pairs[0][pair], pairs[1][pair], pairs[0][pair + 1], pairs[1][pair + 1]];
                        mma_sync(&mut of_group, &a, x, &atom);
                    }
                }
            }
            let scales = factors.scales[group as usize];
            for index in 0..4 {
                products[index] = scales[index / 2].mul_add(of_group[index], products[index]);
            }
        }
        products
    }

    /// The words of the pieces of each quad: of rows g and g + 8.
    fn pieces(&self, from: Shared<u32>, piece: Reg<u32>) -> Vec<[Vec<Reg<u32>>; 2]> {
        let at = |quad: u32| from.at(piece ^ (quad * self.quad_words()));
        let words = |from: Shared<u32>| vector::load_lanes(from, self.piece_words(), Access::new());
        let mut pieces = vec![];
        if self.piece_words() == 1 {
            // A chunk is a quad: a matrix of 8 rows.
            for quad in (0..self.quads()).step_by(2) {
                let [low, high, next_low, next_high] = ldmatrix::<u32, 4>(at(quad));
                pieces.extend([[vec![low], vec![high]], [vec![next_low], vec![next_high]]]);
            }
        } else {
            pieces
                .extend((0..self.quads()).map(|quad| [0, 8].map(|row| words(at(quad).at(row * ROW_WORDS)))));
        }
        pieces
    }

    /// Where the lane begins to read a stage: its first piece of row g, or its row of the first two
    /// quads' matrices (of rows 0 to 7 and 8 to 15 each).
    fn piece(&self, lane: Reg<u32>) -> Reg<u32> {
        let words = self.piece_words();
        if words == 1 {
            let (row, quad) = (lane % TILE, lane / TILE);
            return row * ROW_WORDS + ((self.swizzle(row) ^ quad) * CHUNK_WORDS);
        }
        let (row, piece) = (lane / 4, lane % 4);
        row * ROW_WORDS + ((self.swizzle(row) * CHUNK_WORDS) ^ (piece * words))
    }

    /// The factors as they are used.
    fn widened<S: RowElement>(&self, factors: &Factors<S>) -> Widened {
        let (mut scales, mut zero_points) = (vec![], vec![]);
        for [low, high] in &factors.scales {
            scales.extend(low.values().into_iter().zip(high.values()).map(|(low, high)| [low, high]));
        }
        let lanes = scales.len() / factors.scales.len();
        for rows in &factors.zero_points {
            zero_points.extend((0..lanes).map(|lane| {
                [0, 1].map(|row| self.format.zero_point(Some((rows[row][lane / 4], lane as u32 % 4))))
            }));
        }
        zero_points.resize(scales.len(), [self.format.zero_point(None); 2]);
        Widened { scales, zero_points }
    }

    /// Stores a warp's sums, (rows, vectors), from the MMA's order of accumulators.
    fn store_sums(&self, to: Shared<f32>, sums: [Reg<f32>; 4]) {
        let (row, vector) = (lane_id() / 4, lane_id() % 4 * 2);
        if vector < self.sums_of_row() {
            let at = to.at(row * self.sums_of_row() + vector);
            at.store_vector([sums[0], sums[1]]);
            at.at(self.sums() / 2).store_vector([sums[2], sums[3]]);
        }
    }

    /// Adds the sums of all warps of a tile, and stores the results; where k is divided, the sums,
    /// until the last part.
    fn finish<S: RowElement, O: RowElement>(
        &self,
        inputs: GemvInputs<S>,
        y: Global<O>,
        (tile, part, lane): (Reg<u32>, Part, Lane),
        (sums_of_warps, sums_of_tile): (Shared<f32>, Shared<f32>),
    ) {
        for index in (thread_idx().x..TILE * self.batch).step_by(32 * self.warps) {
            let (row, vector) = (index / self.batch, index % self.batch);
            let mut sum = constant(0f32);
            for warp in 0..self.warps {
                sum = sum + sums_of_warps.at(warp * self.sums() + row * self.sums_of_row() + vector).load();
            }
            if self.divides_k() {
                if part.first > lane.begin {
                    sum = sum + sums_of_tile.at(index).load();
                }
                sums_of_tile.at(index).store(sum);
            }
            if self.cluster == 1 && part.end == self.blocks() {
                self.store(inputs, y, (tile, index), sum);
            }
        }
    }

    /// Adds the sums of the cluster's CTAs, each CTA some of them, and stores the results.
    fn finish_cluster<S: RowElement, O: RowElement>(
        &self,
        inputs: GemvInputs<S>,
        y: Global<O>,
        lane: Lane,
        sums_of_tiles: Shared<f32>,
    ) {
        cluster_sync();
        let threads = 32 * self.warps;
        let tiles = (lane.tiles - lane.first_tile).div_ceil(lane.step);
        let first = cluster_rank() * threads + thread_idx().x;
        for index in (first..tiles * (TILE * self.batch)).step_by(self.cluster * threads) {
            let mut sum = constant(0f32);
            for rank in 0..self.cluster {
                sum = sum + sums_of_tiles.map_to_block(rank).at(index).load();
            }
            let tile = lane.first_tile + index / (TILE * self.batch) * lane.step;
            self.store(inputs, y, (tile, index % (TILE * self.batch)), sum);
        }
        // No CTA ends while its sums are read.
        cluster_sync();
    }

    /// Stores a result of a tile, by its index in (rows, vectors).
    fn store<S: RowElement, O: RowElement>(
        &self,
        inputs: GemvInputs<S>,
        y: Global<O>,
        (tile, index): (Reg<u32>, Reg<u32>),
        sum: Reg<f32>,
    ) {
        let (row, vector) = (tile * TILE + index / self.batch, first_vector() + index % self.batch);
        if row < inputs.n && vector < inputs.batch {
            let to = y.at(vector.mul_wide(inputs.n)).at(row);
            let mut result = sum;
            if self.adds {
                result = result + Chunk::load(to, 1, Access::new()).values()[0];
            }
            Chunk::<O>::of(&[result]).store(to, Access::new());
        }
    }
}
