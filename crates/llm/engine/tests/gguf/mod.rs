//! GGUF: models of every architecture, the numbers of every kind of block, and what is refused.

pub(crate) mod writer;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use safetensors::SafeTensors;
use serde_json::Value;
use warpwright::runtime::Device;
use warpwright_llm_engine::weights::Checkpoint;
use warpwright_llm_engine::{DataType, DecodePlan, Engine, EngineError, Limits};
use warpwright_llm_step::{Chunk, Slot, Tokens};

use crate::fixtures::{LIMITS, chunk, expected, folder, generate, greedy, random, step};
use writer::{Meta, Stored, convert, gguf, stored};

/// The fixtures that llama.cpp's converter converts to an architecture that the engine reads.
const MODELS: [&str; 7] = ["llama", "mistral", "qwen2", "qwen3", "qwen3_5", "qwen3_5_narrow", "qwen3_5_moe"];

/// The tensors of a fixture's model.
pub(crate) fn tensors(model: &str) -> BTreeMap<String, (Vec<usize>, Vec<f32>)> {
    let (random, saved) = (random(&folder(model)), tempfile::tempdir().expect("a folder"));
    random.save(saved.path()).expect("written");
    let bytes = std::fs::read(saved.path().join("model.safetensors")).expect("a file");
    let file = SafeTensors::deserialize(&bytes).expect("safetensors");
    let tensor = |name: &str| {
        let shape = file.tensor(name).expect("a tensor").shape().to_vec();
        (name.to_owned(), (shape.clone(), random.numbers(name, &shape).expect("any name has numbers")))
    };
    file.names().into_iter().map(tensor).collect()
}

pub(crate) fn config(model: &str) -> Value {
    let text = std::fs::read(folder(model).join("config.json")).expect("a fixture");
    let config: Value = serde_json::from_slice(&text).expect("JSON");
    config.get("text_config").cloned().unwrap_or(config)
}

fn write(folder: &Path, (metadata, tensors): &(Vec<(String, Meta)>, Vec<Stored>)) -> PathBuf {
    let path = folder.join("model.gguf");
    std::fs::write(&path, gguf(metadata, tensors)).expect("written");
    path
}

fn load(path: &Path) -> Result<Engine, EngineError> {
    let device = Device::named("emu:h200").expect("an emulator");
    Engine::load(&Checkpoint::open(path)?, &device, DataType::F32, LIMITS)
}

/// Every architecture has the tokens of transformers: Llama with the scaling of rotary frequencies, which is a
/// tensor, and Qwen 3.5 with its value heads in another order.
#[test]
fn converted_models_have_the_tokens_of_transformers() {
    let folder = tempfile::tempdir().expect("a folder");
    for model in MODELS {
        let path = write(folder.path(), &convert(&config(model), tensors(model)));
        let mut engine = load(&path).unwrap_or_else(|error| panic!("{model}: {error}"));
        for expected in &expected(model)[..2] {
            let (sampled, scored) = generate(&mut engine, &expected.prompt, 64, 4);
            let tokens: Vec<u32> = sampled.iter().map(|(token, _)| *token).collect();
            assert_eq!(tokens, expected.tokens[..4], "{model}");
            let close = scored.iter().zip(&expected.of_prompt).all(|(a, b)| (a - b).abs() < 3e-4);
            assert!(close, "{model}");
        }
    }
}

/// Drafts of the MTP layer that a file has behind the others, on one device and on two.
#[test]
fn converted_models_have_the_drafts_of_transformers() {
    let folder = tempfile::tempdir().expect("a folder");
    let checkpoint = write(folder.path(), &convert(&config("qwen3_5"), tensors("qwen3_5")));
    let checkpoint = Checkpoint::open(checkpoint).expect("a checkpoint");
    let expected = &expected("qwen3_5")[0];
    for ranks in [1, 2] {
        let devices = Device::peers("emu:h200", ranks).expect("emulators");
        let limits = Limits { drafts: 2, ..LIMITS };
        let mut engine =
            Engine::load_parallel(&checkpoint, &devices, DataType::F32, limits).expect("a model");
        let prompt = chunk(0, 0, Tokens::Known(expected.prompt.clone()));
        let outputs = step(&mut engine, vec![Chunk { sampling: Some(greedy()), ..prompt }]);
        assert_eq!(outputs[0].sampled[0].token, expected.tokens[0]);
        assert_eq!(engine.drafted(Slot(0)).expect("drafts"), expected.drafts[0]);
    }
}

