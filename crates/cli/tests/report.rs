//! `warpwright report` and `warpwright roofline` as a user runs them, on a kernel with a bit of
//! everything that is slow.

use std::process::{Command, Output};

use serde_json::Value;

const LAUNCH: &str = "tests/report/launch.json";

fn warpwright(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_warpwright"))
        .args(arguments)
        // No assembler: the registers are those that the test tells.
        .env("WARPWRIGHT_PTXAS", "/nonexistent")
        .output()
        .expect("the command starts")
}

fn text(arguments: &[&str]) -> String {
    let output = warpwright(arguments);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

fn json(arguments: &[&str]) -> Value {
    serde_json::from_str(&text(&[arguments, &["--json"]].concat())).expect("JSON")
}

#[test]
fn the_table_tells_each_line_and_the_advice() {
    insta::assert_snapshot!(text(&["report", LAUNCH, "--regs", "24"]));
}

#[test]
fn the_counters_are_json() {
    let report = json(&["report", LAUNCH]);
    let kernel = &report["kernels"][0];
    let line = |number: u64| {
        let lines = kernel["lines"].as_array().expect("lines");
        let found = lines.iter().find(|line| line["counts"]["line"] == number).expect("the line");
        found["counts"]["counts"].clone()
    };
    assert_eq!((&line(5)["shared"]["wavefronts"], &line(5)["shared"]["ideal"]), (&4.into(), &2.into()));
    assert_eq!(
        (&line(5)["global_loads"]["sectors"], &line(5)["global_loads"]["ideal"]),
        (&64.into(), &8.into())
    );
    assert_eq!((&line(8)["divergent_branches"], &line(9)["lanes"]), (&2.into(), &(2 * 7 * 8).into()));
    // The atomic operation after the second barrier may lean on it.
    assert_eq!((&line(6)["idle_barriers"], &line(7)["idle_barriers"]), (&2.into(), &0.into()));
    assert_eq!((&line(10)["narrow"], &line(11)["atomic_conflicts"]), (&2.into(), &(2 * 31).into()));
    assert_eq!(kernel["total"]["operations"]["f32"], 2 * 8 + 2 * 32);
    // There is no assembler: estimated.
    assert_eq!(kernel["occupancy"]["registers_per_thread"], 16);
}

/// Reads a page strictly: every element is closed, in order, and text has no stray signs. Returns
/// its text.
fn strictly(page: &str) -> String {
    let body = page.strip_prefix("<!DOCTYPE html>\n").expect("a doctype");
    let (mut open, mut words): (Vec<&str>, String) = (Vec::new(), String::new());
    for piece in body.split('<').skip(1) {
        let (tag, text) = piece.split_once('>').expect("a tag ends");
        assert!(!text.contains('>') || open.last() == Some(&"style"), "a stray sign after <{tag}>");
        match tag.strip_prefix('/') {
            Some(name) => assert_eq!(open.pop(), Some(name), "closed in order"),
            None => {
                let name = tag.split(' ').next().expect("a name");
                assert_eq!(tag.matches('"').count() % 2, 0, "{tag}");
                if name != "meta" {
                    open.push(name);
                }
            }
        }
        words.push_str(text);
    }
    assert!(open.is_empty(), "{open:?}");
    words
}

#[test]
fn the_page_stands_alone_and_is_well_formed() {
    let file = std::env::temp_dir().join(format!("warpwright-report-{}.html", std::process::id()));
    text(&["report", LAUNCH, "--html", file.to_str().expect("a path")]);
    let page = std::fs::read_to_string(&file).expect("written");
    std::fs::remove_file(&file).expect("removed");
    let words = strictly(&page);
    for expected in ["tile[2 * i] = in[8 * i];", "__syncthreads();", "atomics wait"] {
        assert!(words.contains(expected), "`{expected}` is not in {words}");
    }
    for outside in ["http", "src=", "<script", "@import", "url("] {
        assert!(!page.contains(outside), "the page needs nothing else, and has `{outside}`");
    }
    assert!(page.contains("prefers-color-scheme: dark"));
    // The hottest line is as hot as it gets, and no line is hotter.
    assert!(page.contains("--part: 80%"), "{page}");
}

#[test]
fn the_roofline_counts_and_draws() {
    let file = std::env::temp_dir().join(format!("warpwright-roofline-{}.svg", std::process::id()));
    let place = json(&["roofline", LAUNCH, "--svg", file.to_str().expect("a path")]);
    let picture = std::fs::read_to_string(&file).expect("written");
    std::fs::remove_file(&file).expect("removed");
    assert!(picture.starts_with("<svg ") && picture.ends_with("</svg>\n"), "{picture}");
    assert_eq!(place["operations"]["f32"], 2 * 8 + 2 * 32);
    // All 32 sectors of the input; of the output the four that the stores and the one that the sums
    // touch.
    assert_eq!(place["device_memory_bytes"], 32 * (32 + 1 + 4 + 1));
    assert_eq!(place["limited_by"], "device memory");
    assert_eq!(place["measured_seconds"], Value::Null);
    let text = text(&["roofline", "vector-add", "--length", "4096"]);
    assert!(text.contains("device memory            49152 bytes: 0.08 operations per byte"), "{text}");
}

#[test]
fn what_cannot_be_counted_is_refused() {
    for (arguments, words) in [
        (&["report"][..], "expected a kernel or a launch file"),
        (&["report", "nothing.json"], "nothing.json"),
        (&["report", "vector-add", "--device", "emu:h300"], "unknown device `emu:h300`"),
        (&["roofline", "vector-add", "--device", "emu:h300"], "unknown device `emu:h300`"),
    ] {
        let output = warpwright(arguments);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && message.contains(words), "{arguments:?}: {message}");
    }
}
