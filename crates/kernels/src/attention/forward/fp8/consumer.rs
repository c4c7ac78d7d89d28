//! A consumer warpgroup's part: S, P and O of 64 queries.
//!
//! ```text
//! a step:   O = O · factor + P·V of block n     some columns at a time, each product from zero
//!           S of block n + 1                    in the registers of these products
//!           softmax of n + 1                    beside the products of the other warpgroups
//! ```

use warpwright::prelude::*;

use super::ScaleArrays;
use super::configuration::{BLOCK, Fp8Kernel, PART_COLUMNS};
use super::softmax::{Fp8Softmax, Scales};
use crate::attention::accumulator::row_of;
use crate::attention::forward::Results;
use crate::attention::forward::configuration::WARPGROUP_ROWS;
use crate::attention::forward::consumer::{Part, Warpgroup};
use crate::attention::problem::AttentionElement;

/// What stands for a scale of 0, of elements that are 0: masked scores times the product of two are minus
/// infinity, and sums of 2^20 values in units of a scale of 2^10, in units of it, are numbers of f32.
const SMALLEST_SCALE: f32 = 1.0 / (1u64 << 50) as f32;

/// A thread's scores of a block, their weights as operand A of P·V, products of a block with parts
/// of V's columns, and its parts of O. Scores and products are never needed at the same time: ptxas
/// gives them the same registers.
pub(super) struct Registers {
    scores: Fragment<f32>,
    weights: Fragment<e4m3>,
    products: Vec<Fragment<f32>>,
    out: Vec<Fragment<f32>>,
}

impl Registers {
    #[track_caller]
    pub(super) fn new(kernel: &Fp8Kernel, scores: &ThreadMma, weights: &ThreadMma) -> Self {
        let rows = kernel.forward.rows();
        let part = || weights.c_fragment::<f32>((rows, PART_COLUMNS));
        let products = (0..kernel.parts().min(2)).map(|_| part()).collect();
        let out = (0..kernel.parts()).map(|_| part()).collect();
        let (scores, weights) = (scores.c_fragment((rows, BLOCK)), weights.a_fragment((rows, BLOCK)));
        Self { scores, weights, products, out }
    }
}

/// The consumer's ends of the pipelines.
#[derive(Clone, Copy, DeviceValue)]
pub(super) struct Stages {
    pub(super) q: Consumer,
    pub(super) k: Consumer,
    pub(super) v: Consumer,
    /// If the kernel transposes V.
    pub(super) transposed: Option<Consumer>,
}

/// A thread's part of a tile, and the scales of its heads.
#[derive(Clone, Copy, DeviceValue)]
pub(super) struct ScaledPart {
    pub(super) part: Part,
    /// What scores are multiplied by, but for the scale of K.
    query: Reg<f32>,
    /// The first scale of the head of K and V.
    first: Reg<u32>,
    /// The scale of K, and that of V, of a head.
    head: [Reg<f32>; 2],
}

/// What a consumer knows.
pub(super) struct Fp8Warpgroup<'k> {
    pub(super) kernel: Fp8Kernel,
    pub(super) base: Warpgroup<'k>,
    pub(super) scales: ScaleArrays,
}

