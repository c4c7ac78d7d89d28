//! Findings in inlined functions name the author's line, and the calls around and inside it.

use warpwright_check::FindingKind::Race;
use warpwright_check::{Finding, SourceFiles, render};
use warpwright_emulator::Schedule;

use crate::checks::harness::{Grid, ONE, found, run_at};

const TEXT: &str = "__device__ void put(unsigned* cell, unsigned value) {
    cuda::atomic_ref(*cell).store_plain(value);
}

__global__ void kernel(unsigned* buffer) {
    put(buffer, threadIdx.x);
}
";

/// A body in the lines of [`TEXT`], with the files after the kernel.
fn with_files(body: &str) -> String {
    format!(
        "{body} ret; }} .file 1 \"kernel.cu\" .file 2 \"/usr/local/cuda/include/cuda/atomic\" .func rest() {{"
    )
}

/// A store that `put` makes by two functions of a header.
const STORE: &str = ".loc 1 6 5
    .loc 1 2 5, function_name $L__info_string0, inlined_at 1 6 5
    .loc 2 80 14, function_name $L__info_string1, inlined_at 1 2 5
    .loc 2 31 7, function_name $L__info_string2, inlined_at 2 80 14
    st.global.u32 [%buffer], %tid;";

fn race() -> Finding {
    found(&with_files(STORE), ONE, Race, ["st.global", "st.global"])
}

#[test]
fn the_authors_line_comes_first_then_the_calls() {
    let finding = race();
    let at = finding.labels[0].source.as_ref().map(ToString::to_string);
    assert_eq!(at.as_deref(), Some("kernel.cu:2:5"));
    let told = finding.to_string();
    let chain = "kernel.cu:2:5, called from kernel.cu:6:5, inlined from \
                 /usr/local/cuda/include/cuda/atomic:80:14, /usr/local/cuda/include/cuda/atomic:31:7: write by";
    assert!(told.contains(chain), "{told}");
}

#[test]
fn a_report_shows_the_calls() {
    let report = render(&race(), &mut SourceFiles::here().with("kernel.cu", TEXT), false);
    let expected = "\
error[race]: nothing orders two writes of 4 bytes at global address 0x1000000000
 --> kernel.cu:2:5
  |
2 |     cuda::atomic_ref(*cell).store_plain(value);
  |     ^^^^^^^^^^^^^^^^^^^^^^^
  |     |
  |     write by warp 1 of CTA (0, 0, 0)
  |     write by warp 0 of CTA (0, 0, 0), earlier in this run
...
6 |     put(buffer, threadIdx.x);
  |     ------------------------ called from here
  |
  = note: the threads write different values with the same instruction
  = note: global address 0x1000000000 is where `buffer` points
  = note: kernel.cu:2:5, inlined from /usr/local/cuda/include/cuda/atomic:80:14, /usr/local/cuda/include/cuda/atomic:31:7
  = help: let one thread write, or each to an address of its own
  = note: in kernel `kernel`";
    assert_eq!(report, expected);
}

#[test]
fn faults_and_deadlocks_show_the_calls() {
    let outside = with_files(&STORE.replace("[%buffer]", "[%buffer+1048576]"));
    let fault = run_at(&outside, ONE, Schedule::Eager).expect_err("it is out of bounds");
    assert!(
        fault.to_string().contains("at kernel.cu:2:5, called from kernel.cu:6:5, inlined from"),
        "{fault}"
    );
    let wait = with_files(&STORE.replace("st.global.u32 [%buffer], %tid;", "bar.sync 1, 64;"));
    let alone = Grid { threads: 96, ..ONE };
    let deadlock = run_at(&wait, alone, Schedule::Eager).expect_err("the third warp waits alone");
    assert!(deadlock.to_string().contains("at kernel.cu:2:5, called from kernel.cu:6:5"), "{deadlock}");
}
