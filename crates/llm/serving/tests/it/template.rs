//! Chat templates as Hugging Face renders them.

use serde_json::{Value, json};
use warpwright_llm_serving::template::{ChatTemplate, Conversation};

fn conversation(messages: Value) -> Conversation {
    Conversation {
        messages: messages.as_array().unwrap().clone(),
        add_generation_prompt: true,
        ..Conversation::default()
    }
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
    insta::assert_snapshot!(ChatTemplate::chat_ml().render(&conversation).unwrap());
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
    let text = ChatTemplate::chat_ml().render(&conversation).unwrap();
    assert_eq!(text, "<|im_start|>user\nCount.<|im_end|>\n<|im_start|>assistant\nOne, two,");
}

#[test]
fn a_wrong_template_is_an_error() {
    let error = ChatTemplate::new("{% if %}", "", "").err().unwrap().to_string();
    assert!(error.starts_with("the chat template does not compile: "), "{error}");
    assert!(render("{{ messages[0].content.frobnicate() }}", json!([{ "role": "user" }])).contains("fails"));
}
