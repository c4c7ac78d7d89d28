//! All-reduce by NVIDIA's NCCL, as a baseline for benchmarks. The library is loaded at run time and is
//! optional.
//!
//! It is a baseline only. NCCL calls `cudaDeviceEnablePeerAccess`, after which an allocation on one
//! GPU may wait for kernels of the others; kernels that wait for one another, as those of the
//! library's communicator do, must not run in the same process.

use std::ffi::{CStr, c_char, c_int, c_void};
use std::ptr::null_mut;
use std::sync::{Arc, OnceLock};

use half::bf16;
use libloading::Library;

use crate::backend::{Backend, same_device};
use crate::buffer::Buffer;
use crate::device::Device;
use crate::error::{Error, Result};
use crate::stream::{Stream, same_length};

/// Names of the library. A path in `WARPWRIGHT_NCCL` is tried before them.
const LIBRARIES: [&str; 2] = ["libnccl.so.2", "libnccl.so"];
/// `ncclBfloat16` of `ncclDataType_t`.
const BF16: c_int = 9;
/// `ncclSum` of `ncclRedOp_t`.
const SUM: c_int = 0;

/// `ncclComm_t`
type Communicator = *mut c_void;

/// The functions of the library, with the types that nccl.h gives them.
struct Nccl {
    init_all: unsafe extern "C" fn(*mut Communicator, c_int, *const c_int) -> c_int,
    all_reduce: unsafe extern "C" fn(
        *const c_void,
        *mut c_void,
        usize,
        c_int,
        c_int,
        Communicator,
        *mut c_void,
    ) -> c_int,
    destroy: unsafe extern "C" fn(Communicator) -> c_int,
    error_string: unsafe extern "C" fn(c_int) -> *const c_char,
    version: unsafe extern "C" fn(*mut c_int) -> c_int,
    /// Keeps the functions above alive.
    _library: Library,
}

impl Nccl {
    fn of(library: Library) -> std::result::Result<Self, libloading::Error> {
        // SAFETY: the types are those of nccl.h.
        unsafe {
            Ok(Self {
                init_all: *library.get(b"ncclCommInitAll\0")?,
                all_reduce: *library.get(b"ncclAllReduce\0")?,
                destroy: *library.get(b"ncclCommDestroy\0")?,
                error_string: *library.get(b"ncclGetErrorString\0")?,
                version: *library.get(b"ncclGetVersion\0")?,
                _library: library,
            })
        }
    }

    fn get() -> Result<&'static Self> {
        static NCCL: OnceLock<std::result::Result<Nccl, String>> = OnceLock::new();
        let open = || {
            let chosen = std::env::var("WARPWRIGHT_NCCL").ok();
            let mut reason = String::new();
            for name in chosen.iter().map(String::as_str).chain(LIBRARIES) {
                // SAFETY: the initializers are those of the installed library, which any program
                // that uses it runs.
                match unsafe { Library::new(name) }.and_then(Self::of) {
                    Ok(nccl) => return Ok(nccl),
                    Err(error) => reason = error.to_string(),
                }
            }
            Err(reason)
        };
        NCCL.get_or_init(open).as_ref().map_err(|reason| Error::NoNccl { reason: reason.clone() })
    }

    fn check(&self, call: &'static str, code: c_int) -> Result<()> {
        if code == 0 {
            return Ok(());
        }
        // SAFETY: the function takes any number and returns a text that lives as long as the library.
        let text = unsafe { CStr::from_ptr((self.error_string)(code)) };
        let description = text.to_string_lossy().into_owned();
        Err(Error::Driver { call, name: format!("ncclResult_t {code}"), description })
    }
}

/// The version of NCCL, such as `2.27.3`.
///
/// # Errors
/// NCCL is not installed.
pub fn version() -> Result<String> {
    let nccl = Nccl::get()?;
    let mut number = 0;
    // SAFETY: the out-pointer is valid for the call.
    nccl.check("ncclGetVersion", unsafe { (nccl.version)(&mut number) })?;
    // NCCL_VERSION of nccl.h, from 2.9 on.
    Ok(format!("{}.{}.{}", number / 10_000, number / 100 % 100, number % 100))
}

/// A rank of a communicator of NCCL.
pub struct NcclRank {
    nccl: &'static Nccl,
    communicator: Communicator,
    backend: Arc<Backend>,
}

// SAFETY: a communicator may be used from any thread, from one at a time; `all_reduce` takes the
// rank mutably.
unsafe impl Send for NcclRank {}

impl NcclRank {
    /// The ranks of a communicator of these GPUs, in order.
    ///
    /// # Errors
    /// NCCL is not installed or refuses, or a device is no GPU.
    pub fn of_devices(devices: &[Device]) -> Result<Vec<Self>> {
        let nccl = Nccl::get()?;
        let no_gpu = |device: &Device| Error::NoNccl { reason: format!("{} is no GPU", device.name()) };
        let ordinal = |device: &Device| {
            let ordinal = device.properties().ordinal.filter(|_| !device.is_dry_run());
            ordinal.map(|ordinal| ordinal as c_int).ok_or_else(|| no_gpu(device))
        };
        let ordinals = devices.iter().map(ordinal).collect::<Result<Vec<_>>>()?;
        let mut communicators = vec![null_mut(); devices.len()];
        // SAFETY: both lists have as many elements as are passed.
        let made = unsafe {
            (nccl.init_all)(communicators.as_mut_ptr(), ordinals.len() as c_int, ordinals.as_ptr())
        };
        nccl.check("ncclCommInitAll", made)?;
        let ranks = communicators.into_iter().zip(devices);
        Ok(ranks
            .map(|(communicator, device)| Self { nccl, communicator, backend: device.backend.clone() })
            .collect())
    }

    /// y = the sum of `x` of all ranks. Every rank makes the call, each from a thread of its own.
    ///
    /// # Errors
    /// The lengths or devices differ, the stream is captured, or NCCL refuses.
    pub fn all_reduce(&mut self, stream: &Stream, x: &Buffer<bf16>, y: &mut Buffer<bf16>) -> Result<()> {
        stream.expect_no_capture("NcclRank::all_reduce")?;
        same_device("the communicator of NCCL", &self.backend, &stream.backend)?;
        stream.owns("the argument of the all-reduce", x)?;
        stream.owns("the result of the all-reduce", y)?;
        same_length(y.len(), x.len())?;
        x.allocation.check()?;
        let (from, to) = (x.allocation.address(), y.allocation.address());
        let pointer = |address: u64| std::ptr::with_exposed_provenance_mut::<c_void>(address as usize);
        // SAFETY: both buffers have that many elements, and freeing them waits for the stream, which
        // is alive.
        let enqueued = unsafe {
            (self.nccl.all_reduce)(
                pointer(from),
                pointer(to),
                x.len(),
                BF16,
                SUM,
                self.communicator,
                stream.handle.pointer(),
            )
        };
        self.nccl.check("ncclAllReduce", enqueued)
    }
}

impl Drop for NcclRank {
    fn drop(&mut self) {
        // SAFETY: the communicator was made for this value, and is destroyed once.
        unsafe { (self.nccl.destroy)(self.communicator) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_emulated_device_or_a_machine_without_nccl_is_refused() {
        let devices = Device::peers("emu:h200", 2).expect("emulators");
        let refused = NcclRank::of_devices(&devices).err().expect("no GPUs").to_string();
        assert!(refused.starts_with("NCCL is not available: "), "{refused}");
    }
}
