//! `config.json`, flat or under `text_config`.

use serde_json::Value;
use warpwright_kernels::rope::Pairing;

use crate::error::{EngineError, Result};
use crate::executor::StateType;

/// A family of models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// Llama 2 and 3, SmolLM2.
    Llama,
    /// Llama with RMSNorm of Q and K.
    Qwen3,
    /// Gated delta rule and gated attention.
    Qwen35,
    /// The same with experts.
    Qwen35Moe,
}

/// What a layer mixes tokens by.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Mixer {
    Attention,
    DeltaNet,
}

/// The heads of the gated delta rule.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct DeltaHeads {
    pub(crate) keys: u32,
    pub(crate) values: u32,
    pub(crate) key_dim: u32,
    pub(crate) value_dim: u32,
    /// Columns of the convolution.
    pub(crate) conv: u32,
    pub(crate) state: StateType,
}

/// The experts of a layer.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Experts {
    pub(crate) count: u32,
    pub(crate) chosen: u32,
    pub(crate) intermediate: u32,
    pub(crate) shared_intermediate: u32,
}

/// The rotary embedding.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Rotary {
    /// Columns of a head that are rotated.
    pub(crate) dim: u32,
    pub(crate) pairing: Pairing,
    /// The angle of one position for each pair.
    pub(crate) frequencies: Vec<f64>,
}

/// A model's configuration.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Config {
    pub(crate) family: Family,
    pub(crate) hidden: usize,
    pub(crate) vocabulary: usize,
    /// Rows of the head: the vocabulary, or a rank's part of it.
    pub(crate) head_rows: usize,
    pub(crate) layers: Vec<Mixer>,
    pub(crate) heads: u32,
    pub(crate) key_heads: u32,
    pub(crate) head_dim: u32,
    pub(crate) rotary: Rotary,
    pub(crate) epsilon: f32,
    /// Whether the head is the embedding.
    pub(crate) is_tied: bool,
    /// Columns of the MLP; 0 where all layers have experts.
    pub(crate) intermediate: u32,
    pub(crate) delta: Option<DeltaHeads>,
    pub(crate) experts: Option<Experts>,
    /// Whether the MTP layer is built, for drafts.
    pub(crate) has_mtp: bool,
    /// The most positions that the model was made for.
    pub(crate) context: u32,
    /// Tokens that end a text.
    pub(crate) ends: Vec<u32>,
}

/// The field of the type of states.
const STATE_TYPE: &str = "mamba_ssm_dtype";

/// Sets the type of states in a configuration.
pub(crate) fn set_state_type(config: &mut Value, state: StateType) {
    let text = if config.get("text_config").is_some() { &mut config["text_config"] } else { config };
    text[STATE_TYPE] = state.config_name().into();
}

/// Fields of a JSON object.
#[derive(Clone, Copy)]
struct Fields<'l>(&'l Value);

impl<'l> Fields<'l> {
    fn optional(&self, name: &str) -> Option<&'l Value> {
        self.0.get(name).filter(|value| !value.is_null())
    }

    fn number(&self, name: &str) -> Result<u32> {
        self.number_or(name, None)
    }

    /// A number from 1 on.
    fn number_or(&self, name: &str, default: Option<u32>) -> Result<u32> {
        let Some(value) = self.optional(name) else {
            return default.ok_or_else(|| EngineError::Config(format!("{name} is missing")));
        };
        let number =
            value.as_u64().and_then(|number| u32::try_from(number).ok()).filter(|number| *number > 0);
        number.ok_or_else(|| EngineError::Config(format!("{name} is {value}; expected a number from 1 on")))
    }

    fn float_or(&self, name: &str, default: f64) -> f64 {
        self.optional(name).and_then(Value::as_f64).unwrap_or(default)
    }

    fn flag_or(&self, name: &str, default: bool) -> bool {
        self.optional(name).and_then(Value::as_bool).unwrap_or(default)
    }

    fn text(&self, name: &str) -> Option<&'l str> {
        self.optional(name).and_then(Value::as_str)
    }
}

