//! What can go wrong between the host and a device.

use std::sync::Arc;

use warpwright_arch::UnknownArch;
use warpwright_arch::tensor_map::TensorMapError;
use warpwright_check::{Finding, SourceFiles, render};
use warpwright_emulator::{Fault, LoadError};
use warpwright_ir::VerifyError;
use warpwright_ptx::ParseError;

/// The result of the runtime's operations.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// What went wrong. Every message is a sentence that says what, where and what to do.
#[derive(Clone, Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// No device goes by that name.
    #[error("no device is called `{name}`; use `auto`, `cuda:N` or `emu:GPU` with GPU one of {known}")]
    UnknownDevice {
        /// What was asked for.
        name: String,
        /// The GPUs that can be emulated.
        known: String,
    },
    /// No GPU of that name can be emulated.
    #[error(transparent)]
    UnknownArch(#[from] UnknownArch),
    /// A GPU was asked for and there is no driver.
    #[error("there is no GPU to use: {reason}; install the NVIDIA driver, or use `emu:h200`")]
    NoDriver {
        /// Why the driver does not open.
        reason: String,
    },
    /// The driver knows fewer GPUs.
    #[error("there is no `cuda:{ordinal}`: the driver knows {count} GPUs, counted from 0")]
    NoSuchGpu {
        /// What was asked for.
        ordinal: u32,
        /// How many there are.
        count: u32,
    },
    /// A GPU from before the first architecture there is support for.
    #[error("{product} has compute capability {}.{}; 8.0 is the first that is supported", .capability.0, .capability.1)]
    TooOld {
        /// The GPU.
        product: String,
        /// Its compute capability.
        capability: (u32, u32),
    },
    /// A product by cuBLAS was asked for and cannot be had.
    #[error("cuBLAS cannot be used: {reason}; `WARPWRIGHT_CUBLAS` may name its libcublasLt.so")]
    NoCublas {
        /// Why.
        reason: String,
    },
    /// A structure cannot hold a field where it should be.
    #[error("{field} does not fit at byte {offset} of a structure of {structure_bytes} bytes: {reason}")]
    StructureField {
        /// What was to be put there.
        field: String,
        /// Where.
        offset: usize,
        /// The structure's size.
        structure_bytes: usize,
        /// What is in its way.
        reason: String,
    },
    /// The emulator could not start.
    #[error("the emulator does not start: {reason}")]
    EmulatorStart {
        /// Why.
        reason: String,
    },
    /// A call of the driver failed, and the device stays usable.
    #[error("the driver's {call} failed: {description} ({name})")]
    Driver {
        /// The driver's function.
        call: &'static str,
        /// The status's name: `CUDA_ERROR_INVALID_VALUE`.
        name: String,
        /// The driver's own text for it.
        description: String,
    },
    /// A kernel's fault ended the GPU's context; nothing can be done with this device in this
    /// process any more.
    #[error(
        "the GPU's context was lost: {description} ({name}), found by {call}{}; its buffers can no longer be read. Start the \
         process again, and run the kernel on the emulator (`emu:h200`) to see which instruction did it",
        suspects(.kernels)
    )]
    DeviceLost {
        /// The driver's function that reported it.
        call: &'static str,
        /// The status's name: `CUDA_ERROR_ILLEGAL_ADDRESS`.
        name: String,
        /// The driver's own text for it.
        description: String,
        /// Kernels launched since the device was last known to be well.
        kernels: Vec<String>,
    },
    /// There is not enough device memory.
    #[error("{bytes} bytes do not fit into the memory of {device}; free buffers or use a smaller problem")]
    OutOfMemory {
        /// Bytes asked for.
        bytes: u64,
        /// The device.
        device: String,
    },
    /// The text is not PTX.
    #[error("this is not PTX: {0}")]
    Parse(#[from] ParseError),
    /// A kernel has mistakes, or needs what the device lacks.
    #[error("kernel `{kernel}` cannot be compiled:\n{}", lines(.mistakes))]
    Verify {
        /// The kernel.
        kernel: String,
        /// All of them, in the order of the source.
        mistakes: Vec<VerifyError>,
    },
    /// The emulator cannot run the module.
    #[error(transparent)]
    Load(#[from] LoadError),
    /// The driver's assembler refuses the module.
    #[error("the driver cannot assemble this PTX for {target}:\n{log}")]
    Assemble {
        /// The architecture assembled for.
        target: String,
        /// The assembler's log, with the lines of PTX, and of the source where the PTX tells, that
        /// it speaks of.
        log: String,
    },
    /// The module has no kernel of that name.
    #[error("the module has no kernel `{name}`; it has {}", list(.known))]
    NoSuchKernel {
        /// What was asked for.
        name: String,
        /// The kernels it has.
        known: Vec<String>,
    },
    /// The module has no variable of that name.
    #[error("the module has no global variable `{name}`")]
    NoSuchVariable {
        /// What was asked for.
        name: String,
    },
    /// Too many arguments, or too few.
    #[error("kernel `{kernel}` takes {expected} arguments and was given {given}: {parameters}")]
    ArgumentCount {
        /// The kernel.
        kernel: String,
        /// How many it takes.
        expected: usize,
        /// How many it was given.
        given: usize,
        /// What it takes, as a list.
        parameters: String,
    },
    /// An argument that does not fit its parameter.
    #[error(
        "argument {position} of kernel `{kernel}` does not fit: parameter {parameter}, and {given} was given"
    )]
    ArgumentType {
        /// The kernel.
        kernel: String,
        /// The argument, counted from 0.
        position: usize,
        /// What the parameter is, in words.
        parameter: String,
        /// What was given, in words.
        given: String,
    },
    /// A launch that the device or the kernel does not allow.
    #[error("kernel `{kernel}` cannot be launched so: {reason}")]
    BadLaunch {
        /// The kernel.
        kernel: String,
        /// What is not allowed and what would be.
        reason: String,
    },
    /// The emulator stopped the kernel. The device stays usable; the buffers the kernel could write
    /// do not, until overwritten.
    #[error("{fault}")]
    Fault {
        /// What stopped it.
        fault: Arc<Fault>,
        /// What the checkers had found before, on a device that checks.
        findings: Arc<[Finding]>,
    },
    /// The emulator's checkers found something wrong with a kernel, which ran to its end all the
    /// same.
    #[error("{}", told(.findings))]
    Findings {
        /// What they found.
        findings: Arc<[Finding]>,
    },
    /// A device that cannot check kernels.
    #[error("{device} runs kernels and does not check them; use an emulated device, `emu:h200` say")]
    NotChecked {
        /// The device.
        device: String,
    },
    /// A device that cannot count what kernels do.
    #[error("{device} runs kernels and does not count what they do; use an emulated device, `emu:h200` say")]
    NotCounted {
        /// The device.
        device: String,
    },
    /// A buffer that a failed launch may have left half-written.
    #[error(
        "this buffer may be half-written: kernel `{kernel}`, which could write it, failed. Overwrite it (`copy_from`, \
         `fill_zero`) before using it again"
    )]
    HalfWritten {
        /// The kernel that failed.
        kernel: String,
    },
    /// Two lengths that must be equal.
    #[error("{what} has {given} elements where {expected} are needed")]
    Length {
        /// What has the wrong length.
        what: &'static str,
        /// The length it must have.
        expected: usize,
        /// The length it has.
        given: usize,
    },
    /// A range outside its buffer.
    #[error("elements {start}..{end} are not inside a buffer of {length}")]
    Range {
        /// First element.
        start: usize,
        /// One past the last element.
        end: usize,
        /// Elements of the buffer.
        length: usize,
    },
    /// A tensor map that breaks a rule.
    #[error("no such tensor map: {0}")]
    TensorMap(#[from] TensorMapError),
    /// A layout that no tensor map can be made from.
    #[error(transparent)]
    Layout(#[from] warpwright_layout::Error),
    /// A tensor map whose tensor is not inside its buffer.
    #[error("the tensor ends {bytes} bytes after the start of its buffer, which has {buffer_bytes}")]
    TensorOutside {
        /// Where the tensor ends.
        bytes: u64,
        /// The buffer's size.
        buffer_bytes: u64,
    },
    /// An element type that tensor maps do not have.
    #[error("a tensor map cannot hold elements of {element}; view the buffer as integers of the same width")]
    NoTensorElement {
        /// The elements' type.
        element: &'static str,
    },
    /// Things of two devices that were used together.
    #[error("{what} belongs to {of}, and cannot be used on {on}")]
    WrongDevice {
        /// What was used.
        what: &'static str,
        /// Its device.
        of: String,
        /// The device it was used on.
        on: String,
    },
    /// An elapsed time was asked of events that have not both been recorded and reached.
    #[error(
        "both events must have been recorded and reached before the time between them can be told; synchronize first"
    )]
    EventNotReached,
}

/// Findings as a compiler would tell them.
fn told(findings: &[Finding]) -> String {
    let mut files = SourceFiles::here();
    let told: Vec<String> = findings.iter().map(|finding| render(finding, &mut files, false)).collect();
    told.join("\n\n")
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
