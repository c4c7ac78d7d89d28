//! Checkpoints: shards, prefixes, GGUF, and tensors that do not fit.

use std::collections::BTreeMap;
use std::path::Path;

use safetensors::tensor::{Dtype, TensorView};
use warpwright::runtime::Device;
use warpwright_llm_engine::weights::Checkpoint;
use warpwright_llm_engine::{DataType, Engine, EngineError, Limits};
use warpwright_llm_step::{Chunk, Slot, Tokens};

use crate::fixtures::{LIMITS, chunk, expected, folder, generate, greedy, random, step};

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

/// Writes shards of llama with an index; `prefix` precedes each name.
fn write(folder_of: &Path, prefix: &str, tensors: &BTreeMap<String, (Vec<usize>, Vec<f32>)>) {
    write_model("llama", folder_of, prefix, tensors);
}

fn write_model(
    model: &str,
    folder_of: &Path,
    prefix: &str,
    tensors: &BTreeMap<String, (Vec<usize>, Vec<f32>)>,
) {
    std::fs::copy(folder(model).join("config.json"), folder_of.join("config.json")).expect("copied");
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

/// The names and shapes of the qwen3_5 fixture as its checkpoints have them: a language model beside a vision
/// tower, and the MTP layer.
fn names_of_qwen3_5() -> Vec<(String, Vec<usize>)> {
    let mixer_of = |layer: usize| -> Vec<(&str, Vec<usize>)> {
        match layer {
            3 => vec![
                ("self_attn.q_proj.weight", vec![512, 128]),
                ("self_attn.k_proj.weight", vec![128, 128]),
                ("self_attn.v_proj.weight", vec![128, 128]),
                ("self_attn.o_proj.weight", vec![128, 256]),
                ("self_attn.q_norm.weight", vec![64]),
                ("self_attn.k_norm.weight", vec![64]),
            ],
            _ => vec![
                ("linear_attn.in_proj_qkv.weight", vec![256, 128]),
                ("linear_attn.in_proj_z.weight", vec![128, 128]),
                ("linear_attn.in_proj_b.weight", vec![4, 128]),
                ("linear_attn.in_proj_a.weight", vec![4, 128]),
                ("linear_attn.conv1d.weight", vec![256, 1, 4]),
                ("linear_attn.A_log", vec![4]),
                ("linear_attn.dt_bias", vec![4]),
                ("linear_attn.norm.weight", vec![32]),
                ("linear_attn.out_proj.weight", vec![128, 128]),
            ],
        }
    };
    let feed_forward: [(&str, Vec<usize>); 5] = [
        ("input_layernorm.weight", vec![128]),
        ("post_attention_layernorm.weight", vec![128]),
        ("mlp.gate_proj.weight", vec![256, 128]),
        ("mlp.up_proj.weight", vec![256, 128]),
        ("mlp.down_proj.weight", vec![128, 256]),
    ];
    let block = |name: &str, layer: usize| {
        let parts = mixer_of(layer).into_iter().chain(feed_forward.clone());
        parts.map(|(part, shape)| (format!("{name}.{part}"), shape)).collect::<Vec<_>>()
    };
    let mut names = vec![
        ("model.language_model.embed_tokens.weight".to_owned(), vec![512, 128]),
        ("model.language_model.norm.weight".to_owned(), vec![128]),
        ("lm_head.weight".to_owned(), vec![512, 128]),
        ("model.visual.patch_embed.proj.weight".to_owned(), vec![2]),
        ("mtp.fc.weight".to_owned(), vec![128, 256]),
        ("mtp.norm.weight".to_owned(), vec![128]),
        ("mtp.pre_fc_norm_embedding.weight".to_owned(), vec![128]),
        ("mtp.pre_fc_norm_hidden.weight".to_owned(), vec![128]),
    ];
    names.extend((0..4).flat_map(|layer| block(&format!("model.language_model.layers.{layer}"), layer)));
    names.extend(block("mtp.layers.0", 3));
    names
}

#[test]
fn a_checkpoint_of_qwen3_5_has_the_tokens_and_drafts_of_transformers() {
    let of_random = random(&folder("qwen3_5"));
    let tensor = |(name, shape): (String, Vec<usize>)| {
        let canonical = name.trim_start_matches("model.language_model.");
        // The engine asks for the weights of the convolution without the axis of extent 1.
        let significant: Vec<usize> = shape.iter().copied().filter(|extent| *extent != 1).collect();
        let numbers = of_random.numbers(canonical, &significant).expect("any name has numbers");
        (name, (shape, numbers))
    };
    let tensors = names_of_qwen3_5().into_iter().map(tensor).collect();
    let folder = tempfile::tempdir().expect("a folder");
    write_model("qwen3_5", folder.path(), "", &tensors);
    let checkpoint = Checkpoint::open(folder.path()).expect("a checkpoint");
    let expected = &expected("qwen3_5")[0];
    for (drafts, ranks) in [(0, 1), (2, 1), (2, 2)] {
        let devices = Device::peers("emu:h200", ranks).expect("emulators");
        let limits = Limits { drafts, ..LIMITS };
        let engine = Engine::load_parallel(&checkpoint, &devices, DataType::F32, limits);
        let mut engine = engine.expect("a model");
        let prompt = chunk(0, 0, Tokens::Known(expected.prompt.clone()));
        let outputs = step(&mut engine, vec![Chunk { sampling: Some(greedy()), ..prompt }]);
        assert_eq!(outputs[0].sampled[0].token, expected.tokens[0]);
        assert_eq!(engine.drafted(Slot(0)).expect("drafts"), &expected.drafts[0][..drafts as usize]);
    }
}

/// A checkpoint that is written has the tokens and drafts of the one that it was written from.
#[test]
fn saved_weights_are_the_same_model() {
    for model in ["llama", "qwen3_5"] {
        let saved = tempfile::tempdir().expect("a folder");
        random(&folder(model)).save(saved.path()).expect("written");
        let stored = Checkpoint::open(saved.path()).expect("a checkpoint");
        let drafts = if model == "qwen3_5" { 2 } else { 0 };
        let load = |checkpoint: &Checkpoint| {
            let device = Device::named("emu:h200").expect("an emulator");
            Engine::load(checkpoint, &device, DataType::Bf16, Limits { drafts, ..LIMITS }).expect("a model")
        };
        let prompt = &expected(model)[0].prompt;
        let (tokens, scored) = generate(&mut load(&stored), prompt, 64, 2);
        let (wanted, of_random) = generate(&mut load(&random(&folder(model))), prompt, 64, 2);
        assert_eq!((tokens, scored), (wanted, of_random), "{model}");
    }
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

#[test]
fn shards_outside_of_the_folder_are_refused() {
    for shard in ["../a.safetensors", "/etc/passwd", "", "..", "a/b.safetensors"] {
        let folder = tempfile::tempdir().expect("a folder");
        write(folder.path(), "model.", &tensors());
        let index = serde_json::json!({ "weight_map": { "model.norm.weight": shard } });
        std::fs::write(folder.path().join("model.safetensors.index.json"), index.to_string())
            .expect("written");
        let message = load(folder.path()).err().expect("a refusal").to_string();
        let reason = format!("it names the shard {shard:?}, which is no file of the folder");
        assert!(message.ends_with(&reason), "{message}");
    }
}

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
        assert!(length == 0 || message.ends_with("its header ends after the file does"), "{message}");
    }
    std::fs::write(&path, &bytes).expect("written");
    let message = Checkpoint::open(&path).expect_err("a refusal").to_string();
    assert!(
        message.ends_with(
            "it is a model of the architecture \"gpt2\"; the engine reads llama, qwen2, qwen3, qwen35, qwen35moe from GGUF"
        ),
        "{message}"
    );
}
