//! What a chat template expects and writes, seen from what it makes of known conversations.

use serde_json::{Map, Value, json};

use super::{ChatTemplate, Conversation, TemplateError};
use crate::text::{CallForm, ID, JsonForm, Parser, ParserOptions, Part, PythonForm, TagForm, Tool};

const NAME: &str = "probe_function";
const PARAMETER: &str = "probe_parameter";
/// Another parameter, for forms that have each as tags.
const SECOND: &str = "probe_second";
const TEXT: &str = "Probe text.";
/// An identifier as the API makes them.
const LONG_ID: &str = "call-00112233445566778899aabbccddeeff";

/// The identifiers of calls that a template takes.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(super) enum CallIds {
    /// Any.
    #[default]
    Long,
    /// Of nine letters and digits: Mistral.
    Nine,
    /// `functions.NAME:NUMBER`, in the place of the name: Kimi K2.
    Named,
}

impl CallIds {
    /// The identifier of a call of this name, where it has the name.
    pub(super) fn named(name: &str, number: impl std::fmt::Display) -> String {
        format!("functions.{name}:{number}")
    }
}

/// What is known of a template.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Probe {
    /// How it writes calls. `None` if it shows none, or calls that the parser does not read.
    pub(super) form: Option<CallForm>,
    /// The identifiers that it takes.
    pub(super) ids: CallIds,
    /// What it writes between texts of a content that is a list, if it takes lists.
    pub(super) separator: Option<String>,
}

impl Probe {
    /// Of a template.
    pub(super) fn of(template: &ChatTemplate) -> Probe {
        let separator = match separator(template) {
            // It would run until its bound each time.
            Err(TemplateError::TooLong) => return Probe::default(),
            separator => separator.ok().flatten(),
        };
        let one = json!({ PARAMETER: 7 });
        let turn = |ids: &[&str]| Turn::of(template, ids, &one);
        let short = turn(&[ID]);
        let ids = match &short {
            Some(_) if turn(&[LONG_ID]).is_none() => CallIds::Nine,
            Some(turn) if turn.calls.contains(ID) && !turn.calls.contains(NAME) => CallIds::Named,
            _ => CallIds::Long,
        };
        let id = if ids == CallIds::Named { CallIds::named(NAME, ID) } else { ID.to_owned() };
        let first = if ids == CallIds::Named { turn(&[&id]) } else { short };
        let form = first.and_then(|first| {
            let calls = |arguments: &Value| Some(Turn::of(template, &[&id, &id], arguments)?.calls);
            let two = calls(&one);
            let of_tags = || {
                let both = json!({ PARAMETER: 7, SECOND: 8 });
                tag_form(&Turn::of(template, &[&id], &both)?.calls, calls(&both).as_deref())
            };
            let form = form(&first, two.as_deref());
            let form = form.or_else(|| python_form(&first.calls, two.as_deref())).or_else(of_tags);
            form.filter(is_read).or_else(|| form_of_prompt(&first))
        });
        Probe { form, ids, separator }
    }
}

/// Forms of templates that write no calls, by what they write into a prompt with tools, and what ends a list of calls
/// after `<|tool_call|>`: Phi-4-mini and Granite 3.
const FORMS_OF_PROMPTS: [(&str, &str); 2] = [("<|tool|>", "<|/tool_call|>"), ("<|tool_call|>", "")];

fn form_of_prompt(turn: &Turn) -> Option<CallForm> {
    if turn.calls.contains(NAME) {
        return None;
    }
    let (_, end) = FORMS_OF_PROMPTS.iter().find(|(shown, _)| turn.prompt.contains(shown))?;
    let texts = ["<|tool_call|>[{\"name\": \"", "\", \"arguments\": ", "}, {\"name\": \""].map(str::to_owned);
    let [open, middle, between] = texts;
    Some(CallForm::Json(JsonForm::new(open, middle, Some(between), format!("}}]{end}"))))
}

