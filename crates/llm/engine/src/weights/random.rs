//! Random weights: the same numbers from the same name and seed, here and in the tests' oracle.
//!
//! ```text
//! number i of a tensor = offset + scale · u,  u in [-1, 1) from the upper 24 bits of mix(key + i')
//! key                  = mix(FNV-1a of the name ^ seed)
//! i'                   = i mod 2^22: large tensors repeat
//! ```

use std::ops::Range;

use rayon::prelude::*;
use warpwright_llm_step::random::mix;

use crate::number::Number;

/// The generator of a tensor.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Generator {
    key: u64,
    scale: f32,
    offset: f32,
}

/// Numbers of a tensor before they repeat.
const PERIOD: usize = 1 << 22;

impl Generator {
    /// The generator of the tensor of that name.
    pub(super) fn new(name: &str, shape: &[usize], seed: u64) -> Self {
        let columns = shape.last().copied().unwrap_or(1) as f32;
        let (scale, offset) = match name {
            // Gates of every kind: decays of one token from none to almost all.
            _ if name.ends_with("A_log") || name.ends_with("dt_bias") => (1.0, 0.0),
            // Norms: around one in any family, zero-centred or not.
            _ if name.ends_with("norm.weight") || name.ends_with("layernorm.weight") => (0.5, 1.0),
            _ if name.ends_with("conv1d.weight") => (0.5, 0.0),
            // Rows of unit length.
            _ => ((3.0 / columns).sqrt(), 0.0),
        };
        Self { key: mix(hash(name) ^ seed), scale, offset }
    }

    /// Consecutive numbers of the tensor.
    pub(super) fn numbers<T: Number>(&self, range: Range<usize>) -> Vec<T> {
        let made = range.len().min(PERIOD);
        let mut numbers: Vec<T> = Vec::with_capacity(range.len());
        numbers.par_extend(
            (range.start..range.start + made).into_par_iter().map(|at| T::nearest(self.number(at))),
        );
        while numbers.len() < range.len() {
            let more = (range.len() - numbers.len()).min(PERIOD);
            numbers.extend_from_within(..more);
        }
        numbers
    }

    fn number(&self, at: usize) -> f32 {
        let bits = mix(self.key.wrapping_add((at % PERIOD) as u64)) >> 40;
        let unit = bits as f32 * (1.0 / (1 << 23) as f32) - 1.0;
        self.offset + self.scale * unit
    }
}

/// FNV-1a.
fn hash(name: &str) -> u64 {
    name.bytes()
        .fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3))
}
