//! PTX loaded on a GPU.

use std::ffi::{CString, c_int, c_void};
use std::ptr::null_mut;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use warpwright_arch::limits::{PORTABLE_CTAS_PER_CLUSTER, STATIC_SHARED_BYTES};

use smallvec::SmallVec;
use warpwright_arch::Capability;
use warpwright_ptx::syntax;

use super::assemble;
use super::context::Context;
use super::driver::{self, Driver, Failure, LaunchAttribute, LaunchConfig, function_attribute, status};
use crate::arguments::MANY_ARGUMENTS;
use crate::attributes::{KernelAttributes, LaunchCounts};
use crate::backend::{Call, Handle, LoadedKernel, LoadedModule, Loader, Packed};
use crate::error::Result;
use crate::launch::Launch;

impl Loader for Context {
    fn load(self: Arc<Self>, ptx: &str, _parsed: Option<&syntax::Module>) -> Result<Arc<dyn LoadedModule>> {
        let handle = assemble::load(&self, ptx, &self.properties.target)?;
        Ok(Arc::new(CudaModule { limits: self.properties.capability, context: self, handle }))
    }
}

/// A module in a GPU's context.
struct CudaModule {
    context: Arc<Context>,
    handle: driver::Handle,
    limits: &'static Capability,
}

// SAFETY: the driver's modules may be used from any thread.
unsafe impl Send for CudaModule {}
// SAFETY: as above.
unsafe impl Sync for CudaModule {}

/// A kernel of a module. What a launch needs is cached, so that a launch makes no driver queries.
struct CudaKernel {
    module: Arc<CudaModule>,
    name: String,
    function: driver::Handle,
    attributes: KernelAttributes,
    /// Whether the kernel has opted in to more than 48 KB of shared memory.
    takes_large_shared: AtomicBool,
    /// Whether the kernel has opted in to clusters beyond the portable size.
    takes_large_clusters: AtomicBool,
    /// The synchronization count when the context last noted a launch of this kernel.
    noted: AtomicU64,
}

// SAFETY: the driver's functions may be used from any thread.
unsafe impl Send for CudaKernel {}
// SAFETY: as above.
unsafe impl Sync for CudaKernel {}

impl CudaModule {
    /// The function of that name, or `None`.
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
}

impl LoadedModule for CudaModule {
    fn kernel(self: Arc<Self>, name: &str) -> Result<Option<Arc<dyn LoadedKernel>>> {
        let Some(function) = self.find(name)? else { return Ok(None) };
        let attributes = KernelAttributes {
            registers_per_thread: self.attribute(function, function_attribute::REGISTERS)?,
            shared_bytes: self.attribute(function, function_attribute::SHARED_BYTES)?,
            local_bytes: self.attribute(function, function_attribute::LOCAL_BYTES)?,
            threads_per_cta: self.attribute(function, function_attribute::MAX_THREADS)?,
        };
        Ok(Some(Arc::new(CudaKernel {
            module: self,
            name: name.to_owned(),
            function,
            attributes,
            takes_large_shared: AtomicBool::new(false),
            takes_large_clusters: AtomicBool::new(false),
            noted: AtomicU64::new(u64::MAX),
        })))
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
}

impl CudaKernel {
    fn set_attribute(&self, driver: &Driver, which: c_int, value: u32) -> Result<()> {
        // SAFETY: the context is current, and the function is the module's.
        let outcome = unsafe { driver.cuFuncSetAttribute(self.function, which, value as c_int) };
        self.module.context.check(outcome)
    }

    /// Opts in to large shared memory and non-portable clusters if the launch needs them. The
    /// opt-in is always to the maximum, so concurrent calls agree.
    fn opt_in(&self, driver: &Driver, launch: &Launch) -> Result<()> {
        let static_bytes = self.attributes.shared_bytes;
        let is_large = static_bytes + launch.dynamic_shared_bytes > STATIC_SHARED_BYTES;
        if is_large && !self.takes_large_shared.load(Ordering::Relaxed) {
            let most = self.module.limits.shared_bytes_per_cta_opt_in - static_bytes;
            self.set_attribute(driver, function_attribute::MAX_DYNAMIC_SHARED_BYTES, most)?;
            self.takes_large_shared.store(true, Ordering::Relaxed);
        }
        let is_large = launch.cluster.0.iter().product::<u32>() > PORTABLE_CTAS_PER_CLUSTER;
        if is_large && !self.takes_large_clusters.load(Ordering::Relaxed) {
            self.set_attribute(driver, function_attribute::NON_PORTABLE_CLUSTER, 1)?;
            self.takes_large_clusters.store(true, Ordering::Relaxed);
        }
        Ok(())
    }
}

impl LoadedKernel for CudaKernel {
    fn attributes(&self) -> &KernelAttributes {
        &self.attributes
    }

    fn resident_clusters(&self, launch: &Launch) -> Result<Option<u32>> {
        let driver = self.module.context.enter()?;
        self.opt_in(driver, launch)?;
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
        // SAFETY: the out-pointer and the configuration, with its one attribute, are valid for the
        // call.
        let outcome = unsafe { driver.cuOccupancyMaxActiveClusters(&mut clusters, self.function, &config) };
        self.module.context.check(outcome)?;
        Ok(u32::try_from(clusters).ok())
    }

    fn launch(
        &self,
        stream: Handle,
        launch: &Launch,
        arguments: &[Packed<'_>],
        _call: Call,
    ) -> Result<LaunchCounts> {
        let context = &self.module.context;
        let driver = context.enter()?;
        self.opt_in(driver, launch)?;
        let cluster = launch.has_clusters().then(|| LaunchAttribute::cluster(launch.cluster.0));
        let overlap = launch.overlaps.then(LaunchAttribute::overlapping);
        let cooperative = launch.is_cooperative.then(LaunchAttribute::cooperative);
        let mut attributes: SmallVec<[LaunchAttribute; 3]> =
            cluster.into_iter().chain(overlap).chain(cooperative).collect();
        let config = LaunchConfig {
            grid: launch.grid.0,
            block: launch.block.0,
            dynamic_shared_bytes: launch.dynamic_shared_bytes,
            stream: stream.pointer(),
            attributes: attributes.as_mut_ptr(),
            attribute_count: attributes.len() as u32,
        };
        // For each pointer the driver reads the size of the parameter.
        let mut pointers: SmallVec<[*mut c_void; MANY_ARGUMENTS]> =
            arguments.iter().map(|argument| argument.bytes.as_ptr().cast_mut().cast()).collect();
        context.note_launch(&self.name, &self.noted);
        // SAFETY: `arguments` were checked against the kernel's parameters if those are known; the
        // driver copies them before it returns. The kernel cannot access the host.
        let outcome =
            unsafe { driver.cuLaunchKernelEx(&config, self.function, pointers.as_mut_ptr(), null_mut()) };
        context.check(outcome)?;
        Ok(LaunchCounts::default())
    }
}

impl Drop for CudaModule {
    fn drop(&mut self) {
        let Ok(driver) = self.context.enter() else { return };
        // A kernel of the module may still be running.
        let _no_capture = self.context.without_capture();
        // SAFETY: the context is current.
        let _ = self.context.check(unsafe { driver.cuCtxSynchronize() });
        // SAFETY: the module is loaded and is unloaded once.
        let _ = self.context.check(unsafe { driver.cuModuleUnload(self.handle) });
    }
}
