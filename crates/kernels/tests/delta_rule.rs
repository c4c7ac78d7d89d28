//! The gated delta rule: every element against the recurrence in f64, at lengths that fill no chunk.

use std::error::Error;

use warpwright::emulator::Schedule;
use warpwright::prelude::{Major, TmaTile, bf16};
use warpwright::runtime::{Argument, Buffer, Device, LaunchRecord, TensorMap};
use warpwright_harness::Setup;
use warpwright_kernels::columns::MatrixColumns;
use warpwright_kernels::delta_rule::{DeltaRuleInputs, HEAD, Heads, InitialState, Precision, Prefill};
use warpwright_kernels::operations::Operations;
use warpwright_testing::one_in;
use warpwright_workloads::delta_rule::layer::{Layer, Tolerance, verify};

use crate::SUITE;
use crate::emulated::hopper;
use crate::mutants::mutated;
use crate::walk::run;

pub(crate) const HEADS: Heads = Heads { keys: 1, values: 2 };

fn bf16_by(consumers: u32) -> Prefill {
    Prefill { precision: Precision::Bf16, consumers }
}

/// Sequences of these lengths, one after another.
fn ranges(lengths: &[usize]) -> Vec<std::ops::Range<usize>> {
    let ends = lengths.iter().scan(0, |end, length| {
        *end += length;
        Some(*end)
    });
    ends.zip(lengths).map(|(end, length)| end - length..end).collect()
}

/// A prefill of sequences of these lengths, and the relative errors of o and of the states.
pub(crate) fn prefill(
    device: &Device,
    (heads, prefill): (Heads, Prefill),
    lengths: &[usize],
    initial: InitialState,
) -> [f64; 2] {
    let tolerance = Tolerance::of_prefill::<f32>(prefill.precision);
    prefill_within(tolerance, device, (heads, prefill), lengths, initial)
        .unwrap_or_else(|error| panic!("{lengths:?} on {}: {error}", device.name()))
}

/// The same, or what is beyond a tolerance.
pub(crate) fn prefill_within(
    tolerance: Tolerance,
    device: &Device,
    (heads, prefill): (Heads, Prefill),
    lengths: &[usize],
    initial: InitialState,
) -> warpwright_harness::Result<[f64; 2]> {
    let (operations, stream) = (Operations::new(device), device.stream().expect("a stream"));
    let tokens: usize = lengths.iter().sum();
    let setup = Setup::new(device);
    let layer = Layer::random(&setup, heads, tokens as u32, 7).expect("it fits");
    let sequences = ranges(lengths);
    let starts: Vec<u32> = [0].into_iter().chain(sequences.iter().map(|range| range.end as u32)).collect();
    let starts = device.buffer_from(&starts).expect("it fits");
    let length = sequences.len() * heads.state();
    let state = |at: usize| ((at * 37 % 101) as f32 / 50.0 - 1.0) * 0.5;
    let mut states: Buffer<f32> = match initial {
        InitialState::Given => device.buffer_from(&(0..length).map(state).collect::<Vec<_>>()),
        InitialState::Zero => device.buffer_from(&vec![f32::NAN; length]),
    }
    .expect("it fits");
    let before = match initial {
        InitialState::Given => (0..length).map(|at| f64::from(state(at))).collect(),
        InitialState::Zero => vec![0.0; length],
    };
    let mut o = setup.output::<bf16>(tokens * (heads.values * HEAD) as usize).expect("it fits");
    operations
        .delta_rule_by(prefill, &stream, layer.inputs(), &starts, (&mut states, initial), &mut o)
        .expect("it runs");
    let expected = layer.reference().expect("readable").heads(&sequences, &before);
    let (_, errors) = verify(heads, (&o, &states), &sequences, &expected, tolerance)?;
    Ok(errors.map(|errors| errors.relative()))
}

