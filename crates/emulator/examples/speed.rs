//! Prints the emulator's figures, and how the GEMM compares with `matrixmultiply::sgemm` of its size on as many threads:
//! `cargo run --release -p warpwright-emulator --example speed [THREADS] [NAME]`.

use std::time::{Duration, Instant};

use warpwright_emulator::{Checks, bench};

/// The best time of `matrixmultiply::sgemm` at n cubed.
fn sgemm(n: usize) -> Duration {
    let (a, b, mut c) = (vec![1.0f32; n * n], vec![1.0f32; n * n], vec![0.0f32; n * n]);
    let row = n as isize;
    (0..if n > 1024 { 3 } else { 10 })
        .map(|_| {
            let begun = Instant::now();
            // SAFETY: the three matrices are n by n, row-major.
            unsafe {
                matrixmultiply::sgemm(
                    n,
                    n,
                    n,
                    1.0,
                    a.as_ptr(),
                    row,
                    1,
                    b.as_ptr(),
                    row,
                    1,
                    0.0,
                    c.as_mut_ptr(),
                    row,
                    1,
                );
            }
            begun.elapsed()
        })
        .min()
        .unwrap_or_default()
}

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let threads: usize = arguments.first().and_then(|threads| threads.parse().ok()).unwrap_or(1);
    // SAFETY: no other thread is running yet.
    unsafe { std::env::set_var("MATMUL_NUM_THREADS", threads.to_string()) };
    let wanted = |name: &&&str| match arguments.get(1) {
        Some(wanted) => wanted == *name,
        None => bench::NAMES.contains(name),
    };
    for name in bench::NAMES.iter().chain(&bench::LONG_NAMES).filter(wanted) {
        match bench::run(name, threads) {
            Ok(figures) => {
                println!(
                    "{:10} {:8.2} ms  {:7.1} M warp-instructions/s  {:6.2} G lane-operations/s  {:6.2} G multiply-adds/s",
                    name,
                    figures.best.as_secs_f64() * 1e3,
                    figures.warp_instructions() / 1e6,
                    figures.lane_operations() / 1e9,
                    figures.mma_multiply_adds() / 1e9
                );
                if let Ok(checked) = bench::run_with(name, threads, Checks::On) {
                    let (ms, ratio) = (
                        checked.best.as_secs_f64() * 1e3,
                        checked.best.as_secs_f64() / figures.best.as_secs_f64(),
                    );
                    println!("{:10} {ms:8.2} ms with the checkers on, {ratio:.1} times as long", "");
                }
                if let Some(n @ (1024 | 4096)) = name.split(' ').nth(1).and_then(|n| n.parse().ok()) {
                    let reference = sgemm(n);
                    let ratio = figures.best.as_secs_f64() / reference.as_secs_f64();
                    println!(
                        "sgemm {n} {:8.2} ms: the emulated GEMM takes {ratio:.1} times that",
                        reference.as_secs_f64() * 1e3
                    );
                }
            }
            Err(error) => println!("{error}"),
        }
    }
}
