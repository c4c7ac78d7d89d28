//! Verbs run a tiny model with random weights on the emulator.

use clap::Parser;
use warpwright_llm_cli::Command;

fn run(words: &str) -> anyhow::Result<()> {
    let model = concat!(env!("CARGO_MANIFEST_DIR"), "/../engine/tests/fixtures/qwen3_5");
    let (verb, rest) = words.split_once(' ').unwrap();
    let fixed = ["warpwright-llm", verb, model, "--random-weights", "1", "--device", "emu:h200"];
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

#[test]
fn a_context_that_is_too_short_is_refused() {
    let error = run("load --max-concurrency 1 --num-prompts 1 --max-model-len 64").unwrap_err().to_string();
    assert!(error.contains("give --max-model-len or --most-tokens"), "{error}");
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
