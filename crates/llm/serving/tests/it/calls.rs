//! Calls in the form of the chat template: what is read, and what is written where a call is required.

use serde_json::{Value, json};
use warpwright_llm_serving::guide::{Grammars, tool_calls};
use warpwright_llm_serving::model::Model;
use warpwright_llm_serving::template::Conversation;
use warpwright_llm_serving::text::{ParserOptions, Tool};

use crate::guide::random_answer_of;
use crate::model::{CAPACITY, vocabulary};
use crate::text::parse;

/// A form: its name, the body of the template's loop over calls, and two calls (one, where the template has one) of
/// `look` with the city Ulm and of `count` with the number 3 as the template writes them. `{{ args }}` of a body are the
/// arguments as JSON.
struct Form {
    name: &'static str,
    turn: &'static str,
    written: &'static str,
    one_call: bool,
    short_ids: bool,
}

const LIST: &str = "{% for c in m.tool_calls %}{{ ', ' if not loop.first }}\
    {\"name\": {{ c.function.name | tojson }}, \"arguments\": {{ c.function.arguments | tojson }}}{% endfor %}]";

/// Forms as models write them: Hermes 2 and Qwen 2.5, Llama 3, Mistral Nemo, Mistral Small 3.2 and Devstral, xLAM,
/// Llama-Nemotron, Apriel, Functionary 3.1, DeepSeek-R1's distillations with arguments as a mapping and as text, Command
/// R7B, Kimi K2; Qwen3-Coder, GLM 4.5 and 4.7, MiniMax M2 and Seed-OSS, which have tags; and Llama 4 and LFM 2, which have
/// calls of Python.
const FORMS: [Form; 20] = [
    Form {
        name: "hermes",
        turn: "{% for c in m.tool_calls %}{{ '\\n' if not loop.first }}<tool_call>\n{\"name\": \"{{ c.function.name }}\", \
            \"arguments\": {{ c.function.arguments | tojson }}}\n</tool_call>{% endfor %}",
        written: "<tool_call>\n{\"name\": \"look\", \"arguments\": {\"city\": \"Ulm\"}}\n</tool_call>\n<tool_call>\n\
            {\"name\": \"count\", \"arguments\": {\"n\": 3}}\n</tool_call>",
        one_call: false,
        short_ids: false,
    },
    Form {
        name: "llama 3",
        turn: "{% if m.tool_calls | length != 1 %}{{ raise_exception('one call') }}{% endif %}{% set c = m.tool_calls[0].function %}\
            {\"name\": \"{{ c.name }}\", \"parameters\": {{ c.arguments | tojson }}}",
        written: "{\"name\": \"look\", \"parameters\": {\"city\": \"Ulm\"}}",
        one_call: true,
        short_ids: false,
    },
    Form {
        name: "mistral nemo",
        turn: "[TOOL_CALLS][{% for c in m.tool_calls %}{% if c.id | length != 9 %}{{ raise_exception('nine') }}{% endif %}\
            {{ ', ' if not loop.first }}{\"name\": \"{{ c.function.name }}\", \"arguments\": \
            {{ c.function.arguments | tojson }}, \"id\": \"{{ c.id }}\"}{% endfor %}]",
        written: "[TOOL_CALLS][{\"name\": \"look\", \"arguments\": {\"city\": \"Ulm\"}, \"id\": \"012345678\"}, \
            {\"name\": \"count\", \"arguments\": {\"n\": 3}, \"id\": \"abcdefghi\"}]",
        one_call: false,
        short_ids: true,
    },
    Form {
        name: "mistral small 3.2",
        turn: "{% for c in m.tool_calls %}[TOOL_CALLS]{{ c.function.name }}[CALL_ID]{{ c.id }}[ARGS]{{ c.function.arguments | tojson }}{% endfor %}",
        written: "[TOOL_CALLS]look[CALL_ID]012345678[ARGS]{\"city\": \"Ulm\"}[TOOL_CALLS]count[CALL_ID]012345679[ARGS]{\"n\": 3}",
        one_call: false,
        short_ids: false,
    },
    Form {
        name: "devstral",
        turn: "{% for c in m.tool_calls %}[TOOL_CALLS]{{ c.function.name }}[ARGS]{{ c.function.arguments | tojson }}{% endfor %}",
        written: "[TOOL_CALLS]look[ARGS]{\"city\": \"Ulm\"}[TOOL_CALLS]count[ARGS]{\"n\": 3}",
        one_call: false,
        short_ids: false,
    },
    Form {
        name: "xlam",
        turn: "[LIST",
        written: "[{\"name\": \"look\", \"arguments\": {\"city\": \"Ulm\"}}, {\"name\": \"count\", \"arguments\": {\"n\": 3}}]",
        one_call: false,
        short_ids: false,
    },
    Form {
        name: "llama nemotron",
        turn: "<TOOLCALL>[LIST</TOOLCALL>",
        written: "<TOOLCALL>[{\"name\": \"look\", \"arguments\": {\"city\": \"Ulm\"}}, {\"name\": \"count\", \"arguments\": {\"n\": 3}}]</TOOLCALL>",
        one_call: false,
        short_ids: false,
    },
    Form {
        name: "apriel",
        turn: "\n<tool_calls>[LIST</tool_calls>",
        written: "\n<tool_calls>[{\"name\": \"look\", \"arguments\": {\"city\": \"Ulm\"}}, {\"name\": \"count\", \"arguments\": {\"n\": 3}}]</tool_calls>",
        one_call: false,
        short_ids: false,
    },
    Form {
        name: "functionary",
        turn: "{% for c in m.tool_calls %}<function={{ c.function.name }}>{{ c.function.arguments | tojson }}</function>{% endfor %}",
        written: "<function=look>{\"city\": \"Ulm\"}</function><function=count>{\"n\": 3}</function>",
        one_call: false,
        short_ids: false,
    },
    Form {
        name: "deepseek r1",
        turn: "<|calls|>{% for c in m.tool_calls %}{{ '\\n' if not loop.first }}<|call|>function<|sep|>{{ c.function.name }}\n```json\n\
            {{ c.function.arguments | tojson }}\n```<|call end|>{% endfor %}<|calls end|>",
        written: "<|calls|><|call|>function<|sep|>look\n```json\n{\"city\": \"Ulm\"}\n```<|call end|>\n<|call|>function<|sep|>count\n```json\n\
            {\"n\": 3}\n```<|call end|><|calls end|>",
        one_call: false,
        short_ids: false,
    },
    Form {
        name: "deepseek r1 with text",
        turn: "<|calls|>{% for c in m.tool_calls %}{{ '\\n' if not loop.first }}{{ '<|call|>function<|sep|>' + c.function.name + '\\n```json\\n' \
            + c.function.arguments + '\\n```<|call end|>' }}{% endfor %}<|calls end|>",
        written: "<|calls|><|call|>function<|sep|>look\n```json\n{\"city\": \"Ulm\"}\n```<|call end|>\n<|call|>function<|sep|>count\n```json\n\
            {\"n\": 3}\n```<|call end|><|calls end|>",
        one_call: false,
        short_ids: false,
    },
    Form {
        name: "command r7b",
        turn: "<|START_ACTION|>[\n{% for c in m.tool_calls %}    {\"tool_call_id\": \"{{ loop.index0 }}\", \"tool_name\": \"{{ c.function.name }}\", \
            \"parameters\": {{ c.function.arguments | tojson }}}{{ ',' if not loop.last }}\n{% endfor %}]<|END_ACTION|>",
        written: "<|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"look\", \"parameters\": {\"city\": \"Ulm\"}},\n    \
            {\"tool_call_id\": \"0\", \"tool_name\": \"count\", \"parameters\": {\"n\": 3}}\n]<|END_ACTION|>",
        one_call: false,
        short_ids: false,
    },
    Form {
        name: "tags",
        turn: "{% for c in m.tool_calls %}<tool_call>\n<function={{ c.function.name }}>\n{% for k, v in c.function.arguments | items %}\
            <parameter={{ k }}>\n{{ v }}\n</parameter>\n{% endfor %}</function>\n</tool_call>\n{% endfor %}",
        written: "<tool_call>\n<function=look>\n<parameter=city>\nUlm\n</parameter>\n</function>\n</tool_call>\n\
            <tool_call>\n<function=count>\n<parameter=n>\n3\n</parameter>\n</function>\n</tool_call>",
        one_call: false,
        short_ids: false,
    },
    Form {
        name: "glm 4.5",
        turn: "{% for c in m.tool_calls %}{{ '\\n<tool_call>' + c.function.name }}\n{% for k, v in c.function.arguments.items() %}\
            <arg_key>{{ k }}</arg_key>\n<arg_value>{{ v | tojson if v is not string else v }}</arg_value>\n{% endfor %}</tool_call>{% endfor %}",
        written: "\n<tool_call>look\n<arg_key>city</arg_key>\n<arg_value>Ulm</arg_value>\n</tool_call>\n<tool_call>count\n\
            <arg_key>n</arg_key>\n<arg_value>3</arg_value>\n</tool_call>",
        one_call: false,
        short_ids: false,
    },
    Form {
        name: "glm 4.7",
        turn: "{% for c in m.tool_calls %}<tool_call>{{ c.function.name }}{% for k, v in c.function.arguments.items() %}\
            <arg_key>{{ k }}</arg_key><arg_value>{{ v | tojson if v is not string else v }}</arg_value>{% endfor %}</tool_call>{% endfor %}",
        written: "<tool_call>look<arg_key>city</arg_key><arg_value>Ulm</arg_value></tool_call><tool_call>count\
            <arg_key>n</arg_key><arg_value>3</arg_value></tool_call>",
        one_call: false,
        short_ids: false,
    },
    Form {
        name: "minimax m2",
        turn: "{{ '\\n<minimax:tool_call>\\n' }}{% for c in m.tool_calls %}<invoke name=\"{{ c.function.name }}\">\n\
            {% for k, v in c.function.arguments | items %}<parameter name=\"{{ k }}\">{{ v | tojson if v is not string else v }}\
            </parameter>\n{% endfor %}</invoke>\n{% endfor %}</minimax:tool_call>",
        written: "<minimax:tool_call>\n<invoke name=\"look\">\n<parameter name=\"city\">Ulm</parameter>\n</invoke>\n\
            <invoke name=\"count\">\n<parameter name=\"n\">3</parameter>\n</invoke>\n</minimax:tool_call>",
        one_call: false,
        short_ids: false,
    },
    Form {
        name: "seed-oss",
        turn: "{% for c in m.tool_calls %}{{ '\\n<seed:tool_call>\\n<function=' + c.function.name + '>\\n' }}\
            {% for k, v in c.function.arguments | items %}<parameter={{ k }}>{{ v | string }}</parameter>\n{% endfor %}\
            </function>\n</seed:tool_call>{% endfor %}",
        written: "<seed:tool_call>\n<function=look>\n<parameter=city>Ulm</parameter>\n</function>\n</seed:tool_call>\n\
            <seed:tool_call>\n<function=count>\n<parameter=n>3</parameter>\n</function>\n</seed:tool_call>",
        one_call: false,
        short_ids: false,
    },
    Form {
        name: "kimi k2",
        turn: "<|tool_calls_section_begin|>{% for c in m.tool_calls %}<|tool_call_begin|>{{ c.id }}<|tool_call_argument_begin|>\
            {{ c.function.arguments | tojson }}<|tool_call_end|>{% endfor %}<|tool_calls_section_end|>",
        written: "<|tool_calls_section_begin|><|tool_call_begin|>functions.look:0<|tool_call_argument_begin|>{\"city\": \"Ulm\"}\
            <|tool_call_end|><|tool_call_begin|>functions.count:1<|tool_call_argument_begin|>{\"n\": 3}<|tool_call_end|>\
            <|tool_calls_section_end|>",
        one_call: false,
        short_ids: false,
    },
    Form {
        name: "llama 4",
        turn: "[PYTHON]",
        written: "[look(city=\"Ulm\"), count(n=3)]",
        one_call: false,
        short_ids: false,
    },
    Form {
        name: "lfm 2",
        turn: "<|calls|>[PYTHON]<|calls end|>",
        written: "<|calls|>[look(city='Ulm'), count(n=3)]<|calls end|>",
        one_call: false,
        short_ids: false,
    },
];

