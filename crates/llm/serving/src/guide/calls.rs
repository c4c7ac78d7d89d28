//! Grammars of calls that are required, in the form that the model writes.

use serde_json::{Map, Value, json};

use super::schema::prepared;
use super::{Grammar, GrammarError, work};
use crate::text::{CallForm, ID, JsonForm, PythonForm, TagForm, Tool, is_text};
use crate::tokenizer::Tokenizer;

/// The grammar of one call of `tools`, or of at least one where `several` are wanted and the form has them.
///
/// # Errors
/// The parameters of the tools take long to compile.
pub fn tool_calls(
    form: &CallForm,
    tools: &[Tool],
    several: bool,
    tokenizer: &Tokenizer,
) -> Result<Grammar, GrammarError> {
    work::check(tools.iter().map(|tool| &tool.parameters))?;
    Ok(Grammar::ToolCalls(match form {
        CallForm::Tags(form) => of_tags(form, tools, several, tokenizer),
        CallForm::Json(form) => of_json(form, tools, several, tokenizer),
        CallForm::Python(form) => of_python(form, tools, several, tokenizer),
    }))
}

/// Calls whose arguments are JSON objects.
fn of_json(form: &JsonForm, tools: &[Tool], several: bool, tokenizer: &Tokenizer) -> String {
    let text = |text: &str| lark_tokens(text, tokenizer);
    let more = match &form.between {
        Some(between) if several => format!("({} call)*", text(between)),
        _ => String::new(),
    };
    let (names, functions) = rules_of(tools, |tool, name| {
        let any = json!({ "type": "object" });
        let schema = if tool.parameters.is_object() { &tool.parameters } else { &any };
        let begin = text(&format!("{}{}", tool.name, form.middle));
        format!("{name}: {begin} {name}_arguments\n{name}_arguments: %json {}\n", prepared(schema))
    });
    let (open, close) = (text(&form.open), text(&form.close));
    format!("start: {open} call {more} {close}\ncall: {names}\nid: /[a-zA-Z0-9]{{9}}/\n{functions}")
}

/// Calls of Python, whose values are JSON: numbers, texts and lists are the same in both.
fn of_python(form: &PythonForm, tools: &[Tool], several: bool, tokenizer: &Tokenizer) -> String {
    let text = |text: &str| lark_tokens(text, tokenizer);
    let more = match &form.between {
        Some(between) if several => format!("({} call)*", text(between)),
        _ => String::new(),
    };
    let (names, functions) = rules_of(tools, python_function);
    format!("start: {} call {more} {}\ncall: {names}\n{functions}", text(&form.open), text(&form.close))
}

/// The names of the tools' rules as alternatives, and the rules that `function` makes of each tool and name.
fn rules_of(tools: &[Tool], function: impl Fn(&Tool, &str) -> String) -> (String, String) {
    let names: Vec<String> = (0..tools.len()).map(|i| format!("f{i}")).collect();
    let rules = tools.iter().zip(&names).map(|(tool, name)| function(tool, name)).collect();
    (names.join(" | "), rules)
}

/// The rules of one function: `RULE_I` has the parameters from number I on, `RULE_m_I` the same after a comma.
fn python_function(tool: &Tool, rule: &str) -> String {
    let properties = tool.parameters["properties"].as_object();
    let mut lark = format!("{rule}: {} {rule}_0 \")\"\n", lark_text(&format!("{}(", tool.name)));
    let count = properties.map_or(0, Map::len);
    for (i, (name, schema)) in properties.into_iter().flatten().enumerate() {
        let (next, argument) = (i + 1, lark_text(&format!("{name}=")));
        let skipped =
            |rule: &str| if requires(tool, name) { String::new() } else { format!(" | {rule}_{next}") };
        lark += &format!("{rule}_v_{i}: %json {}\n", prepared(schema));
        lark += &format!("{rule}_{i}: {argument} {rule}_v_{i} {rule}_m_{next}{}\n", skipped(rule));
        let more = format!("{rule}_m");
        lark += &format!("{more}_{i}: \", \" {argument} {rule}_v_{i} {more}_{next}{}\n", skipped(&more));
    }
    lark + &format!("{rule}_{count}: \"\"\n{rule}_m_{count}: \"\"\n")
}

