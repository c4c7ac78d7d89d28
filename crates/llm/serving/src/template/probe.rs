//! What a chat template expects and writes, seen from what it makes of known conversations.

use serde_json::{Map, Value, json};

use super::{ChatTemplate, Conversation, TemplateError};
use crate::text::{CallForm, ID, JsonForm, Parser, ParserOptions, Part, PythonForm, Tool};

const NAME: &str = "probe_function";
const PARAMETER: &str = "probe_parameter";
const TEXT: &str = "Probe text.";
/// An identifier as the API makes them.
const LONG_ID: &str = "call-00112233445566778899aabbccddeeff";

/// What is known of a template.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Probe {
    /// How it writes calls. `None` if it shows none, or calls that the parser does not read.
    pub(super) form: Option<CallForm>,
    /// Whether it refuses identifiers other than of nine letters and digits, as Mistral's templates do.
    pub(super) has_short_ids: bool,
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
        let short = Turn::of(template, &[ID]);
        let has_short_ids = short.is_some() && Turn::of(template, &[LONG_ID]).is_none();
        let form = short.and_then(|one| {
            let two = Turn::of(template, &[ID, ID]).map(|turn| turn.calls);
            form(&one, two.as_deref()).or_else(|| python_form(&one.calls, two.as_deref())).filter(is_read)
        });
        Probe { form, has_short_ids, separator }
    }
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
    fn of(template: &ChatTemplate, ids: &[&str]) -> Option<Turn> {
        let call = |id: &&str| json!({ "id": id, "type": "function", "function": { "name": NAME, "arguments": { PARAMETER: 7 } } });
        let calls: Vec<Value> = ids.iter().map(call).collect();
        let message =
            |content: Value| json!({ "role": "assistant", "content": content, "tool_calls": calls });
        let render = |last: Option<Value>| {
            let add_generation_prompt = last.is_none();
            let parameters = json!({
                "type": "object", "properties": { PARAMETER: { "type": "integer", "description": "a number" } },
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
        CallForm::Tags => return false,
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
