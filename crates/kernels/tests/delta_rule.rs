//! The gated delta rule: every element against the recurrence in f64, at lengths that fill no chunk.

use warpwright::emulator::Schedule;
use warpwright::prelude::bf16;
use warpwright::runtime::{Buffer, Device};
use warpwright_harness::Setup;
use warpwright_kernels::delta_rule::host::layer::{Layer, Tolerance, verify};
use warpwright_kernels::delta_rule::{HEAD, Heads, InitialState};
use warpwright_kernels::operations::Operations;

use crate::SUITE;
use crate::emulated::hopper;
use crate::walk::run;

const HEADS: Heads = Heads { keys: 1, values: 2 };

/// Sequences of these lengths, one after another.
fn ranges(lengths: &[usize]) -> Vec<std::ops::Range<usize>> {
    let ends = lengths.iter().scan(0, |end, length| {
        *end += length;
        Some(*end)
    });
    ends.zip(lengths).map(|(end, length)| end - length..end).collect()
}

/// A prefill of sequences of these lengths, and the relative errors of o and of the states.
fn prefill(
    device: &Device,
    (heads, consumers): (Heads, u32),
    lengths: &[usize],
    initial: InitialState,
) -> [f64; 2] {
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
        .delta_rule_by(consumers, &stream, layer.inputs(), &starts, (&mut states, initial), &mut o)
        .unwrap_or_else(|error| panic!("{lengths:?} on {}: {error}", device.name()));
    let expected = layer.reference().expect("readable").heads(&sequences, &before);
    let tolerance = Tolerance { of_size: 0.04, of_state: 0.0 };
    let (_, errors) = verify(heads, (&o, &states), &sequences, &expected, tolerance)
        .unwrap_or_else(|error| panic!("{lengths:?}: {error}"));
    errors.map(|errors| errors.relative())
}

#[test]
fn decodes_are_right() {
    for schedule in [Schedule::Eager, Schedule::Latest, Schedule::Random(3)] {
        let device = hopper(schedule).and_then(Device::checked).expect("an emulated device");
        for command in [
            "delta-rule-decode --sequences 0",
            "delta-rule-decode --key-heads 2 --value-heads 2",
            "delta-rule-decode --key-heads 2 --value-heads 6 --sequences 1",
            "delta-rule-decode --state bf16",
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
            let [o, state] = prefill(&device, (HEADS, consumers), lengths, initial);
            assert!(o < 5e-3 && state < 5e-3, "{lengths:?}: {o:e} of o, {state:e} of the state");
        }
    }
}

/// One value head to a key head, and three: a CTA of the first kernel has one head.
#[test]
fn any_number_of_heads_shares_a_key() {
    let device = hopper(Schedule::Latest).expect("an emulated device");
    for heads in [Heads { keys: 2, values: 2 }, Heads { keys: 1, values: 3 }] {
        let [o, state] = prefill(&device, (heads, 1), &[70], InitialState::Zero);
        assert!(o < 5e-3 && state < 5e-3, "{heads:?}: {o:e} of o, {state:e} of the state");
    }
}