#[device]
impl Fp8Warpgroup<'_> {
    /// Waits for the next tile of Q, and returns its number.
    pub(super) fn next_number(&self, stages: &mut Stages, numbers: Shared<u32>) -> Reg<u32> {
        self.base.next_number(&mut stages.q, numbers)
    }

    /// This thread's part of a tile.
    pub(super) fn part(&self, number: Reg<u32>) -> ScaledPart {
        let part = self.base.part(number);
        let ([heads, group, _], [of_q, of_k]) = (self.base.problem.heads, self.scales.counts);
        let sequence = part.tile.sequence.number;
        let row = part.tile.first_row + self.base.role.warpgroup() * WARPGROUP_ROWS;
        let block = if self.kernel.block_scales { row / BLOCK } else { constant(0u32) };
        // The last warpgroups of a tile may have no rows.
        let at = (sequence * heads + part.tile.head) * of_q + block.min(of_q - 1u32);
        let first = (sequence * (heads / group) + part.tile.head / group) * of_k;
        let query = (self.scales.q.at(at).load() * self.base.problem.scale).max(SMALLEST_SCALE);
        let head = match self.kernel.block_scales {
            true => [constant(1.0f32); 2],
            false => self.key_scales(first),
        };
        ScaledPart { part, query, first, head }
    }

    fn key_scales(&self, at: Reg<u32>) -> [Reg<f32>; 2] {
        [self.scales.k, self.scales.v].map(|scales| scales.at(at).load().max(SMALLEST_SCALE))
    }

    /// What a block's scores are multiplied by before a function of them, and after it.
    fn block_scales(&self, part: &ScaledPart, block: Reg<u32>) -> (Reg<f32>, Scales) {
        let [k, value] = match self.kernel.block_scales {
            true => self.key_scales(part.first + block),
            false => part.head,
        };
        let score = part.query * k;
        let exponent = if self.base.score.is_some() { constant(1.0f32) } else { score };
        (score, Scales { exponent: exponent * std::f32::consts::LOG2_E, value })
    }

    /// The softmax of a tile before its first block.
    pub(super) fn softmax(&self, part: &ScaledPart) -> Fp8Softmax {
        let sinks = self.base.problem.sinks;
        let sink = self.base.kernel.sinks.then(|| sinks.at(part.part.tile.head).load());
        Fp8Softmax::new(sink)
    }

    /// Starts S of the next block.
    pub(super) fn start_scores(&self, registers: &mut Registers, stages: &mut Stages) {
        let q = self.base.products.q.slice((All, All, stages.q.oldest()));
        let k = self.base.products.k.slice((All, All, stages.k.wait()));
        multiply(&self.base.products.scores, &mut registers.scores, &q, &k, Accumulate::No);
    }

    /// Starts P·V of the oldest block, with columns `index` of V's parts.
    fn start_product(&self, index: u32, registers: &mut Registers, stages: &Stages) {
        let tiles = self.kernel.tiles_of_block();
        let stage = stages.v.oldest();
        let tile = if tiles == 1 { Int::from(stage) } else { Int::from(stage.index() * tiles + index) };
        let v = self.base.products.v.slice((All, All, tile));
        let count = registers.products.len();
        let product = &mut registers.products[index as usize % count];
        multiply(&self.base.products.out, product, &registers.weights, &v, Accumulate::No);
    }

    /// O = O · factor + P·V for the columns of a part.
    fn add(&self, index: u32, registers: &mut Registers, factors: [Reg<f32>; 2]) {
        let product = &registers.products[index as usize % registers.products.len()];
        let out = &mut registers.out[index as usize];
        for i in 0..out.len() {
            out.set(i, out.get(i).mul_add(factors[row_of(i)], product.get(i)));
        }
    }

    /// Adds P·V of the oldest block to O.
    pub(super) fn add_products(&self, registers: &mut Registers, stages: &mut Stages, softmax: &Fp8Softmax) {
        match &mut stages.transposed {
            Some(transposed) => transposed.wait(),
            None => stages.v.wait(),
        };
        let (parts, products) = (registers.out.len() as u32, registers.products.len() as u32);
        for index in 0..products {
            self.start_product(index, registers, stages);
        }
        for index in 0..parts {
            wait_multiplications((products - 1).min(parts - 1 - index));
            self.add(index, registers, softmax.factors);
            if index + products < parts {
                self.start_product(index + products, registers, stages);
            }
        }
        stages.v.release();
        if let Some(transposed) = &mut stages.transposed {
            transposed.release();
        }
    }

    /// S of the latest block becomes P. `masked`: some row of the warpgroup does not see all its
    /// keys.
    fn weigh(
        &self,
        (part, block, masked): (&ScaledPart, Reg<u32>, bool),
        registers: &mut Registers,
        stages: &mut Stages,
        softmax: &mut Fp8Softmax,
    ) {
        let (score, scales) = self.block_scales(part, block);
        wait_multiplications(0);
        stages.k.release();
        self.base.map_scores((&part.part, block, masked), score, &mut registers.scores);
        softmax.update(&mut registers.scores, scales);
        weights_as_a(registers);
    }

    /// S of a tile's first block becomes P, and O zero.
    pub(super) fn finish_first_scores(
        &self,
        part: &ScaledPart,
        registers: &mut Registers,
        stages: &mut Stages,
        softmax: &mut Fp8Softmax,
    ) {
        self.weigh((part, part.part.tile.end - 1u32, true), registers, stages, softmax);
        for out in &mut registers.out {
            out.clear();
        }
    }

    /// P·V of the block before is added to O, and S of a block becomes P.
    pub(super) fn step(
        &self,
        block: (&ScaledPart, Reg<u32>, bool),
        registers: &mut Registers,
        stages: &mut Stages,
        softmax: &mut Fp8Softmax,
    ) {
        self.base.wait_turn();
        self.add_products(registers, stages, softmax);
        self.start_scores(registers, stages);
        self.base.pass_turn();
        self.weigh(block, registers, stages, softmax);
    }

    /// Stores a thread's part of O, divided by the sums of the weights, and the logarithms.
    pub(super) fn store<T: AttentionElement>(
        &self,
        part: &ScaledPart,
        softmax: &Fp8Softmax,
        registers: &mut Registers,
        results: Results<T>,
    ) {
        let logarithms = softmax.normalize(&mut registers.out);
        self.base.store(&part.part, logarithms, &registers.out, results);
    }
}

/// The weights as operand A of P·V.
///
/// Of 8 neighboring columns of an accumulator a thread has a pair in each of its two rows; a word
/// of operand A has 4 neighboring columns of a row. Two pairs make a word: the columns are a
/// permutation of the keys, by which V's rows are permuted too.
#[device]
fn weights_as_a(registers: &mut Registers) {
    // Words of A in a k-step: (row, row + 8) of columns 0 to 15, then of 16 to 31.
    for word in 0..registers.weights.len() / 4 {
        let (columns, row) = (word / 2, word % 2);
        let pair = |group: u32| {
            let i = (columns * 2 + group) * 4 + row * 2;
            registers.scores.get(i).pack_e4m3x2(registers.scores.get(i + 1)).bit_cast::<u16>()
        };
        let halves = Reg::<u16x2>::pack(pair(0), pair(1));
        registers.weights.set_word(word * 4, halves.bit_cast::<u32>());
    }
}
