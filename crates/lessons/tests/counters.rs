//! What the emulator counts equals the closed forms: bank conflicts, sectors, divergence.

use warpwright::runtime::{Device, LineCounts, Unit};
use warpwright_harness::{Resources, Setup};
use warpwright_lessons::demonstrations::{BankConflicts, Coalescing};

use crate::named;

/// The counters of a launch of a kernel, given its options as flags: in total, and for the line
/// that contains `text`.
struct Counted {
    total: LineCounts,
    lines: Vec<LineCounts>,
}

impl Counted {
    fn of(command: &str) -> Self {
        let mut words = command.split_whitespace();
        let kernel = named(words.next().expect("a name")).workload();
        let mut options = kernel.clone();
        while let (Some(flag), Some(value)) = (words.next(), words.next()) {
            options.set(flag.trim_start_matches("--"), value).expect("an option");
        }
        let device = Device::named("emu:h200").and_then(Device::counted).expect("emulators count");
        let mut prepared = options.prepare(&Setup::new(&device)).expect("prepared");
        device.take_counters();
        prepared.launch(&device.stream().expect("a stream")).expect("launched");
        prepared.verify().unwrap_or_else(|error| panic!("{command}: {error}"));
        let [counters] = device.take_counters().try_into().expect("one kernel");
        Self { total: counters.total(), lines: counters.lines() }
    }

    /// The one line of the source that contains these words.
    fn line(&self, words: &str) -> &LineCounts {
        let root = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let holds = |line: &&LineCounts| {
            let text =
                std::fs::read_to_string(root.join(line.file.as_ref().expect("a file"))).expect("the source");
            text.lines().nth(line.line as usize - 1).is_some_and(|text| text.contains(words))
        };
        let found: Vec<_> = self.lines.iter().filter(holds).collect();
        assert_eq!(found.len(), 1, "lines with `{words}`");
        found[0]
    }
}

#[test]
fn lanes_in_one_bank_conflict() {
    for stride in [0, 1, 2, 3, 4, 8, 16, 31, 32, 33, 64] {
        let counted = Counted::of(&format!("bank-conflicts --stride {stride}"));
        let shared = counted.line("word = memory.at(word).load()").counts.shared;
        let passes = u64::from(BankConflicts { stride }.passes());
        assert_eq!((shared.requests, shared.ideal), (64, 64), "stride {stride}");
        assert_eq!(shared.wavefronts, 64 * passes, "stride {stride}");
        assert_eq!(counted.total.counts.shared.conflicts(), 64 * (passes - 1), "the stores meet nowhere");
    }
}

#[test]
fn lanes_that_read_apart_touch_more_sectors() {
    let warps = 1024 / 32;
    for stride in [1, 2, 3, 4, 7, 8, 16, 33] {
        let counted = Counted::of(&format!("coalescing --length 1024 --stride {stride}"));
        let global = counted.line("output[i] = input").counts.global();
        let sectors = u64::from(Coalescing { stride }.sectors());
        assert_eq!(global.requests, 2 * warps, "a load and a store");
        assert_eq!(global.sectors, warps * (sectors + 4), "stride {stride}");
        assert_eq!(global.ideal, warps * (4 + 4), "stride {stride}");
        assert_eq!(global.bytes, 2 * 4 * 1024, "stride {stride}");
    }
}

#[test]
fn every_branch_is_taken_once_and_by_its_lanes_alone() {
    let (length, warps, steps) = (1024, 1024 / 32, 64);
    for ways in [1, 2, 4, 8, 16, 32] {
        let counted = Counted::of(&format!("divergence --length {length} --ways {ways}"));
        let chain = counted.line("x = x.mul_add(");
        assert_eq!(chain.operations[&Unit::F32], 2 * steps * length, "every lane goes one way");
        assert_eq!(chain.issued[&Unit::F32], ways * steps * warps, "and a warp goes each of them");
        let counts = chain.counts;
        assert_eq!(counts.lanes_lost(), (ways - 1) * steps * 32 * warps, "{ways} ways");
        let parted = if ways == 1 { 0 } else { ways * warps };
        assert_eq!(counted.total.counts.divergent_branches, parted, "{ways} ways");
    }
}

