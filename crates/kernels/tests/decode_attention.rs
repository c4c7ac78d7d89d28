//! Decode attention: every output and LSE against f64, by tensor copies and by `cp.async`. Unused
//! keys of the pools are NaN.

use warpwright::emulator::Schedule;
use warpwright::runtime::Device;

use crate::SUITE;
use crate::walk::{on_emulators, run};

/// No key, one, and where boxes of 16 keys and tiles of several boxes begin and end.
const LENGTHS: &[u32] = &[0, 1, 15, 16, 17, 127, 129, 1000];

/// Heads, types, pages, options, and splits over CTAs.
const CASES: &[&str] = &[
    "--batch 5 --keys 300 --ragged true --ctas 7 --window 137 --softcap 5 --sink true --queries 2",
    "--batch 3 --keys 300 --ragged true --type f16 --window 1",
    "--batch 2 --keys 200 --query-heads 16 --key-heads 4 --head-dim 256 --ctas 3",
    "--batch 2 --keys 200 --query-heads 4 --key-heads 4 --head-dim 128 --type f16 --page-size 64 --box-keys 32 --ctas 3",
    "--batch 2 --keys 200 --head-dim 96 --page-size 128 --box-keys 64 --ctas 2 --window 150",
    "--batch 2 --keys 200 --ragged true --query-heads 8 --key-heads 1 --head-dim 192 --queries 5 --page-size 256",
    "--batch 2 --keys 100 --ragged true --query-heads 32 --key-heads 4 --queries 8 --evict first --ctas 3",
    "--batch 200 --keys 40 --ragged true --key-heads 1 --ctas 9 --stages 2",
    "--batch 2 --keys 3 --queries 8 --query-heads 1 --key-heads 1 --sink true",
];

#[test]
fn every_length_is_right() {
    let commands: Vec<String> =
        LENGTHS.iter().map(|keys| format!("decode-attention --batch 1 --keys {keys} --ctas 5")).collect();
    on_emulators(&SUITE, &commands.iter().map(String::as_str).collect::<Vec<_>>());
}

#[test]
fn every_kind_of_attention_is_right_and_checks_clean() {
    for (name, schedule) in [("emu:h200", Schedule::Latest), ("emu:a100", Schedule::Random(5))] {
        let device = Device::with_schedule(name, schedule).and_then(Device::checked).expect("an emulator");
        CASES.iter().for_each(|case| run(&SUITE, &device, &format!("decode-attention {case}")));
    }
}
