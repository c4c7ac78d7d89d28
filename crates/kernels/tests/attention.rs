//! Attention against f64, in every form; what is refused; functions of the scores.

use warpwright::prelude::*;
use warpwright::runtime::{Buffer, Device, Schedule};
use warpwright_kernels::attention::score::{self, DifferentiableScoreOp, Pair, ScoreOp};
use warpwright_kernels::attention::{
    Attention, AttentionBuffers, AttentionScales, Fp8AttentionBuffers, GradientBuffers, Mask,
    ScaleGranularity,
};
use warpwright_kernels::operations::Operations;
use warpwright_testing::one_in;

use crate::SUITE;
use crate::emulated::hopper;

/// Lengths at which something begins or ends: a key, a warp's rows, a warpgroup's, a tile.
const LENGTHS: &[&str] = &["1", "17", "63", "64", "65", "127", "128", "129", "300"];

/// Options of the kernel, each with the lengths and the schedules in turn.
const FORMS: &[&[(&str, &str)]] = &[
    &[],
    &[("mask", "causal")],
    &[("mask", "window"), ("left", "40"), ("right", "3")],
    &[("mask", "window"), ("left", "0"), ("right", "0")],
    &[("head-dim", "64")],
    &[("head-dim", "64"), ("mask", "causal"), ("type", "f16")],
    &[("head-dim", "96"), ("mask", "causal")],
    &[("head-dim", "192")],
    &[("head-dim", "192"), ("value-dim", "128"), ("mask", "causal")],
    &[("head-dim", "256"), ("mask", "causal")],
    &[("head-dim", "256"), ("block", "64"), ("type", "f16")],
    &[("head-dim", "16"), ("value-dim", "48")],
    &[("heads", "6"), ("kv-heads", "2"), ("mask", "causal")],
    &[("heads", "3"), ("kv-heads", "1"), ("batch", "2")],
    &[("keys", "333"), ("mask", "causal")],
    &[("keys", "40"), ("mask", "causal")],
    &[("batch", "9"), ("packed", "true"), ("mask", "causal")],
    &[("batch", "8"), ("packed", "true"), ("keys", "170"), ("heads", "2"), ("kv-heads", "1")],
    &[("batch", "8"), ("packed", "true"), ("mask", "window"), ("left", "30"), ("right", "30")],
    &[("batch", "8"), ("page-size", "16"), ("mask", "causal"), ("heads", "1")],
    &[("batch", "7"), ("page-size", "64"), ("keys", "333"), ("mask", "causal"), ("kv-heads", "1")],
    &[("batch", "8"), ("page-size", "256"), ("head-dim", "256"), ("heads", "1"), ("type", "f16")],
    &[("batch", "3"), ("page-size", "32"), ("head-dim", "192"), ("value-dim", "128"), ("sinks", "true")],
    &[("batch", "3"), ("page-size", "128"), ("head-dim", "96"), ("mask", "window"), ("left", "70")],
    &[("batch", "6"), ("page-size", "16"), ("head-dim", "64"), ("layout", "heads"), ("biased", "true")],
    &[("layout", "heads"), ("batch", "2"), ("mask", "causal"), ("kv-heads", "1")],
    &[("layout", "qkv"), ("batch", "2"), ("head-dim", "64"), ("heads", "4"), ("kv-heads", "2")],
    &[("layout", "qkv"), ("batch", "3"), ("packed", "true"), ("head-dim", "64"), ("value-dim", "96")],
    &[("bound", "4"), ("mask", "causal")],
    &[("biased", "true"), ("heads", "4")],
    &[("bound", "9"), ("biased", "true"), ("mask", "window"), ("left", "50")],
    &[("sinks", "true"), ("heads", "5"), ("mask", "causal")],
    // Scores so far apart that the maximum rises often, and weights vanish.
    &[("scale", "3"), ("mask", "causal")],
    &[("consumers", "1"), ("mask", "causal")],
    &[("consumers", "3"), ("block", "64"), ("head-dim", "64")],
    &[("cluster", "2"), ("heads", "1")],
    &[("cluster", "2"), ("mask", "causal"), ("heads", "3")],
    &[("q-stages", "1"), ("stages", "1")],
    &[("stages", "3"), ("block", "64"), ("section", "1"), ("heads", "3")],
];

