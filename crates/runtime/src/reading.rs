//! The operating state of a GPU. A measurement needs the clocks and power at which it was taken.

/// Clocks, power and temperature of a GPU at one moment, from NVIDIA's management library (NVML). A
/// value that NVML does not report is `None`.
///
/// ```
/// # use warpwright_runtime::{Device, Reading};
/// assert_eq!(Device::named("emu:h200")?.reading(), Reading::default(), "an emulator has neither clocks nor power");
/// # Ok::<(), warpwright_runtime::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// SM clock, in MHz.
    pub sm_mhz: Option<u32>,
    /// Memory clock, in MHz.
    pub memory_mhz: Option<u32>,
    /// Power draw in watts; the mean of the last second on most GPUs since Ampere.
    pub watts: Option<f64>,
    /// Power limit in watts.
    pub limit_watts: Option<f64>,
    /// GPU temperature, in degrees Celsius.
    pub celsius: Option<u32>,
    /// Why the clocks are not higher; empty if they are not throttled.
    pub held_back_by: Option<Vec<&'static str>>,
}

/// The bits of `nvmlDeviceGetCurrentClocksEventReasons` (`nvml.h`), from bit 0.
const REASONS: [&str; 9] = [
    "idle",
    "application clocks",
    "power cap",
    "hardware slowdown",
    "sync boost",
    "software thermal slowdown",
    "hardware thermal slowdown",
    "power brake",
    "display clocks",
];

/// The names of the set bits.
pub(crate) fn reasons(bits: u64) -> Vec<&'static str> {
    REASONS.iter().enumerate().filter(|(bit, _)| bits >> bit & 1 == 1).map(|(_, reason)| *reason).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_has_its_reason() {
        assert_eq!(reasons(0), Vec::<&str>::new());
        // `nvmlClocksEventReasonSwPowerCap`, `...SwThermalSlowdown`
        assert_eq!(reasons(0x4), ["power cap"]);
        assert_eq!(reasons(0x4 | 0x20), ["power cap", "software thermal slowdown"]);
        assert_eq!(reasons(u64::MAX), REASONS);
    }
}