#[test]
fn decodes_are_right() {
    for schedule in [Schedule::Eager, Schedule::Latest, Schedule::Random(3)] {
        let device = hopper(schedule).and_then(Device::checked).expect("an emulated device");
        for command in [
            "delta-rule-decode --sequences 0",
            "delta-rule-decode --key-heads 2 --value-heads 2",
            "delta-rule-decode --key-heads 2 --value-heads 6 --sequences 1 --in-place true",
            "delta-rule-decode --state bf16 --algorithm bulk",
            "delta-rule-decode --key-heads 2 --value-heads 4 --key-dim 32 --value-dim 64 --algorithm bulk --in-place true",
            "delta-rule-decode --key-dim 64 --value-dim 32 --width 2 --type f32 --algorithm bulk",
            "delta-rule-decode --key-heads 2 --value-heads 6 --key-dim 64 --value-dim 64 --width 3 --algorithm clusters",
            "delta-rule-decode --tokens 3 --type f32 --in-place true",
            "delta-rule-decode --tokens 4 --value-heads 9 --key-dim 20 --value-dim 33 --state f16 --type f16",
            "delta-rule-decode --algorithm recurrent --value-heads 3 --key-dim 33 --value-dim 20",
        ] {
            run(&SUITE, &device, command);
        }
    }
}

#[test]
fn prefills_are_right_at_every_length() {
    for (schedule, lengths) in [
        (Schedule::Eager, &[1usize, 63, 0, 64][..]),
        (Schedule::Latest, &[65, 129]),
        (Schedule::Random(3), &[0, 329, 1]),
    ] {
        let device = hopper(schedule).and_then(Device::checked).expect("an emulated device");
        for (initial, consumers) in [(InitialState::Zero, 1), (InitialState::Given, 2)] {
            let [o, state] = prefill(&device, (HEADS, bf16_by(consumers)), lengths, initial);
            assert!(o < 5e-3 && state < 5e-3, "{lengths:?}: {o:e} of o, {state:e} of the state");
        }
    }
}

/// One value head to a key head, and three: a CTA of the first kernel has one head.
#[test]
fn any_number_of_heads_shares_a_key() {
    let device = hopper(Schedule::Latest).expect("an emulated device");
    for heads in [Heads { keys: 2, values: 2 }, Heads { keys: 1, values: 3 }] {
        let [o, state] = prefill(&device, (heads, bf16_by(1)), &[70], InitialState::Zero);
        assert!(o < 5e-3 && state < 5e-3, "{heads:?}: {o:e} of o, {state:e} of the state");
    }
}

/// Decays so strong that nothing is left, between tokens that forget little, and in all tokens: sums of the
/// log-decays of a chunk keep the digits of the weak ones.
#[test]
fn decays_to_nothing_are_right() -> warpwright_harness::Result<()> {
    const TOKENS: usize = 150;
    let device = hopper(Schedule::Latest)?;
    let (operations, stream, setup) = (Operations::new(&device), device.stream()?, Setup::new(&device));
    let layer = Layer::random(&setup, HEADS, TOKENS as u32, 9)?;
    let starts = device.buffer_from(&[0u32, TOKENS as u32])?;
    for strong_every in [1, 7] {
        let mut a = layer.inputs().a.buffer.to_vec()?;
        let strong = bf16::from_f32(1e9);
        a.chunks_mut(HEADS.values as usize).step_by(strong_every).for_each(|gates| gates.fill(strong));
        let mut reference = layer.reference()?;
        reference.a = a.iter().map(|a| f64::from(a.to_f32())).collect();
        let a = device.buffer_from(&a)?;
        let mut states = setup.output::<f32>(HEADS.state())?;
        let mut o = setup.output::<bf16>(TOKENS * (HEADS.values * HEAD) as usize)?;
        let results = (&mut states, InitialState::Zero);
        let inputs = DeltaRuleInputs { a: MatrixColumns::all(&a, HEADS.values), ..layer.inputs() };
        operations.delta_rule(&stream, inputs, &starts, results, &mut o)?;
        let sequences = [0..TOKENS; 1];
        let expected = reference.heads(&sequences, &vec![0.0; HEADS.state()]);
        let tolerance = Tolerance::of_prefill::<f32>(Precision::Bf16);
        let (_, errors) = verify(HEADS, (&o, &states), &sequences, &expected, tolerance)?;
        let [o, state] = errors.map(|errors| errors.relative());
        assert!(o < 5e-3 && state < 5e-3, "one in {strong_every}: {o:e} of o, {state:e} of the state");
    }
    Ok(())
}