#[test]
fn every_form_at_every_length() {
    let kernel = SUITE.named("attention");
    let schedules = [Schedule::Eager, Schedule::Latest, Schedule::Random(7)];
    let cases = FORMS.iter().flat_map(|form| LENGTHS.iter().map(move |length| (*form, *length)));
    let cases: Vec<(&[(&str, &str)], &str)> = cases.collect();
    for (number, (form, length)) in one_in(41, cases).enumerate() {
        let device = hopper(schedules[number % 3]).expect("an emulated device");
        let settings: Vec<(&str, &str)> = form.iter().copied().chain([("queries", length)]).collect();
        SUITE.expect_right(kernel, &device, &settings);
    }
}

/// Without keys O is zeros, and a logarithm that of the sink, or minus infinity; gradients are zeros.
#[test]
fn no_keys_in_any_form() -> Result<(), Box<dyn std::error::Error>> {
    let device = hopper(Schedule::Latest)?;
    let further: &[(&str, &[(&str, &str)])] = &[
        ("attention", &[("mask", "causal"), ("sinks", "true"), ("batch", "2")]),
        ("attention", &[("packed", "true"), ("batch", "3"), ("head-dim", "256")]),
        ("attention", &[("layout", "qkv"), ("kv-heads", "1"), ("head-dim", "64"), ("value-dim", "96")]),
        ("attention", &[("page-size", "16"), ("mask", "window"), ("batch", "2")]),
        ("attention", &[("input", "e4m3"), ("scales", "block"), ("bound", "3")]),
        ("attention-gradients", &[("sinks", "true"), ("batch", "2")]),
        ("attention-gradients", &[("packed", "true"), ("batch", "3"), ("head-dim", "256")]),
    ];
    for (kernel, form) in further {
        let of_all = [("queries", "150"), ("keys", "0")];
        let settings: Vec<(&str, &str)> = of_all.into_iter().chain(form.iter().copied()).collect();
        SUITE.expect_right(SUITE.named(kernel), &device, &settings);
    }
    Ok(())
}

/// The largest length is that of the first sequence, less one: its last tile would be missing.
#[test]
fn a_sequence_longer_than_the_largest_stops_the_kernel() -> Result<(), Box<dyn std::error::Error>> {
    let device = hopper(Schedule::Latest)?;
    let (operations, stream) = (Operations::new(&device), device.stream()?);
    let (q, mut o) = (matrix(&device, 260 * 64, 1), device.uninitialized::<bf16>(260 * 64)?);
    let offsets = device.buffer_from(&[0u32, 129, 260])?;
    let mut run = |most: u32| {
        let buffers = AttentionBuffers {
            offsets: Some([&offsets, &offsets]),
            ..AttentionBuffers::new(&q, &q, &q, &mut o)
        };
        operations.attention(&stream, &Attention::new(2, most, 1, 64).packed(260, 260), buffers)
    };
    run(131)?;
    let error = run(128).expect_err("it has one query more").to_string();
    assert!(error.contains("trap"), "{error}");
    Ok(())
}

