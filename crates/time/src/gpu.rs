//! The GPU that the model assumes.

use std::str::FromStr;

use warpwright_arch::Arch;
use warpwright_arch::timing::{Figure, Timing};

/// A change of the GPU, whose effect on a kernel's time is a question: `hbm=2x`, `l2=2x`, `tensor=2x`,
/// `no-bank-conflicts`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Assumption {
    /// Device memory with so many times the bandwidth.
    DeviceMemory(f64),
    /// An L2 cache with so many times the bandwidth.
    L2(f64),
    /// Tensor cores that are so many times as fast.
    TensorCores(f64),
    /// Accesses of shared memory take as many passes as their bytes need.
    NoBankConflicts,
}

impl FromStr for Assumption {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        if text == "no-bank-conflicts" {
            return Ok(Self::NoBankConflicts);
        }
        let (name, factor) = text.split_once('=').ok_or_else(|| unknown(text))?;
        let assumption = match name {
            "hbm" => Self::DeviceMemory,
            "l2" => Self::L2,
            "tensor" => Self::TensorCores,
            _ => return Err(unknown(text)),
        };
        let factor = factor.strip_suffix('x').unwrap_or(factor).parse().ok();
        let factor = factor.filter(|factor: &f64| (1e-3..=1e3).contains(factor));
        factor
            .map(assumption)
            .ok_or_else(|| format!("`{text}` needs a factor from 0.001x to 1000x, such as `{name}=2x`"))
    }
}

fn unknown(text: &str) -> String {
    format!("`{text}` is none of `hbm=2x`, `l2=2x`, `tensor=2x` and `no-bank-conflicts`")
}

/// The GPU of a simulation.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Gpu {
    pub(crate) arch: &'static Arch,
    pub(crate) timing: Timing,
    /// The speed of the tensor cores, as a multiple of the GPU's.
    pub(crate) tensor_speed: f64,
    pub(crate) has_bank_conflicts: bool,
}

impl Gpu {
    pub(crate) fn new(arch: &'static Arch) -> Self {
        Self { arch, timing: *arch.timing(), tensor_speed: 1.0, has_bank_conflicts: true }
    }

    /// The same GPU with a change.
    pub(crate) fn assuming(mut self, assumption: Assumption) -> Self {
        let timing = &mut self.timing;
        let (rates, factor): (&mut [&mut Figure], f64) = match assumption {
            Assumption::DeviceMemory(factor) => {
                (&mut [&mut timing.device_reads, &mut timing.device_writes], factor)
            }
            Assumption::L2(factor) => (
                &mut [
                    &mut timing.l2_bytes,
                    &mut timing.l2_store_bytes,
                    &mut timing.l2_bytes_per_sm,
                    &mut timing.store_bytes_per_sm,
                ],
                factor,
            ),
            Assumption::TensorCores(factor) => {
                return Self { tensor_speed: self.tensor_speed * factor, ..self };
            }
            Assumption::NoBankConflicts => return Self { has_bank_conflicts: false, ..self },
        };
        rates.iter_mut().for_each(|figure| figure.value *= factor);
        self
    }

    /// The cycles of work that takes so many on the GPU's own tensor cores.
    pub(crate) fn tensor_cycles(&self, cycles: u32) -> u64 {
        (f64::from(cycles) / self.tensor_speed).ceil() as u64
    }

    pub(crate) fn partitions(&self) -> u32 {
        self.arch.capability.partitions_per_sm
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn assumptions_are_read_or_refused() {
        assert_eq!("hbm=2x".parse(), Ok(Assumption::DeviceMemory(2.0)));
        assert_eq!("tensor=0.5".parse(), Ok(Assumption::TensorCores(0.5)));
        assert_eq!("no-bank-conflicts".parse(), Ok(Assumption::NoBankConflicts));
        for wrong in ["hbm", "hbm=", "hbm=0x", "hbm=nanx", "hbm=-1x", "l2=infx", "dram=2x", ""] {
            assert!(wrong.parse::<Assumption>().is_err(), "{wrong}");
        }
    }
}
