//! Chapters of the book that are an example: their listings, joined, are the program, and their
//! outputs, joined, are what the program prints on the emulator.

use std::error::Error;
use std::io::Write;

use warpwright::emulator::Schedule;
use warpwright::runtime::Device;

// `main` is for the example's own binary.
#[allow(dead_code)]
#[path = "../examples/02_the_art_of_slicing.rs"]
mod art_of_slicing;
#[allow(dead_code)]
#[path = "../examples/checked_kernel.rs"]
mod checked_kernel;
#[allow(dead_code)]
#[path = "../examples/cooperation.rs"]
mod cooperation;
#[allow(dead_code)]
#[path = "../examples/cute_dsl.rs"]
mod cute_dsl;
#[allow(dead_code)]
#[path = "../examples/07_global_gemm.rs"]
mod global_gemm;
#[allow(dead_code)]
#[path = "../examples/01_hello_layout.rs"]
mod hello_layout;
#[allow(dead_code)]
#[path = "../examples/06_hello_mma.rs"]
mod hello_mma;
#[allow(dead_code)]
#[path = "../examples/03_the_naive_copy.rs"]
mod naive_copy;
#[allow(dead_code)]
#[path = "../examples/online_softmax_and_delta_rule.rs"]
mod online_softmax_and_delta_rule;
#[allow(dead_code)]
#[path = "../examples/04_the_parallel_copy.rs"]
mod parallel_copy;
#[allow(dead_code)]
#[path = "../examples/printing.rs"]
mod printing;
#[allow(dead_code)]
#[path = "../examples/streams.rs"]
mod streams;
#[allow(dead_code)]
#[path = "../examples/05_swizzling.rs"]
mod swizzling;

/// What an example does on a device.
type Lesson = fn(&Device, &mut dyn Write) -> Result<(), Box<dyn Error>>;

/// The blocks of a chapter that are fenced as `language`, joined, with single empty lines.
fn blocks(chapter: &str, language: &str) -> String {
    let fence = format!("```{language}");
    let mut inside = false;
    let mut lines = Vec::new();
    for line in chapter.lines() {
        if line.starts_with("```") {
            inside = line == fence;
            lines.push("");
        } else if inside {
            lines.push(line);
        }
    }
    single_spaced(&lines.join("\n"))
}

/// The text without empty lines at its ends, nor two together.
fn single_spaced(text: &str) -> String {
    let mut lines: Vec<&str> = text.lines().map(str::trim_end).collect();
    lines.dedup_by(|line, before| line.is_empty() && before.is_empty());
    lines.join("\n").trim_matches('\n').to_owned()
}

fn check(lesson: Lesson, program: &str, chapter: &str) {
    assert_eq!(blocks(chapter, "rust"), single_spaced(program), "the chapter's listings are the example");
    // Whether copies arrive at once or as late as they may, a lesson prints the same.
    for schedule in [Schedule::Eager, Schedule::Latest] {
        let device = Device::with_schedule("emu:h200", schedule).expect("the emulator always starts");
        let mut printed = Vec::new();
        lesson(&device, &mut printed).expect("a lesson finds its results right");
        // A report names the example by the path that this file includes it by.
        let printed = String::from_utf8(printed).expect("lessons print text").replace("tests/../", "");
        assert_eq!(single_spaced(&printed), blocks(chapter, "text"), "what the chapter shows is printed");
    }
}

macro_rules! chapters {
    ($($name:ident: $folder:literal $file:literal),* $(,)?) => {
        $(
            #[test]
            fn $name() {
                let program = include_str!(concat!("../examples/", $file, ".rs"));
                let chapter = include_str!(concat!("../../../book/src/", $folder, "/", $file, ".md"));
                check(self::$name::lesson, program, chapter);
            }
        )*
    };
}

chapters! {
    hello_layout: "layouts" "01_hello_layout",
    art_of_slicing: "layouts" "02_the_art_of_slicing",
    naive_copy: "layouts" "03_the_naive_copy",
    parallel_copy: "layouts" "04_the_parallel_copy",
    swizzling: "layouts" "05_swizzling",
    hello_mma: "layouts" "06_hello_mma",
    global_gemm: "layouts" "07_global_gemm",
    online_softmax_and_delta_rule: "models" "online_softmax_and_delta_rule",
    cute_dsl: "toolchain" "cute_dsl",
}

#[test]
fn checked_kernel() {
    let page = include_str!("../../../docs/checking.md");
    check(self::checked_kernel::lesson, include_str!("../examples/checked_kernel.rs"), page);
}

#[test]
fn streams() {
    let page = include_str!("../../../docs/streams.md");
    check(self::streams::lesson, include_str!("../examples/streams.rs"), page);
}

#[test]
fn cooperation() {
    let page = include_str!("../../../docs/cooperation.md");
    check(self::cooperation::lesson, include_str!("../examples/cooperation.rs"), page);
    // What the page says of the release and the acquire is what the checkers see.
    let device = Device::named("emu:h200").and_then(Device::checked).expect("the emulator always starts");
    self::cooperation::lesson(&device, &mut Vec::new()).expect("the checkers find nothing");
}

const PRINTING: &str = include_str!("../../../book/src/toolchain/printing.md");

/// What a device prints goes to the process's output, so the chapter on it is run in a process of
/// its own.
#[test]
fn printing() {
    let program = include_str!("../examples/printing.rs");
    assert_eq!(blocks(PRINTING, "rust"), single_spaced(program), "the chapter's listings are the example");
    let itself = std::env::current_exe().expect("a test knows its program");
    let arguments = ["--ignored", "--exact", "--nocapture", "tutorials::printing_alone"];
    let output = std::process::Command::new(itself).args(arguments).output().expect("it can be run again");
    let printed = String::from_utf8(output.stdout).expect("lessons print text");
    assert!(output.status.success() && printed.contains(&blocks(PRINTING, "text")), "{printed}");
}

#[test]
#[ignore = "run by `printing`, which reads what it prints"]
fn printing_alone() {
    let device = Device::named("emu:h200").expect("the emulator always starts");
    println!();
    self::printing::lesson(&device, &mut std::io::stdout()).expect("the lesson runs");
}