const PYTHON: &str = "{% for c in m.tool_calls %}{{ ', ' if not loop.first }}{{ c.function.name }}(\
    {% for k, v in c.function.arguments | items %}{{ ', ' if not loop.first }}{{ k }}={{ v | tojson }}{% endfor %})\
    {% endfor %}";

fn tools() -> Vec<Tool> {
    let tool = |name: &str, parameter: &str, kind: &str| Tool {
        name: name.to_owned(),
        parameters: json!({
            "type": "object", "properties": { parameter: { "type": kind } }, "required": [parameter], "additionalProperties": false,
        }),
    };
    vec![tool("look", "city", "string"), tool("count", "n", "integer")]
}

impl Form {
    /// A model with this template, where Mistral's marks are special tokens.
    fn model(&self) -> Model {
        let turn = self.turn.replace("[LIST", &format!("[{LIST}")).replace("PYTHON", PYTHON);
        // The prompt may end with a beginning of the form, and a turn with calls may end as no other does.
        let template = format!(
            "{{% for m in messages %}}<|im_start|>{{{{ m.role }}}}\n{{% if m.tool_calls %}}{turn}<|im_out|>{{% else %}}\
             {{{{ m.content }}}}<|im_end|>{{% endif %}}\n{{% endfor %}}{{% if add_generation_prompt %}}<|im_start|>assistant\n\
             <think>\n{{% endif %}}"
        );
        let mut vocabulary = vocabulary();
        for mark in ["[TOOL_CALLS]", "[ARGS]", "[CALL_ID]"] {
            vocabulary.tokens.push(mark.to_owned());
            vocabulary.token_types.push(3);
        }
        Model::from_gguf("toy", &vocabulary, Some(&template)).unwrap()
    }

