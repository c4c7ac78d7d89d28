//! The status codes of the driver API, which the runtime API shares.

/// What a call returns, `CUresult` and `cudaError_t`: the codes of the two are the same where both have one.
#[repr(transparent)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Status(pub u32);

/// The outcome of a call.
pub(crate) type Result<T, E = Status> = std::result::Result<T, E>;

/// One code.
#[derive(Debug)]
pub struct Row {
    /// The number.
    pub status: Status,
    /// The name in the driver API: `CUDA_ERROR_INVALID_VALUE`.
    pub driver: &'static str,
    /// The name in the runtime API: `cudaErrorInvalidValue`.
    pub runtime: &'static str,
    /// What it says.
    pub text: &'static str,
}

macro_rules! codes {
    ($($name:ident $number:literal $runtime:literal $text:literal)*) => {
        #[allow(missing_docs)]
        impl Status { $(pub const $name: Self = Self($number);)* }

        /// Every code that a call of ours returns.
        pub static CODES: &[Row] = &[$(Row {
            status: Status($number),
            driver: concat!("CUDA_ERROR_", stringify!($name)),
            runtime: concat!("cudaError", $runtime),
            text: $text,
        }),*];
    };
}

codes! {
    INVALID_VALUE 1 "InvalidValue" "invalid argument"
    OUT_OF_MEMORY 2 "MemoryAllocation" "out of memory"
    NOT_INITIALIZED 3 "InitializationError" "initialization error"
    DEINITIALIZED 4 "CudartUnloading" "driver shutting down"
    INVALID_CONFIGURATION 9 "InvalidConfiguration" "invalid configuration argument"
    INVALID_PITCH 12 "InvalidPitchValue" "invalid pitch argument"
    INVALID_SYMBOL 13 "InvalidSymbol" "invalid device symbol"
    INVALID_DEVICE_POINTER 17 "InvalidDevicePointer" "invalid device pointer"
    INVALID_MEMCPY_DIRECTION 21 "InvalidMemcpyDirection" "invalid copy direction for memcpy"
    MISSING_CONFIGURATION 52 "MissingConfiguration" "kernel launch without a configuration"
    INVALID_DEVICE_FUNCTION 98 "InvalidDeviceFunction" "invalid device function"
    NO_DEVICE 100 "NoDevice" "no CUDA-capable device is detected"
    INVALID_DEVICE 101 "InvalidDevice" "invalid device ordinal"
    INVALID_IMAGE 200 "InvalidKernelImage" "device kernel image is invalid"
    INVALID_CONTEXT 201 "DeviceUninitialized" "invalid device context"
    ALREADY_MAPPED 208 "AlreadyMapped" "resource already mapped"
    NO_BINARY_FOR_GPU 209 "NoKernelImageForDevice" "no kernel image is available for execution on the device"
    NOT_MAPPED 211 "NotMapped" "resource not mapped"
    UNSUPPORTED_LIMIT 215 "UnsupportedLimit" "limit is not supported on this architecture"
    PEER_ACCESS_UNSUPPORTED 217 "PeerAccessUnsupported" "peer access is not supported between these two devices"
    INVALID_PTX 218 "InvalidPtx" "a PTX JIT compilation failed"
    UNSUPPORTED_PTX_VERSION 222 "UnsupportedPtxVersion" "the provided PTX was compiled with an unsupported toolchain"
    INVALID_SOURCE 300 "InvalidSource" "device kernel image is invalid"
    FILE_NOT_FOUND 301 "FileNotFound" "file not found"
    OPERATING_SYSTEM 304 "OperatingSystem" "OS call failed or operation not supported on this OS"
    INVALID_HANDLE 400 "InvalidResourceHandle" "invalid resource handle"
    ILLEGAL_STATE 401 "IllegalState" "the operation cannot be performed in the present state"
    NOT_FOUND 500 "SymbolNotFound" "named symbol not found"
    NOT_READY 600 "NotReady" "device not ready"
    ILLEGAL_ADDRESS 700 "IllegalAddress" "an illegal memory access was encountered"
    LAUNCH_OUT_OF_RESOURCES 701 "LaunchOutOfResources" "too many resources requested for launch"
    LAUNCH_TIMEOUT 702 "LaunchTimeout" "the launch timed out and was terminated"
    PEER_ACCESS_ALREADY_ENABLED 704 "PeerAccessAlreadyEnabled" "peer access is already enabled"
    PEER_ACCESS_NOT_ENABLED 705 "PeerAccessNotEnabled" "peer access has not been enabled"
    PRIMARY_CONTEXT_ACTIVE 708 "SetOnActiveProcess" "cannot set while device is active in this process"
    CONTEXT_IS_DESTROYED 709 "ContextIsDestroyed" "context is destroyed"
    ASSERT 710 "Assert" "device-side assert triggered"
    HOST_MEMORY_ALREADY_REGISTERED 712 "HostMemoryAlreadyRegistered" "part or all of the requested memory range is already mapped"
    HOST_MEMORY_NOT_REGISTERED 713 "HostMemoryNotRegistered" "pointer does not correspond to a registered memory region"
    HARDWARE_STACK_ERROR 714 "HardwareStackError" "hardware stack error"
    ILLEGAL_INSTRUCTION 715 "IllegalInstruction" "an illegal instruction was encountered"
    MISALIGNED_ADDRESS 716 "MisalignedAddress" "misaligned address"
    LAUNCH_FAILED 719 "LaunchFailure" "unspecified launch failure"
    COOPERATIVE_LAUNCH_TOO_LARGE 720 "CooperativeLaunchTooLarge" "too many blocks in cooperative launch"
    NOT_PERMITTED 800 "NotPermitted" "operation not permitted"
    NOT_SUPPORTED 801 "NotSupported" "operation not supported"
    STREAM_CAPTURE_UNSUPPORTED 900 "StreamCaptureUnsupported" "operation not permitted when stream is capturing"
    STREAM_CAPTURE_INVALIDATED 901 "StreamCaptureInvalidated" "operation failed due to a previous error during capture"
    STREAM_CAPTURE_UNMATCHED 903 "StreamCaptureUnmatched" "capture was not ended in the same stream as it began"
    STREAM_CAPTURE_UNJOINED 904 "StreamCaptureUnjoined" "capturing stream has unjoined work"
    STREAM_CAPTURE_ISOLATION 905 "StreamCaptureIsolation" "dependency created on uncaptured work in another stream"
    STREAM_CAPTURE_IMPLICIT 906 "StreamCaptureImplicit" "operation would make the legacy stream depend on a capturing blocking stream"
    CAPTURED_EVENT 907 "CapturedEvent" "operation not permitted on an event last recorded in a capturing stream"
    INVALID_CLUSTER_SIZE 912 "InvalidClusterSize" "cluster misconfiguration"
    UNKNOWN 999 "Unknown" "unknown error"
}

impl Status {
    /// No error.
    pub const SUCCESS: Self = Self(0);

    /// The outcome that it is.
    pub(crate) fn ok(self) -> Result<()> {
        if self == Self::SUCCESS { Ok(()) } else { Err(self) }
    }

    /// Its row, if a call of ours returns it.
    pub(crate) fn row(self) -> Option<&'static Row> {
        CODES.iter().find(|row| row.status == self)
    }
}