/// Outputs and states of three sequences of 70, 65 and 10 tokens, the second of NaN if it is said so.
fn neighbors(device: &Device, prefill: Prefill, has_nan: bool) -> (Vec<bf16>, Vec<f32>) {
    let (operations, stream) = (Operations::new(device), device.stream().expect("a stream"));
    let setup = Setup::new(device);
    let layer = Layer::random(&setup, HEADS, 145, 3).expect("it fits");
    let inputs = layer.inputs();
    let second = |buffer: &Buffer<bf16>| {
        let mut elements = buffer.to_vec().expect("readable");
        let row = elements.len() / 145;
        if has_nan {
            elements[70 * row..135 * row].fill(bf16::from_f32(f32::NAN));
        }
        device.buffer_from(&elements).expect("it fits")
    };
    let [qkv, a, b] = [inputs.qkv, inputs.a.buffer, inputs.b.buffer].map(second);
    let [a, b] = [&a, &b].map(|gates| MatrixColumns::all(gates, HEADS.values));
    let inputs = DeltaRuleInputs { qkv: &qkv, a, b, ..inputs };
    let starts = device.buffer_from(&[0u32, 70, 135, 145]).expect("it fits");
    let mut states = setup.output::<f32>(3 * HEADS.state()).expect("it fits");
    let mut o = setup.output::<bf16>(145 * (HEADS.values * HEAD) as usize).expect("it fits");
    let results = (&mut states, InitialState::Zero);
    operations.delta_rule_by(prefill, &stream, inputs, &starts, results, &mut o).expect("it runs");
    (o.to_vec().expect("readable"), states.to_vec().expect("readable"))
}

/// A chunk copies tokens past the end of its sequence; they have no part in its results.
#[test]
fn a_sequence_of_nan_leaves_its_neighbors_as_they_are() {
    let device = hopper(Schedule::Latest).expect("an emulated device");
    for (precision, consumers) in [(Precision::Bf16, 1), (Precision::Bf16, 2), (Precision::F32, 1)] {
        let prefill = Prefill { precision, consumers };
        let (clean, with_nan) = (neighbors(&device, prefill, false), neighbors(&device, prefill, true));
        let row = (HEADS.values * HEAD) as usize;
        let bits = |o: &[bf16]| o.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        for tokens in [0..70 * row, 135 * row..145 * row] {
            assert!(bits(&clean.0[tokens.clone()]) == bits(&with_nan.0[tokens]), "{prefill:?}");
        }
        let state = HEADS.state();
        for states in [0..state, 2 * state..3 * state] {
            assert!(clean.1[states.clone()] == with_nan.1[states], "{prefill:?}");
        }
        assert!(with_nan.1[state].is_nan());
    }
}

/// An f32 state keeps its digits over 32,768 tokens.
#[test]
#[ignore = "32,768 tokens: minutes on the emulator"]
fn the_state_of_many_tokens_is_right() {
    let device = hopper(Schedule::Eager).expect("an emulated device");
    let heads = "--key-heads 1 --value-heads 1 --sequences 1";
    run(&SUITE, &device, &format!("delta-rule-decode --tokens 32768 {heads}"));
}

/// Tokens of a mutant's only sequence: the pipeline's stages are filled twice, the last chunk in part.
const MUTANT_TOKENS: usize = 330;

/// Launches a kernel of a prefill from its PTX, on zeros.
fn launch_mutant(
    device: &Device,
    precision: Precision,
    record: &LaunchRecord,
    ptx: &str,
) -> Result<(), Box<dyn Error>> {
    let (tokens, values) = (MUTANT_TOKENS, HEADS.values as usize);
    let units = (tokens / 64 + 1) * values;
    let triangle = if precision == Precision::F32 { 5120 } else { 2560 };
    let halves = |length: usize| device.zeros::<bf16>(length);
    let floats = |length: usize| device.zeros::<f32>(length);
    let qkv = halves(tokens * HEADS.columns() as usize)?;
    let tile = TmaTile::new::<bf16>((64, 64), Major::K)?;
    let map = TensorMap::of_tile(&qkv, (tokens as u64, HEADS.columns().into()), &tile)?;
    let (a, b, a_log, dt_bias) =
        (halves(tokens * values)?, halves(tokens * values)?, floats(values)?, floats(values)?);
    let (inverses, scores, factors) =
        (halves(units * triangle)?, halves(units * triangle)?, floats(units * 260)?);
    let starts = device.buffer_from(&[0u32, tokens as u32])?;
    let (state, o) = (floats(HEADS.state())?, halves(tokens * values * HEAD as usize)?);
    let qkv = Argument::tensor_map(&map);
    let matrices = [Argument::buffer(&inverses), Argument::buffer(&scores), Argument::buffer(&factors)];
    let starts = Argument::buffer(&starts);
    let [inverses, scores, factors] = matrices;
    let arguments = if record.kernel.contains("factors") {
        let gates = [&a, &b].map(Argument::buffer);
        let rates = [&a_log, &dt_bias].map(Argument::buffer);
        let of_gates: Vec<u8> =
            [0, values as u32, 0, values as u32].into_iter().flat_map(u32::to_ne_bytes).collect();
        let of_gates = Argument::bytes(of_gates);
        let outputs = vec![starts, inverses, scores, factors, of_gates, Argument::scalar(1u32)];
        [qkv].into_iter().chain(gates).chain(rates).chain(outputs).collect::<Vec<_>>()
    } else {
        let results = [Argument::buffer(&state), Argument::buffer(&o), Argument::scalar(1u32)];
        [qkv, inverses, scores, factors, starts].into_iter().chain(results).collect()
    };
    let kernel = device.load_ptx(ptx)?.function(&record.kernel)?;
    kernel.launch(&device.stream()?, record.launch, &arguments[..])?;
    Ok(())
}

