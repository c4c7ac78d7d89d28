//! Speculative decoding: drafts are those of the MTP layer, and change no token.

use warpwright_llm_engine::{DataType, Engine, Limits};
use warpwright_llm_step::{Chunk, CopyState, Executor, Output, Sampling, Slot, Step, Token, Tokens};

use crate::fixtures::{
    Expected, LIMITS, chunk, engine, engine_with, expected, folder, generate, greedy, step,
};

/// The models that have the layer.
const MODELS: [&str; 2] = ["qwen3_5", "qwen3_5_moe"];
const DRAFTS: u32 = 2;

fn drafting(model: &str, data_type: DataType) -> Engine {
    engine_with(&folder(model), data_type, Limits { drafts: DRAFTS, ..LIMITS })
}

fn prompt(sequence: u32, tokens: &[Token], sampling: &Sampling) -> Chunk {
    Chunk { sampling: Some(sampling.clone()), ..chunk(sequence, 0, Tokens::Known(tokens.to_vec())) }
}

/// The chunk after the last of `tokens`, prompt and answer, with drafts.
fn decode(sequence: u32, tokens: &[Token], sampling: Sampling) -> Chunk {
    let (position, last) = (tokens.len() as u32 - 1, tokens[tokens.len() - 1]);
    let chunk = chunk(sequence, position, Tokens::Known(vec![last]));
    Chunk { sampling: Some(sampling), draft: DRAFTS, ..chunk }
}

fn tokens_of(output: &Output) -> Vec<Token> {
    output.sampled.iter().map(|sampled| sampled.token).collect()
}

/// Each prompt's tokens, and drafts after each token, are those of transformers' layers.
#[test]
fn drafts_are_those_of_the_mtp_layer() {
    for model in MODELS {
        let mut engine = drafting(model, DataType::F32);
        for Expected { prompt: of_prompt, tokens, drafts, .. } in expected(model) {
            let mut all = of_prompt.clone();
            let mut outputs = step(&mut engine, vec![prompt(0, &of_prompt, &greedy())]);
            for wanted in &drafts {
                all.extend(tokens_of(&outputs[0]));
                let at = all.len() - of_prompt.len();
                assert_eq!(all[of_prompt.len()..], tokens[..at], "{model}");
                if at > drafts.len() {
                    break;
                }
                let found = engine.drafted(Slot(0)).expect("drafts");
                assert_eq!(
                    found,
                    drafts[at - 1],
                    "{model}, after token {at} of a prompt of {}",
                    of_prompt.len()
                );
                assert_eq!(wanted.len(), DRAFTS as usize);
                outputs = step(&mut engine, vec![decode(0, &all, greedy())]);
            }
        }
    }
}

