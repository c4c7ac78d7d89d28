//! Errors of the runtime.

use std::fmt;
use std::sync::Arc;

use warpwright_arch::UnknownArch;
use warpwright_arch::tensor_map::{Difference, TensorMapError};
use warpwright_check::{Finding, SourceFiles, ordered, render_causes};
use warpwright_emulator::{Fault, LoadError};
use warpwright_ir::{Location, VerifyError};
use warpwright_ptx::ParseError;

/// The result of a runtime operation.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// A tensor map that is not what the copies of a kernel need.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TensorMapMismatch {
    /// The kernel.
    pub kernel: String,
    /// The parameter.
    pub parameter: String,
    /// The index of the map, if the parameter takes several.
    pub index: Option<usize>,
    /// The property in which they differ, and both values.
    pub difference: Difference,
    /// The author's position of the copy, or of the statement, that needs it.
    pub location: Location,
    /// What to do.
    pub help: String,
}

impl fmt::Display for TensorMapMismatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kernel, parameter, difference: Difference { property, required, given }, help, .. } = self;
        let Location { file, line, column } = self.location;
        let index = self.index.map(|index| format!("{index} of ")).unwrap_or_default();
        write!(
            f,
            "kernel `{kernel}` cannot be launched: the {property} of tensor map {index}`{parameter}` is {given}, \
             and the kernel needs {required} ({file}:{line}:{column}); {help}"
        )
    }
}

