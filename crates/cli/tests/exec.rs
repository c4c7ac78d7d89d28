//! `warpwright exec` as a user runs it.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

use serde_json::{Value, json};

/// `out = 2 x + n`, elementwise over one CTA, with `n` a f32 scalar.
const KERNEL: &str = include_str!("twice.ptx");

/// A directory of its own for a test, with the kernel in it.
fn directory(test: &str) -> PathBuf {
    let directory = std::env::temp_dir().join(format!("warpwright-exec-{test}-{}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("temporary files can be made");
    std::fs::write(directory.join("twice.ptx"), KERNEL).expect("writable");
    directory
}

fn exec(directory: &Path, launch: &Value, flags: &[&str]) -> Output {
    let file = directory.join("launch.json");
    std::fs::write(&file, launch.to_string()).expect("writable");
    Command::new(env!("CARGO_BIN_EXE_warpwright"))
        .arg("exec")
        .arg(&file)
        .args(["--device", "emu:a100"])
        .args(flags)
        .env_remove("WARPWRIGHT_DEVICE")
        .output()
        .expect("the command starts")
}

fn twice() -> Value {
    json!({
        "ptx": "twice.ptx", "entry": "twice", "grid": [1, 1, 1], "block": [8, 1, 1],
        "args": [
            {"buffer": {"dtype": "f32", "shape": [2, 4], "init": "iota"}},
            {"buffer": {"dtype": "f32", "shape": [2, 4], "init": "poison", "save": "out.npy"}},
            {"scalar": {"dtype": "f32", "value": 0.5}},
        ],
    })
}

/// The file NumPy would have written for these numbers.
fn npy(shape: &str, numbers: &[f32]) -> Vec<u8> {
    let mut header = format!("{{'descr': '<f4', 'fortran_order': False, 'shape': {shape}, }}");
    let padded = (10 + header.len() + 1).next_multiple_of(64) - 10;
    header.extend(std::iter::repeat_n(' ', padded - 1 - header.len()));
    header.push('\n');
    let length = u16::try_from(header.len()).expect("short").to_le_bytes();
    let data: Vec<u8> = numbers.iter().flat_map(|number| number.to_le_bytes()).collect();
    [&b"\x93NUMPY\x01\x00"[..], &length, header.as_bytes(), &data].concat()
}

#[test]
fn a_launch_reads_runs_and_saves() {
    let directory = directory("runs");
    for schedule in ["eager", "latest", "random:3"] {
        let done = exec(&directory, &twice(), &["--schedule", schedule]);
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let expected: Vec<f32> = (0..8).map(|index| 2.0 * index as f32 + 0.5).collect();
        assert_eq!(std::fs::read(directory.join("out.npy")).expect("saved"), npy("(2, 4)", &expected));
    }
}

#[test]
fn arrays_go_through_files() {
    let directory = directory("files");
    let numbers = [1.5f32, -2.0, 0.25, 1e30, -0.0, 7.0, 8.0, 9.0];
    std::fs::write(directory.join("x.npy"), npy("(8,)", &numbers)).expect("writable");
    let mut launch = twice();
    launch["args"][0]["buffer"]["init"] = json!({"npy": "x.npy"});
    let done = exec(&directory, &launch, &["--json"]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let report: Value = serde_json::from_slice(&done.stdout).expect("JSON");
    assert_eq!(report["status"], "ok");
    assert_eq!(report["device"], "emu:a100");
    assert_eq!(report["saved"], json!(["out.npy"]));
    let expected = numbers.map(|number| number.mul_add(2.0, 0.5));
    assert_eq!(std::fs::read(directory.join("out.npy")).expect("saved"), npy("(2, 4)", &expected));
}

/// The kernel and its launch, with all parameters in one structure.
fn twice_structured(directory: &Path) -> Value {
    let kernel = KERNEL
        .replace(".param .u64 x, .param .u64 out, .param .f32 n", ".param .align 8 .b8 all[24]")
        .replace("[x]", "[all]")
        .replace("[out]", "[all+8]")
        .replace("[n]", "[all+16]");
    std::fs::write(directory.join("structured.ptx"), kernel).expect("writable");
    let mut launch = twice();
    launch["ptx"] = json!("structured.ptx");
    launch["args"][2] = json!({"struct": {"bytes": 24, "fields": [
        {"offset": 16, "scalar": {"dtype": "f32", "value": 0.5}},
        {"offset": 0, "pointer": 0},
        {"offset": 8, "pointer": 1},
    ]}});
    launch
}

#[test]
fn a_structure_is_passed_field_by_field() {
    let directory = directory("structure");
    let launch = twice_structured(&directory);
    let done = exec(&directory, &launch, &[]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let expected: Vec<f32> = (0..8).map(|index| 2.0 * index as f32 + 0.5).collect();
    assert_eq!(std::fs::read(directory.join("out.npy")).expect("saved"), npy("(2, 4)", &expected));

    let refused = |place: &str, value: Value| {
        let mut launch = launch.clone();
        *launch.pointer_mut(&format!("/args/2/struct/{place}")).expect("a place") = value;
        let failed = exec(&directory, &launch, &[]);
        assert!(!failed.status.success(), "{launch}");
        String::from_utf8_lossy(&failed.stderr).into_owned()
    };
    let words = refused("fields/1/offset", json!(12));
    assert!(words.contains("args[2].struct"), "{words}");
    assert!(
        words.contains("does not fit at offset 12") && words.contains("belong to another field"),
        "{words}"
    );
    let words = refused("fields/0/offset", json!(21));
    assert!(words.contains("extends past the end"), "{words}");
}

#[test]
fn what_is_wrong_is_said_and_is_a_failure() {
    let directory = directory("wrong");
    type Change = fn(&mut Value);
    let cases: [(Change, &str); 10] = [
        (|launch| launch["entry"] = json!("thrice"), "no kernel `thrice`; its kernels are `twice`"),
        (|launch| launch["ptx"] = json!("none.ptx"), "none.ptx cannot be read"),
        (|launch| launch["args"][2]["scalar"]["dtype"] = json!("u32"), "args[2].scalar.value"),
        (
            |launch| launch["args"][2] = json!({"scalar": {"dtype": "u32", "value": 1}}),
            "`n` is a 4-byte float",
        ),
        (|launch| launch["args"][2] = json!({"bytes": "00"}), "a structure of 1 bytes"),
        (|launch| launch["args"][0]["buffer"]["init"] = json!({"npy": "none.npy"}), "args[0].buffer.init"),
        (|launch| launch["block"] = json!([2000]), "block's x extent is 2000"),
        (|launch| launch["block"] = json!([64]), "twice"),
        (
            |launch| launch["args"][0]["buffer"]["shape"] = json!([0]),
            "right past the end of the allocation of 0 bytes",
        ),
        (|launch| launch["args"][1]["tensor_map"] = json!({}), "exactly one of"),
    ];
    for (change, words) in cases {
        let mut launch = twice();
        change(&mut launch);
        let failed = exec(&directory, &launch, &[]);
        let message = String::from_utf8_lossy(&failed.stderr).into_owned();
        assert!(!failed.status.success() && message.contains(words), "{launch}: {message}");
        let failed = exec(&directory, &launch, &["--json"]);
        let report: Value = serde_json::from_slice(&failed.stdout).expect("JSON");
        assert_eq!(report["status"], "error");
        assert!(report["message"].as_str().is_some_and(|message| message.contains(words)), "{report}");
    }
}
