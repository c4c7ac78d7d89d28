//! `config.json`, flat or under `text_config`.

mod family;
mod fields;
mod rotary;

use serde_json::Value;
use warpwright_kernels::rows::Gain;

use crate::data_type::StateType;
use crate::error::{EngineError, Result};

pub(crate) use family::{FAMILIES, Family};
use fields::{Fields, MOST, unexpected};
use rotary::Rotary;

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

/// A model's configuration.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Config {
    pub(crate) family: &'static Family,
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
    /// What normalized values are multiplied by, but for the norm of the delta rule's output.
    pub(crate) gain: Gain,
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

/// Layers at most.
const MOST_LAYERS: u32 = 4096;

/// Columns of all heads.
fn columns(what: &str, heads: u32, of_head: u32) -> Result<u32> {
    let columns = heads.checked_mul(of_head).filter(|columns| *columns <= MOST);
    columns.ok_or_else(|| {
        EngineError::Config(format!("{heads} {what} of {of_head} elements are more than {MOST} elements"))
    })
}

impl Config {
    /// Reads a configuration.
    pub(crate) fn read(json: &Value) -> Result<Self> {
        let root = Fields(json);
        let text = root.fields("text_config")?.unwrap_or(root);
        let model_type = match text.text("model_type")? {
            Some(model_type) => model_type,
            None => root.text("model_type")?.unwrap_or_default(),
        };
        let family = Family::named(model_type)?;
        refuse_unsupported(text)?;
        let (hidden, heads) = (text.number("hidden_size")?, text.number("num_attention_heads")?);
        let key_heads = text.number_or("num_key_value_heads", Some(heads))?;
        if !heads.is_multiple_of(key_heads) {
            return Err(EngineError::Config(format!(
                "{heads} heads cannot share {key_heads} key heads equally"
            )));
        }
        let default_dim = family.head_dim.unwrap_or((hidden / heads).max(1));
        let head_dim = text.number_or("head_dim", Some(default_dim))?;
        columns("heads", heads, head_dim)?;
        let delta = family.has_delta().then(|| DeltaHeads::read(text)).transpose()?;
        let experts = family.has_experts.then(|| Experts::read(text)).transpose()?;
        // A flag of a VL model stands at the root.
        let is_tied = text.flag_or("tie_word_embeddings", root.flag_or("tie_word_embeddings", false)?)?;
        let is_zero_centred = text.flag_or("zero_centred_norms", family.gain == Gain::ZeroCentred)?;
        // Up to the window, every token sees all tokens before it.
        let window = if family.has_window { text.number_or("sliding_window", Some(MOST))? } else { MOST };
        let vocabulary = text.number("vocab_size")? as usize;
        let rotary = Rotary::read(text, family, head_dim)?;
        let positions = text.number_or("max_position_embeddings", Some(32768))?.max(rotary.extended);
        Ok(Self {
            family,
            hidden: hidden as usize,
            vocabulary,
            head_rows: vocabulary,
            layers: layers(text, family, window < MOST)?,
            heads,
            key_heads,
            head_dim,
            rotary,
            epsilon: text.float_or("rms_norm_eps", 1e-6)? as f32,
            gain: if is_zero_centred { Gain::ZeroCentred } else { Gain::Weight },
            is_tied,
            intermediate: if experts.is_some() { 0 } else { text.number("intermediate_size")? },
            delta,
            experts,
            has_mtp: false,
            context: positions.min(window),
            ends: ends(text.optional("eos_token_id").or(root.optional("eos_token_id")))?,
        })
    }
}

impl Config {
    /// With the MTP layer, if the family has one.
    pub(crate) fn with_mtp(self) -> Result<Self> {
        if self.family.has_mtp {
            return Ok(Self { has_mtp: true, ..self });
        }
        Err(EngineError::Config("the model has no MTP layer to draft tokens; give 0 drafts".to_owned()))
    }
}

/// Refuses what would change results and is not computed.
fn refuse_unsupported(text: Fields<'_>) -> Result<()> {
    for name in ["attention_bias", "mlp_bias", "use_sliding_window"] {
        if text.flag_or(name, false)? {
            return Err(EngineError::Config(format!("{name} is true; the engine runs models without it")));
        }
    }
    match text.text("hidden_act")? {
        None | Some("silu") => Ok(()),
        Some(other) => Err(EngineError::Config(format!("hidden_act is {other:?}; the engine computes silu"))),
    }
}

/// The mixers: as `layer_types` says, else every `full_attention_interval`-th is attention. Attention has a window only
/// where sequences end with it.
fn layers(text: Fields<'_>, family: &Family, has_window: bool) -> Result<Vec<Mixer>> {
    let count = text.number("num_hidden_layers")?;
    if count > MOST_LAYERS {
        let reason = format!("num_hidden_layers is {count}; the engine runs up to {MOST_LAYERS}");
        return Err(EngineError::Config(reason));
    }
    let Some(types) = text.optional("layer_types").and_then(Value::as_array) else {
        let interval = match family.attention_interval {
            1 => 1,
            interval => text.number_or("full_attention_interval", Some(interval))?,
        };
        let of = |layer: u32| {
            if (layer + 1).is_multiple_of(interval) { Mixer::Attention } else { Mixer::DeltaNet }
        };
        return Ok((0..count).map(of).collect());
    };
    let of = |kind: &Value| match kind.as_str() {
        Some("full_attention") => Ok(Mixer::Attention),
        Some("sliding_attention") if has_window => Ok(Mixer::Attention),
        Some("linear_attention") if family.has_delta() => Ok(Mixer::DeltaNet),
        _ => {
            let all =
                if family.has_delta() { "full_attention or linear_attention" } else { "full_attention" };
            Err(unexpected("an entry of layer_types", kind, all))
        }
    };
    let layers: Vec<Mixer> = types.iter().map(of).collect::<Result<_>>()?;
    if layers.len() != count as usize {
        let reason = format!("layer_types has {} entries, num_hidden_layers is {count}", layers.len());
        return Err(EngineError::Config(reason));
    }
    Ok(layers)
}

/// A token or a list of tokens.
fn ends(value: Option<&Value>) -> Result<Vec<u32>> {
    let token = |value: &Value| {
        let token = value.as_u64().and_then(|token| u32::try_from(token).ok());
        token.ok_or_else(|| unexpected("eos_token_id", value, "a token or a list of tokens"))
    };
    match value {
        Some(Value::Array(tokens)) => tokens.iter().map(token).collect(),
        Some(value) => Ok(vec![token(value)?]),
        None => Ok(vec![]),
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
        let all = 2 * u64::from(columns("key heads", heads.keys, heads.key_dim)?)
            + u64::from(columns("value heads", heads.values, heads.value_dim)?);
        let reason = if all > MOST.into() {
            format!("the heads of the delta rule have {all} elements; the engine runs up to {MOST}")
        } else if !heads.values.is_multiple_of(heads.keys) {
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
    let Some(name) = text.text(STATE_TYPE)? else { return Ok(StateType::F32) };
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
