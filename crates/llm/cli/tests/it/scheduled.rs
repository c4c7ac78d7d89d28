//! The scheduler over models on the emulator: prefixes, pre-emption, chunks and drafts change no
//! token.

use std::collections::HashMap;
use std::path::PathBuf;

use serde::Deserialize;
use warpwright::runtime::Device;
use warpwright_llm_engine::weights::Checkpoint;
use warpwright_llm_engine::{DataType, Engine, Limits};
use warpwright_llm_serving::scheduler::{Counts, Draw, Options, Request, Scheduler, SequenceId};
use warpwright_llm_step::{Capacity, Executor, Token};

const LIMITS: Limits =
    Limits { page_tokens: 16, pages: 32, slots: 8, sequences: 4, tokens: 128, context: 256, drafts: 0 };
/// The seed of the oracle's weights.
const SEED: u64 = 1;

/// What transformers computes.
#[derive(Deserialize)]
struct Expected {
    prompt: Vec<Token>,
    tokens: Vec<Token>,
}

fn folder(model: &str) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../engine/tests/fixtures").join(model)
}

fn engine(model: &str, drafts: u32, devices: u32) -> Engine {
    let checkpoint = Checkpoint::random(folder(model), SEED).unwrap();
    let devices = Device::peers("emu:h200", devices).unwrap();
    Engine::load_parallel(&checkpoint, &devices, DataType::F32, Limits { drafts, ..LIMITS }).unwrap()
}

/// A prompt, how its answer is drawn, and its length.
#[derive(Clone)]
struct Case {
    prompt: Vec<Token>,
    draw: Draw,
    max_tokens: u32,
}

impl Case {
    fn request(&self) -> Request {
        Request {
            prompt: self.prompt.clone(),
            max_tokens: self.max_tokens,
            min_tokens: 0,
            stop_tokens: vec![],
            draw: self.draw.clone(),
            log_probabilities: None,
            prompt_log_probabilities: None,
            guide: None,
        }
    }
}

/// Runs cases together, each new one a few steps after the last, and cancels some further ones.
fn run(
    engine: &mut Engine,
    capacity: Capacity,
    options: Options,
    cases: &[Case],
) -> (Vec<Vec<Token>>, Counts) {
    let mut scheduler = Scheduler::new(capacity, options);
    let mut answers: HashMap<SequenceId, Vec<Token>> = HashMap::new();
    let mut ids = vec![];
    let mut cancelled = vec![];
    for turn in 0.. {
        assert!(turn < 10_000, "no end: {:?}", scheduler.usage());
        if turn % 3 == 0
            && let Some(case) = cases.get(ids.len())
        {
            ids.push(scheduler.add(case.request()).unwrap());
            if cases.len() > 1 && turn % 6 == 0 {
                cancelled.push((turn + 4, scheduler.add(case.request()).unwrap()));
            }
        }
        cancelled.iter().filter(|(at, _)| *at == turn).for_each(|(_, id)| scheduler.cancel(*id));
        let step = scheduler.next_step();
        assert!(scheduler.is_consistent(), "a page or a slot is lost");
        let keep = usize::from(step.is_some());
        if let Some(step) = step {
            engine.submit(step).unwrap();
        } else if scheduler.is_idle() && ids.len() == cases.len() {
            break;
        }
        if scheduler.steps_in_flight() > keep {
            for update in scheduler.finish_step(engine.wait().unwrap()) {
                let tokens = update.tokens.iter().map(|sampled| sampled.token);
                answers.entry(update.sequence).or_default().extend(tokens);
            }
        }
    }
    let answers = ids.iter().map(|id| answers.remove(id).unwrap_or_default()).collect();
    (answers, scheduler.counts())
}

