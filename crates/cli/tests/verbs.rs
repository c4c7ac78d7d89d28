//! The verbs on the library's kernels, as a user runs them.

use std::path::Path;
use std::process::{Command, Output};

use serde_json::Value;

fn warpwright(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_warpwright"))
        .args(arguments)
        .env("WARPWRIGHT_DEVICE", "emu:a100")
        .output()
        .expect("the command starts")
}

fn json(arguments: &[&str]) -> Value {
    let output = warpwright(&[arguments, &["--json"]].concat());
    serde_json::from_slice(&output.stdout).unwrap_or_else(|error| panic!("{arguments:?}: {error}"))
}

#[test]
fn run_checks_every_element_on_the_device_named() {
    let report = json(&["run", "vector-add", "--length", "1001"]);
    assert_eq!(report["status"], "ok", "{report}");
    assert_eq!(report["elements"], 1001);
    assert_eq!(report["device"], "emu:a100");
    let report = json(&[
        "run",
        "gemm",
        "--m",
        "33",
        "--n",
        "17",
        "--k",
        "9",
        "--device",
        "emu:h200",
        "--schedule",
        "latest",
    ]);
    assert_eq!((&report["device"], &report["elements"]), (&"emu:h200".into(), &(33 * 17).into()), "{report}");
}

#[test]
fn sgemm_takes_extents_of_0_as_its_api_does() {
    for (kernel, option, value) in [
        ("sgemm", "--algorithm", "auto"),
        ("sgemm", "--algorithm", "double-buffered"),
        ("sgemm-ladder", "--step", "naive"),
        ("sgemm-ladder", "--step", "warp-tile"),
    ] {
        for (extents, elements) in [(["0", "5", "7"], 0), (["5", "0", "7"], 0), (["5", "3", "0"], 15)] {
            let [m, n, k] = extents;
            for [alpha, beta] in [["1", "0"], ["1.5", "-0.5"]] {
                let mut words = vec!["run", kernel, option, value, "--alpha", alpha, "--beta", beta];
                words.extend(["--m", m, "--n", n, "--k", k]);
                let report = json(&words);
                assert_eq!(
                    (&report["status"], &report["elements"]),
                    (&"ok".into(), &elements.into()),
                    "{report}"
                );
            }
        }
    }
}

#[test]
fn what_cannot_be_run_is_a_failure() {
    let cases: [(&[&str], &str); 6] = [
        (&["run", "vector-add", "--length", "0"], "`0` is less than the minimum, 1"),
        (&["run", "gemm", "--input", "f31"], "`f31` is not one of bf16, f16"),
        (&["run", "nothing"], "nothing"),
        (&["run", "vector-add", "--device", "emu:h300"], "unknown device `emu:h300`"),
        (&["bench", "vector-add", "--vs", "nobody"], "has no baseline `nobody`"),
        (&["ptx", "gemm", "--arch", "sm_70"], "unknown architecture `sm_70`"),
    ];
    for (arguments, words) in cases {
        let output = warpwright(arguments);
        let message = String::from_utf8_lossy(&output.stderr).into_owned();
        assert!(!output.status.success() && message.contains(words), "{arguments:?}: {message}");
    }
}

#[test]
fn ptx_is_printed_and_written() {
    let printed = warpwright(&["ptx", "vector-add", "--arch", "sm_86"]);
    assert!(printed.status.success());
    assert!(String::from_utf8_lossy(&printed.stdout).contains(".target sm_86"));
    let directory = std::env::temp_dir().join(format!("warpwright-ptx-{}", std::process::id()));
    let out = directory.to_str().expect("a plain path");
    assert!(warpwright(&["ptx", "--all", "--arch", "sm_80,sm_90a", "--out", out]).status.success());
    for kernel in ["vector-add", "gemm"] {
        for arch in ["sm_80", "sm_90a"] {
            let text =
                std::fs::read_to_string(directory.join(format!("{kernel}.{arch}.ptx"))).expect("written");
            assert!(text.contains(&format!(".target {arch}")), "{kernel} {arch}");
        }
    }
}

