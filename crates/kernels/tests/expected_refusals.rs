//! What the library's workloads refuse in the walks over all options: which options, on which
//! device, and why. A walk fails at any other refusal, and where one of these does not come.

use warpwright::runtime::Device;
use warpwright_harness::DynWorkload;

use crate::walk::{Refusal, are_multiples, extent, text};

const ROWS: &[&str] = &["softmax", "log-softmax", "rms-norm", "add-rms-norm", "layer-norm", "cross-entropy"];

pub(crate) const REFUSALS: &[Refusal] = &[
    (&["transpose"], blocks_of_part_vectors, "are not both multiples of 4, the elements of a 16-byte vector"),
    (ROWS, unpipelined_rows, "a pipeline needs sm_90 and rows of whole 16-byte vectors that registers hold"),
    (ROWS, staggered_rows_of_one_cta, "a row of one CTA has no reduction over CTAs to overlap"),
    (ROWS, rows_too_short_for_the_grid, "a grid of 128 CTAs cannot share rows of"),
    (&["sgemm"], tma_of_part_vectors, "TMA needs sm_90 and n and k that are multiples of 4"),
    (&["sgemm"], tile_of_the_other_algorithm, "algorithm does not have this tile"),
    (&["gemm"], operands_that_do_not_mix, "operands have one type, or one is e4m3 and the other e5m2"),
    (
        &["gemm"],
        block_scales_elsewhere,
        "blockwise scales need the 8-bit floats of sm_89 and later, and the device is sm_",
    ),
    (
        &["gemm"],
        operands_of_wgmma_before_hopper,
        "operands need wgmma (sm_90a) or tcgen05 (sm_100a, sm_103a), 8-bit floats sm_89 or later, and the device is sm_80: use bf16 or f16 operands",
    ),
    (
        &["scaled-gemm"],
        formats_that_do_not_mix,
        "operands do not multiply: use MXFP8 or MXFP6 for both, or the same 4-bit format",
    ),
    (
        &["dequantize-weights", "weight-only-expert-gemv"],
        e4m3_before_ada,
        "weights of e4m3 need sm_89 or later",
    ),
    (
        &["dequantize-weights", "weight-only-expert-gemv"],
        zero_points_of_floats,
        "weights of e4m3 have no zero points",
    ),
    (&["delta-rule-decode"], steps_of_hopper_elsewhere, "needs sm_90, one token of each sequence"),
    (&["decode-attention"], queries_of_more_than_a_tile, "query heads per key head; give 1 to"),
    (&["gemm"], gates_of_part_tiles, "columns, but 16 at a time are gates and values: pad n to a multiple"),
    (&["gemm"], wgmma_elsewhere, "--instruction wgmma: it needs sm_90a, and the device is sm_"),
    (
        &["gemm"],
        tcgen05_elsewhere,
        "--instruction tcgen05: it needs sm_100a or sm_103a, and the device is sm_",
    ),
];

/// Gates and values whose last columns are no whole pairs.
fn gates_of_part_tiles(workload: &dyn DynWorkload, _: &Device) -> bool {
    !matches!(&*text(workload, "gate"), "" | "auto") && !are_multiples(workload, &["n"], 16)
}

fn is_hopper(device: &Device) -> bool {
    device.properties().capability.compute_capability >= (9, 0)
}

fn e4m3_before_ada(workload: &dyn DynWorkload, device: &Device) -> bool {
    text(workload, "format") == "e4m3" && device.properties().capability.compute_capability < (8, 9)
}

fn zero_points_of_floats(workload: &dyn DynWorkload, _: &Device) -> bool {
    text(workload, "format") == "e4m3" && text(workload, "zero-points") == "true"
}

/// A decode by clusters or bulk copies.
fn steps_of_hopper_elsewhere(workload: &dyn DynWorkload, device: &Device) -> bool {
    ["clusters", "bulk"].contains(&text(workload, "algorithm").as_str()) && !is_hopper(device)
}

fn blocks_of_part_vectors(workload: &dyn DynWorkload, _: &Device) -> bool {
    text(workload, "algorithm") == "blocks" && !are_multiples(workload, &["m", "n"], 4)
}

