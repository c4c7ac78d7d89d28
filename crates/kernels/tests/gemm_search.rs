//! The GEMM's search tries legal points only, and each of them computes the product.

use warpwright::emulator::Schedule;
use warpwright::runtime::Device;
use warpwright_harness::{Candidate, Search, Setup};
use warpwright_testing::one_in;
use warpwright_workloads::workload;

fn search(device: &Device, given: &[(&str, &str)]) -> Box<dyn Search> {
    let gemm = workload("gemm").expect("the GEMM is in the library");
    let mut options = gemm.clone();
    for (name, value) in given {
        options.set(name, value).expect("a value of the option");
    }
    options.search(&Setup::new(device)).expect("it has a search").unwrap_or_else(|error| panic!("{error}"))
}

fn run(device: &Device, Candidate { name, mut prepared }: Candidate) {
    let stream = device.stream().expect("a stream");
    prepared.launch(&stream).unwrap_or_else(|error| panic!("{name}: {error}"));
    let verified = prepared.verify().unwrap_or_else(|error| panic!("{name}: {error}"));
    assert!(verified.elements > 0, "{name}: nothing was compared");
}

/// A share of the legal configurations, over all of them; a sweep takes every one.
#[test]
fn legal_candidates_compute_the_gemm() {
    let device = Device::with_schedule("emu:h200", Schedule::Latest).expect("emulators are always there");
    for (output, step) in [("bf16", 151), ("f32", 293)] {
        let mut search = search(&device, &[("m", "200"), ("n", "264"), ("k", "328"), ("output", output)]);
        let candidates = search.first(usize::MAX);
        assert!(candidates.len() > 200, "{} candidates", candidates.len());
        one_in(step, candidates).for_each(|candidate| run(&device, candidate));
    }
}

/// A CTA that computes several tiles of three boxes begins each tile in the buffer in which the
/// last one ended.
#[test]
fn tiles_of_an_odd_number_of_boxes_wait_for_their_buffers() {
    let device = Device::with_schedule("emu:h200", Schedule::Latest).expect("emulators are always there");
    let mut search = search(&device, &[("m", "260"), ("n", "13000"), ("k", "72"), ("output", "bf16")]);
    let candidates = search.first(usize::MAX).into_iter();
    let odd = candidates.filter(|candidate| {
        let name = &candidate.name;
        (name.contains(" 64x96 ") || name.contains("128x96 ")) && name.contains("cluster 1x1 k 128 B,")
    });
    let ran = odd.map(|candidate| run(&device, candidate)).count();
    assert!(ran >= 2, "{ran} of them");
}

/// The CTAs of a cluster share the k of a tile: of slices of columns, and of rows and columns; of C
/// and its transpose; with a k-block more for some CTAs, and with more clusters than run at a time.
#[test]
fn tiles_whose_k_a_cluster_shares_are_whole() {
    let device = Device::with_schedule("emu:h200", Schedule::Latest).expect("emulators are always there");
    let device = device.checked().expect("an emulator");
    for ((m, n, k), output) in [(("136", "200", "584"), "bf16"), (("280", "72", "712"), "f32")] {
        let mut search = search(&device, &[("m", m), ("n", n), ("k", k), ("output", output)]);
        let candidates: Vec<_> = search.first(usize::MAX);
        let split: Vec<_> =
            candidates.into_iter().filter(|candidate| candidate.name.contains("split-K")).collect();
        assert!(split.len() > 100, "{} candidates", split.len());
        one_in(151, split).for_each(|candidate| run(&device, candidate));
    }
}

/// One CTA adds few parts: of a tile with a part in every SM, groups of them.
#[test]
fn many_parts_of_a_tile_are_added_in_groups() {
    let device = Device::with_schedule("emu:h200", Schedule::Latest).expect("emulators are always there");
    let device = device.checked().expect("an emulator");
    let mut search = search(&device, &[("m", "64"), ("n", "64"), ("k", "9000"), ("output", "bf16")]);
    let candidates = search.first(usize::MAX).into_iter();
    let whole = candidates.filter(|candidate| {
        let name = &candidate.name;
        ["64x64  pingpong", "128x64  cooperative"].iter().any(|tile| name.contains(tile))
            && name.contains("cluster 1x1 k 128 B stream-K,")
    });
    let ran = whole.map(|candidate| run(&device, candidate)).count();
    assert_eq!(ran, 2);
}

