//! What a GPU runs at: a figure says little without the clocks and the power it was measured at.

/// The clocks, power and heat of a GPU at one moment, as NVIDIA's management library (NVML) reads
/// them. What it does not tell, or where there is no such library, is `None`.
///
/// ```
/// # use warpwright_runtime::{Device, Reading};
/// assert_eq!(Device::named("emu:h200")?.reading(), Reading::default(), "an emulator has neither clocks nor power");
/// # Ok::<(), warpwright_runtime::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Reading {
    /// Clock of the SMs, in MHz.
    pub sm_mhz: Option<u32>,
    /// Clock of the memory, in MHz.
    pub memory_mhz: Option<u32>,
    /// What the board draws, in watts: the mean of the last second on most GPUs since Ampere.
    pub watts: Option<f64>,
    /// What it may draw, in watts.
    pub limit_watts: Option<f64>,
    /// Heat of the chip, in degrees Celsius.
    pub celsius: Option<u32>,
    /// Why the clocks are not higher; empty where nothing holds them back.
    pub held_back_by: Option<Vec<&'static str>>,
}

/// The bits of `nvmlDeviceGetCurrentClocksEventReasons` (`nvml.h`), from the lowest.
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

/// The reasons that the bits stand for.
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
