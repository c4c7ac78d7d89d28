//! `--json` prints what `docs/json.md` describes: every field of a table, of its type, and no other.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

use serde_json::{Value, json};

/// The tables of the page, by their headings: fields and types.
type Tables = HashMap<String, Vec<(String, String)>>;

fn tables() -> Tables {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/json.md");
    let page = std::fs::read_to_string(page).expect("the page is there");
    let mut tables = Tables::new();
    let mut heading = String::new();
    for line in page.lines() {
        if let Some(text) = line.strip_prefix("## ").or(line.strip_prefix("### ")) {
            heading = text.to_owned();
        } else if let Some(row) = line.strip_prefix("| `") {
            let (field, rest) = row.split_once("` | ").expect("a field");
            let (ty, _) = rest.split_once(" | ").expect("a type");
            tables.entry(heading.clone()).or_default().push((field.to_owned(), ty.to_owned()));
        }
    }
    tables
}

/// What of a value is not as its type says, with the place.
fn differences(tables: &Tables, ty: &str, value: &Value, place: &str) -> Vec<String> {
    if let Some(ty) = ty.strip_suffix(" or null")
        && !ty.starts_with("map of ")
    {
        return if value.is_null() { Vec::new() } else { differences(tables, ty, value, place) };
    }
    let wrong = || vec![format!("{place} is {value}, and the page says {ty}")];
    let is_right = |right: bool| if right { Vec::new() } else { wrong() };
    if let Some(item) = ty.strip_prefix("array of ") {
        let Value::Array(items) = value else { return wrong() };
        let of_item = |(index, value)| differences(tables, item, value, &format!("{place}[{index}]"));
        return items.iter().enumerate().flat_map(of_item).collect();
    }
    if let Some(item) = ty.strip_prefix("map of ") {
        let Value::Object(fields) = value else { return wrong() };
        let of_field =
            |(name, value): (&String, _)| differences(tables, item, value, &format!("{place}.{name}"));
        return fields.iter().flat_map(of_field).collect();
    }
    match ty {
        "string" => is_right(value.is_string()),
        "integer or boolean" => is_right(value.is_u64() || value.is_boolean()),
        "integer" => is_right(value.is_u64() || value.is_i64()),
        "number" => is_right(value.is_number()),
        "boolean" => is_right(value.is_boolean()),
        part => {
            let fields = &tables[part.trim_matches('*')];
            let Value::Object(found) = value else { return wrong() };
            let unknown = found.keys().filter(|name| !fields.iter().any(|(field, _)| field == *name));
            let mut all: Vec<String> =
                unknown.map(|name| format!("{place}.{name} is not on the page")).collect();
            for (field, ty) in fields {
                match found.get(field) {
                    Some(value) => all.extend(differences(tables, ty, value, &format!("{place}.{field}"))),
                    None => all.push(format!("{place}.{field} is missing")),
                }
            }
            all
        }
    }
}

/// Runs a command with `--json` in a folder: its value and its exit status.
fn run(folder: &Path, words: &[&str]) -> (Value, Option<i32>) {
    let output = Command::new(env!("CARGO_BIN_EXE_warpwright"))
        .arg("--json")
        .args(words)
        .current_dir(folder)
        .env("WARPWRIGHT_DEVICE", "emu:h200")
        // `true` loads no library of CUDA: any file is one for it.
        .env("WARPWRIGHT_CUDA_LIBRARY", folder.join("twice.ptx"))
        .output()
        .expect("the command starts");
    let value = serde_json::from_slice(&output.stdout);
    (value.unwrap_or_else(|error| panic!("{words:?}: {error}")), output.status.code())
}

