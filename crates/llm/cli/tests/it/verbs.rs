//! Verbs run a tiny model with random weights on the emulator.

use clap::Parser;
use warpwright_llm_cli::Command;

fn run(words: &str) -> anyhow::Result<()> {
    run_on("emu:h200", words)
}

fn run_on(device: &str, words: &str) -> anyhow::Result<()> {
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../engine/tests/fixtures/qwen3_5");
    let (verb, rest) = words.split_once(' ').unwrap();
    let fixed = ["warpwright-llm", verb, model, "--random-weights", "1", "--device", device];
    Command::parse_from(fixed.into_iter().chain(rest.split(' '))).run()
}

#[test]
fn verbs_run() {
    run("generate --prompt abc --greedy -n 3").unwrap();
    run("score --ids 1,2,3").unwrap();
    run("load --max-concurrency 3 --num-prompts 5 --random-input-len 9 --random-output-len 3 --most-tokens 12 --max-model-len 64")
        .unwrap();
    run("load --max-concurrency 2 --num-prompts 5 --seconds 600 --same-lengths --random-input-len 9 --random-output-len 3 --most-tokens 12 --max-model-len 64 --json")
        .unwrap();
    run("bench --batch-size 3 --input-len 9 --plan").unwrap();
    run("bench --batch-size 3 --input-len 9 --plan --tensor-parallel-size 2").unwrap();
    run("generate --ids 1,2,3 --greedy -n 3 --tensor-parallel-size 2").unwrap();
    run("bench --batch-size 1,2 --input-len 9 --output-len 2 --prefill 5,9 --json").unwrap();
    run("bench --batch-size 3 --input-len 9 --output-len 2 --prefill 0 --num-speculative-tokens 2").unwrap();
}

/// No device has this name: what is refused for another reason is refused before a weight is loaded.
#[test]
fn what_cannot_run_is_refused_before_weights_are_loaded() {
    let missing = "--trace /no/such/folder/trace.json";
    for (words, message) in [
        ("load --max-model-len 64", "a context of 64 tokens does not hold prompt and answer"),
        (&format!("load --most-tokens 12 {missing}"), "cannot write /no/such/folder/trace.json"),
        (&format!("serve --port 0 {missing}"), "cannot write /no/such/folder/trace.json"),
        ("bench --prefill 4000000", "a prefill of 4000000 tokens does not fit"),
        ("bench --prefill 0 --input-len 4000000", "a decode needs 4000130 tokens"),
        ("bench --plan --input-len 4000000", "a decode needs 4000130 tokens"),
        ("generate --ids 1,2,9999999", "token 9999999 is not in the model's vocabulary"),
        ("generate --ids 1,2,3 --max-model-len 2", "the prompt has 3 tokens, and a sequence at most 2"),
        ("score --ids 9999999", "token 9999999 is not in the model's vocabulary"),
        ("score --ids 1,2,3 --max-model-len 2", "the prompt has 3 tokens, and a sequence at most 2"),
    ] {
        let error = format!("{:#}", run_on("none", words).unwrap_err());
        assert!(error.contains(message), "{words}: {error}");
    }
}

#[test]
fn old_names_of_flags_are_refused_with_the_new_ones() {
    for (arguments, message) in [
        ("serve MODEL --sequences 4", "`--sequences` is now `--max-num-seqs`"),
        ("bench MODEL --batch=4", "`--batch` is now `--batch-size`"),
        ("chat MODEL --context 64", "`--context` is now `--max-model-len`"),
    ] {
        let error = Command::read(["warpwright-llm"].into_iter().chain(arguments.split(' '))).unwrap_err();
        assert!(error.to_string().contains(message), "{error}");
    }
    let error = Command::read(["warpwright-llm", "chat", "MODEL", "--sequences", "4"]).unwrap_err();
    assert!(error.to_string().contains("unexpected argument '--sequences'"), "{error}");
}
