//! What is refused, and with which sentence: the tables `refusals/arguments.txt` and
//! `refusals/launches.txt`, a case a line, `case => part of the message`.

use std::path::PathBuf;

use serde_json::{Value, json};
use warpwright_cli::refusal;
use warpwright_testing::one_in;

/// `cargo test` takes one case of a table in this number; the sweep takes all.
const SHARE: usize = 4;

/// The cases of a table, and their sentences.
fn table(name: &str) -> Vec<(String, String)> {
    let file = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/refusals").join(name);
    let text = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
    let case = |line: &str| {
        let (case, sentence) = line.split_once(" => ").unwrap_or_else(|| panic!("no sentence: {line}"));
        (case.to_owned(), sentence.to_owned())
    };
    let all: Vec<_> =
        text.lines().filter(|line| !line.is_empty() && !line.starts_with('#')).map(case).collect();
    assert!(all.len() > 90, "{name} has {} cases", all.len());
    one_in(SHARE, all).collect()
}

/// The words of a command line; `'` keeps spaces.
fn words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut is_quoted = false;
    for c in line.chars() {
        match c {
            '\'' => {
                is_quoted = !is_quoted;
                word.get_or_insert_default();
            }
            ' ' if !is_quoted => words.extend(word.take()),
            c => word.get_or_insert_default().push(c),
        }
    }
    words.extend(word);
    words
}

#[test]
fn bad_arguments_are_refused_with_a_sentence() {
    let wrong = table("arguments.txt").into_iter().filter_map(|(line, sentence)| {
        let words = words(&line);
        let words: Vec<&str> = words.iter().map(String::as_str).collect();
        match refusal(&words) {
            None => Some(format!("`{line}` is not refused")),
            Some(message) if message.contains(&sentence) => None,
            Some(message) => Some(format!("`{line}` is refused with\n{message}\nand not\n{sentence}")),
        }
    });
    let wrong: Vec<_> = wrong.collect();
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}

/// A kernel that stores a number at each of its threads.
const KERNEL: &str = "
.version 7.0
.target sm_80
.address_size 64
.visible .global .align 4 .b32 table[2];
.visible .entry k(.param .u64 x, .param .u32 n)
{
    .reg .b32 %r<4>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd0, [x];
    ld.param.u32 %r0, [n];
    mov.u32 %r1, %tid.x;
    mul.wide.u32 %rd1, %r1, 4;
    add.u64 %rd2, %rd0, %rd1;
    st.global.u32 [%rd2], %r0;
    ret;
}
";

#[test]
fn bad_launch_files_are_refused_with_a_sentence() {
    let folder = std::env::temp_dir().join(format!("warpwright-refusals-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("temporary files can be made");
    std::fs::write(folder.join("k.ptx"), KERNEL).expect("writable");
    let file = folder.join("launch.json");
    let path = file.display().to_string();
    let mut wrong = Vec::new();
    for (changed, sentence) in table("launches.txt") {
        let mut launch = json!({
            "ptx": "k.ptx", "entry": "k", "grid": [1], "block": [4],
            "args": [
                {"buffer": {"dtype": "u32", "shape": [4], "init": "zero"}},
                {"scalar": {"dtype": "u32", "value": 7}},
            ],
        });
        // A case is the members that it changes; `null` removes one.
        let members: Value =
            serde_json::from_str(&changed).unwrap_or_else(|error| panic!("{changed}: {error}"));
        let launched = launch.as_object_mut().expect("an object");
        for (name, value) in members.as_object().expect("a case is an object") {
            match value {
                Value::Null => launched.remove(name),
                value => launched.insert(name.clone(), value.clone()),
            };
        }
        let name = folder.file_name().and_then(|name| name.to_str()).expect("it has a name");
        std::fs::write(&file, launch.to_string().replace("{folder}", name)).expect("writable");
        match refusal(&["exec", &path, "--device", "emu:h200"]) {
            None => wrong.push(format!("{changed} is not refused")),
            Some(message) if message.contains(&sentence) => {}
            Some(message) => {
                wrong.push(format!("{changed} is refused with\n{message}\nand not\n{sentence}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
    std::fs::remove_dir_all(&folder).expect("it can be removed");
}
