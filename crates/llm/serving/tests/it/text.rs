//! Stop strings, reasoning and tool calls, in pieces of every size.

use serde_json::json;
use warpwright_llm_serving::text::{Parser, ParserOptions, Part, StopStrings, Tool};

/// The text in pieces of `size` characters.
pub(crate) fn pieces(text: &str, size: usize) -> Vec<String> {
    let characters: Vec<char> = text.chars().collect();
    characters.chunks(size).map(|piece| piece.iter().collect()).collect()
}

fn cut(text: &str, stops: &[&str], include: bool, size: usize) -> (String, Option<String>) {
    let mut strings = StopStrings::new(stops.iter().map(|stop| (*stop).to_owned()).collect(), include);
    let mut passed = String::new();
    for piece in pieces(text, size) {
        let (text, stop) = strings.push(&piece);
        passed += &text;
        if stop.is_some() {
            return (passed, stop);
        }
    }
    (passed + &strings.finish(), None)
}

#[test]
fn stop_strings_are_found_across_pieces() {
    let table: [(&str, &[&str], &str, Option<&str>); 7] = [
        ("one two three", &["two"], "one ", Some("two")),
        ("one two three", &["four"], "one two three", None),
        ("aaab", &["aab"], "a", Some("aab")),
        ("one\n\nUser: x", &["User:", "\n\n"], "one", Some("\n\n")),
        ("ends with tw", &["two"], "ends with tw", None),
        ("grüße – ende", &["–"], "grüße ", Some("–")),
        ("text", &[""], "text", None),
    ];
    for (text, stops, expected, stop) in table {
        for size in 1..=text.chars().count() {
            let found = cut(text, stops, false, size);
            assert_eq!(found, (expected.to_owned(), stop.map(str::to_owned)), "{text:?} in pieces of {size}");
        }
        let (included, _) = cut(text, stops, true, 2);
        assert_eq!(included, format!("{expected}{}", stop.unwrap_or_default()));
    }
}

fn tools() -> Vec<Tool> {
    let parameters = json!({ "type": "object", "properties": {
        "city": { "type": "string" }, "days": { "type": "integer" }, "hours": { "type": "array" },
    } });
    vec![Tool { name: "weather".to_owned(), parameters }]
}

