//! The functions of the CUDA driver that the runtime calls. `libcuda.so.1` is loaded on first use.
//!
//! This is the whole foreign interface: types as in `cuda.h`, one table of functions, and
//! constants. Each method of [`Driver`] is one driver function, with its status turned into a
//! `Result`.

// The names are those of the driver's documentation.
#![allow(clippy::too_many_arguments)]

use std::ffi::{CStr, c_char, c_int, c_uint, c_void};
use std::sync::OnceLock;

use libloading::Library;

/// `CUdevice`.
pub(super) type DeviceHandle = c_int;
/// `CUcontext`, `CUstream`, `CUevent`, `CUmodule`, `CUfunction`, `CUgraph`, `CUgraphExec`.
pub(super) type Handle = *mut c_void;
/// `CUdeviceptr`.
pub(super) type Address = u64;

/// `CUmemLocation` of a device.
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct MemoryLocation {
    /// `CU_MEM_LOCATION_TYPE_DEVICE`, 1.
    kind: c_int,
    device: DeviceHandle,
}

impl MemoryLocation {
    pub(super) fn device(device: DeviceHandle) -> Self {
        Self { kind: 1, device }
    }
}

/// `CUmemAllocationProp` of memory that is not exported.
#[repr(C)]
pub(super) struct MemoryProperties {
    /// `CU_MEM_ALLOCATION_TYPE_PINNED`, 1.
    kind: c_int,
    /// `CU_MEM_HANDLE_TYPE_NONE`, 0.
    handle_types: c_int,
    location: MemoryLocation,
    windows_metadata: *mut c_void,
    flags: [u8; 8],
}

impl MemoryProperties {
    pub(super) fn device(device: DeviceHandle) -> Self {
        let location = MemoryLocation::device(device);
        Self { kind: 1, handle_types: 0, location, windows_metadata: std::ptr::null_mut(), flags: [0; 8] }
    }
}

/// `CUmemAccessDesc`: a device that reads and writes.
#[repr(C)]
pub(super) struct MemoryAccess {
    location: MemoryLocation,
    /// `CU_MEM_ACCESS_FLAGS_PROT_READWRITE`, 3.
    flags: c_int,
}

impl MemoryAccess {
    pub(super) fn by(device: DeviceHandle) -> Self {
        Self { location: MemoryLocation::device(device), flags: 3 }
    }
}

/// `CUlaunchConfig`.
#[repr(C)]
pub(super) struct LaunchConfig {
    pub(super) grid: [c_uint; 3],
    pub(super) block: [c_uint; 3],
    pub(super) dynamic_shared_bytes: c_uint,
    pub(super) stream: Handle,
    pub(super) attributes: *mut LaunchAttribute,
    pub(super) attribute_count: c_uint,
}

/// `CUlaunchAttribute`: an identifier padded to 8 bytes, then a 64-byte union that begins with
/// three extents or a flag.
#[repr(C)]
pub(super) struct LaunchAttribute {
    pub(super) id: c_uint,
    pub(super) padding: u32,
    pub(super) value: [c_uint; 16],
}

impl LaunchAttribute {
    /// `CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION`
    pub(super) fn cluster([x, y, z]: [u32; 3]) -> Self {
        Self::new(4, &[x, y, z])
    }

    /// `CU_LAUNCH_ATTRIBUTE_COOPERATIVE`
    pub(super) fn cooperative() -> Self {
        Self::new(2, &[1])
    }

    /// `CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION`
    pub(super) fn overlapping() -> Self {
        Self::new(6, &[1])
    }

    fn new(id: c_uint, words: &[u32]) -> Self {
        let mut value = [0; 16];
        value[..words.len()].copy_from_slice(words);
        Self { id, padding: 0, value }
    }
}
/// `CU_STREAM_NON_BLOCKING`
pub(super) const STREAM_NON_BLOCKING: c_uint = 1;
/// `CU_STREAM_CAPTURE_MODE_RELAXED`: other threads may allocate and load meanwhile.
pub(super) const CAPTURE_RELAXED: c_uint = 2;
/// `CU_MEMHOSTALLOC_PORTABLE`
pub(super) const HOST_PORTABLE: c_uint = 1;

