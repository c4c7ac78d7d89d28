//! `warpwright check`, as a user runs it.

use std::fs;
use std::path::PathBuf;
use std::process::{Command, Output};

use serde_json::{Value, json};

fn warpwright(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_warpwright"))
        .args(arguments)
        .env_remove("WARPWRIGHT_DEVICE")
        .output()
        .expect("the command starts")
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).expect("UTF-8")
}

/// A launch of the library's transpose on 64 x 64 elements, of which the barrier is taken away.
fn transpose_without_its_barrier() -> PathBuf {
    let directory = std::env::temp_dir().join(format!("warpwright-check-{}", std::process::id()));
    fs::create_dir_all(&directory).expect("temporary files can be made");
    let written = warpwright(&["ptx", "transpose", "--algorithm", "swizzled"]);
    let ptx = text(&written.stdout);
    assert_eq!(ptx.matches("bar.sync 0;").count(), 1, "{ptx}");
    fs::write(directory.join("transpose.ptx"), ptx.replace("bar.sync 0;", "")).expect("writable");
    let launch = json!({
        "ptx": "transpose.ptx", "entry": "tile_transpose_run_f32", "grid": [2, 2, 1], "block": [32, 8, 1],
        "args": [
            {"buffer": {"dtype": "f32", "shape": [64, 64], "init": "iota"}},
            {"buffer": {"dtype": "f32", "shape": [64, 64], "init": "poison"}},
            {"scalar": {"dtype": "u32", "value": 64}},
            {"scalar": {"dtype": "u32", "value": 64}},
        ],
    });
    let file = directory.join("launch.json");
    fs::write(&file, launch.to_string()).expect("writable");
    file
}

#[test]
fn where_nothing_is_wrong_it_says_one_line() {
    let output = warpwright(&["check", "transpose", "--m", "65", "--n", "33", "--seeds", "1"]);
    let told = text(&output.stdout);
    assert!(output.status.success(), "{told}");
    assert!(told.trim_end().ends_with("nothing found at the schedules eager, latest, random:1"), "{told}");
    assert_eq!(told.trim_end().lines().count(), 1, "{told}");
}