/// The parts, text joined.
pub(crate) fn parse(
    options: &ParserOptions,
    text: &str,
    size: usize,
    is_cut: bool,
) -> Vec<(&'static str, String)> {
    let mut parser = Parser::new(options.clone());
    let mut parts: Vec<Part> = pieces(text, size).iter().flat_map(|piece| parser.push(piece)).collect();
    parts.extend(if is_cut { parser.cut() } else { parser.finish() });
    let mut joined: Vec<(&'static str, String)> = Vec::new();
    for part in parts {
        let (kind, text) = match part {
            Part::Reasoning(text) => ("reasoning", text),
            Part::Content(text) => ("content", text),
            Part::Call(name) => ("call", format!("{name} ")),
            Part::Arguments(text) => ("arguments", text),
        };
        match joined.last_mut() {
            Some((last, so_far)) if *last == kind && kind != "call" => *so_far += &text,
            Some((last, so_far)) if *last == "call" && kind == "arguments" => *so_far += &text,
            _ => joined.push((kind, text)),
        }
    }
    joined
}

const CALL: &str = "<tool_call>\n<function=weather>\n<parameter=city>\nUlm\n</parameter>\n<parameter=days>\n3\n</parameter>\n<parameter=hours>\n[6, 18]\n</parameter>\n</function>\n</tool_call>";
const CALLED: (&str, &str) = ("call", r#"weather {"city":"Ulm","days":3,"hours":[6,18]}"#);

#[test]
fn answers_are_split_into_their_parts() {
    let thinks = ParserOptions {
        starts_in_reasoning: true,
        reasoning: true,
        tools: tools().into(),
        ..ParserOptions::default()
    };
    let answers = ParserOptions { starts_in_reasoning: false, ..thinks.clone() };
    let plain = ParserOptions::default();
    let json_call = "<tool_call>\n{\"name\": \"weather\", \"arguments\": {\"city\": \"Ulm\"}}\n</tool_call>";
    let two = format!("I look.\n\n{CALL}\n{CALL}");
    let thought_call = format!("Hm.\n</think>\n\n{CALL}");
    let table = [
        (&thinks, "Let me see.\n</think>\n\nYes. ", vec![("reasoning", "Let me see."), ("content", "Yes. ")]),
        (&thinks, "Never ending", vec![("reasoning", "Never ending")]),
        (&answers, "<think>\nHm\n</think>\nYes", vec![("reasoning", "Hm"), ("content", "Yes")]),
        (&answers, "  Yes </thin", vec![("content", "  Yes </thin")]),
        (&thinks, "Hm</think>\n\n  Yes", vec![("reasoning", "Hm"), ("content", "  Yes")]),
        (&answers, "<thin air", vec![("content", "<thin air")]),
        (&answers, &two, vec![("content", "I look."), CALLED, CALLED]),
        (&thinks, &thought_call, vec![("reasoning", "Hm."), CALLED]),
        (&answers, json_call, vec![("call", r#"weather {"city":"Ulm"}"#)]),
        (
            &answers,
            "<tool_call>nonsense</tool_call> ok",
            vec![("content", "<tool_call>nonsense</tool_call> ok")],
        ),
        (&answers, "<tool_call>\n<function=weather>", vec![("call", "weather ")]),
        (&answers, "<tool_call>\n<function=weather", vec![("content", "<tool_call>\n<function=weather")]),
        (&answers, "a < b <tool", vec![("content", "a < b <tool")]),
        (&plain, " <think>\nx</think> <tool_call> ", vec![("content", " <think>\nx</think> <tool_call> ")]),
    ];
    for (options, text, expected) in table {
        for size in [1, 2, 3, 7, 1000] {
            let parts = parse(options, text, size, false);
            let parts: Vec<(&str, &str)> = parts.iter().map(|(kind, text)| (*kind, text.as_str())).collect();
            assert_eq!(parts, expected, "{text:?} in pieces of {size}");
        }
    }
}

const UNCLOSED: &str = "I look it up.\n<tool_call>\n<function=weather>\n<parameter=city>\nOslo\n</parameter>\n</function>\n</tool_call>";
const OSLO: (&str, &str) = ("call", r#"weather {"city":"Oslo"}"#);

#[test]
fn calls_are_found_where_models_leave_tags_out() {
    let thinks = ParserOptions {
        starts_in_reasoning: true,
        reasoning: true,
        tools: tools().into(),
        ..ParserOptions::default()
    };
    let answers = ParserOptions { starts_in_reasoning: false, ..thinks.clone() };
    let bare = UNCLOSED.replace("<tool_call>\n", "").replace("\n</tool_call>", "");
    let half = UNCLOSED.replace("<tool_call>\n", "");
    let closed = format!("{UNCLOSED}\n</think>\n\nDone.");
    let looked = ("reasoning", "I look it up.");
    let json = r#"<tool_call>{"arguments": {"city": "a \"}\\", "x": [1, {"y": null}]}, "name": "weather"}"#;
    let text_arguments = r#"<tool_call>{"name": "weather", "arguments": "{\"city\": \"Ulm\"}"}</tool_call>"#;
    let line = "<function=weather><parameter=city>a\n\"b\" <c>\n\n</parameter><parameter=days>None</parameter></function>";
    let unended = "<tool_call><function=weather><parameter=days>3</parameter></tool_call>!";
    let table = [
        (&thinks, UNCLOSED, vec![looked, OSLO]),
        (&thinks, &closed, vec![looked, OSLO, ("content", "Done.")]),
        (&thinks, &bare, vec![looked, OSLO]),
        (&answers, &half, vec![("content", "I look it up."), OSLO]),
        (
            &thinks,
            "A <tool_call> is a tag.</think>x",
            vec![("reasoning", "A <tool_call> is a tag."), ("content", "x")],
        ),
        (&answers, "Use <function=other>.", vec![("content", "Use <function=other>.")]),
        (&answers, "<function=weath er>", vec![("content", "<function=weath er>")]),
        (&answers, json, vec![("call", r#"weather {"city":"a \"}\\","x":[1,{"y":null}]}"#)]),
        (&answers, text_arguments, vec![("call", r#"weather {"city": "Ulm"}"#)]),
        (&answers, line, vec![("call", r#"weather {"city":"a\n\"b\" <c>\n","days":null}"#)]),
        (
            &answers,
            r#"<function=weather>{"city": "Ulm"}</function>"#,
            vec![("call", r#"weather {"city":"Ulm"}"#)],
        ),
        (&answers, unended, vec![("call", r#"weather {"days":3}"#), ("content", "!")]),
        (&answers, "<tool_call><function=weather></function></tool_call>", vec![("call", "weather {}")]),
        (&answers, "<tool_call><function=weather>ü<ü</function>", vec![("call", "weather {}")]),
    ];
    for (options, text, expected) in table {
        for size in [1, 2, 3, 7, 1000] {
            let parts = parse(options, text, size, false);
            let parts: Vec<(&str, &str)> = parts.iter().map(|(kind, text)| (*kind, text.as_str())).collect();
            assert_eq!(parts, expected, "{text:?} in pieces of {size}");
        }
    }
}

/// Wherever an answer is cut, no tag is content, and what there is begins the whole.
#[test]
fn an_answer_that_is_cut_shows_no_tag() {
    let thinks = ParserOptions {
        starts_in_reasoning: true,
        reasoning: true,
        tools: tools().into(),
        ..ParserOptions::default()
    };
    let text = format!("Hm.\n</think>\n\nI look. {CALL}\n{CALL}");
    let whole = parse(&thinks, &text, 1, false);
    for end in (0..text.len()).filter(|end| text.is_char_boundary(*end)) {
        let parts = parse(&thinks, &text[..end], 1, true);
        for ((kind, part), (whole_kind, whole)) in parts.iter().zip(&whole) {
            assert_eq!(kind, whole_kind, "{:?}: {parts:?}", &text[..end]);
            let part = part.strip_suffix('<').unwrap_or(part).trim_end();
            assert!(whole.starts_with(part), "{:?}: {parts:?}", &text[..end]);
        }
        assert!(parts.len() <= whole.len());
    }
}

#[test]
fn arguments_come_in_pieces() {
    let options = ParserOptions { tools: tools().into(), ..ParserOptions::default() };
    let json = r#"<tool_call>{"name": "weather", "arguments": {"city": "Ulm and Bonn"}}</tool_call>"#;
    for text in [&CALL.replace("Ulm", "Ulm and Bonn"), json] {
        let mut parser = Parser::new(options.clone());
        let seen: Vec<Vec<Part>> = pieces(text, 4).iter().map(|piece| parser.push(piece)).collect();
        let arguments = seen.iter().flatten().filter(|part| matches!(part, Part::Arguments(_))).count();
        assert!(arguments > 4, "{seen:?}");
        assert_eq!(parser.complete_calls(), 1);
    }
}
