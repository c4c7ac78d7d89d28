//! Tool calls in the two forms that Qwen models write between `<tool_call>` and `</tool_call>`.

use serde_json::{Map, Value};

/// A tool that the model may call.
#[derive(Clone, Debug)]
pub struct Tool {
    /// The name of the function.
    pub name: String,
    /// The JSON schema of its parameters.
    pub parameters: Value,
}

/// A call.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolCall {
    /// The name of the function.
    pub name: String,
    /// The arguments, as JSON text.
    pub arguments: String,
}

/// The call in the text between the tags, or `None` if it is none. The XML form (Qwen 3.5) is
/// `<function=NAME><parameter=NAME>VALUE</parameter></function>`, the JSON form (Qwen 2.5 and 3)
/// `{"name": NAME, "arguments": {}}`.
pub(super) fn parse(text: &str, tools: &[Tool]) -> Option<ToolCall> {
    let text = text.trim();
    if text.starts_with('{') { parse_json(text) } else { parse_xml(text, tools) }
}

fn parse_json(text: &str) -> Option<ToolCall> {
    let call: Value = serde_json::from_str(text).ok()?;
    let name = call.get("name")?.as_str()?.to_owned();
    let arguments = match call.get("arguments") {
        None | Some(Value::Null) => "{}".to_owned(),
        // Some models write the arguments as text.
        Some(Value::String(text)) => text.clone(),
        Some(arguments) => arguments.to_string(),
    };
    Some(ToolCall { name, arguments })
}

fn parse_xml(text: &str, tools: &[Tool]) -> Option<ToolCall> {
    let (name, mut rest) = text.strip_prefix("<function=")?.split_once('>')?;
    let name = name.trim().to_owned();
    let tool = tools.iter().find(|tool| tool.name == name);
    let mut arguments = Map::new();
    loop {
        rest = rest.trim_start();
        if rest.starts_with("</function>") {
            break;
        }
        let (key, after) = rest.strip_prefix("<parameter=")?.split_once('>')?;
        let (value, after) = after.split_once("</parameter>")?;
        // One line break on each side belongs to the form.
        let value = value.strip_prefix('\n').unwrap_or(value);
        let value = value.strip_suffix('\n').unwrap_or(value);
        let key = key.trim();
        let schema = tool.map(|tool| &tool.parameters["properties"][key]);
        arguments.insert(key.to_owned(), typed(value, schema));
        rest = after;
    }
    Some(ToolCall { name, arguments: Value::Object(arguments).to_string() })
}

/// The value that a parameter's text stands for: text if the schema allows text and nothing else,
/// JSON if it is JSON.
fn typed(text: &str, schema: Option<&Value>) -> Value {
    if schema.is_some_and(is_text) {
        return Value::String(text.to_owned());
    }
    let trimmed = text.trim();
    match trimmed {
        "True" => Value::Bool(true),
        "False" => Value::Bool(false),
        "None" => Value::Null,
        _ => serde_json::from_str(trimmed).unwrap_or_else(|_| Value::String(text.to_owned())),
    }
}

/// Whether a parameter of this schema is text and nothing else, which is written without quotes.
pub(crate) fn is_text(schema: &Value) -> bool {
    schema["type"] == "string" || (schema.get("type").is_none() && schema["enum"][0].is_string())
}