/// Blocks of zeros have the scale 0, as a quantization of their largest magnitude finds it.
#[test]
fn scales_of_zeros_are_zero() -> Result<(), Box<dyn std::error::Error>> {
    let device = hopper(Schedule::Random(2))?;
    let (operations, stream) = (Operations::new(&device), device.stream()?);
    let (rows, d) = (300, 64);
    // The first block of Q, the second of K and of V, of three.
    let matrix = |zeros: std::ops::Range<usize>, scale: f32| {
        let is_zero = |row: usize| zeros.contains(&(row / 128));
        let element = |i: usize| if is_zero(i / d) { 0.0 } else { (i * 7 % 13) as f32 - 6.0 };
        let elements: Vec<e4m3> = (0..rows * d).map(|i| e4m3::from_f32(element(i))).collect();
        let scales: Vec<f32> = (0..3).map(|block| if is_zero(block * 128) { 0.0 } else { scale }).collect();
        let exact: Vec<f32> = (0..rows * d).map(|i| element(i) * scale).collect();
        (device.buffer_from(&elements), device.buffer_from(&scales), exact)
    };
    let ((q, of_q, _), (k, of_k, _), (v, of_v, exact)) =
        (matrix(0..1, 0.5), matrix(1..2, 0.25), matrix(1..2, 2.0));
    let (q, k, v, of_q, of_k, of_v) = (q?, k?, v?, of_q?, of_k?, of_v?);
    let granularity = ScaleGranularity::Block;
    let scales = AttentionScales { granularity, q: &of_q, k: &of_k, v: &of_v };
    let mut o = device.uninitialized::<bf16>(rows * d)?;
    let attention = Attention::new(1, rows as u32, 1, d as u32);
    operations.attention_fp8(&stream, &attention, Fp8AttentionBuffers::new([&q, &k, &v], scales, &mut o))?;
    let o = o.to_vec()?;
    // Queries of zeros see all keys equally well.
    for (column, found) in o[..d].iter().enumerate() {
        let mean = exact.iter().skip(column).step_by(d).sum::<f32>() / rows as f32;
        assert!((found.to_f32() - mean).abs() < 0.05, "{found} and {mean}");
    }
    assert!(o.iter().all(|value| value.is_finite()));
    Ok(())
}

/// A block of keys holds those of the next sequence, too: their NaN have no part in its results.
#[test]
fn a_sequence_of_nan_leaves_that_before_as_it_is() -> Result<(), Box<dyn std::error::Error>> {
    let device = hopper(Schedule::Latest)?;
    let (operations, stream) = (Operations::new(&device), device.stream()?);
    let (first, all, d) = (150, 300, 192);
    let elements = |last: e4m3| -> Vec<e4m3> {
        let element = |i: usize| e4m3::from_f32((i * 7 % 13) as f32 / 4.0 - 1.5);
        (0..all * d).map(|i| if i < first * d { element(i) } else { last }).collect()
    };
    let (scales, offsets) =
        (device.buffer_from(&[1.0f32; 2])?, device.buffer_from(&[0, first as u32, all as u32])?);
    let granularity = ScaleGranularity::Head;
    let scales = AttentionScales { granularity, q: &scales, k: &scales, v: &scales };
    let attention = Attention::new(2, first as u32, 1, d as u32).packed(all as u32, all as u32);
    let run = |last: f32| -> Result<Vec<bf16>, Box<dyn std::error::Error>> {
        let (x, mut o) = (device.buffer_from(&elements(e4m3::from_f32(last)))?, device.zeros(all * d)?);
        let buffers = Fp8AttentionBuffers {
            offsets: Some([&offsets, &offsets]),
            ..Fp8AttentionBuffers::new([&x; 3], scales, &mut o)
        };
        operations.attention_fp8(&stream, &attention, buffers)?;
        Ok(o.to_vec()?[..first * d].to_vec())
    };
    let (clean, with_nan) = (run(0.0)?, run(f32::NAN)?);
    assert!(clean.iter().zip(&with_nan).all(|(clean, with_nan)| clean.to_bits() == with_nan.to_bits()));
    Ok(())
}

/// A matrix without elements has strides of zero, and nothing overlaps in it.
#[test]
fn no_queries_in_any_layout() -> Result<(), Box<dyn std::error::Error>> {
    let device = hopper(Schedule::Latest)?;
    for layout in ["rows", "heads"] {
        let settings = [("layout", layout), ("queries", "0"), ("keys", "3"), ("heads", "2")];
        SUITE.expect_right(SUITE.named("attention"), &device, &settings);
    }
    Ok(())
}

