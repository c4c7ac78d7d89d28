//! What tests of clusters run on.

use warpwright_runtime::Device;

/// The emulated H200 with its checkers on, and the GPU where there is one with clusters.
pub(crate) fn devices() -> Vec<Device> {
    let emulator = Device::named("emu:h200").and_then(Device::checked).expect("the emulator always starts");
    let gpu = warpwright_testing::gpu(Device::named("cuda:0"));
    let has_clusters = |device: &Device| device.properties().capability.compute_capability >= (9, 0);
    std::iter::once(emulator).chain(gpu.filter(has_clusters)).collect()
}
