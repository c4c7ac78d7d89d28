//! `config.json`, flat or under `text_config`.

use serde_json::Value;
use warpwright_kernels::rope::Pairing;
use warpwright_kernels::rows::Gain;

use crate::data_type::StateType;
use crate::error::{EngineError, Result};

/// A family of models.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Family {
    /// Llama 2 and 3, SmolLM2, Mistral.
    Llama,
    /// Llama with a bias of Q, K and V.
    Qwen2,
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
    /// What cosines and sines are multiplied by.
    pub(crate) scale: f64,
    /// Positions that a scaling extends the model to; 0 where it says none.
    pub(crate) extended: u32,
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

    /// A number from 1 to [`MOST`].
    fn number_or(&self, name: &str, default: Option<u32>) -> Result<u32> {
        let Some(value) = self.optional(name) else {
            return default.ok_or_else(|| EngineError::Config(format!("{name} is missing")));
        };
        let number = value.as_u64().and_then(|number| u32::try_from(number).ok());
        number.filter(|number| (1..=MOST).contains(number)).ok_or_else(|| unexpected(name, value, NUMBERS))
    }

    /// A number above 0.
    fn float_or(&self, name: &str, default: f64) -> Result<f64> {
        let Some(value) = self.optional(name) else { return Ok(default) };
        let number = value.as_f64().filter(|number| *number > 0.0 && number.is_finite());
        number.ok_or_else(|| unexpected(name, value, "a number above 0"))
    }

    fn flag_or(&self, name: &str, default: bool) -> Result<bool> {
        let Some(value) = self.optional(name) else { return Ok(default) };
        value.as_bool().ok_or_else(|| unexpected(name, value, "true or false"))
    }

    fn text(&self, name: &str) -> Result<Option<&'l str>> {
        let Some(value) = self.optional(name) else { return Ok(None) };
        value.as_str().map(Some).ok_or_else(|| unexpected(name, value, "a text"))
    }

    /// A value that is read from an object of the configuration.
    fn fields(&self, name: &str) -> Result<Option<Self>> {
        let Some(value) = self.optional(name) else { return Ok(None) };
        if value.is_object() { Ok(Some(Fields(value))) } else { Err(unexpected(name, value, "an object")) }
    }
}

/// The largest extent. Products of two stay within what tensors are indexed by on the host.
const MOST: u32 = 1 << 24;
const NUMBERS: &str = "a number from 1 to 16777216";
/// Layers at most.
const MOST_LAYERS: u32 = 4096;