/// Options of the kernel for e4m3, each with the lengths in turn.
pub(crate) const FP8_FORMS: &[&[(&str, &str)]] = &[
    &[],
    &[("mask", "causal"), ("scales", "block"), ("heads", "4"), ("kv-heads", "2")],
    &[("head-dim", "256"), ("heads", "1")],
    &[("head-dim", "256"), ("mask", "causal"), ("scales", "block"), ("type", "f16")],
    &[("head-dim", "64"), ("mask", "window"), ("left", "40"), ("right", "3")],
    &[("head-dim", "192"), ("value-dim", "128"), ("keys", "333"), ("mask", "causal")],
    &[("head-dim", "48"), ("value-dim", "144"), ("keys", "40"), ("mask", "causal")],
    &[("batch", "9"), ("packed", "true"), ("mask", "causal"), ("scales", "block"), ("heads", "1")],
    &[("batch", "8"), ("packed", "true"), ("keys", "170"), ("heads", "2"), ("kv-heads", "1")],
    &[("bound", "4"), ("biased", "true"), ("sinks", "true"), ("scales", "block"), ("heads", "3")],
    &[("batch", "8"), ("page-size", "16"), ("mask", "causal"), ("heads", "2"), ("kv-heads", "1")],
    &[("batch", "7"), ("page-size", "64"), ("keys", "333"), ("mask", "causal"), ("scales", "block")],
    &[("batch", "3"), ("page-size", "256"), ("head-dim", "256"), ("heads", "1"), ("type", "f16")],
    &[("batch", "3"), ("page-size", "32"), ("head-dim", "192"), ("value-dim", "128"), ("sinks", "true")],
    &[("batch", "3"), ("page-size", "128"), ("mask", "window"), ("left", "70"), ("layout", "heads")],
    &[("layout", "heads"), ("batch", "2"), ("mask", "causal"), ("kv-heads", "1")],
    &[("layout", "qkv"), ("batch", "2"), ("head-dim", "64"), ("heads", "4"), ("kv-heads", "2")],
    &[("layout", "qkv"), ("batch", "3"), ("packed", "true"), ("head-dim", "64"), ("value-dim", "96")],
    // Scores so far apart that weights vanish.
    &[("scale", "3"), ("mask", "causal")],
    &[("consumers", "1"), ("mask", "causal"), ("stages", "1"), ("q-stages", "1")],
    &[("consumers", "3"), ("head-dim", "64"), ("scales", "block")],
    &[("cluster", "2"), ("heads", "1")],
    &[("cluster", "2"), ("mask", "causal"), ("head-dim", "256"), ("heads", "1")],
];

#[test]
fn every_form_of_fp8_at_every_length() {
    let kernel = SUITE.named("attention");
    let schedules = [Schedule::Eager, Schedule::Latest, Schedule::Random(7)];
    let lengths = ["1", "17", "127", "129", "300"];
    let cases = FP8_FORMS.iter().flat_map(|form| lengths.iter().map(move |length| (*form, *length)));
    let cases: Vec<(&[(&str, &str)], &str)> = cases.collect();
    for (number, (form, length)) in one_in(29, cases).enumerate() {
        let device = hopper(schedules[number % 3]).expect("an emulated device");
        let of_all = [("queries", length), ("input", "e4m3")];
        let settings: Vec<(&str, &str)> = form.iter().copied().chain(of_all).collect();
        SUITE.expect_right(kernel, &device, &settings);
    }
}