/// An error of the runtime. Every message says what went wrong, where, and what to do.
///
/// `Debug` writes the same message as `Display`, because a `main` that returns the error prints
/// `Debug`.
#[derive(Clone, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The device name is unknown.
    #[error("unknown device `{name}`; use `auto`, `cuda:N` or `emu:GPU`, where GPU is one of {known}")]
    UnknownDevice {
        /// The requested name.
        name: String,
        /// The GPUs that can be emulated.
        known: String,
    },
    /// No emulated GPU has that name.
    #[error(transparent)]
    UnknownArch(#[from] UnknownArch),
    /// A GPU was requested and no driver is installed.
    #[error("no GPU is available: {reason}; install the NVIDIA driver, or use `emu:h200`")]
    NoDriver {
        /// Why the driver cannot be loaded.
        reason: String,
    },
    /// The GPU ordinal is too large.
    #[error("`cuda:{ordinal}` does not exist: the driver reports {count} GPUs, numbered from 0")]
    NoSuchGpu {
        /// The requested ordinal.
        ordinal: u32,
        /// The number of GPUs.
        count: u32,
    },
    /// Devices that cannot access each other's memory.
    #[error(
        "the devices {devices} cannot access each other's memory; use GPUs of one host that NVLink or PCIe connects \
         (`nvidia-smi topo -p2p r`), or emulated ones of `Device::peers`"
    )]
    NoPeerAccess {
        /// The devices.
        devices: String,
    },
    /// A GPU older than the first supported architecture.
    #[error("{product} has compute capability {}.{}; use a GPU of compute capability 8.0 or later, or \
     `emu:h200`", .capability.0, .capability.1)]
    TooOld {
        /// The GPU.
        product: String,
        /// Its compute capability.
        capability: (u32, u32),
    },
    /// cuBLAS is not available.
    #[error("cuBLAS is not available: {reason}; set `WARPWRIGHT_CUBLAS` to the path of libcublasLt.so")]
    NoCublas {
        /// Why.
        reason: String,
    },
    /// NCCL is not available.
    #[error(
        "NCCL is not available: {reason}; use GPUs, and set `WARPWRIGHT_NCCL` to the path of libnccl.so.2"
    )]
    NoNccl {
        /// Why.
        reason: String,
    },
    /// A field does not fit its structure.
    #[error("{field} does not fit at offset {offset} of a structure of {structure_bytes} bytes: {reason}")]
    StructureField {
        /// The field.
        field: String,
        /// Its offset in bytes.
        offset: usize,
        /// The size of the structure.
        structure_bytes: usize,
        /// Why it does not fit.
        reason: String,
    },
    /// The emulator could not start.
    #[error("the emulator does not start: {reason}")]
    EmulatorStart {
        /// Why.
        reason: String,
    },
    /// A driver call failed, and the device stays usable.
    #[error("the driver call {call} failed: {description} ({name})")]
    Driver {
        /// The driver's function.
        call: &'static str,
        /// The status's name: `CUDA_ERROR_INVALID_VALUE`.
        name: String,
        /// The driver's description of the status.
        description: String,
    },
    /// A kernel's fault made the GPU's context unusable for the rest of the process.
    #[error(
        "the GPU context was lost: {description} ({name}), reported by {call}{}; its buffers can no \
         longer be read. Restart the process, and run the kernel on the emulator (`emu:h200`) to find the \
         instruction",
        suspects(.kernels)
    )]
    DeviceLost {
        /// The driver's function that reported it.
        call: &'static str,
        /// The status's name: `CUDA_ERROR_ILLEGAL_ADDRESS`.
        name: String,
        /// The driver's description of the status.
        description: String,
        /// Kernels launched since the last successful synchronization.
        kernels: Vec<String>,
    },
    /// The device has not enough memory.
    #[error(
        "{} do not fit into the memory of {device}; free buffers or use a smaller problem",
        shown_bytes(*.bytes)
    )]
    OutOfMemory {
        /// Bytes requested.
        bytes: u64,
        /// The device.
        device: String,
    },
    /// The host has not enough memory for the inputs, or for the memory of an emulated device.
    #[error(
        "{device} needs {} of this machine's memory, of which {} is available; use a smaller problem, or \
         free memory",
        shown_bytes(*.bytes),
        shown_bytes(*.available)
    )]
    OutOfHostMemory {
        /// Bytes requested.
        bytes: u64,
        /// Bytes that the host can still give.
        available: u64,
        /// The device.
        device: String,
    },
    /// The text is not valid PTX.
    #[error("invalid PTX: {0}")]
    Parse(ParseError),
    /// A kernel has mistakes, or needs a feature that the device lacks.
    #[error("kernel `{kernel}` cannot be compiled:\n{}", lines(.mistakes))]
    Verify {
        /// The kernel.
        kernel: String,
        /// All mistakes, in source order.
        mistakes: Vec<VerifyError>,
    },
    /// The emulator cannot run the module.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The driver's assembler rejects the module.
    #[error("the driver cannot assemble this PTX for {target}:\n{log}")]
    Assemble {
        /// The target architecture.
        target: String,
        /// The assembler's log, with the PTX lines and source locations that it names.
        log: String,
    },
    /// The environment asks for a level of optimization that the driver's assembler does not have.
    #[error("`WARPWRIGHT_JIT_OPTIMIZATION` is `{value}`; set it to a level from 0 (none) to 4, or unset it")]
    OptimizationLevel {
        /// The value of the variable.
        value: String,
    },
    /// The module has no kernel of that name.
    #[error("the module has no kernel `{name}`; its kernels are {}", list(.known))]
    NoSuchKernel {
        /// The requested name.
        name: String,
        /// The kernels of the module.
        known: Vec<String>,
    },
    /// The module has no variable of that name.
    #[error("the module has no variable `{name}`; its variables are {}", list(.known))]
    NoSuchVariable {
        /// The requested name.
        name: String,
        /// The variables of the module.
        known: Vec<String>,
    },
    /// A variable is not made of whole elements.
    #[error(
        "the variable `{name}` has {bytes} bytes, which are not a multiple of the {element_bytes} bytes of {element}"
    )]
    VariableElement {
        /// The variable.
        name: String,
        /// Its size.
        bytes: usize,
        /// The requested element type.
        element: &'static str,
        /// The size of an element.
        element_bytes: usize,
    },
    /// The number of arguments is wrong.
    #[error("kernel `{kernel}` takes {expected} arguments, and the launch passes {given}: {parameters}")]
    ArgumentCount {
        /// The kernel.
        kernel: String,
        /// The number of parameters.
        expected: usize,
        /// The number of arguments.
        given: usize,
        /// The parameters, as a list.
        parameters: String,
    },
    /// An argument does not fit its parameter.
    #[error(
        "argument {position} of kernel `{kernel}` does not fit: parameter {parameter}, and the launch \
         passes {given}"
    )]
    ArgumentType {
        /// The kernel.
        kernel: String,
        /// The index of the argument, from 0.
        position: usize,
        /// The parameter, in words.
        parameter: String,
        /// The argument, in words.
        given: String,
    },
    /// A tensor map is not what the kernel's copies need.
    #[error("{0}")]
    TensorMapMismatch(Box<TensorMapMismatch>),
    /// A kernel has no tensor map of that name whose boxes it states.
    #[error("kernel `{kernel}` states no boxes of a tensor map `{name}`; it states those of {}", list(.known))]
    NoTensorMapParameter {
        /// The kernel.
        kernel: String,
        /// The requested parameter.
        name: String,
        /// The tensor maps whose boxes the kernel states.
        known: Vec<String>,
    },
    /// A buffer does not make the tensor map that a kernel's parameter needs.
    #[error("tensor map `{parameter}` of kernel `{kernel}`: {reason}")]
    TensorMapOf {
        /// The kernel.
        kernel: String,
        /// The parameter.
        parameter: String,
        /// Why, and what to do.
        reason: String,
    },
    /// A tile of one type, and a buffer of another.
    #[error(
        "the tile has elements of type {tile}, and the buffer of type {buffer}; take a tile of {buffer}, or cast the buffer"
    )]
    TileElement {
        /// The element type of the tile.
        tile: &'static str,
        /// The element type of the buffer.
        buffer: &'static str,
    },
    /// The device or the kernel does not allow the launch.
    #[error("kernel `{kernel}` cannot be launched: {reason}")]
    BadLaunch {
        /// The kernel.
        kernel: String,
        /// Which rule is broken, and what is allowed.
        reason: String,
    },
    /// The emulator stopped the kernel. The device stays usable. The buffers that the kernel could
    /// write are unusable until they are overwritten.
    #[error("{}", rendered(&ordered(.findings, Some(.fault))))]
    Fault {
        /// The fault.
        fault: Arc<Fault>,
        /// Findings of the checkers before the fault.
        findings: Arc<[Finding]>,
    },
    /// The emulator's checkers reported findings in a kernel that ran to its end, or in what the host does
    /// between launches.
    #[error("{}", rendered(.findings))]
    Findings {
        /// The findings.
        findings: Arc<[Finding]>,
    },
    /// The device cannot check kernels.
    #[error("{device} cannot check kernels; use an emulated device, such as `emu:h200`")]
    NotChecked {
        /// The device.
        device: String,
    },
    /// The device does not predict times.
    #[error(
        "{device} predicts no times; use an emulated device, such as `emu:h200`, or measure with `bench`"
    )]
    NotTimed {
        /// The device.
        device: String,
    },
    /// The device cannot count what kernels execute.
    #[error("{device} cannot count what kernels execute; use an emulated device, such as `emu:h200`")]
    NotCounted {
        /// The device.
        device: String,
    },
    /// The device prints to standard output only.
    #[error(
        "kernels on {device} print to the standard output of the process, by the driver; redirect the process's \
         output, or use an emulated device, such as `emu:h200`"
    )]
    PrintsToStandardOutput {
        /// The device.
        device: String,
    },
    /// The device cannot stop a launch at a limit.
    #[error("{device} cannot stop a launch at a limit; use an emulated device, such as `emu:h200`")]
    NotLimited {
        /// The device.
        device: String,
    },
    /// A buffer that a failed launch may have left half-written.
    #[error(
        "this buffer may be half-written: kernel `{kernel}` could write it and failed. Overwrite the \
         buffer (`copy_from`, `fill_zero`) before you use it"
    )]
    HalfWritten {
        /// The kernel that failed.
        kernel: String,
    },
    /// Two lengths differ.
    #[error("{what} has {given} elements; {expected} are required")]
    Length {
        /// What has the wrong length.
        what: &'static str,
        /// The required length.
        expected: usize,
        /// The actual length.
        given: usize,
    },
    /// A range is not inside its buffer.
    #[error("elements {start}..{end} are not inside a buffer of {length} elements")]
    Range {
        /// First element.
        start: usize,
        /// One past the last element.
        end: usize,
        /// Length of the buffer.
        length: usize,
    },
    /// A tensor map breaks a rule.
    #[error("invalid tensor map: {0}")]
    TensorMap(TensorMapError),
    /// A layout has no tensor map.
    #[error(transparent)]
    Layout(#[from] warpwright_layout::Error),
    /// The tensor of a tensor map extends past its buffer.
    #[error("the tensor ends {bytes} bytes after the start of its buffer, which has {buffer_bytes} bytes")]
    TensorOutside {
        /// End of the tensor, in bytes from the start of the buffer.
        bytes: u64,
        /// Size of the buffer, in bytes.
        buffer_bytes: u64,
    },
    /// Memory of another owner that is no memory of the device.
    #[error("the memory at {address:#x} cannot be a buffer of {device}: {reason}")]
    ForeignMemory {
        /// Where it begins.
        address: u64,
        /// The device.
        device: String,
        /// Why, and what to do.
        reason: String,
    },
    /// No context of a GPU is current on the thread, or one that cannot be shared.
    #[error("the current context of this thread cannot be used: {reason}")]
    CurrentContext {
        /// Why, and what to do.
        reason: String,
    },
    /// Tensor maps do not support the element type.
    #[error(
        "tensor maps do not support elements of type {element}; view the buffer as integers of the \
     same width"
    )]
    NoTensorElement {
        /// The element type.
        element: &'static str,
    },
    /// Objects of two devices were used together.
    #[error("{what} belongs to {of} and cannot be used on {on}")]
    WrongDevice {
        /// What was used.
        what: &'static str,
        /// Its device.
        of: String,
        /// The device it was used on.
        on: String,
    },
    /// A call that cannot be recorded in a graph, inside [`Stream::capture`](crate::Stream::capture).
    #[error(
        "`{call}` is called inside `Stream::capture`, which records the work of the stream and runs \
         none of it; call it before or after the capture"
    )]
    InCapture {
        /// The function.
        call: &'static str,
    },
    /// The elapsed time of two events needs both to be recorded and reached.
    #[error("the elapsed time needs two events that are recorded and reached; synchronize first")]
    EventNotReached,
}

