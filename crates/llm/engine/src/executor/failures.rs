//! Logits that are no numbers.
//!
//! The sampler finds them: a row with a NaN has no token, and a log-probability next to an infinite logit is NaN.

use warpwright_kernels::sampling::NO_TOKEN;
use warpwright_llm_step::{CopyState, Output, Sampled, Sampling, Token, sample};

/// What stands for a token where logits are not finite.
pub(super) const FAILED: Sampled = Sampled { token: NO_TOKEN, log_probability: f32::NAN, top: vec![] };

/// Samples a row of logits on the host.
pub(super) fn sample_finite(logits: &[f32], sampling: &Sampling) -> Sampled {
    if logits.iter().all(|logit| logit.is_finite()) { sample(logits, sampling) } else { FAILED }
}

pub(super) fn has_failed(output: &Output) -> bool {
    let mut all = output.sampled.iter().chain(&output.scored);
    all.any(|sampled| sampled.token == NO_TOKEN || !sampled.log_probability.is_finite())
}

/// The token that each slot sampled last, as far as outputs have been read.
pub(super) struct LastTokens(pub(super) Vec<Token>);

impl LastTokens {
    pub(super) fn new(slots: u32) -> Self {
        Self(vec![0; slots as usize])
    }

    pub(super) fn copy(&mut self, copies: &[CopyState]) {
        for CopyState { from, to } in copies {
            self.0[to.0 as usize] = self.0[from.0 as usize];
        }
    }
}
