//! The device of the process.

use std::sync::{Mutex, OnceLock, PoisonError};

use warpwright_arch::Arch;
use warpwright_runtime::{Device, RawDevice, Schedule};

use crate::status::{Result, Status};

/// The environment variables that the library reads; `warpwright run-cuda` sets them.
pub mod variables {
    /// The emulated GPU: `emu:h200`.
    pub const DEVICE: &str = "WARPWRIGHT_DEVICE";
    /// `1`: all checkers are on.
    pub const CHECK: &str = "WARPWRIGHT_CUDA_CHECK";
    /// A file that receives a line of JSON for each finding.
    pub const FINDINGS: &str = "WARPWRIGHT_CUDA_FINDINGS";
    /// A file that receives a line of JSON for each launch, with its counts and, if it is predicted, its time.
    pub const LAUNCHES: &str = "WARPWRIGHT_CUDA_LAUNCHES";
    /// `1`: the time of each launch on the GPU is predicted.
    pub const TIME: &str = "WARPWRIGHT_CUDA_TIME";
}

/// The version of CUDA whose driver the library is, as `CUDA_VERSION` counts.
pub(crate) const CUDA_VERSION: u32 = 13000;

/// The emulated GPU.
pub(crate) struct Machine {
    pub(crate) raw: RawDevice,
    pub(crate) arch: &'static Arch,
    /// Whether each operation is complete when the call that adds it returns: the checkers take the host's order from
    /// the order of operations, and times are of one launch after another.
    pub(crate) in_order: bool,
    /// What kernels have printed since the host last waited.
    printed: &'static Mutex<String>,
}

static MACHINE: OnceLock<Result<Machine, String>> = OnceLock::new();

/// The device, which `cuInit` opens.
pub(crate) fn machine() -> Result<&'static Machine> {
    MACHINE.get().and_then(|opened| opened.as_ref().ok()).ok_or(Status::NOT_INITIALIZED)
}

/// Opens the device.
pub(crate) fn initialize() -> Result<()> {
    let opened = MACHINE.get_or_init(|| {
        let opened = Machine::open();
        if let Err(reason) = &opened {
            eprintln!("warpwright: no emulated GPU: {reason}");
        }
        opened
    });
    if opened.is_ok() { Ok(()) } else { Err(Status::NO_DEVICE) }
}

fn is_set(variable: &str) -> bool {
    std::env::var(variable).is_ok_and(|value| value == "1")
}

impl Machine {
    fn open() -> Result<Self, String> {
        static PRINTED: Mutex<String> = Mutex::new(String::new());
        let named = std::env::var(variables::DEVICE).ok().filter(|name| name.starts_with("emu:"));
        let name = named.unwrap_or_else(|| "emu:h200".to_owned());
        let arch = Arch::named(name.trim_start_matches("emu:")).map_err(|error| error.to_string())?;
        let (is_checked, is_timed) = (is_set(variables::CHECK), is_set(variables::TIME));
        let in_order = is_checked || is_timed;
        // In order, nothing that the program does later can end a wait.
        let device = if in_order { Device::emulated } else { Device::emulated_beside_program };
        let device = device(arch, Schedule::Eager).map_err(|error| error.to_string())?;
        let print = |text: &str| PRINTED.lock().unwrap_or_else(PoisonError::into_inner).push_str(text);
        let device = device.printing_to(print).map_err(|error| error.to_string())?;
        let device = if is_checked { device.checked().map_err(|error| error.to_string())? } else { device };
        let device = if is_timed { device.timed().map_err(|error| error.to_string())? } else { device };
        Ok(Self { raw: device.raw(), arch, in_order, printed: &PRINTED })
    }

    /// Writes what kernels have printed to C's standard output, in which the program's own text is.
    pub(crate) fn flush_printed(&self) {
        let text = std::mem::take(&mut *self.printed.lock().unwrap_or_else(PoisonError::into_inner));
        if text.is_empty() {
            return;
        }
        unsafe extern "C" {
            static mut stdout: *mut libc::FILE;
        }
        // SAFETY: C's standard output is open, or its stream reports the error; the bytes are of the string.
        unsafe { libc::fwrite(text.as_ptr().cast(), 1, text.len(), stdout) };
    }
}
