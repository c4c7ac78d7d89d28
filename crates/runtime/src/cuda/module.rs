//! PTX loaded on a GPU.

use std::collections::BTreeMap;
use std::ffi::{CString, c_int, c_void};
use std::ptr::null_mut;
use std::sync::{Arc, Mutex, PoisonError};

use super::driver::{self, Failure, LaunchAttribute, LaunchConfig, function_attribute, status};
use super::{Context, assemble, raw};
use crate::backend::{Handle, KernelAttributes, LaunchCounts, LoadedModule, Packed};
use crate::error::Result;
use crate::launch::Launch;

/// The dynamic shared memory a launch may ask for without opting in, less the kernel's static part.
const SHARED_BYTES_WITHOUT_OPT_IN: u32 = 48 << 10;
/// The largest cluster that needs no opting in.
const PORTABLE_CLUSTER: u32 = 8;

/// A module in a GPU's context.
pub(super) struct CudaModule {
    context: Arc<Context>,
    handle: driver::Handle,
    /// Its kernels that were asked for, so that a launch asks the driver for nothing that is known.
    kernels: Mutex<BTreeMap<String, KnownKernel>>,
}

/// What is known of a kernel.
#[derive(Clone, Copy)]
struct KnownKernel {
    function: driver::Handle,
    /// Dynamic shared memory that launches may ask for.
    most_dynamic_shared_bytes: u32,
    /// Whether launches may ask for clusters beyond the portable size.
    takes_large_clusters: bool,
}

// SAFETY: the driver's modules may be used from any thread.
unsafe impl Send for CudaModule {}
// SAFETY: as above.
unsafe impl Sync for CudaModule {}

impl CudaModule {
    /// Assembles PTX for the GPU and loads it.
    pub(super) fn load(context: Arc<Context>, ptx: &str, target: &str) -> Result<Self> {
        let handle = assemble::load(&context, ptx, target)?;
        Ok(Self { context, handle, kernels: Mutex::default() })
    }

    /// The function of that name; `None` if there is none.
    fn find(&self, name: &str) -> Result<Option<driver::Handle>> {
        let Ok(name) = CString::new(name) else { return Ok(None) };
        let driver = self.context.enter()?;
        let mut function = null_mut();
        // SAFETY: the out-pointer and the name are valid for the call.
        match unsafe { driver.cuModuleGetFunction(&mut function, self.handle, name.as_ptr()) } {
            Err(Failure { code: status::NOT_FOUND, .. }) => Ok(None),
            other => self.context.check(other).map(|()| Some(function)),
        }
    }

    fn attribute(&self, function: driver::Handle, which: c_int) -> Result<u32> {
        let driver = self.context.enter()?;
        let mut value = 0;
        // SAFETY: the out-pointer is valid for the call, and the function is the module's.
        self.context.check(unsafe { driver.cuFuncGetAttribute(&mut value, which, function) })?;
        Ok(u32::try_from(value).unwrap_or(0))
    }

    fn set_attribute(&self, function: driver::Handle, which: c_int, value: u32) -> Result<()> {
        let driver = self.context.enter()?;
        // SAFETY: the function is the module's.
        self.context.check(unsafe { driver.cuFuncSetAttribute(function, which, value as c_int) })
    }

    /// The kernel of that name, which the module has, opted in to what a launch asks for beyond what every kernel may have.
    fn opted_in(&self, name: &str, launch: &Launch) -> Result<driver::Handle> {
        let mut kernels = self.kernels.lock().unwrap_or_else(PoisonError::into_inner);
        if !kernels.contains_key(name) {
            let function = self.find(name)?.expect("the kernel was found when the function was made");
            let shared_bytes = self.attribute(function, function_attribute::SHARED_BYTES)?;
            let known = KnownKernel {
                function,
                most_dynamic_shared_bytes: SHARED_BYTES_WITHOUT_OPT_IN.saturating_sub(shared_bytes),
                takes_large_clusters: false,
            };
            kernels.insert(name.to_owned(), known);
        }
        let known = kernels.get_mut(name).expect("it has just been looked for");
        let shared = launch.dynamic_shared_bytes;
        if shared > known.most_dynamic_shared_bytes {
            self.set_attribute(known.function, function_attribute::MAX_DYNAMIC_SHARED_BYTES, shared)?;
            known.most_dynamic_shared_bytes = shared;
        }
        if launch.cluster.0.iter().product::<u32>() > PORTABLE_CLUSTER && !known.takes_large_clusters {
            self.set_attribute(known.function, function_attribute::NON_PORTABLE_CLUSTER, 1)?;
            known.takes_large_clusters = true;
        }
        Ok(known.function)
    }
}

