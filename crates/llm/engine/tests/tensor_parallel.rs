//! Models on several devices have the tokens that they have on one.

use std::path::Path;

use warpwright::arch::Arch;
use warpwright::emulator::Schedule;
use warpwright::runtime::Device;
use warpwright_llm_engine::{DataType, Engine, Limits};
use warpwright_llm_step::{Chunk, Executor, Slot, Step, Tokens};

use crate::fixtures::{
    LIMITS, MODELS, changed, chunk, difference, engine, engine_of, expected, folder, generate, greedy,
    random, step,
};

/// As for one device: sums of other orders.
const TOLERANCE: f32 = 3e-4;
/// Tokens that are decoded.
const DECODED: usize = 8;

fn parallel(folder: &Path, ranks: u32, data_type: DataType, limits: Limits) -> Engine {
    let devices = Device::peers("emu:h200", ranks).expect("emulators");
    Engine::load_parallel(&random(folder), &devices, data_type, limits).expect("a model")
}

#[test]
fn two_devices_have_the_tokens_of_transformers() {
    for model in MODELS {
        let mut engine = parallel(&folder(model), 2, DataType::F32, LIMITS);
        for expected in expected(model) {
            let (sampled, scored) = generate(&mut engine, &expected.prompt, 16, DECODED);
            let tokens: Vec<u32> = sampled.iter().map(|(token, _)| *token).collect();
            assert_eq!(tokens, expected.tokens[..DECODED], "{model}, a prompt of {}", expected.prompt.len());
            let found = sampled.iter().map(|(_, value)| *value).chain(scored);
            let wanted = expected.logprobs[..DECODED].iter().chain(&expected.of_prompt);
            for (found, wanted) in found.zip(wanted) {
                assert!((found - wanted).abs() < TOLERANCE, "{model}: {found}, expected {wanted}");
            }
        }
    }
}

/// Heads of keys that are fewer than the devices, and a batch of several sequences.
#[test]
fn four_devices_have_the_tokens_of_one() {
    let delta = changed("qwen3_5", |config| config["text_config"]["linear_num_key_heads"] = 4.into());
    let experts = changed("qwen3_5_moe", |config| {
        config["num_attention_heads"] = 4.into();
        config["linear_num_key_heads"] = 4.into();
        config["linear_num_value_heads"] = 8.into();
    });
    let prompts = expected("qwen3");
    for (model, folder) in
        [("qwen3", &*folder("qwen3")), ("delta", delta.path()), ("experts", experts.path())]
    {
        let tokens = |engine: &mut Engine| {
            let first = |(sequence, prompt): (usize, &[u32])| Chunk {
                sampling: Some(greedy()),
                ..chunk(sequence as u32, 0, Tokens::Known(prompt.to_vec()))
            };
            let prompts: Vec<&[u32]> = prompts.iter().map(|expected| &expected.prompt[..]).collect();
            let mut tokens = vec![];
            for number in 0..DECODED {
                let chunks = prompts.iter().copied().enumerate().map(|(sequence, prompt)| match number {
                    0 => first((sequence, prompt)),
                    _ => Chunk {
                        sampling: Some(greedy()),
                        ..chunk(sequence as u32, (prompt.len() + number - 1) as u32, Tokens::Last)
                    },
                });
                let outputs = step(engine, chunks.collect());
                tokens.extend(outputs.iter().map(|output| output.sampled[0].token));
            }
            tokens
        };
        let found = tokens(&mut parallel(folder, 4, DataType::F32, LIMITS));
        assert_eq!(found, tokens(&mut engine_of(folder, DataType::F32)), "{model}");
    }
}

/// Parts of sums are rounded to bf16, and blocks of quantized weights are others, so that errors are as large as on
/// one device, and not the same.
#[test]
fn other_types_are_as_near_as_on_one_device() {
    for data_type in [DataType::Bf16, DataType::Fp8, DataType::Int4] {
        let ratio = |model: &str| {
            let expected = &expected(model)[0];
            let error = |mut engine: Engine| {
                let (_, scored) = generate(&mut engine, &expected.prompt, 64, 1);
                difference(&scored, &expected.of_prompt)
            };
            let alone = error(engine(model, data_type));
            let found = error(parallel(&folder(model), 2, data_type, LIMITS));
            assert!(
                found < 1.5 * alone,
                "{model}, {data_type:?}: a mean difference of {found}, on one device {alone}"
            );
            found / alone
        };
        // Of the few tokens of one model, each of the two is off by a quarter of it.
        let mean = MODELS.into_iter().map(ratio).sum::<f32>() / MODELS.len() as f32;
        assert!(mean < 1.25, "{data_type:?}: differences are {mean} of those on one device");
    }
}

