//! Small PTX programs, whose time follows from few figures: those that the probes measured on an H200
//! (docs/results/2026-11-28-probe-h200.md), and what a barrier, a copy or a flag must at least cost.

use warpwright_arch::Arch;
use warpwright_emulator::{Emulator, Launch, Schedule};
use warpwright_events::{Fault, FaultKind, estimated_registers};
use warpwright_time::{Assumption, LaunchTiming, Prediction, Stall};

/// A launch of a kernel with one buffer of zeros as its parameter.
struct Case {
    body: String,
    grid: u32,
    block: u32,
    buffer: u64,
    schedule: Schedule,
    threads: usize,
    assumptions: &'static [Assumption],
}

impl Case {
    fn new(body: impl Into<String>) -> Self {
        Self {
            body: body.into(),
            grid: 1,
            block: 32,
            buffer: 1 << 16,
            schedule: Schedule::Eager,
            threads: 1,
            assumptions: &[],
        }
    }

    fn predict(&self) -> Prediction {
        self.run().expect("it ends").0
    }

    /// The prediction, and the buffer afterwards.
    fn run(&self) -> Result<(Prediction, Vec<u32>), Box<Fault>> {
        let h200 = Arch::named("h200").expect("in the table");
        let text = format!(
            ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry kernel(.param .u64 p) {{\n\
             .reg .pred %p<8>; .reg .b32 %r<64>; .reg .f32 %f<64>; .reg .b64 %rd<64>;\n\
             .shared .align 128 .b8 tile[8192]; .shared .align 8 .b64 bar;\n\
             ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; mov.u32 %r2, 0; mov.f32 %f1, 0f3f800000;\n\
             {}\nret;\n}}\n",
            self.body
        );
        let mut device = Emulator::with_threads(h200, self.threads).expect("it starts");
        let buffer = device.allocate(self.buffer).expect("there is memory");
        device.fill(buffer, 0, self.buffer as usize).expect("it is allocated");
        let module = warpwright_ptx::parse(&text).expect("the PTX is right");
        let program = device.load(&module).expect("it loads");
        let launch = Launch {
            grid: [self.grid, 1, 1],
            block: [self.block, 1, 1],
            parameters: &buffer.to_le_bytes(),
            schedule: self.schedule,
            ..Launch::default()
        };
        let info = device.describe(&program, "kernel", &launch).expect("it may be launched");
        let timing = LaunchTiming::new(&info, h200).assuming(self.assumptions);
        device.launch(&program, "kernel", &Launch { observers: &[&timing], ..launch })?;
        let prediction = timing.prediction();
        assert_eq!(prediction.released, 0, "every wait has an end");
        let mut bytes = vec![0; self.buffer as usize];
        device.read(buffer, &mut bytes).expect("it is allocated");
        let words =
            bytes.chunks_exact(4).map(|word| u32::from_le_bytes(word.try_into().expect("four bytes")));
        Ok((prediction, words.collect()))
    }

    fn cycles(&self) -> u64 {
        self.predict().cycles
    }
}

/// A loop of so many rounds.
fn repeated(body: &str, rounds: u32) -> String {
    format!(
        "mov.u32 %r60, 0;\nagain:\n{body}add.u32 %r60, %r60, 1;\nsetp.lt.u32 %p7, %r60, {rounds};\n@%p7 bra again;\n"
    )
}

/// The cycles that each of `count` further repetitions of a line takes once its code has been fetched.
fn each(line: &str, count: usize) -> f64 {
    const START: &str = "st.shared.b32 [%r2], %r2;\n";
    let cycles =
        |count, rounds| Case::new(START.to_owned() + &repeated(&line.repeat(count), rounds)).cycles();
    let [short, long] = [count, 2 * count].map(|count| cycles(count, 3) - cycles(count, 2));
    (long - short) as f64 / count as f64
}

#[test]
fn chains_of_instructions_take_their_latencies() {
    let cases = [
        ("fma.rn.f32 %f1, %f1, %f1, %f1;\n", 4.0),
        ("mad.lo.s32 %r2, %r2, %r2, %r1;\n", 4.0),
        ("lop3.b32 %r2, %r2, %r1, %r1, 0x1e;\n", 4.0),
        ("ex2.approx.ftz.f32 %f1, %f1;\n", 17.0),
        ("shfl.sync.bfly.b32 %r2, %r2, 1, 0x1f, 0xffffffff;\n", 24.0),
        ("ld.shared.b32 %r2, [%r2];\n", 23.0),
    ];
    for (line, latency) in cases {
        let cycles = each(line, 100);
        assert!((cycles - latency).abs() <= 0.05 * latency, "{line}: {cycles} cycles, {latency} measured");
    }
}

