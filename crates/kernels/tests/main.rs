//! The tests of the crate, in one program.

mod allocations;
mod attention;
mod attention_fp8_mutants;
mod attention_gradient_mutants;
mod attention_mutants;
mod attention_value_transpose;
mod clean;
mod communicator;
mod counters;
mod decode_attention;
mod delta_rule;
mod delta_rule_f32;
mod emulated;
mod expected_refusals;
mod gemm;
mod gemm_along_m;
mod gemm_batched;
mod gemm_configurations;
mod gemm_epilogue;
#[path = "../examples/gemm.rs"]
mod gemm_example;
mod gemm_gated;
mod gemm_grid;
mod gemm_grouped;
mod gemm_mixed;
mod gemm_narrow;
mod gemm_scaled;
mod gemm_scaled_batched;
mod gemm_scaled_grouped;
mod gemm_search;
mod lengths;
mod library;
mod matrices;
mod mutants;
mod operands;
mod overlap;
mod products;
mod reduce;
mod refusals;
mod refused;
mod rope;
mod sampling;
mod scaled_product;
mod scan;
mod select_histogram;
mod sgemm;
mod sort;
mod sort_cases;
mod transformer_step;
mod walk;
mod weight_only_gemv_mutants;

use warpwright_workloads::WORKLOADS;

/// The workloads of the library.
const SUITE: walk::Suite = walk::Suite {
    kernels: WORKLOADS,
    refusals: expected_refusals::REFUSALS,
    is_refusal: walk::is_library_refusal,
};
