//! Logits that are not finite: the chunk has an error that names the layer, and the others their tokens.

use warpwright::runtime::Device;
use warpwright_llm_engine::weights::Checkpoint;
use warpwright_llm_engine::{DataType, Engine, Limits};
use warpwright_llm_step::{Chunk, Executor, Sampling, Score, Tokens};

use crate::fixtures::{LIMITS, chunk, expected, greedy, step};
use crate::gguf::writer::{convert, gguf};
use crate::gguf::{config, tensors};

/// A model with one number of a tensor replaced, on some devices.
fn engine(
    (model, data_type): (&str, DataType),
    (name, at, number): (&str, usize, f32),
    ranks: u32,
    drafts: u32,
) -> Engine {
    let mut tensors = tensors(model);
    tensors.get_mut(name).expect("a tensor").1[at] = number;
    let (metadata, tensors) = convert(&config(model), tensors);
    let file = tempfile::NamedTempFile::new().expect("a file");
    std::fs::write(file.path(), gguf(&metadata, &tensors)).expect("written");
    let checkpoint = Checkpoint::open(file.path()).expect("a checkpoint");
    let devices = Device::peers("emu:h200", ranks).expect("emulators");
    Engine::load_parallel(&checkpoint, &devices, data_type, Limits { drafts, ..LIMITS }).expect("a model")
}

fn prompt(sequence: u32, tokens: &[u32], sampling: Sampling) -> Chunk {
    Chunk { sampling: Some(sampling), ..chunk(sequence, 0, Tokens::Known(tokens.to_vec())) }
}

/// The layer is named wherever the number is, by every way that tokens are drawn.
#[test]
fn logits_that_are_not_finite_name_their_layer() {
    const OF_TOKENS: &str = "the logits of a token are NaN or infinite: ";
    let cases = [
        ("layers.1.mlp.up_proj.weight", 5, f32::NAN, "layer 1 is the first that computes such numbers"),
        (
            "layers.0.self_attn.v_proj.weight",
            7,
            f32::INFINITY,
            "layer 0 is the first that computes such numbers",
        ),
        ("norm.weight", 3, f32::NAN, "the last norm or the head computes them, no layer before"),
        ("embed_tokens.weight", 300, f32::NAN, "the embedding has such numbers"),
    ];
    let with_list = Sampling { log_probabilities: Some(3), ..Sampling::greedy() };
    let of_experts = [
        (
            "layers.0.mlp.shared_expert.up_proj.weight",
            0,
            f32::NAN,
            "layer 0 is the first that computes such numbers",
        ),
        ("layers.2.linear_attn.dt_bias", 1, f32::NAN, "layer 2 is the first that computes such numbers"),
    ];
    let cases = cases.map(|case| ("qwen3", case)).into_iter();
    for (model, (name, at, number, reason)) in cases.chain(of_experts.map(|case| ("qwen3_5_moe", case))) {
        for data_type in [DataType::F32, DataType::Bf16] {
            let mut engine = engine((model, data_type), (name, at, number), 1, 0);
            // 300 is in the row of token 2.
            let chunks = [greedy(), with_list.clone()].map(|sampling| prompt(0, &[3, 2, 1], sampling));
            let score = Some(Score { targets: vec![2, 1], top: 0 });
            let scored = Chunk { sampling: None, score, ..chunks[0].clone() };
            for chunk in chunks.into_iter().chain([scored]) {
                let output = step(&mut engine, vec![chunk]).remove(0);
                assert_eq!(output.failed, Some(format!("{OF_TOKENS}{reason}")), "{name}");
                assert!(output.sampled.is_empty() && output.scored.is_empty());
            }
        }
    }
}

/// One sequence has a token whose embedding is no number: the others of its steps go on as without it.
#[test]
fn a_sequence_that_fails_leaves_the_others_alone() {
    let expected = &expected("qwen3_5")[0];
    let token = (0..512).find(|token| !expected.prompt.contains(token) && !expected.tokens.contains(token));
    let token = token.expect("a token that the expected text does not have");
    let number = ("embed_tokens.weight", token as usize * 128 + 9, f32::NAN);
    for (ranks, drafts) in [(1, 0), (1, 2), (2, 0)] {
        let mut engine = engine(("qwen3_5", DataType::F32), number, ranks, drafts);
        let first = vec![prompt(0, &expected.prompt, greedy()), prompt(1, &[1, token, 2], greedy())];
        let outputs = step(&mut engine, first);
        assert_eq!(outputs[0].sampled[0].token, expected.tokens[0]);
        let reason = "the logits of a token are NaN or infinite: the embedding has such numbers";
        assert_eq!(outputs[1].failed.as_deref(), Some(reason));
        // The step in flight has the sequence still.
        let next = |sequence, position| Chunk {
            sampling: Some(greedy()),
            ..chunk(sequence, position, Tokens::Last)
        };
        let outputs = step(&mut engine, vec![next(0, expected.prompt.len() as u32), next(1, 3)]);
        assert_eq!(outputs[0].sampled[0].token, expected.tokens[1]);
        let outputs = step(&mut engine, vec![next(0, expected.prompt.len() as u32 + 1)]);
        assert_eq!(outputs[0].sampled[0].token, expected.tokens[2]);
        assert!(engine.capacity().sequences > 0);
    }
}