#[test]
fn independent_instructions_take_their_intervals() {
    for (line, interval) in [
        ("fma.rn.f32 %f2, %f1, %f1, %f1; fma.rn.f32 %f3, %f1, %f1, %f1;\n", 2.0),
        ("lop3.b32 %r3, %r2, %r1, %r1, 0x1e; lop3.b32 %r4, %r2, %r1, %r1, 0x1e;\n", 4.0),
        ("ex2.approx.ftz.f32 %f2, %f1; ex2.approx.ftz.f32 %f3, %f1;\n", 16.0),
    ] {
        let cycles = each(line, 100);
        assert!((cycles - interval).abs() <= 0.05 * interval, "{line}: {cycles} cycles, {interval} measured");
    }
}

#[test]
fn bank_conflicts_take_two_cycles_each_of_one_warp() {
    for ways in [1u32, 2, 4, 8, 16, 32] {
        let start = format!("mul.lo.u32 %r3, %r1, {}; and.b32 %r3, %r3, 8188;\n", 4 * ways);
        let line = "ld.shared.b32 %r4, [%r3]; and.b32 %r4, %r4, 0; add.s32 %r3, %r3, %r4;\n";
        let [short, long] = [50, 100].map(|count| Case::new(start.clone() + &line.repeat(count)).cycles());
        let cycles = (long - short) as f64 / 50.0 - 8.0;
        let measured = f64::from(23 + 2 * (ways - 1));
        assert!((cycles - measured).abs() <= 2.0, "{ways} ways: {cycles} cycles, {measured} measured");
    }
}

#[test]
fn conflicts_of_several_warps_share_the_passes_of_an_sm() {
    // Cycles of a `red` of one warp and of four, by its lanes at a bank.
    for (ways, one, four) in [(4u32, 8.0, 16.0), (8, 16.0, 32.0), (16, 32.0, 64.0), (32, 64.0, 128.0)] {
        let body = |count| {
            let start = format!("and.b32 %r3, %r1, 31; mul.lo.u32 %r3, %r3, {};\n", 4 * ways);
            start + &"red.shared.add.u32 [%r3], %r1;\n".repeat(count)
        };
        for (block, measured) in [(32, one), (128, four)] {
            let [short, long] = [50, 100].map(|count| Case { block, ..Case::new(body(count)) }.cycles());
            let cycles = (long - short) as f64 / 50.0;
            assert!(
                (cycles - measured).abs() <= 1.0,
                "{ways} ways, {block} threads: {cycles}, {measured} measured"
            );
        }
    }
}

#[test]
fn barriers_take_longer_the_more_warps_there_are() {
    for (warps, measured) in [(1, 14.0), (4, 20.0), (8, 28.0), (16, 44.0), (32, 76.0)] {
        let case = |count| Case { block: 32 * warps, ..Case::new("bar.sync 0;\n".repeat(count)) };
        let cycles = (case(100).cycles() - case(50).cycles()) as f64 / 50.0;
        assert!(
            (cycles - measured).abs() <= 0.3 * measured,
            "{warps} warps: {cycles} cycles, {measured} measured"
        );
    }
}

/// A pointer chase over lines of a buffer of zeros: each load adds what it has read to its address.
fn chase(stride: u32, loads: usize, rounds: u32) -> u64 {
    let step =
        format!("ld.global.cg.b64 %rd3, [%rd2]; add.s64 %rd2, %rd2, %rd3; add.s64 %rd2, %rd2, {stride};\n");
    let body = format!(
        "mov.u32 %r5, 0;\nAGAIN:\nmov.b64 %rd2, %rd1;\n{}add.s32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, {rounds};\n\
         @%p1 bra AGAIN;\n",
        step.repeat(loads)
    );
    Case { buffer: u64::from(stride) * loads as u64 + 8, ..Case::new(body) }.cycles()
}

