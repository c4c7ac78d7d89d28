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
    exec_by(&[env!("CARGO_BIN_EXE_warpwright")], directory, launch, flags)
}

/// The same by a program that runs the command, with its arguments.
fn exec_by(program: &[&str], directory: &Path, launch: &Value, flags: &[&str]) -> Output {
    let file = directory.join("launch.json");
    std::fs::write(&file, launch.to_string()).expect("writable");
    Command::new(program[0])
        .args(&program[1..])
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

/// The code block of a language behind a heading of `docs/exec.md`.
fn documented(heading: &str, language: &str) -> String {
    let page = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/exec.md");
    let page = std::fs::read_to_string(page).expect("the page is there");
    let section = page.split_once(heading).expect("the page has the heading").1;
    let block = section.split_once(&format!("```{language}\n")).expect("the section has the block").1;
    block.split_once("```").expect("the block ends").0.to_owned()
}

/// The launch file of the page, with its module beside it.
fn scale(directory: &Path) -> Value {
    std::fs::write(directory.join("scale.ptx"), documented("## Several launches", "ptx")).expect("writable");
    serde_json::from_str(&documented("## Several launches", "json")).expect("JSON")
}

#[test]
fn the_page_s_launches_share_buffers_variables_and_events() {
    let directory = directory("several");
    let launch = scale(&directory);
    let done = exec(&directory, &launch, &["--json"]);
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stdout));
    let z: Vec<f32> = (0..8).map(|index| 9.0 * index as f32).collect();
    assert_eq!(std::fs::read(directory.join("z.npy")).expect("saved"), npy("(8,)", &z));
    let threads = std::fs::read(directory.join("threads.npy")).expect("saved");
    assert_eq!(threads[threads.len() - 4..], 16u32.to_le_bytes());
    let report: Value = serde_json::from_slice(&done.stdout).expect("JSON");
    let streams: Vec<_> =
        report["launches"].as_array().expect("two").iter().map(|one| &one["stream"]).collect();
    assert_eq!(streams, ["default", "side"]);
    assert_eq!(report["saved"], json!(["z.npy", "threads.npy"]));

    // Checks read the file, too, and save nothing.
    std::fs::remove_file(directory.join("z.npy")).expect("it is there");
    let file = directory.join("launch.json").display().to_string();
    let checked = Command::new(env!("CARGO_BIN_EXE_warpwright"))
        .args(["check", &file, "--device", "emu:a100", "--seeds", "1"])
        .output()
        .expect("the command starts");
    assert_eq!(checked.status.code(), Some(0), "{}", String::from_utf8_lossy(&checked.stdout));
    assert!(!directory.join("z.npy").exists());
}

#[test]
fn a_variable_keeps_what_the_ptx_or_the_host_gave_it() {
    let directory = directory("symbols");
    let kernel = KERNEL.replace(".visible .entry", ".const .f32 two = 0f40000000;\n.visible .entry").replace(
        "fma.rn.f32 %f2, %f1, 0f40000000, %f0",
        "ld.const.f32 %f2, [two];\nfma.rn.f32 %f2, %f1, %f2, %f0",
    );
    std::fs::write(directory.join("constant.ptx"), kernel).expect("writable");
    let mut launch = twice();
    launch["ptx"] = json!("constant.ptx");
    for (symbol, factor) in [
        (json!({"dtype": "f32", "shape": []}), 2.0),
        (json!({"dtype": "f32", "shape": [1], "init": "zero"}), 0.0),
        (json!({"dtype": "f32", "shape": [1], "init": {"values": [-4]}}), -4.0),
        (json!({"dtype": "f16", "shape": [2], "init": {"values": ["0x0000", "0x4100"]}}), 8.0),
    ] {
        launch["symbols"] = json!({"two": symbol});
        let done = exec(&directory, &launch, &[]);
        assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
        let expected: Vec<f32> = (0..8).map(|index| factor * index as f32 + 0.5).collect();
        let saved = std::fs::read(directory.join("out.npy")).expect("saved");
        assert_eq!(saved, npy("(2, 4)", &expected), "{symbol}");
    }
}

#[test]
fn launches_of_one_stream_run_in_order_and_a_failure_names_its_launch() {
    let directory = directory("order");
    let mut launch = json!({
        "ptx": "twice.ptx",
        "buffers": {
            "x": {"dtype": "f32", "shape": [8], "init": "iota"},
            "y": {"dtype": "f32", "shape": [8], "save": "y.npy"},
        },
        "launches": [
            {"entry": "twice", "grid": [1], "block": [8],
             "args": [{"buffer": "x"}, {"buffer": "y"}, {"scalar": {"dtype": "f32", "value": 1}}]},
            {"entry": "twice", "grid": [1], "block": [8],
             "args": [{"buffer": "y"}, {"buffer": "x"}, {"scalar": {"dtype": "f32", "value": 1}}]},
        ],
    });
    let done = exec(&directory, &launch, &[]);
    assert_eq!(done.status.code(), Some(0), "{}", String::from_utf8_lossy(&done.stderr));
    let expected: Vec<f32> = (0..8).map(|index| 2.0 * index as f32 + 1.0).collect();
    assert_eq!(std::fs::read(directory.join("y.npy")).expect("saved"), npy("(8,)", &expected));
    launch["launches"][1]["block"] = json!([16]);
    let failed = exec(&directory, &launch, &[]);
    let message = String::from_utf8_lossy(&failed.stderr).into_owned();
    assert_eq!(failed.status.code(), Some(3), "{message}");
    assert!(message.contains("launches[1]") && message.contains("out-of-bounds"), "{message}");
}

