//! The examples that the chapters on warps, blocks and attention quote: right and clean under every
//! schedule, and quoted letter for letter.

// Two of the examples have a module in common.
#![allow(clippy::duplicate_mod)]

use std::error::Error;

use warpwright::arch::Arch;
use warpwright::runtime::{Device, Schedule};

#[path = "../examples/flash_sm80.rs"]
#[expect(dead_code, reason = "its main is the example's")]
mod flash_sm80;
#[path = "../examples/flash_sm90.rs"]
#[expect(dead_code, reason = "its main is the example's")]
mod flash_sm90;
#[path = "../examples/int4_gemv.rs"]
#[expect(dead_code, reason = "its main is the example's")]
mod int4_gemv;
#[path = "../examples/top_k.rs"]
#[expect(dead_code, reason = "its main is the example's")]
mod top_k;

/// Runs `example`, which counts its wrong elements, under the checker and every kind of schedule.
fn check(gpu: &str, example: impl Fn(&Device) -> Result<usize, Box<dyn Error>>) {
    for schedule in [Schedule::Eager, Schedule::Latest, Schedule::Random(7)] {
        let gpu = Arch::named(gpu).expect("it is known");
        let device = Device::emulated(gpu, schedule).and_then(Device::checked).expect("an emulator checks");
        let wrong = example(&device);
        assert_eq!(wrong.unwrap_or_else(|error| panic!("{schedule:?}:\n{error}")), 0, "{schedule:?}");
    }
}

#[test]
fn a_gemv_is_right_and_clean() {
    check("h200", |device| int4_gemv::wrong_elements(device, (37, 1056)));
}

#[test]
fn top_k_is_right_and_clean() {
    check("h200", |device| top_k::wrong_elements(device, 5_000));
}

#[test]
fn attention_by_mma_sync_is_right_and_clean() {
    for (length, causal) in [(200, true), (1, false)] {
        let problem = flash_sm80::attention::Problem { heads: 1, length, causal };
        check("a100", |device| flash_sm80::wrong_elements(device, problem));
    }
}

#[test]
fn attention_by_tma_is_right_and_clean() {
    for (length, causal) in [(200, true), (300, false)] {
        let problem = flash_sm90::attention::Problem { heads: 2, length, causal };
        check("h200", |device| flash_sm90::wrong_elements(device, problem));
    }
}

/// The lines of a text without their indentation.
fn lines(text: &str) -> Vec<&str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty()).collect()
}

/// Each listing of a chapter is a part of one of its programs.
#[test]
fn the_chapters_quote_the_examples() {
    let chapters: [(&str, &[&str]); 3] = [
        (
            include_str!("../../../book/src/simt/warps_and_blocks.md"),
            &[include_str!("../examples/int4_gemv.rs"), include_str!("../examples/top_k.rs")],
        ),
        (
            include_str!("../../../book/src/models/attention.md"),
            &[include_str!("../examples/flash_sm80.rs"), include_str!("../examples/attention/mod.rs")],
        ),
        (
            include_str!("../../../book/src/models/attention_by_tma.md"),
            &[include_str!("../examples/flash_sm90.rs"), include_str!("../examples/attention/mod.rs")],
        ),
    ];
    for (chapter, programs) in chapters {
        let listings: Vec<&str> = chapter.split("```rust\n").skip(1).collect();
        assert!(!listings.is_empty(), "the chapter quotes its programs");
        for listing in listings {
            let listing = lines(listing.split("```").next().unwrap_or_default());
            let quoted = |program: &&str| lines(program).windows(listing.len()).any(|part| part == listing);
            assert!(programs.iter().any(quoted), "no program has these lines:\n{}", listing.join("\n"));
        }
    }
}