#[test]
fn transposes_conflict_as_their_tiles_do() {
    // 32 x 32 tiles of f32: each warp writes rows and reads columns.
    let (m, n) = (96u64, 160u64);
    let requests = m * n / 32;
    let transposed =
        |way: &str| Counted::of(&format!("transpose-ladder --m {m} --n {n} --step {way}")).total.counts;
    let naive = transposed("naive");
    assert_eq!(naive.shared.requests, 0);
    assert_eq!(naive.global().sectors, requests * (4 + 32), "rows are read, columns written");
    let shared = transposed("shared");
    assert_eq!(shared.shared.requests, 2 * requests);
    assert_eq!(shared.shared.conflicts(), requests * 31, "a column is in one bank: 32 ways");
    for way in ["padded", "swizzled"] {
        let counts = transposed(way);
        assert_eq!(counts.shared.requests, 2 * requests, "{way}");
        assert_eq!(counts.shared.conflicts(), 0, "{way}");
        assert_eq!(counts.global().excess(), 0, "{way}: both sides are coalesced");
        assert_eq!(counts.global().sectors, requests * (4 + 4), "{way}");
    }
}

/// Passes lost to bank conflicts in a tree of `length` elements whose neighboring lanes process
/// neighboring pairs: `up` accesses of all pairs at each step up, and `down` at each step down,
/// whose first `idle` pairs do nothing.
fn conflicts_of_tree(length: u64, up: u64, (down, idle): (u64, u64), steps_down: u32) -> u64 {
    // Lanes whose words are d apart, a power of two, use 32 / d banks.
    let of_warp = |lanes: u64, apart: u64| (lanes * apart.min(32)).div_ceil(32).max(1) - 1;
    let of_step = |stride: u64, idle: u64| -> u64 {
        let pairs = length / (2 * stride);
        let first_of_warp = (0..pairs).step_by(32);
        first_of_warp
            .map(|first| {
                let lanes = (pairs - first).min(32) - if first == 0 { idle } else { 0 };
                if lanes == 0 { 0 } else { of_warp(lanes, 2 * stride) }
            })
            .sum()
    };
    let strides = (0..length.ilog2()).map(|log| 1u64 << log);
    let up: u64 = strides.clone().map(|stride| up * of_step(stride, 0)).sum();
    up + strides.take(steps_down as usize).map(|stride| down * of_step(stride, idle)).sum::<u64>()
}

#[test]
fn trees_of_scans_conflict_as_the_closed_form_says_and_padded_ones_not_at_all() {
    for threads in [256u64, 512, 1024] {
        // One section, and one of totals: two launches would count for two kernels.
        let section = 2 * threads;
        let conflicts = |step: &str, length: u64| {
            let command = format!("scan-ladder --step {step} --threads {threads} --length {length}");
            Counted::of(&command).total.counts.shared.conflicts()
        };
        let log = section.ilog2();
        // A pair loads both ends and stores one, up and down, except that down the first pair does
        // nothing.
        let brent_kung = conflicts_of_tree(section, 3, (3, 1), log - 1);
        assert_eq!(conflicts("brent-kung", section), brent_kung, "{threads} threads");
        // Down, a pair stores both.
        let blelloch = conflicts_of_tree(section, 3, (4, 0), log);
        assert_eq!(conflicts("blelloch", section), blelloch, "{threads} threads");
        for step in ["brent-kung-padded", "blelloch-padded"] {
            assert_eq!(conflicts(step, section), 0, "{step} by {threads} threads");
            assert_eq!(conflicts(step, section - 33), 0, "{step} by {threads} threads");
        }
    }
}