#[test]
fn drafts_change_no_token() {
    let expected = &expected("qwen3_5")[0];
    let mut engine = parallel(&folder("qwen3_5"), 2, DataType::F32, Limits { drafts: 2, ..LIMITS });
    let prompt = expected.prompt.clone();
    let first = Chunk { sampling: Some(greedy()), ..chunk(0, 0, Tokens::Known(prompt.clone())) };
    let mut tokens: Vec<u32> = step(&mut engine, vec![first])[0].sampled.iter().map(|s| s.token).collect();
    while tokens.len() < DECODED {
        // The right token, and a wrong one.
        engine.propose(Slot(0), &[expected.tokens[tokens.len()], 3]).expect("proposed");
        let position = (prompt.len() + tokens.len() - 1) as u32;
        let last = Tokens::Known(vec![tokens[tokens.len() - 1]]);
        let next = Chunk { sampling: Some(greedy()), draft: 2, ..chunk(0, position, last) };
        let sampled = &step(&mut engine, vec![next])[0].sampled;
        assert!(sampled.len() > 1, "the right draft is accepted");
        tokens.extend(sampled.iter().map(|sampled| sampled.token));
    }
    assert_eq!(tokens[..DECODED], expected.tokens[..DECODED]);
}

/// Launches that overlap the one before them touch what it uses only after they have waited.
#[test]
fn a_step_checks_clean() {
    let h200 = Arch::named("h200").expect("a known GPU");
    for data_type in [DataType::F32, DataType::Bf16] {
        let devices = Device::emulated_peers(h200, Schedule::Random(3), 2).expect("emulators");
        let devices: Vec<_> = devices.into_iter().map(|device| device.checked().expect("emulated")).collect();
        let checkpoint = random(&folder("qwen3_5"));
        let mut engine = Engine::load_parallel(&checkpoint, &devices, data_type, LIMITS).expect("a model");
        let (sampled, _) = generate(&mut engine, &expected("qwen3_5")[1].prompt, 64, 3);
        assert_eq!(sampled.len(), 3);
    }
}

#[test]
fn what_cannot_be_divided_is_refused() {
    let devices = Device::peers("emu:h200", 4).expect("emulators");
    let refused = |model: &str, devices: &[Device]| {
        let loaded = Engine::load_parallel(&random(&folder(model)), devices, DataType::F32, LIMITS);
        loaded.err().expect("a refusal").to_string()
    };
    assert_eq!(
        refused("llama", &devices),
        "the model's configuration: 6 heads cannot be divided among 4 ranks"
    );
    let message = "the model's configuration: 2 key heads of the delta rule cannot be divided among 4 ranks";
    assert_eq!(refused("qwen3_5", &devices), message);
    let strangers =
        [Device::named("emu:h200").expect("it starts"), Device::named("emu:h200").expect("it starts")];
    let message = refused("llama", &strangers);
    assert!(message.contains("cannot access each other's memory"), "{message}");
}

#[test]
fn a_refused_step_is_refused_once_and_leaves_the_engine_usable() {
    let mut engine = parallel(&folder("llama"), 2, DataType::F32, LIMITS);
    let wrong = Chunk { slot: Slot(9), ..chunk(0, 0, Tokens::Known(vec![1])) };
    let refused = engine.submit(Step { copies: vec![], chunks: vec![wrong] }).expect_err("no such slot");
    assert_eq!(refused.to_string(), "the step: slot 9 of 5 does not exist");
    assert!(engine.wait().is_err(), "no step was submitted");
    let expected = &expected("llama")[1];
    let (sampled, _) = generate(&mut engine, &expected.prompt, 64, 2);
    assert_eq!([sampled[0].0, sampled[1].0], expected.tokens[..2]);
}
