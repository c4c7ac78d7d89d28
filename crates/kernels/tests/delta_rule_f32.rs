//! The gated delta rule in `Precision::F32`: the final state is within 1e-5 of the recurrence in f64.

use std::error::Error;

use warpwright::emulator::Schedule;
use warpwright::prelude::bf16;
use warpwright::runtime::Device;
use warpwright_harness::Setup;
use warpwright_kernels::columns::MatrixColumns;
use warpwright_kernels::delta_rule::{DeltaRuleInputs, HEAD, Heads, InitialState, Precision, Prefill};
use warpwright_kernels::operations::Operations;
use warpwright_testing::one_in;
use warpwright_workloads::delta_rule::layer::{Layer, Tolerance, verify};

use crate::SUITE;
use crate::delta_rule::{HEADS, Mutant, expect_found, prefill, prefill_within};
use crate::emulated::hopper;
use crate::walk::run;

/// One head, for many tokens.
const HEAD_ALONE: Heads = Heads { keys: 1, values: 1 };

fn by(consumers: u32) -> Prefill {
    Prefill { precision: Precision::F32, consumers }
}

#[test]
fn f32_prefills_are_right_at_every_length() {
    for (schedule, lengths) in [
        (Schedule::Eager, &[1usize, 17, 0, 127][..]),
        (Schedule::Latest, &[129, 64]),
        (Schedule::Random(3), &[0, 200, 0, 63]),
    ] {
        let device = hopper(schedule).and_then(Device::checked).expect("an emulated device");
        for (initial, consumers) in [(InitialState::Zero, 1), (InitialState::Given, 2)] {
            let [o, state] = prefill(&device, (HEADS, by(consumers)), lengths, initial);
            // Rounding o to bf16 is 1.7e-3 of it.
            assert!(o < 1.8e-3 && state < 1e-5, "{lengths:?}: {o:e} of o, {state:e} of the state");
        }
    }
}

/// A CTA of the first kernel has one head.
#[test]
fn f32_prefills_of_any_number_of_heads_are_right() {
    let device = hopper(Schedule::Latest).expect("an emulated device");
    for heads in [Heads { keys: 2, values: 2 }, Heads { keys: 1, values: 3 }] {
        let [o, state] = prefill(&device, (heads, by(1)), &[70], InitialState::Zero);
        assert!(o < 1.8e-3 && state < 1e-5, "{heads:?}: {o:e} of o, {state:e} of the state");
    }
}

#[test]
fn f32_products_may_have_states_of_bf16() {
    let device = hopper(Schedule::Eager).and_then(Device::checked).expect("an emulated device");
    run(&SUITE, &device, "delta-rule --precision f32 --state bf16");
}

#[test]
fn a_long_prefill_keeps_five_digits_in_f32() {
    let device = hopper(Schedule::Eager).expect("an emulated device");
    let [o, state] = prefill(&device, (HEAD_ALONE, by(2)), &[2050], InitialState::Zero);
    assert!(o < 1.8e-3 && state < 1e-5, "{o:e} of o, {state:e} of the state");
}

/// A state that neither decays nor is replaced: what its products round is in it to the end. (Where tensor cores
/// add to it, the error is 4.8e-6.)
#[test]
fn roundings_of_many_chunks_do_not_add_up_in_f32() -> warpwright_harness::Result<()> {
    const TOKENS: usize = 2048;
    let device = hopper(Schedule::Eager)?;
    let (operations, stream, setup) = (Operations::new(&device), device.stream()?, Setup::new(&device));
    let layer = Layer::random(&setup, HEAD_ALONE, TOKENS as u32, 11)?;
    let mut reference = layer.reference()?;
    reference.b.fill(-12.0);
    reference.a_log.fill(-20.0);
    let b = device.buffer_from(&[bf16::from_f32(-12.0); TOKENS])?;
    let a_log = device.buffer_from(&[-20f32])?;
    let inputs =
        DeltaRuleInputs { b: MatrixColumns::all(&b, HEAD_ALONE.values), a_log: &a_log, ..layer.inputs() };
    let initial: Vec<f32> = (0..HEAD_ALONE.state()).map(|at| (at * 37 % 101) as f32 / 100.0 - 0.5).collect();
    let mut states = device.buffer_from(&initial)?;
    let mut o = setup.output::<bf16>(TOKENS * HEAD as usize)?;
    let starts = device.buffer_from(&[0u32, TOKENS as u32])?;
    operations.delta_rule_by(by(2), &stream, inputs, &starts, (&mut states, InitialState::Given), &mut o)?;
    let initial: Vec<f64> = initial.into_iter().map(f64::from).collect();
    let (sequences, tolerance) = ([0..TOKENS; 1], Tolerance::of_prefill::<f32>(Precision::F32));
    let expected = reference.heads(&sequences, &initial);
    let (_, [_, state]) = verify(HEAD_ALONE, (&o, &states), &sequences, &expected, tolerance)?;
    assert!(state.relative() < 1e-6, "{:e} of the state", state.relative());
    Ok(())
}

/// The tolerances of the mode are those of its products: of its elements, and of the states as a whole.
#[test]
fn products_of_bf16_are_beyond_the_tolerance_of_f32() {
    let device = hopper(Schedule::Eager).expect("an emulated device");
    let of_bf16 = Prefill { precision: Precision::Bf16, consumers: 1 };
    let result = |tolerance| {
        let prefill = (HEAD_ALONE, of_bf16);
        prefill_within(tolerance, &device, prefill, &[100], InitialState::Zero).map_err(|e| e.to_string())
    };
    let f32 = Tolerance::of_prefill::<f32>(Precision::F32);
    let error = result(f32).expect_err("elements are wrong");
    assert!(error.contains("elements are wrong"), "{error}");
    let of_elements = Tolerance::of_prefill::<f32>(Precision::Bf16);
    let error =
        result(Tolerance { of_states: f32.of_states, ..of_elements }).expect_err("the state is wrong");
    assert!(error.starts_with("the relative error of the states (root mean square) is 1."), "{error}");
    assert!(error.ends_with("and should be less than 1e-5"), "{error}");
    assert!(result(of_elements).is_ok());
}

const MUTANTS: &[Mutant] = &[
    // What bf16 lost of T is written over that of P before it has been copied.
    (0, "cp.async.bulk.wait_group.read", 0, "// cp.async.bulk.wait_group.read", "in flight"),
    // What S lost is written to registers that products read; X is computed of a Y that is not complete.
    (1, "wgmma.wait_group.sync.aligned 0", 0, "// wgmma.wait_group.sync.aligned 0", "in flight"),
    (1, "wgmma.wait_group.sync.aligned 0", 1, "// wgmma.wait_group.sync.aligned 0", "in flight"),
    // Δ is split while it is computed; its parts change while the output's product reads them.
    (1, "wgmma.wait_group.sync.aligned 0", 2, "// wgmma.wait_group.sync.aligned 0", "in flight"),
    (1, "wgmma.wait_group.sync.aligned 0", 3, "// wgmma.wait_group.sync.aligned 0", "in flight"),
    // An update is added before it is complete.
    (1, "wgmma.wait_group.sync.aligned 0", 4, "// wgmma.wait_group.sync.aligned 0", "in flight"),
    // The producer fills a stage before it is released; the products do not see the zeros of triangles.
    (1, "mbarrier.try_wait.parity", 0, "setp", "1 more arrives"),
    (1, "fence.proxy.async", 0, "// fence.proxy.async", "proxy"),
];

#[test]
fn broken_f32_prefills_are_found() -> Result<(), Box<dyn Error>> {
    expect_found(Precision::F32, one_in(3, MUTANTS))
}
