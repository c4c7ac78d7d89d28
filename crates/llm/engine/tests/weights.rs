//! Checkpoints: shards, prefixes, GGUF, and tensors that do not fit.

use std::collections::BTreeMap;
use std::path::Path;

use safetensors::tensor::{Dtype, TensorView};
use warpwright::runtime::Device;
use warpwright_llm_engine::weights::Checkpoint;
use warpwright_llm_engine::{DataType, Engine, EngineError};

use crate::fixtures::{LIMITS, expected, folder, generate};

/// The tensors of the llama fixture with numbers that only this test has.
fn tensors() -> BTreeMap<String, (Vec<usize>, Vec<f32>)> {
    let mut shapes: Vec<(String, Vec<usize>)> =
        vec![("embed_tokens.weight".into(), vec![512, 96]), ("norm.weight".into(), vec![96])];
    for layer in 0..3 {
        let parts: [(&str, Vec<usize>); 9] = [
            ("input_layernorm", vec![96]),
            ("post_attention_layernorm", vec![96]),
            ("self_attn.q_proj", vec![96, 96]),
            ("self_attn.k_proj", vec![32, 96]),
            ("self_attn.v_proj", vec![32, 96]),
            ("self_attn.o_proj", vec![96, 96]),
            ("mlp.gate_proj", vec![160, 96]),
            ("mlp.up_proj", vec![160, 96]),
            ("mlp.down_proj", vec![96, 160]),
        ];
        shapes.extend(parts.map(|(part, shape)| (format!("layers.{layer}.{part}.weight"), shape)));
    }
    let numbers = |shape: &[usize]| {
        (0..shape.iter().product::<usize>()).map(|i| (i % 17) as f32 / 16.0 - 0.5).collect()
    };
    shapes.into_iter().map(|(name, shape)| (name, (shape.clone(), numbers(&shape)))).collect()
}

/// Writes shards with an index; `prefix` precedes each name.
fn write(folder_of: &Path, prefix: &str, tensors: &BTreeMap<String, (Vec<usize>, Vec<f32>)>) {
    std::fs::copy(folder("llama").join("config.json"), folder_of.join("config.json")).expect("copied");
    let mut map = BTreeMap::new();
    for (shard, part) in ["a.safetensors", "b.safetensors"].into_iter().enumerate() {
        let of_shard = tensors.iter().enumerate().filter(|(at, _)| at % 2 == shard).map(|(_, tensor)| tensor);
        let views: Vec<(String, TensorView<'_>)> = of_shard
            .map(|(name, (shape, numbers))| {
                map.insert(format!("{prefix}{name}"), part);
                let bytes = bytemuck::cast_slice(numbers);
                (
                    format!("{prefix}{name}"),
                    TensorView::new(Dtype::F32, shape.clone(), bytes).expect("a tensor"),
                )
            })
            .collect();
        safetensors::serialize_to_file(views, None, &folder_of.join(part)).expect("written");
    }
    let index = serde_json::json!({ "weight_map": map });
    std::fs::write(folder_of.join("model.safetensors.index.json"), index.to_string()).expect("written");
}

fn load(folder: &Path) -> Result<Engine, EngineError> {
    let device = Device::named("emu:h200").expect("an emulator");
    Engine::load(&Checkpoint::open(folder)?, &device, DataType::F32, LIMITS)
}

#[test]
fn shards_with_any_prefix_are_the_same_model() {
    let run = |prefix: &str, tensors: &BTreeMap<_, _>| {
        let folder = tempfile::tempdir().expect("a folder");
        write(folder.path(), prefix, tensors);
        let prompt = &expected("llama")[1].prompt;
        generate(&mut load(folder.path()).expect("a model"), prompt, 64, 3)
    };
    let flat = run("model.", &tensors());
    assert_eq!(run("model.language_model.", &tensors()), flat);
    let mut with_others = tensors();
    for other in ["visual.blocks.0.attn.qkv.weight", "mtp.fc.weight"] {
        with_others.insert(other.into(), (vec![2], vec![0.0; 2]));
    }
    assert_eq!(run("model.", &with_others), flat, "vision tower and MTP head are left out");
}

#[test]
fn tensors_that_do_not_fit_are_named() {
    let mut changed = tensors();
    changed.remove("layers.1.mlp.up_proj.weight");
    changed.insert("layers.9.mlp.up_proj.weight".into(), (vec![1], vec![0.0]));
    changed.insert("norm.weight".into(), (vec![95], vec![0.0; 95]));
    let folder = tempfile::tempdir().expect("a folder");
    write(folder.path(), "model.", &changed);
    let message = load(folder.path()).err().expect("a refusal").to_string();
    let lines = [
        "the checkpoint does not fit the model:",
        "  layers.1.mlp.up_proj.weight is missing",
        "  norm.weight has the shape [95], expected [96]",
        "  layers.9.mlp.up_proj.weight is not used",
    ];
    assert_eq!(message, lines.join("\n"));
}

/// A GGUF file of one tensor of each kind, and metadata of each type.
#[test]
fn files_that_are_cut_off_or_foreign_are_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("model.gguf");
    let mut bytes = b"GGUF".to_vec();
    bytes.extend(3u32.to_le_bytes());
    bytes.extend(0u64.to_le_bytes());
    bytes.extend(1u64.to_le_bytes());
    let text = |text: &str| [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat();
    bytes.extend(text("general.architecture"));
    bytes.extend(8u32.to_le_bytes());
    bytes.extend(text("gpt2"));
    for length in [0, 3, 7, 24, bytes.len() - 1] {
        std::fs::write(&path, &bytes[..length]).expect("written");
        // An empty file cannot be mapped.
        let message = Checkpoint::open(&path).expect_err("a refusal").to_string();
        assert!(
            length == 0 || message.ends_with("it is no GGUF file of version 2 or 3, or it is cut off"),
            "{message}"
        );
    }
    std::fs::write(&path, &bytes).expect("written");
    let message = Checkpoint::open(&path).expect_err("a refusal").to_string();
    assert!(
        message.ends_with(
            "it is a model of the architecture \"gpt2\"; the engine reads llama and qwen3 from GGUF"
        ),
        "{message}"
    );
}
