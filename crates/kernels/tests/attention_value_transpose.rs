//! Attention of e4m3 with V transposed before the forward kernel: results, when it is done, what the workspace
//! may hold, and launches that overlap.

use std::error::Error;

use warpwright::arch::Capability;
use warpwright::prelude::*;
use warpwright::runtime::{Device, Schedule, Stream};
use warpwright_harness::Setup;
use warpwright_kernels::attention::{
    Attention, AttentionScales, Fp8AttentionBuffers, ScaleGranularity, TransposeV,
};
use warpwright_kernels::operations::Operations;
use warpwright_testing::one_in;

use crate::SUITE;
use crate::attention::FP8_FORMS;
use crate::emulated::hopper;
use crate::walk::{Walk, with};

/// What makes a kernel the one whose V is transposed before, and what no test of it leaves out.
const BEFORE: [(&str, &str); 2] = [("input", "e4m3"), ("transpose-v", "before")];

type Options = Vec<(&'static str, &'static str)>;

/// Options with [`BEFORE`].
fn before(form: &[(&'static str, &'static str)]) -> Options {
    form.iter().copied().chain(BEFORE).collect()
}

#[test]
fn every_form_at_every_length() {
    let kernel = SUITE.named("attention");
    let schedules = [Schedule::Eager, Schedule::Latest, Schedule::Random(7)];
    let lengths = ["1", "17", "127", "129", "600"];
    let is_paged = |form: &&&[(&str, &str)]| form.iter().any(|(option, _)| *option == "page-size");
    let forms = FP8_FORMS.iter().filter(|form| !is_paged(form));
    let cases: Vec<_> = forms.flat_map(|form| lengths.map(|length| (*form, length))).collect();
    for (number, (form, length)) in one_in(11, cases).enumerate() {
        let device = hopper(schedules[number % 3]).expect("an emulated device");
        let settings: Options = before(form).into_iter().chain([("queries", length)]).collect();
        SUITE.expect_right(kernel, &device, &settings);
    }
}

#[test]
fn no_keys() -> Result<(), Box<dyn Error>> {
    let device = hopper(Schedule::Latest)?;
    let further: [Options; 3] = [
        vec![("mask", "causal"), ("sinks", "true"), ("batch", "2")],
        vec![("packed", "true"), ("batch", "3"), ("head-dim", "256")],
        vec![("layout", "qkv"), ("kv-heads", "1"), ("head-dim", "64"), ("value-dim", "96")],
    ];
    for form in further {
        let settings: Options =
            before(&form).into_iter().chain([("queries", "150"), ("keys", "0")]).collect();
        SUITE.expect_right(SUITE.named("attention"), &device, &settings);
    }
    Ok(())
}

/// The launches of an attention with these options.
fn launches(settings: &[(&str, &str)]) -> Result<usize, Box<dyn Error + Send + Sync>> {
    let capability = Capability::for_target("sm_90a").expect("it is in the table");
    let device = Device::dry_run(capability)?;
    let stream = device.stream()?;
    let mut prepared = with(SUITE.named("attention"), settings).prepare(&Setup::new(&device))?;
    let (launched, records) = device.log_launches(|| prepared.launch(&stream));
    launched?;
    Ok(records.len())
}

/// Many tiles of many blocks take less time with V transposed before: of 192 queries up to 128 elements, of 128
/// beyond. 16 heads have blocks enough if 4096 queries see their keys.
#[test]
fn v_is_transposed_before_where_that_is_faster() -> Result<(), Box<dyn Error + Send + Sync>> {
    let cases: &[(&[(&str, &str)], usize)] = &[
        (&[("queries", "2048")], 1),
        (&[("queries", "4096")], 1),
        (&[("queries", "6144")], 2),
        (&[("queries", "6144"), ("mask", "causal")], 1),
        (&[("queries", "8192"), ("mask", "causal")], 2),
        (&[("queries", "4096"), ("mask", "window"), ("left", "700")], 1),
        // Seven tiles of 192 queries and more, or of 128.
        (&[("queries", "1152"), ("keys", "65536")], 1),
        (&[("queries", "1153"), ("keys", "65536")], 2),
        (&[("queries", "768"), ("keys", "65536"), ("value-dim", "144")], 1),
        (&[("queries", "769"), ("keys", "65536"), ("value-dim", "144")], 2),
        (&[("queries", "200"), ("keys", "32768"), ("heads", "48"), ("kv-heads", "1")], 2),
        (&[("queries", "200"), ("keys", "8192"), ("heads", "48"), ("kv-heads", "1")], 1),
        (&[("queries", "4096"), ("packed", "true"), ("batch", "2")], 2),
        (&[("queries", "512"), ("packed", "true"), ("batch", "16")], 1),
        (&[("queries", "4096"), ("page-size", "64")], 1),
        (&[("queries", "4096"), ("transpose-v", "inside")], 1),
        (&[("queries", "1"), ("transpose-v", "before")], 2),
    ];
    for (options, expected) in cases {
        let of_all = [("input", "e4m3"), ("heads", "16"), ("head-dim", "16")];
        let settings: Vec<_> = of_all.into_iter().chain(options.iter().copied()).collect();
        assert_eq!(launches(&settings)?, *expected, "{options:?}");
    }
    Ok(())
}

#[test]
fn a_paged_cache_is_not_transposed_before() {
    let device = hopper(Schedule::Latest).expect("an emulated device");
    let workload = with(SUITE.named("attention"), &before(&[("page-size", "64"), ("queries", "9")]));
    let refused = SUITE.attempt(&*workload, &device).expect_err("it is refused");
    assert!(refused.contains("pass `TransposeV::Inside`"), "{refused}");
}

