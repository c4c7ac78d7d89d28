//! The fields of a conversation, and the answers that they begin.

use std::sync::Arc;

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value};

use super::App;
use super::answer::Answer;
use super::encode::{Client, encode};
use super::error::ApiError;
use super::fields::SamplingFields;
use super::generate::Generate;
use crate::guide::tool_calls;
use crate::template::Conversation;
use crate::text::{ParserOptions, Tool};

/// The fields of a conversation.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
pub(super) struct ChatFields {
    /// The messages, the oldest first: `{"role": "user", "content": "Hello"}`.
    pub(super) messages: Vec<Map<String, Value>>,
    /// The most tokens of the answer. Left out, as many as the model's files
    /// recommend, else what the prompt leaves of the context.
    pub(super) max_completion_tokens: Option<u32>,
    /// The old name of `max_completion_tokens`.
    pub(super) max_tokens: Option<u32>,
    /// Whether log-probabilities are listed.
    pub(super) logprobs: Option<bool>,
    /// The number of alternatives beside each.
    pub(super) top_logprobs: Option<u32>,
    /// The functions that the model may call.
    pub(super) tools: Option<Vec<Value>>,
    /// `none`, `auto`, `required`, or a function.
    pub(super) tool_choice: Option<Value>,
    /// Whether one answer may have several calls. True if left out.
    pub(super) parallel_tool_calls: Option<bool>,
    /// Variables of the chat template, such as `{"enable_thinking": false}`.
    pub(super) chat_template_kwargs: Option<Map<String, Value>>,
    /// Whether the prompt ends where the assistant begins. True if left out.
    pub(super) add_generation_prompt: Option<bool>,
    /// Whether the last message is the beginning of the answer.
    pub(super) continue_final_message: Option<bool>,
    /// Whether reasoning is in the answer. True if left out.
    pub(super) include_reasoning: Option<bool>,
}

const ROLES: [&str; 5] = ["system", "developer", "user", "assistant", "tool"];

/// What the model may do with its tools.
enum ToolChoice {
    None,
    /// These may be called.
    Auto(Vec<Tool>),
    /// One of these has to be called.
    Required(Vec<Tool>),
    /// This one has to be called, once.
    Named(Tool),
}

impl ChatFields {
    /// The prompt.
    pub(super) fn prompt(&self, app: &App) -> Result<String, ApiError> {
        let continues = self.continue_final_message.unwrap_or(false);
        let conversation = Conversation {
            messages: self.checked_messages(app.model.template.separator())?,
            tools: if matches!(self.choice()?, ToolChoice::None) {
                vec![]
            } else {
                self.tools.clone().unwrap_or_default()
            },
            add_generation_prompt: self.add_generation_prompt.unwrap_or(true) && !continues,
            continue_final_message: continues,
            variables: self.chat_template_kwargs.clone().unwrap_or_default(),
        };
        Ok(app.model.template.render(&conversation)?)
    }

    /// The messages, with contents as text and roles that templates know.
    fn checked_messages(&self, separator: &str) -> Result<Vec<Value>, ApiError> {
        let wrong = |i: usize, what: &str| {
            Err(ApiError::invalid(None, format!("Message {i} {what}.")).at(&format!("messages[{i}]")))
        };
        if self.messages.is_empty() {
            return Err(ApiError::invalid("messages", "`messages` is empty."));
        }
        let mut messages = Vec::new();
        for (i, message) in self.messages.iter().enumerate() {
            let mut message = message.clone();
            match message.get("role").and_then(Value::as_str) {
                Some("developer") => drop(message.insert("role".to_owned(), "system".into())),
                Some(role) if ROLES.contains(&role) => {}
                _ => return wrong(i, &format!("has no role out of {}", ROLES.join(", "))),
            }
            let content = match message.get("content") {
                None | Some(Value::Null) if message["role"] == "assistant" => Some(String::new()),
                Some(Value::String(text)) => Some(text.clone()),
                Some(Value::Array(parts)) => {
                    let texts: Option<Vec<&str>> = parts.iter().map(|part| part["text"].as_str()).collect();
                    texts.map(|texts| texts.join(separator))
                }
                _ => return wrong(i, "has no content"),
            };
            let Some(content) = content else {
                return wrong(i, "has a part that is not text: this model reads text only");
            };
            message.insert("content".to_owned(), content.into());
            for (j, call) in
                message.get_mut("tool_calls").and_then(Value::as_array_mut).into_iter().flatten().enumerate()
            {
                if !has_arguments(call) {
                    let message = "The arguments of a call are not a JSON object, as text.";
                    let param = format!("messages[{i}].tool_calls[{j}].function.arguments");
                    return Err(ApiError::invalid(None, message).at(&param));
                }
            }
            messages.push(Value::Object(message));
        }
        Ok(messages)
    }