/// Options of the gradients, each with the lengths and the schedules in turn.
const GRADIENTS: &[&[(&str, &str)]] = &[
    &[("heads", "1")],
    &[("mask", "causal"), ("heads", "1")],
    &[("mask", "causal"), ("keys", "200"), ("heads", "4"), ("kv-heads", "2")],
    &[("mask", "causal"), ("keys", "60"), ("type", "f16")],
    &[("mask", "window"), ("left", "40"), ("right", "9"), ("batch", "2"), ("heads", "1")],
    &[("head-dim", "64"), ("mask", "causal"), ("heads", "3"), ("kv-heads", "1")],
    &[("head-dim", "64"), ("block", "64"), ("type", "f16")],
    &[("head-dim", "32"), ("value-dim", "48")],
    &[("head-dim", "64"), ("value-dim", "128"), ("keys", "150")],
    &[("head-dim", "96"), ("mask", "causal")],
    &[("head-dim", "256"), ("mask", "causal"), ("heads", "1")],
    &[("head-dim", "256"), ("heads", "4"), ("kv-heads", "2"), ("keys", "150")],
    &[("head-dim", "256"), ("mask", "window"), ("left", "40"), ("right", "9"), ("type", "f16")],
    &[("head-dim", "192"), ("value-dim", "128"), ("mask", "causal")],
    &[("head-dim", "256"), ("mask", "causal"), ("keys", "290"), ("deterministic", "true")],
    &[("head-dim", "64"), ("mask", "causal"), ("keys", "400"), ("deterministic", "true")],
    &[("batch", "9"), ("packed", "true"), ("mask", "causal"), ("heads", "1")],
    &[("batch", "8"), ("packed", "true"), ("keys", "170"), ("kv-heads", "1"), ("head-dim", "64")],
    &[("batch", "7"), ("packed", "true"), ("mask", "causal"), ("head-dim", "256"), ("heads", "1")],
    &[("batch", "8"), ("packed", "true"), ("head-dim", "192"), ("value-dim", "128"), ("heads", "1")],
    &[
        ("batch", "8"),
        ("packed", "true"),
        ("mask", "window"),
        ("left", "30"),
        ("right", "3"),
        ("head-dim", "96"),
    ],
    &[("batch", "6"), ("packed", "true"), ("mask", "causal"), ("keys", "200"), ("deterministic", "true")],
    &[("bound", "4"), ("mask", "causal"), ("heads", "1")],
    &[("bound", "2"), ("head-dim", "64"), ("keys", "150"), ("type", "f16")],
    &[("biased", "true"), ("heads", "4"), ("kv-heads", "2"), ("head-dim", "96")],
    &[
        ("bound", "3"),
        ("biased", "true"),
        ("head-dim", "256"),
        ("mask", "window"),
        ("left", "50"),
        ("heads", "1"),
    ],
    &[("bound", "3"), ("head-dim", "192"), ("value-dim", "128"), ("batch", "3"), ("packed", "true")],
    &[("sinks", "true"), ("heads", "5"), ("mask", "causal"), ("head-dim", "64")],
    &[("sinks", "true"), ("batch", "5"), ("packed", "true"), ("head-dim", "256"), ("type", "f16")],
    &[("layout", "heads"), ("batch", "2"), ("mask", "causal"), ("heads", "4"), ("kv-heads", "2")],
    &[("layout", "heads"), ("batch", "2"), ("head-dim", "256"), ("heads", "2"), ("kv-heads", "1")],
    &[("layout", "qkv"), ("batch", "2"), ("head-dim", "96"), ("value-dim", "64"), ("mask", "causal")],
    &[("layout", "qkv"), ("batch", "5"), ("packed", "true"), ("head-dim", "192"), ("value-dim", "128")],
    &[("layout", "heads"), ("batch", "5"), ("packed", "true"), ("head-dim", "64"), ("deterministic", "true")],
];

#[test]
fn gradients_of_every_form() {
    let kernel = SUITE.named("attention-gradients");
    let schedules = [Schedule::Latest, Schedule::Random(5), Schedule::Eager];
    let cases = GRADIENTS.iter().flat_map(|form| LENGTHS.iter().map(move |length| (*form, *length)));
    let cases: Vec<(&[(&str, &str)], &str)> = cases.collect();
    for (number, (form, length)) in one_in(47, cases).enumerate() {
        let device = hopper(schedules[number % 3]).expect("an emulated device");
        let settings: Vec<(&str, &str)> = form.iter().copied().chain([("queries", length)]).collect();
        SUITE.expect_right(kernel, &device, &settings);
    }
}

