//! Which configurations are legal, ranked and searched, and what the cost model prefers.

use warpwright::arch::Capability;
use warpwright::arch::DataType::{Bf16, E4m3, F32, Tf32};
use warpwright_kernels::gemm::device::mainloop::mma_sync::MmaSyncConfiguration;
use warpwright_kernels::gemm::device::schedule::Schedule;
use warpwright_kernels::gemm::host::config::{Algorithm, Configuration, TmaInstruction};
use warpwright_kernels::gemm::host::cost::Cost;
use warpwright_kernels::gemm::host::heuristic::rank;
use warpwright_kernels::gemm::problem::batching::{GemmProblem, Problem};
use warpwright_kernels::gemm::problem::scales::Granularity::{Block, Row};
use warpwright_kernels::gemm::problem::types::{GemmTypes, MatrixLayout};

const TYPES: GemmTypes = GemmTypes::new(Bf16, Bf16, Bf16);
const LEGAL: Configuration = Configuration {
    tile: (128, 192),
    schedule: Schedule::Pingpong,
    cluster: (2, 1),
    k_bytes: 128,
    stream_k: false,
    split_k: 1,
    transposed: false,
    stages: 4,
    raster: 8,
    accumulator_sets: 1,
};
const SPLIT: Configuration = Configuration {
    tile: (128, 128),
    schedule: Schedule::Cooperative,
    cluster: (1, 1),
    split_k: 2,
    accumulator_sets: 1,
    ..LEGAL
};
const H200_SMS: u32 = 132;
const IN_TENSOR_MEMORY: Configuration =
    Configuration { tile: (128, 256), schedule: Schedule::TensorMemory, ..LEGAL };
const INSTRUCTIONS: [TmaInstruction; 2] = [TmaInstruction::Wgmma, TmaInstruction::Tcgen05];

fn sized(m: u32, n: u32, k: u32) -> GemmProblem {
    GemmProblem::new(Problem::new(m, n, k), TYPES)
}

fn large() -> GemmProblem {
    sized(4096, 4096, 4096)
}

fn capability(target: &str) -> &'static Capability {
    Capability::for_target(target).expect("it is known")
}

/// Fails unless an algorithm is refused with that reason.
fn expect_refusal(algorithm: Algorithm, problem: &GemmProblem, target: &str, reason: &str) {
    let error = algorithm.check(problem, capability(target)).expect_err(reason).to_string();
    assert!(error.contains(reason), "{error}\n{reason}");
}

#[test]
fn what_the_heuristic_ranks_is_legal() {
    assert!(LEGAL.is_legal(&large()) && SPLIT.is_legal(&large()));
    for (m, n, k) in [(1, 1, 1), (1, 12288, 4096), (2048, 2048, 2048), (8192, 8192, 8192), (64, 64, 1 << 21)]
    {
        let scaled = Some((Row, Block));
        for (input, c, scales) in [
            (E4m3, Bf16, None),
            (Bf16, Bf16, None),
            (Bf16, F32, None),
            (Tf32, F32, None),
            (E4m3, Bf16, scaled),
            (E4m3, F32, scaled),
        ] {
            let problem =
                GemmProblem { types: GemmTypes::new(input, input, c).with(scales), ..sized(m, n, k) };
            for instruction in INSTRUCTIONS {
                let all = Configuration::all(&problem, instruction);
                assert!(!all.is_empty(), "{instruction:?}: {problem:?}");
                for configuration in all {
                    assert!(configuration.is_legal(&problem), "{configuration} for {problem:?}");
                }
            }
        }
    }
}