    fn tools(&self) -> Result<Vec<Tool>, ApiError> {
        let tools = self.tools.iter().flatten().enumerate();
        tools
            .map(|(i, tool)| {
                if let Some(kind) = tool["type"].as_str().filter(|kind| *kind != "function") {
                    let message = format!(
                        "Tool {i} is of type {kind:?}: hosted tools are not supported, give tools of the type `function`."
                    );
                    return Err(ApiError::invalid(None, message).at(&format!("tools[{i}].type")));
                }
                let function = &tool["function"];
                let name = function["name"].as_str().filter(|name| {
                    !name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c))
                });
                let Some(name) = name else {
                    let message =
                        format!("Tool {i} has no function with a name of letters, digits, `_`, `-` and `.`.");
                    return Err(ApiError::invalid(None, message).at(&format!("tools[{i}]")));
                };
                let parameters = function["parameters"].clone();
                if !parameters.is_object() && !parameters.is_null() {
                    let message = format!("The `parameters` of tool {i} are no schema: give an object.");
                    return Err(ApiError::invalid(None, message).at(&format!("tools[{i}]")));
                }
                Ok(Tool { name: name.to_owned(), parameters })
            })
            .collect()
    }

    fn choice(&self) -> Result<ToolChoice, ApiError> {
        let tools = self.tools()?;
        let wrong = |message: &str| Err(ApiError::invalid("tool_choice", message));
        if let Some(allowed) = self.tool_choice.as_ref().filter(|choice| choice["type"] == "allowed_tools") {
            // The chat endpoint has them one level down, the responses endpoint beside the type.
            let allowed = allowed.get("allowed_tools").unwrap_or(allowed);
            let names = allowed["tools"].as_array().into_iter().flatten().map(function_name);
            let of_name =
                |name: Option<&str>| tools.iter().find(|tool| Some(tool.name.as_str()) == name).cloned();
            let chosen: Option<Vec<Tool>> = names.map(of_name).collect();
            return match (chosen.filter(|chosen| !chosen.is_empty()), allowed["mode"].as_str()) {
                (Some(chosen), Some("auto")) => Ok(ToolChoice::Auto(chosen)),
                (Some(chosen), Some("required")) => Ok(ToolChoice::Required(chosen)),
                _ => wrong(
                    "`allowed_tools` are names of `tools`, at least one, and the mode `auto` or `required`.",
                ),
            };
        }
        match &self.tool_choice {
            Some(Value::String(choice)) if choice == "none" => Ok(ToolChoice::None),
            Some(Value::String(choice)) if choice == "required" => match tools.is_empty() {
                true => wrong("`tool_choice` is required, but there are no tools."),
                false => Ok(ToolChoice::Required(tools)),
            },
            None | Some(Value::Null) if tools.is_empty() => Ok(ToolChoice::None),
            None | Some(Value::Null) => Ok(ToolChoice::Auto(tools)),
            Some(Value::String(choice)) if choice == "auto" => {
                Ok(if tools.is_empty() { ToolChoice::None } else { ToolChoice::Auto(tools) })
            }
            Some(named) => {
                let name = function_name(named);
                match tools.into_iter().find(|tool| Some(tool.name.as_str()) == name) {
                    Some(tool) => Ok(ToolChoice::Named(tool)),
                    None => wrong("`tool_choice` is none, auto, required, or the name of one of the tools."),
                }
            }
        }
    }

    /// The number of alternatives to list, if log-probabilities are wanted.
    fn log_probabilities(&self, app: &App) -> Result<Option<u32>, ApiError> {
        app.check_alternatives("top_logprobs", self.top_logprobs)?;
        match (self.logprobs.unwrap_or(false), self.top_logprobs) {
            (true, top) => Ok(Some(top.unwrap_or(0))),
            (false, None | Some(0)) => Ok(None),
            (false, Some(_)) => Err(ApiError::invalid("top_logprobs", "`top_logprobs` needs `logprobs`.")),
        }
    }

    /// Begins the answers. Returns them and the tokens of the prompt.
    pub(super) fn start(
        &self,
        app: &Arc<App>,
        sampling: &SamplingFields,
        client: &Client,
    ) -> Result<(Vec<Answer>, usize), ApiError> {
        sampling.check(app)?;
        let prompt = self.prompt(app)?;
        let thinks = app.model.thinks();
        let starts_in_reasoning = thinks && prompt.trim_end().ends_with("<think>");
        let choice = self.choice()?;
        let one_call = matches!(choice, ToolChoice::Named(_)) || self.parallel_tool_calls == Some(false);
        let form = app.model.template.calls();
        let calls = |tools: &[Tool], several: bool| {
            let grammar = tool_calls(form, tools, several, &app.model.tokenizer);
            grammar
                .map(|grammar| Some(("tools", grammar)))
                .map_err(|error| ApiError::grammar("tools", &error))
        };
        let grammar = match (&choice, sampling.grammar()?) {
            (ToolChoice::Required(tools), None) => calls(tools, !one_call)?,
            (ToolChoice::Named(tool), None) => calls(std::slice::from_ref(tool), false)?,
            (ToolChoice::Required(_) | ToolChoice::Named(_), Some(_)) => {
                let message =
                    "`tool_choice` and `response_format` both say what the answer has to be: give one.";
                return Err(ApiError::invalid("tool_choice", message));
            }
            (_, grammar) => grammar,
        };
        let tools = match choice {
            ToolChoice::None => vec![],
            ToolChoice::Auto(tools) | ToolChoice::Required(tools) => tools,
            ToolChoice::Named(tool) => vec![tool],
        };
        let of_messages = |error: ApiError| error.or_at("messages");
        let prompt =
            encode(app, &prompt, false, app.service.limits().context, client).map_err(of_messages)?;
        let length = prompt.len();
        let generate = Generate {
            prompts: vec![prompt],
            max_tokens: self.max_completion_tokens.or(self.max_tokens),
            log_probabilities: self.log_probabilities(app)?,
            prompt_log_probabilities: None,
            grammar,
            parser: ParserOptions {
                starts_in_reasoning,
                reasoning: thinks,
                tools: tools.into(),
                form: form.clone(),
            },
            one_call,
        };
        if generate.max_tokens == Some(0) {
            let message = "The answer may have no token: allow at least 1.";
            let is_old = self.max_completion_tokens.is_none();
            return Err(ApiError::invalid(
                if is_old { "max_tokens" } else { "max_completion_tokens" },
                message,
            ));
        }
        Ok((generate.start(app, sampling).map_err(of_messages)?, length))
    }
}

/// The name of a function, one level down as the chat endpoint has it or not.
fn function_name(object: &Value) -> Option<&str> {
    object.pointer("/function/name").or_else(|| object.get("name")).and_then(Value::as_str)
}

/// Whether the arguments of a call are an object, or one as text. None are made an empty one.
fn has_arguments(call: &mut Value) -> bool {
    let Some(function) = call.get_mut("function").and_then(Value::as_object_mut) else { return true };
    let is_none = match function.get("arguments") {
        None | Some(Value::Null) => true,
        Some(Value::String(text)) => text.trim().is_empty(),
        Some(_) => false,
    };
    if is_none {
        function.insert("arguments".to_owned(), "{}".into());
    }
    match &function["arguments"] {
        Value::String(text) => serde_json::from_str::<Map<String, Value>>(text).is_ok(),
        other => other.is_object(),
    }
}