#[test]
fn the_status_tells_refusals_from_failures() {
    let directory = directory("status");
    std::fs::write(
        directory.join("loop.ptx"),
        ".version 7.0\n.target sm_80\n.address_size 64\n.visible .entry k() {\n.reg .b64 %rd<1>;\nmov.u64 %rd0, 0;\n\
         L: add.u64 %rd0, %rd0, 1;\nbra L;\n}\n",
    )
    .expect("writable");
    let endless = json!({"ptx": "loop.ptx", "entry": "k", "grid": [1], "block": [32]});
    for (flags, words) in [
        (["--limit", "100000"], "error[limit]: the launch reached its limit of 100000 warp instructions"),
        (["--limit", "50ms"], "error[limit]: the launch reached its limit of 0.05 s"),
    ] {
        let stopped = exec(&directory, &endless, &flags);
        let message = String::from_utf8_lossy(&stopped.stderr).into_owned();
        assert_eq!(stopped.status.code(), Some(3), "{message}");
        assert!(message.starts_with(words) && message.contains("PTX:"), "{message}");
    }
    let mut refused = twice();
    refused["entry"] = json!("thrice");
    assert_eq!(exec(&directory, &refused, &[]).status.code(), Some(2));
    refused["entry"] = json!("x".repeat(5_000_000));
    let failed = exec(&directory, &refused, &[]);
    assert_eq!(failed.status.code(), Some(2));
    assert!(failed.stderr.len() < 1000, "{} bytes", failed.stderr.len());
    let file = directory.join("twice.json");
    std::fs::write(&file, twice().to_string().replacen('{', "{\"grid\": [2],", 1)).expect("writable");
    let message =
        warpwright_cli::refusal(&["exec", &file.display().to_string()]).expect("a key appears twice");
    assert!(message.contains("the key `grid` appears twice in an object at line 1 column"), "{message}");
}

#[test]
fn many_arguments_take_no_quadratic_time() {
    /// Parameters that a kernel may have, and buffers beside them.
    const COUNT: usize = 8_000;
    const BUFFERS: usize = 40_000;
    let directory = directory("many");
    let parameters: Vec<String> = (0..COUNT).map(|index| format!(".param .u32 p{index}")).collect();
    let kernel = format!(
        ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry k({}) {{ ret; }}\n",
        parameters.join(", ")
    );
    std::fs::write(directory.join("many.ptx"), kernel).expect("writable");
    let mut arguments: Vec<Value> =
        (0..COUNT - 1).map(|value| json!({"scalar": {"dtype": "u32", "value": value}})).collect();
    // Buffers, some of which a structure refers to.
    let buffers = (0..BUFFERS).map(|_| json!({"buffer": {"dtype": "u8", "shape": [1]}}));
    let fields: Vec<_> =
        (0..4000).map(|field| json!({"offset": 8 * field, "pointer": COUNT - 1 + field})).collect();
    arguments.extend(buffers);
    arguments.push(json!({"struct": {"bytes": 32000, "fields": fields}}));
    let launch = json!({"ptx": "many.ptx", "entry": "k", "grid": [1], "block": [1], "args": arguments});
    // The kernel ends a process that has run on the processor for longer, whatever else the machine does. It takes
    // about a second; a quadratic time would be minutes.
    let limited = ["sh", "-c", "ulimit -t 60 && exec \"$@\"", "sh", env!("CARGO_BIN_EXE_warpwright")];
    let refused = exec_by(&limited, &directory, &launch, &[]);
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert_eq!(refused.status.code(), Some(2), "{message}");
    assert!(message.contains(&format!("takes {COUNT} arguments")) && message.len() < 40_000, "{message}");
}

#[test]
fn what_a_kernel_prints_stands_apart_from_json() {
    let directory = directory("prints");
    let kernel = ".version 8.0\n.target sm_80\n.address_size 64\n\
        .extern .func (.param .b32 status) vprintf(.param .b64 format, .param .b64 arguments);\n\
        .global .align 1 .b8 text[7] = {104, 101, 108, 108, 111, 10, 0};\n\
        .visible .entry k() {\n.reg .b64 %rd<3>;\nmov.u64 %rd0, text;\ncvta.global.u64 %rd1, %rd0;\nmov.u64 %rd2, 0;\n\
        {\n.param .b64 format;\nst.param.b64 [format], %rd1;\n.param .b64 arguments;\nst.param.b64 [arguments], %rd2;\n\
        .param .b32 status;\ncall.uni (status), vprintf, (format, arguments);\n}\nret;\n}\n";
    std::fs::write(directory.join("hello.ptx"), kernel).expect("writable");
    let launch = json!({"ptx": "hello.ptx", "entry": "k", "grid": [1], "block": [1]});
    let done = exec(&directory, &launch, &[]);
    assert!(String::from_utf8_lossy(&done.stdout).starts_with("hello\n"), "{done:?}");
    let done = exec(&directory, &launch, &["--json"]);
    let report: Value = serde_json::from_slice(&done.stdout).expect("one JSON value");
    assert_eq!((&report["status"], done.status.code()), (&json!("ok"), Some(0)));
    assert_eq!(String::from_utf8_lossy(&done.stderr), "hello\n");
}