#[test]
fn only_legal_candidates_are_searched_and_none_twice() {
    for problem in [
        large(),
        sized(1, 4096, 4096),
        GemmProblem { types: GemmTypes { c: F32, ..TYPES }, ..large() },
        sized(4096, 4096, 1 << 21),
    ] {
        let [by_wgmma, by_tcgen05] = INSTRUCTIONS.map(|at| Configuration::searched(&problem, at));
        assert!(by_wgmma.len() > 100 && by_tcgen05.len() > 50, "{problem:?}");
        let all = [by_wgmma, by_tcgen05].concat();
        for (index, configuration) in all.iter().enumerate() {
            assert!(
                configuration.is_legal(&problem) && !all[..index].contains(configuration),
                "{configuration}"
            );
            for other in configuration.around(&problem) {
                assert!(other.is_legal(&problem) && other != *configuration, "{other}");
            }
        }
    }
    let problem = sized(8192, 8192, 8192);
    for instruction in INSTRUCTIONS {
        let best = rank(&problem, instruction, H200_SMS)[0].configuration;
        // A search tries other rasters around the fastest.
        let finds = |one: &Configuration| *one == best || one.around(&problem).contains(&best);
        assert!(Configuration::searched(&problem, instruction).iter().any(finds), "{best}");
    }
}

