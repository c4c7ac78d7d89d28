//! `chat` in a pipe, with a tiny model of random weights on the emulator.

use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};

use serde_json::{Value, json};

const MODEL: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../engine/tests/fixtures/qwen3_5");
const COMMAND: &str = env!("CARGO_BIN_EXE_warpwright-llm");
const FIXED: [&str; 7] = ["chat", MODEL, "--random-weights", "1", "--device", "emu:h200", "--dtype=f32"];

fn chat(input: &str, flags: &str) -> Output {
    output(Command::new(COMMAND).args(FIXED.into_iter().chain(flags.split(' '))), input)
}

/// What a process writes that reads this.
fn output(command: &mut Command, input: &str) -> Output {
    let mut child = command
        .env("RUST_BACKTRACE", "1")
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn error(output: &Output) -> &str {
    assert!(!output.status.success());
    std::str::from_utf8(&output.stderr).unwrap()
}

#[test]
fn each_line_of_a_pipe_is_a_message_or_a_command() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("saved.json");
    let input = format!(
        "forgotten\n/clear\n\n/system Be brief.\none\\\ntwo\n/regenerate\n/save {0}\n/save {0}\nnever read\n",
        path.display()
    );
    let output = chat(&input, "-n 3 --seed 5");
    assert!(error(&output).contains("saved.json: File exists"), "{output:?}");
    // Answers, and nothing else: no prompt, and no note of the second that stands for three.
    assert!(!output.stdout.starts_with(b">"), "{output:?}");
    assert!(output.stdout.iter().filter(|byte| **byte == b'\n').count() >= 3, "{output:?}");
    let saved: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    let mut expected = json!([
        { "role": "system", "content": "Be brief." },
        { "role": "user", "content": "one\ntwo" },
    ]);
    let answer = &saved["messages"][2];
    assert_eq!(answer["role"], "assistant");
    expected.as_array_mut().unwrap().push(answer.clone());
    assert_eq!(saved["messages"], expected);
}

#[test]
fn errors_of_a_pipe_are_sentences_and_end_it() {
    let long = format!("{}\nnever read\n", "long ".repeat(60));
    let cases = [
        (
            "/quiet\n",
            "error: there is no command /quiet; /help lists them. A space before the slash makes it a message\n",
        ),
        ("/regenerate\n", "error: there is no message to answer\n"),
        (long.as_str(), "but the context is 128 tokens: shorten the prompt.\n"),
    ];
    for (input, end) in cases {
        let output = chat(input, "-n 3 --max-model-len 128");
        assert!(error(&output).ends_with(end), "{output:?}");
        assert!(output.stdout.is_empty(), "{output:?}");
    }
}

/// The command with a terminal, which `script` of util-linux makes.
fn in_terminal(flags: &str, state: &Path) -> Command {
    let mut script = Command::new("script");
    script.args(["-qec", &format!("{COMMAND} {} {flags}", FIXED.join(" ")), "/dev/null"]);
    script.env("XDG_STATE_HOME", state).env("TERM", "xterm");
    script
}

#[test]
fn lines_that_are_typed_ahead_wait_for_their_turn() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("saved.json");
    let typed = format!("/system Be\n/system Be brief.\none\n/save {}\n/exit\n", path.display());
    // A terminal without a cursor has no editor.
    for term in ["xterm", "dumb"] {
        let output = output(in_terminal("-n 3", folder.path()).env("TERM", term), &typed);
        assert!(output.status.success(), "{output:?}");
        let saved: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
        assert_eq!(saved["messages"][0], json!({ "role": "system", "content": "Be brief." }));
        assert_eq!(saved["messages"][1], json!({ "role": "user", "content": "one" }));
        std::fs::remove_file(&path).unwrap();
    }
}

/// Keys are kept, Ctrl-D as well, and a terminal shows them where the editor has read them.
#[test]
fn keys_of_an_answer_are_shown_after_it() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("saved.json");
    let mut command = in_terminal("-n 30", folder.path());
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let (mut keys, mut screen) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
    let mut unread = String::new();
    // What the screen shows up to a text.
    let mut until = |text: &str| {
        let mut part = [0; 4096];
        while !unread.contains(text) {
            let count = screen.read(&mut part).unwrap();
            assert!(count > 0, "{unread:?}");
            unread += &String::from_utf8_lossy(&part[..count]);
        }
        let end = unread.find(text).unwrap() + text.len();
        unread.drain(..end).collect::<String>()
    };
    until("leaves.");
    keys.write_all(b"one\r").unwrap();
    until("one");
    write!(keys, "say it\x1b[D\x1b[Ds \r/save {}\r\x04", path.display()).unwrap();
    let answer = until("[the answer was cut");
    assert!(!answer.contains("say"), "{answer:?}");
    until("say s it");
    let mut rest = Vec::new();
    screen.read_to_end(&mut rest).unwrap();
    assert!(child.wait().unwrap().success(), "{}", String::from_utf8_lossy(&rest));
    let saved: Value = serde_json::from_slice(&std::fs::read(&path).unwrap()).unwrap();
    assert_eq!(saved["messages"][0]["content"], "one");
    assert_eq!(saved["messages"][2]["content"], "say s it");
}