#[test]
fn ptx_stands_beside_its_rust() {
    let printed = warpwright(&["ptx", "mem-walkthrough", "--annotate"]);
    let text = String::from_utf8_lossy(&printed.stdout).into_owned();
    assert!(!text.contains(".loc "), "{text}");
    for (instruction, rust) in [
        ("ld.global.f32", "let from_global = input[thread];"),
        ("st.local.f32", "local.at(thread % LOCAL).store(in_register);"),
        ("bar.sync", "sync_threads();"),
        ("st.global.f32", "output[thread] = from_shared + shift;"),
    ] {
        let beside = |line: &str| line.contains("mem_walkthrough.rs:") && line.ends_with(rust);
        let of_line: Vec<&str> = text.lines().skip_while(|line| !beside(line)).collect();
        let end =
            of_line.iter().skip(1).position(|line| line.contains(" | ")).map_or(of_line.len(), |at| at + 1);
        assert!(of_line[..end].iter().any(|line| line.contains(instruction)), "{instruction}:\n{text}");
    }
}

#[test]
fn occupancy_says_what_limits_and_what_one_more_would_take() {
    let report =
        json(&["occupancy", "--regs", "48", "--threads", "256", "--smem", "16384", "--arch", "sm_90"]);
    assert_eq!((&report["ctas_per_sm"], &report["limiter"]), (&5.into(), &"registers".into()), "{report}");
    assert_eq!(report["one_more"]["registers_per_thread"], 40, "{report}");
    let output = warpwright(&["occupancy", "--regs", "32", "--threads", "64", "--arch", "sm_75"]);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(text.starts_with("16 CTAs per SM: 32 of 32 warps, 100.0 %"), "{text}");
    assert_eq!(text.matches("<- stops one more").count(), 2, "warp slots and CTA slots: {text}");
    let refused = warpwright(&["occupancy", "--regs", "32", "--threads", "64", "--arch", "sm_60"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("expected one of sm_70, sm_72, sm_75, sm_80"));

    // 33 threads are two warps; 32 CTAs take every slot for a warp, and every one for a CTA.
    let words = ["occupancy", "--threads", "33", "--regs", "24", "--smem", "1", "--arch", "sm_90a"];
    let report = json(&words);
    assert_eq!(report["limiters"], serde_json::json!(["warp slots", "CTA slots"]), "{report}");
    let text = String::from_utf8_lossy(&warpwright(&words).stdout).into_owned();
    assert!(text.contains("64 of 64 warps, 100.0 %") && text.contains("the SM is full"), "{text}");
    let half = ["occupancy", "--threads", "32", "--regs", "24", "--arch", "sm_90a"];
    let text = String::from_utf8_lossy(&warpwright(&half).stdout).into_owned();
    assert!(text.contains("32 of 64 warps, 50.0 %") && text.contains("only more warps in a CTA"), "{text}");
    let picture = folder("occupancy").join("occupancy.svg");
    let words = [&words[..], &["--svg", picture.to_str().expect("a name")]].concat();
    assert!(warpwright(&words).status.success());
    let drawn = std::fs::read_to_string(&picture).expect("it is drawn");
    assert_eq!(
        (drawn.matches("<circle").count(), drawn.matches("the dot is the kernel, 64 warps").count()),
        (3, 3)
    );
    for arch in ["sm_72", "sm_87", "sm_88", "sm_101", "sm_103", "sm_110", "sm_121"] {
        let report = json(&["occupancy", "--regs", "32", "--threads", "128", "--arch", arch]);
        assert!(report["ctas_per_sm"].as_u64() > Some(7), "{arch}: {report}");
    }
}

/// A folder of a test's own.
fn folder(name: &str) -> std::path::PathBuf {
    let folder = std::env::temp_dir().join(format!("warpwright-verbs-{name}-{}", std::process::id()));
    std::fs::create_dir_all(&folder).expect("it can be made");
    folder
}

#[test]
fn gpu_prints_and_draws_every_product() {
    let picture = folder("gpu").join("sm.svg");
    let picture = picture.to_str().expect("a name");
    let all = json(&["gpu"]);
    let all = all["gpus"].as_array().expect("products");
    assert_eq!(all.len(), 14);
    for gpu in all {
        let name = gpu["name"].as_str().expect("a name");
        let drawn = |more: &[&str]| {
            let output = warpwright(&[&["gpu", name, "--svg", picture], more].concat());
            output.status.success().then(|| std::fs::read_to_string(picture).expect("it is drawn"))
        };
        let sm = drawn(&[]).expect("each has an SM");
        let lanes = gpu["multiply_adds_per_sm_clock"]["f32"].as_u64().expect("a rate");
        assert_eq!(sm.matches("#8fbf8f").count() as u64, lanes, "{name}");
        let die = drawn(&["--die"]);
        assert_eq!(die.is_some(), gpu["die"].is_object(), "{name}");
        if let Some(die) = die {
            let sms = |color: &str| die.matches(color).count() as u64;
            assert_eq!(sms("#8fbf8f"), gpu["sm_count"].as_u64().expect("a count"), "{name}");
            assert_eq!(sms("#8fbf8f") + sms("#e4e4e4"), gpu["die"]["sm_count"].as_u64().expect("a count"));
        }
    }
    let text = String::from_utf8_lossy(&warpwright(&["gpu", "emu:h200"]).stdout).into_owned();
    assert!(text.contains("144 SMs, 132 enabled") && text.contains("270336 threads at once"), "{text}");
    let refused = warpwright(&["gpu", "h300"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("unknown GPU `h300`"));
}

#[test]
fn gates_are_counted_drawn_and_simulated() {
    let text = |words: &[&str]| {
        let output = warpwright(words);
        String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned()
    };
    assert!(text(&["gates"]).lines().count() > 20);
    let table = text(&["gates", "full-adder"]);
    assert!(
        table.contains("9 NAND, 0 NOT: 36 transistors") && table.contains("1  1  1 |   1      1"),
        "{table}"
    );
    assert!(text(&["gates", "multiply-f32", "1.5", "-2.5"]).contains("out = -3.75 (0xc0700000)"));
    assert_eq!(json(&["gates", "ripple-32", "0xffffffff", "1"])["outputs"]["out"], "0x100000000");
    let picture = folder("gates").join("xor.svg");
    let picture = picture.to_str().expect("a name");
    assert!(warpwright(&["gates", "xor", "--svg", picture]).status.success());
    let drawn = std::fs::read_to_string(picture).expect("it is drawn");
    assert_eq!(drawn.matches("<circle").count(), 4, "{drawn}");
    for (words, part) in [
        (&["gates", "full-ader"][..], "did you mean `full-adder`?"),
        (&["gates", "tensor-core", "--svg", picture], "a picture shows at most 64"),
        (&["gates", "xor", "1"], "xor takes 2 values, 1 given: a of 1 bits, b of 1 bits"),
        (&["gates", "xor", "1", "2"], "`2` has more than 1 bits"),
        (&["gates", "add-f16", "1", "x"], "`x` is no number"),
    ] {
        assert!(text(words).contains(part), "{words:?}: {}", text(words));
    }
}

#[test]
fn number_rounds_to_each_format_and_to_blocks() {
    let of = |words: &[&str]| json(&[&["number"], words].concat());
    let rounded = |number: &str, format: &str| of(&[number, "--as", format])["rounded"][0].clone();
    let one = rounded("0.1", "e4m3");
    assert_eq!((one["bits"].as_u64(), one["value"].as_f64()), (Some(0x1d), Some(0.1015625)));
    assert_eq!((one["below"].as_f64(), one["above"].as_f64()), (Some(0.09375), Some(0.109375)));
    assert_eq!(rounded("-7", "e2m1")["value"], -6.0, "the largest");
    assert!(rounded("-7", "e2m1")["below"].is_null());
    assert_eq!(rounded("0", "e2m1")["below"], -0.5);
    let block = of(&["0.011", "-0.003", "0.02", "0.0007", "--as", "mxfp4"])["blocks"][0].clone();
    assert_eq!(block["scale"], 1.0 / 256.0);
    assert_eq!(block["elements"], serde_json::json!([3.0, -1.0, 6.0, 0.0]), "5.12 is nearer to 6 than to 4");
    let block = of(&["1.1", "-0.3", "2", "0.07", "--as", "nvfp4"])["blocks"][0].clone();
    assert_eq!(block["elements"][2], 6.0);
    let refused = warpwright(&["number", "1", "--as", "e9m9"]);
    assert!(String::from_utf8_lossy(&refused.stderr).contains("unknown format `e9m9`"));
}

#[test]
fn a_run_tells_what_its_kernel_found() {
    let report = json(&["run", "occupancy", "--threads", "1024", "--device", "emu:h200"]);
    assert_eq!(
        report["finding"], "at most 264 CTAs were resident at the same time, 2 on each of 132 SMs",
        "{report}"
    );
    assert!(json(&["run", "vector-add", "--length", "10"])["finding"].is_null());
}

#[test]
fn bench_times_and_checks() {
    let report = json(&["bench", "vector-add", "--length", "1000"]);
    assert_eq!(report["status"], "ok", "{report}");
    assert_eq!(report["bytes"], 12000.0);
    assert!(report["timings"][0]["median_seconds"].as_f64().is_some_and(|seconds| seconds > 0.0), "{report}");
    assert_eq!(report["run"]["command"], "warpwright bench vector-add --length 1000 --json", "{report}");
    let date = report["run"]["date"].as_str().expect("a date");
    assert!(
        date.len() == "2026-11-21T21:00:00Z".len() && date.starts_with("20") && date.ends_with('Z'),
        "{date}"
    );
    let run = report["run"].as_object().expect("an object");
    for name in ["driver", "cuda", "rival", "rival_version"] {
        assert!(run.get(name).is_some_and(Value::is_null), "an emulator has no {name}: {report}");
    }
    assert!(report["conditions"]["after"]["sm_mhz"].is_null(), "an emulator has no clocks: {report}");
}

#[test]
fn a_list_keeps_what_its_figures_were_measured_with() {
    let file = std::env::temp_dir().join(format!("warpwright-list-{}.txt", std::process::id()));
    std::fs::write(&file, "vector-add --length 1000\nvector-add --length 77 # odd\n")
        .expect("it can be written");
    let path = file.display().to_string();
    let report = json(&["bench", "list", &path]);
    let text = warpwright(&["bench", "list", &path]);
    std::fs::remove_file(&file).expect("it can be removed");
    let lines = report["lines"].as_array().expect("lines");
    assert_eq!((lines.len(), &lines[1]["bytes"]), (2, &(12.0 * 77.0).into()), "{report}");
    for line in lines {
        assert!(line["timings"][0]["median_seconds"].is_f64(), "{report}");
        assert!(line["conditions"].get("before").is_some() && line.get("run").is_none(), "{report}");
    }
    assert!(
        report["run"]["command"]
            .as_str()
            .is_some_and(|command| command.starts_with("warpwright bench list "))
    );
    let text = String::from_utf8_lossy(&text.stdout).into_owned();
    assert_eq!(
        text.lines().count(),
        4,
        "the day and the versions, what the times are of, then a line for each: {text}"
    );
    assert!(text.contains("These times are predicted"), "{text}");
}

#[test]
fn devices_are_listed() {
    let report = json(&["devices"]);
    let emulated = report["emulated"].as_array().expect("a list");
    assert!(
        emulated.iter().any(|device| device["name"] == "emu:h200" && device["target"] == "sm_90a"),
        "{report}"
    );
}

#[test]
fn a_layout_is_drawn_and_bad_ones_are_refused() {
    let drawn = |more: &[&str]| {
        let drawn = warpwright(&[&["layout", "(2,3):(3,1)"], more].concat());
        assert!(drawn.status.success());
        String::from_utf8_lossy(&drawn.stdout).into_owned()
    };
    assert!(drawn(&[]).ends_with("  1 | 3  4  5\n"), "{}", drawn(&[]));
    assert!(drawn(&["--coordinates"]).contains("(1,2) -> 5"));
    assert_eq!(json(&["layout", "(2,3):(3,1)"])["value"], "(2,3):(3,1)");
    assert!(!warpwright(&["layout", "nonsense("]).status.success());
}

#[test]
fn a_time_is_predicted_again_with_each_change() {
    let stream = ["time", "copy", "--length", "4194304", "--type", "f32"];
    let what_if = |changes: &[&str]| {
        let flags = changes.iter().flat_map(|change| ["--what-if", *change]);
        json(&stream.into_iter().chain(flags).collect::<Vec<_>>())
    };
    let report = what_if(&["hbm=2x", "device=emu:a100", "length=8388608"]);
    let changed = report["what_if"].as_array().expect("a list");
    let part = |index: usize| {
        let microseconds = |of: &Value| of["microseconds"].as_f64().expect("a time");
        microseconds(&changed[index]) / microseconds(&report)
    };
    assert!((0.4..0.9).contains(&part(0)), "{report}");
    assert!((1.5..4.0).contains(&part(1)) && (1.5..2.1).contains(&part(2)), "{report}");
    let refused = warpwright(&["time", "copy", "--length", "1000", "--what-if", "dram=2x"]);
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && message.contains("`hbm=2x`"), "{message}");
}

#[test]
fn a_ladder_counts_every_step() {
    let report = json(&["ladder", "transpose-ladder", "--m", "64", "--n", "64"]);
    assert_eq!(report["status"], "ok", "{report}");
    assert!(
        report["run"]["command"].as_str().is_some_and(|command| command.contains("ladder transpose-ladder"))
    );
    let steps = report["steps"].as_array().expect("steps").clone();
    let names: Vec<_> = steps.iter().map(|step| step["step"].as_str().expect("a name")).collect();
    assert_eq!(names, ["naive", "shared", "padded", "swizzled", "blocks"]);
    assert!(steps.iter().all(|step| step["counted"]["warp_instructions"].as_u64() > Some(0)), "{report}");
    let microseconds = |step: &Value| step["time"]["median_seconds"].as_f64().expect("a time") * 1e6;
    assert!(steps.iter().all(|step| (1.0..10.0).contains(&microseconds(step))), "predicted: {report}");
    assert!(steps.iter().all(|step| step["part_of_rival"].is_f64()), "a copy is predicted, too: {report}");
    let counted = json(&["ladder", "transpose-ladder", "--m", "64", "--n", "64", "--untimed"]);
    assert!(counted["steps"][0]["time"].is_null(), "{counted}");
    assert_eq!(steps[2]["shared_bytes"], 32 * 33 * 4);
    let counted =
        |name: &str| steps.iter().map(|step| step["counted"][name].as_u64().expect("a count") > 0).collect();
    let (conflicts, excess): (Vec<bool>, Vec<bool>) = (counted("bank_conflicts"), counted("excess_sectors"));
    assert_eq!(conflicts, [false, true, false, false, false], "a column of the plain tile is one bank");
    assert_eq!(excess, [true, false, false, false, false], "the naive one writes columns");
    // 256 x 256 in 64 tiles: each of the 32 columns of a plain tile is read in 32 passes.
    let conflicts: Vec<_> = steps.iter().map(|step| &step["counted"]["bank_conflicts"]).collect();
    assert_eq!(conflicts[1], 64 * 32 * 31);
}

#[test]
fn copies_and_sorts_have_ladders() {
    let report = json(&["ladder", "copy", "--length", "4099"]);
    let steps = report["steps"].as_array().expect("steps").clone();
    assert!(
        report["options"].as_str().is_some_and(|options| options.starts_with("--length 4099 --type u8 "))
    );
    let counted = |name: &str| -> Vec<u64> {
        steps.iter().map(|step| step["counted"][name].as_u64().expect("a count")).collect()
    };
    // 65,536 bytes: a load and a store for each 32 lanes of 1, 2, 4, 8 or 16 bytes; the sectors are
    // the same.
    assert_eq!(counted("global_requests"), [4096, 2048, 1024, 512, 256], "{report}");
    assert_eq!(counted("global_sectors"), [4096; 5], "{report}");
    let given = json(&["ladder", "copy", "--type", "f32", "--untimed"]);
    assert!(given["options"].as_str().is_some_and(|options| options.contains("--type f32 ")), "{given}");

    let report = json(&["ladder", "sort-ladder", "--length", "1000"]);
    let names: Vec<_> = report["steps"].as_array().expect("steps").iter().map(|step| &step["step"]).collect();
    assert_eq!(names, ["bitonic", "merge", "radix"], "{report}");
    let text =
        String::from_utf8_lossy(&warpwright(&["ladder", "sort-ladder", "--untimed"]).stdout).into_owned();
    assert!(text.contains("Gkey/s") && text.contains("occupancy"), "{text}");
    let text =
        String::from_utf8_lossy(&warpwright(&["ladder", "sgemm-ladder", "--untimed"]).stdout).into_owned();
    assert!(text.contains("GFLOP/s"), "{text}");
}

#[test]
fn what_has_no_ladder_is_refused_with_what_has() {
    let output = warpwright(&["ladder", "vector-add"]);
    let message = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{message}");
    assert!(message.contains("vector-add has no ladder; these have one: "), "{message}");
}

#[test]
fn tune_times_candidates_in_turns_and_keeps_nothing_of_an_emulator() {
    let report = json(&[
        "tune",
        "--device",
        "emu:h200",
        "--candidates",
        "6",
        "gemm",
        "--m",
        "64",
        "--n",
        "72",
        "--k",
        "136",
    ]);
    assert_eq!(report["status"], "ok", "{report}");
    assert!(report["kept_in"].is_null(), "{report}");
    let finalists = report["finalists"].as_array().expect("finalists").clone();
    let seconds: Vec<_> = finalists.iter().map(|one| one["seconds"].as_f64().expect("a time")).collect();
    assert!(seconds.len() > 5 && seconds.is_sorted(), "{report}");
    assert_eq!(report["others"].as_array().expect("the others").len(), 1);
    let refused = warpwright(&["tune", "vector-add"]);
    let message = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && message.contains("has a single configuration"), "{message}");
}

