//! Properties of a device.

use warpwright_arch::Capability;

/// Properties of a device.
#[derive(Clone, Debug)]
pub struct DeviceProperties {
    /// The name that selects it: `cuda:0`, `emu:h200`.
    pub name: String,
    /// NVIDIA's product name.
    pub product: String,
    /// Whether it is emulated.
    pub is_emulated: bool,
    /// Limits of its compute capability. For a GPU newer than the table, those of the nearest
    /// earlier capability.
    pub capability: &'static Capability,
    /// The PTX `.target`: `sm_90a`.
    pub target: String,
    /// Number of SMs.
    pub sm_count: u32,
    /// Global memory, in bytes.
    pub global_bytes: u64,
    /// L2 cache, in bytes.
    pub l2_bytes: u64,
    /// Maximum SM clock, in MHz.
    pub boost_mhz: u32,
    /// DRAM bandwidth, in bytes per second.
    pub bytes_per_second: f64,
    /// The CUDA version of the driver, as (major, minor); `None` on the emulator.
    pub driver: Option<(u32, u32)>,
    /// Its number among the GPUs of the driver, from 0; `None` on the emulator.
    pub ordinal: Option<u32>,
    /// The address of the GPU on the PCI bus, such as `00000000:65:00.0`; `None` on the emulator.
    pub pci_bus_id: Option<String>,
}
