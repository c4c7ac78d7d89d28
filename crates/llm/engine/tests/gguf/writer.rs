//! Files of GGUF, as llama.cpp's converter writes them.

use std::collections::BTreeMap;

use serde_json::Value;

/// A value of metadata.
#[derive(Clone)]
pub(crate) enum Meta {
    Number(u32),
    Float(f32),
    Flag(bool),
    Text(&'static str),
}

/// A tensor: the extents from the outermost on, GGML's number of the type, and the bytes.
pub(crate) type Stored = (String, Vec<usize>, u32, Vec<u8>);

const ALIGNMENT: usize = 32;

fn text(text: &str) -> Vec<u8> {
    [&(text.len() as u64).to_le_bytes()[..], text.as_bytes()].concat()
}

/// The bytes of a file.
pub(crate) fn gguf(metadata: &[(String, Meta)], tensors: &[Stored]) -> Vec<u8> {
    let mut bytes = b"GGUF\x03\0\0\0".to_vec();
    bytes.extend((tensors.len() as u64).to_le_bytes());
    bytes.extend((metadata.len() as u64).to_le_bytes());
    for (key, value) in metadata {
        bytes.extend(text(key));
        let (kind, value) = match value {
            Meta::Number(number) => (4u32, number.to_le_bytes().to_vec()),
            Meta::Float(number) => (6, number.to_le_bytes().to_vec()),
            Meta::Flag(flag) => (7, vec![u8::from(*flag)]),
            Meta::Text(of) => (8, text(of)),
        };
        bytes.extend(kind.to_le_bytes());
        bytes.extend(value);
    }
    let mut data = vec![];
    for (name, shape, kind, numbers) in tensors {
        bytes.extend(text(name));
        bytes.extend((shape.len() as u32).to_le_bytes());
        bytes.extend(shape.iter().rev().flat_map(|extent| (*extent as u64).to_le_bytes()));
        bytes.extend(kind.to_le_bytes());
        bytes.extend((data.len() as u64).to_le_bytes());
        data.extend(numbers);
        data.resize(data.len().next_multiple_of(ALIGNMENT), 0);
    }
    bytes.resize(bytes.len().next_multiple_of(ALIGNMENT), 0);
    bytes.extend(data);
    bytes
}

/// A tensor in f32.
pub(crate) fn stored(name: &str, shape: &[usize], numbers: &[f32]) -> Stored {
    (name.to_owned(), shape.to_vec(), 0, bytemuck::cast_slice(numbers).to_vec())
}

/// Names of the tensors of a layer, and llama.cpp's.
const NAMES: [(&str, &str); 30] = [
    ("input_layernorm.weight", "attn_norm.weight"),
    ("self_attn.q_proj.weight", "attn_q.weight"),
    ("self_attn.k_proj.weight", "attn_k.weight"),
    ("self_attn.v_proj.weight", "attn_v.weight"),
    ("self_attn.q_proj.bias", "attn_q.bias"),
    ("self_attn.k_proj.bias", "attn_k.bias"),
    ("self_attn.v_proj.bias", "attn_v.bias"),
    ("self_attn.o_proj.weight", "attn_output.weight"),
    ("self_attn.q_norm.weight", "attn_q_norm.weight"),
    ("self_attn.k_norm.weight", "attn_k_norm.weight"),
    ("mlp.gate_proj.weight", "ffn_gate.weight"),
    ("mlp.up_proj.weight", "ffn_up.weight"),
    ("mlp.down_proj.weight", "ffn_down.weight"),
    ("linear_attn.in_proj_qkv.weight", "attn_qkv.weight"),
    ("linear_attn.in_proj_z.weight", "attn_gate.weight"),
    ("linear_attn.in_proj_b.weight", "ssm_beta.weight"),
    ("linear_attn.in_proj_a.weight", "ssm_alpha.weight"),
    ("linear_attn.conv1d.weight", "ssm_conv1d.weight"),
    ("linear_attn.A_log", "ssm_a"),
    ("linear_attn.dt_bias", "ssm_dt.bias"),
    ("linear_attn.norm.weight", "ssm_norm.weight"),
    ("linear_attn.out_proj.weight", "ssm_out.weight"),
    ("mlp.gate.weight", "ffn_gate_inp.weight"),
    ("mlp.experts.gate_proj", "ffn_gate_exps.weight"),
    ("mlp.experts.up_proj", "ffn_up_exps.weight"),
    ("mlp.experts.down_proj", "ffn_down_exps.weight"),
    ("mlp.shared_expert_gate.weight", "ffn_gate_inp_shexp.weight"),
    ("mlp.shared_expert.gate_proj.weight", "ffn_gate_shexp.weight"),
    ("mlp.shared_expert.up_proj.weight", "ffn_up_shexp.weight"),
    ("mlp.shared_expert.down_proj.weight", "ffn_down_shexp.weight"),
];

/// llama.cpp's name.
fn name(canonical: &str, architecture: &str, layers: usize) -> String {
    match canonical {
        "embed_tokens.weight" => return "token_embd.weight".to_owned(),
        "norm.weight" => return "output_norm.weight".to_owned(),
        "lm_head.weight" => return "output.weight".to_owned(),
        "mtp.fc.weight" => return format!("blk.{layers}.nextn.eh_proj.weight"),
        "mtp.pre_fc_norm_embedding.weight" => return format!("blk.{layers}.nextn.enorm.weight"),
        "mtp.pre_fc_norm_hidden.weight" => return format!("blk.{layers}.nextn.hnorm.weight"),
        "mtp.norm.weight" => return format!("blk.{layers}.nextn.shared_head_norm.weight"),
        _ => {}
    }
    let (layer, part) = match canonical.strip_prefix("mtp.layers.0.") {
        Some(part) => (layers, part),
        None => {
            let rest = canonical.strip_prefix("layers.").expect("a tensor of a layer");
            let (layer, part) = rest.split_once('.').expect("a layer");
            (layer.parse().expect("a number"), part)
        }
    };
    let of_norm =
        if architecture.starts_with("qwen35") { "post_attention_norm.weight" } else { "ffn_norm.weight" };
    let part = match part {
        "post_attention_layernorm.weight" => of_norm,
        part => NAMES.iter().find(|(canonical, _)| *canonical == part).expect(part).1,
    };
    format!("blk.{layer}.{part}")
}

/// Rows in another order: row i of the result is row `from(i)`.
fn reordered(numbers: &[f32], rows: usize, from: impl Fn(usize) -> usize) -> Vec<f32> {
    let columns = numbers.len() / rows;
    (0..rows).flat_map(|row| numbers[from(row) * columns..][..columns].to_vec()).collect()
}

/// The numbers of a tensor, as the converter changes them.
fn converted(canonical: &str, shape: &[usize], numbers: Vec<f32>, config: &Value) -> Vec<f32> {
    let number = |name: &str| config[name].as_u64().unwrap_or(0) as usize;
    let model_type = config["model_type"].as_str().expect("a type");
    let part = canonical
        .rsplit_once("self_attn.")
        .or(canonical.rsplit_once("linear_attn."))
        .map_or("", |(_, part)| part);
    if matches!(model_type, "llama" | "mistral") && matches!(part, "q_proj.weight" | "k_proj.weight") {
        let heads =
            number(if part == "q_proj.weight" { "num_attention_heads" } else { "num_key_value_heads" });
        let dim = shape[0] / heads;
        // Halves of a head become pairs.
        return reordered(&numbers, shape[0], |row| row / dim * dim + row % 2 * dim / 2 + row % dim / 2);
    }
    if !model_type.starts_with("qwen3_5") {
        return numbers;
    }
    // Those of the MTP layer are renamed before to names that end so.
    let is_norm = canonical.ends_with("norm.weight") || canonical.starts_with("mtp.pre_fc_norm");
    if is_norm && part != "norm.weight" {
        return numbers.iter().map(|number| number + 1.0).collect();
    }
    let (keys, values) = (number("linear_num_key_heads"), number("linear_num_value_heads"));
    let (key_dim, value_dim) = (number("linear_key_head_dim"), number("linear_value_head_dim"));
    // Value head i of the file, which its key head has next to its others in the checkpoint.
    let head = |at: usize| at % keys * (values / keys) + at / keys;
    let of_heads = |row: usize, length: usize| head(row / length) * length + row % length;
    match part {
        "in_proj_qkv.weight" | "conv1d.weight" => reordered(&numbers, shape[0], |row| {
            let behind = 2 * keys * key_dim;
            if row < behind { row } else { behind + of_heads(row - behind, value_dim) }
        }),
        "in_proj_z.weight" => reordered(&numbers, shape[0], |row| of_heads(row, value_dim)),
        "in_proj_b.weight" | "in_proj_a.weight" | "dt_bias" => reordered(&numbers, values, head),
        "A_log" => reordered(&numbers, values, head).into_iter().map(|number| -number.exp()).collect(),
        "out_proj.weight" => {
            let columns = shape[1];
            let row = |row: &[f32]| (0..columns).map(|at| row[of_heads(at, value_dim)]).collect::<Vec<_>>();
            numbers.chunks(columns).flat_map(row).collect()
        }
        _ => numbers,
    }
}

/// The file of a model of that configuration and those tensors by canonical name.
pub(crate) fn convert(
    config: &Value,
    tensors: BTreeMap<String, (Vec<usize>, Vec<f32>)>,
) -> (Vec<(String, Meta)>, Vec<Stored>) {
    let architecture = match config["model_type"].as_str().expect("a type") {
        "mistral" => "llama",
        "qwen3_5_text" => "qwen35",
        "qwen3_5_moe_text" => "qwen35moe",
        "qwen2" => "qwen2",
        "qwen3" => "qwen3",
        other => other,
    }
    .to_owned();
    let number = |name: &str| config[name].as_u64().map(|number| number as u32);
    let layers = number("num_hidden_layers").expect("layers");
    let of_mtp = u32::from(tensors.contains_key("mtp.fc.weight"));
    let (heads, hidden) =
        (number("num_attention_heads").expect("heads"), number("hidden_size").expect("columns"));
    let head_dim = number("head_dim").unwrap_or(hidden / heads);
    let rope =
        [&config["rope_parameters"], &config["rope_scaling"]].into_iter().find(|rope| rope.is_object());
    let rope = rope.unwrap_or(&Value::Null);
    let theta = rope["rope_theta"].as_f64().or(config["rope_theta"].as_f64()).expect("a base");
    let rotary = f64::from(head_dim) * rope["partial_rotary_factor"].as_f64().unwrap_or(1.0);
    let mut keys: Vec<(&str, Meta)> = vec![
        ("block_count", Meta::Number(layers + of_mtp)),
        ("context_length", Meta::Number(number("max_position_embeddings").expect("a context"))),
        ("embedding_length", Meta::Number(hidden)),
        ("attention.head_count", Meta::Number(heads)),
        ("attention.head_count_kv", Meta::Number(number("num_key_value_heads").expect("heads"))),
        ("attention.key_length", Meta::Number(head_dim)),
        ("attention.value_length", Meta::Number(head_dim)),
        (
            "attention.layer_norm_rms_epsilon",
            Meta::Float(config["rms_norm_eps"].as_f64().expect("a number") as f32),
        ),
        ("rope.freq_base", Meta::Float(theta as f32)),
        ("rope.dimension_count", Meta::Number(rotary as u32)),
    ];
    keys.extend(number("intermediate_size").map(|columns| ("feed_forward_length", Meta::Number(columns))));
    if of_mtp > 0 {
        keys.push(("nextn_predict_layers", Meta::Number(1)));
    }
    if rope["rope_type"] == "linear" {
        let factor = rope["factor"].as_f64().expect("a number") as f32;
        keys.extend([
            ("rope.scaling.type", Meta::Text("linear")),
            ("rope.scaling.factor", Meta::Float(factor)),
        ]);
    }
    if rope["rope_type"] == "yarn" {
        let number = |name: &str| rope[name].as_f64().expect("a number");
        keys.extend([
            ("rope.scaling.type", Meta::Text("yarn")),
            ("rope.scaling.factor", Meta::Float(number("factor") as f32)),
            (
                "rope.scaling.original_context_length",
                Meta::Number(number("original_max_position_embeddings") as u32),
            ),
        ]);
    }
    if architecture == "qwen35moe" {
        const KEYS: [(&str, &str); 4] = [
            ("expert_count", "num_experts"),
            ("expert_used_count", "num_experts_per_tok"),
            ("expert_feed_forward_length", "moe_intermediate_size"),
            ("expert_shared_feed_forward_length", "shared_expert_intermediate_size"),
        ];
        keys.extend(KEYS.map(|(key, name)| (key, Meta::Number(number(name).expect("a number")))));
    }
    if architecture.starts_with("qwen35") {
        let of = |name: &str| number(name).expect("a number");
        let values = of("linear_num_value_heads");
        keys.extend([
            ("full_attention_interval", Meta::Number(interval(config))),
            ("ssm.conv_kernel", Meta::Number(of("linear_conv_kernel_dim"))),
            ("ssm.state_size", Meta::Number(of("linear_key_head_dim"))),
            ("ssm.group_count", Meta::Number(of("linear_num_key_heads"))),
            ("ssm.time_step_rank", Meta::Number(values)),
            ("ssm.inner_size", Meta::Number(values * of("linear_value_head_dim"))),
        ]);
    }
    let mut metadata = vec![
        ("general.architecture".to_owned(), Meta::Text(architecture.clone().leak())),
        ("general.name".to_owned(), Meta::Text("random")),
        ("general.quantization_version".to_owned(), Meta::Number(2)),
        ("tokenizer.ggml.add_bos_token".to_owned(), Meta::Flag(true)),
    ];
    metadata.extend(keys.into_iter().map(|(key, value)| (format!("{architecture}.{key}"), value)));
    let mut all: Vec<Stored> = vec![];
    for (canonical, (shape, numbers)) in tensors {
        if let Some(layer) = canonical.strip_suffix("mlp.experts.gate_up_proj") {
            all.extend(gates_and_values(layer, &architecture, layers as usize, (&shape, &numbers)));
            continue;
        }
        let name = name(&canonical, &architecture, layers as usize);
        all.push(stored(&name, &shape, &converted(&canonical, &shape, numbers, config)));
    }
    if rope["rope_type"] == "llama3" {
        let factors = divisors(rope, theta, head_dim);
        all.push(stored("rope_freqs.weight", &[factors.len()], &factors));
    }
    (metadata, all)
}

/// Layers from one of attention to the next.
fn interval(config: &Value) -> u32 {
    let of_types = || config["layer_types"].as_array()?.iter().position(|kind| kind == "full_attention");
    let interval = config["full_attention_interval"].as_u64();
    interval.unwrap_or_else(|| of_types().expect("a layer of attention") as u64 + 1) as u32
}

/// The gates of all experts and their values, which a checkpoint has as one tensor.
fn gates_and_values(
    layer: &str,
    architecture: &str,
    layers: usize,
    (shape, numbers): (&[usize], &[f32]),
) -> [Stored; 2] {
    let half = shape[1] / 2 * shape[2];
    let of =
        |part: usize| numbers.chunks(half).skip(part).step_by(2).flatten().copied().collect::<Vec<f32>>();
    [("mlp.experts.gate_proj", 0), ("mlp.experts.up_proj", 1)].map(|(part, at)| {
        let name = name(&format!("{layer}{part}"), architecture, layers);
        stored(&name, &[shape[0], shape[1] / 2, shape[2]], &of(at))
    })
}

/// What the frequencies of Llama 3 are divided by.
fn divisors(rope: &Value, theta: f64, dim: u32) -> Vec<f32> {
    let number = |name: &str| rope[name].as_f64().expect("a number");
    let (low, high) = (number("low_freq_factor"), number("high_freq_factor"));
    let (factor, before) = (number("factor"), number("original_max_position_embeddings"));
    let divisor = |i: u32| {
        let length = std::f64::consts::TAU * theta.powf(2.0 * f64::from(i) / f64::from(dim));
        if length < before / high {
            1.0
        } else if length > before / low {
            factor
        } else {
            let smooth = (before / length - low) / (high - low);
            1.0 / ((1.0 - smooth) / factor + smooth)
        }
    };
    (0..dim / 2).map(|i| divisor(i) as f32).collect()
}
