//! Greedy tokens and log-probabilities equal transformers' in f32.

use std::path::Path;

use warpwright::runtime::Device;
use warpwright_llm_engine::{DataType, Engine, Limits, StateType};
use warpwright_llm_step::{Chunk, CopyState, Executor, Output, Page, Score, Slot, Step, Tokens};

use crate::fixtures::{
    Expected, LIMITS, MODELS, changed, chunk, difference, engine, engine_of, engine_with, expected, folder,
    generate, greedy, random, step,
};

/// Log-probabilities of both sides are sums in other orders; the delta rule of transformers is chunked,
/// and moves them by up to 9e-5.
const TOLERANCE: f32 = 3e-4;

fn assert_close(found: &[f32], expected: &[f32], what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (at, (found, expected)) in found.iter().zip(expected).enumerate() {
        assert!((found - expected).abs() < TOLERANCE, "{what}, {at}: {found}, expected {expected}");
    }
}

#[test]
fn tokens_are_those_of_transformers_however_the_prompt_is_chunked() {
    for model in MODELS {
        let mut engine = engine(model, DataType::F32);
        for expected in expected(model) {
            for part in [1, 3, 16, 64] {
                // Short prompts have few boundaries.
                if part > 1 && part >= 2 * expected.prompt.len() {
                    continue;
                }
                let what = format!("{model}, a prompt of {} in parts of {part}", expected.prompt.len());
                // The boundaries differ before the first token only.
                let count = if part == 16 { expected.tokens.len() } else { 4.min(expected.tokens.len()) };
                let (sampled, scored) = generate(&mut engine, &expected.prompt, part, count);
                let tokens: Vec<u32> = sampled.iter().map(|(token, _)| *token).collect();
                assert_eq!(tokens, expected.tokens[..count], "{what}");
                let log_probabilities: Vec<f32> = sampled.iter().map(|(_, value)| *value).collect();
                assert_close(&log_probabilities, &expected.logprobs[..count], &what);
                assert_close(&scored, &expected.of_prompt, &what);
            }
        }
    }
}

/// Prompts and decodes of other sequences in the same steps change nothing, nor do copies of state.
#[test]
fn a_sequence_does_not_depend_on_the_others_of_a_step() {
    for model in MODELS {
        let mut engine = engine(model, DataType::F32);
        let expected = expected(model);
        let (long, short) = (&expected[0], &expected[1]);
        let sampling = Some(greedy());
        let prompt = |sequence, expected: &[u32]| chunk(sequence, 0, Tokens::Known(expected.to_vec()));
        let first = Chunk { sampling: sampling.clone(), ..prompt(1, &short.prompt) };
        let outputs = step(&mut engine, vec![prompt(0, &long.prompt[..20]), first]);
        assert_eq!(outputs[1].sampled[0].token, short.tokens[0], "{model}");
        // The rest of the prompt beside a decode; then two decodes, one of them from a copied slot.
        let rest =
            Chunk { sampling: sampling.clone(), ..chunk(0, 20, Tokens::Known(long.prompt[20..].to_vec())) };
        let decode = Chunk { sampling: sampling.clone(), ..chunk(1, 5, Tokens::Last) };
        let outputs = step(&mut engine, vec![decode, rest]);
        let tokens: Vec<u32> = outputs.iter().map(|output| output.sampled[0].token).collect();
        assert_eq!(tokens, [short.tokens[1], long.tokens[0]], "{model}");
        let copies = vec![CopyState { from: Slot(1), to: Slot(4) }, CopyState { from: Slot(4), to: Slot(2) }];
        let of_copy = Chunk { slot: Slot(2), sampling: sampling.clone(), ..chunk(1, 6, Tokens::Last) };
        let other = Chunk { sampling, ..chunk(0, 37, Tokens::Last) };
        engine.submit(Step { copies, chunks: vec![other, of_copy] }).expect("a step");
        let outputs = engine.wait().expect("outputs");
        let tokens: Vec<u32> = outputs.iter().map(|output| output.sampled[0].token).collect();
        assert_eq!(tokens, [long.tokens[1], short.tokens[2]], "{model}");
    }
}

/// Tokens that tests of whole sequences decode.
const DECODED: usize = 6;