#[test]
fn every_verb_prints_the_fields_of_its_table() {
    let folder = std::env::temp_dir().join(format!("warpwright-json-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("temporary files can be made");
    std::fs::write(folder.join("twice.ptx"), include_str!("twice.ptx")).expect("writable");
    std::fs::write(folder.join("list.txt"), "vector-add --length 77\n").expect("writable");
    let launch = |out: usize| {
        json!({
            "ptx": "twice.ptx", "entry": "twice", "grid": [1], "block": [8],
            "args": [
                {"buffer": {"dtype": "f32", "shape": [8], "init": "iota"}},
                {"buffer": {"dtype": "f32", "shape": [out], "save": "out.npy"}},
                {"scalar": {"dtype": "f32", "value": 1}},
            ],
        })
        .to_string()
    };
    std::fs::write(folder.join("right.json"), launch(8)).expect("writable");
    std::fs::write(folder.join("wrong.json"), launch(4)).expect("writable");
    let tables = tables();
    let cases: [(&str, &str, i32); 28] = [
        ("devices", "devices", 0),
        ("kernels", "kernels", 0),
        ("run", "run vector-add --length 10", 0),
        ("bench", "bench vector-add --length 10", 0),
        ("bench list", "bench list list.txt", 0),
        ("ladder", "ladder transpose-ladder --m 64 --n 64", 0),
        ("tune", "tune gemm --m 64 --n 72 --k 136 --candidates 2", 0),
        ("probe", "probe --only atomics", 0),
        ("ptx", "ptx vector-add", 0),
        ("exec", "exec right.json", 0),
        ("error", "exec wrong.json", 3),
        ("error", "exec missing.json", 2),
        ("error", "frobnicate", 2),
        ("run-cuda", "run-cuda --check true", 0),
        ("error", "run-cuda ./missing", 2),
        ("check", "check right.json --seeds 0", 0),
        ("check", "check wrong.json --seeds 0", 1),
        ("check --explain", "check --explain race", 0),
        ("report", "report right.json", 0),
        ("time", "time right.json --what-if hbm=2x", 0),
        ("ladder --diff", "ladder transpose-ladder --m 64 --n 64 --diff shared padded", 0),
        ("trace", "trace right.json --perfetto trace.json --lanes", 0),
        ("roofline", "roofline right.json", 0),
        ("layout", "layout (2,3):(3,1)", 0),
        ("gpu", "gpu", 0),
        ("number", "number 0.1 -3 --as e4m3,mxfp4", 0),
        ("gates", "gates add-f16 1.5 0.25", 0),
        ("occupancy", "occupancy --regs 32 --threads 128", 0),
    ];
    for (table, line, status) in cases {
        let words: Vec<&str> = line.split(' ').collect();
        let (value, code) = run(&folder, &words);
        assert_eq!(code, Some(status), "{line}: {value:#}");
        let differences = differences(&tables, &format!("*{table}*"), &value, "");
        assert!(differences.is_empty(), "{line}:\n{}", differences.join("\n"));
    }
    // A kernel with sources and tensor operations.
    let (value, code) = run(&folder, &["report", "gemm", "--m", "64", "--n", "64", "--k", "64"]);
    let differences = differences(&tables, "*report*", &value, "");
    assert!(code == Some(0) && differences.is_empty(), "{}", differences.join("\n"));
    std::fs::remove_dir_all(&folder).expect("it can be removed");
}

#[test]
fn a_program_gets_what_the_command_prints() {
    let of = |words: &[&str]| {
        let words = std::iter::once("warpwright").chain(words.iter().copied());
        warpwright_cli::answer(words.map(std::ffi::OsString::from))
    };
    let (status, answer) = of(&["layout", "(2,3):(3,1)"]);
    assert_eq!((status, &answer.json["status"]), (0, &json!("ok")));
    assert!(answer.text.contains("(_2,_3):(_3,_1)"), "{}", answer.text);
    let (status, answer) = of(&["run", "gem"]);
    assert_eq!((status, &answer.json["status"], answer.text.as_str()), (2, &json!("error"), ""));
    assert!(answer.json["message"].as_str().is_some_and(|message| message.contains("gemm")));
}