/// Heads of Q, which share one of K and V.
const HEADS: usize = 3;
const D: usize = 64;

fn elements(count: usize) -> Vec<e4m3> {
    (0..count).map(|i| e4m3::from_f32((i * 7 % 13) as f32 / 4.0 - 1.5)).collect()
}

/// O, as bits, of packed sequences with these offsets, whose keys from `nan` on have values of NaN.
fn attend(
    operations: &Operations,
    stream: &Stream,
    offsets: &[u32],
    nan: u32,
) -> Result<Vec<u16>, Box<dyn Error>> {
    let (device, sequences) = (operations.device(), offsets.len() - 1);
    let rows = offsets[sequences];
    let mut values = elements(rows as usize * D);
    values[nan as usize * D..].fill(e4m3::from_f32(f32::NAN));
    let (q, k) = (elements(rows as usize * HEADS * D), elements(rows as usize * D));
    let (q, k, v) = (device.buffer_from(&q)?, device.buffer_from(&k)?, device.buffer_from(&values)?);
    let (of_q, of_k) = (vec![0.5f32; HEADS * sequences], vec![1.0f32; sequences]);
    let (of_q, of_k) = (device.buffer_from(&of_q)?, device.buffer_from(&of_k)?);
    let scales = AttentionScales { granularity: ScaleGranularity::Head, q: &of_q, k: &of_k, v: &of_k };
    let mut o = device.uninitialized::<bf16>(q.len())?;
    let offsets = device.buffer_from(offsets)?;
    let buffers = Fp8AttentionBuffers {
        offsets: Some([&offsets; 2]),
        ..Fp8AttentionBuffers::new([&q, &k, &v], scales, &mut o)
    };
    let attention = Attention::new(sequences as u32, rows, HEADS as u32, D as u32).kv_heads(1);
    // One sequence is not packed.
    let attention = if sequences > 1 { attention.packed(rows, rows) } else { attention };
    operations.attention_fp8_by(stream, &attention, TransposeV::Before, buffers)?;
    Ok(o.to_vec()?.into_iter().map(bf16::to_bits).collect())
}

/// A block of V holds keys of the next sequence, too: their NaN have no part in its results.
#[test]
fn a_sequence_of_nan_leaves_that_before_as_it_is() -> Result<(), Box<dyn Error>> {
    let device = hopper(Schedule::Latest)?;
    let (operations, stream) = (Operations::new(&device), device.stream()?);
    let offsets = [0, 150, 150, 300];
    let (clean, with_nan) =
        (attend(&operations, &stream, &offsets, 300)?, attend(&operations, &stream, &offsets, 150)?);
    let first = 150 * HEADS * D;
    assert!(clean[..first] == with_nan[..first], "NaN of the next sequence");
    assert!(with_nan[first..].iter().all(|bits| bf16::from_bits(*bits).is_nan()));
    Ok(())
}

/// A call leaves NaN in the workspace, where the next one has keys past the end of its sequences.
#[test]
fn what_the_workspace_holds_has_no_part_in_results() -> Result<(), Box<dyn Error>> {
    let device = hopper(Schedule::Random(5))?;
    for offsets in [&[0, 129][..], &[0, 1, 260]] {
        let (operations, stream) = (Operations::new(&device), device.stream()?);
        let last = offsets[offsets.len() - 1];
        let fresh = attend(&Operations::new(&device), &stream, offsets, last)?;
        // It has more blocks, and so the workspace stays the same.
        attend(&operations, &stream, &[0, 250, 500], 0)?;
        assert!(attend(&operations, &stream, offsets, last)? == fresh, "NaN of the workspace");
        assert!(fresh.iter().all(|bits| bf16::from_bits(*bits).is_finite()));
    }
    Ok(())
}

/// Forms whose launches differ, of more blocks than stages.
fn forms() -> impl Iterator<Item = Options> {
    let forms: [&[(&str, &str)]; 4] = [
        &[("queries", "150"), ("keys", "600"), ("heads", "1")],
        &[("queries", "150"), ("keys", "300"), ("head-dim", "256"), ("mask", "causal"), ("heads", "1")],
        &[("queries", "170"), ("batch", "4"), ("packed", "true"), ("value-dim", "48"), ("kv-heads", "1")],
        &[("queries", "150"), ("keys", "600"), ("cluster", "2"), ("head-dim", "64"), ("heads", "1")],
    ];
    forms.into_iter().map(before)
}

#[test]
fn checks_are_clean_at_every_schedule() {
    let mut walk = Walk::new(&SUITE);
    let schedules = [Schedule::Eager, Schedule::Latest, Schedule::Random(31)];
    let cases = forms().flat_map(|form| schedules.map(|schedule| (form.clone(), schedule)));
    for (form, schedule) in one_in(2, cases) {
        walk.step(&*with(SUITE.named("attention"), &form), "emu:h200", schedule);
    }
    walk.finish();
}

/// The kernel before waits for what runs in front of it, and for the forward kernel that still reads the
/// workspace; the forward kernel waits for the kernel before.
#[test]
fn launches_wait_for_any_predecessor() -> Result<(), Box<dyn Error + Send + Sync>> {
    let devices =
        [hopper(Schedule::Random(12))?.checked_behind_writers()?, hopper(Schedule::Latest)?.checked()?];
    for (number, form) in forms().enumerate() {
        let (device, workload) = (&devices[number % 2], with(SUITE.named("attention"), &form));
        let (mut prepared, stream) = (workload.prepare(&Setup::new(device))?, device.stream()?);
        prepared.launch(&stream)?;
        prepared.launch(&stream)?;
        prepared.verify()?;
    }
    Ok(())
}
