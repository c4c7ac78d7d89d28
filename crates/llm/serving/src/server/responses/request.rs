//! The fields of a response, as those of a conversation.

use schemars::JsonSchema;
use serde::Deserialize;
use serde_json::{Map, Value, json};

use super::super::chat_request::ChatFields;
use super::super::error::ApiError;

/// The fields of a response.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
pub(in crate::server) struct ResponsesFields {
    /// A text, or items: messages, function calls and their outputs.
    input: Value,
    /// A system message.
    instructions: Option<String>,
    /// The most tokens of the answer.
    max_output_tokens: Option<u32>,
    /// The functions that the model may call.
    tools: Option<Vec<Value>>,
    /// `none`, `auto`, `required`, or a function.
    tool_choice: Option<Value>,
    /// Whether the answer may have several calls. True if left out.
    parallel_tool_calls: Option<bool>,
    /// `{"format": {"type": "json_schema", "schema": ..}}`.
    pub(super) text: Option<Value>,
    /// Not supported: nothing is stored.
    previous_response_id: Option<String>,
    /// Not supported: the client waits for the answer.
    background: Option<bool>,
    /// `message.output_text.logprobs` lists the log-probabilities of the text. Others add nothing.
    include: Option<Vec<String>>,
    /// The number of alternatives beside each log-probability.
    top_logprobs: Option<u32>,
    /// Variables of the chat template.
    chat_template_kwargs: Option<Map<String, Value>>,
}

impl ResponsesFields {
    /// Whether the tokens of the text are listed.
    pub(super) fn lists_log_probabilities(&self) -> Result<bool, ApiError> {
        let include = self.include.iter().flatten();
        let lists = include.into_iter().any(|name| name == "message.output_text.logprobs");
        if self.top_logprobs.is_some_and(|top| top > 0) && !lists {
            let message = "`top_logprobs` needs `include` with `message.output_text.logprobs`.";
            return Err(ApiError::invalid("top_logprobs", message));
        }
        Ok(lists)
    }

    /// The same request as a conversation.
    pub(super) fn chat(self) -> Result<ChatFields, ApiError> {
        if self.previous_response_id.is_some() {
            let message = "`previous_response_id` is not supported, because nothing is stored: send the whole conversation.";
            return Err(ApiError::invalid("previous_response_id", message));
        }
        if self.background.unwrap_or(false) {
            return Err(ApiError::invalid("background", "`background` is not supported."));
        }
        let lists = self.lists_log_probabilities()?;
        let mut messages: Vec<Map<String, Value>> = Vec::new();
        messages.extend(self.instructions.map(|text| message("system", text.into())));
        match self.input {
            Value::String(text) => messages.push(message("user", text.into())),
            Value::Array(items) => {
                for (i, item) in items.into_iter().enumerate() {
                    add_item(&mut messages, i, item)?;
                }
            }
            _ => return Err(ApiError::invalid("input", "`input` is neither a text nor a list of items.")),
        }
        // Functions are one level deeper in a conversation.
        let tools = self.tools.map(|tools| {
            let wrap = |tool: Value| {
                // Hosted tools stay as they are, and are refused by their type.
                let is_hosted = tool["type"].as_str().is_some_and(|kind| kind != "function");
                if is_hosted || tool.get("function").is_some() {
                    tool
                } else {
                    json!({ "type": "function", "function": tool })
                }
            };
            tools.into_iter().map(wrap).collect()
        });
        Ok(ChatFields {
            messages,
            max_completion_tokens: self.max_output_tokens,
            logprobs: Some(lists),
            top_logprobs: self.top_logprobs.filter(|_| lists),
            tools,
            tool_choice: self.tool_choice,
            parallel_tool_calls: self.parallel_tool_calls,
            chat_template_kwargs: self.chat_template_kwargs,
            ..ChatFields::default()
        })
    }
}

fn message(role: &str, content: Value) -> Map<String, Value> {
    Map::from_iter([("role".to_owned(), role.into()), ("content".to_owned(), content)])
}

/// Adds an item of the input to the conversation.
fn add_item(messages: &mut Vec<Map<String, Value>>, i: usize, item: Value) -> Result<(), ApiError> {
    match item["type"].as_str() {
        None | Some("message") => {
            let role = item["role"].as_str().unwrap_or("user").to_owned();
            messages.push(message(&role, item["content"].clone()));
        }
        Some("function_call") => {
            let call = json!({ "id": item["call_id"], "type": "function",
                "function": { "name": item["name"], "arguments": item["arguments"] } });
            let last = messages.last_mut().and_then(|last| last.get_mut("tool_calls"));
            match last.and_then(Value::as_array_mut) {
                Some(calls) => calls.push(call),
                None => {
                    let mut calls = message("assistant", "".into());
                    calls.insert("tool_calls".to_owned(), json!([call]));
                    messages.push(calls);
                }
            }
        }
        Some("function_call_output") => {
            let mut output = message("tool", item["output"].clone());
            output.insert("tool_call_id".to_owned(), item["call_id"].clone());
            messages.push(output);
        }
        Some("reasoning") => {}
        Some(other) => {
            let message = format!("There is no item of type {other:?}.");
            return Err(ApiError::invalid(None, message).at(&format!("input[{i}]")));
        }
    }
    Ok(())
}
