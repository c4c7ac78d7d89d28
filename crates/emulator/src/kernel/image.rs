//! A decoded kernel without its operations.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use warpwright_events::{Code, RegisterUse, Source};
use warpwright_ptx::syntax::{MemoryObject, SourceLocation};

use crate::kernel::special::SpecialRegister;
use crate::load_error::LoadError;
use crate::registers::{FrameBase, Slot};

/// The predicates, each as it is or negated, that may decide the result of an operation: that of a selection
/// or of a comparison, or the two of a logic operation.
pub(crate) type DecidingPredicates = [(Slot, bool); 2];

/// A kernel, decoded with every function it may call.
#[derive(Debug)]
pub struct Kernel {
    pub(crate) name: String,
    /// The instruction of each operation.
    pub(crate) code: Arc<Code>,
    /// The kernel's functions, itself first.
    pub(crate) functions: Vec<CodeFunction>,
    /// From the index of a function in the module to its index here.
    pub(crate) by_address: BTreeMap<u32, u32>,
    pub(crate) files: Arc<BTreeMap<u32, String>>,
    pub(crate) parameters: Vec<KernelParameter>,
    /// The variables in shared memory that it uses.
    pub(crate) shared: Vec<SharedVariable>,
    /// The description of memory in its text.
    pub(crate) objects: Vec<MemoryObject>,
    pub(crate) static_shared_bytes: u32,
    /// The start of dynamic shared memory.
    pub(crate) dynamic_shared_offset: u32,
    pub(crate) bounds: LaunchBounds,
    /// By operation: further uses of registers that some `wgmma` of its function uses. Empty
    /// without `wgmma`.
    pub(crate) register_uses: Vec<Box<[RegisterUse]>>,
    /// Operations whose result predicates may decide.
    pub(crate) predicates: HashMap<u32, DecidingPredicates>,
    pub(crate) unsupported: Vec<LoadError>,
}

/// A variable in shared memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SharedVariable {
    pub(crate) name: String,
    /// Its offset in the memory of a CTA.
    pub(crate) offset: u32,
    /// Its size; `None` if it is the dynamic memory.
    pub(crate) bytes: Option<u64>,
    /// The line of the PTX text that declares it, and its text.
    pub(crate) line: u32,
    pub(crate) text: String,
}

/// A kernel's formal parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KernelParameter {
    /// Its name.
    pub name: String,
    /// Its offset in the parameter bytes.
    pub offset: u32,
    /// Its size in bytes.
    pub size: u32,
}

/// Launch constraints in the directives of a kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaunchBounds {
    /// `.reqntid`
    pub required_block: Option<[u32; 3]>,
    /// `.maxntid`, as a number of threads.
    pub most_threads: Option<u32>,
    /// `.reqnctapercluster`
    pub required_cluster: Option<[u32; 3]>,
    /// `.maxclusterrank`: the most CTAs a cluster may have.
    pub most_cluster_ctas: Option<u32>,
    /// `.minnctapersm`
    pub least_ctas_per_sm: Option<u32>,
    /// `.maxnreg`
    pub most_registers: Option<u32>,
    /// The largest operand of the kernel's `setmaxnreg` instructions.
    pub most_requested_registers: Option<u32>,
}

impl Kernel {
    /// Its name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// Whether it reads the address of the shared memory that the hardware reserves for the system.
    pub(crate) fn knows_reserved_shared(&self) -> bool {
        self.functions.iter().flat_map(|function| &function.preloads).any(|preload| {
            matches!(preload.value, PreloadValue::Special(register) if register.is_of_reserved_shared())
        })
    }

    /// Its parameters, in order.
    pub fn parameters(&self) -> &[KernelParameter] {
        &self.parameters
    }

    /// The size of a launch's parameters in bytes.
    pub fn parameter_bytes(&self) -> u32 {
        self.parameters.last().map_or(0, |last| last.offset + last.size)
    }

    /// Shared memory that its `.shared` variables take.
    pub fn static_shared_bytes(&self) -> u32 {
        self.static_shared_bytes
    }

    /// The launch constraints of its directives.
    pub fn bounds(&self) -> &LaunchBounds {
        &self.bounds
    }

    /// How many operations it was decoded to, device functions included.
    pub fn operations(&self) -> usize {
        self.code.of_operation.len()
    }

    /// The instructions that the emulator does not support, in it and the functions that it may
    /// call. Executing one is a fault.
    pub fn unsupported(&self) -> &[LoadError] {
        &self.unsupported
    }

    /// Shared memory of a CTA, with dynamic memory of this size.
    pub(crate) fn shared_bytes(&self, dynamic_shared_bytes: u32) -> u32 {
        self.dynamic_shared_offset.max(self.static_shared_bytes) + dynamic_shared_bytes
    }
}

/// A position of the author's source.
pub(crate) fn source(files: &BTreeMap<u32, String>, location: SourceLocation) -> Source {
    let file = files.get(&location.file).cloned().unwrap_or_else(|| format!("file {}", location.file));
    Source { file, line: location.line, column: location.column }
}

/// One function of a kernel's code.
#[derive(Clone, Debug)]
pub(crate) struct CodeFunction {
    pub(crate) name: String,
    pub(crate) entry: u32,
    pub(crate) frame: FrameBase,
    /// Columns to fill when it is entered.
    pub(crate) preloads: Vec<Preload>,
    pub(crate) parameters: Vec<Formal>,
    pub(crate) results: Vec<Formal>,
}

/// A register that holds the same value for a thread's life.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Preload {
    pub(crate) place: PreloadPlace,
    pub(crate) value: PreloadValue,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum PreloadPlace {
    Word(Slot),
    Long(Slot),
    Predicate(Slot),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum PreloadValue {
    Bits(u64),
    Special(SpecialRegister),
    /// An address of the CTA's shared memory: its offset, with the CTA's rank above.
    Shared(i64),
    /// The start of dynamic shared memory, plus an offset.
    DynamicShared(i64),
    /// Bytes of the kernel's parameters, from an offset; extended by their sign or by zeros.
    Parameter {
        offset: u32,
        bytes: u32,
        signed: bool,
    },
}

/// A formal parameter or result on the callee's side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Formal {
    Word(Slot),
    Long(Slot),
    Predicate(Slot),
    /// Bytes of the callee's local frame.
    Bytes {
        offset: u32,
        size: u32,
    },
}

impl PreloadValue {
    /// Whether it differs between the CTAs of a launch.
    pub(crate) fn depends_on_cta(self) -> bool {
        matches!(
            self,
            PreloadValue::Special(
                SpecialRegister::CtaIndex(_) | SpecialRegister::ClusterIndex(_) | SpecialRegister::Sm
            )
        )
    }
}