#[test]
fn a_refusal_names_the_rule() {
    let schedule = Schedule::Cooperative;
    let (large, long) = (large(), sized(4096, 4096, 1 << 21));
    let types = GemmTypes { a: E4m3, b: E4m3, ..TYPES };
    let scaled = GemmProblem { types: types.with(Some((Row, Row))), ..large };
    let split_scaled = GemmProblem { types: types.with(Some((Row, Block))), ..large };
    let along_m = GemmProblem { along_m: true, ..large };
    for (configuration, problem, reason) in [
        (
            Configuration { tile: (96, 64), ..LEGAL },
            large,
            "96 rows, but its consumers multiply 64 at a time",
        ),
        (
            Configuration { tile: (64, 64), schedule, ..LEGAL },
            large,
            "64 rows, but its consumers multiply 128",
        ),
        (Configuration { tile: (64, 264), ..LEGAL }, large, "264 columns, but wgmma multiplies 8 to 256"),
        (Configuration { tile: (64, 100), ..LEGAL }, large, "100 columns, but wgmma multiplies 8 to 256"),
        (Configuration { tile: (128, 256), ..LEGAL }, large, "256 accumulators, but its registers hold 192"),
        (Configuration { cluster: (4, 4), ..LEGAL }, large, "a cluster has 16 CTAs, but"),
        (Configuration { cluster: (0, 1), ..LEGAL }, large, "a cluster has 0 CTAs, but"),
        (
            Configuration { tile: (128, 8), cluster: (3, 1), ..LEGAL },
            large,
            "3 CTAs cannot load 8 rows of B in equal parts",
        ),
        (Configuration { k_bytes: 64, ..LEGAL }, large, "64 bytes of k: use a multiple of 128"),
        (Configuration { stages: 5, ..LEGAL }, large, "5 stages, but needs 2 and shared memory holds 4"),
        (Configuration { stages: 1, ..LEGAL }, large, "1 stages, but needs 2 and shared memory holds 4"),
        (Configuration { raster: 0, ..LEGAL }, large, "the raster is 0"),
        (Configuration { stream_k: true, ..LEGAL }, long, "k is 2097152, but stream-K takes 1048576 at most"),
        (LEGAL, scaled, "no kernel of 128x192 tiles with 1 accumulator sets"),
        (
            Configuration { split_k: 0, ..SPLIT },
            large,
            "0 CTAs share a tile's k, but a portable cluster has 1 to 8",
        ),
        (
            Configuration { split_k: 9, ..SPLIT },
            large,
            "9 CTAs share a tile's k, but a portable cluster has 1 to 8",
        ),
        (
            Configuration { schedule: Schedule::Pingpong, ..SPLIT },
            large,
            "are cooperative and share no operand: use a cluster of 1x1 without stream-K",
        ),
        (Configuration { cluster: (2, 1), ..SPLIT }, large, "share no operand"),
        (Configuration { stream_k: true, ..SPLIT }, large, "without stream-K"),
        (SPLIT, along_m, "groups and blockwise scales have no split-K: use 1"),
        (SPLIT, split_scaled, "groups and blockwise scales have no split-K: use 1"),
        (
            Configuration { split_k: 3, ..SPLIT },
            large,
            "3 CTAs cannot store equal slices of a tile of 128x128",
        ),
        (
            Configuration { tile: (256, 128), split_k: 3, stages: 2, ..SPLIT },
            large,
            "3 CTAs cannot store equal slices of a tile of 256x128",
        ),
        (
            Configuration { split_k: 8, tile: (128, 80), ..SPLIT },
            large,
            "8 CTAs cannot store equal slices of a tile of 128x80: use a tile whose columns are a multiple of 8 for each",
        ),
        (SPLIT, sized(4096, 4096, 64), "k has 1 k-blocks, but 2 CTAs share it: use fewer"),
    ] {
        assert!(!configuration.is_legal(&problem));
        expect_refusal(Algorithm::Wgmma(configuration), &problem, "sm_90a", reason);
    }
    expect_refusal(Algorithm::Wgmma(LEGAL), &large, "sm_80", "wgmma needs sm_90a, and the device is sm_80");
    let (registers, memory) = (Algorithm::Wgmma, Algorithm::Tcgen05);
    for (algorithm, target, reason) in [
        (registers(LEGAL), "sm_100a", "wgmma needs sm_90a, and the device is sm_100a"),
        (memory(IN_TENSOR_MEMORY), "sm_90a", "tcgen05 needs sm_100a or sm_103a, and the device is sm_90a"),
        (memory(IN_TENSOR_MEMORY), "sm_120a", "and the device is sm_120a: use an mma.sync algorithm"),
        (memory(LEGAL), "sm_100a", "tcgen05 has no kernel with these accumulators"),
        (registers(IN_TENSOR_MEMORY), "sm_90a", "wgmma has no kernel with these accumulators"),
    ] {
        expect_refusal(algorithm, &large, target, reason);
    }
    for (configuration, reason) in [
        (Configuration { tile: (64, 256), ..IN_TENSOR_MEMORY }, "64 rows, but tensor memory has 128"),
        (
            Configuration { tile: (128, 8), ..IN_TENSOR_MEMORY },
            "8 columns, but tcgen05.mma multiplies 16 to 256: use a multiple of 16",
        ),
        (
            Configuration { schedule: Schedule::PairedTensorMemory, cluster: (1, 2), ..IN_TENSOR_MEMORY },
            "a pair of CTAs multiplies, but the cluster is 1x2: use a cluster of 2x1",
        ),
        (
            Configuration { split_k: 2, cluster: (1, 1), ..IN_TENSOR_MEMORY },
            "tcgen05 kernels have no split-K: use 1, or stream-K",
        ),
    ] {
        expect_refusal(memory(configuration), &large, "sm_100a", reason);
    }
    for target in ["sm_100a", "sm_103a"] {
        assert!(memory(IN_TENSOR_MEMORY).check(&large, capability(target)).is_ok());
    }
}