/// Sequences whose drafts are all right, right at first, and wrong, beside a prompt. Each has the tokens that it has
/// alone: the state is that after the accepted ones.
#[test]
fn accepted_and_rejected_drafts_give_the_tokens_of_single_steps() {
    for model in MODELS {
        let mut engine = drafting(model, DataType::F32);
        let all = expected(model);
        let mut sequences: Vec<Vec<Token>> = all.iter().map(|expected| expected.prompt.clone()).collect();
        let prompts = sequences.iter().enumerate().map(|(at, tokens)| prompt(at as u32, tokens, &greedy()));
        let outputs = step(&mut engine, prompts.collect());
        sequences.iter_mut().zip(&outputs).for_each(|(tokens, output)| tokens.extend(tokens_of(output)));
        for round in 0..4 {
            let mut chunks = vec![];
            for (at, (tokens, expected)) in sequences.iter().zip(&all).enumerate() {
                let next = &expected.tokens[tokens.len() - expected.prompt.len()..];
                let drafts = match (at + round) % 3 {
                    0 => vec![next[0], next[1]],
                    1 => vec![next[0], (next[1] + 1) % 512],
                    _ => vec![(next[0] + 1) % 512, next[1]],
                };
                engine.propose(Slot(at as u32), &drafts).expect("proposed");
                chunks.push(decode(at as u32, tokens, greedy()));
            }
            chunks.push(Chunk { sampling: None, ..prompt(3, &all[0].prompt[..20], &greedy()) });
            let outputs = step(&mut engine, chunks);
            for (at, (tokens, output)) in sequences.iter_mut().zip(&outputs).enumerate() {
                assert_eq!(output.sampled.len(), 3 - (at + round) % 3, "{model}, sequence {at}");
                tokens.extend(tokens_of(output));
                let answer = &tokens[all[at].prompt.len()..];
                assert_eq!(answer, &all[at].tokens[..answer.len()], "{model}, sequence {at}, round {round}");
            }
        }
        // A snapshot after drafts, and a decode of one token without any.
        let copies = vec![CopyState { from: Slot(0), to: Slot(4) }];
        let single = Chunk { slot: Slot(4), draft: 0, ..decode(0, &sequences[0], greedy()) };
        engine.submit(Step { copies, chunks: vec![single] }).expect("a step");
        let output = engine.wait().expect("outputs").remove(0);
        assert_eq!(tokens_of(&output), [all[0].tokens[sequences[0].len() - all[0].prompt.len()]], "{model}");
    }
}

/// A seed draws the same tokens with drafts as without, also where the drafts are what is drawn.
#[test]
fn drafts_do_not_change_what_a_seed_draws() {
    let prompt_of = expected("qwen3_5").remove(1).prompt;
    let sampling =
        |offset: u64| Sampling { temperature: 0.9, top_k: 40, seed: 7, offset, ..Sampling::greedy() };
    let mut plain = engine("qwen3_5", DataType::F32);
    let mut wanted = tokens_of(&step(&mut plain, vec![prompt(0, &prompt_of, &sampling(0))])[0]);
    for at in 0..9 {
        let tokens = [&prompt_of[..], &wanted].concat();
        let chunk = Chunk { draft: 0, ..decode(0, &tokens, sampling(at + 1)) };
        wanted.extend(tokens_of(&step(&mut plain, vec![chunk])[0]));
    }
    let mut engine = drafting("qwen3_5", DataType::F32);
    let mut drawn = tokens_of(&step(&mut engine, vec![prompt(0, &prompt_of, &sampling(0))])[0]);
    let mut rounds = 0;
    while drawn.len() + 3 <= wanted.len() {
        if rounds % 2 == 1 {
            engine.propose(Slot(0), &wanted[drawn.len()..drawn.len() + 2]).expect("proposed");
        }
        let tokens = [&prompt_of[..], &drawn].concat();
        let of_step =
            tokens_of(&step(&mut engine, vec![decode(0, &tokens, sampling(drawn.len() as u64))])[0]);
        assert_eq!(of_step.len() == 3, rounds % 2 == 1, "drafts that are drawn are accepted");
        drawn.extend(of_step);
        rounds += 1;
    }
    assert_eq!(drawn, wanted[..drawn.len()]);
}

/// In bf16, where other kernels verify: the tokens of a sequence without drafts, as long as they are not close.
#[test]
fn bf16_accepts_what_it_would_have_sampled() {
    let of_prompt = expected("qwen3_5").remove(0).prompt;
    let (sampled, _) = generate(&mut engine("qwen3_5", DataType::Bf16), &of_prompt, 64, 4);
    let wanted: Vec<Token> = sampled.iter().map(|(token, _)| *token).collect();
    let mut engine = drafting("qwen3_5", DataType::Bf16);
    let first = tokens_of(&step(&mut engine, vec![prompt(0, &of_prompt, &greedy())])[0]);
    engine.propose(Slot(0), &wanted[1..3]).expect("proposed");
    let outputs = step(&mut engine, vec![decode(0, &[&of_prompt[..], &first].concat(), greedy())]);
    assert_eq!([first, tokens_of(&outputs[0])].concat(), wanted);
}
