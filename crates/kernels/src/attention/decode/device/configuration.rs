//! The kernel as it is configured, and what it reads.

use warpwright::prelude::*;

use crate::attention::decode::plan::DecodePlan;
use crate::attention::decode::problem::Heads;
use crate::gemm::problem::types::MmaSyncOperand;

/// A type of K and V: `bf16` or `f16`.
pub trait CacheElement: MmaSyncOperand + DeviceFloat {}

impl CacheElement for bf16 {}
impl CacheElement for f16 {}

/// Decode attention, as it is built.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct DecodeAttention {
    /// The heads.
    pub heads: Heads,
    /// Queries per sequence.
    pub queries: u32,
    /// Keys of a page.
    pub page_size: u32,
    /// Whether queries see a window only.
    pub has_window: bool,
    /// Whether scores are capped.
    pub has_softcap: bool,
    /// Whether there is a sink.
    pub has_sink: bool,
    /// Whether the output has gates.
    pub has_gates: bool,
    /// Whether the kernel overlaps a predecessor that writes neither lengths nor table, and of the keys the newest.
    pub is_settled: bool,
    /// How warps share the work.
    pub plan: DecodePlan,
}

/// What a launch reads, besides the pools of K and V.
#[derive(Clone, Copy, DeviceValue, KernelParameter)]
pub(crate) struct Inputs<T: Element> {
    pub(super) queries: Global<T>,
    pub(super) table: Global<u32>,
    pub(super) lengths: Global<u32>,
    pub(super) sink: Global<f32>,
    /// The gates of the output: the first, and elements from token to token and from head to head.
    pub(super) gates: Global<T>,
    pub(super) gate_strides: [Reg<u32>; 3],
    /// Sequences, entries of the block table per sequence, keys that a query sees at most, and CTAs
    /// of a team.
    pub(super) sizes: [Reg<u32>; 4],
    /// The factor of Q·Kᵀ, and that of a capped score.
    pub(super) scales: [Reg<f32>; 2],
}

impl<T: Element> Inputs<T> {
    /// CTAs of a team, which have different heads of the same keys.
    pub(super) fn team_ctas(&self) -> Reg<u32> {
        self.sizes[3]
    }
}