#[test]
fn mma_sync_candidates_are_legal_and_none_twice() {
    let default = MmaSyncConfiguration::default();
    let check = |configuration, target| Algorithm::MmaSync(configuration).check(&large(), capability(target));
    for target in ["sm_80", "sm_86", "sm_90a"] {
        let all = MmaSyncConfiguration::all(capability(target));
        assert_eq!(all[0], default);
        for (index, &configuration) in all.iter().enumerate() {
            assert!(!all[..index].contains(&configuration), "{configuration:?}");
            let around = configuration.around(capability(target));
            assert!(around.len() >= 6 && !around.contains(&configuration), "{configuration:?}");
            for (index, &other) in around.iter().enumerate() {
                assert!(check(other, target).is_ok() && !around[..index].contains(&other), "{other:?}");
            }
        }
    }
    assert!(check(MmaSyncConfiguration { stages: 6, ..default }, "sm_86").is_ok());
    for illegal in [
        MmaSyncConfiguration { stages: 7, ..default },
        MmaSyncConfiguration { tile: (256, 128), ..default },
        MmaSyncConfiguration { tile: (64, 96), ..default },
        MmaSyncConfiguration { stages: 1, ..default },
        MmaSyncConfiguration { stages: u32::MAX, ..default },
        MmaSyncConfiguration { raster: 0, ..default },
    ] {
        let reason = "tiles have 64 or 128 rows and columns, and at least 2 stages";
        expect_refusal(Algorithm::MmaSync(illegal), &large(), "sm_86", reason);
    }
    let narrow = GemmProblem { types: GemmTypes { a: E4m3, b: E4m3, ..TYPES }, ..large() };
    expect_refusal(
        Algorithm::MmaSync(default),
        &narrow,
        "sm_90a",
        "the mma.sync kernel takes bf16 and f16 operands",
    );
}

/// By the data sheet's numbers: pairs of CTAs load fewer columns of B.
#[test]
fn pairs_of_ctas_multiply_large_problems() {
    const B200_SMS: u32 = 148;
    for extent in [4096, 8192, 16384] {
        let best = rank(&sized(extent, extent, extent), TmaInstruction::Tcgen05, B200_SMS)[0].configuration;
        assert_eq!((best.tile, best.schedule), ((128, 256), Schedule::PairedTensorMemory), "{extent}");
    }
    let narrow = rank(&sized(1, 4096, 4096), TmaInstruction::Tcgen05, B200_SMS)[0].configuration;
    assert!(narrow.transposed && narrow.tile.1 == 16, "{narrow}");
}

/// The first choice is the one that was fastest on an H200, or within a few hundredths of it:
/// docs/results.
#[test]
fn the_model_agrees_with_the_measured_choices() {
    for ((m, n, k), tile, stream_k, split_k, transposed) in [
        ((6144, 6144, 6144), (128, 176), false, 1, false),
        ((8192, 8192, 8192), (128, 192), false, 1, false),
        ((4096, 4096, 4096), (128, 256), false, 1, false),
        ((3072, 3072, 3072), (128, 192), false, 1, false),
        ((2048, 2048, 2048), (128, 256), false, 1, false),
        ((1024, 1024, 16384), (128, 128), false, 2, false),
        ((8192, 8192, 512), (128, 192), false, 1, false),
        ((8192, 4096, 4096), (128, 144), false, 1, true),
        ((8192, 4096, 12288), (128, 144), false, 1, true),
        ((4096, 24576, 4096), (128, 176), false, 1, false),
        ((16384, 16384, 16384), (128, 256), false, 1, false),
        ((128, 12288, 4096), (128, 96), false, 1, false),
        ((64, 12288, 4096), (64, 96), false, 1, false),
        ((16, 12288, 4096), (64, 8), false, 1, true),
        ((1, 12288, 4096), (64, 8), true, 1, true),
        ((64, 64, 100000), (64, 16), true, 1, false),
        ((640, 640, 65536), (128, 160), true, 1, false),
        ((4096, 320, 3456), (64, 160), false, 1, false),
        ((320, 2688, 2688), (64, 112), false, 1, false),
        ((640, 2624, 13312), (128, 112), false, 1, false),
        ((448, 1728, 2688), (64, 96), false, 1, false),
        ((832, 768, 3968), (64, 96), false, 1, false),
        ((896, 1216, 11904), (128, 144), false, 2, false),
        ((704, 1088, 8960), (128, 112), false, 2, false),
        ((1152, 832, 9472), (64, 128), false, 1, true),
        ((512, 256, 14208), (64, 176), true, 1, true),
        // 40 and 32 clusters of 3 and 4 CTAs do not run at a time.
        ((512, 960, 15616), (128, 160), true, 1, false),
        ((512, 704, 3648), (64, 64), false, 1, false),
    ] {
        let best = rank(&sized(m, n, k), TmaInstruction::Wgmma, H200_SMS)[0].configuration;
        assert_eq!(
            (best.tile, best.stream_k, best.split_k, best.transposed),
            (tile, stream_k, split_k, transposed),
            "{m} {n} {k}"
        );
    }
}