/// `CUdevice_attribute`.
pub(super) mod device_attribute {
    use std::ffi::c_int;
    pub(in super::super) const CLOCK_KHZ: c_int = 13;
    pub(in super::super) const SM_COUNT: c_int = 16;
    pub(in super::super) const MEMORY_CLOCK_KHZ: c_int = 36;
    pub(in super::super) const MEMORY_BUS_BITS: c_int = 37;
    pub(in super::super) const L2_BYTES: c_int = 38;
    pub(in super::super) const MAJOR: c_int = 75;
    pub(in super::super) const MINOR: c_int = 76;
}

/// `CUfunction_attribute`.
pub(super) mod function_attribute {
    use std::ffi::c_int;
    pub(in super::super) const MAX_THREADS: c_int = 0;
    pub(in super::super) const SHARED_BYTES: c_int = 1;
    pub(in super::super) const LOCAL_BYTES: c_int = 3;
    pub(in super::super) const REGISTERS: c_int = 4;
    pub(in super::super) const MAX_DYNAMIC_SHARED_BYTES: c_int = 8;
    pub(in super::super) const NON_PORTABLE_CLUSTER: c_int = 14;
}

/// `CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL`, an `int`.
pub(super) const POINTER_ORDINAL: c_int = 9;

/// `CUjit_option`.
pub(super) mod jit_option {
    use std::ffi::c_int;
    pub(in super::super) const ERROR_LOG: c_int = 5;
    pub(in super::super) const ERROR_LOG_BYTES: c_int = 6;
    pub(in super::super) const OPTIMIZATION_LEVEL: c_int = 7;
    pub(in super::super) const LINE_INFO: c_int = 13;
}

/// `CUresult` values that the runtime distinguishes.
pub(super) mod status {
    use std::ffi::c_int;
    pub(in super::super) const INVALID_VALUE: c_int = 1;
    pub(in super::super) const OUT_OF_MEMORY: c_int = 2;
    pub(in super::super) const INVALID_HANDLE: c_int = 400;
    pub(in super::super) const NOT_FOUND: c_int = 500;
    pub(in super::super) const NOT_READY: c_int = 600;
    /// Faults that make the context unusable: uncorrectable memory errors, illegal and misaligned
    /// addresses, timeouts, failed assertions, hardware stack errors, illegal instructions, wrong
    /// address spaces and program counters, failed launches, tensor memory leaks.
    pub(in super::super) const STICKY: [c_int; 12] =
        [214, 220, 700, 702, 710, 714, 715, 716, 717, 718, 719, 721];
}

/// A driver function that did not return `CUDA_SUCCESS`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Failure {
    /// The driver function.
    pub(super) call: &'static str,
    /// Its `CUresult`.
    pub(super) code: c_int,
}

macro_rules! driver {
    ($($symbol:ident ($($argument:ident: $ty:ty),* $(,)?);)*) => {
        /// The loaded driver.
        #[allow(non_snake_case)]
        pub(super) struct Driver {
            $($symbol: unsafe extern "C" fn($($ty),*) -> c_int,)*
            /// Keeps the functions above alive.
            _library: Library,
        }

        #[allow(non_snake_case)]
        impl Driver {
            fn open() -> Result<Self, String> {
                // SAFETY: libcuda's initializers are those of the installed driver; any program
                // that uses a GPU runs them.
                let library = unsafe { Library::new("libcuda.so.1") }.map_err(|error| error.to_string())?;
                Ok(Self {
                    $($symbol: {
                        // SAFETY: the type is the one cuda.h gives for this symbol.
                        let symbol = unsafe {
                            library.get::<unsafe extern "C" fn($($ty),*) -> c_int>(
                                concat!(stringify!($symbol), "\0").as_bytes(),
                            )
                        };
                        *symbol.map_err(|_| {
                            format!("the driver lacks `{}`; install a driver for CUDA 12 or later", stringify!($symbol))
                        })?
                    },)*
                    _library: library,
                })
            }

            $(
                /// # Safety
                /// As required by the driver's documentation of this function.
                pub(super) unsafe fn $symbol(&self, $($argument: $ty),*) -> Result<(), Failure> {
                    // SAFETY: the caller upholds the driver's requirements.
                    match unsafe { (self.$symbol)($($argument),*) } {
                        0 => Ok(()),
                        code => Err(Failure { call: stringify!($symbol), code }),
                    }
                }
            )*
        }
    };
}