/// Prompts of transformers' oracle, those that begin like one of them, and draws of all kinds.
fn cases(model: &str) -> (Vec<Case>, Vec<Expected>) {
    let text = std::fs::read(folder(model).join("expected.json")).unwrap();
    let oracle: Vec<Expected> = serde_json::from_slice(&text).unwrap();
    let long = &oracle[0].prompt;
    let greedy = |expected: &Expected| Case {
        prompt: expected.prompt.clone(),
        draw: Draw::greedy(),
        max_tokens: expected.tokens.len().min(24) as u32,
    };
    let mut cases: Vec<Case> = oracle.iter().map(greedy).collect();
    let drawn = Draw { temperature: 1.0, seed: 5, ..Draw::greedy() };
    let penalized = Draw { frequency_penalty: 1.0, ..drawn.clone() };
    let biased = Draw { logit_bias: vec![(7, 3.0)], top_k: 9, ..drawn.clone() };
    // The whole long prompt and more, its first two pages and another end, and the same again.
    let ends: [(usize, &[Token], Draw, u32); 4] = [
        (long.len(), &[3, 1, 4, 1, 5, 9, 2, 6, 5, 3, 5, 8, 9, 7, 9, 3, 2, 3, 8, 4], drawn, 10),
        (32, &[2, 7, 1, 8, 2, 8], penalized, 30),
        (32, &[2, 7, 1, 8, 2, 8, 1, 8], biased, 30),
        (long.len(), &[], Draw::greedy(), 8),
    ];
    cases.extend(ends.map(|(length, end, draw, max_tokens)| Case {
        prompt: [&long[..length.min(long.len())], end].concat(),
        draw,
        max_tokens,
    }));
    (cases, oracle)
}

/// `settings` are pages, tokens of a step, and whether prefixes are kept.
fn check(model: &str, drafts: u32, devices: u32, settings: &[(u32, u32, bool)]) {
    let mut engine = engine(model, drafts, devices);
    let capacity = engine.capacity();
    let (cases, oracle) = cases(model);
    let plain = Options { prompt_tokens: 128, prefix_caching: false, ..Options::default() };
    let alone: Vec<Vec<Token>> = cases
        .iter()
        .map(|case| run(&mut engine, capacity, plain, std::slice::from_ref(case)).0.remove(0))
        .collect();
    for (answer, expected) in alone.iter().zip(&oracle) {
        assert_eq!(*answer, expected.tokens[..answer.len()], "{model}: transformers' tokens");
    }
    let (mut preemptions, mut hits) = (0, 0);
    for &(pages, prompt_tokens, prefix_caching) in settings {
        let capacity = Capacity { pages, ..capacity };
        let options = Options { prompt_tokens, prefix_caching, drafts, ..Options::default() };
        let (answers, counts) = run(&mut engine, capacity, options, &cases);
        for (number, (answer, alone)) in answers.iter().zip(&alone).enumerate() {
            assert_eq!(
                answer, alone,
                "{model}, case {number}: {pages} pages, {prompt_tokens} prompt tokens, {drafts} drafts"
            );
        }
        assert!(prefix_caching || counts.prefix_hits == 0);
        preemptions += counts.preemptions;
        hits += counts.prefix_hits;
    }
    assert!(preemptions > 0 && hits > 0, "{model}: {preemptions} pre-emptions, {hits} tokens from prefixes");
}

/// Chunks, prefixes and little memory at once.
const ALL: [(u32, u32, bool); 1] = [(6, 13, true)];
/// Chunks and prefixes with enough memory, and little memory without either.
const EACH: [(u32, u32, bool); 2] = [(32, 9, true), (8, 64, false)];

#[test]
fn qwen_3_5_answers_as_alone() {
    check("qwen3_5", 0, 1, &ALL);
}

#[test]
fn qwen_3_5_with_drafts_answers_as_alone() {
    check("qwen3_5", 2, 1, &ALL);
}

#[test]
fn qwen_3_5_on_two_devices_answers_as_alone() {
    check("qwen3_5", 0, 2, &ALL);
}

#[test]
fn llama_answers_as_alone() {
    check("llama", 0, 1, &ALL);
}

#[test]
#[ignore = "it takes a minute of CPU time"]
fn each_setting_and_model_answers_as_alone() {
    for (model, drafts) in [("qwen3_5", 0), ("qwen3_5", 2), ("qwen3_5_moe", 2), ("qwen3", 0), ("llama", 0)] {
        check(model, drafts, 1, &EACH);
        check(model, drafts, 2, &EACH);
    }
}