/// Rows with a pipeline that bulk copies cannot read, or of less than two warps.
fn unpipelined_rows(workload: &dyn DynWorkload, device: &Device) -> bool {
    let are_vectors = is_hopper(device) && are_multiples(workload, &["columns"], 8);
    match text(workload, "scheduler").as_str() {
        "pipelined" | "staggered" => !are_vectors || extent(workload, "columns") <= 1024,
        "grid" => !rows_too_short_for_the_grid(workload, device) && !are_vectors,
        _ => false,
    }
}

/// A key head with more than 128 rows of queries.
fn queries_of_more_than_a_tile(workload: &dyn DynWorkload, _: &Device) -> bool {
    extent(workload, "queries") * extent(workload, "query-heads") > 128 * extent(workload, "key-heads")
}

fn staggered_rows_of_one_cta(workload: &dyn DynWorkload, device: &Device) -> bool {
    let is_staggered = text(workload, "scheduler") == "staggered" && text(workload, "ctas") == "auto";
    is_staggered && !unpipelined_rows(workload, device) && extent(workload, "columns") <= 16_384
}

/// Rows of which the last CTA has no columns.
fn rows_too_short_for_the_grid(workload: &dyn DynWorkload, _: &Device) -> bool {
    let columns = extent(workload, "columns");
    let vector =
        [8, 4, 2, 1].into_iter().find(|lanes| columns.is_multiple_of(*lanes)).expect("1 divides all");
    let ctas = text(workload, "ctas").parse().unwrap_or(128);
    let part = columns.div_ceil(ctas).next_multiple_of(vector);
    text(workload, "scheduler") == "grid" && (ctas - 1) * part >= columns
}

fn tma_reads(workload: &dyn DynWorkload, device: &Device) -> bool {
    is_hopper(device) && are_multiples(workload, &["n", "k"], 4) && extent(workload, "k") > 0
}

fn tma_of_part_vectors(workload: &dyn DynWorkload, device: &Device) -> bool {
    let is_empty = extent(workload, "m") * extent(workload, "n") == 0;
    text(workload, "algorithm") == "tma" && !is_empty && !tma_reads(workload, device)
}

fn tile_of_the_other_algorithm(workload: &dyn DynWorkload, device: &Device) -> bool {
    let has_tma = match text(workload, "algorithm").as_str() {
        "auto" => tma_reads(workload, device) && extent(workload, "n") > 0,
        algorithm => algorithm == "tma",
    };
    text(workload, "tile") == if has_tma { "128x256" } else { "256x128" }
}

fn operands_that_do_not_mix(workload: &dyn DynWorkload, _: &Device) -> bool {
    let (a, b) = (text(workload, "input"), text(workload, "b-input"));
    let a = if a == "auto" { "bf16" } else { &a };
    b != "auto" && a != b && !(["e4m3", "e5m2"].contains(&a) && ["e4m3", "e5m2"].contains(&b.as_str()))
}

fn formats_that_do_not_mix(workload: &dyn DynWorkload, _: &Device) -> bool {
    let (a, b) = (text(workload, "format"), text(workload, "b-format"));
    let is_wide = |format: &str| format.starts_with("mxfp8") || format.starts_with("mxfp6");
    b != "auto" && a != b && !(is_wide(&a) && is_wide(&b))
}

fn is_blackwell(device: &Device) -> bool {
    device.properties().capability.tensor_memory_columns > 0
}

fn wgmma_elsewhere(workload: &dyn DynWorkload, device: &Device) -> bool {
    text(workload, "instruction") == "wgmma" && device.properties().capability.target != "sm_90a"
}

fn tcgen05_elsewhere(workload: &dyn DynWorkload, device: &Device) -> bool {
    text(workload, "instruction") == "tcgen05" && !is_blackwell(device)
}

fn operands_of_wgmma_before_hopper(workload: &dyn DynWorkload, device: &Device) -> bool {
    ["tf32", "e4m3", "e5m2"].contains(&text(workload, "input").as_str()) && !is_hopper(device)
}

fn block_scales_elsewhere(workload: &dyn DynWorkload, device: &Device) -> bool {
    text(workload, "scales").ends_with("x128") && device.properties().capability.compute_capability < (8, 9)
}
