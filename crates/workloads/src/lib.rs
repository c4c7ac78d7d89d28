//! The workloads of the kernel library: for each kernel its options, inputs, work and reference, which
//! `run`, `check`, `bench`, `tune`, `ptx` and `report` need.

mod attention;
mod causal_conv;
pub mod delta_rule;
mod elementwise;
mod gated_norm;
mod gather;
mod gemm;
mod gemv;
mod group_quantize;
mod head_gates;
mod histogram;
mod moe;
mod narrow;
pub mod reduce;
mod rope;
mod rows;
pub mod sample;
mod sampling;
pub mod scan;
mod select;
pub mod sgemm;
pub mod sort;
mod speculation;
mod swiglu;
pub mod transpose;
mod weight_only_gemm;
mod weight_only_gemv;

use warpwright_harness::{DynWorkload, Entry};

/// The sources of what workloads give to kernels, as they were compiled.
pub const SOURCES: warpwright::Sources = warpwright::Sources::new(warpwright::sources!());

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
    Entry::of::<gather::ScatterWorkload>(),
    Entry::of::<gather::CopyRowWorkload>(),
    Entry::of::<gather::ConcatenateWorkload>(),
    Entry::of::<swiglu::SwigluWorkload>(),
    Entry::of::<moe::RouteWorkload>(),
    Entry::of::<moe::PermuteWorkload>(),
    Entry::of::<moe::CombineWorkload>(),
    Entry::of::<moe::SharedExpertWorkload>(),
    Entry::of::<rope::RopeWorkload>(),
    Entry::of::<head_gates::HeadGatesWorkload>(),
    Entry::of::<sampling::SamplingWorkload>(),
    Entry::of::<speculation::LastTokensWorkload>(),
    Entry::of::<speculation::DraftsWorkload>(),
    Entry::of::<causal_conv::CausalConvWorkload>(),
    Entry::of::<delta_rule::DeltaRuleDecodeWorkload>(),
    Entry::of::<delta_rule::DeltaRuleWorkload>(),
    Entry::of::<gated_norm::GatedNormWorkload>(),
    Entry::of::<weight_only_gemv::WeightOnlyGemvWorkload>(),
    Entry::of::<weight_only_gemv::ExpertGemvWorkload>(),
    Entry::of::<weight_only_gemv::DequantizeWorkload>(),
    Entry::of::<weight_only_gemm::WeightOnlyGemmWorkload>(),
    Entry::of::<group_quantize::GroupQuantizeWorkload>(),
    Entry::of::<sgemm::SgemmWorkload>(),
    Entry::of::<gemm::GemmWorkload>(),
    Entry::of::<gemv::GemvWorkload>(),
    Entry::of::<narrow::QuantizeWorkload>(),
    Entry::of::<narrow::ScaledGemmWorkload>(),
    Entry::of::<attention::AttentionWorkload>(),
    Entry::of::<attention::GradientWorkload>(),
    Entry::of::<attention::DecodeAttentionWorkload>(),
    Entry::of::<attention::PagedAttentionWorkload>(),
];

/// The workload of that name, with its defaults.
pub fn workload(name: &str) -> Option<Box<dyn DynWorkload>> {
    WORKLOADS.iter().find(|entry| entry.name() == name).map(Entry::workload)
}
