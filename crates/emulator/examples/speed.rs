//! Prints the emulator's figures: `cargo run --release -p warpwright-emulator --example speed [THREADS]`.

use warpwright_emulator::bench;

fn main() {
    let threads = std::env::args().nth(1).and_then(|threads| threads.parse().ok()).unwrap_or(1);
    for name in bench::NAMES {
        match bench::run(name, threads) {
            Ok(figures) => println!(
                "{:10} {:8.2} ms  {:7.1} M warp-instructions/s  {:6.2} G lane-operations/s  {:6.2} G multiply-adds/s",
                name,
                figures.best.as_secs_f64() * 1e3,
                figures.warp_instructions() / 1e6,
                figures.lane_operations() / 1e9,
                figures.mma_multiply_adds() / 1e9
            ),
            Err(error) => println!("{error}"),
        }
    }
}