driver! {
    cuInit(flags: c_uint);
    cuDriverGetVersion(version: *mut c_int);
    cuGetErrorName(code: c_int, name: *mut *const c_char);
    cuGetErrorString(code: c_int, text: *mut *const c_char);
    cuDeviceGetCount(count: *mut c_int);
    cuDeviceGet(device: *mut DeviceHandle, ordinal: c_int);
    cuDeviceGetName(name: *mut c_char, length: c_int, device: DeviceHandle);
    cuDeviceGetAttribute(value: *mut c_int, attribute: c_int, device: DeviceHandle);
    cuDeviceGetPCIBusId(id: *mut c_char, length: c_int, device: DeviceHandle);
    cuDeviceCanAccessPeer(access: *mut c_int, device: DeviceHandle, peer: DeviceHandle);
    cuDeviceTotalMem_v2(bytes: *mut usize, device: DeviceHandle);
    cuDevicePrimaryCtxRetain(context: *mut Handle, device: DeviceHandle);
    cuDevicePrimaryCtxRelease_v2(device: DeviceHandle);
    cuDevicePrimaryCtxGetState(device: DeviceHandle, flags: *mut c_uint, is_active: *mut c_int);
    cuCtxSetCurrent(context: Handle);
    cuCtxGetCurrent(context: *mut Handle);
    cuCtxGetDevice(device: *mut DeviceHandle);
    cuCtxSynchronize();
    cuPointerGetAttribute(value: *mut c_void, attribute: c_int, address: Address);
    cuMemAlloc_v2(address: *mut Address, bytes: usize);
    cuMemFree_v2(address: Address);
    cuMemGetAllocationGranularity(granularity: *mut usize, properties: *const MemoryProperties, option: c_uint);
    cuMemCreate(memory: *mut u64, bytes: usize, properties: *const MemoryProperties, flags: u64);
    cuMemRelease(memory: u64);
    cuMemAddressReserve(address: *mut Address, bytes: usize, alignment: usize, at: Address, flags: u64);
    cuMemAddressFree(address: Address, bytes: usize);
    cuMemMap(address: Address, bytes: usize, offset: usize, memory: u64, flags: u64);
    cuMemUnmap(address: Address, bytes: usize);
    cuMemSetAccess(address: Address, bytes: usize, access: *const MemoryAccess, count: usize);
    cuMemHostAlloc(pointer: *mut *mut c_void, bytes: usize, flags: c_uint);
    cuMemFreeHost(pointer: *mut c_void);
    cuMemcpyHtoD_v2(to: Address, from: *const c_void, bytes: usize);
    cuMemcpyDtoH_v2(to: *mut c_void, from: Address, bytes: usize);
    cuMemcpyHtoDAsync_v2(to: Address, from: *const c_void, bytes: usize, stream: Handle);
    cuMemcpyDtoHAsync_v2(to: *mut c_void, from: Address, bytes: usize, stream: Handle);
    cuMemcpyDtoDAsync_v2(to: Address, from: Address, bytes: usize, stream: Handle);
    cuMemsetD8Async(to: Address, byte: u8, bytes: usize, stream: Handle);
    cuStreamCreate(stream: *mut Handle, flags: c_uint);
    cuStreamDestroy_v2(stream: Handle);
    cuStreamGetCtx(stream: Handle, context: *mut Handle);
    cuStreamSynchronize(stream: Handle);
    cuStreamQuery(stream: Handle);
    cuStreamWaitEvent(stream: Handle, event: Handle, flags: c_uint);
    cuStreamIsCapturing(stream: Handle, status: *mut c_int);
    cuThreadExchangeStreamCaptureMode(mode: *mut c_uint);
    cuStreamBeginCapture_v2(stream: Handle, mode: c_uint);
    cuStreamEndCapture(stream: Handle, graph: *mut Handle);
    cuGraphInstantiateWithFlags(executable: *mut Handle, graph: Handle, flags: u64);
    cuGraphUpload(executable: Handle, stream: Handle);
    cuGraphLaunch(executable: Handle, stream: Handle);
    cuGraphExecDestroy(executable: Handle);
    cuGraphDestroy(graph: Handle);
    cuEventCreate(event: *mut Handle, flags: c_uint);
    cuEventDestroy_v2(event: Handle);
    cuEventRecord(event: Handle, stream: Handle);
    cuEventSynchronize(event: Handle);
    cuEventQuery(event: Handle);
    cuEventElapsedTime(milliseconds: *mut f32, start: Handle, end: Handle);
    cuModuleLoadDataEx(
        module: *mut Handle,
        image: *const c_void,
        count: c_uint,
        options: *mut c_int,
        values: *mut *mut c_void
    );
    cuModuleUnload(module: Handle);
    cuModuleGetFunction(function: *mut Handle, module: Handle, name: *const c_char);
    cuModuleGetGlobal_v2(address: *mut Address, bytes: *mut usize, module: Handle, name: *const c_char);
    cuTensorMapEncodeTiled(
        map: *mut c_void,
        element: c_uint,
        rank: c_uint,
        address: *mut c_void,
        extents: *const u64,
        strides: *const u64,
        box_extents: *const c_uint,
        element_strides: *const c_uint,
        interleave: c_uint,
        swizzle: c_uint,
        l2_promotion: c_uint,
        fill: c_uint,
    );
    cuTensorMapEncodeIm2col(
        map: *mut c_void,
        element: c_uint,
        rank: c_uint,
        address: *mut c_void,
        extents: *const u64,
        strides: *const u64,
        lower: *const c_int,
        upper: *const c_int,
        channels: c_uint,
        pixels: c_uint,
        element_strides: *const c_uint,
        interleave: c_uint,
        swizzle: c_uint,
        l2_promotion: c_uint,
        fill: c_uint,
    );
    cuFuncGetAttribute(value: *mut c_int, attribute: c_int, function: Handle);
    cuFuncSetAttribute(function: Handle, attribute: c_int, value: c_int);
    cuOccupancyMaxActiveClusters(clusters: *mut c_int, function: Handle, config: *const LaunchConfig);
    cuLaunchKernelEx(
        config: *const LaunchConfig,
        function: Handle,
        parameters: *mut *mut c_void,
        extra: *mut *mut c_void,
    );
}

