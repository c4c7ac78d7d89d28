//! Programs of other compilers, each broken in one known way: `warpwright check` finds it, at the
//! line where it shows.
//!
//! What is left out here, since nothing is wrong with it: barriers and waits after the last round
//! of a loop; the second of two barriers with nothing between them, of which Triton writes many;
//! `fence.proxy.async` or `fence.mbarrier_init` after an `mbarrier.init` of which the threads of
//! the CTA alone know, or which another barrier carries further; and code that the launch does not
//! reach. A fence taken away between accesses that are all `.volatile` or atomic is no race but may
//! read what is old, which the checkers do not tell (docs/checking.md).

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use serde_json::Value;
use warpwright_testing::one_in;

/// What is done to a line.
enum Change {
    /// It goes.
    Delete,
    /// A wait that succeeds at once.
    Pass,
    /// A part of it becomes another.
    Replace(&'static str, &'static str),
}

use Change::{Delete, Pass, Replace};

/// Of the kernel's lines that hold a text, one by its place among them.
type Place = (&'static str, usize);

/// A launch of the corpus, the line that is changed and how, and the code of a finding and a line
/// that it names.
type Mutant = (&'static str, Place, Change, &'static str, Place);

#[rustfmt::skip] // A mutant a line.
const MUTANTS: &[Mutant] = &[
    ("gemm_simple", ("wgmma.wait_group", 0), Delete, "in-flight", ("cp.async.bulk", 2)),
    ("gemm_simple", ("wgmma.wait_group", 0), Replace("aligned 0", "aligned 1"), "in-flight", ("cp.async.bulk", 2)),
    ("gemm_simple", ("wgmma.commit_group", 0), Delete, "in-flight", ("cp.async.bulk", 2)),
    ("gemm_simple", ("bar.sync", 1), Delete, "in-flight", ("cp.async.bulk", 2)),
    ("gemm_simple", ("wgmma.wait_group", 4), Delete, "leak", ("wgmma.mma_async", 19)),
    ("gemm_simple", ("mbarrier.arrive.expect_tx", 0), Delete, "deadlock", ("mbarrier.try_wait", 0)),
    ("gemm_simple", ("mbarrier.try_wait", 0), Pass, "in-flight", ("wgmma.mma_async", 0)),
    ("gemm_simple", ("mbarrier.try_wait", 1), Replace("], %r44", "], 0"), "deadlock", ("mbarrier.try_wait", 1)),
    ("gemm_simple", ("mbarrier.try_wait", 0), Replace("], %r40", "], 1"), "deadlock", ("mbarrier.try_wait", 0)),
    ("gemm_simple", ("mbarrier.arrive.expect_tx", 0), Replace("%r28;", "8192;"), "in-flight", ("wgmma.mma_async", 0)),
    ("gemm_simple", ("mbarrier.arrive.expect_tx", 0), Replace("%r28;", "12288;"), "deadlock", ("mbarrier.try_wait", 0)),
    ("gemm_simple", ("mbarrier.init", 0), Replace("%r20;", "2;"), "deadlock", ("mbarrier.try_wait", 0)),
    ("gemm_queue", ("wgmma.wait_group", 0), Delete, "in-flight", ("cp.async.bulk", 8)),
    ("gemm_queue", ("wgmma.wait_group", 1), Delete, "in-flight", ("cp.async.bulk", 0)),
    ("gemm_queue", ("wgmma.wait_group", 3), Delete, "leak", ("wgmma.mma_async", 11)),
    ("gemm_queue", ("mbarrier.arrive", 1), Delete, "deadlock", ("mbarrier.try_wait", 6)),
    ("gemm_queue", ("wgmma.commit_group", 1), Delete, "in-flight", ("cp.async.bulk", 0)),
    ("gemm_queue", ("mbarrier.try_wait", 3), Pass, "in-flight", ("cp.async.bulk", 0)),
    ("gemm_queue", ("mbarrier.try_wait", 0), Pass, "in-flight", ("wgmma.mma_async", 0)),
    ("gemm_queue", ("mbarrier.arrive.expect_tx", 0), Delete, "deadlock", ("mbarrier.try_wait", 6)),
    ("gemm_cluster", ("fence.proxy.async", 0), Delete, "proxy-fence", ("cp.async.bulk", 10)),
    ("gemm_cluster", ("bar.sync", 0), Delete, "in-flight", ("cp.async.bulk", 10)),
    ("gemm_cluster", ("cp.async.bulk.wait_group", 0), Delete, "leak", ("cp.async.bulk", 10)),
    ("gemm_cluster", ("wgmma.wait_group", 0), Delete, "in-flight", ("cp.async.bulk", 4)),
    ("gemm_cluster", ("mbarrier.arrive", 5), Delete, "deadlock", ("mbarrier.try_wait", 5)),
    ("gemm_cluster", ("barrier.cluster.wait", 0), Delete, "peer-not-resident", ("cp.async.bulk", 1)),
    ("gemm_cluster", ("barrier.cluster.arrive", 0), Delete, "barrier", ("barrier.cluster.wait", 0)),
    ("gemm_fp8_blocks", ("bar.sync", 0), Delete, "race", ("mbarrier.try_wait", 0)),
    ("gemm_fp8_blocks", ("wgmma.wait_group", 0), Delete, "in-flight", ("cp.async.bulk", 12)),
    ("gemm_fp8_blocks", ("mbarrier.try_wait", 5), Pass, "in-flight", ("wgmma.mma_async", 0)),
    ("warpgroup_attention", ("bar.sync", 1), Delete, "in-flight", ("wgmma.mma_async", 0)),
    ("warpgroup_attention", ("mbarrier.try_wait", 1), Pass, "in-flight", ("cp.async.bulk", 3)),
    ("warpgroup_attention", ("mbarrier.arrive.expect_tx", 2), Delete, "deadlock", ("mbarrier.try_wait", 2)),
    ("tile_negate", ("bar.sync", 0), Delete, "race", ("mbarrier.arrive", 0)),
    ("tile_negate", ("fence.proxy.async", 1), Delete, "proxy-fence", ("cp.async.bulk", 1)),
    ("tile_negate", ("bar.sync", 1), Delete, "race", ("cp.async.bulk", 1)),
    ("tile_negate", ("cp.async.bulk.wait_group", 0), Delete, "leak", ("cp.async.bulk", 1)),
    ("swizzled_sums", ("bar.sync", 1), Delete, "race", ("cp.async.bulk", 2)),
    ("swizzled_sums", ("mbarrier.arrive.expect_tx", 1), Delete, "deadlock", ("mbarrier.try_wait", 0)),
    ("multicast_add", ("barrier.cluster.wait", 0), Delete, "peer-not-resident", ("cp.async.bulk", 0)),
    ("multicast_add", ("fence.proxy.async", 0), Delete, "proxy-fence", ("cp.reduce.async.bulk", 0)),
    ("bulk_double", ("fence.proxy.async", 0), Delete, "proxy-fence", ("cp.async.bulk", 1)),
    ("bulk_double", ("bar.sync", 1), Delete, "race", ("cp.async.bulk", 1)),
    ("bulk_double", ("cp.async.bulk.wait_group", 0), Delete, "leak", ("cp.reduce.async.bulk", 0)),
    ("triton_persistent_specialised", ("fence.proxy.async", 0), Delete, "proxy-fence", ("cp.async.bulk", 9)),
    ("triton_persistent_specialised", ("bar.sync", 26), Delete, "in-flight", ("cp.async.bulk", 9)),
    ("triton_persistent_specialised", ("wgmma.wait_group", 0), Delete, "in-flight", ("wgmma.mma_async", 0)),
    ("triton_persistent_specialised", ("mbarrier.arrive", 3), Delete, "deadlock", ("mbarrier.try_wait", 1)),
    ("triton_persistent_specialised", ("bar.warp.sync", 0), Delete, "race", ("st.shared.b32", 0)),
    ("triton_persistent_specialised", ("mbarrier.arrive.expect_tx", 0), Delete, "deadlock", ("mbarrier.try_wait", 0)),
    ("matmul_async", ("cp.async.wait_group", 0), Delete, "in-flight", ("cp.async.cg.shared.global", 0)),
    ("matmul_async", ("cp.async.wait_group", 0), Replace("wait_group 1", "wait_group 2"), "in-flight", ("cp.async.cg.shared.global", 0)),
    ("matmul_async", ("bar.sync", 0), Delete, "in-flight", ("ld.shared.v4.f32", 1)),
    ("matmul_async", ("bar.sync", 1), Delete, "race", ("ld.shared.v4.f32", 1)),
    ("matmul_tiled_float", ("bar.sync", 0), Delete, "race", ("ld.shared.f32", 0)),
    ("matmul_tiled_float", ("bar.sync", 1), Delete, "race", ("ld.shared.f32", 7)),
    ("transpose_tiled", ("bar.sync", 0), Delete, "race", ("ld.shared.f32", 0)),
    ("acquire_release", ("ld.acquire", 0), Replace("ld.acquire", "ld.relaxed"), "race", ("ld.relaxed.gpu.global.u32", 0)),
    ("acquire_release", ("st.release", 0), Replace("st.release", "st.relaxed"), "race", ("ld.relaxed.gpu.global.u32", 0)),
    ("saxpy", ("setp.ge", 0), Replace("setp.ge", "setp.gt"), "out-of-bounds", ("ld.global.nc.f32", 0)),
    ("triton_add", ("setp.lt", 0), Replace("setp.lt", "setp.le"), "out-of-bounds", ("ld.global.v2.b32", 0)),
];

fn cases() -> PathBuf {
    warpwright_testing::corpus::folder().join("cases")
}

/// A text as lines, and which of them are those of a kernel.
fn lines_of_kernel<'a>(text: &'a str, kernel: &str) -> (Vec<&'a str>, std::ops::Range<usize>) {
    let lines: Vec<&str> = text.lines().collect();
    let begins = |line: &&str| {
        let rest = line.split_once(".entry ").map(|(_, rest)| rest.trim_start());
        rest.is_some_and(|rest| {
            rest.strip_prefix(kernel)
                .is_some_and(|after| after.trim_end().is_empty() || after.starts_with('('))
        })
    };
    let first = lines.iter().position(begins).expect("the kernel is there");
    let rest = lines[first + 1..].iter().position(|line| line.contains(".entry "));
    let last = rest.map_or(lines.len(), |after| first + 1 + after);
    (lines, first..last)
}

