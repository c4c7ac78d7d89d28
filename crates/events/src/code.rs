//! The program being executed, as far as observers need it.

use std::sync::Arc;

use warpwright_arch::instructions::Form;

use crate::event::MemorySpace;
use crate::fault::Label;
use crate::source::{Inlining, Source};
use crate::work::Work;

/// The code of a kernel, with the device functions that it calls.
#[derive(Clone, Debug, Default)]
pub struct Code {
    /// The kernel's name.
    pub kernel: String,
    /// The instructions, in the order of the PTX; functions one after another.
    pub instructions: Vec<Instruction>,
    /// The instruction of each operation. An instruction may be decoded to several operations.
    pub of_operation: Vec<u32>,
    /// The size of each register in 32-bit registers of the hardware: 0 for a predicate.
    pub register_words: Vec<u8>,
    /// The arrays that instructions name: in shared memory, and in the kernel's own local memory.
    pub arrays: Vec<MemoryArray>,
    /// The branches, in the order of the operations.
    pub branches: Vec<Branch>,
}

/// A branch, or one target of a branch by table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Branch {
    /// The operation.
    pub operation: u32,
    /// The operation that it branches to.
    pub target: u32,
}

/// An array in shared or local memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryArray {
    /// The space.
    pub space: MemorySpace,
    /// The variable that it is, or is in.
    pub variable: String,
    /// Its offset in the shared memory of a CTA, or its address in local memory.
    pub start: u64,
    /// Its size; `None` if it is the dynamic memory, whose arrays the PTX does not name.
    pub bytes: Option<u64>,
}

impl MemoryArray {
    /// Whether bytes are outside the array.
    pub fn is_outside(&self, first: u64, bytes: u64) -> bool {
        self.bytes.is_some_and(|size| first < self.start || first + bytes > self.start + size)
    }

    /// How far from the array the bytes of an access are that it does not have: `4 bytes before`,
    /// `right past the end of`.
    pub fn distance(&self, first: u64) -> String {
        let end = self.start + self.bytes.unwrap_or(0);
        match first {
            _ if first < self.start => format!("{} bytes before", self.start - first),
            _ if first < end => "across the end of".to_owned(),
            _ if first == end => "right past the end of".to_owned(),
            _ => format!("{} bytes past the end of", first - end),
        }
    }
}

impl Code {
    /// The instruction of an operation.
    pub fn instruction(&self, pc: u32) -> &Instruction {
        &self.instructions[self.of_operation[pc as usize] as usize]
    }

    /// The instruction of an operation, as a label of a report.
    pub fn label(&self, pc: u32, text: String) -> Label {
        let instruction = self.instruction(pc);
        Label {
            source: instruction.source.clone(),
            inlining: instruction.inlining.clone(),
            ptx_line: instruction.line,
            ptx_text: instruction.text.to_string(),
            text,
        }
    }
}

/// One PTX instruction.
#[derive(Clone, Debug)]
pub struct Instruction {
    /// The line of the PTX text.
    pub line: u32,
    /// The instruction, for display.
    pub text: Arc<str>,
    /// The position in the author's source, if the PTX names one.
    pub source: Option<Source>,
    /// The calls around that position and inside it.
    pub inlining: Inlining,
    /// Its row in the table of instructions; `None` for branches, calls, and what the table lacks.
    pub form: Option<&'static Form>,
    /// Its class, as far as observers distinguish instructions.
    pub class: Class,
    /// Whether it accesses the `.param` space. Parameters of device functions are in the emulator's
    /// local memory, and in the hardware's registers.
    pub is_parameter_access: bool,
    /// The work of one execution.
    pub work: Work,
    /// The predicate that guards it.
    pub guard: Option<Register>,
    /// The registers that it writes.
    pub writes: Box<[Register]>,
    /// The registers that it reads, including those of addresses, without its guard.
    pub reads: Box<[Register]>,
    /// The arrays that it names, by index.
    pub arrays: Box<[u32]>,
    /// What its addresses in brackets are counted from, literal ones apart.
    pub bases: Box<[Base]>,
}

impl Instruction {
    /// Its dotted name: `add.f64`.
    pub fn name(&self) -> &str {
        let text = match self.text.strip_prefix('@') {
            Some(guarded) => guarded.split_once(' ').map_or("", |(_, rest)| rest.trim_start()),
            None => &self.text,
        };
        text.split([' ', ';']).next().unwrap_or_default()
    }

    /// Whether its result depends on when it executes: an atomic operation or a strong load that reaches what
    /// other CTAs store, a clock, or the request for a cluster that has not started.
    pub fn depends_on_order(&self) -> bool {
        let name = self.name();
        match self.class {
            _ if name.starts_with("clusterlaunchcontrol.try_cancel") => true,
            _ if name.contains(".shared") => false,
            Class::Atomic => true,
            Class::Load(path) => path == LoadPath::Relaxed || name.contains(".acquire"),
            _ => self.text.contains("%clock") || self.text.contains("%globaltimer"),
        }
    }

    /// Whether it [depends on the order](Self::depends_on_order) in which warps execute, or decides the result of
    /// an instruction of another warp that does.
    pub fn is_ordered(&self) -> bool {
        let name = self.name();
        self.depends_on_order()
            || match self.class {
                _ if name.contains(".shared") => false,
                Class::Reduction => true,
                Class::Store => {
                    [".release", ".relaxed", ".volatile", ".mmio"].iter().any(|word| name.contains(word))
                }
                _ => name.starts_with("nanosleep"),
            }
    }
}

/// Which writes of other threads a load may see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LoadPath {
    /// Those that happen before it: weak and acquiring loads.
    Coherent,
    /// `.relaxed` and `.volatile`: strong without acquiring.
    Relaxed,
    /// `.nc`: none. The bytes must not change while the kernel runs.
    NonCoherent,
}

/// What an address is counted from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Base {
    /// A register.
    Register(Register),
    /// An array, by index.
    Array(u32),
    /// Anything else.
    Other,
}

/// A register of the kernel, by number. Those of each function are its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Register(pub u32);

/// Logic of which one operand may decide the result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PredicateLogic {
    /// False decides.
    And,
    /// True decides.
    Or,
}

impl PredicateLogic {
    /// The lanes in which an operand that holds in `holds` decides the result.
    pub fn decided_by(self, holds: u32) -> u32 {
        match self {
            PredicateLogic::And => !holds,
            PredicateLogic::Or => holds,
        }
    }
}

/// The class of an instruction, as far as observers distinguish them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Class {
    /// `ld` and its variants.
    Load(LoadPath),
    /// `st` and its variants.
    Store,
    /// `atom`.
    Atomic,
    /// `red`.
    Reduction,
    /// `set` and `setp`, and the logic that combines the result with a predicate.
    Compare(Option<PredicateLogic>),
    /// `selp`, which takes one of two operands; those that are registers.
    Select([Option<Register>; 2]),
    /// `and.pred` and `or.pred`, and those of their operands that are registers.
    Logic(PredicateLogic, [Option<Register>; 2]),
    /// `bar` and `barrier.cta`.
    CtaBarrier {
        /// Whether all lanes of a warp execute it together.
        aligned: bool,
    },
    /// `barrier.cluster`.
    ClusterBarrier {
        /// Whether all lanes of a warp execute it together.
        aligned: bool,
    },
    /// `mbarrier.init`.
    MbarrierInit,
    /// `tcgen05.fence::after_thread_sync`.
    TensorMemoryFence,
    /// Any other instruction.
    Other,
}
