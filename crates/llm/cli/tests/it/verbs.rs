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
    run("load --concurrent 3 --requests 5 --prompt-tokens 9 --answer-tokens 3 --most-tokens 12 --context 64")
        .unwrap();
    run("load --concurrent 2 --requests 5 --seconds 600 --same-lengths --prompt-tokens 9 --answer-tokens 3 --most-tokens 12 --context 64 --json")
        .unwrap();
    run("bench --batch 3 --prompt 9 --plan").unwrap();
    run("bench --batch 3 --prompt 9 --plan --tensor-parallel 2").unwrap();
    run("generate --ids 1,2,3 --greedy -n 3 --tensor-parallel 2").unwrap();
    run("bench --batch 1,2 --prompt 9 --steps 2 --prefill 5,9 --json").unwrap();
    run("bench --batch 3 --prompt 9 --steps 2 --prefill 0 --drafts 2").unwrap();
}

#[test]
fn a_context_that_is_too_short_is_refused() {
    let error = run("load --concurrent 1 --requests 1 --context 64").unwrap_err().to_string();
    assert!(error.contains("give --context or --most-tokens"), "{error}");
}
