//! Attention's forward kernel on Hopper's tensor cores.
//!
//! ```text
//! Q (128 queries, d)      K, V (keys, d) in blocks of 128        O (128 queries, d)
//!
//! producer (1 thread)     TMA: Q of a tile; then K and V, block by block from the last, into the stages of two pipelines
//! consumers (2 warpgroups, 64 queries each)
//!     S = Q·Kᵀ            `wgmma`, S in registers
//!     P = exp(S - m)      in registers, and there operand A of the next product
//!     O += P·V            `wgmma`, O in registers
//! ```
//!
//! A warpgroup starts S of block n + 1 before P·V of block n, and computes the softmax of n + 1 while
//! the tensor cores do both; at the end of a tile it is S of the next tile's first block, and the
//! store of O runs beside it. The warpgroups take turns in starting products: the softmax of one
//! runs beside the products of the other. (Shah and others, FlashAttention-3, 2024.)

mod configuration;
mod consumer;
pub(super) mod fp8;
mod half;
mod kernel;
mod keys;
mod mainloop;
mod scheduler;
mod softmax;
mod transpose;
mod value_transpose;

use std::marker::PhantomData;

use warpwright::prelude::*;

use super::problem::AttentionElement;
use super::score::{AttentionKernel, ScoreOp};
pub(crate) use configuration::{ForwardKernel, Fp8Form};
use consumer::Results;
use half::Half;
use kernel::compute;
pub(crate) use scheduler::ForwardProblem;
pub use transpose::BLOCK;
pub(crate) use value_transpose::ValueTranspose;

impl<S: ScoreOp> AttentionKernel<ForwardKernel, S> {
    /// O = softmax(scale · Q·Kᵀ)·V, and the logarithm of each row's sum of exponentials, (sequence,
    /// head, query). `taken` is zero before and after.
    #[kernel]
    pub(crate) fn forward<T: AttentionElement>(
        &self,
        q: &TensorMap,
        k: &TensorMap,
        v: &TensorMap,
        o: &mut Global<T>,
        lse: &mut Global<f32>,
        taken: &mut Global<u32>,
        problem: ForwardProblem,
    ) {
        let results = Results { o: *o, lse: *lse, taken: *taken };
        let of_attention = problem.score(&self.kernel);
        let score = self.score_or(of_attention.as_deref());
        compute(&Half::<T>(PhantomData), self.kernel, [q, k, v], results, problem, score);
    }
}