/// Weights and their gradients near the smallest numbers of f16, and derivatives near 0: scores that are
/// far apart, and scores at their bound.
#[test]
fn gradients_of_small_numbers() {
    let kernel = SUITE.named("attention-gradients");
    let device = hopper(Schedule::Latest).expect("an emulated device");
    for form in [
        &[("type", "f16"), ("scale", "3"), ("heads", "3"), ("kv-heads", "1")][..],
        &[("scale", "3"), ("bound", "0.5"), ("sinks", "true"), ("head-dim", "192"), ("value-dim", "128")],
    ] {
        let of_all = [("queries", "64"), ("keys", "65"), ("mask", "causal")];
        let settings: Vec<(&str, &str)> = of_all.into_iter().chain(form.iter().copied()).collect();
        SUITE.expect_right(kernel, &device, &settings);
    }
}

/// Units of several heads are mixed, the last section has fewer heads: each unit is computed once.
#[test]
fn gradients_in_sections_of_heads() {
    let kernel = SUITE.named("attention-gradients");
    let device = hopper(Schedule::Random(8)).expect("an emulated device");
    for head_dim in ["64", "256"] {
        for form in [&[("packed", "true")][..], &[("deterministic", "true")], &[]] {
            let of_all = [("head-dim", head_dim), ("batch", "3"), ("heads", "3"), ("kv-heads", "3")];
            let further = [("queries", "140"), ("mask", "causal"), ("section", "2")];
            let settings: Vec<(&str, &str)> =
                of_all.into_iter().chain(further).chain(form.iter().copied()).collect();
            SUITE.expect_right(kernel, &device, &settings);
        }
    }
}

/// The bits of dQ of a device, of three CTAs or clusters, whose order matters: what those of the first
/// and the last keys add is large, and cancels.
fn bits_of_dq(device: &Device, head_dim: u32) -> Result<Vec<u16>, Box<dyn std::error::Error>> {
    const UNIT: usize = 128;
    let (operations, stream) = (Operations::new(device), device.stream()?);
    let attention = Attention::new(1, 150, 2, head_dim).keys(3 * UNIT as u32);
    let [queries, unit] = [150, UNIT].map(|rows| rows * 2 * head_dim as usize);
    // Weights are equal: Q is 0.
    let (q, d_o) = (device.buffer_from(&vec![bf16::ZERO; queries])?, matrix(device, queries, 1));
    let [first, middle] = [2, 3].map(|seed| matrix(device, unit, seed).to_vec());
    let (first, middle) = (first?, middle?);
    let times = |factor: f32| first.iter().map(move |value| bf16::from_f32(factor * value.to_f32()));
    let k: Vec<bf16> = times(4096.0).chain(middle.iter().copied()).chain(times(-4096.0)).collect();
    let v: Vec<bf16> = times(1.0).chain(middle.iter().copied()).chain(times(1.0)).collect();
    let (k, v) = (device.buffer_from(&k)?, device.buffer_from(&v)?);
    let (mut o, mut lse) = (device.uninitialized::<bf16>(queries)?, device.uninitialized::<f32>(2 * 150)?);
    let forward = AttentionBuffers { lse: Some(&mut lse), ..AttentionBuffers::new(&q, &k, &v, &mut o) };
    operations.attention(&stream, &attention, forward)?;
    let (mut d_q, mut d_k, mut d_v) =
        (device.uninitialized(queries)?, device.uninitialized(k.len())?, device.uninitialized(k.len())?);
    let buffers = GradientBuffers::new([&q, &k, &v], (&o, &lse), &d_o, [&mut d_q, &mut d_k, &mut d_v]);
    operations.deterministic_attention_gradients(&stream, &attention, buffers)?;
    Ok(d_q.to_vec()?.iter().map(|value: &bf16| value.to_bits()).collect())
}