/// The index of a place's line.
fn find(lines: &[&str], kernel: &std::ops::Range<usize>, (text, which): Place) -> usize {
    let mut held = kernel.clone().filter(|&index| lines[index].contains(text));
    held.nth(which).unwrap_or_else(|| panic!("there are not {which} lines with `{text}`"))
}

fn changed(line: &str, change: &Change) -> String {
    match change {
        Delete => String::new(),
        Pass => {
            let (_, operands) = line.split_once("b64").expect("a wait names its result after its type");
            let result = operands.split(',').next().expect("a result").trim();
            format!("setp.eq.u32 {result}, 0, 0;")
        }
        Replace(from, to) => {
            assert!(line.contains(from), "`{line}` has no `{from}`");
            line.replace(from, to)
        }
    }
}

/// Checks a mutant in a folder of its own; what is missing, if anything.
fn complaint(mutant: &Mutant, directory: &Path) -> Option<String> {
    let (case, at, change, code, shows) = mutant;
    let folder = cases().join(case);
    let text = fs::read_to_string(folder.join("LAUNCH.json")).expect("a launch");
    let mut launch: Value = serde_json::from_str(&text).expect("JSON");
    let ptx = fs::read_to_string(folder.join(launch["ptx"].as_str().expect("a path"))).expect("a text");
    let (mut lines, kernel) = lines_of_kernel(&ptx, launch["entry"].as_str().expect("a name"));
    let expected = find(&lines, &kernel, *shows) + 1;
    let index = find(&lines, &kernel, *at);
    let broken = changed(lines[index], change);
    lines[index] = &broken;
    fs::write(directory.join("broken.ptx"), lines.join("\n")).expect("writable");
    launch["ptx"] = Value::from("broken.ptx");
    for argument in launch["args"].as_array_mut().expect("a list") {
        if let Some(given) = argument.pointer_mut("/buffer/init/npy") {
            *given = Value::from(folder.join(given.as_str().expect("a path")).to_str().expect("UTF-8"));
        }
    }
    let file = directory.join("LAUNCH.json");
    fs::write(&file, launch.to_string()).expect("writable");
    let done = Command::new(env!("CARGO_BIN_EXE_warpwright"))
        .args(["--json", "check", "--seeds", "1"])
        .arg(&file)
        .env_remove("WARPWRIGHT_DEVICE")
        .output()
        .expect("the command starts");
    let said = String::from_utf8_lossy(&done.stdout);
    let report: Value =
        said.lines().last().and_then(|line| serde_json::from_str(line).ok()).unwrap_or_default();
    let findings = report["findings"].as_array().cloned().unwrap_or_default();
    let places = |finding: &Value| -> Vec<u64> {
        let labels = finding["labels"].as_array().cloned().unwrap_or_default();
        labels.iter().filter_map(|label| label["ptx_line"].as_u64()).collect()
    };
    let right = |finding: &&Value| finding["code"] == *code && places(finding).contains(&(expected as u64));
    if findings.iter().any(|finding| right(&finding)) {
        return None;
    }
    let mut told: BTreeMap<String, Vec<u64>> = BTreeMap::new();
    for finding in &findings {
        told.entry(finding["code"].to_string()).or_default().extend(places(finding));
    }
    Some(format!(
        "{case}, {at:?} at line {}: no {code} at line {expected}; told of {told:?} {}",
        index + 1,
        report["error"]
    ))
}

#[test]
fn programs_broken_in_a_known_way_are_found_out() {
    let root = std::env::temp_dir().join(format!("warpwright-mutants-{}", std::process::id()));
    let mutants: Vec<&Mutant> = one_in(2, MUTANTS).collect();
    let next = AtomicUsize::new(0);
    let complaints = Mutex::new(Vec::new());
    thread::scope(|scope| {
        for _ in 0..thread::available_parallelism().map_or(1, usize::from) {
            scope.spawn(|| {
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    let Some(mutant) = mutants.get(index) else { break };
                    let directory = root.join(index.to_string());
                    fs::create_dir_all(&directory).expect("temporary files can be made");
                    complaints
                        .lock()
                        .expect("no other worker panicked")
                        .extend(complaint(mutant, &directory));
                }
            });
        }
    });
    fs::remove_dir_all(&root).expect("its own files");
    let complaints = complaints.into_inner().expect("no worker panicked");
    assert!(complaints.is_empty(), "{}", complaints.join("\n"));
}