#[test]
fn candidates_around_the_fastest_compute_it_too() {
    let device = Device::named("emu:h200").expect("emulators are always there");
    let mut search = search(&device, &[("m", "600"), ("n", "520"), ("k", "200"), ("output", "bf16")]);
    let first = search.first(3);
    assert_eq!(first.len(), 3);
    let around = search.around(1);
    assert!(!around.is_empty());
    around.into_iter().for_each(|candidate| run(&device, candidate));
}

/// Where there are no warpgroups, or where A and B would have to be copied for them, tiles by
/// `mma.sync` are tried.
#[test]
fn mma_sync_algorithms_are_candidates() {
    let by_warps = |candidates: Vec<Candidate>| -> Vec<Candidate> {
        candidates.into_iter().filter(|candidate| candidate.name.contains("mma.sync")).collect()
    };
    for (name, k, output) in [("emu:h200", "67", "bf16"), ("emu:a100", "136", "f32")] {
        let device = Device::named(name).expect("emulators are always there");
        for (a, b) in [("row", "column"), ("column", "row")] {
            let options = [("m", "130"), ("n", "200"), ("k", k), ("output", output), ("a", a), ("b", b)];
            let mut search = search(&device, &options);
            assert_eq!(by_warps(search.first(2)).len(), if name == "emu:h200" { 1 } else { 2 });
            let candidates = by_warps(search.first(usize::MAX));
            assert_eq!(candidates.len(), 12, "four tiles, three pipelines");
            one_in(3, candidates).for_each(|candidate| run(&device, candidate));
            // Of the first two the second is by `mma.sync` on any device. Around it are other
            // rasters; all else has been tried.
            let around = by_warps(search.around(1));
            assert_eq!(around.len(), 2);
            around.into_iter().for_each(|candidate| run(&device, candidate));
        }
    }
}

#[test]
fn what_no_instruction_multiplies_has_no_search() {
    let gemm = workload("gemm").expect("the GEMM is in the library");
    for (device, option, why) in [
        ("emu:a100", ("input", "e4m3"), "e4m3 operands need wgmma (sm_90a)"),
        ("emu:h200", ("instruction", "mma-sync"), "a search times every instruction"),
    ] {
        let mut options = gemm.clone();
        options.set(option.0, option.1).expect("a value of the option");
        let device = Device::named(device).expect("emulators are always there");
        let Some(Err(error)) = options.search(&Setup::new(&device)) else {
            panic!("{options} is searched for")
        };
        assert!(error.to_string().contains(why), "{error}");
    }
}

#[test]
fn the_explanation_says_what_was_chosen_and_why() {
    let gemm = workload("gemm").expect("the GEMM is in the library");
    let device = Device::named("emu:h200").expect("emulators are always there");
    let explained = |given: &[(&str, &str)]| {
        let mut options = gemm.clone();
        for (name, value) in given {
            options.set(name, value).expect("a value of the option");
        }
        options.explain(&Setup::new(&device)).expect("it explains").unwrap_or_else(|error| panic!("{error}"))
    };
    let model = explained(&[("m", "4096"), ("n", "4096"), ("k", "4096")]);
    assert!(
        model.contains("->  0 ")
            && model.ends_with("the cheapest by the cost model; no tuned result is cached"),
        "{model}"
    );
    let ranked = explained(&[("m", "4096"), ("n", "4096"), ("k", "4096"), ("rank", "2")]);
    assert!(ranked.contains("->  2 ") && ranked.ends_with("chosen by --rank"), "{ranked}");
    assert_eq!(
        explained(&[("instruction", "mma-sync")]),
        "128x128 mma.sync, 4 stages, raster 8: chosen by --instruction"
    );
    let explanation = explained(&[("k", "7")]);
    assert!(explanation.contains("raster 8: TMA cannot read A and B as they are"), "{explanation}");
    let explanation = explained(&[("k", "7"), ("instruction", "wgmma")]);
    assert!(explanation.contains("A, 512 rows of 7, is copied first: row pitch 8 elements"), "{explanation}");
}

/// A batch is searched for as one product is.
#[test]
fn legal_candidates_of_a_batch_compute_it() {
    let device = Device::with_schedule("emu:h200", Schedule::Latest).expect("emulators are always there");
    let options = [
        ("grouping", "batched"),
        ("groups", "3"),
        ("m", "72"),
        ("n", "136"),
        ("k", "200"),
        ("output", "bf16"),
    ];
    let candidates = search(&device, &options).first(usize::MAX);
    assert!(candidates.len() > 200, "{} candidates", candidates.len());
    one_in(151, candidates).for_each(|candidate| run(&device, candidate));
}