/// What a template writes between two texts of one content.
fn separator(template: &ChatTemplate) -> Result<Option<String>, TemplateError> {
    let parts = [TEXT, "Another."].map(|text| json!({ "type": "text", "text": text }));
    let messages = vec![json!({ "role": "user", "content": parts })];
    let text = template.render(&Conversation { messages, ..Conversation::default() })?;
    let between = text.split_once(TEXT).and_then(|(_, after)| after.split_once("Another."));
    // A template that takes no lists writes them as Python does.
    Ok(between.map(|(between, _)| between.to_owned()).filter(|between| between.trim().is_empty()))
}

/// How a template writes turns of the assistant.
struct Turn {
    /// What the assistant writes in a turn with calls, without the end of the turn.
    calls: String,
    /// All that stands before a text.
    before_text: String,
    /// What the assistant goes on from.
    prompt: String,
}

impl Turn {
    /// With calls of these identifiers.
    fn of(template: &ChatTemplate, ids: &[&str], arguments: &Value) -> Option<Turn> {
        let function = json!({ "name": NAME, "arguments": arguments });
        let call = |id: &&str| json!({ "id": id, "type": "function", "function": function });
        let calls: Vec<Value> = ids.iter().map(call).collect();
        let message =
            |content: Value| json!({ "role": "assistant", "content": content, "tool_calls": calls });
        let render = |last: Option<Value>| {
            let add_generation_prompt = last.is_none();
            let number = json!({ "type": "integer", "description": "a number" });
            let parameters = json!({
                "type": "object", "properties": { PARAMETER: number, SECOND: number },
                "required": [PARAMETER],
            });
            let function = json!({ "name": NAME, "description": "a function", "parameters": parameters });
            let first = json!({ "role": "user", "content": "Hello" });
            let conversation = Conversation {
                messages: [first].into_iter().chain(last).collect(),
                add_generation_prompt,
                tools: vec![json!({ "type": "function", "function": function })],
                variables: Map::from_iter([("enable_thinking".to_owned(), false.into())]),
                ..Conversation::default()
            };
            template.render(&conversation).ok()
        };
        let whole = render(Some(message("".into()))).or_else(|| render(Some(message(Value::Null))))?;
        let said = render(Some(json!({ "role": "assistant", "content": TEXT })))?;
        let prompt = render(None)?;
        let begin = [&said, &prompt].map(|other| common(whole.chars(), other.chars()));
        // Where turns begin alike, and not inside of a tag, which may begin like another one.
        let begin = whole.get(..begin[0].max(begin[1]))?;
        let begin = begin.rfind('<').filter(|at| !begin[*at..].contains('>')).unwrap_or(begin.len());
        let (before_text, after_text) = said.rsplit_once(TEXT)?;
        let end = common(whole.chars().rev(), after_text.chars().rev());
        let turn = whole.get(begin..whole.len().checked_sub(end)?)?;
        // Another end of the turn than that of texts may end alike.
        let cut = turn.rfind('<').filter(|at| !turn[*at..].contains('>')).unwrap_or(turn.len());
        Some(Turn { calls: turn[..cut].trim().to_owned(), before_text: before_text.to_owned(), prompt })
    }
}

/// The bytes that two texts begin with alike.
fn common(a: impl Iterator<Item = char>, b: impl Iterator<Item = char>) -> usize {
    a.zip(b).take_while(|(a, b)| a == b).map(|(a, _)| a.len_utf8()).sum()
}

/// The form of a turn with one call, and with two of them where the template allows it.
fn form(turn: &Turn, two: Option<&str>) -> Option<CallForm> {
    let one = turn.calls.as_str();
    let (name, arguments) = places(one, 0)?;
    let between = two.and_then(|two| {
        let (_, first) = places(two, 0)?;
        let (second, _) = places(two, first.1)?;
        Some(two[first.1..second.0].to_owned())
    });
    let middle = one[name.1..arguments.0].to_owned();
    let (open, close) = (one[..name.0].to_owned(), one[arguments.1..].to_owned());
    let form = JsonForm::new(open, middle, between, close);
    Some(CallForm::Json(match (text_name(turn, &form), &form.between) {
        (Some(name), Some(between)) => {
            let starts_open = turn.prompt.trim_end().ends_with(between.trim());
            form.with_text(name, starts_open)
        }
        _ => form,
    }))
}

