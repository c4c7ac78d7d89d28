//! Registers and spills: only an assembler knows. `WARPWRIGHT_PTXAS` names one, or `ptxas` is on
//! the path.

use std::collections::BTreeMap;
use std::ffi::OsString;
use std::process::Command;

use warpwright_arch::{Capability, KernelResources};
use warpwright_runtime::Counters;

/// What is known of a kernel's registers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Assembled {
    /// As the values that are live at once need: there is no assembler.
    Estimated(u32),
    /// As the command line says.
    Told(u32),
    /// As the assembler says.
    Known(Usage),
}

/// What the assembler made of a kernel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Usage {
    pub(super) registers: u32,
    /// Bytes of a thread that did not fit registers, stored and loaded again.
    pub(super) spilled: u32,
}

impl Assembled {
    pub(super) fn resources(self, counters: &Counters) -> KernelResources {
        KernelResources {
            threads_per_cta: counters.threads_per_cta(),
            registers_per_thread: match self {
                Assembled::Estimated(registers)
                | Assembled::Told(registers)
                | Assembled::Known(Usage { registers, .. }) => registers,
            },
            shared_bytes: counters.shared_bytes,
        }
    }
}

/// The registers of a kernel: those of `--regs`, or else the assembler's, or else an estimate.
pub(super) fn of(
    counters: &Counters,
    assembler: Option<&BTreeMap<String, Usage>>,
    given: Option<u32>,
) -> Assembled {
    match (given, assembler.and_then(|usages| usages.get(&counters.kernel))) {
        (Some(registers), _) => Assembled::Told(registers),
        (None, Some(usage)) => Assembled::Known(*usage),
        (None, None) => Assembled::Estimated(counters.estimated_registers),
    }
}

/// What the assembler says of each kernel of a module; `None` where there is no assembler, or it
/// does not take the text.
pub(super) fn assemble(ptx: &str, capability: &Capability) -> Option<BTreeMap<String, Usage>> {
    let assembler = std::env::var_os("WARPWRIGHT_PTXAS").unwrap_or_else(|| OsString::from("ptxas"));
    let directory = std::env::temp_dir();
    let (text, binary) = ["ptx", "cubin"]
        .map(|extension| directory.join(format!("warpwright-report-{}.{extension}", std::process::id())))
        .into();
    std::fs::write(&text, ptx).ok()?;
    let target = format!("--gpu-name={}", capability.target);
    let outcome = Command::new(assembler).args(["-v", &target, "-o"]).arg(&binary).arg(&text).output();
    // The files may be gone already; nothing is lost.
    let _ = (std::fs::remove_file(&text), std::fs::remove_file(&binary));
    let output = outcome.ok().filter(|output| output.status.success())?;
    Some(usages(&String::from_utf8_lossy(&output.stderr)))
}

/// Reads `ptxas info    : Compiling entry function 'name' for 'sm_90a'` and the lines that follow
/// it.
fn usages(log: &str) -> BTreeMap<String, Usage> {
    let mut usages: BTreeMap<String, Usage> = BTreeMap::new();
    let mut kernel = None;
    for line in log.lines() {
        if let Some((_, rest)) = line.split_once("Compiling entry function '") {
            kernel = rest.split('\'').next().map(str::to_owned);
        }
        let Some(usage) = kernel.as_ref().map(|kernel| usages.entry(kernel.clone()).or_default()) else {
            continue;
        };
        let number_before =
            |words: &str| line.split(words).next()?.rsplit([' ', ',']).next()?.parse::<u32>().ok();
        if line.contains(" bytes spill stores") {
            usage.spilled += number_before(" bytes spill stores").unwrap_or(0);
        }
        if line.contains("Used ") && line.contains(" registers") {
            usage.registers = number_before(" registers").unwrap_or(0);
        }
    }
    usages
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_assemblers_log_is_read() {
        let log = "ptxas info    : 0 bytes gmem\n\
                   ptxas info    : Compiling entry function 'gemm' for 'sm_90a'\n\
                   ptxas info    : Function properties for gemm\n    \
                   48 bytes stack frame, 44 bytes spill stores, 52 bytes spill loads\n\
                   ptxas info    : Used 168 registers, used 1 barriers, 48 bytes cumulative stack size\n\
                   ptxas info    : Compiling entry function 'tail' for 'sm_90a'\n    \
                   0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads\n\
                   ptxas info    : Used 12 registers, used 0 barriers\n";
        let usages = usages(log);
        assert_eq!(usages["gemm"], Usage { registers: 168, spilled: 44 });
        assert_eq!(usages["tail"], Usage { registers: 12, spilled: 0 });
        let counters = |kernel: &str| Counters {
            kernel: kernel.to_owned(),
            estimated_registers: 72,
            ..Counters::default()
        };
        assert_eq!(of(&counters("gemm"), Some(&usages), None), Assembled::Known(usages["gemm"]));
        assert_eq!(of(&counters("gemm"), Some(&usages), Some(40)), Assembled::Told(40));
        assert_eq!(of(&counters("other"), Some(&usages), None), Assembled::Estimated(72));
    }
}