    fn options(&self, model: &Model) -> ParserOptions {
        ParserOptions {
            tools: tools().into(),
            form: model.template.calls().clone(),
            ..ParserOptions::default()
        }
    }
}

#[test]
fn calls_are_read_in_the_form_of_the_template() {
    for form in FORMS {
        let model = form.model();
        assert_eq!(model.template.has_short_ids(), form.short_ids, "{}", form.name);
        let options = form.options(&model);
        let all = [("call", "look {\"city\":\"Ulm\"}".to_owned()), ("call", "count {\"n\":3}".to_owned())];
        let expected = if form.one_call { &all[..1] } else { &all };
        for size in 1..form.written.chars().count() {
            let read = parse(&options, form.written, size, false);
            assert_eq!(read, expected, "{} in pieces of {size}", form.name);
        }
        for text in [
            "Just a text, [not] a {call}.",
            "{\"answer\": 1}",
            "[1, 2]",
            "{\"name\": \"Ann\"}",
            "[{\"name\": \"Bob\"}]",
            "{",
        ] {
            for size in 1..=text.len() {
                let read = parse(&options, text, size, false);
                assert_eq!(read, [("content", text.to_owned())], "{} in pieces of {size}", form.name);
            }
        }
    }
}

#[test]
fn required_calls_have_the_form_of_the_template() {
    for form in FORMS {
        let model = form.model();
        let (options, tools) = (form.options(&model), tools());
        let grammars = Grammars::new(&model.tokenizer, CAPACITY.vocabulary, &model.stops).unwrap();
        let begin = form.written.split("look").next().unwrap().trim_start();
        for (seed, several) in [(0, true), (1, true), (2, false)] {
            let grammar = tool_calls(model.template.calls(), &tools, several, &model.tokenizer).unwrap();
            let (text, ended) =
                random_answer_of(&model, &mut *grammars.guide(&grammar, false).unwrap(), seed, 4000);
            assert!(ended && text.starts_with(begin), "{}: {text}", form.name);
            let read = parse(&options, &text, 3, false);
            assert!(several || read.len() == 1, "{}: {text}", form.name);
            for (kind, call) in read {
                let (name, arguments) = call.split_once(' ').unwrap();
                let arguments: Value = serde_json::from_str(arguments).unwrap();
                let parameter = if name == "look" { "city" } else { "n" };
                assert!(kind == "call" && arguments[parameter] != Value::Null, "{}: {text}", form.name);
            }
        }
    }
}