/// The name of texts, where they are written as calls are.
fn text_name<'l>(turn: &'l Turn, form: &JsonForm) -> Option<&'l str> {
    let between = form.between.as_deref().map(str::trim).filter(|between| !between.is_empty())?;
    if !form.has_bare_names() || form.middle.is_empty() || !form.middle.trim().is_empty() {
        return None;
    }
    let begun = turn.before_text.strip_suffix(&form.middle)?;
    let name = &begun[begun.rfind(between)? + between.len()..];
    (!name.is_empty() && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_')).then_some(name)
}

/// The same of calls as Python writes them.
fn python_form(one: &str, two: Option<&str>) -> Option<CallForm> {
    let call = format!("{NAME}({PARAMETER}=7)");
    let (open, close) = one.split_once(&call)?;
    let between = two.and_then(|two| Some(two.split_once(&call)?.1.split_once(&call)?.0.to_owned()));
    Some(CallForm::Python(PythonForm::new(open.to_owned(), between, close.to_owned())))
}

/// The form of calls as tags, of turns with two parameters in each call.
fn tag_form(one: &str, two: Option<&str>) -> Option<CallForm> {
    let (open, rest) = one.split_once(NAME)?;
    let (before_first, rest) = rest.split_once(PARAMETER)?;
    let (parameter_close, rest) = rest.split_once('7')?;
    let (before_second, rest) = rest.split_once(SECOND)?;
    let end = rest.strip_prefix(parameter_close)?.strip_prefix('8')?;
    let (name_close, parameter) = before_first.split_at(before_first.rfind('<')?);
    let value_close = before_second.strip_suffix(parameter)?;
    let close = end.strip_prefix(value_close)?;
    let is_tag = |text: &str| text.trim_start().starts_with('<');
    if ![open, parameter, value_close, close].into_iter().all(is_tag) || !parameter_close.contains('>') {
        return None;
    }
    let between = two.and_then(|two| {
        let after_first = two.split_once(&format!("8{value_close}"))?.1;
        Some(after_first.split_once(NAME)?.0.to_owned())
    });
    let texts = [open, name_close, parameter, parameter_close, value_close, close];
    Some(CallForm::Tags(TagForm::new(texts, between)))
}

type Place = (usize, usize);

/// Where the name of the next call is, and where its arguments are, if they are a JSON object.
fn places(text: &str, from: usize) -> Option<(Place, Place)> {
    let name = from + text[from..].find(NAME)?;
    let after = name + NAME.len();
    let parameter = after + text[after..].find(&format!("\"{PARAMETER}\""))?;
    let begin = text[..parameter].rfind('{').filter(|at| *at >= after)?;
    let end = parameter + text[parameter..].find('}')? + 1;
    let arguments: Value = serde_json::from_str(&text[begin..end]).ok()?;
    (arguments == json!({ PARAMETER: 7 })).then_some(((name, after), (begin, end)))
}

/// Whether the parser reads what the template writes: calls alone.
fn is_read(form: &CallForm) -> bool {
    let (open, call, between, close) = match form {
        CallForm::Tags(form) => {
            let TagForm { name_close, parameter, parameter_close, value_close, .. } = form;
            let call = format!("{NAME}{name_close}{parameter}{PARAMETER}{parameter_close}7{value_close}");
            (&form.open, call, &form.between, &form.close)
        }
        CallForm::Json(form) => {
            let call = format!("{NAME}{}{{\"{PARAMETER}\": 7}}", form.middle);
            (&form.open, call, &form.between, &form.close)
        }
        CallForm::Python(form) => (&form.open, format!("{NAME}({PARAMETER}=7)"), &form.between, &form.close),
    };
    let more = between.iter().map(|between| format!("{between}{call}")).collect::<String>();
    let text = format!("{open}{call}{more}{close}");
    let tools = vec![Tool { name: NAME.to_owned(), parameters: Value::Null }];
    let form = form.clone().into();
    let mut parser = Parser::new(ParserOptions { tools: tools.into(), form, ..ParserOptions::default() });
    let mut parts = parser.push(&text);
    parts.extend(parser.finish());
    let expected = [Part::Call(NAME.to_owned()), Part::Arguments(format!("{{\"{PARAMETER}\":7}}"))];
    !parts.is_empty() && parts.chunks(2).all(|call| call == expected)
}
