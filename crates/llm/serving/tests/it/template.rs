//! Chat templates as Hugging Face renders them.

use serde_json::{Value, json};
use warpwright_llm_serving::template::{CHAT_ML, ChatTemplate, Conversation};

fn conversation(messages: Value) -> Conversation {
    Conversation {
        messages: messages.as_array().unwrap().clone(),
        add_generation_prompt: true,
        ..Conversation::default()
    }
}

fn chat_ml() -> ChatTemplate {
    ChatTemplate::new(CHAT_ML, "", "<|im_end|>").unwrap()
}

fn render(source: &str, messages: Value) -> String {
    let template = ChatTemplate::new(source, "<s>", "</s>").unwrap();
    template.render(&conversation(messages)).unwrap_or_else(|error| error.to_string())
}

#[test]
fn the_idioms_of_published_templates_work() {
    let table = [
        ("{{ bos_token }}{% for m in messages %}{{ m['role'].upper() }}{% endfor %}", "<s>USER"),
        ("{{ messages[0].content.split('|')[-1].strip() }}", "b"),
        (
            "{{ messages[0].content.startswith('a') }}{{ messages[0]['content'].replace('a', 'x') }}",
            "truex | b ",
        ),
        (
            "{%- set ns = namespace(n=0) %}{% for m in messages[::-1] %}{% set ns.n = ns.n + 1 %}{% endfor %}{{ ns.n }}",
            "1",
        ),
        ("{% if tools is not none and tools %}T{% endif %}{{ messages | length }}", "1"),
        (
            "{% for m in messages %}{% if loop.first %}{% continue %}{% endif %}x{% endfor %}{{ messages[0].get('name', '?') }}",
            "?",
        ),
        ("{{ {'a': [1, 'é<'], 'b': none} | tojson }}", r#"{"a": [1, "é<"], "b": null}"#),
        ("{{ [1] | tojson(indent=2) }}", "[\n  1\n]"),
        (
            "{{ raise_exception('No system message.') }}",
            "the chat template refuses the conversation: No system message.",
        ),
        ("{% macro f(x) %}[{{ x }}]{% endmacro %}{{ f(messages[0].role) }}{{ undefined_name }}", "[user]"),
        ("{{ strftime_now('%d') | length }}", "2"),
        ("  {% if true %}\nx\n  {% endif %}\ny", "x\ny"),
        (
            "{{ messages[0].content is string }}{{ messages[0].content.rstrip() ~ eos_token }}",
            "truea | b</s>",
        ),
    ];
    for (source, expected) in table {
        let python_true = expected.replace("true", "True");
        let rendered = render(source, json!([{ "role": "user", "content": "a | b " }]));
        assert!(rendered == expected || rendered == python_true, "{source}: {rendered:?}");
    }
}

#[test]
fn the_built_in_template_writes_tools_and_reasoning() {
    let mut conversation = conversation(json!([
        { "role": "system", "content": "Be brief." },
        { "role": "user", "content": "Weather?" },
        { "role": "assistant", "content": null, "tool_calls": [
            { "id": "1", "type": "function", "function": { "name": "weather", "arguments": "{\"city\": \"Ulm\", \"days\": 2}" } }
        ] },
        { "role": "tool", "content": "12 degrees" },
        { "role": "tool", "content": "rain" },
    ]));
    conversation.tools = vec![json!({ "type": "function", "function": { "name": "weather" } })];
    conversation.variables.insert("enable_thinking".to_owned(), Value::Bool(true));
    insta::assert_snapshot!(chat_ml().render(&conversation).unwrap());
}

#[test]
fn numbers_of_calls_keep_their_digits() {
    let source = "{% for m in messages %}{{ m.tool_calls[0].function.arguments | tojson }}{% endfor %}";
    let arguments = r#"{"x": 91.49915742001859, "y": [90.82899312073745]}"#;
    let body = json!([{ "role": "assistant", "tool_calls": [{ "function": { "name": "f", "arguments": arguments } }] }]);
    assert_eq!(render(source, body), arguments);
}

#[test]
fn the_last_message_can_be_continued() {
    let mut conversation = conversation(json!([
        { "role": "user", "content": "Count." },
        { "role": "assistant", "content": "One, two," },
    ]));
    conversation.add_generation_prompt = false;
    conversation.continue_final_message = true;
    let text = chat_ml().render(&conversation).unwrap();
    assert_eq!(text, "<|im_start|>user\nCount.<|im_end|>\n<|im_start|>assistant\nOne, two,");
}

#[test]
fn a_model_without_a_template_asks_for_one() {
    let missing = ChatTemplate::missing("<s>", "</s>");
    let error = missing.render(&conversation(json!([]))).unwrap_err().to_string();
    assert!(error.contains("--chat-template"), "{error}");
    let given = missing.with_source("{{ bos_token }}").unwrap();
    assert_eq!(given.render(&conversation(json!([]))).unwrap(), "<s>");
}

#[test]
fn a_wrong_template_is_an_error() {
    let error = ChatTemplate::new("{% if %}", "", "").err().unwrap().to_string();
    assert!(error.starts_with("the chat template does not compile: "), "{error}");
    assert!(render("{{ messages[0].content.frobnicate() }}", json!([{ "role": "user" }])).contains("fails"));
}

/// Texts and refusals agree with jinja2, for `jinja.json`, which `scripts/compare_templates.py --table` writes.
#[test]
fn expressions_and_statements_are_those_of_jinja2() {
    let rows: Value = serde_json::from_str(include_str!("jinja.json")).unwrap();
    let messages = json!([{ "role": "user", "content": "hi" }, { "role": "assistant", "content": "yo" }]);
    let variables = json!({ "d": { "a": 1, "b": [1] } }).as_object().unwrap().clone();
    let conversation =
        Conversation { messages: messages.as_array().unwrap().clone(), variables, ..Conversation::default() };
    for row in rows.as_array().unwrap() {
        let source = row["source"].as_str().unwrap();
        let text =
            ChatTemplate::new(source, "<s>", "</s>").and_then(|template| template.render(&conversation));
        assert_eq!(text.as_deref().ok(), row["text"].as_str(), "{source}: {text:?}");
    }
}

/// A template that would take hours or all memory is an error after seconds.
#[test]
fn a_run_is_bounded() {
    let doubled = "{% set x = namespace(t='abcdefgh') %}{% for i in range(60) %}";
    for source in [
        "{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}".to_owned(),
        "{% for i in range(100000) %}{% for j in range(100000) %}x{% endfor %}{% endfor %}".to_owned(),
        format!("{doubled}{{% set x.t = x.t ~ x.t %}}{{% endfor %}}"),
        format!("{doubled}{{% set x.t = x.t + x.t %}}{{% endfor %}}"),
        format!("{doubled}{{% set x.t = x.t.replace('a', 'aa') %}}{{% endfor %}}"),
        format!("{doubled}{{% set x.t = x.t | replace('a', 'aaaa') %}}{{% endfor %}}"),
        format!("{doubled}{{% set x.t = [x.t, x.t] | join('') %}}{{% endfor %}}"),
        format!("{doubled}{{% set x.t = '%s%s' % (x.t, x.t) %}}{{% endfor %}}"),
        format!("{doubled}{{% set x.t = '{{0}}{{0}}'.format(x.t) %}}{{% endfor %}}"),
        "{% set x = namespace(t=[1]) %}{% for i in range(60) %}{% set x.t = x.t + x.t %}{% endfor %}"
            .to_owned(),
        "{% set x = namespace(t=[1]) %}{% for i in range(100000) %}{% set x.t = [x.t] %}{% endfor %}"
            .to_owned(),
        "{{ '%999999999999d' % 1 }}".to_owned(),
        "{{ '%.999999999999f' % 1 }}".to_owned(),
        "{{ '{:999999999999}'.format(1) }}".to_owned(),
        "{{ 'x'.center(999999999999) }}{{ 'x'.zfill(999999999999) }}".to_owned(),
        "{{ 'x' * 999999999999 }}".to_owned(),
        "{{ [1] * 999999999999 }}".to_owned(),
        "{{ 'x' | indent(999999999999, true) }}".to_owned(),
        "{{ [[[1]]] | tojson(indent=999999999999) }}".to_owned(),
        "{{ '\t'.expandtabs(999999999999) }}".to_owned(),
        "{{ 9 ** 9 ** 9 }}{{ range(999999999999) }}".to_owned(),
        "{% macro f() %}{{ f() }}{% endmacro %}{{ f() }}".to_owned(),
        format!("{{{{ {}1{} }}}}", "(".repeat(100_000), ")".repeat(100_000)),
        format!("{{{{ 1{} }}}}", " + 1".repeat(100_000)),
        format!("{}{}", "{% if 1 %}".repeat(100_000), "{% endif %}".repeat(100_000)),
    ] {
        let result =
            ChatTemplate::new(&source, "", "").and_then(|template| template.render(&conversation(json!([]))));
        assert!(result.is_err(), "{}", &source[..source.len().min(120)]);
    }
}

/// Texts and refusals agree with jinja2, for the cases that `scripts/compare_templates.py` writes.
#[test]
#[ignore = "needs WARPWRIGHT_TEMPLATES, which scripts/compare_templates.py writes"]
fn published_templates_render_as_with_transformers() {
    let cases = std::fs::read_to_string(std::env::var("WARPWRIGHT_TEMPLATES").unwrap()).unwrap();
    let mut template = Err(String::new());
    let (mut count, mut templates, mut wrong) = (0, 0, Vec::new());
    for line in cases.lines() {
        let mut case: Value = serde_json::from_str(line).unwrap();
        if let Some(source) = case["source"].as_str() {
            templates += 1;
            template = ChatTemplate::new(source, "<s>", "</s>").map_err(|error| error.to_string());
        }
        let Some(variables) = case["variables"].as_object_mut() else {
            assert!(template.is_err(), "{}", case["name"]);
            continue;
        };
        count += 1;
        let mut take = |name: &str| variables.remove(name).unwrap_or_default();
        let conversation = Conversation {
            messages: take("messages").as_array().unwrap().clone(),
            tools: take("tools").as_array().cloned().unwrap_or_default(),
            add_generation_prompt: take("add_generation_prompt") == true,
            continue_final_message: false,
            variables: variables.clone(),
        };
        let text = match &template {
            Ok(template) => template.render(&conversation).map_err(|error| error.to_string()),
            Err(error) => Err(error.clone()),
        };
        if text.as_deref().ok() != case["text"].as_str() {
            wrong.push(format!("{}: {} {}\n  here {text:?}", case["name"], case["text"], case["reason"]));
        }
    }
    assert!(wrong.is_empty(), "{} of {count} differ:\n{}", wrong.len(), wrong.join("\n"));
    println!("{templates} templates, {count} conversations");
}