#[test]
fn explain_shows_the_model_s_table_and_the_choice() {
    let report =
        json(&["run", "gemm", "--device", "emu:h200", "--explain", "--m", "64", "--n", "72", "--k", "136"]);
    let text = report["explanation"].as_str().expect("an explanation");
    assert!(
        text.contains("rank  configuration")
            && text.contains("->  0")
            && text.contains("cheapest by the cost model"),
        "{text}"
    );
    assert!(json(&["run", "gemm"])["explanation"].is_null());
}

/// Only ladders without steps that poll each other's progress: the counts of those vary between
/// runs.
#[test]
fn records_have_the_emulator_s_counts() {
    for (ladder, record) in [
        ("transpose-ladder", "2026-11-22-transpose"),
        ("reduce-ladder", "2026-11-22-reduce"),
        ("sgemm-ladder", "2026-11-21-sgemm"),
    ] {
        let file = format!("{}/../../docs/results/{record}.json", env!("CARGO_MANIFEST_DIR"));
        let text = std::fs::read_to_string(&file).unwrap_or_else(|error| panic!("{file}: {error}"));
        let kept: Value = serde_json::from_str(&text).expect("JSON");
        let now = json(&["ladder", ladder, "--untimed", "--device", "emu:h200"]);
        let (kept, now) = (kept["steps"].as_array().expect("steps"), now["steps"].as_array().expect("steps"));
        assert_eq!(kept.len(), now.len(), "{ladder}");
        for (kept, now) in kept.iter().zip(now) {
            assert_eq!(
                (&kept["step"], &kept["counted"]),
                (&now["step"], &now["counted"]),
                "`cargo run -p xtask -- chapter --recount docs/results/{record}.json` counts again"
            );
        }
    }
}

