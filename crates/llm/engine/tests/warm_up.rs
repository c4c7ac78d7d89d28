//! An engine that is warm computes what a cold one computes, and compiles nothing in its steps.

use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use warpwright::runtime::{Assemblers, Device};
use warpwright_llm_engine::{DataType, Engine, Limits, WarmUp};
use warpwright_llm_step::{Chunk, Tokens};

use crate::fixtures::{LIMITS, chunk, engine_with, expected, folder, generate, greedy, random, step};

/// Little to rehearse.
const FEW: Limits = Limits { tokens: 24, sequences: 2, ..LIMITS };

fn warm(model: &str, ranks: u32, limits: Limits) -> Engine {
    warm_within(model, ranks, limits, Duration::from_secs(600))
}

fn warm_within(model: &str, ranks: u32, limits: Limits, time: Duration) -> Engine {
    let devices = Device::peers("emu:h200", ranks).expect("emulators");
    let assemblers = Assemblers::new(|| Command::new("false")).after_loads_of(Duration::from_millis(1));
    let warm_up = WarmUp { time, assemblers: Some(Arc::new(assemblers)) };
    Engine::load_warm(&random(&folder(model)), &devices, DataType::F32, limits, &warm_up).expect("a model")
}

#[test]
fn a_warm_engine_has_the_tokens_of_transformers() {
    for (model, ranks, drafts) in [("qwen3", 1, 0), ("qwen3_5", 1, 0), ("qwen3_5", 1, 2), ("qwen3_5", 2, 0)] {
        let mut engine = warm(model, ranks, Limits { drafts, ..FEW });
        let expected = &expected(model)[0];
        let (sampled, _) = generate(&mut engine, &expected.prompt, 16, 6);
        let tokens: Vec<u32> = sampled.iter().map(|(token, _)| *token).collect();
        assert_eq!(tokens, expected.tokens[..6], "{model} on {ranks} devices with {drafts} drafts");
    }
}

/// Steps run beside the thread that goes on, and after its end.
#[test]
fn an_engine_that_had_no_time_to_be_warm_has_them_too() {
    for time in [Duration::ZERO, Duration::from_millis(20)] {
        let mut engine = warm_within("qwen3_5", 1, LIMITS, time);
        let expected = &expected("qwen3_5")[0];
        let (sampled, _) = generate(&mut engine, &expected.prompt, 16, 6);
        let tokens: Vec<u32> = sampled.iter().map(|(token, _)| *token).collect();
        assert_eq!(tokens, expected.tokens[..6], "{time:?}");
    }
}

/// Logits of all numbers of sequences are in one memory: a decode reads its own.
#[test]
fn a_warm_engine_lists_the_alternatives_of_a_cold_one() {
    let alternatives = |engine: &mut Engine| {
        let top = |chunk: Chunk| {
            let sampling = warpwright_llm_step::Sampling { log_probabilities: Some(3), ..greedy() };
            Chunk { sampling: Some(sampling), ..chunk }
        };
        let prompt = |sequence| top(chunk(sequence, 0, Tokens::Known(vec![5 + sequence, 9])));
        let mut outputs = step(engine, vec![prompt(0), prompt(1)]);
        outputs.extend(step(engine, (0..2).map(|sequence| top(chunk(sequence, 2, Tokens::Last))).collect()));
        outputs.extend(step(engine, vec![top(chunk(1, 3, Tokens::Last))]));
        let of_output = |output: warpwright_llm_step::Output| output.sampled[0].top.clone();
        outputs.into_iter().map(of_output).collect::<Vec<_>>()
    };
    let cold = alternatives(&mut engine_with(&folder("qwen3"), DataType::F32, FEW));
    assert_eq!(alternatives(&mut warm("qwen3", 1, FEW)), cold);
}
