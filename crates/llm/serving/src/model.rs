//! What a model brings beside its weights: tokenizer, chat template, and the tokens that end an
//! answer.

use std::path::Path;

use serde_json::Value;
use warpwright_llm_step::Token;

use crate::defaults::{Defaults, DefaultsError};
use crate::template::{ChatTemplate, TemplateError};
use crate::tokenizer::{GgufVocabulary, Tokenizer, TokenizerError};

/// A model as its users see it.
pub struct Model {
    /// The name in the API.
    pub name: String,
    /// The tokenizer.
    pub tokenizer: Tokenizer,
    /// The chat template.
    pub template: ChatTemplate,
    /// The tokens that end an answer.
    pub stops: Vec<Token>,
    /// What the model's files say of sampling.
    pub defaults: Defaults,
}

/// A file of the model is missing or wrong.
#[derive(Debug, thiserror::Error)]
pub enum ModelError {
    /// The tokenizer.
    #[error(transparent)]
    Tokenizer(#[from] TokenizerError),
    /// The chat template.
    #[error(transparent)]
    Template(#[from] TemplateError),
    /// What the files recommend.
    #[error(transparent)]
    Defaults(#[from] DefaultsError),
    /// A file of JSON.
    #[error("cannot read `{path}`: {reason}")]
    File {
        /// The file.
        path: String,
        /// Why.
        reason: String,
    },
}

/// Tokens that end an answer in every model that has them: Qwen's generation stops at both of its
/// own.
const ENDS: [&str; 6] =
    ["<|im_end|>", "<|endoftext|>", "<|eot_id|>", "<|eom_id|>", "<|end_of_text|>", "</s>"];

impl Model {
    /// From the folder of a checkpoint: `tokenizer.json`, and if they are there
    /// `tokenizer_config.json`, `chat_template.jinja` and `generation_config.json`.
    pub fn from_folder(name: &str, folder: &Path) -> Result<Model, ModelError> {
        let tokenizer = Tokenizer::from_file(&folder.join("tokenizer.json"))?;
        let config = read_json(&folder.join("tokenizer_config.json"))?;
        let generation = generation_config(folder)?;
        let named = |name: &str| named_template(&config["chat_template"], name);
        let source = read_text(&folder.join("chat_template.jinja"))?.or_else(|| named("default"));
        let with_tools = read_text(&folder.join("additional_chat_templates/tool_use.jinja"))?
            .or_else(|| named("tool_use"));
        let text = |key: &str| {
            let token = &config[key];
            token.as_str().or(token["content"].as_str()).unwrap_or_default().to_owned()
        };
        let eos = text("eos_token");
        let mut stops = ends(&generation, folder)?;
        stops.extend(tokenizer.token(&eos));
        let model = Model::new(name, tokenizer, source.as_deref(), &text("bos_token"), &eos, stops)?;
        let model = model.with_tool_template(with_tools.as_deref())?;
        Ok(Model { defaults: Defaults::from_generation_config(&generation)?, ..model })
    }

    /// From the metadata of a GGUF file: the vocabulary and `tokenizer.chat_template`.
    pub fn from_gguf(
        name: &str,
        vocabulary: &GgufVocabulary,
        template: Option<&str>,
    ) -> Result<Model, ModelError> {
        let text = |token: Option<Token>| {
            let text = token.and_then(|token| vocabulary.tokens.get(token as usize));
            text.map_or("", String::as_str)
        };
        let tokenizer = Tokenizer::from_gguf(vocabulary)?;
        let ends = vocabulary.eos.into_iter().chain(vocabulary.ends.iter().copied()).collect();
        Model::new(name, tokenizer, template, text(vocabulary.bos), text(vocabulary.eos), ends)
    }

    /// From its parts. Without a template, conversations are refused; the tokens that end every model's answers join
    /// `stops`.
    pub fn new(
        name: &str,
        tokenizer: Tokenizer,
        template: Option<&str>,
        bos: &str,
        eos: &str,
        mut stops: Vec<Token>,
    ) -> Result<Model, ModelError> {
        stops.extend(ENDS.iter().filter_map(|text| tokenizer.token(text)));
        let mut seen = std::collections::HashSet::new();
        stops.retain(|stop| seen.insert(*stop));
        let template = match template {
            Some(source) => ChatTemplate::new(source, bos, eos)?,
            None => ChatTemplate::missing(bos, eos),
        };
        Ok(Model { name: name.to_owned(), tokenizer, template, stops, defaults: Defaults::default() })
    }

    /// With the template that conversations with tools have, if there is one of their own.
    pub fn with_tool_template(self, source: Option<&str>) -> Result<Model, ModelError> {
        let Some(source) = source else { return Ok(self) };
        Ok(Model { template: self.template.with_tool_source(source)?, ..self })
    }

    /// With the tokens that end an answer in the model's own configuration. Of a tokenizer that is larger than the
    /// model, those that the model lacks are left out.
    #[must_use]
    pub fn with_ends(mut self, ends: &[Token], vocabulary: u32) -> Model {
        self.stops.extend_from_slice(ends);
        self.stops.retain(|stop| *stop < vocabulary);
        self
    }

    /// Whether answers may have reasoning.
    pub fn thinks(&self) -> bool {
        self.tokenizer.token("</think>").is_some()
    }

    /// How a conversation is sampled: as the model's files recommend. Where they say nothing, tokens that
    /// are improbable are not drawn, and the answers of a model that does not think have a bound: small
    /// models do not always end.
    pub fn for_chat(&self) -> Defaults {
        let bound = Defaults { max_tokens: (!self.thinks()).then_some(1024), ..Defaults::CHAT };
        self.defaults.or(bound)
    }
}

/// `generation_config.json` of a folder; null if there is none.
///
/// # Errors
/// It cannot be read, or is not JSON.
pub fn generation_config(folder: &Path) -> Result<Value, ModelError> {
    read_json(&folder.join("generation_config.json"))
}

/// The tokens of `generation_config.json` that end an answer.
fn ends(generation: &Value, folder: &Path) -> Result<Vec<Token>, ModelError> {
    let ids = match &generation["eos_token_id"] {
        Value::Null => &[],
        Value::Array(ids) => ids.as_slice(),
        id => std::slice::from_ref(id),
    };
    let token = |id: &Value| {
        id.as_u64().and_then(|id| Token::try_from(id).ok()).ok_or_else(|| ModelError::File {
            path: folder.join("generation_config.json").display().to_string(),
            reason: format!("eos_token_id has {id}; expected a token or a list of tokens"),
        })
    };
    ids.iter().map(token).collect()
}

/// The template of this name in `tokenizer_config.json`, where one alone is the default.
fn named_template(value: &Value, name: &str) -> Option<String> {
    match value {
        Value::String(source) if name == "default" => Some(source.clone()),
        Value::Array(named) => {
            let found = named.iter().find(|named| named["name"] == name)?;
            found["template"].as_str().map(str::to_owned)
        }
        _ => None,
    }
}

/// The text of a file, or `None` if there is no such file.
fn read_text(path: &Path) -> Result<Option<String>, ModelError> {
    match std::fs::read_to_string(path) {
        Ok(text) => Ok(Some(text)),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
        Err(error) => Err(ModelError::File { path: path.display().to_string(), reason: error.to_string() }),
    }
}

/// The JSON of a file, null if there is no such file.
fn read_json(path: &Path) -> Result<Value, ModelError> {
    let Some(text) = read_text(path)? else { return Ok(Value::Null) };
    serde_json::from_str(&text)
        .map_err(|error| ModelError::File { path: path.display().to_string(), reason: error.to_string() })
}