/// Prompts of three lengths in one step, as a left-padded batch of transformers, then decodes of all three: by
/// the graph of a decode, and by steps that score, which have none.
#[test]
fn a_batch_of_any_lengths_has_the_tokens_of_its_sequences() {
    for model in MODELS {
        let mut engine = engine(model, DataType::F32);
        let expected = expected(model);
        for has_graph in [true, false] {
            let next = |sequence: usize, position: usize, tokens| Chunk {
                sampling: Some(greedy()),
                score: (position > 0 && !has_graph).then_some(Score { targets: vec![], top: 0 }),
                ..chunk(sequence as u32, position as u32, tokens)
            };
            for at in 0..DECODED {
                let of_sequence = |(sequence, expected): (usize, &Expected)| match at {
                    0 => next(sequence, 0, Tokens::Known(expected.prompt.clone())),
                    _ => next(sequence, expected.prompt.len() + at - 1, Tokens::Last),
                };
                let outputs = step(&mut engine, expected.iter().enumerate().map(of_sequence).collect());
                let tokens: Vec<u32> = outputs.iter().map(|output| output.sampled[0].token).collect();
                let wanted: Vec<u32> = expected.iter().map(|expected| expected.tokens[at]).collect();
                assert_eq!(tokens, wanted, "{model}, token {at}, with a graph: {has_graph}");
            }
        }
    }
}

/// A prefix that another sequence continues from a snapshot, in the first page of the other; and a sequence
/// whose pages were lost, which is computed again with its answer as a part of the prompt.
#[test]
fn prefixes_and_recomputed_answers_continue_alike() {
    for model in MODELS {
        let mut engine = engine(model, DataType::F32);
        let Expected { prompt, tokens, .. } = &expected(model)[0];
        let page = LIMITS.page_tokens as usize;
        step(&mut engine, vec![chunk(0, 0, Tokens::Known(prompt[..page].to_vec()))]);
        // The snapshot is taken before the sequence goes on with other tokens.
        let copies = vec![CopyState { from: Slot(0), to: Slot(4) }];
        let chunks = vec![chunk(0, page as u32, Tokens::Known(vec![1, 2, 3]))];
        engine.submit(Step { copies, chunks }).expect("a step");
        engine.wait().expect("outputs");
        let first = chunk(0, 0, Tokens::Last).pages[0];
        let shared = |position: usize, tokens| {
            let mut chunk = chunk(1, position as u32, tokens);
            chunk.pages[0] = first;
            Chunk { sampling: Some(greedy()), ..chunk }
        };
        let copies = vec![CopyState { from: Slot(4), to: Slot(1) }];
        let chunks = vec![shared(page, Tokens::Known(prompt[page..].to_vec()))];
        engine.submit(Step { copies, chunks }).expect("a step");
        let mut outputs = engine.wait().expect("outputs");
        for (at, token) in tokens[..DECODED].iter().enumerate() {
            assert_eq!(outputs[0].sampled[0].token, *token, "{model}, token {at} after a snapshot");
            outputs = step(&mut engine, vec![shared(prompt.len() + at, Tokens::Last)]);
        }
        let whole = [&prompt[..], &tokens[..DECODED]].concat();
        let (sampled, _) = generate(&mut engine, &whole, 64, 3);
        let again: Vec<u32> = sampled.iter().map(|(token, _)| *token).collect();
        assert_eq!(again, tokens[DECODED..DECODED + 3], "{model}, computed again");
    }
}

/// bf16 computes nearly the same: by log-probabilities, because tokens of random models are close. Such models
/// amplify rounding more than trained ones: torch's own bf16 is off by 0.01 to 0.12.
#[test]
fn bf16_is_near() {
    for model in MODELS {
        let expected = &expected(model)[0];
        let (_, scored) = generate(&mut engine(model, DataType::Bf16), &expected.prompt, 64, 1);
        let mean = difference(&scored, &expected.of_prompt);
        let most = 1.5 * expected.bf16;
        assert!(mean < most, "{model}: a mean difference of {mean}, expected less than {most}");
    }
}

/// A mean difference of log-probabilities that rounding to bf16 may cause.
const BF16_TOLERANCE: f32 = 0.1;

/// The same by states in bf16 of a model in f32.
const BF16_STATE_TOLERANCE: f32 = 0.02;