/// Ctrl-C ends the command after the launch that runs: what was timed is printed.
#[cfg(unix)]
#[test]
fn an_interrupted_search_prints_what_it_timed() {
    let mut child = Command::new(env!("CARGO_BIN_EXE_warpwright"))
        .args([
            "tune",
            "gemm",
            "--device",
            "emu:h200",
            "--candidates",
            "1000",
            "--m",
            "256",
            "--n",
            "256",
            "--k",
            "256",
        ])
        .arg("--json")
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped())
        .spawn()
        .expect("the command starts");
    // It times a candidate after the other, for minutes.
    std::thread::sleep(std::time::Duration::from_secs(15));
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status();
    assert!(killed.expect("`kill` is there").success(), "the search has not ended before");
    assert!(child.wait().is_ok());
    let output = child.wait_with_output().expect("it was started with pipes");
    assert_eq!(output.status.code(), Some(130), "{}", String::from_utf8_lossy(&output.stderr));
    let report: Value = serde_json::from_slice(&output.stdout).expect("JSON");
    assert_eq!(report["status"], "interrupted", "{report}");
    assert!(report["kept_in"].is_null(), "{report}");
    let finalists = report["finalists"].as_array().expect("a list");
    assert!(!finalists.is_empty() && finalists.iter().all(|one| one["seconds"].is_f64()), "{report}");
}

