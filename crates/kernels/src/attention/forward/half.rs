//! The main loop for Q, K and V of 16 bits.
//!
//! ```text
//! a step:   start S of block n + 1       tensor cores   | S n+1 | P·V n |
//!           start O += P·V of block n    this warpgroup          | softmax of n+1 | rescale O |
//!           softmax of S, rescale O      the other      its own step, half a step later
//! ```

use std::marker::PhantomData;

use warpwright::prelude::*;

use super::consumer::{Block, Part, Registers, Stages, Warpgroup};
use super::mainloop::Mainloop;
use super::softmax::{OnlineSoftmax, rescale};
use crate::attention::problem::AttentionElement;

/// The main loop for Q, K and V of type `T`.
pub(super) struct Half<T>(pub(super) PhantomData<T>);

#[device]
impl<T: AttentionElement> Mainloop for Half<T> {
    type Element = T;
    type Scales = ();
    type Softmax = OnlineSoftmax;

    fn scales(&self, _warpgroup: &Warpgroup<'_>, _part: &Part) {}

    fn softmax(&self, warpgroup: &Warpgroup<'_>, part: &Part) -> OnlineSoftmax {
        let problem = warpgroup.problem;
        // A function of the scores gets them scaled.
        let scale = if warpgroup.score.is_some() { constant(1.0f32) } else { problem.scale };
        let softmax = OnlineSoftmax::new(scale);
        if warpgroup.kernel.sinks {
            softmax.with_sink(problem.sinks.at(part.tile.head).load())
        } else {
            softmax
        }
    }

    fn finish_first_scores(
        &self,
        warpgroup: &Warpgroup<'_>,
        part: &(Part, ()),
        registers: &mut Registers<T>,
        stages: &mut Stages,
        softmax: &mut OnlineSoftmax,
    ) {
        wait_multiplications(0);
        stages.k.release();
        let block = Block::new(part, part.0.tile.end - 1u32, true);
        warpgroup.map_scores(block, warpgroup.problem.scale, &mut registers.scores);
        softmax.update(&mut registers.scores);
        weights_as_a(registers);
        registers.out[0].clear();
        if warpgroup.kernel.packed {
            clear_absent_values(warpgroup, &part.0, registers, stages);
        }
    }

    fn step(
        &self,
        warpgroup: &Warpgroup<'_>,
        block: Block<'_, ()>,
        registers: &mut Registers<T>,
        stages: &mut Stages,
        softmax: &mut OnlineSoftmax,
    ) {
        warpgroup.wait_turn();
        warpgroup.start_scores(registers, stages);
        self.start_out(warpgroup, registers, stages, softmax);
        warpgroup.pass_turn();
        wait_multiplications(1);
        stages.k.release();
        warpgroup.map_scores(block, warpgroup.problem.scale, &mut registers.scores);
        let factors = softmax.update(&mut registers.scores);
        wait_multiplications(0);
        stages.v.release();
        rescale(&mut registers.out[0], factors);
        weights_as_a(registers);
    }

    fn start_out(
        &self,
        warpgroup: &Warpgroup<'_>,
        registers: &mut Registers<T>,
        stages: &mut Stages,
        _softmax: &OnlineSoftmax,
    ) {
        let v = warpgroup.products.v.slice((All, All, stages.v.wait()));
        let (out, weights) = (&mut registers.out[0], &registers.weights);
        multiply(&warpgroup.products.out, out, weights, &v, Accumulate::Yes);
    }

    fn finish_out(
        &self,
        registers: &mut Registers<T>,
        stages: &mut Stages,
        softmax: &OnlineSoftmax,
        later: u32,
    ) -> [Reg<f32>; 2] {
        wait_multiplications(later);
        stages.v.release();
        softmax.normalize(&mut registers.out[0])
    }
}

/// Zeros for the values past the end of a sequence, in the tile's last block: there are those of
/// the next sequence, or anything in a page, also NaN, which a weight of 0 does not hide. (Past the
/// end of sequences that are not packed, the copies give zeros.)
#[device]
fn clear_absent_values<T: AttentionElement>(
    warpgroup: &Warpgroup<'_>,
    part: &Part,
    registers: &Registers<T>,
    stages: &Stages,
) {
    let kernel = warpgroup.kernel;
    let first = (part.tile.end - 1u32) * kernel.block;
    let present = part.tile.sequence.lengths[1] - first;
    if present < kernel.block {
        let values = registers.values.slice((All, All, stages.v.peek()));
        let vectors = kernel.value_dim / 4;
        let begin = present * vectors + warpgroup.role.thread();
        for vector in (begin..kernel.block * vectors).step_by(warpgroup.role.threads()) {
            values.set_vector((vector % vectors * 4, vector / vectors), [constant(T::ZERO); 4]);
        }
        fence_proxy_async_shared();
        warpgroup.role.sync();
    }
}

/// The weights as operand A of P·V: a thread has the same elements of an accumulator (m, n) and of
/// an operand A (m, k) with k = n, in the same order.
#[device]
fn weights_as_a<T: AttentionElement>(registers: &mut Registers<T>) {
    for i in (0..registers.scores.len()).step_by(2) {
        let word = T::pack(registers.scores.get(i), registers.scores.get(i + 1));
        registers.weights.set_word(i, word);
    }
}