#[test]
fn groups_explain_what_they_choose() {
    let gemm = workload("gemm").expect("it is in the library");
    let explained = |device: &str, given: &[(&str, &str)]| {
        let device = Device::named(device).expect("emulators are always there");
        let mut options = gemm.clone();
        for (name, value) in given {
            options.set(name, value).expect("a value of the option");
        }
        options.explain(&Setup::new(&device)).expect("it explains").unwrap_or_else(|error| panic!("{error}"))
    };
    for (grouping, of) in [
        ("unlike", "configurations for 8 problems of "),
        ("along-m", "configurations for 8 equal groups of 64 x 512 x 256"),
    ] {
        let explanation = explained("emu:h200", &[("grouping", grouping)]);
        assert!(explanation.contains(of), "{explanation}");
        assert!(explanation.contains("->  0 ") && !explanation.contains("copied"), "{explanation}");
        assert!(explanation.ends_with("the cheapest by the cost model"), "{explanation}");
        let explanation = explained("emu:a100", &[("grouping", grouping)]);
        assert!(explanation.ends_with("wgmma needs sm_90a, and tcgen05 sm_100a or sm_103a"), "{explanation}");
    }
    let odd = [("grouping", "unlike"), ("sizes", "odd"), ("input", "e4m3")];
    let explanation = explained("emu:h200", &odd);
    assert!(explanation.contains("problems are copied first: TMA cannot read them"), "{explanation}");
    let explanation = explained("emu:h200", &[("grouping", "along-m"), ("k", "255"), ("input", "e4m3")]);
    assert!(explanation.contains("is copied first"), "{explanation}");
    let scaled = [("grouping", "along-m"), ("scales", "1x128"), ("k", "255")];
    let explanation = explained("emu:h200", &scaled);
    assert!(explanation.contains(" configurations for 8 equal groups of 64 x"), "{explanation}");
    assert!(explanation.contains("->  0 ") && explanation.contains("is copied first"), "{explanation}");
    let odd = [
        ("grouping", "unlike"),
        ("scales", "1x128"),
        ("sizes", "odd"),
        ("input", "e5m2"),
        ("b-input", "e4m3"),
    ];
    let explanation = explained("emu:h200", &odd);
    assert!(explanation.contains(" configurations for 8 problems of "), "{explanation}");
    assert!(explanation.contains(" on average, of e5m2 x e4m3, by the cost model"), "{explanation}");
    assert!(
        explanation.contains("->  0 ") && explanation.contains("problems are copied first"),
        "{explanation}"
    );
    assert!(!explanation.contains("stream-K"), "{explanation}");
    let batch = [("scales", "1x128"), ("grouping", "batched"), ("groups", "5")];
    let explanation = explained("emu:h200", &batch);
    assert!(explanation.contains("->  0 ") && !explanation.contains("copied"), "{explanation}");
}

/// Factors of unlike types, and several products with scales, are what the command line runs and
/// verifies too.
#[test]
fn options_set_types_and_scales() {
    let device = Device::named("emu:h200").expect("emulators are always there");
    let stream = device.stream().expect("a stream");
    let gemm = workload("gemm").expect("it is in the library");
    for given in [
        &[("input", "e4m3"), ("b-input", "e5m2"), ("m", "40"), ("n", "72")][..],
        &[("input", "e5m2"), ("b-input", "e4m3"), ("m", "3"), ("grouping", "batched"), ("groups", "2")],
        &[("grouping", "along-m"), ("input", "e5m2"), ("b-input", "e4m3"), ("m", "70"), ("n", "72")],
        &[("grouping", "unlike"), ("input", "e4m3"), ("b-input", "e5m2"), ("groups", "3"), ("m", "70")],
        &[("scales", "tensor"), ("m", "40"), ("n", "200"), ("k", "300")],
        &[("scales", "row-column"), ("grouping", "batched"), ("groups", "3"), ("m", "40"), ("bias", "true")],
        &[("scales", "row-column"), ("grouping", "along-m"), ("m", "70"), ("activation", "relu")],
        &[("scales", "row-column"), ("grouping", "unlike"), ("m", "70"), ("beta", "0.5")],
        &[
            ("scales", "1x128"),
            ("grouping", "batched"),
            ("groups", "3"),
            ("m", "40"),
            ("n", "200"),
            ("k", "300"),
        ],
        &[("scales", "1x128"), ("grouping", "along-m"), ("m", "150"), ("n", "200"), ("k", "300")],
        &[
            ("scales", "1x128"),
            ("grouping", "along-m"),
            ("m", "9"),
            ("b-input", "e5m2"),
            ("b-scales", "1x128"),
            ("output", "f32"),
        ],
        &[
            ("scales", "1x128"),
            ("grouping", "unlike"),
            ("groups", "3"),
            ("m", "150"),
            ("n", "200"),
            ("k", "300"),
        ],
        &[
            ("scales", "128x128"),
            ("grouping", "unlike"),
            ("sizes", "odd"),
            ("m", "9"),
            ("input", "e5m2"),
            ("b-input", "e4m3"),
        ],
    ] {
        let mut options = gemm.clone();
        for (name, value) in given {
            options.set(name, value).expect("a value of the option");
        }
        let mut prepared =
            options.prepare(&Setup::new(&device)).unwrap_or_else(|error| panic!("{given:?}: {error}"));
        prepared.launch(&stream).unwrap_or_else(|error| panic!("{given:?}: {error}"));
        let verified = prepared.verify().unwrap_or_else(|error| panic!("{given:?}: {error}"));
        assert!(verified.elements > 0);
    }
    let mut options = gemm.clone();
    options.set("b-input", "e4m3").expect("a value of the option");
    let error = options.prepare(&Setup::new(&device)).map(|_| ()).expect_err("bf16 times e4m3").to_string();
    assert_eq!(
        error,
        "--input bf16 --b-input e4m3: operands have one type, or one is e4m3 and the other e5m2"
    );
}