#[test]
fn help_lists_the_environment_and_the_exit_statuses() {
    let text = String::from_utf8_lossy(&warpwright(&["--help"]).stdout).into_owned();
    let mut names = Vec::new();
    for name in
        ["arch", "check", "cli", "emulator", "harness", "kernels", "lang", "lessons", "runtime", "warpwright"]
    {
        let folder = format!("{}/../{name}/src", env!("CARGO_MANIFEST_DIR"));
        add_variables(std::path::Path::new(&folder), &mut names);
    }
    names.sort();
    names.dedup();
    assert!(names.len() >= 5, "{names:?}");
    for name in names {
        assert!(text.contains(&name), "`{name}` is read, and --help does not list it");
    }
    assert!(text.contains("Exit status:") && text.contains("130"), "{text}");
}

/// Adds the environment variables of ours that the sources below a folder name, but those of tests, and those that
/// `run-cuda` sets for its program.
fn add_variables(folder: &std::path::Path, names: &mut Vec<String>) {
    const INTERNAL: [&str; 7] = [
        "WARPWRIGHT_REQUIRE_GPU",
        "WARPWRIGHT_REQUIRE_PTXAS",
        "WARPWRIGHT_VERSION",
        "WARPWRIGHT_CUDA_CHECK",
        "WARPWRIGHT_CUDA_TIME",
        "WARPWRIGHT_CUDA_FINDINGS",
        "WARPWRIGHT_CUDA_LAUNCHES",
    ];
    for entry in std::fs::read_dir(folder).expect("it can be read") {
        let path = entry.expect("it can be read").path();
        if path.is_dir() {
            add_variables(&path, names);
            continue;
        }
        let text = std::fs::read_to_string(&path).expect("text");
        for (start, _) in text.match_indices("WARPWRIGHT_") {
            let is_letter = |c: char| c.is_ascii_uppercase() || c == '_';
            let name: String = text[start..].chars().take_while(|&c| is_letter(c)).collect();
            if !INTERNAL.contains(&name.as_str()) {
                names.push(name);
            }
        }
    }
}