/// Qwen 3.5 of two layers, whose heads of the delta rule are those of real models.
fn with_heads_of_128() -> tempfile::TempDir {
    changed("qwen3_5", |config| {
        let text = &mut config["text_config"];
        text["num_hidden_layers"] = 2.into();
        text["full_attention_interval"] = 2.into();
        text["linear_key_head_dim"] = 128.into();
        text["linear_value_head_dim"] = 128.into();
    })
}

/// Heads of 128 elements have kernels for chunks of tokens in bf16. Parts of 20 tokens use them, of 15 not.
#[test]
fn chunks_of_tokens_are_as_near_as_single_ones() {
    let folder = with_heads_of_128();
    let prompt = &expected("qwen3_5")[0].prompt;
    let (_, exact) = generate(&mut engine_of(folder.path(), DataType::F32), prompt, 64, 1);
    let mut engine = engine_of(folder.path(), DataType::Bf16);
    for part in [15, 20, 64] {
        let (sampled, scored) = generate(&mut engine, prompt, part, 4);
        let mean = difference(&scored, &exact);
        assert!(mean < BF16_TOLERANCE, "parts of {part}: a mean difference of {mean}");
        assert!(sampled.iter().all(|(_, value)| value.is_finite()), "parts of {part}");
    }
}

/// States in bf16, of a model that computes in f32: token after token, and of 128 elements in chunks.
#[test]
fn states_in_bf16_are_near() {
    let device = Device::named("emu:h200").expect("an emulator");
    let load = |folder: &Path, data_type, state| {
        Engine::load(&random(folder).with_states(state), &device, data_type, LIMITS).expect("a model")
    };
    let Expected { prompt, of_prompt, .. } = &expected("qwen3_5")[0];
    let mut engine = load(&folder("qwen3_5"), DataType::F32, StateType::Bf16);
    for part in [1, 3] {
        let (_, scored) = generate(&mut engine, prompt, part, 3);
        let mean = difference(&scored, of_prompt);
        assert!(mean > 1e-5 && mean < BF16_STATE_TOLERANCE, "parts of {part}: a mean difference of {mean}");
    }
    let folder = with_heads_of_128();
    let (_, exact) = generate(&mut load(folder.path(), DataType::Bf16, StateType::F32), prompt, 64, 1);
    let mut engine = load(folder.path(), DataType::Bf16, StateType::Bf16);
    for part in [1, 20] {
        let (_, scored) = generate(&mut engine, prompt, part, 3);
        let mean = difference(&scored, &exact);
        assert!(mean < BF16_TOLERANCE, "parts of {part}: a mean difference of {mean}");
    }
}

/// Many decodes beside a prompt run apart from it: all have the tokens that they have alone.
#[test]
fn many_decodes_beside_a_prompt_have_their_own_tokens() {
    const MANY: u32 = 33;
    let limits = Limits { pages: MANY + 1, slots: MANY + 1, sequences: MANY + 1, ..LIMITS };
    let mut engine = engine_with(&folder("qwen3_5"), DataType::F32, limits);
    let of = |sequence: u32, position, tokens| Chunk {
        pages: vec![Page(sequence)],
        sampling: Some(greedy()),
        ..chunk(sequence, position, tokens)
    };
    let prompts =
        || (0..MANY).map(|sequence| of(sequence, 0, Tokens::Known(vec![7 * sequence, 3, 1 + sequence])));
    let decodes = || (0..MANY).map(|sequence| of(sequence, 3, Tokens::Last));
    let token = |output: &Output| output.sampled[0].token;
    step(&mut engine, prompts().collect());
    let alone: Vec<u32> = step(&mut engine, decodes().collect()).iter().map(token).collect();
    let last = of(MANY, 0, Tokens::Known(vec![9, 8, 7]));
    let of_last = token(&step(&mut engine, vec![last.clone()])[0]);
    step(&mut engine, prompts().collect());
    let mut chunks: Vec<Chunk> = decodes().collect();
    chunks.insert(5, last);
    let mut beside: Vec<u32> = step(&mut engine, chunks).iter().map(token).collect();
    assert_eq!(beside.remove(5), of_last);
    assert_eq!(beside, alone);
}