#[test]
fn arguments_of_python_are_read_as_json() {
    let form = FORMS.iter().find(|form| form.name == "llama 4").expect("a form");
    let options = form.options(&form.model());
    let table = [
        ("[look()]", "look {}"),
        ("[look(\"Ulm\")]", r#"look {"city":"Ulm"}"#),
        ("[look( city = 'a, b) \\'c\\' \\u00e9' , )]", r#"look {"city":"a, b) 'c' é"}"#),
        (
            "[count(n=-2.5, on=True, off=False, no=None)]",
            r#"count {"n":-2.5,"on":true,"off":false,"no":null}"#,
        ),
        (
            "[count(n=[1, (2, 3)], d={'k': {\"l\": [True,]}, 4: 'v'})]",
            r#"count {"n":[1,[2,3]],"d":{"k":{"l":[true]},"4":"v"}}"#,
        ),
        ("[count(n=today() + 1)]", r#"count {"n":"today() + 1"}"#),
    ];
    for (text, expected) in table {
        for size in 1..=text.chars().count() {
            let read = parse(&options, text, size, false);
            assert_eq!(read, [("call", expected.to_owned())], "{text} in pieces of {size}");
        }
    }
}

/// A template without calls, whose prompt has this text where there are tools.
fn of_prompt(shown: &str) -> Model {
    let template = format!(
        "{{% if tools %}}{shown}{{{{ tools | tojson }}}}{{% endif %}}{{% for m in messages %}}<|im_start|>{{{{ m.role }}}}\n\
         {{{{ m.content }}}}<|im_end|>\n{{% endfor %}}{{% if add_generation_prompt %}}<|im_start|>assistant\n{{% endif %}}"
    );
    Model::from_gguf("toy", &vocabulary(), Some(&template)).unwrap()
}

#[test]
fn calls_that_no_template_writes_are_known_by_the_prompt() {
    let calls = "<|tool_call|>[{\"name\": \"look\", \"arguments\": {\"city\": \"Ulm\"}}, {\"name\": \"count\", \"arguments\": {\"n\": 3}}]";
    let expected = [("call", "look {\"city\":\"Ulm\"}".to_owned()), ("call", "count {\"n\":3}".to_owned())];
    // Granite 3, and Phi-4-mini.
    for (shown, end) in [("Respond with <|tool_call|>.", ""), ("<|tool|>", "<|/tool_call|>")] {
        let model = of_prompt(shown);
        let form = model.template.calls().clone();
        let options = ParserOptions { tools: tools().into(), form, ..ParserOptions::default() };
        let text = format!("{calls}{end}");
        for size in 1..text.len() {
            assert_eq!(parse(&options, &text, size, false), expected, "{shown} in pieces of {size}");
        }
        let grammars = Grammars::new(&model.tokenizer, CAPACITY.vocabulary, &model.stops).unwrap();
        let grammar = tool_calls(model.template.calls(), &tools(), true, &model.tokenizer).unwrap();
        let guide = &mut *grammars.guide(&grammar, false).unwrap();
        let (text, ended) = random_answer_of(&model, guide, 0, 4000);
        assert!(ended && text.starts_with("<|tool_call|>[{\"name\": \"") && text.ends_with(end), "{text}");
    }
}

#[test]
fn identifiers_have_the_name_where_the_template_writes_no_other() {
    let form = FORMS.iter().find(|form| form.name == "kimi k2").expect("a form");
    let call = |id: &str, name: &str| json!({ "id": id, "type": "function", "function": { "name": name, "arguments": "{}" } });
    let messages = vec![
        json!({ "role": "assistant", "content": "", "tool_calls": [call("a", "look"), call("b", "count")] }),
        json!({ "role": "tool", "tool_call_id": "b", "content": "{{ id }}" }),
        json!({ "role": "assistant", "content": "", "tool_calls": [call("a", "look")] }),
    ];
    let text = form.model().template.render(&Conversation { messages, ..Conversation::default() }).unwrap();
    for id in ["functions.look:0", "functions.count:1", "functions.look:2"] {
        assert_eq!(text.matches(id).count(), 1, "{text}");
    }
}

/// Functionary 3.2: texts are written as calls of `all`. The prompt of some versions ends with the mark.
fn functionary(prompt: &str) -> Model {
    let template = format!(
        "{{% for m in messages %}}<|im_start|>{{{{ m.role }}}}\n{{% if m.role == 'assistant' %}}\
         {{% if m.content %}}{{{{ '>>>all\\n' + m.content }}}}{{% endif %}}{{% for c in m.tool_calls or [] %}}\
         {{{{ '>>>' + c.function.name + '\\n' + c.function.arguments }}}}{{% endfor %}}\
         {{% else %}}{{{{ m.content }}}}{{% endif %}}<|im_end|>\n{{% endfor %}}\
         {{% if add_generation_prompt %}}<|im_start|>assistant\n{prompt}{{% endif %}}"
    );
    Model::from_gguf("toy", &vocabulary(), Some(&template)).unwrap()
}

#[test]
fn texts_that_have_a_name_as_calls_do_are_read() {
    let look = ("call", "look {\"city\":\"Ulm\"}");
    let count = ("call", "count {\"n\":3}");
    let table = [
        ("all\nHello, [you] {there}.\n", vec![("content", "Hello, [you] {there}.\n")]),
        ("look\n{\"city\": \"Ulm\"}", vec![look]),
        ("look\n{\"city\": \"Ulm\"}>>>count\n{\"n\": 3}", vec![look, count]),
        ("all\nI look.>>>look\n{\"city\": \"Ulm\"}", vec![("content", "I look."), look]),
        ("look\n{\"city\": \"Ulm\"}\n>>>all\nDone.", vec![look, ("content", "Done.")]),
        ("all\n>>> 1 + 1\n2\n>>>x\n", vec![("content", ">>> 1 + 1\n2\n>>>x\n")]),
        ("Hello\nthere", vec![("content", "Hello\nthere")]),
        ("alley\n{\"a\": 1}", vec![("content", "alley\n{\"a\": 1}")]),
    ];
    for prompt in [">>>", ""] {
        let model = functionary(prompt);
        let options = ParserOptions {
            tools: tools().into(),
            form: model.template.calls().clone(),
            ..ParserOptions::default()
        };
        let mark = if prompt.is_empty() { ">>>" } else { "" };
        for (text, expected) in &table {
            let text = if text.starts_with("Hello") { (*text).to_owned() } else { format!("{mark}{text}") };
            let expected = expected.iter().map(|(kind, part)| match part.starts_with("alley") {
                true => (*kind, format!("{mark}{part}")),
                false => (*kind, (*part).to_owned()),
            });
            let expected: Vec<(&str, String)> = expected.collect();
            for size in 1..=text.len() {
                assert_eq!(parse(&options, &text, size, false), expected, "{text:?} in pieces of {size}");
            }
        }
        let without = ParserOptions { tools: [].into(), ..options.clone() };
        for size in 1..9 {
            let read = parse(&without, &format!("{mark}all\nHello"), size, false);
            assert_eq!(read, [("content", "Hello".to_owned())]);
        }
        let grammars = Grammars::new(&model.tokenizer, CAPACITY.vocabulary, &model.stops).unwrap();
        let grammar = tool_calls(model.template.calls(), &tools(), true, &model.tokenizer).unwrap();
        for seed in 0..3 {
            let guide = &mut *grammars.guide(&grammar, false).unwrap();
            let (text, ended) = random_answer_of(&model, guide, seed, 4000);
            assert!(ended && text.starts_with(mark), "{text}");
            let read = parse(&options, &text, 3, false);
            assert!(!read.is_empty() && read.iter().all(|(kind, _)| *kind == "call"), "{text}");
        }
    }
}