#[test]
fn the_version_has_its_commit() {
    let text = String::from_utf8_lossy(&warpwright(&["--version"]).stdout).into_owned();
    assert!(text.starts_with(concat!("warpwright ", env!("CARGO_PKG_VERSION"))), "{text}");
    let commit = text.trim().split_once(" (").map(|(_, commit)| commit.trim_end_matches(')'));
    let is_hash = |commit: &str| commit.len() >= 10 && commit.bytes().all(|byte| byte.is_ascii_hexdigit());
    assert!(commit.is_none_or(is_hash), "{text}");
}

#[test]
fn shells_and_man_have_what_they_read() {
    for (shell, words) in
        [("bash", "complete -F _warpwright"), ("zsh", "#compdef warpwright"), ("fish", "roofline")]
    {
        let script = warpwright(&["completions", shell]);
        let text = String::from_utf8_lossy(&script.stdout).into_owned();
        assert!(script.status.success() && text.contains(words), "{shell}");
        // Shells but fish complete the values of arguments.
        assert!(shell == "fish" || text.contains("transpose-ladder"), "{shell}");
        assert!(text.len() < 400_000, "{shell}: {} bytes", text.len());
    }
    let folder = std::env::temp_dir().join(format!("warpwright-man-{}", std::process::id()));
    let report = json(&["man", &folder.display().to_string()]);
    let pages = report["written"].as_array().expect("a list").len();
    assert!(pages > 13 && folder.join("warpwright.1").exists(), "{report}");
    let page = std::fs::read_to_string(folder.join("warpwright-check.1")).expect("written");
    assert!(page.contains("every checker on"), "{page}");
    std::fs::remove_dir_all(&folder).expect("it can be removed");
}