#[test]
fn a_cold_line_comes_from_device_memory_and_later_from_a_cache() {
    let (first, both) = (chase(4096, 60, 1), chase(4096, 60, 2));
    let (cold, warm) = (first as f64 / 60.0, (both - first) as f64 / 60.0);
    assert!((620.0..760.0).contains(&cold), "{cold} cycles");
    assert!((35.0..320.0).contains(&warm), "{warm} cycles");
}

#[test]
fn a_stream_of_device_memory_takes_its_bytes_by_the_bandwidth() {
    let body = "mov.u32 %r3, %ctaid.x; mad.lo.u32 %r3, %r3, 256, %r1; mul.wide.u32 %rd2, %r3, 16;\n\
                add.s64 %rd2, %rd2, %rd1; ld.global.v4.b32 {%r4, %r5, %r6, %r7}, [%rd2];\n\
                add.s32 %r4, %r4, %r5; setp.eq.s32 %p1, %r4, 77; @%p1 st.global.b32 [%rd2], %r4;\n";
    let case = Case { grid: 1 << 14, block: 256, buffer: 1 << 26, threads: 2, ..Case::new(body) };
    let prediction = case.predict();
    let rate = prediction.device_bytes as f64 / prediction.cycles as f64 * prediction.clock_mhz * 1e6;
    assert_eq!(prediction.device_bytes, 1 << 26);
    assert!((3.6e12..4.7e12).contains(&rate), "{rate} bytes a second");
}

#[test]
fn a_gpu_with_a_change_takes_less_of_what_the_change_is_about() {
    let stream = "mov.u32 %r3, %ctaid.x; mad.lo.u32 %r3, %r3, 256, %r1; mul.wide.u32 %rd2, %r3, 16;\n\
                  add.s64 %rd2, %rd2, %rd1; ld.global.v4.b32 {%r4, %r5, %r6, %r7}, [%rd2];\n\
                  add.s32 %r4, %r4, %r5; setp.eq.s32 %p1, %r4, 77; @%p1 st.global.b32 [%rd2], %r4;\n";
    let stream = |assumptions| {
        let case = Case::new(stream);
        Case { grid: 1 << 13, block: 256, buffer: 1 << 25, threads: 2, assumptions, ..case }.cycles()
    };
    let part = stream(&[Assumption::DeviceMemory(2.0)]) as f64 / stream(&[]) as f64;
    assert!((0.5..0.8).contains(&part), "{part} of the time with twice the bandwidth");
    let tensor = stream(&[Assumption::TensorCores(2.0)]);
    assert_eq!(tensor, stream(&[]), "it has no multiplications");

    let conflicts = "shl.b32 %r3, %r1, 7;\n".to_owned() + &"ld.shared.b32 %r4, [%r3];\n".repeat(100);
    let load = |assumptions| Case { block: 64, assumptions, ..Case::new(conflicts.clone()) }.cycles();
    let (all, none) = (load(&[]), load(&[Assumption::NoBankConflicts]));
    assert!(all > 90 * 64 && none < 100 * 10, "{all} cycles with 32 passes a load, {none} with one");
}

/// A warp arrives at an mbarrier after a delay, and another waits for it.
const HANDOFF: &str = "
    setp.ne.u32 %p1, %r1, 0;
    @!%p1 mbarrier.init.shared.b64 [bar], 1;
    bar.sync 0;
    setp.ge.u32 %p2, %r1, 32;
    @%p2 bra WAIT;
    setp.ne.u32 %p3, %r1, 0;
    CHAIN
    @%p3 bra DONE;
    mbarrier.arrive.shared.b64 _, [bar];
    bra DONE;
WAIT:
    mbarrier.try_wait.parity.shared.b64 %p4, [bar], 0;
    @!%p4 bra WAIT;
    st.shared.b32 [tile], %r1;
DONE:
";

#[test]
fn a_wait_lasts_until_the_last_arrival_whatever_the_emulator_did_first() {
    let handoff = |count: usize, schedule| {
        let chain = "fma.rn.f32 %f1, %f1, %f1, %f1;\n".repeat(count);
        Case { block: 64, schedule, ..Case::new(HANDOFF.replace("CHAIN", &chain)) }.predict()
    };
    let [short, long] = [100, 1100].map(|count| handoff(count, Schedule::Eager));
    assert!((3990..4010).contains(&(long.cycles - short.cycles)), "{} and {}", short.cycles, long.cycles);
    let stalls: u64 =
        long.instructions.iter().filter_map(|instruction| instruction.stalls.get(&Stall::Mbarrier)).sum();
    assert!(stalls > 4000, "{stalls} cycles of waiting for the mbarrier");
    for seed in 1..4 {
        assert_eq!(handoff(1100, Schedule::Random(seed)).cycles, long.cycles, "seed {seed}");
    }
}