/// The kernel's own count of resident CTAs is compared by `verify` with the computed occupancy;
/// here the occupancy is compared with values derived by hand from the tables of the programming
/// guide.
#[test]
fn resident_ctas_are_those_that_an_sm_holds() {
    for (gpu, sms, options, by_hand) in [
        // 32 CTA slots.
        ("emu:h200", 132, "--threads 32", 32),
        // 64 warp slots, 32 warps per CTA.
        ("emu:h200", 132, "--threads 1024", 2),
        // 228 KB of shared memory; 16 KB plus the system's 1 KB per CTA.
        ("emu:h200", 132, "--threads 64 --shared 16384", 13),
        // 80 registers per thread are 2560 per warp: six warps in each of four register files of
        // 16,384, so 24 warps, in CTAs of 3.
        ("emu:h200", 132, "--threads 96 --registers 80", 8),
        // 164 KB of shared memory.
        ("emu:a100", 108, "--threads 64 --shared 16384", 9),
    ] {
        let device = Device::named(gpu).expect("emulators are always there");
        let kernel = named("occupancy").workload();
        let mut chosen = kernel;
        let words: Vec<&str> = options.split_whitespace().collect();
        for pair in words.chunks(2) {
            chosen.set(pair[0].trim_start_matches("--"), pair[1]).expect("an option");
        }
        let mut prepared = chosen.prepare(&Setup::new(&device)).expect("prepared");
        let stream = device.stream().expect("a stream");
        let (launched, log) = device.log_launches(|| prepared.launch(&stream));
        launched.expect("launched");
        let resources = Resources::of(&log[0]).expect("it fits");
        assert_eq!(resources.ctas_per_sm, by_hand, "{gpu} {options}");
        assert_eq!(device.properties().sm_count, sms, "{gpu}");
        prepared.verify().unwrap_or_else(|error| panic!("{gpu} {options}: {error}"));
    }
}

/// How often a warp reads a parameter, by the launch's own instructions.
fn parameters_read(kernel: &str) -> u64 {
    let device = Device::named("emu:h200").and_then(Device::counted).expect("emulators count");
    let kernel = named(kernel).workload();
    let mut prepared = kernel.prepare(&Setup::new(&device)).expect("prepared");
    device.take_counters();
    prepared.launch(&device.stream().expect("a stream")).expect("launched");
    let [counters] = device.take_counters().try_into().expect("one kernel");
    let of_parameters = counters.instructions.iter().filter(|one| one.text.starts_with("ld.param"));
    of_parameters.map(|one| one.counts.executions).sum()
}

#[test]
fn each_unit_and_each_memory_is_reported() {
    let units = Counted::of("hardware-demonstration").total;
    assert_eq!(units.operations[&Unit::Special], 32, "a sine a lane");
    assert_eq!(units.operations[&Unit::F32], 32, "CUDA cores: the input doubled");
    assert_eq!(
        units.operations[&Unit::Conversion],
        2 * 32,
        "which is converted first, and the lane's number to 64 bits"
    );
    let accesses = units.counts;
    // Loads of the input for the sine and of 8 x 32 elements for the tile; stores of the waves and
    // of four accumulators per lane.
    assert_eq!(accesses.global().requests, 1 + 8 + 1 + 4, "load/store units");
    assert_eq!(accesses.shared.requests, 8 + 2, "the tile stored, A and B by ldmatrix");
    assert_eq!(units.operations[&Unit::TensorF16], 2 * 16 * 8 * 16);
    let memories = Counted::of("mem-walkthrough").total.counts;
    // Four warps load and store once each; the words of 32 lanes are four sectors.
    assert_eq!((memories.global().requests, memories.global().sectors), (2 * 4, 2 * 4 * 4));
    assert_eq!((memories.shared.requests, memories.shared.wavefronts), (2 * 4, 2 * 4));
    // An array with an index that is known only when the kernel runs.
    assert_eq!(memories.local.requests, 2 * 4);
    assert_eq!(parameters_read("mem-walkthrough"), 3 * 4, "two buffers and a scalar: the constant bank");
    assert_eq!((memories.barriers, memories.idle_barriers), (1, 1), "each thread reads what it wrote itself");
}
