//! The small kernels of a transformer's step: every element against
//! f64, at shapes of whole vectors and not, clean under all checkers.

use warpwright::emulator::Schedule;
use warpwright::prelude::bf16;
use warpwright::runtime::Device;
use warpwright_kernels::moe::{Routing, Scoring};
use warpwright_kernels::operations::Operations;
use warpwright_kernels::weight_only_gemv::{QuantizedWeights, WeightFormat};

use crate::SUITE;
use crate::emulated::hopper;
use crate::walk::run;

/// Whole vectors and not, of each type; no elements; several vectors of a thread; sequences of no
/// token, and more of them than runs.
const CASES: &[&str] = &[
    "swiglu --tokens 3 --intermediate 136",
    "swiglu --tokens 3 --intermediate 1030 --layout separate --type f16 --steps 2",
    "swiglu --tokens 2 --intermediate 333 --type f32 --steps 4",
    "swiglu --tokens 0",
    "gather-rows --tokens 40 --hidden 136 --entries 3",
    "gather-rows --tokens 7 --hidden 1030 --type f16 --steps 1",
    "gather-rows --tokens 7 --hidden 333 --type f32 --steps 8",
    "gather-rows --tokens 0",
    "gated-rms-norm --tokens 3",
    "gated-rms-norm --tokens 5 --head-dim 256 --heads 3 --gain weight --type f32",
    "gated-rms-norm --tokens 2 --head-dim 8 --heads 5 --type f16",
    "gated-rms-norm --tokens 0",
    "scatter-rows",
    "scatter-rows --tokens 0",
    "scatter-rows --tokens 3 --entries 3 --hidden 7 --type f32",
    "copy-row --hidden 300 --type f16",
    "copy-row --from 8",
    "concatenate-rows",
    "concatenate-rows --entries 1 --hidden 3 --type f32",
    "head-gates",
    "head-gates --tokens 3 --heads 1 --head-dim 33 --type f32",
    "head-gates --tokens 0",
    "moe-shared-expert",
    "moe-shared-expert --tokens 3 --hidden 33 --type f16",
    "moe-shared-expert --tokens 0",
    "causal-conv",
    "causal-conv --tokens 13 --sequences 9 --channels 37 --type f16 --bias true",
    "causal-conv --tokens 40 --sequences 1 --channels 34 --width 2 --type f32 --from-zeros true",
    "causal-conv --tokens 0 --sequences 3 --channels 36",
    "causal-conv --tokens 2 --sequences 2 --channels 36 --type f32",
    "causal-conv --tokens 0 --sequences 0",
    "moe-route",
    "moe-route --tokens 5 --experts 60 --choices 4 --scoring sigmoid --keep-sum true",
    "moe-route --tokens 3 --experts 512 --choices 16 --type f32 --keep-sum true",
    "moe-route --tokens 9 --experts 5 --choices 5 --type f16",
    "moe-route --tokens 0",
    "moe-permute",
    "moe-permute --tokens 1500 --experts 13 --choices 3",
    "moe-permute --tokens 1 --experts 1 --choices 1",
    "moe-permute --tokens 0",
    "moe-combine",
    "moe-combine --tokens 3 --hidden 37 --choices 2 --type f16",
    "moe-combine --tokens 2 --hidden 70 --choices 1 --type f32",
    "moe-combine --tokens 0",
    "weight-only-gemv",
    "weight-only-gemv --group 32 --zero-points true --batch 3 --scales f16 --output f32",
    "weight-only-gemv --format int8 --group 64 --zero-points true --inputs 704 --batch 8 --output f16",
    "weight-only-gemv --format int8 --group 32 --inputs 96 --outputs 17 --scales f32",
    "weight-only-gemv --format e4m3 --group 32 --outputs 1 --inputs 800 --warps 3 --stages 2",
    "weight-only-gemv --format e4m3 --batch 5 --inputs 2304 --outputs 16 --warps 4 --stages 3",
    "weight-only-gemv --group 64 --inputs 3008 --outputs 33 --batch 2 --warps 2",
    "weight-only-gemv --format e4m3 --batch 19 --outputs 33 --inputs 128 --output f32",
    "weight-only-gemv --inputs 2304 --warps 2 --batch 3 --parts 2",
    "weight-only-gemv --format int8 --inputs 2560 --outputs 2200 --warps 4 --parts 3 --output f32",
    "weight-only-gemv --inputs 2560 --batch 8 --warps 2 --outputs 17",
    "weight-only-gemv --inputs 14336 --batch 8 --outputs 16 --format e4m3",
    "weight-only-gemv --inputs 2304 --outputs 70 --batch 3 --warps 2 --cluster 2 --output f32",
    "weight-only-gemv --format int8 --inputs 2560 --outputs 17 --warps 2 --cluster 4 --parts 2 --batch 8",
    "weight-only-gemv --format e4m3 --inputs 1408 --outputs 2200 --warps 1 --cluster 3 --fresh-weights",
    "gemv",
    "gemv --batch 0",
    "gemv --outputs 33 --inputs 40 --batch 3 --type f32 --output bf16 --epilogue add --norm weight",
    "gemv --outputs 24 --inputs 100 --batch 9 --epilogue swiglu --norm zero-centred",
    "gemv --outputs 601 --inputs 1031 --batch 2 --type f16 --output f16",
    "gemv --experts 5 --batch 3 --outputs 40 --inputs 136 --type f32",
    "gemv --experts 3 --batch 2 --outputs 17 --inputs 72",
    "weight-only-expert-gemv",
    "weight-only-expert-gemv --batch 0",
    "weight-only-expert-gemv --format int8 --group 32 --inputs 96 --outputs 9 --zero-points true --choices 1",
    "dequantize-weights",
    "dequantize-weights --outputs 0",
    "dequantize-weights --format int8 --group 64 --inputs 64 --zero-points true",
    "paged-attention",
    "paged-attention --sequences 3 --tokens 1 --keys 33 --head-dim 20 --query-heads 3 --key-heads 1 --page-size 8 --type f32",
    "paged-attention --tokens 5 --keys 3 --head-dim 256 --key-heads 4 --type f16",
    "paged-attention --sequences 0",
    "last-tokens",
    "last-tokens --kernel remember --sequences 200",
    "last-tokens --kernel follow --tokens 1",
    "last-tokens --sequences 0",
    "drafts",
    "drafts --drafts 1 --page-size 1 --sequences 70",
    "drafts --kernel accept",
    "drafts --kernel accept --drafts 7 --sequences 90",
    "drafts --kernel keep",
    "drafts --kernel keep --drafts 1 --page-size 2 --sequences 140",
    "drafts --sequences 0",
    "weight-only-gemv --batch 0",
    "weight-only-gemv --outputs 0",
];