/// A picture and a page show all warps, tensor cores and copies, and the page's data are JSON in which no element begins.
fn expect_the_same_tracks(picture: &Path, page: &Path) {
    let [svg, html] = [picture, page].map(|path| {
        let text = std::fs::read_to_string(path).expect("it was written");
        std::fs::remove_file(path).expect("it can be removed");
        text
    });
    let (_, data) = html.split_once("type=\"application/json\">").expect("the page has data");
    let (data, _) = data.split_once("</script>").expect("they end");
    assert!(!data.contains('<'), "an element begins in the data");
    let data: Value = serde_json::from_str(data).expect("they are JSON");
    let rows = data["rows"].as_array().expect("rows");
    assert!(rows.len() >= 9, "warps, tensor cores and copies: {}", rows.len());
    for row in rows {
        let name = row["name"].as_str().expect("a name");
        assert!(svg.contains(&format!(">{name}</text>")), "{name} is not in the picture");
        let stretches = row["stretches"].as_array().expect("stretches");
        let starts: Vec<u64> = stretches.iter().map(|one| one[0].as_u64().expect("a cycle")).collect();
        assert!(starts.is_sorted() && !starts.is_empty(), "{name} has no order");
    }
}

/// Two ways through a branch take turns, in the odd and in the even lanes.
#[test]
fn a_trace_shows_which_lanes_execute_a_line() {
    let report = json(&["trace", "divergence", "--ways", "2", "--lanes", "--warps", "1..2"]);
    let steps = report["lanes"].as_array().expect("steps");
    assert!(steps.iter().all(|step| step["warp"] == 1 && step["cta"] == 0));
    let masks: Vec<u64> = steps.iter().map(|step| step["mask"].as_u64().expect("a mask")).collect();
    for mask in [0x5555_5555, 0xaaaa_aaaa] {
        assert!(masks.contains(&mask), "{mask:#x} is not in {masks:x?}");
    }
    assert_eq!((masks.first(), masks.last()), (Some(&0xffff_ffff), Some(&0xffff_ffff)), "{masks:x?}");
}

