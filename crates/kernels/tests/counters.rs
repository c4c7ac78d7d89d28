//! What the emulator counts of a GEMM equals the closed forms.

use warpwright::runtime::{Device, LineCounts, Unit};
use warpwright_harness::Setup;
use warpwright_workloads::workload;

/// What a launch of a kernel with options given as flags did.
struct Counted {
    total: LineCounts,
    sectors_read: u64,
    sectors_written: u64,
}

impl Counted {
    fn of(device: &str, command: &str) -> Self {
        let mut words = command.split_whitespace();
        let kernel = workload(words.next().expect("a name")).expect("a kernel");
        let mut options = kernel.clone();
        while let (Some(flag), Some(value)) = (words.next(), words.next()) {
            options.set(flag.trim_start_matches("--"), value).expect("an option");
        }
        let device = Device::named(device).and_then(Device::counted).expect("emulators count");
        let mut prepared = options.prepare(&Setup::new(&device)).expect("prepared");
        device.take_counters();
        prepared.launch(&device.stream().expect("a stream")).expect("launched");
        prepared.verify().unwrap_or_else(|error| panic!("{command}: {error}"));
        let [counters] = device.take_counters().try_into().expect("one kernel");
        let (sectors_read, sectors_written) = (counters.sectors_read, counters.sectors_written);
        Self { total: counters.total(), sectors_read, sectors_written }
    }
}

#[test]
fn tensor_cores_and_copies_do_what_the_product_takes() {
    let (m, n, k) = (256u64, 256u64, 128u64);
    for (device, instruction) in [("emu:h200", "mma-sync"), ("emu:h200", "wgmma"), ("emu:b200", "tcgen05")] {
        let command = format!("gemm --m {m} --n {n} --k {k} --instruction {instruction}");
        let counted = Counted::of(device, &command);
        let counts = counted.total.counts;
        let operations = counted.total.operations[&Unit::TensorBf16];
        assert_eq!(counted.sectors_read, (m * k + n * k) * 2 / 32, "{instruction}: A and B, once each");
        assert_eq!(counted.sectors_written, m * n * 4 / 32, "{instruction}: C");
        if instruction == "mma-sync" {
            assert_eq!(operations, 2 * m * n * k, "whole tiles");
            assert!(counts.shared.requests > 0 && counts.copies.copies == 0);
            assert_eq!(counts.shared.conflicts(), 0, "cp.async and ldmatrix through swizzled tiles");
        } else {
            // The plan may choose tiles that the product does not fill; then they are multiplied
            // all the same.
            assert!((2 * m * n * k..3 * m * n * k).contains(&operations), "{operations}");
            assert!(counts.copies.bytes >= (m * k + n * k) * 2, "by TMA, each tile as often as it is used");
            assert_eq!(counts.copies.sectors, counts.copies.ideal);
        }
    }
}