fn unexpected(name: &str, value: &Value, expected: &str) -> EngineError {
    let mut found = value.to_string();
    if let Some((end, _)) = found.char_indices().nth(40) {
        found.replace_range(end.., "...");
    }
    EngineError::Config(format!("{name} is {found}; expected {expected}"))
}

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
        let family = match model_type {
            "llama" | "mistral" => Family::Llama,
            "qwen2" => Family::Qwen2,
            "qwen3" => Family::Qwen3,
            "qwen3_5" | "qwen3_5_text" => Family::Qwen35,
            "qwen3_5_moe" | "qwen3_5_moe_text" => Family::Qwen35Moe,
            other => {
                return Err(EngineError::Config(format!(
                    "model_type is {other:?}; the engine runs llama, mistral, qwen2, qwen3, qwen3_5 and \
                     qwen3_5_moe"
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
        columns("heads", heads, head_dim)?;
        let delta = is_qwen_3_5.then(|| DeltaHeads::read(text)).transpose()?;
        let experts = (family == Family::Qwen35Moe).then(|| Experts::read(text)).transpose()?;
        // A flag of a VL model stands at the root.
        let is_tied = text.flag_or("tie_word_embeddings", root.flag_or("tie_word_embeddings", false)?)?;
        let is_zero_centred = text.flag_or("zero_centred_norms", is_qwen_3_5)?;
        // Up to the window, every token sees all tokens before it.
        let window =
            if model_type == "mistral" { text.number_or("sliding_window", Some(MOST))? } else { MOST };
        let vocabulary = text.number("vocab_size")? as usize;
        let rotary = Rotary::read(text, head_dim, is_qwen_3_5)?;
        let positions = text.number_or("max_position_embeddings", Some(32768))?.max(rotary.extended);
        Ok(Self {
            family,
            hidden: hidden as usize,
            vocabulary,
            head_rows: vocabulary,
            layers: layers(text, is_qwen_3_5, window < MOST)?,
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
            ends: ends(text.optional("eos_token_id").or(root.optional("eos_token_id"))),
        })
    }
}

impl Config {
    /// With the MTP layer, which models other than Qwen 3.5 lack.
    pub(crate) fn with_mtp(self) -> Result<Self> {
        match self.family {
            Family::Qwen35 | Family::Qwen35Moe => Ok(Self { has_mtp: true, ..self }),
            Family::Llama | Family::Qwen2 | Family::Qwen3 => Err(EngineError::Config(
                "the model has no MTP layer to draft tokens; give 0 drafts".to_owned(),
            )),
        }
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
fn layers(text: Fields<'_>, is_qwen_3_5: bool, has_window: bool) -> Result<Vec<Mixer>> {
    let count = text.number("num_hidden_layers")?;
    if count > MOST_LAYERS {
        let reason = format!("num_hidden_layers is {count}; the engine runs up to {MOST_LAYERS}");
        return Err(EngineError::Config(reason));
    }
    let Some(types) = text.optional("layer_types").and_then(Value::as_array) else {
        let interval = if is_qwen_3_5 { text.number_or("full_attention_interval", Some(4))? } else { 1 };
        let of = |layer: u32| {
            if (layer + 1).is_multiple_of(interval) { Mixer::Attention } else { Mixer::DeltaNet }
        };
        return Ok((0..count).map(of).collect());
    };
    let of = |kind: &Value| match kind.as_str() {
        Some("full_attention") => Ok(Mixer::Attention),
        Some("sliding_attention") if has_window => Ok(Mixer::Attention),
        Some("linear_attention") if is_qwen_3_5 => Ok(Mixer::DeltaNet),
        _ => {
            let all = if is_qwen_3_5 { "full_attention or linear_attention" } else { "full_attention" };
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

impl Rotary {
    /// Of `rope_parameters`, or of `rope_theta` and `rope_scaling` as older configurations have them.
    fn read(text: Fields<'_>, head_dim: u32, is_qwen_3_5: bool) -> Result<Self> {
        let parameters = match text.fields("rope_parameters")? {
            Some(parameters) => Some(parameters),
            None => text.fields("rope_scaling")?,
        };
        let number =
            |name: &str, default: f64| match parameters.filter(|fields| fields.optional(name).is_some()) {
                Some(fields) => fields.float_or(name, default),
                None => text.float_or(name, default),
            };
        let factor = number("partial_rotary_factor", if is_qwen_3_5 { 0.25 } else { 1.0 })?;
        let dim = text.number_or("rotary_dim", Some((f64::from(head_dim) * factor) as u32))?;
        if dim > head_dim || !dim.is_multiple_of(2) {
            return Err(EngineError::Config(format!(
                "{dim} columns of {head_dim} are rotated; the engine rotates an even number of a head's"
            )));
        }
        let theta = number("rope_theta", 1e4)?;
        let frequencies = (0..dim / 2).map(|i| theta.powf(-2.0 * f64::from(i) / f64::from(dim)));
        let kind = match parameters {
            Some(parameters) => parameters.text("rope_type")?.or(parameters.text("type")?),
            None => None,
        };
        // Of GGUF alone.
        let mut scale = number("attention_factor_multiplier", 1.0)?;
        let mut extended = 0;
        let mut frequencies: Vec<f64> = match kind {
            None | Some("default" | "mrope") => frequencies.collect(),
            Some("linear") => {
                let factor = number("factor", 1.0)?;
                frequencies.map(|f| f / factor).collect()
            }
            Some("llama3") => {
                let (low, high) = (number("low_freq_factor", 1.0)?, number("high_freq_factor", 4.0)?);
                let (factor, before) =
                    (number("factor", 8.0)?, number("original_max_position_embeddings", 8192.0)?);
                if low >= high {
                    let reason =
                        format!("low_freq_factor is {low}; expected less than high_freq_factor, {high}");
                    return Err(EngineError::Config(reason));
                }
                // The slow frequencies are divided by the factor, the fast ones are kept.
                let scaled = |f: f64| {
                    let turns = before * f / std::f64::consts::TAU;
                    let kept = ((turns - low) / (high - low)).clamp(0.0, 1.0);
                    kept * f + (1.0 - kept) * f / factor
                };
                frequencies.map(scaled).collect()
            }
            Some("yarn") => {
                let truncates = parameters.map_or(Ok(true), |fields| fields.flag_or("truncate", true))?;
                let yarn = Yarn::read(text, truncates, &number)?;
                scale *= yarn.scale;
                extended = (yarn.before * yarn.factor).min(f64::from(MOST)) as u32;
                frequencies.enumerate().map(|(i, f)| yarn.scaled(i, f, theta, dim)).collect()
            }
            Some(other) => {
                return Err(EngineError::Config(format!(
                    "rope_type is {other:?}; the engine computes default, linear, llama3 and yarn"
                )));
            }
        };
        if let Some(divisors) = parameters.and_then(|fields| fields.optional("frequency_divisors")) {
            divide(&mut frequencies, divisors)?;
        }
        let pairing =
            if text.flag_or("rope_interleaved", false)? { Pairing::Neighbors } else { Pairing::Halves };
        Ok(Self { dim, pairing, frequencies, scale, extended })
    }

    /// Cosines, then sines, of each position.
    pub(crate) fn table(&self, positions: u32) -> Vec<f32> {
        let row = |position: u32| {
            let angles = self.frequencies.iter().map(move |frequency| f64::from(position) * frequency);
            let scaled = |value: f64| (self.scale * value) as f32;
            angles
                .clone()
                .map(move |angle| scaled(angle.cos()))
                .chain(angles.map(move |angle| scaled(angle.sin())))
        };
        (0..positions).flat_map(row).collect()
    }
}

/// YaRN (arXiv 2309.00071): pairs that turn often keep their frequency, those that turn seldom have it divided, and
/// what is between is mixed. As transformers and llama.cpp compute it.
struct Yarn {
    factor: f64,
    /// Positions of the model before it was extended.
    before: f64,
    /// Turns within these positions from which a frequency is kept, and up to which it is divided.
    turns: (f64, f64),
    /// Whether the bounds between pairs are whole pairs.
    truncates: bool,
    /// What cosines and sines are multiplied by.
    scale: f64,
}

impl Yarn {
    fn read(text: Fields<'_>, truncates: bool, number: &impl Fn(&str, f64) -> Result<f64>) -> Result<Self> {
        let positions = f64::from(text.number_or("max_position_embeddings", Some(32768))?);
        let before = number("original_max_position_embeddings", positions)?;
        let factor = number("factor", positions / before)?;
        let turns = (number("beta_fast", 32.0)?, number("beta_slow", 1.0)?);
        if turns.0 <= turns.1 {
            let reason = format!("beta_fast is {}; expected more than beta_slow, {}", turns.0, turns.1);
            return Err(EngineError::Config(reason));
        }
        let of = |multiplier: f64| if factor <= 1.0 { 1.0 } else { 0.1 * multiplier * factor.ln() + 1.0 };
        // 0 stands for a multiplier that is not there.
        let (own, all) = (number("mscale", 0.0)?, number("mscale_all_dim", 0.0)?);
        let default = if own > 0.0 && all > 0.0 { of(own) / of(all) } else { of(1.0) };
        Ok(Self { factor, before, turns, truncates, scale: number("attention_factor", default)? })
    }

    /// The frequency of a pair.
    fn scaled(&self, pair: usize, frequency: f64, theta: f64, dim: u32) -> f64 {
        let dim = f64::from(dim);
        // The pair that turns so often within the positions.
        let pair_of =
            |turns: f64| dim * (self.before / (turns * std::f64::consts::TAU)).ln() / (2.0 * theta.ln());
        let (mut low, mut high) = (pair_of(self.turns.0), pair_of(self.turns.1));
        if self.truncates {
            (low, high) = (low.floor(), high.ceil());
        }
        let (low, high) = (low.max(0.0), high.min(dim - 1.0));
        let divided = ((pair as f64 - low) / (high - low).max(1e-3)).clamp(0.0, 1.0);
        (1.0 - divided) * frequency + divided * frequency / self.factor
    }
}

/// Divides each frequency by its own factor.
fn divide(frequencies: &mut [f64], divisors: &Value) -> Result<()> {
    let divisors: Option<Vec<f64>> =
        divisors.as_array().and_then(|all| all.iter().map(Value::as_f64).collect());
    let divisors = divisors.filter(|all| all.len() == frequencies.len() && all.iter().all(|one| *one > 0.0));
    let divisors = divisors.ok_or_else(|| {
        EngineError::Config(format!(
            "rope_freqs.weight has other than {} numbers above 0, one for each pair of rotated columns",
            frequencies.len()
        ))
    })?;
    frequencies.iter_mut().zip(divisors).for_each(|(frequency, divisor)| *frequency /= divisor);
    Ok(())
}
