//! The main loop for Q, K and V in e4m3.
//!
//! ```text
//! a step:   O = O · factor + P·V of block n     some columns at a time, each product from zero
//!           S of block n + 1                    in the registers of these products
//!           softmax of n + 1                    beside the products of the other warpgroups
//! ```

use warpwright::prelude::*;

use super::softmax::{BlockScales, Fp8Softmax};
use crate::attention::accumulator::row_of;
use crate::attention::forward::configuration::WARPGROUP_ROWS;
use crate::attention::forward::consumer::{Block, Part, Registers, Stages, Warpgroup};
use crate::attention::forward::mainloop::Mainloop;
use crate::attention::forward::transpose::BLOCK;

/// What stands for a scale of 0, of elements that are 0: masked scores times the product of two are minus
/// infinity, and sums of 2^20 values in units of a scale of 2^10, in units of it, are numbers of f32.
const SMALLEST_SCALE: f32 = 1.0 / (1u64 << 50) as f32;

/// The scales of Q, K and V.
#[derive(Clone, Copy, DeviceValue, KernelParameter)]
pub(crate) struct ScaleArrays {
    /// (sequence, head, block of queries).
    pub(crate) q: Global<f32>,
    /// (sequence, head of K, block of keys).
    pub(crate) k: Global<f32>,
    /// (sequence, head of V, block of keys).
    pub(crate) v: Global<f32>,
    /// Scales of a head of Q, and of a head of K and V.
    pub(crate) counts: [Reg<u32>; 2],
}

/// The main loop, with the scales of the launch.
pub(super) struct Fp8Mainloop {
    pub(super) scales: ScaleArrays,
    /// Whether each block has a scale, or each head.
    pub(super) block_scales: bool,
}

/// The scales of a tile's heads.
#[derive(Clone, Copy, DeviceValue)]
pub(super) struct HeadScales {
    /// What scores are multiplied by, but for the scale of K.
    query: Reg<f32>,
    /// The first scale of the head of K and V.
    first: Reg<u32>,
    /// The scale of K, and that of V, of a head.
    head: [Reg<f32>; 2],
}

#[device]
impl Mainloop for Fp8Mainloop {
    type Element = e4m3;
    type Scales = HeadScales;
    type Softmax = Fp8Softmax;

    fn scales(&self, warpgroup: &Warpgroup<'_>, part: &Part) -> HeadScales {
        let ([heads, group, _], [of_q, of_k]) = (warpgroup.problem.heads, self.scales.counts);
        let sequence = part.tile.sequence.number;
        let row = part.tile.first_row + warpgroup.role.warpgroup() * WARPGROUP_ROWS;
        let block = if self.block_scales { row / BLOCK } else { constant(0u32) };
        // The last warpgroups of a tile may have no rows.
        let at = (sequence * heads + part.tile.head) * of_q + block.min(of_q - 1u32);
        let first = (sequence * (heads / group) + part.tile.head / group) * of_k;
        let query = (self.scales.q.at(at).load() * warpgroup.problem.scale).max(SMALLEST_SCALE);
        let head = match self.block_scales {
            true => [constant(1.0f32); 2],
            false => self.key_scales(first),
        };
        HeadScales { query, first, head }
    }

    fn softmax(&self, warpgroup: &Warpgroup<'_>, part: &Part) -> Fp8Softmax {
        let sinks = warpgroup.problem.sinks;
        let sink = warpgroup.kernel.sinks.then(|| sinks.at(part.tile.head).load());
        Fp8Softmax::new(sink)
    }

    fn finish_first_scores(
        &self,
        warpgroup: &Warpgroup<'_>,
        part: &(Part, HeadScales),
        registers: &mut Registers<e4m3>,
        stages: &mut Stages,
        softmax: &mut Fp8Softmax,
    ) {
        let block = Block::new(part, part.0.tile.end - 1u32, true);
        self.weigh(warpgroup, block, registers, stages, softmax);
        for out in &mut registers.out {
            out.clear();
        }
    }

    fn step(
        &self,
        warpgroup: &Warpgroup<'_>,
        block: Block<'_, HeadScales>,
        registers: &mut Registers<e4m3>,
        stages: &mut Stages,
        softmax: &mut Fp8Softmax,
    ) {
        warpgroup.wait_turn();
        self.start_out(warpgroup, registers, stages, softmax);
        warpgroup.start_scores(registers, stages);
        warpgroup.pass_turn();
        self.weigh(warpgroup, block, registers, stages, softmax);
    }

