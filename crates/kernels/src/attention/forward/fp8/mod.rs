//! Attention's forward kernel for e4m3 Q, K and V with scales, on Hopper's tensor cores.
//!
//! It is the [kernel of every type](super::kernel), and its main loop differs in four points:
//!
//! ```text
//! V        the tensor cores read 8-bit operands with k contiguous only. Three warps of the
//!          producer transpose each block in shared memory, in place: `../transpose.rs`. Or a kernel
//!          before has transposed V in global memory, and the producer is one warp: `../value_transpose.rs`
//! P        e4m3 in registers. A thread's accumulators of S are its operand A of P·V, because the
//!          transpose permutes the keys of V alike: `mainloop.rs`
//! O        the tensor cores keep 13 bits of 8-bit products: P·V of each block is summed from
//!          zero and added to O in f32: `mainloop.rs`
//! scales   of heads or blocks of Q, K and V: in the exponent of the weights, and in the factor
//!          that rescales O: `softmax.rs`
//! ```

mod mainloop;
mod softmax;

use warpwright::prelude::*;

use super::configuration::ForwardKernel;
use super::consumer::Results;
use super::kernel::compute;
use super::scheduler::ForwardProblem;
use crate::attention::problem::AttentionElement;
use crate::attention::score::{AttentionKernel, ScoreOp};
use mainloop::Fp8Mainloop;
pub(crate) use mainloop::ScaleArrays;

impl<S: ScoreOp> AttentionKernel<ForwardKernel, S> {
    /// O = softmax(scale · Q·Kᵀ)·V, and the logarithm of each row's sum of exponentials, (sequence,
    /// head, query). `taken` is zero before and after.
    #[kernel]
    pub(crate) fn fp8_forward<T: AttentionElement>(
        &self,
        q: &TensorMap,
        k: &TensorMap,
        v: &TensorMap,
        o: &mut Global<T>,
        lse: &mut Global<f32>,
        taken: &mut Global<u32>,
        problem: ForwardProblem,
        scales: ScaleArrays,
    ) {
        let results = Results { o: *o, lse: *lse, taken: *taken };
        let of_attention = problem.score(&self.kernel);
        let score = self.score_or(of_attention.as_deref());
        let block_scales = self.kernel.fp8.is_some_and(|form| form.block_scales);
        let mainloop = Fp8Mainloop { scales, block_scales };
        compute(&mainloop, self.kernel, [q, k, v], results, problem, score);
    }
}