/// Epilogues of the options are launched and verified, also where launch after launch adds to C.
#[test]
fn options_set_epilogues() {
    let gemm = workload("gemm").expect("the GEMM is in the library");
    for (device, grouping) in [("emu:h200", "none"), ("emu:h200", "batched"), ("emu:a100", "none")] {
        let device = Device::named(device).expect("emulators are always there");
        let stream = device.stream().expect("a stream");
        for (output, activation, bias, alpha, beta) in [
            ("f32", "relu", "true", "0.5", "0"),
            ("bf16", "gelu", "true", "1", "0.5"),
            ("f16", "silu", "false", "2", "0"),
            ("f32", "none", "false", "1", "0.5"),
        ] {
            let mut options = gemm.clone();
            let shape = [
                ("m", "70"),
                ("n", "72"),
                ("k", "45"),
                ("grouping", grouping),
                ("groups", "2"),
                ("output", output),
            ];
            let epilogue = [("activation", activation), ("bias", bias), ("alpha", alpha), ("beta", beta)];
            for (name, value) in shape.into_iter().chain(epilogue) {
                options.set(name, value).expect("a value of the option");
            }
            let mut prepared =
                options.prepare(&Setup::new(&device)).unwrap_or_else(|error| panic!("{error}"));
            for launch in 1..=3 {
                let (launched, log) = device.log_launches(|| prepared.launch(&stream));
                launched.unwrap_or_else(|error| panic!("{options}: {error}"));
                assert!(log.iter().any(|record| record.ptx.contains("gemm")), "{options}");
                let verified = prepared.verify().unwrap_or_else(|error| panic!("{options}: {error}"));
                assert!(verified.elements > 0, "{options}, launch {launch}: nothing was compared");
            }
            let Some(Err(error)) = options.search(&Setup::new(&device)) else {
                panic!("{options} is searched for")
            };
            assert!(error.to_string().contains("a search has no epilogue: remove"), "{error}");
        }
    }
}

/// The algorithms of a product with scales that a search tries, and those around one, compute it.
#[test]
fn scaled_algorithms_are_searched() {
    let scaled = workload("gemm").expect("it is in the library");
    let device = Device::with_schedule("emu:h200", Schedule::Latest).expect("emulators are always there");
    let mut options = scaled.clone();
    for (name, value) in [("scales", "1x128"), ("m", "200"), ("n", "264"), ("k", "400"), ("b-input", "e5m2")]
    {
        options.set(name, value).expect("a value of the option");
    }
    let mut search =
        options.search(&Setup::new(&device)).expect("it has a search").expect("Hopper has algorithms");
    let candidates = search.first(usize::MAX);
    assert!(candidates.len() > 20, "{} candidates", candidates.len());
    one_in(13, candidates).for_each(|candidate| run(&device, candidate));
    let around = search.around(1);
    assert!(!around.is_empty());
    around.into_iter().for_each(|candidate| run(&device, candidate));
    let ampere = Device::named("emu:a100").expect("emulators are always there");
    let Some(Err(error)) = options.search(&Setup::new(&ampere)) else { panic!("Ampere searches") };
    assert!(error.to_string().contains("the device is sm_80"), "{error}");
}