    /// Adds all of it: O is complete.
    fn start_out(
        &self,
        warpgroup: &Warpgroup<'_>,
        registers: &mut Registers<e4m3>,
        stages: &mut Stages,
        softmax: &Fp8Softmax,
    ) {
        match &mut stages.transposed {
            Some(transposed) => transposed.wait(),
            None => stages.v.wait(),
        };
        let (parts, products) = (registers.out.len() as u32, registers.products.len() as u32);
        for index in 0..products {
            self.start_product(warpgroup, index, registers, stages);
        }
        for index in 0..parts {
            wait_multiplications((products - 1).min(parts - 1 - index));
            add_product(index, registers, softmax.factors);
            if index + products < parts {
                self.start_product(warpgroup, index + products, registers, stages);
            }
        }
        stages.v.release();
        if let Some(transposed) = &mut stages.transposed {
            transposed.release();
        }
    }

    fn finish_out(
        &self,
        registers: &mut Registers<e4m3>,
        _stages: &mut Stages,
        softmax: &Fp8Softmax,
        _later: u32,
    ) -> [Reg<f32>; 2] {
        softmax.normalize(&mut registers.out)
    }
}

#[device]
impl Fp8Mainloop {
    fn key_scales(&self, at: Reg<u32>) -> [Reg<f32>; 2] {
        [self.scales.k, self.scales.v].map(|scales| scales.at(at).load().max(SMALLEST_SCALE))
    }

    /// What a block's scores are multiplied by before a function of them, and after it.
    fn block_scales(
        &self,
        has_function: bool,
        scales: &HeadScales,
        block: Reg<u32>,
    ) -> (Reg<f32>, BlockScales) {
        let [k, value] = match self.block_scales {
            true => self.key_scales(scales.first + block),
            false => scales.head,
        };
        let score = scales.query * k;
        let exponent = if has_function { constant(1.0f32) } else { score };
        (score, BlockScales { exponent: exponent * std::f32::consts::LOG2_E, value })
    }

    /// Starts P·V of the oldest block, with columns `index` of V's parts.
    fn start_product(
        &self,
        warpgroup: &Warpgroup<'_>,
        index: u32,
        registers: &mut Registers<e4m3>,
        stages: &Stages,
    ) {
        let tiles = warpgroup.kernel.tiles_of_block();
        let stage = stages.v.oldest();
        let tile = if tiles == 1 { Int::from(stage) } else { Int::from(stage.index() * tiles + index) };
        let v = warpgroup.products.v.slice((All, All, tile));
        let count = registers.products.len();
        let product = &mut registers.products[index as usize % count];
        multiply(&warpgroup.products.out, product, &registers.weights, &v, Accumulate::No);
    }

    /// S of the latest block becomes P.
    fn weigh(
        &self,
        warpgroup: &Warpgroup<'_>,
        block: Block<'_, HeadScales>,
        registers: &mut Registers<e4m3>,
        stages: &mut Stages,
        softmax: &mut Fp8Softmax,
    ) {
        let (score, scales) = self.block_scales(warpgroup.score.is_some(), block.scales, block.number);
        wait_multiplications(0);
        stages.k.release();
        warpgroup.map_scores(block, score, &mut registers.scores);
        softmax.update(&mut registers.scores, scales);
        weights_as_a(registers);
    }
}

/// O = O · factor + P·V for the columns of a part.
#[device]
fn add_product(index: u32, registers: &mut Registers<e4m3>, factors: [Reg<f32>; 2]) {
    let product = &registers.products[index as usize % registers.products.len()];
    let out = &mut registers.out[index as usize];
    for i in 0..out.len() {
        out.set(i, out.get(i).mul_add(factors[row_of(i)], product.get(i)));
    }
}

/// The weights as operand A of P·V.
///
/// Of 8 neighboring columns of an accumulator a thread has a pair in each of its two rows; a word
/// of operand A has 4 neighboring columns of a row. Two pairs make a word: the columns are a
/// permutation of the keys, by which V's rows are permuted too.
#[device]
fn weights_as_a(registers: &mut Registers<e4m3>) {
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