#[test]
fn our_own_ptx_tells_the_line_the_element_and_the_seed() {
    let launch = transpose_without_its_barrier();
    let launch = launch.to_str().expect("UTF-8");
    let output = warpwright(&["check", launch]);
    let told = text(&output.stdout);
    assert!(!output.status.success(), "{told}");
    for part in [
        "error[race]: nothing orders",
        "crates/kernels/src/transpose/tile.rs",
        "is element (",
        ") of this tensor of f32",
        "call `sync_threads()`",
        "`--schedule eager` shows it, `--explain race` says more",
    ] {
        assert!(told.contains(part), "no `{part}` in\n{told}");
    }

    let output = warpwright(&["check", launch, "--schedule", "random:7", "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["status"], "found");
    let finding = &report["findings"][0];
    assert_eq!(
        (&finding["code"], &finding["schedules"][0]),
        (&"race".into(), &"random:7".into()),
        "{finding:#}"
    );
    assert_eq!(finding["labels"].as_array().map(Vec::len), Some(2), "{finding:#}");
    let place = &finding["memory"][0];
    assert_eq!(place["file"], "crates/kernels/src/transpose/tile.rs", "{finding:#}");
    assert!(place["text"].as_str().is_some_and(|text| text.contains("of this tensor of f32")), "{finding:#}");
}

/// The driver's assembler is at fault, not the kernel: the command remarks on it and succeeds.
#[test]
fn a_guard_that_the_assembler_ignores_is_remarked_on() {
    let directory = std::env::temp_dir().join(format!("warpwright-remark-{}", std::process::id()));
    fs::create_dir_all(&directory).expect("temporary files can be made");
    let ptx = ".version 8.7\n.target sm_90\n.address_size 64\n.visible .entry k()\n{\n.reg .pred %p<2>;\n.reg .b32 %r;\n\
               mov.u32 %r, %tid.x;\nsetp.eq.u32 %p0, %r, 0;\nsetp.eq.u32 %p1, %r, 1;\n\
               @%p0 testp.finite.f32 %p1, %r;\nret;\n}\n";
    fs::write(directory.join("k.ptx"), ptx).expect("writable");
    let launch = json!({"ptx": "k.ptx", "entry": "k", "grid": [1, 1, 1], "block": [32, 1, 1], "args": []});
    let file = directory.join("launch.json");
    fs::write(&file, launch.to_string()).expect("writable");
    let file = file.to_str().expect("UTF-8");
    let output = warpwright(&["check", file, "--seeds", "0"]);
    let told = text(&output.stdout);
    assert!(output.status.success(), "{told}{}", text(&output.stderr));
    let remark = "remark: the driver's assembler ignores the guard of `@%p0 testp.finite.f32 %p1, %r;` (line 11, in `k`)";
    assert!(told.starts_with(remark), "{told}");
    let output = warpwright(&["check", file, "--seeds", "0", "--json"]);
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["remarks"].as_array().map(Vec::len), Some(1), "{report}");
    assert_eq!(report["findings"].as_array().map(Vec::len), Some(0), "{report}");
}

#[test]
fn every_code_is_explained() {
    let refused = warpwright(&["check", "--explain", "nonsense"]);
    assert!(!refused.status.success());
    let message = text(&refused.stderr);
    let codes = message.rsplit_once("expected one of ").expect("it lists them").1;
    let mut count = 0;
    for code in codes.trim().split(", ") {
        let page = warpwright(&["check", "--explain", code]);
        assert!(page.status.success() && page.stdout.len() > 80, "`{code}`: {}", text(&page.stdout));
        count += 1;
    }
    assert!(count >= 15, "{codes}");
}

/// Where no device is named, it is one that runs the PTX.
#[test]
fn a_launch_file_is_checked_on_a_gpu_that_its_ptx_is_for() {
    let cases = warpwright_testing::corpus::folder().join("cases");
    for (case, gpu) in [("triton_descriptor_matmul", "emu:h200"), ("triton_tensor_memory_half", "emu:b200")] {
        let launch = format!("{}/{case}/LAUNCH.json", cases.display());
        let output = warpwright(&["check", &launch, "--seeds", "0"]);
        assert!(output.status.success(), "{}{}", text(&output.stdout), text(&output.stderr));
        let output = warpwright(&["report", &launch]);
        let told = text(&output.stdout);
        assert!(told.starts_with(&format!("{launch} on {gpu}")), "{told}{}", text(&output.stderr));
    }
}

#[test]
fn poison_that_no_kernel_overwrites_counts_as_unwritten() {
    let directory = std::env::temp_dir().join(format!("warpwright-poison-{}", std::process::id()));
    fs::create_dir_all(&directory).expect("temporary files can be made");
    let ptx = ".version 8.0\n.target sm_80\n.address_size 64\n.visible .entry fill(.param .u64 p) {
        .reg .b32 %r; .reg .b64 %d<3>;
        ld.param.u64 %d0, [p]; mov.u32 %r, %tid.x; mul.wide.u32 %d1, %r, 4; add.u64 %d2, %d0, %d1;
        st.global.u32 [%d2], %r; ret; }";
    fs::write(directory.join("fill.ptx"), ptx).expect("writable");
    let file = directory.join("launch.json");
    for (threads, is_clean) in [(64, true), (32, false)] {
        let launch = json!({
            "ptx": "fill.ptx", "entry": "fill", "grid": [1, 1, 1], "block": [threads, 1, 1],
            "args": [{"buffer": {"dtype": "u32", "shape": [64], "init": "poison", "save": "out.npy"}}],
        });
        fs::write(&file, launch.to_string()).expect("writable");
        let output = warpwright(&["check", file.to_str().expect("UTF-8"), "--schedule", "eager"]);
        let told = text(&output.stdout);
        assert_eq!(output.status.success(), is_clean, "{told}");
        for words in [
            "the host reads 64 elements of u32, and nothing has written 32 of them",
            "args[0].buffer: elements 32 to 63 are not written",
        ] {
            assert_eq!(told.contains(words), !is_clean, "{told}");
        }
    }
}