/// Those of sm_89 and of sm_90a.
const CASES_OF_HOPPER: &[&str] = &[
    "group-quantize",
    "group-quantize --of swiglu --tokens 9 --hidden 136",
    "group-quantize --of weight --tokens 3 --hidden 1028 --keep true",
    "group-quantize --of zero-centred --tokens 2 --hidden 4",
    "group-quantize --tokens 0",
    "weight-only-expert-gemv --format e4m3 --group 64 --inputs 192 --outputs 33",
    "dequantize-weights --format e4m3 --group 32 --inputs 96",
    "weight-only-gemm",
    "weight-only-gemm --batch 0",
    "weight-only-gemm --batch 16 --outputs 64 --inputs 1920 --add true --output f32",
    "weight-only-gemm --batch 40 --outputs 200 --output f16",
    "weight-only-gemm --batch 100 --outputs 65 --inputs 1152 --add true",
];

#[test]
fn kernels_of_hopper_are_right_and_check_clean() {
    for schedule in [Schedule::Latest, Schedule::Random(5)] {
        let device = hopper(schedule).and_then(Device::checked).expect("an emulated device");
        CASES_OF_HOPPER.iter().for_each(|case| run(&SUITE, &device, case));
    }
}

#[test]
fn every_element_is_right_and_checks_clean() {
    for (name, schedule) in [("emu:h200", Schedule::Latest), ("emu:a100", Schedule::Random(5))] {
        let device = Device::with_schedule(name, schedule).and_then(Device::checked).expect("an emulator");
        CASES.iter().for_each(|case| run(&SUITE, &device, case));
    }
}

/// The vectors' f16 are scaled: the largest and smallest magnitudes of bf16 are right, small elements
/// beside large ones are, and infinities and NaN come through.
#[test]
fn vectors_of_a_gemv_have_any_magnitude() {
    let device = Device::named("emu:h200").expect("an emulator");
    let (operations, stream) = (Operations::new(&device), device.stream().expect("a stream"));
    let k = 256;
    let cases: [&[f32]; 7] = [
        &[0.0],
        &[f32::from_bits(0x7f7f_0000)],
        &[f32::from_bits(0x0080_0000)],
        &[65536.0, -3.0, -65536.0],
        &[4194304.0, -3.0, -4194304.0],
        &[f32::INFINITY, 1.0],
        &[f32::NAN, 1.0],
    ];
    let x: Vec<bf16> = cases
        .iter()
        .flat_map(|first| (0..k).map(|index| bf16::from_f32(*first.get(index).unwrap_or(&0.0))))
        .collect();
    let expected =
        |case: usize| -> f32 { x[case * k..][..k].iter().map(|x| f64::from(x.to_f32())).sum::<f64>() as f32 };
    let (weights, scales) = (device.buffer_from(&vec![1u8; k]), device.buffer_from(&[1f32; 2]));
    let weights = QuantizedWeights {
        n: 1,
        k: k as u32,
        format: WeightFormat::Int8,
        weights: &weights.expect("memory"),
        group: 128,
        scales: &scales.expect("memory"),
        zero_points: None,
        constant: true,
    };
    let mut y = device.uninitialized::<f32>(cases.len()).expect("memory");
    let x = device.buffer_from(&x).expect("memory");
    operations.weight_only_gemv(&stream, weights, &x, &mut y).expect("a GEMV");
    for (case, found) in y.to_vec().expect("results").into_iter().enumerate() {
        let expected = expected(case);
        let is_right = found == expected || (found.is_nan() && expected.is_nan());
        assert!(is_right, "case {case}: {found} and not {expected}");
    }
}

/// A router with a NaN chooses no experts in silence: all weights of a softmax are NaN, renormalized or not.
#[test]
fn a_nan_logit_makes_the_weights_of_its_token_nan() {
    let device = Device::named("emu:h200").unwrap();
    let (operations, stream) = (Operations::new(&device), device.stream().unwrap());
    let logits = device.buffer_from(&[0.0f32, f32::NAN, 3.0, 1.0, 0.0, 3.0, 3.0, 1.0]).unwrap();
    for renormalizes in [false, true] {
        let (mut experts, mut weights) = (device.uninitialized(4).unwrap(), device.uninitialized(4).unwrap());
        let routing = Routing { experts: 4, choices: 2, scoring: Scoring::Softmax, renormalizes, scale: 1.0 };
        operations.route_tokens(&stream, routing, &logits, (&mut experts, &mut weights)).unwrap();
        let weights: Vec<f32> = weights.to_vec().unwrap();
        assert!(weights[..2].iter().all(|weight| weight.is_nan()), "{weights:?}");
        assert!(weights[2..].iter().all(|weight| weight.is_finite()), "{weights:?}");
    }
}