/// A number of bytes with the unit that suits it: `13.1 GB`.
fn shown_bytes(bytes: u64) -> String {
    const UNITS: [&str; 6] = ["KB", "MB", "GB", "TB", "PB", "EB"];
    if bytes < 1000 {
        return format!("{bytes} bytes");
    }
    let power = (bytes.ilog10() / 3) as usize;
    format!("{:.1} {}", bytes as f64 / 1000f64.powi(power as i32), UNITS[power - 1])
}

impl Error {
    /// A launch of `kernel` that a rule forbids.
    pub(crate) fn bad_launch(kernel: &str, reason: impl std::fmt::Display) -> Self {
        Self::BadLaunch { kernel: kernel.to_owned(), reason: reason.to_string() }
    }

    /// What the checkers found and what stopped the kernel: causes first, each before those that may
    /// follow from it ([`Finding::cause`]). Empty for other errors.
    pub fn findings(&self) -> Vec<Finding> {
        match self {
            Error::Findings { findings } => findings.to_vec(),
            Error::Fault { fault, findings } => ordered(findings, Some(fault)),
            _ => Vec::new(),
        }
    }
}

impl std::fmt::Debug for Error {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        std::fmt::Display::fmt(self, f)
    }
}

/// Renders findings like compiler diagnostics, one for each cause.
fn rendered(findings: &[Finding]) -> String {
    let mut files = SourceFiles::here();
    let texts: Vec<String> =
        render_causes(findings, &mut files, false).into_iter().map(|(_, text)| text).collect();
    texts.join("\n\n")
}

fn list(names: &[String]) -> String {
    if names.is_empty() {
        return "none".to_owned();
    }
    names.iter().map(|name| format!("`{name}`")).collect::<Vec<_>>().join(", ")
}

fn lines(mistakes: &[VerifyError]) -> String {
    mistakes.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n")
}

fn suspects(kernels: &[String]) -> String {
    match kernels {
        [] => String::new(),
        kernels => format!(", after the launch of {}", list(kernels)),
    }
}

// Their sentences are part of the error's own, so they are not its sources: a report of the chain
// has each once.
impl From<ParseError> for Error {
    fn from(error: ParseError) -> Self {
        Self::Parse(error)
    }
}

impl From<TensorMapError> for Error {
    fn from(error: TensorMapError) -> Self {
        Self::TensorMap(error)
    }
}
