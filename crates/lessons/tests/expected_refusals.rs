//! What the lessons refuse in the walks over all options: which options, on which device, and why.

use warpwright::runtime::Device;
use warpwright_harness::DynWorkload;

use crate::walk::{Refusal, are_multiples, extent, text};

pub(crate) const REFUSALS: &[Refusal] = &[
    (
        &["transpose-ladder"],
        blocks_of_part_vectors,
        "are not both multiples of 4, the elements of a 16-byte vector",
    ),
    (&["scan-ladder"], sums_of_16_bits, "in f32, which only --step single-pass"),
    (&["sgemm-ladder"], tma_of_part_vectors, "TMA needs sm_90 and n and k that are multiples of 4"),
    (&["hopper-ladder"], part_vectors_along_k, "make --k a multiple of 8"),
    (&["hopper-ladder"], part_vectors_along_n, "make --n a multiple of 8"),
    (&["blackwell-ladder"], part_vectors_of_c, "make --n a multiple of 8"),
    (&["blackwell-ladder"], part_vectors_by_tma, "make --k a multiple of 8"),
    (&["blackwell-ladder"], part_spans, "make --k a multiple of 64"),
    (&["blackwell-nvfp4"], part_vectors_of_c, "--n to be a multiple of 8"),
    (&["blackwell-nvfp4"], part_vectors_of_4_bits, "--k to be a multiple of 32"),
];

fn blocks_of_part_vectors(workload: &dyn DynWorkload, _: &Device) -> bool {
    text(workload, "step") == "blocks" && !are_multiples(workload, &["m", "n"], 4)
}

fn sums_of_16_bits(workload: &dyn DynWorkload, _: &Device) -> bool {
    let is_narrow = ["f16", "bf16"].contains(&text(workload, "type").as_str());
    is_narrow && text(workload, "by") == "sum" && text(workload, "step") != "single-pass"
}

fn tma_of_part_vectors(workload: &dyn DynWorkload, device: &Device) -> bool {
    let is_hopper = device.properties().capability.compute_capability >= (9, 0);
    let is_empty = extent(workload, "m") * extent(workload, "n") == 0;
    let is_readable = is_hopper && are_multiples(workload, &["n", "k"], 4);
    text(workload, "step") == "tma" && !is_empty && !is_readable
}

fn part_vectors_along_k(workload: &dyn DynWorkload, _: &Device) -> bool {
    !are_multiples(workload, &["k"], 8)
}

fn part_vectors_along_n(workload: &dyn DynWorkload, _: &Device) -> bool {
    let has_tma_store = ["tma-store", "pingpong"].contains(&text(workload, "step").as_str());
    has_tma_store && are_multiples(workload, &["k"], 8) && !are_multiples(workload, &["n"], 8)
}

fn part_vectors_of_c(workload: &dyn DynWorkload, _: &Device) -> bool {
    !are_multiples(workload, &["n"], 8)
}

fn part_vectors_by_tma(workload: &dyn DynWorkload, _: &Device) -> bool {
    let loads_otherwise = ["scalar", "v2b"].contains(&text(workload, "step").as_str());
    !loads_otherwise && !are_multiples(workload, &["k"], 8)
}

fn part_spans(workload: &dyn DynWorkload, _: &Device) -> bool {
    text(workload, "step") == "v2b" && !are_multiples(workload, &["k"], 64)
}

fn part_vectors_of_4_bits(workload: &dyn DynWorkload, _: &Device) -> bool {
    !are_multiples(workload, &["k"], 32)
}