/// A kernel, a line of its PTX that holds a text, the `which`-th of them, what becomes of the text, and
/// a part of the finding.
pub(crate) type Mutant = (usize, &'static str, usize, &'static str, &'static str);

const MUTANTS: &[Mutant] = &[
    // A is written over keys that are read, and read before it is written or inverted; a result is
    // copied before it is written.
    (0, "bar.sync 0", 3, "// bar.sync 0", "race"),
    (0, "bar.sync 0", 4, "// bar.sync 0", "race"),
    (0, "bar.sync 0", 5, "// bar.sync 0", "race"),
    (0, "bar.sync 0", 6, "// bar.sync 0", "race"),
    // T is written over P before P has been copied.
    (0, "cp.async.bulk.wait_group.read", 0, "// cp.async.bulk.wait_group.read", "in flight"),
    // The bulk copy of a result does not see it.
    (0, "fence.proxy.async", 2, "// fence.proxy.async", "proxy"),
    // The producer fills a stage before it is released; the consumers read one that has not arrived.
    (1, "mbarrier.try_wait.parity", 0, "setp", "1 more arrives"),
    (1, "mbarrier.try_wait.parity", 2, "setp", "in flight"),
    // The products do not see the zeros of triangles.
    (1, "fence.proxy.async", 0, "// fence.proxy.async", "proxy"),
    // Consumers do not release a stage.
    (1, "mbarrier.arrive.shared.b64", 0, "// mbarrier.arrive.shared.b64", "deadlock"),
    // Registers of a product are used while it is in flight.
    (1, "wgmma.wait_group.sync.aligned 0", 0, "// wgmma.wait_group.sync.aligned 0", "in flight"),
    // The output is read before it is staged.
    (1, "bar.warp.sync", 1, "// bar.warp.sync", "race"),
];

#[test]
fn broken_prefills_are_found() -> Result<(), Box<dyn Error>> {
    expect_found(Precision::Bf16, one_in(3, MUTANTS))
}

/// Panics unless the checkers find each mutant of a prefill by one consumer.
pub(crate) fn expect_found<'a>(
    precision: Precision,
    mutants: impl Iterator<Item = &'a Mutant>,
) -> Result<(), Box<dyn Error>> {
    let device = hopper(Schedule::Latest)?.checked()?;
    let by = Prefill { precision, consumers: 1 };
    let (errors, records) =
        device.log_launches(|| prefill(&device, (HEADS, by), &[MUTANT_TOKENS], InitialState::Zero));
    assert!(errors[0] < 5e-3, "{errors:?}");
    for record in &records {
        launch_mutant(&device, precision, record, &record.ptx)?;
    }
    let mut missed = Vec::new();
    for (kernel, text, which, change, finding) in mutants {
        let record = &records[*kernel];
        let mutant = mutated(&record.ptx, text, *which, change);
        let outcome = launch_mutant(&device, precision, record, &mutant);
        let said = outcome.err().map(|error| error.to_string()).unwrap_or_default();
        if !said.contains(finding) {
            missed.push(format!("{kernel}, {text}, {which}: no {finding} in: {said}"));
        }
    }
    assert!(missed.is_empty(), "{}", missed.join("\n"));
    Ok(())
}
