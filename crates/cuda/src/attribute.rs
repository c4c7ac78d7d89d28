//! The attributes of the device, by their numbers in `CUdevice_attribute` and `cudaDeviceAttr`.

use warpwright_arch::Arch;

use crate::status::{Result, Status};

/// The largest number of an attribute.
const LAST: i32 = 161;
/// The bits of memory's bus that a device is taken to have: the memory clock follows from the bandwidth.
const BUS_BITS: u32 = 5120;

/// An attribute of the device.
pub(crate) fn attribute(arch: &Arch, number: i32) -> Result<i32> {
    let c = arch.capability;
    let (major, minor) = c.compute_capability;
    let kilohertz = arch.boost_mhz * 1000;
    let memory_kilohertz = arch.bytes_per_second / f64::from(BUS_BITS / 8) / 2.0 / 1000.0;
    let has_clusters = u32::from(c.ctas_per_cluster > 1);
    let value = match number {
        1 => c.threads_per_cta,
        2..=4 => c.cta_extents[number as usize - 2],
        5..=7 => c.grid_extents[number as usize - 5],
        8 => c.shared_bytes_per_cta,
        9 => c.constant_bytes,
        10 => c.warp_size,
        11 => i32::MAX as u32,
        12 => c.registers_per_cta,
        13 => kilohertz,
        14 | 30 => 512,
        16 => arch.sm_count,
        // Overlapping copies, mapped host memory, concurrent kernels, unified addresses, gather.
        15 | 19 | 31 | 41 | 44 => 1,
        21 | 22 => 131_072,
        23 => 65536,
        24..=26 | 57..=60 => 16384,
        27 | 28 | 55 | 56 | 61 | 66 | 62 | 63 | 67 | 73 | 74 | 77 | 45 | 46 | 42 | 47 | 48 | 49 | 52 | 53 => {
            32768
        }
        29 | 43 | 54 | 64 | 65 | 68 => 2048,
        33 | 34 => 1,
        36 => memory_kilohertz as u32,
        37 => BUS_BITS,
        38 => arch.l2_bytes as u32,
        39 => c.threads_per_sm,
        40 => 3,
        51 => 32,
        69 => 268_435_456,
        70 | 71 => 131_072,
        72 => 2_097_120,
        75 => major,
        76 => minor,
        78..=80 => 1,
        81 => c.shared_bytes_per_sm,
        82 => c.registers_per_sm,
        // Managed memory; the host and kernels access it at the same time.
        83 | 89..=91 => 1,
        87 => (arch.f32_per_sm_clock / arch.f64_per_sm_clock.max(1)).max(1),
        95 | 99 => 1,
        106 => c.ctas_per_sm,
        97 => c.shared_bytes_per_cta_opt_in,
        108 | 109 => 0,
        111 => c.shared_bytes_reserved,
        115 => 1,
        120 => has_clusters,
        127 => u32::from(major >= 9),
        129 => 1,
        92..=94 | 122 | 123 => 1,
        126 => 1,
        130 => 0,
        131 | 134 => return Ok(-1),
        139 => 0x10de,
        _ if (1..=LAST).contains(&number) => 0,
        _ => return Err(Status::INVALID_VALUE),
    };
    Ok(value as i32)
}
