//! The kernel: neighboring lanes of a warp have a head, 8 elements each.

use warpwright::prelude::*;

use crate::collective::sum_group;
use crate::columns::VectorGrid;
use crate::rows::{Chunk, Gain, RowElement};
use crate::vector;

/// Elements of a thread.
pub(super) const LANES: u32 = 8;

/// The kernel and its configuration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct GatedNormKernel {
    /// Of all heads of a token.
    pub(super) grid: VectorGrid,
    pub(super) head_dim: u32,
    pub(super) gain: Gain,
}

impl GatedNormKernel {
    /// `x` and `z` are matrices of those offsets and strides, `weights` is (head_dim), `y` (tokens,
    /// heads, head_dim).
    #[kernel]
    pub(super) fn run<T: RowElement>(
        &self,
        x: &Global<T>,
        z: &Global<T>,
        weights: &Global<f32>,
        y: &mut Global<T>,
        of_x: [u32; 2],
        of_z: [u32; 2],
        tokens: u32,
        epsilon: f32,
    ) {
        for at in self.grid.positions(tokens) {
            let values = Chunk::load(at.of_columns(*x, of_x), LANES, vector::read_once()).values();
            let gates = Chunk::load(at.of_columns(*z, of_z), LANES, vector::read_once()).values();
            let weights = weights.at(at.column % self.head_dim);
            let weights = Chunk::load(weights, LANES, vector::read_once()).values();
            let squares = values.iter().fold(constant(0f32), |sum, value| value.mul_add(*value, sum));
            let squares = sum_group(squares, self.head_dim / LANES);
            let root = (squares * (1.0 / self.head_dim as f32) + epsilon).rsqrt();
            let gated: Vec<_> = values
                .iter()
                .zip(weights)
                .zip(gates)
                .map(|((value, weight), gate)| self.gain.times(*value * root, weight) * gate.silu())
                .collect();
            if at.is_inside {
                Chunk::<T>::of(&gated).store(at.of(*y, constant(self.grid.columns)), Access::new());
            }
        }
    }
}
