//! The metadata of GGUF files: every key of an architecture, and what the engine makes of it.
//!
//! A key that is not here is refused. Keys outside of the architecture, such as `general.*`, describe the file and its
//! tokenizer: llama.cpp's computation reads none of them.

use serde_json::{Map, Value, json};
use warpwright_kernels::rope::Pairing;

use crate::config::{FAMILIES, Family};

/// What a key is for.
enum Use {
    /// A field of `config.json`.
    Field(&'static str),
    /// A field of `rope_parameters`.
    Rope(&'static str),
    /// The same number as that other key's, if that is there.
    Equal(&'static str),
    /// Read by [`config`] itself.
    Read,
    /// The one value that changes nothing.
    Only(f64),
    /// Changes nothing, for the reason.
    #[cfg_attr(not(test), expect(dead_code, reason = "the reason is for readers"))]
    Harmless(&'static str),
}

use Use::{Equal, Field, Harmless, Only, Read, Rope};

/// Keys of every architecture, after `ARCHITECTURE.`.
const KEYS: [(&str, Use); 37] = [
    ("block_count", Read),
    ("nextn_predict_layers", Read),
    ("context_length", Field("max_position_embeddings")),
    ("embedding_length", Field("hidden_size")),
    ("feed_forward_length", Field("intermediate_size")),
    ("attention.head_count", Field("num_attention_heads")),
    ("attention.head_count_kv", Field("num_key_value_heads")),
    ("attention.key_length", Field("head_dim")),
    ("attention.value_length", Equal("attention.key_length")),
    ("attention.layer_norm_rms_epsilon", Field("rms_norm_eps")),
    ("attention.layer_norm_epsilon", Harmless("of LayerNorm, which no model here has")),
    ("attention.sliding_window", Read),
    ("attention.causal", Only(1.0)),
    ("attention.clamp_kqv", Only(0.0)),
    ("attention.max_alibi_bias", Only(0.0)),
    ("use_parallel_residual", Only(0.0)),
    ("expert_count", Only(0.0)),
    ("expert_used_count", Only(0.0)),
    ("rope.dimension_count", Field("rotary_dim")),
    ("rope.dimension_sections", Harmless("positions of images; those of text are the same on every axis")),
    ("rope.freq_base", Rope("rope_theta")),
    ("rope.scaling.type", Read),
    ("rope.scaling.factor", Rope("factor")),
    ("rope.scale_linear", Rope("factor")),
    ("rope.scaling.attn_factor", Rope("attention_factor_multiplier")),
    ("rope.scaling.original_context_length", Rope("original_max_position_embeddings")),
    ("rope.scaling.finetuned", Harmless("says how the model was trained")),
    ("rope.scaling.yarn_log_multiplier", Only(0.0)),
    ("rope.scaling.yarn_ext_factor", Only(1.0)),
    ("rope.scaling.yarn_attn_factor", Only(1.0)),
    ("rope.scaling.yarn_beta_fast", Rope("beta_fast")),
    ("rope.scaling.yarn_beta_slow", Rope("beta_slow")),
    ("vocab_size", Harmless("the rows of the embedding say it")),
    ("tensor_data_layout", Harmless("names the order of rows that all files of the architecture have")),
    ("pooling_type", Harmless("of embeddings of texts")),
    ("logit_scale", Only(1.0)),
    ("residual_scale", Only(1.0)),
];

/// Tokens that end an answer: the end of a text, of a turn, and of a message that calls a function.
const ENDS: [&str; 3] =
    ["tokenizer.ggml.eos_token_id", "tokenizer.ggml.eot_token_id", "tokenizer.ggml.eom_token_id"];

/// Further keys of models with a gated delta rule.
const OF_DELTA: [(&str, Use); 7] = [
    ("full_attention_interval", Field("full_attention_interval")),
    ("attention.recurrent_layers", Read),
    ("ssm.conv_kernel", Field("linear_conv_kernel_dim")),
    ("ssm.state_size", Field("linear_key_head_dim")),
    ("ssm.group_count", Field("linear_num_key_heads")),
    ("ssm.time_step_rank", Field("linear_num_value_heads")),
    ("ssm.inner_size", Read),
];

/// Further keys of models with experts.
const OF_EXPERTS: [(&str, Use); 7] = [
    ("expert_count", Field("num_experts")),
    ("expert_used_count", Field("num_experts_per_tok")),
    ("expert_feed_forward_length", Field("moe_intermediate_size")),
    ("expert_shared_feed_forward_length", Field("shared_expert_intermediate_size")),
    ("expert_weights_norm", Only(1.0)),
    ("expert_weights_scale", Only(1.0)),
    ("feed_forward_length", Harmless("of layers without experts, which these models have none of")),
];

/// The family of a file, and its name in keys.
pub(super) fn family_of(metadata: &Map<String, Value>) -> Result<&'static Family, String> {
    let name = metadata.get("general.architecture").and_then(Value::as_str).unwrap_or_default();
    let architecture = |family: &Family| family.gguf.map(|(architecture, _)| architecture);
    FAMILIES.iter().find(|family| architecture(family) == Some(name)).ok_or_else(|| {
        let all = FAMILIES.iter().filter_map(architecture).collect::<Vec<_>>().join(", ");
        format!("it is a model of the architecture {name:?}; the engine reads {all} from GGUF")
    })
}

/// What the engine makes of a key of a family.
fn find(family: &Family, key: &str) -> Option<&'static Use> {
    let of_delta: &[_] = if family.has_delta() { &OF_DELTA } else { &[] };
    let of_experts: &[_] = if family.has_experts { &OF_EXPERTS } else { &[] };
    let mut all = of_experts.iter().chain(of_delta).chain(&KEYS);
    all.find(|(name, _)| *name == key).map(|(_, of_key)| of_key)
}

/// A number, or a list of equal numbers: one for each layer.
fn of_all_layers(value: &Value) -> Option<&Value> {
    match value {
        Value::Array(values) => values.first().filter(|first| values.iter().all(|value| value == *first)),
        value => Some(value),
    }
}

fn number(value: &Value) -> Option<f64> {
    value.as_f64().or_else(|| value.as_bool().map(|value| if value { 1.0 } else { 0.0 }))
}

/// `config.json` of the metadata, without what tensors say.
pub(super) fn config(metadata: &Map<String, Value>, family: &Family) -> Result<Value, String> {
    let (name, pairing) = family.gguf.unwrap_or_default();
    let of = |key: &str| metadata.get(&format!("{name}.{key}"));
    let mut config = json!({
        "model_type": family.model_types.last(),
        // Rows of Q and K are stored in the order of neighboring pairs.
        "rope_interleaved": pairing == Pairing::Neighbors,
        "rope_parameters": {},
        "eos_token_id": ENDS.iter().filter_map(|key| metadata.get(*key)).collect::<Vec<_>>(),
    });
    for (key, value) in metadata {
        let Some(key) = key.strip_prefix(name).and_then(|key| key.strip_prefix('.')) else { continue };
        let Some(of_key) = find(family, key) else {
            return Err(format!(
                "it has the key {name}.{key}, which the engine does not know; use its safetensors"
            ));
        };
        let same = || {
            let reason =
                || format!("{name}.{key} differs from layer to layer; the engine runs layers of one shape");
            of_all_layers(value).ok_or_else(reason)
        };
        match of_key {
            Field(field) => config[*field] = same()?.clone(),
            Rope(field) => config["rope_parameters"][*field] = value.clone(),
            Equal(other) => {
                if of(other).is_some_and(|other| Some(other) != same().ok()) {
                    return Err(format!(
                        "{name}.{key} is not {name}.{other}; the engine runs heads of one length"
                    ));
                }
            }
            Only(neutral) => {
                if number(same()?) != Some(*neutral) {
                    return Err(format!(
                        "{name}.{key} is {value}; the engine computes models where it is {neutral}"
                    ));
                }
            }
            Read | Harmless(_) => {}
        }
    }
    let count = |key: &str| of(key).and_then(Value::as_u64);
    let of_mtp = count("nextn_predict_layers").unwrap_or(0);
    if let Some(blocks) = count("block_count") {
        config["num_hidden_layers"] = blocks.saturating_sub(of_mtp).into();
    }
    // Up to the window, every token sees all tokens before it.
    if let Some(window) = count("attention.sliding_window").filter(|window| *window > 0) {
        let context = config["max_position_embeddings"].as_u64().unwrap_or(window);
        config["max_position_embeddings"] = context.min(window).into();
    }
    // As llama.cpp: a factor without a type is linear, and a type without a factor scales nothing.
    let kind = of("rope.scaling.type").cloned().unwrap_or_else(|| "linear".into());
    let is_plain = kind == "none" || (kind == "linear" && config["rope_parameters"]["factor"].is_null());
    config["rope_parameters"]["rope_type"] = if is_plain { "default".into() } else { kind };
    if family.has_delta() {
        of_delta(&mut config, of)?;
    }
    Ok(config)
}

/// What models with a gated delta rule have beside.
fn of_delta<'l>(config: &mut Value, of: impl Fn(&str) -> Option<&'l Value>) -> Result<(), String> {
    // One was added to the weights of norms when they were converted.
    config["zero_centred_norms"] = false.into();
    if let (Some(inner), Some(heads)) = (of("ssm.inner_size"), of("ssm.time_step_rank")) {
        let length = inner.as_u64().zip(heads.as_u64().filter(|heads| *heads > 0));
        let length = length.filter(|(inner, heads)| inner.is_multiple_of(*heads));
        let (inner, heads) = length.ok_or("ssm.inner_size is no multiple of ssm.time_step_rank")?;
        config["linear_value_head_dim"] = (inner / heads).into();
    }
    if let Some(layers) = of("attention.recurrent_layers") {
        let kind = |is_recurrent: &Value| match number(is_recurrent) {
            Some(0.0) => "full_attention",
            _ => "linear_attention",
        };
        let layers = layers.as_array().ok_or("attention.recurrent_layers is no list")?;
        let count = config["num_hidden_layers"].as_u64().unwrap_or(0) as usize;
        config["layer_types"] = layers.iter().take(count).map(kind).collect::<Vec<_>>().into();
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn metadata(of_architecture: &[(&str, Value)]) -> Map<String, Value> {
        let mut metadata = Map::new();
        metadata.insert("general.architecture".to_owned(), "llama".into());
        metadata.insert("general.name".to_owned(), "any".into());
        for (key, value) in of_architecture {
            metadata.insert(format!("llama.{key}"), value.clone());
        }
        metadata
    }

    fn read(of_architecture: &[(&str, Value)]) -> Result<Value, String> {
        let metadata = metadata(of_architecture);
        config(&metadata, family_of(&metadata)?)
    }

    #[test]
    fn every_key_is_used_harmless_or_refused() {
        for (key, of_key) in &KEYS {
            let without = read(&[]).expect("a configuration");
            let with = read(&[(key, 7.into())]);
            match of_key {
                Field(field) => assert_eq!(with.expect(key)[*field], 7),
                Rope(field) => assert_eq!(with.expect(key)["rope_parameters"][*field], 7),
                Equal(other) => {
                    assert_eq!(with.expect(key), without);
                    assert!(read(&[(key, 7.into()), (other, 8.into())]).is_err(), "{key}");
                }
                Only(neutral) => {
                    assert!(with.is_err(), "{key}");
                    assert_eq!(read(&[(key, (*neutral).into())]).expect(key), without);
                }
                Read => assert_ne!(read(&[("block_count", 9.into()), (key, 7.into())]).expect(key), without),
                Harmless(reason) => {
                    assert!(!reason.is_empty());
                    assert_eq!(with.expect(key), without, "{key}");
                }
            }
        }
        let refused = read(&[("attention.scale", 0.5.into())]).expect_err("a refusal");
        assert!(refused.starts_with("it has the key llama.attention.scale, which the engine does not know"));
    }

    #[test]
    fn every_end_of_an_answer_is_read() {
        let mut metadata = metadata(&[]);
        for (token, key) in ENDS.iter().enumerate() {
            metadata.insert((*key).to_owned(), token.into());
        }
        let family = family_of(&metadata).expect("a family");
        assert_eq!(config(&metadata, family).expect("a configuration")["eos_token_id"], json!([0, 1, 2]));
    }

    #[test]
    fn layers_of_different_shapes_are_refused() {
        let same = read(&[("feed_forward_length", vec![7, 7].into())]).expect("a configuration");
        assert_eq!(same["intermediate_size"], 7);
        assert!(read(&[("feed_forward_length", vec![7, 8].into())]).is_err());
        assert!(read(&[("feed_forward_length", Value::Array(vec![]))]).is_err());
    }
}