/// A trace is what Perfetto reads (its page "Chrome JSON"): complete slices that do not overlap on a track,
/// asynchronous slices in pairs, and names of processes and threads.
#[test]
fn traces_are_what_perfetto_reads() {
    let file = std::env::temp_dir().join(format!("warpwright-trace-{}.json", std::process::id()));
    let path = file.to_str().expect("a path of UTF-8");
    let (picture, page) = (file.with_extension("svg"), file.with_extension("html"));
    let report = json(&[
        "trace",
        "gemm",
        "--m",
        "128",
        "--n",
        "128",
        "--k",
        "256",
        "--perfetto",
        path,
        "--svg",
        picture.to_str().expect("a path of UTF-8"),
        "--html",
        page.to_str().expect("a path of UTF-8"),
        "--device",
        "emu:h200",
    ]);
    expect_the_same_tracks(&picture, &page);
    let text = std::fs::read_to_string(&file).expect("it was written");
    std::fs::remove_file(&file).expect("it can be removed");
    let trace: Value = serde_json::from_str(&text).expect("it is JSON");
    let events = trace["traceEvents"].as_array().expect("a list");
    let of_phase = |phase: &str| events.iter().filter(|event| event["ph"] == *phase).count();
    assert_eq!(of_phase("X") + of_phase("b"), report["slices"].as_u64().expect("a number") as usize);
    assert!(of_phase("b") > 0 && of_phase("b") == of_phase("e"), "copies begin and end");
    assert_eq!(of_phase("X") + of_phase("b") + of_phase("e") + of_phase("M"), events.len());
    let mut tracks: std::collections::HashMap<(u64, u64), Vec<(f64, f64)>> = std::collections::HashMap::new();
    for event in events.iter().filter(|event| event["ph"] == "X") {
        let number = |name: &str| event[name].as_f64().unwrap_or_else(|| panic!("{event} has no {name}"));
        assert!(event["name"].is_string() && number("dur") > 0.0, "{event}");
        let track = (number("pid") as u64, number("tid") as u64);
        tracks.entry(track).or_default().push((number("ts"), number("ts") + number("dur")));
    }
    assert!(tracks.len() >= 8, "warps and tensor cores: {}", tracks.len());
    for (track, mut slices) in tracks {
        slices.sort_by(|a, b| a.0.total_cmp(&b.0));
        for pair in slices.windows(2) {
            assert!(pair[1].0 >= pair[0].1 - 1e-6, "slices of {track:?} overlap: {pair:?}");
        }
    }
}