#[test]
fn deterministic_gradients_have_the_same_bits_at_every_schedule() -> Result<(), Box<dyn std::error::Error>> {
    for head_dim in [64, 256] {
        let expected = bits_of_dq(&hopper(Schedule::Eager)?, head_dim)?;
        for schedule in [Schedule::Random(3), Schedule::Random(4)] {
            assert!(
                bits_of_dq(&hopper(schedule)?, head_dim)? == expected,
                "{schedule:?}, {head_dim} elements"
            );
        }
    }
    Ok(())
}

/// More tiles than CTAs: the scheduler hands them out, and resets its counter for the next launch.
#[test]
fn more_tiles_than_ctas() {
    let device = hopper(Schedule::Random(3)).expect("an emulated device");
    let settings =
        [("queries", "65"), ("heads", "150"), ("head-dim", "16"), ("mask", "causal"), ("consumers", "1")];
    SUITE.expect_right(SUITE.named("attention"), &device, &settings);
}

fn matrix(device: &Device, count: usize, seed: u32) -> Buffer<bf16> {
    let hash = |i: u32| (i.wrapping_mul(2_654_435_761) ^ (i >> 7)).wrapping_mul(2_246_822_519) >> 16;
    let values: Vec<_> =
        (0..count as u32).map(|i| bf16::from_f32(hash(i * 3 + seed) as f32 / 32768.0 - 1.0)).collect();
    device.buffer_from(&values).expect("memory")
}

/// A function that takes a pair's scores away is a mask: the same as the kernel's own, bit for bit
/// but for blocks that the mask skips.
#[test]
fn a_function_of_the_scores_masks() -> Result<(), Box<dyn std::error::Error>> {
    let device = hopper(Schedule::Latest)?;
    let (operations, stream) = (Operations::new(&device), device.stream()?);
    let [q, k, v] = [1, 2, 3].map(|seed| matrix(&device, 2 * 150 * 2 * 64, seed));
    let attention = Attention::new(2, 150, 2, 64);
    let mut expected = device.uninitialized::<bf16>(q.len())?;
    let buffers = AttentionBuffers::new(&q, &k, &v, &mut expected);
    operations.attention(&stream, &attention.mask(Mask::Causal), buffers)?;
    let causal = |score: Reg<f32>, pair: Pair| pair.key.le(pair.position).select(score, f32::NEG_INFINITY);
    let mut found = device.uninitialized::<bf16>(q.len())?;
    operations.attention_with(&stream, &attention, causal, AttentionBuffers::new(&q, &k, &v, &mut found))?;
    let (found, expected) = (found.to_vec()?, expected.to_vec()?);
    let is_near = |(found, expected): (&bf16, &bf16)| (found.to_f32() - expected.to_f32()).abs() <= 0.01;
    assert!(found.iter().zip(&expected).all(is_near));
    Ok(())
}

/// A function gets scores of e4m3 with their scales: the softcap and the bias that it computes are the
/// kernel's own.
#[test]
fn a_function_of_the_scores_of_fp8() -> Result<(), Box<dyn std::error::Error>> {
    let device = hopper(Schedule::Random(6))?;
    let (operations, stream) = (Operations::new(&device), device.stream()?);
    let count = 2 * 150 * 2 * 64;
    let [q, k, v] = [1, 2, 3].map(|seed| {
        let values = matrix(&device, count, seed).to_vec().expect("memory");
        let values: Vec<e4m3> = values.iter().map(|value| e4m3::from_f32(value.to_f32() * 8.0)).collect();
        device.buffer_from(&values).expect("memory")
    });
    let (scale, slopes) =
        (device.buffer_from(&[0.25f32, 0.5, 0.125, 0.375])?, device.buffer_from(&[0.25f32; 2])?);
    let scales = AttentionScales { granularity: ScaleGranularity::Head, q: &scale, k: &scale, v: &scale };
    let attention = Attention::new(2, 150, 2, 64).mask(Mask::Causal);
    let mut outputs = [device.uninitialized::<bf16>(count)?, device.uninitialized::<bf16>(count)?];
    let [expected, found] = &mut outputs;
    let own = Fp8AttentionBuffers {
        slopes: Some(&slopes),
        ..Fp8AttentionBuffers::new([&q, &k, &v], scales, expected)
    };
    operations.attention_fp8(&stream, &attention.bounded(2.0).biased(), own)?;
    let function = |score: Reg<f32>, pair: Pair| {
        let capped = score::capped(constant(2.0)).apply(score, pair);
        capped - (pair.position - pair.key).abs().convert::<f32>() * 0.25
    };
    let buffers = Fp8AttentionBuffers::new([&q, &k, &v], scales, found);
    operations.attention_fp8_with(&stream, &attention, function, buffers)?;
    let [expected, found] = outputs.map(|output| output.to_vec().expect("memory"));
    let is_near = |(found, expected): (&bf16, &bf16)| (found.to_f32() - expected.to_f32()).abs() <= 0.01;
    assert!(found.iter().zip(&expected).all(is_near));
    assert!(found.iter().any(|value| value.to_f32().abs() > 0.1));
    Ok(())
}