impl Config {
    /// Reads a configuration.
    pub(crate) fn read(json: &Value) -> Result<Self> {
        let root = Fields(json);
        let text = Fields(root.optional("text_config").unwrap_or(json));
        let model_type = text.text("model_type").or(root.text("model_type")).unwrap_or_default();
        let family = match model_type {
            "llama" => Family::Llama,
            "qwen3" => Family::Qwen3,
            "qwen3_5" | "qwen3_5_text" => Family::Qwen35,
            "qwen3_5_moe" | "qwen3_5_moe_text" => Family::Qwen35Moe,
            other => {
                return Err(EngineError::Config(format!(
                    "model_type is {other:?}; the engine runs llama, qwen3, qwen3_5 and qwen3_5_moe"
                )));
            }
        };
        refuse_unsupported(text)?;
        let is_qwen_3_5 = matches!(family, Family::Qwen35 | Family::Qwen35Moe);
        let (hidden, heads) = (text.number("hidden_size")?, text.number("num_attention_heads")?);
        let key_heads = text.number_or("num_key_value_heads", Some(heads))?;
        if !heads.is_multiple_of(key_heads) {
            return Err(EngineError::Config(format!(
                "{heads} heads cannot share {key_heads} key heads equally"
            )));
        }
        let default_dim = if is_qwen_3_5 { 256 } else { (hidden / heads).max(1) };
        let head_dim = text.number_or("head_dim", Some(default_dim))?;
        let delta = is_qwen_3_5.then(|| DeltaHeads::read(text)).transpose()?;
        let experts = (family == Family::Qwen35Moe).then(|| Experts::read(text)).transpose()?;
        // A flag of a VL model stands at the root.
        let is_tied = text.flag_or("tie_word_embeddings", root.flag_or("tie_word_embeddings", false));
        let vocabulary = text.number("vocab_size")? as usize;
        Ok(Self {
            family,
            hidden: hidden as usize,
            vocabulary,
            head_rows: vocabulary,
            layers: layers(text, is_qwen_3_5)?,
            heads,
            key_heads,
            head_dim,
            rotary: Rotary::read(text, head_dim, is_qwen_3_5)?,
            epsilon: text.float_or("rms_norm_eps", 1e-6) as f32,
            is_tied,
            intermediate: if experts.is_some() { 0 } else { text.number("intermediate_size")? },
            delta,
            experts,
            has_mtp: false,
            context: text.number_or("max_position_embeddings", Some(32768))?,
            ends: ends(text.optional("eos_token_id").or(root.optional("eos_token_id"))),
        })
    }
}

impl Config {
    /// With the MTP layer, which models other than Qwen 3.5 lack.
    pub(crate) fn with_mtp(self) -> Result<Self> {
        match self.family {
            Family::Qwen35 | Family::Qwen35Moe => Ok(Self { has_mtp: true, ..self }),
            Family::Llama | Family::Qwen3 => Err(EngineError::Config(
                "the model has no MTP layer to draft tokens; give 0 drafts".to_owned(),
            )),
        }
    }
}

/// Refuses what would change results and is not computed.
fn refuse_unsupported(text: Fields<'_>) -> Result<()> {
    for name in ["attention_bias", "mlp_bias", "use_sliding_window"] {
        if text.flag_or(name, false) {
            return Err(EngineError::Config(format!("{name} is true; the engine runs models without it")));
        }
    }
    match text.text("hidden_act") {
        None | Some("silu") => Ok(()),
        Some(other) => Err(EngineError::Config(format!("hidden_act is {other:?}; the engine computes silu"))),
    }
}

/// The mixers: as `layer_types` says, else every `full_attention_interval`-th is attention.
fn layers(text: Fields<'_>, is_qwen_3_5: bool) -> Result<Vec<Mixer>> {
    let count = text.number("num_hidden_layers")?;
    if !is_qwen_3_5 {
        return Ok(vec![Mixer::Attention; count as usize]);
    }
    let Some(types) = text.optional("layer_types").and_then(Value::as_array) else {
        let interval = text.number_or("full_attention_interval", Some(4))?;
        let of = |layer: u32| {
            if (layer + 1).is_multiple_of(interval) { Mixer::Attention } else { Mixer::DeltaNet }
        };
        return Ok((0..count).map(of).collect());
    };
    let of = |kind: &Value| match kind.as_str() {
        Some("full_attention") => Ok(Mixer::Attention),
        Some("linear_attention") => Ok(Mixer::DeltaNet),
        _ => Err(EngineError::Config(format!(
            "layer_types has {kind}; expected full_attention or linear_attention"
        ))),
    };
    let layers: Vec<Mixer> = types.iter().map(of).collect::<Result<_>>()?;
    if layers.len() != count as usize {
        let reason = format!("layer_types has {} entries, num_hidden_layers is {count}", layers.len());
        return Err(EngineError::Config(reason));
    }
    Ok(layers)
}

/// A token or a list of tokens.
fn ends(value: Option<&Value>) -> Vec<u32> {
    let token = |value: &Value| value.as_u64().and_then(|token| u32::try_from(token).ok());
    match value {
        Some(Value::Array(tokens)) => tokens.iter().filter_map(token).collect(),
        Some(value) => token(value).into_iter().collect(),
        None => vec![],
    }
}