/// Without a cluster, 3000 x 5000 x 7000 in tiles of 128x192 takes 437 us, cuBLASLt 319: rows of 14,000 bytes do
/// not begin at lines of L2, and TMA takes twice as long to request them. CTAs of a cluster request a part each.
#[test]
fn clusters_share_rows_that_begin_between_lines() {
    let best = rank(&sized(3000, 5000, 7000), TmaInstruction::Wgmma, H200_SMS)[0].configuration;
    assert_ne!(best.cluster, (1, 1), "{best}");
}

#[test]
fn the_busiest_cta_decides_unless_tiles_are_split() {
    let whole = Configuration { tile: (128, 256), schedule: Schedule::Cooperative, ..LEGAL };
    let large = sized(8192, 8192, 64);
    let cost = Cost::of(whole, &large, H200_SMS);
    assert_eq!((cost.ctas, cost.tiles, cost.waves), (132, 2048, 16.0));
    let split = Cost::of(Configuration { stream_k: true, ..whole }, &large, H200_SMS);
    assert!(split.waves < 16.0 && split.reduction > 0.0);
    let none = Cost::of(whole, &sized(0, 64, 64), H200_SMS);
    assert_eq!((none.ctas, none.tiles), (0, 0));
    let one = Cost::of(whole, &sized(1, 1, 1), H200_SMS);
    assert_eq!((one.ctas, one.tiles, one.waves), (2, 2, 1.0));
}

/// The model's cheapest of the configurations that were timed on an H200 takes at most 6% longer than the fastest.
#[test]
fn the_cost_model_knows_narrow_boxes() {
    let text = include_str!("../../../docs/results/2026-11-29-gemm-boxes.json");
    let record: serde_json::Value = serde_json::from_str(text).expect("the record is JSON");
    let timed: Vec<(&str, f64, &str)> = record["rows"]
        .as_array()
        .expect("rows")
        .iter()
        .map(|row| {
            (row[0].as_str().expect("a shape"), row[1].as_f64().expect("us"), row[4].as_str().expect("one"))
        })
        .collect();
    let shapes: std::collections::BTreeSet<_> = timed.iter().map(|(shape, ..)| *shape).collect();
    assert_eq!(shapes.len(), 4);
    for shape in shapes {
        let [m, n, k, a, b] = shape.split(' ').collect::<Vec<_>>().try_into().expect("five words");
        let [m, n, k] = [m, n, k].map(|extent: &str| extent.parse().expect("a number"));
        let layout = |word| if word == "row" { MatrixLayout::RowMajor } else { MatrixLayout::ColumnMajor };
        let problem = Problem { a: layout(a), b: layout(b), ..Problem::new(m, n, k) };
        let costs = rank(&GemmProblem::new(problem, TYPES), TmaInstruction::Wgmma, H200_SMS);
        let place = |of: &str| costs.iter().position(|cost| cost.configuration.to_string().trim() == of);
        let of_shape = timed.iter().filter(|(of, ..)| *of == shape);
        let ranked =
            of_shape.map(|(_, us, of)| (place(of).unwrap_or_else(|| panic!("{of} is ranked")), *us, *of));
        let ranked: Vec<_> = ranked.collect();
        let (_, chosen, name) = ranked.iter().min_by_key(|(place, ..)| *place).expect("some");
        let fastest = ranked.iter().map(|(_, us, _)| *us).fold(f64::INFINITY, f64::min);
        assert!(*chosen <= 1.06 * fastest, "{shape}: {name} takes {chosen} us, and the fastest {fastest}");
    }
}