/// Whether a parameter has to be given.
fn requires(tool: &Tool, name: &str) -> bool {
    let required = tool.parameters["required"].as_array();
    required.is_some_and(|names| names.iter().any(|other| other == name))
}

/// A text whose special tokens are tokens, and whose identifier is any.
fn lark_tokens(text: &str, tokenizer: &Tokenizer) -> String {
    let mut parts = Vec::new();
    for (i, part) in text.split(ID).enumerate() {
        if i > 0 {
            parts.push("id".to_owned());
        }
        // What the tokenizer refuses has no special tokens.
        let tokens = tokenizer.encode(part, false).unwrap_or_default();
        let mut rest = part;
        for token in tokens.into_iter().filter(|token| tokenizer.is_special(*token)) {
            let name = String::from_utf8_lossy(tokenizer.bytes(token)).into_owned();
            let Some((before, after)) = rest.split_once(name.as_str()) else { continue };
            parts.extend([lark_text(before), format!("<[{token}]>")]);
            rest = after;
        }
        parts.push(lark_text(rest));
    }
    parts.retain(|part| part != "\"\"");
    parts.join(" ")
}

/// Calls as tags.
fn of_tags(form: &TagForm, tools: &[Tool], several: bool, tokenizer: &Tokenizer) -> String {
    let text = |text: &str| lark_tokens(text, tokenizer);
    let more = match &form.between {
        Some(between) if several => format!("({} call)*", text(between)),
        _ => String::new(),
    };
    let (names, functions) = rules_of(tools, |tool, rule| tagged_function(form, tool, rule, &text));
    let (open, close) = (text(&form.open), text(&form.close));
    format!("start: {open} call {more} {close} \"\\n\"?\ncall: {names}\n{functions}")
}

/// The rules of one function: its parameters in the order of the schema, optional ones optional.
fn tagged_function(form: &TagForm, tool: &Tool, rule: &str, text: &impl Fn(&str) -> String) -> String {
    let properties = tool.parameters["properties"].as_object();
    let mut body = format!("{rule}: {}", text(&format!("{}{}", tool.name, form.name_close)));
    let mut rules = String::new();
    for (i, (name, schema)) in properties.into_iter().flatten().enumerate() {
        let parameter = format!("{rule}_p{i}");
        let optional = if requires(tool, name) { "" } else { "?" };
        body += &format!(" {parameter}{optional}");
        let open = text(&format!("{}{name}{}", form.parameter, form.parameter_close));
        let value = match schema["enum"].as_array() {
            // One lexeme with its closing tag, because lexemes are as long as they can be. A `<` in
            // a value would begin the tag.
            None if is_text(schema) => {
                rules += &format!("{parameter}: {open} /[^<]*{}/\n", lark_pattern(&form.value_close));
                continue;
            }
            Some(values) if is_text(schema) => {
                let values = values.iter().filter_map(Value::as_str).map(lark_text);
                format!("({})", values.collect::<Vec<_>>().join(" | "))
            }
            _ => {
                rules += &format!("{parameter}_v: %json {}\n", prepared(schema));
                format!("{parameter}_v")
            }
        };
        rules += &format!("{parameter}: {open} {value} {}\n", text(&form.value_close));
    }
    format!("{body}\n{rules}")
}

/// A text inside of a pattern. Before other characters, a backslash has a meaning: `\<` is the beginning of a word.
fn lark_pattern(text: &str) -> String {
    let escaped = |c: char| match c {
        '\n' => "\\n".to_owned(),
        _ if "\\/.+*?()|[]{}^$#&-~".contains(c) => format!("\\{c}"),
        _ => c.to_string(),
    };
    text.chars().map(escaped).collect()
}

/// A string literal.
fn lark_text(text: &str) -> String {
    Value::String(text.to_owned()).to_string()
}