/// A folder is its only file, also beside the configuration that repositories of such files have, for the weights and
/// for the shapes alone.
#[test]
fn the_only_file_of_a_folder_is_the_model() {
    let folder = tempfile::tempdir().expect("a folder");
    let of_folder = || [Checkpoint::open(folder.path()), Checkpoint::shapes(folder.path())];
    let shapes = |checkpoint: Checkpoint| {
        DecodePlan::of_rank(&checkpoint, DataType::F32, (1, 16), 1).expect("a plan").bytes()
    };
    let whole = shapes(random(&crate::fixtures::folder("llama")));
    let file = write(folder.path(), &convert(&config("llama"), tensors("llama")));
    for config in [None, Some(config("llama").to_string())] {
        config
            .iter()
            .for_each(|text| std::fs::write(folder.path().join("config.json"), text).expect("written"));
        for checkpoint in of_folder() {
            assert_eq!(shapes(checkpoint.expect("a checkpoint")), whole);
        }
    }
    std::fs::copy(&file, folder.path().join("second.gguf")).expect("written");
    for refused in of_folder() {
        let message = refused.expect_err("two files").to_string();
        assert!(message.contains("2 .gguf files"), "{message}");
    }
    std::fs::remove_file(folder.path().join("second.gguf")).expect("removed");
    std::fs::remove_file(file).expect("removed");
    let [weights, of_config] = of_folder();
    assert!(weights.expect_err("no weights").to_string().contains("model.safetensors"));
    assert_eq!(shapes(of_config.expect("shapes")), whole);
}

/// A file of llama with a change, and why it is refused.
fn refused(change: impl FnOnce(&mut Vec<(String, Meta)>, &mut Vec<Stored>)) -> String {
    let (mut metadata, mut all) = convert(&config("llama"), tensors("llama"));
    change(&mut metadata, &mut all);
    let folder = tempfile::tempdir().expect("a folder");
    let path = write(folder.path(), &(metadata, all));
    let message = load(&path).err().expect("a refusal").to_string();
    message.trim_start_matches(&format!("{}: ", path.display())).to_owned()
}

/// No tensor and no key is left out in silence.
#[test]
fn tensors_and_keys_that_are_not_used_are_refused() {
    let with_tensor = |name: &'static str| refused(|_, tensors| tensors.push(stored(name, &[4], &[1.0; 4])));
    for name in [
        "blk.0.attn_qkv.weight",
        "rope_factors_long.weight",
        "blk.0.attn_q.scale",
        "blk.0.attn_rot_embd.weight",
    ] {
        let message = with_tensor(name);
        assert!(message.ends_with("is not used"), "{message}");
    }
    let with_key = |key: &str, value| refused(|metadata, _| metadata.push((format!("llama.{key}"), value)));
    let cases = [
        (
            "attention.scale",
            Meta::Float(0.5),
            "it has the key llama.attention.scale, which the engine does not know; use its safetensors",
        ),
        (
            "expert_count",
            Meta::Number(8),
            "llama.expert_count is 8; the engine computes models where it is 0",
        ),
        (
            "rope.scaling.type",
            Meta::Text("longrope"),
            "the model's configuration: rope_type is \"longrope\"; the engine computes default, linear, dynamic, llama3 and yarn",
        ),
    ];
    for (key, value, message) in cases {
        assert_eq!(with_key(key, value), message);
    }
    for number in [f32::NAN, f32::NEG_INFINITY] {
        let message = with_key("rope.freq_base_swa", Meta::Float(number));
        assert_eq!(message, "its metadata has a number that is NaN or infinite");
    }
    let message = refused(|_, tensors| {
        let rope = tensors.iter_mut().find(|tensor| tensor.0 == "rope_freqs.weight").expect("the factors");
        *rope = stored("rope_freqs.weight", &[7], &[1.0; 7]);
    });
    assert!(
        message.ends_with(
            "rope_freqs.weight has other than 8 numbers above 0, one for each pair of rotated columns"
        ),
        "{message}"
    );
}

/// Every kind of block has the numbers of GGML's own converter for Python, which wrote them beside the blocks.
#[test]
fn blocks_of_every_kind_are_dequantized_exactly() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/kinds.gguf");
    let checkpoint = Checkpoint::open(path).expect("a GGUF file");
    const KINDS: [&str; 16] = [
        "f32", "f16", "bf16", "q4_0", "q4_1", "q5_0", "q5_1", "q8_0", "q2_k", "q3_k", "q4_k", "q5_k", "q6_k",
        "iq4_nl", "iq4_xs", "mxfp4",
    ];
    for kind in KINDS {
        let numbers = |name: String| checkpoint.numbers(&name, &[]).expect("a tensor of the file");
        let bits = |numbers: Vec<f32>| numbers.into_iter().map(f32::to_bits).collect::<Vec<_>>();
        let (found, wanted) = (bits(numbers(kind.to_owned())), bits(numbers(format!("{kind}.numbers"))));
        assert_eq!(found.len(), 512, "{kind}");
        assert_eq!(found, wanted, "{kind}");
    }
}
