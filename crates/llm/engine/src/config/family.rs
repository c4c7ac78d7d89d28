//! Families of models: a row has the names of a family and how its models differ from Llama.
//!
//! All models are decoders of the same layers (`models.rs`). A family with a layer that no row describes needs the layer, a
//! field here that selects it, and a row.

use warpwright_kernels::rope::Pairing;
use warpwright_kernels::rows::Gain;

use crate::error::{EngineError, Result};

/// What the models of a family have in common.
#[derive(Debug, PartialEq)]
pub(crate) struct Family {
    /// `model_type` in `config.json`; the last one in a configuration of text alone.
    pub(crate) model_types: &'static [&'static str],
    /// GGUF's `general.architecture`, and how rows of Q and K are paired in its files.
    pub(crate) gguf: Option<(&'static str, Pairing)>,
    /// Columns of a head where the configuration lacks them; `None`: hidden / heads.
    pub(crate) head_dim: Option<u32>,
    /// The part of a head that is rotated where the configuration does not say it.
    pub(crate) rotated: f64,
    /// How norms in safetensors multiply.
    pub(crate) gain: Gain,
    /// Whether Q, K and V have a bias.
    pub(crate) has_bias: bool,
    /// Whether heads of Q and K are normalized.
    pub(crate) has_head_norm: bool,
    /// Whether the output of attention is gated.
    pub(crate) has_gate: bool,
    /// Every how many layers attention comes, after layers of the gated delta rule; 1: all layers are attention.
    pub(crate) attention_interval: u32,
    /// Whether feed-forward layers are experts with a shared one.
    pub(crate) has_experts: bool,
    /// Whether the configuration may bound attention to a window.
    pub(crate) has_window: bool,
    /// Whether checkpoints have an MTP layer.
    pub(crate) has_mtp: bool,
}

const LLAMA: Family = Family {
    model_types: &["llama"],
    gguf: Some(("llama", Pairing::Neighbors)),
    head_dim: None,
    rotated: 1.0,
    gain: Gain::Weight,
    has_bias: false,
    has_head_norm: false,
    has_gate: false,
    attention_interval: 1,
    has_experts: false,
    has_window: false,
    has_mtp: false,
};

const QWEN_3_5: Family = Family {
    model_types: &["qwen3_5", "qwen3_5_text"],
    gguf: Some(("qwen35", Pairing::Halves)),
    head_dim: Some(256),
    rotated: 0.25,
    gain: Gain::ZeroCentred,
    has_head_norm: true,
    has_gate: true,
    attention_interval: 4,
    has_mtp: true,
    ..LLAMA
};

/// All families. Llama is also SmolLM2 and TinyLlama.
pub(crate) static FAMILIES: [Family; 6] = [
    LLAMA,
    Family { model_types: &["mistral"], gguf: None, has_window: true, ..LLAMA },
    Family { model_types: &["qwen2"], gguf: Some(("qwen2", Pairing::Halves)), has_bias: true, ..LLAMA },
    Family { model_types: &["qwen3"], gguf: Some(("qwen3", Pairing::Halves)), has_head_norm: true, ..LLAMA },
    QWEN_3_5,
    Family {
        model_types: &["qwen3_5_moe", "qwen3_5_moe_text"],
        gguf: Some(("qwen35moe", Pairing::Halves)),
        has_experts: true,
        ..QWEN_3_5
    },
];

impl Family {
    /// The family of a `model_type`.
    ///
    /// # Errors
    /// The engine runs no models of that type.
    pub(super) fn named(model_type: &str) -> Result<&'static Self> {
        let found = FAMILIES.iter().find(|family| family.model_types.contains(&model_type));
        found.ok_or_else(|| {
            let [others @ .., last] = FAMILIES.each_ref().map(|family| family.model_types[0]);
            let others = others.join(", ");
            EngineError::Config(format!("model_type is {model_type:?}; the engine runs {others} and {last}"))
        })
    }

    /// Whether layers have a gated delta rule.
    pub(crate) fn has_delta(&self) -> bool {
        self.attention_interval > 1
    }
}