impl Driver {
    /// The driver, loaded and initialized once per process, or the reason why it cannot be.
    pub(super) fn get() -> Result<&'static Self, &'static str> {
        static DRIVER: OnceLock<Result<Driver, String>> = OnceLock::new();
        let driver = DRIVER.get_or_init(|| {
            let driver = Self::open()?;
            // SAFETY: cuInit takes a flag word that must be 0.
            unsafe { driver.cuInit(0) }.map_err(|failure| {
                let (name, text) = driver.describe(failure.code);
                format!("the driver does not start: {text} ({name})")
            })?;
            Ok(driver)
        });
        driver.as_ref().map_err(String::as_str)
    }

    /// The driver's name and text for a status.
    pub(super) fn describe(&self, code: c_int) -> (String, String) {
        let text = |outcome: Result<(), Failure>, pointer: *const c_char| match outcome {
            // SAFETY: on success the driver set the pointer to a string that lives as long as the
            // library.
            Ok(()) if !pointer.is_null() => unsafe { CStr::from_ptr(pointer) }.to_string_lossy().into_owned(),
            _ => format!("status {code}"),
        };
        let (mut name, mut description) = (std::ptr::null(), std::ptr::null());
        // SAFETY: the out-pointers are valid for the call.
        let named = unsafe { self.cuGetErrorName(code, &mut name) };
        // SAFETY: as above.
        let described = unsafe { self.cuGetErrorString(code, &mut description) };
        (text(named, name), text(described, description))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn structures_have_the_sizes_of_cuda_h() {
        assert_eq!(size_of::<LaunchAttribute>(), 72);
        assert_eq!(std::mem::offset_of!(LaunchAttribute, value), 8);
        assert_eq!(size_of::<LaunchConfig>(), 56);
        assert_eq!(std::mem::offset_of!(LaunchConfig, stream), 32);
        assert_eq!((size_of::<MemoryProperties>(), size_of::<MemoryAccess>()), (32, 12));
    }
}
