//! Operations take memory in their first calls and none in later ones: a call may be captured in a
//! CUDA graph, and costs no allocation.

use warpwright::arch::Capability;
use warpwright::runtime::Device;
use warpwright_harness::Setup;

use crate::SUITE;

/// A dry run never gives an address again: where two buffers of one element are neighbors, nothing
/// was allocated between them.
fn next_address(device: &Device) -> u64 {
    device.uninitialized::<u8>(1).expect("a dry run has memory").address()
}

#[test]
fn repeated_calls_allocate_nothing() {
    let mut allocating = Vec::new();
    let mut seen = 0;
    for target in ["sm_80", "sm_90a", "sm_100a"] {
        let capability = Capability::for_target(target).expect("it is in the table");
        for kernel in SUITE.kernels {
            let workload = kernel.workload();
            if !workload.supports(capability) {
                continue;
            }
            let device = Device::dry_run(capability).expect("a dry run always starts");
            let stream = device.stream().expect("a stream");
            let mut prepared = workload.prepare(&Setup::new(&device)).expect("buffers");
            let mut launch =
                || prepared.launch(&stream).unwrap_or_else(|error| panic!("{workload}: {error}"));
            launch();
            let (first, second) = (next_address(&device), next_address(&device));
            launch();
            let third = next_address(&device);
            if third - second != second - first {
                allocating.push(format!("{workload} for {target}: {} bytes", third - second));
            }
            seen += 1;
        }
    }
    assert!(seen > 2 * SUITE.kernels.len(), "{seen} calls");
    assert!(allocating.is_empty(), "{}", allocating.join("\n"));
}
