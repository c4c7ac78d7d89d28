//! Clocks, power and temperature from NVIDIA's management library (NVML), which comes with the
//! driver. It is loaded on first use and is optional: without it, or for a value it does not
//! report, the answer is `None`.

use std::ffi::{CStr, CString, c_char, c_int, c_uint, c_void};
use std::ptr::null_mut;
use std::sync::OnceLock;

use libloading::Library;

use crate::reading::{Reading, reasons};

/// `nvmlDevice_t`
type Handle = *mut c_void;

/// `NVML_CLOCK_SM`, `NVML_CLOCK_MEM`
const SM_CLOCK: c_int = 1;
const MEMORY_CLOCK: c_int = 2;
/// `NVML_TEMPERATURE_GPU`
const OF_THE_CHIP: c_int = 0;
/// `NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE`
const VERSION_BYTES: usize = 80;

/// The NVML functions in use, with their types from `nvml.h`; `None` if the library lacks one. Each
/// returns 0 on success.
pub(crate) struct Nvml {
    driver_version: Option<unsafe extern "C" fn(*mut c_char, c_uint) -> c_int>,
    device_at: Option<unsafe extern "C" fn(*const c_char, *mut Handle) -> c_int>,
    clock: Option<unsafe extern "C" fn(Handle, c_int, *mut c_uint) -> c_int>,
    power: Option<unsafe extern "C" fn(Handle, *mut c_uint) -> c_int>,
    power_limit: Option<unsafe extern "C" fn(Handle, *mut c_uint) -> c_int>,
    temperature: Option<unsafe extern "C" fn(Handle, c_int, *mut c_uint) -> c_int>,
    clock_reasons: Option<unsafe extern "C" fn(Handle, *mut u64) -> c_int>,
    /// Keeps the functions above alive.
    _library: Library,
}

impl Nvml {
    /// The library, loaded and initialized once per process.
    pub(crate) fn get() -> Option<&'static Self> {
        static NVML: OnceLock<Option<Nvml>> = OnceLock::new();
        NVML.get_or_init(Self::open).as_ref()
    }

    fn open() -> Option<Self> {
        // SAFETY: the initializers are those of the installed driver's library, which any GPU
        // monitor runs.
        let library = unsafe { Library::new("libnvidia-ml.so.1") }.ok()?;
        // SAFETY: `nvmlInit_v2` takes no arguments and may be called at any time.
        let status = unsafe { function::<unsafe extern "C" fn() -> c_int>(&library, b"nvmlInit_v2\0")?() };
        if status != 0 {
            return None;
        }
        // SAFETY: each field has the type that nvml.h declares for its function. The clock reasons
        // use their old name, which drivers before CUDA 12.2 also have.
        unsafe {
            Some(Self {
                driver_version: function(&library, b"nvmlSystemGetDriverVersion\0"),
                device_at: function(&library, b"nvmlDeviceGetHandleByPciBusId_v2\0"),
                clock: function(&library, b"nvmlDeviceGetClockInfo\0"),
                power: function(&library, b"nvmlDeviceGetPowerUsage\0"),
                power_limit: function(&library, b"nvmlDeviceGetEnforcedPowerLimit\0"),
                temperature: function(&library, b"nvmlDeviceGetTemperature\0"),
                clock_reasons: function(&library, b"nvmlDeviceGetCurrentClocksThrottleReasons\0"),
                _library: library,
            })
        }
    }

    /// The version of the installed driver: `580.65.06`.
    pub(crate) fn driver_version(&self) -> Option<String> {
        let ask = self.driver_version?;
        let mut text = [0; VERSION_BYTES];
        // SAFETY: the buffer has the length passed.
        let status = unsafe { ask(text.as_mut_ptr(), VERSION_BYTES as c_uint) };
        // SAFETY: on success the library wrote a NUL-terminated string into the buffer.
        (status == 0).then(|| unsafe { CStr::from_ptr(text.as_ptr()) }.to_string_lossy().into_owned())
    }

    /// The current state of the GPU at a PCI bus address.
    pub(crate) fn reading(&self, bus_id: &str) -> Reading {
        let bus_id = CString::new(bus_id).unwrap_or_default();
        let Some(device) = self.device(&bus_id) else { return Reading::default() };
        // `answer` passes an out-pointer that is valid for the call.
        // SAFETY: the device is the library's, and the constants are those of nvml.h.
        let clock = |which| answer(|out| unsafe { self.clock?(device, which, out) }.into());
        // SAFETY: as above.
        let power = answer(|out| unsafe { self.power?(device, out) }.into());
        // SAFETY: as above.
        let limit = answer(|out| unsafe { self.power_limit?(device, out) }.into());
        // SAFETY: as above.
        let celsius = answer(|out| unsafe { self.temperature?(device, OF_THE_CHIP, out) }.into());
        // SAFETY: as above.
        let bits = answer(|out| unsafe { self.clock_reasons?(device, out) }.into());
        let watts = |milliwatts: c_uint| f64::from(milliwatts) / 1e3;
        Reading {
            sm_mhz: clock(SM_CLOCK),
            memory_mhz: clock(MEMORY_CLOCK),
            watts: power.map(watts),
            limit_watts: limit.map(watts),
            celsius,
            held_back_by: bits.map(reasons),
        }
    }

    fn device(&self, bus_id: &CStr) -> Option<Handle> {
        let mut device = null_mut();
        // SAFETY: the text is NUL-terminated, and the out-pointer is valid for the call.
        let status = unsafe { self.device_at?(bus_id.as_ptr(), &mut device) };
        (status == 0).then_some(device)
    }
}

/// A function of the library, if the library has it.
///
/// # Safety
/// `F` is the type that nvml.h declares for this function, and the function is called only while
/// the library is loaded.
unsafe fn function<F: Copy>(library: &Library, name: &[u8]) -> Option<F> {
    // SAFETY: the caller vouches for the type.
    unsafe { library.get::<F>(name) }.ok().map(|function| *function)
}

/// The value that a library function wrote through its out-pointer, if the function exists and
/// succeeded.
fn answer<T: Default>(ask: impl FnOnce(*mut T) -> Option<c_int>) -> Option<T> {
    let mut value = T::default();
    (ask(&mut value)? == 0).then_some(value)
}