#[test]
fn a_flag_of_another_cta_is_waited_for() {
    let body = "mov.u32 %r3, %ctaid.x; setp.eq.u32 %p1, %r3, 0; @%p1 bra FIRST;\n\
                WAIT:\nld.acquire.gpu.global.b32 %r4, [%rd1]; setp.eq.u32 %p2, %r4, 0; @%p2 bra WAIT;\nbra DONE;\n\
                FIRST:\nCHAIN\nmov.u32 %r5, 1; st.release.gpu.global.b32 [%rd1], %r5;\nDONE:\n";
    let waits = |count: usize| {
        let chain = "fma.rn.f32 %f1, %f1, %f1, %f1;\n".repeat(count);
        Case { grid: 2, ..Case::new(body.replace("CHAIN", &chain)) }.predict().cycles
    };
    let difference = waits(2000) - waits(1000);
    assert!((3900..4100).contains(&difference), "{difference} cycles");
}

#[test]
fn a_flag_that_nobody_sets_is_a_deadlock() {
    let body = "WAIT:\nld.acquire.gpu.global.b32 %r4, [%rd1]; setp.eq.u32 %p2, %r4, 0; @%p2 bra WAIT;\n";
    let fault = Case { grid: 2, ..Case::new(body) }.run().expect_err("no warp can go on");
    assert_eq!(fault.kind, FaultKind::Deadlock);
}

#[test]
fn clocks_are_those_of_the_model() {
    let chain = "fma.rn.f32 %f1, %f1, %f1, %f1;\n".repeat(100);
    let body = format!(
        "mov.u32 %r3, %clock;\n{chain}mov.u32 %r4, %clock;\nsub.u32 %r4, %r4, %r3;\nst.global.b32 [%rd1], %r4;\n\
         st.global.f32 [%rd1+4], %f1;\n"
    );
    // In the second round the code has been fetched.
    let (_, words) = Case::new(repeated(&body, 2)).run().expect("it ends");
    assert!((380..=410).contains(&words[0]), "{} cycles, 400 measured", words[0]);
}

/// CTAs take 64 tickets from a counter. The work of a ticket is ten times longer in the first CTA.
#[test]
fn ctas_take_tickets_when_they_have_time() {
    let chain = "fma.rn.f32 %f1, %f1, %f1, %f1;\n".repeat(1000);
    let body = format!(
        "mov.u32 %r3, %ctaid.x; setp.ne.u32 %p1, %r1, 0; mov.u32 %r6, 0; mov.u32 %r7, 1; @%p1 bra END;\n\
         setp.eq.u32 %p2, %r3, 0; selp.u32 %r8, 10, 1, %p2;\n\
         TAKE:\natom.global.add.u32 %r4, [%rd1], 1; setp.ge.u32 %p3, %r4, 64; @%p3 bra DONE;\n\
         add.u32 %r6, %r6, 1; mov.u32 %r9, 0;\n\
         WORK:\n{chain}add.u32 %r9, %r9, 1; setp.lt.u32 %p4, %r9, %r8; @%p4 bra WORK;\nbra TAKE;\n\
         DONE:\nmul.wide.u32 %rd2, %r3, 4; add.s64 %rd2, %rd2, %rd1; st.global.b32 [%rd2+64], %r6;\nEND:\n"
    );
    let (prediction, words) = Case { grid: 8, ..Case::new(body) }.run().expect("it ends");
    let taken = &words[16..24];
    assert_eq!(taken.iter().sum::<u32>(), 64);
    assert!(taken[0] <= 2 && taken[1..].iter().all(|count| (8..=10).contains(count)), "{taken:?}");
    // Nine rounds of the other CTAs' work, 4700 cycles each with the atomic operation.
    assert!((36_000..52_000).contains(&prediction.cycles), "{} cycles", prediction.cycles);
}