impl DeltaHeads {
    fn read(text: Fields<'_>) -> Result<Self> {
        let heads = Self {
            keys: text.number_or("linear_num_key_heads", Some(16))?,
            values: text.number_or("linear_num_value_heads", Some(32))?,
            key_dim: text.number_or("linear_key_head_dim", Some(128))?,
            value_dim: text.number_or("linear_value_head_dim", Some(128))?,
            conv: text.number_or("linear_conv_kernel_dim", Some(4))?,
            state: state_type(text)?,
        };
        let reason = if !heads.values.is_multiple_of(heads.keys) {
            format!("{} value heads cannot share {} key heads equally", heads.values, heads.keys)
        } else if heads.state == StateType::Bf16 && !(heads.key_dim * heads.value_dim).is_multiple_of(2) {
            "states in bfloat16 of an odd number of elements; the engine keeps them in float32".to_owned()
        } else if heads.key_dim > 128 || heads.value_dim > 1024 || heads.conv < 2 {
            format!(
                "heads of {} and {} elements with a convolution of {}; the engine runs up to 128 and 1024, and from 2",
                heads.key_dim, heads.value_dim, heads.conv
            )
        } else {
            return Ok(heads);
        };
        Err(EngineError::Config(reason))
    }
}

/// The type of states; f32 if nothing says it.
fn state_type(text: Fields<'_>) -> Result<StateType> {
    let Some(name) = text.text(STATE_TYPE) else { return Ok(StateType::F32) };
    let found = StateType::ALL.into_iter().find(|state| state.config_name() == name);
    found.ok_or_else(|| {
        EngineError::Config(format!(
            "{STATE_TYPE} is {name:?}; the engine keeps states in float32 or bfloat16"
        ))
    })
}

impl Experts {
    fn read(text: Fields<'_>) -> Result<Self> {
        Ok(Self {
            count: text.number("num_experts")?,
            chosen: text.number("num_experts_per_tok")?,
            intermediate: text.number("moe_intermediate_size")?,
            shared_intermediate: text.number("shared_expert_intermediate_size")?,
        })
    }
}

impl Rotary {
    /// Of `rope_parameters`, or of `rope_theta` and `rope_scaling` as older configurations have them.
    fn read(text: Fields<'_>, head_dim: u32, is_qwen_3_5: bool) -> Result<Self> {
        let parameters = text.optional("rope_parameters").or(text.optional("rope_scaling")).map(Fields);
        let number = |name: &str, default: f64| {
            let given =
                parameters.map(|parameters| parameters.float_or(name, f64::NAN)).filter(|x| !x.is_nan());
            given.unwrap_or_else(|| text.float_or(name, default))
        };
        let factor = number("partial_rotary_factor", if is_qwen_3_5 { 0.25 } else { 1.0 });
        let dim = (f64::from(head_dim) * factor) as u32;
        let theta = number("rope_theta", 1e4);
        let frequencies = (0..dim / 2).map(|i| theta.powf(-2.0 * f64::from(i) / f64::from(dim)));
        let kind = parameters.and_then(|parameters| parameters.text("rope_type").or(parameters.text("type")));
        let frequencies = match kind {
            None | Some("default" | "mrope") => frequencies.collect(),
            Some("linear") => frequencies.map(|f| f / number("factor", 1.0)).collect(),
            Some("llama3") => {
                let (low, high) = (number("low_freq_factor", 1.0), number("high_freq_factor", 4.0));
                let (factor, before) =
                    (number("factor", 8.0), number("original_max_position_embeddings", 8192.0));
                // The slow frequencies are divided by the factor, the fast ones are kept.
                let scaled = |f: f64| {
                    let turns = before * f / std::f64::consts::TAU;
                    let kept = ((turns - low) / (high - low)).clamp(0.0, 1.0);
                    kept * f + (1.0 - kept) * f / factor
                };
                frequencies.map(scaled).collect()
            }
            Some(other) => {
                return Err(EngineError::Config(format!(
                    "rope_type is {other:?}; the engine computes default, linear and llama3"
                )));
            }
        };
        let pairing =
            if text.flag_or("rope_interleaved", false) { Pairing::Neighbors } else { Pairing::Halves };
        Ok(Self { dim, pairing, frequencies })
    }

    /// Cosines, then sines, of each position.
    pub(crate) fn table(&self, positions: u32) -> Vec<f32> {
        let row = |position: u32| {
            let angles = self.frequencies.iter().map(move |frequency| f64::from(position) * frequency);
            angles.clone().map(|angle| angle.cos() as f32).chain(angles.map(|angle| angle.sin() as f32))
        };
        (0..positions).flat_map(row).collect()
    }
}
