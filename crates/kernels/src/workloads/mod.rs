//! The list of workloads. A family's own is in its folder; the GEMM's takes a folder here.

mod gemm;
mod narrow;

use warpwright_harness::{DynWorkload, Entry};

use crate::attention::decode::DecodeAttentionWorkload;
use crate::attention::{AttentionWorkload, GradientWorkload};
use crate::{
    causal_conv, delta_rule, elementwise, gated_norm, gather, histogram, moe, reduce, rope, rows, sampling,
    scan, select, sgemm, sort, swiglu, transpose, weight_only_gemv,
};

/// Every workload of the library, in the order in which a reader best meets them.
pub const WORKLOADS: &[Entry] = &[
    Entry::of::<elementwise::CopyWorkload>(),
    Entry::of::<elementwise::MapWorkload>(),
    Entry::of::<elementwise::AddWorkload>(),
    Entry::of::<transpose::TransposeWorkload>(),
    Entry::of::<reduce::ReduceWorkload>(),
    Entry::of::<reduce::ArgMaxWorkload>(),
    Entry::of::<scan::ScanWorkload>(),
    Entry::of::<sort::SortWorkload>(),
    Entry::of::<histogram::HistogramWorkload>(),
    Entry::of::<select::SelectWorkload>(),
    Entry::of::<rows::SoftmaxWorkload>(),
    Entry::of::<rows::LogSoftmaxWorkload>(),
    Entry::of::<rows::RmsNormWorkload>(),
    Entry::of::<rows::AddRmsNormWorkload>(),
    Entry::of::<rows::LayerNormWorkload>(),
    Entry::of::<rows::CrossEntropyWorkload>(),
    Entry::of::<gather::GatherWorkload>(),
    Entry::of::<swiglu::SwigluWorkload>(),
    Entry::of::<moe::RouteWorkload>(),
    Entry::of::<moe::PermuteWorkload>(),
    Entry::of::<moe::CombineWorkload>(),
    Entry::of::<rope::RopeWorkload>(),
    Entry::of::<sampling::SamplingWorkload>(),
    Entry::of::<causal_conv::CausalConvDecodeWorkload>(),
    Entry::of::<causal_conv::CausalConvWorkload>(),
    Entry::of::<delta_rule::DeltaRuleDecodeWorkload>(),
    Entry::of::<delta_rule::DeltaRuleWorkload>(),
    Entry::of::<gated_norm::GatedNormWorkload>(),
    Entry::of::<weight_only_gemv::GemvWorkload>(),
    Entry::of::<sgemm::SgemmWorkload>(),
    Entry::of::<gemm::GemmWorkload>(),
    Entry::of::<narrow::QuantizeWorkload>(),
    Entry::of::<narrow::ScaledGemmWorkload>(),
    Entry::of::<AttentionWorkload>(),
    Entry::of::<GradientWorkload>(),
    Entry::of::<DecodeAttentionWorkload>(),
];

/// The workload of that name, with its defaults.
pub fn workload(name: &str) -> Option<Box<dyn DynWorkload>> {
    WORKLOADS.iter().find(|entry| entry.name() == name).map(Entry::workload)
}