#[test]
fn a_lock_is_held_by_one_cta_at_a_time() {
    let chain = "fma.rn.f32 %f1, %f1, %f1, %f1;\n".repeat(500);
    let body = format!(
        "setp.ne.u32 %p1, %r1, 0; @%p1 bra END; mov.u32 %r5, 1; mov.u32 %r6, 0;\n\
         LOCK:\natom.acquire.gpu.global.cas.b32 %r4, [%rd1], %r6, %r5; setp.ne.u32 %p2, %r4, 0;\n\
         @%p2 nanosleep.u32 100; @%p2 bra LOCK;\n\
         ld.global.b32 %r7, [%rd1+4]; {chain} add.u32 %r7, %r7, 1; st.global.b32 [%rd1+4], %r7;\n\
         st.release.gpu.global.b32 [%rd1], %r6;\nEND:\n"
    );
    let (prediction, words) = Case { grid: 16, ..Case::new(body) }.run().expect("it ends");
    assert_eq!(words[1], 16);
    assert!(prediction.cycles > 16 * 2000, "{} cycles", prediction.cycles);
}

#[test]
fn predictions_do_not_depend_on_the_threads_of_the_emulator() {
    let body = "mov.u32 %r3, %ctaid.x; mad.lo.u32 %r3, %r3, 128, %r1; mul.wide.u32 %rd2, %r3, 4;\n\
                add.s64 %rd2, %rd2, %rd1; ld.global.b32 %r4, [%rd2]; bar.sync 0; st.global.b32 [%rd2], %r4;\n";
    let case = |threads| Case { grid: 300, block: 128, threads, buffer: 1 << 18, ..Case::new(body) };
    assert_eq!(case(1).cycles(), case(2).cycles());
}

#[test]
fn registers_are_those_of_the_values_that_live_at_once() {
    let h200 = Arch::named("h200").expect("in the table");
    let values: String = (2..50).map(|n| format!("ld.shared.f32 %f{n}, [tile+{}];\n", 4 * n)).collect();
    let sums: String = (2..50).map(|n| format!("add.f32 %f1, %f1, %f{n};\n")).collect();
    let text = format!(
        ".version 8.0\n.target sm_90a\n.address_size 64\n.visible .entry kernel() {{\n.reg .f32 %f<64>;\n\
         .shared .align 4 .b8 tile[256];\nmov.f32 %f1, 0f00000000;\n{values}{sums}st.shared.f32 [tile], %f1;\nret;\n}}\n"
    );
    let mut device = Emulator::with_threads(h200, 1).expect("it starts");
    let program = device.load(&warpwright_ptx::parse(&text).expect("the PTX is right")).expect("it loads");
    let info = device.describe(&program, "kernel", &Launch::default()).expect("it may be launched");
    assert_eq!(estimated_registers(&info.code), 56, "49 values, in steps of 8");
}

/// ptxas turns short branches around loads into predicates, and moves the loads ahead of the stores (SASS of `transpose`, ptxas
/// 13.0).
#[test]
fn loads_behind_bounds_checks_are_in_flight_together() {
    let load = |index: u32| {
        format!(
            "setp.lt.u32 %p{index}, %r1, {};\n@!%p{index} bra skip{index};\n\
             ld.global.b32 %r{}, [%rd1+{}];\nst.shared.b32 [tile+{}], %r{};\nskip{index}:\n",
            32 - index,
            10 + index,
            4096 * index,
            128 * index,
            10 + index
        )
    };
    let cycles = |loads: u32| Case::new((0..loads).map(load).collect::<String>()).cycles();
    let (one, four) = (cycles(1), cycles(4));
    assert!(four < one + 200, "{one} cycles for a load, {four} for four");
}

/// An address of 32-bit indices is a multiplication and a shift (`IMAD.WIDE.U32` and `LEA` in the SASS of `transpose`).
#[test]
fn addresses_of_32_bit_indices_are_cheap() {
    let line = "cvt.u64.u32 %rd2, %r1; cvt.u64.u32 %rd3, %r2; mul.lo.u64 %rd4, %rd2, %rd3; cvt.u64.u32 %rd5, %r1;\n\
                add.u64 %rd6, %rd4, %rd5; mad.lo.u64 %rd7, %rd6, 4, %rd1;\n";
    let cycles = each(line, 50);
    assert!((5.0..=9.0).contains(&cycles), "{cycles} cycles");
}