/// The gradients of 150 queries of 2 heads, through `function` if there is one.
fn gradients_of<S: DifferentiableScoreOp + Copy + Send + Sync + 'static>(
    device: &Device,
    (attention, head_dim): (Attention, u32),
    function: Option<S>,
) -> Result<[Vec<bf16>; 3], Box<dyn std::error::Error>> {
    let (operations, stream) = (Operations::new(device), device.stream()?);
    let count = 150 * 2 * head_dim as usize;
    let [q, k, v, d_o] = [1, 2, 3, 4].map(|seed| matrix(device, count, seed));
    let slopes = device.buffer_from(&[0.25f32; 2])?;
    let (mut o, mut lse) = (device.uninitialized::<bf16>(count)?, device.uninitialized::<f32>(2 * 150)?);
    let buffers = AttentionBuffers::new(&q, &k, &v, &mut o);
    let forward = AttentionBuffers { lse: Some(&mut lse), slopes: Some(&slopes), ..buffers };
    match function {
        Some(function) => operations.attention_with(&stream, &attention, function, forward)?,
        None => operations.attention(&stream, &attention, forward)?,
    };
    let mut gradients = [(); 3].map(|()| device.uninitialized::<bf16>(count).expect("memory"));
    let buffers = GradientBuffers::new([&q, &k, &v], (&o, &lse), &d_o, gradients.each_mut());
    let buffers = GradientBuffers { slopes: Some(&slopes), ..buffers };
    match function {
        Some(function) => operations.attention_gradients_with(&stream, &attention, function, buffers)?,
        None => operations.attention_gradients(&stream, &attention, buffers)?,
    };
    Ok(gradients.map(|gradient| gradient.to_vec().expect("memory")))
}

/// A function with a derivative has the gradients of the softcap and the bias that it computes.
#[test]
fn a_function_of_the_scores_has_gradients() -> Result<(), Box<dyn std::error::Error>> {
    let capped = score::differentiable(|score: Reg<f32>, pair: Pair| {
        score::capped(constant(2.0)).differentiate(score, pair)
    });
    let function = capped.then(score::differentiable(|score: Reg<f32>, pair: Pair| {
        let distance = (pair.position - pair.key).abs().convert::<f32>();
        (score - distance * 0.25, constant(1.0))
    }));
    for head_dim in [64, 256] {
        let device = hopper(Schedule::Random(3))?;
        let attention = Attention::new(1, 150, 2, head_dim).mask(Mask::Causal);
        let found = gradients_of(&device, (attention, head_dim), Some(function))?;
        let expected = gradients_of(
            &device,
            (attention.bounded(2.0).biased(), head_dim),
            Some(function).filter(|_| false),
        )?;
        for (found, expected) in found.iter().flatten().zip(expected.iter().flatten()) {
            assert!((found.to_f32() - expected.to_f32()).abs() <= 0.01, "{found} and {expected}, {head_dim}");
        }
    }
    Ok(())
}
