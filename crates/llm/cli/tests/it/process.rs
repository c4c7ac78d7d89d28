//! The command as a process: its flags, its errors and its output.

use std::process::{Command, Stdio};

fn command(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_warpwright-llm"));
    command.args(arguments).env_remove("WARPWRIGHT_API_KEY").env("RUST_BACKTRACE", "1");
    command
}

/// What the command writes to stderr, after it failed with this status.
fn fails(command: &mut Command, status: i32) -> String {
    let output = command.output().unwrap();
    let text = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(status), "{command:?}: {text}");
    assert!(
        !text.contains("panicked") && !text.contains("backtrace") && !text.contains("<unknown>"),
        "{text}"
    );
    text
}

#[test]
fn numbers_have_a_range() {
    for flag in [
        "answer-seconds",
        "body-seconds",
        "body-mib",
        "connections",
        "requests",
        "choices",
        "max-model-len",
        "max-num-seqs",
        "cache-tokens",
        "chunk",
    ] {
        for value in ["0", "18446744073709551615"] {
            let text = fails(&mut command(&["serve", "/nowhere", &format!("--{flag}"), value]), 2);
            assert!(text.contains(flag), "{text}");
        }
    }
    for flag in ["grace-seconds", "warm-up-seconds", "snapshots", "num-speculative-tokens"] {
        fails(&mut command(&["serve", "/nowhere", &format!("--{flag}"), "18446744073709551615"]), 2);
    }
}

#[test]
fn a_key_is_one_that_a_header_carries() {
    for (key, expected) in [("", "empty"), ("\n", "empty"), ("a b", "no header"), ("schlüssel", "no header")]
    {
        let text = fails(command(&["serve", "/nowhere"]).env("WARPWRIGHT_API_KEY", key), 2);
        assert!(text.contains(expected), "{key:?}: {text}");
    }
    // A secret of a file may end with a line break.
    let text = fails(command(&["serve", "/nowhere", "--port", "0"]).env("WARPWRIGHT_API_KEY", "key\n"), 1);
    assert_eq!(text.matches("No such file").count(), 1, "{text}");
}

#[test]
fn an_open_server_without_a_key_says_so() {
    let warns = |arguments: &[&str]| fails(&mut command(arguments), 1).contains("warning: anyone");
    assert!(warns(&["serve", "/nowhere", "--port", "0", "--host", "0.0.0.0"]));
    assert!(!warns(&["serve", "/nowhere", "--port", "0", "--host", "0.0.0.0", "--api-key", "key"]));
    assert!(!warns(&["serve", "/nowhere", "--port", "0"]));
}

#[test]
fn output_that_nobody_reads_ends_the_command() {
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../engine/tests/fixtures/qwen3_5");
    let plan = [
        "bench",
        model,
        "--random-weights",
        "1",
        "--device",
        "emu:h200",
        "--batch-size",
        "3",
        "--input-len",
        "9",
        "--plan",
    ];
    let mut child = command(&plan).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.status.success(), "{output:?}");
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// A library that panics says nothing itself.
#[test]
fn a_file_that_is_wrong_is_named_in_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../engine/tests/fixtures/qwen3_5");
    let tokenizer = folder.path().to_str().unwrap();
    let arguments = [
        "generate",
        model,
        "--random-weights",
        "1",
        "--device",
        "emu:h200",
        "--tokenizer",
        tokenizer,
        "--prompt",
        "x",
    ];
    // A token without a text is none.
    std::fs::write(folder.path().join("tokenizer_config.json"), r#"{ "eos_token": {} }"#).unwrap();
    for (normalizer, generation, expected) in [
        (r#"{ "type": "Precompiled" }"#, "{}", "its `normalizer` cannot be read"),
        (
            "null",
            r#"{ "eos_token_id": ["x"] }"#,
            "eos_token_id has \"x\"; expected a token or a list of tokens",
        ),
    ] {
        let json = format!(
            r#"{{ "decoder": {{ "type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true }},
            "normalizer": {normalizer}, "model": {{ "type": "BPE", "vocab": {{ "x": 0 }}, "merges": [] }} }}"#
        );
        std::fs::write(folder.path().join("tokenizer.json"), json).unwrap();
        std::fs::write(folder.path().join("generation_config.json"), generation).unwrap();
        let text = fails(&mut command(&arguments), 1);
        assert!(text.starts_with("error: ") && text.contains(expected), "{text}");
        assert_eq!(text.lines().count(), 1, "{text}");
    }
}