impl LoadedModule for CudaModule {
    fn kernel(&self, name: &str) -> Result<Option<KernelAttributes>> {
        let Some(function) = self.find(name)? else { return Ok(None) };
        Ok(Some(KernelAttributes {
            registers_per_thread: self.attribute(function, function_attribute::REGISTERS)?,
            shared_bytes: self.attribute(function, function_attribute::SHARED_BYTES)?,
            local_bytes: self.attribute(function, function_attribute::LOCAL_BYTES)?,
            threads_per_cta: self.attribute(function, function_attribute::MAX_THREADS)?,
        }))
    }

    fn variable(&self, name: &str) -> Result<Option<(u64, usize)>> {
        let Ok(name) = CString::new(name) else { return Ok(None) };
        let driver = self.context.enter()?;
        let (mut address, mut bytes) = (0, 0);
        // SAFETY: the out-pointers and the name are valid for the call.
        match unsafe { driver.cuModuleGetGlobal_v2(&mut address, &mut bytes, self.handle, name.as_ptr()) } {
            Err(Failure { code: status::NOT_FOUND, .. }) => Ok(None),
            other => self.context.check(other).map(|()| Some((address, bytes))),
        }
    }

    fn clusters_at_once(&self, name: &str, launch: &Launch) -> Result<Option<u32>> {
        let driver = self.context.enter()?;
        let function = self.opted_in(name, launch)?;
        let mut cluster = LaunchAttribute::cluster(launch.cluster.0);
        let config = LaunchConfig {
            grid: launch.grid.0,
            block: launch.block.0,
            dynamic_shared_bytes: launch.dynamic_shared_bytes,
            stream: null_mut(),
            attributes: &mut cluster,
            attribute_count: 1,
        };
        let mut clusters = 0;
        // SAFETY: the out-pointer and the configuration, with its one attribute, are valid for the call.
        let outcome = unsafe { driver.cuOccupancyMaxActiveClusters(&mut clusters, function, &config) };
        self.context.check(outcome)?;
        Ok(u32::try_from(clusters).ok())
    }

    fn launch(
        &self,
        name: &str,
        stream: Handle,
        launch: &Launch,
        arguments: &[Packed<'_>],
    ) -> Result<LaunchCounts> {
        let driver = self.context.enter()?;
        let function = self.opted_in(name, launch)?;
        let cluster = launch.has_clusters().then(|| LaunchAttribute::cluster(launch.cluster.0));
        let overlap = launch.overlaps.then(LaunchAttribute::overlapping);
        let mut attributes: Vec<LaunchAttribute> = cluster.into_iter().chain(overlap).collect();
        let config = LaunchConfig {
            grid: launch.grid.0,
            block: launch.block.0,
            dynamic_shared_bytes: launch.dynamic_shared_bytes,
            stream: raw(stream),
            attributes: attributes.as_mut_ptr(),
            attribute_count: attributes.len() as u32,
        };
        // The driver reads as many bytes at each pointer as the parameter has, at its alignment.
        let mut storage: Vec<Vec<u128>> = arguments.iter().map(|argument| aligned(argument.bytes)).collect();
        let mut pointers: Vec<*mut c_void> =
            storage.iter_mut().map(|argument| argument.as_mut_ptr().cast()).collect();
        self.context.note_launch(name);
        // SAFETY: `arguments` were checked against the kernel's parameters where those are known; the driver copies them before it
        // returns. What the kernel does with them on the device is the kernel's own business: it cannot touch the host.
        let outcome =
            unsafe { driver.cuLaunchKernelEx(&config, function, pointers.as_mut_ptr(), null_mut()) };
        self.context.check(outcome)?;
        Ok(LaunchCounts::default())
    }
}

/// The bytes at an address that is a multiple of 16, padded with zeros.
fn aligned(bytes: &[u8]) -> Vec<u128> {
    let mut words = vec![0u128; bytes.len().div_ceil(16).max(1)];
    bytemuck::cast_slice_mut(&mut words)[..bytes.len()].copy_from_slice(bytes);
    words
}

impl Drop for CudaModule {
    fn drop(&mut self) {
        let Ok(driver) = self.context.enter() else { return };
        // A kernel of the module may still be running.
        // SAFETY: the context is current.
        let _ = self.context.check(unsafe { driver.cuCtxSynchronize() });
        // SAFETY: the module is loaded and is unloaded once.
        let _ = self.context.check(unsafe { driver.cuModuleUnload(self.handle) });
    }
}
