//! Faults: why and where a launch stopped.

use std::fmt;

use serde::{Serialize, Serializer};

use crate::lanes::lane_list;
use crate::source::{Inlining, Source};

/// The kinds of fault.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum FaultKind {
    /// An access outside every allocation, or outside its space.
    OutOfBounds,
    /// An address that is not a multiple of the access size.
    Misaligned,
    /// An access to memory that was freed.
    UseAfterFree,
    /// An access to the shared memory of a CTA of the cluster that has not started, or has exited.
    PeerNotResident,
    /// A store to read-only memory.
    ReadOnly,
    /// An instruction used against the architecture's rules.
    IllegalInstruction,
    /// A launch that the device or the kernel does not allow.
    BadLaunch,
    /// No thread can ever move again.
    Deadlock,
    /// `trap` or `brkpt` was executed.
    Trap,
    /// An assertion of the kernel failed.
    Assertion,
    /// Calls are nested too deeply, or local memory is used up.
    StackOverflow,
    /// A barrier was used wrongly.
    Barrier,
    /// A warp-wide instruction names lanes that are not there.
    LaneMask,
    /// The warps of a warpgroup execute different operations.
    Warpgroup,
    /// Tensor memory is used against its rules.
    TensorMemory,
    /// An instruction that the emulator does not support.
    Unsupported,
    /// The launch reached its limit of time or instructions.
    Limit,
}

impl FaultKind {
    /// All of them.
    pub const ALL: [FaultKind; 17] = [
        FaultKind::OutOfBounds,
        FaultKind::Misaligned,
        FaultKind::UseAfterFree,
        FaultKind::PeerNotResident,
        FaultKind::ReadOnly,
        FaultKind::IllegalInstruction,
        FaultKind::BadLaunch,
        FaultKind::Deadlock,
        FaultKind::Trap,
        FaultKind::Assertion,
        FaultKind::StackOverflow,
        FaultKind::Barrier,
        FaultKind::LaneMask,
        FaultKind::Warpgroup,
        FaultKind::TensorMemory,
        FaultKind::Unsupported,
        FaultKind::Limit,
    ];

    /// A short name for machines.
    pub fn code(self) -> &'static str {
        match self {
            FaultKind::OutOfBounds => "out-of-bounds",
            FaultKind::Misaligned => "misaligned",
            FaultKind::UseAfterFree => "use-after-free",
            FaultKind::PeerNotResident => "peer-not-resident",
            FaultKind::ReadOnly => "read-only",
            FaultKind::IllegalInstruction => "illegal-instruction",
            FaultKind::BadLaunch => "bad-launch",
            FaultKind::Deadlock => "deadlock",
            FaultKind::Trap => "trap",
            FaultKind::Assertion => "assertion",
            FaultKind::StackOverflow => "stack-overflow",
            FaultKind::Barrier => "barrier",
            FaultKind::LaneMask => "lane-mask",
            FaultKind::Warpgroup => "warpgroup",
            FaultKind::TensorMemory => "tensor-memory",
            FaultKind::Unsupported => "unsupported",
            FaultKind::Limit => "limit",
        }
    }
}

/// A location in the program, and what happened there.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Label {
    /// The position in the author's source, if the PTX names it.
    pub source: Option<Source>,
    /// The calls around that position and inside it.
    pub inlining: Inlining,
    /// The line of the PTX text.
    pub ptx_line: u32,
    /// The instruction.
    pub ptx_text: String,
    /// What happened there.
    pub text: String,
}

/// As `docs/json.md` describes it.
impl Serialize for Label {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct Fields<'l> {
            file: Option<&'l str>,
            line: Option<u32>,
            column: Option<u32>,
            called_from: &'l [Source],
            inlined_from: &'l [Source],
            ptx_line: u32,
            ptx: &'l str,
            text: &'l str,
        }
        let source = self.source.as_ref();
        let fields = Fields {
            file: source.map(|source| source.file.as_str()),
            line: source.map(|source| source.line),
            column: source.map(|source| source.column),
            called_from: &self.inlining.callers,
            inlined_from: &self.inlining.inside,
            ptx_line: self.ptx_line,
            ptx: &self.ptx_text,
            text: &self.text,
        };
        fields.serialize(serializer)
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.source {
            Some(source) => write!(f, "{source}{}: {}", self.inlining, self.text),
            None if self.ptx_text.is_empty() => write!(f, "{}", self.text),
            None => write!(f, "PTX line {} (`{}`): {}", self.ptx_line, self.ptx_text, self.text),
        }
    }
}

/// The reason that a launch stopped. The device stays usable.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Fault {
    /// The kind.
    pub kind: FaultKind,
    /// The kernel.
    pub kernel: String,
    /// The CTA's index in the grid, if the fault is one CTA's.
    pub cta: Option<[u32; 3]>,
    /// The warp in the CTA, if it is one warp's.
    pub warp: Option<u32>,
    /// The lanes it concerns, as a mask; 0 if none in particular.
    pub lanes: u32,
    /// The line of the PTX text.
    pub ptx_line: Option<u32>,
    /// The instruction.
    pub ptx_text: Option<String>,
    /// The position in the kernel's source, if the PTX names it.
    pub source: Option<Source>,
    /// The calls around that position and inside it.
    pub inlining: Inlining,
    /// One sentence.
    pub message: String,
    /// What happened there, if known.
    pub what: Option<String>,
    /// Related locations.
    pub also: Vec<Label>,
    /// The names of the addresses, and where the kernel allocates that memory.
    pub memory: Vec<Label>,
    /// Explanations.
    pub notes: Vec<String>,
    /// How to correct it.
    pub help: Option<String>,
    /// What the kernel printed before it, CTA by CTA.
    pub output: String,
    /// Whether the fault names the mistake itself. Others may follow from findings before them.
    pub is_cause: bool,
}

impl Fault {
    /// A fault of the launch itself.
    pub fn bad_launch(kernel: &str, message: impl Into<String>) -> Self {
        Self {
            kind: FaultKind::BadLaunch,
            kernel: kernel.to_owned(),
            cta: None,
            warp: None,
            lanes: 0,
            ptx_line: None,
            ptx_text: None,
            source: None,
            inlining: Inlining::default(),
            message: message.into(),
            what: None,
            also: Vec::new(),
            memory: Vec::new(),
            notes: Vec::new(),
            help: None,
            output: String::new(),
            is_cause: false,
        }
    }
}

impl fmt::Display for Fault {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.message)?;
        write!(f, "\n  in kernel `{}`", self.kernel)?;
        if let Some([x, y, z]) = self.cta {
            write!(f, ", CTA ({x}, {y}, {z})")?;
        }
        if let Some(warp) = self.warp {
            write!(f, ", warp {warp}")?;
        }
        if self.lanes != 0 {
            write!(f, ", {}", lane_list(self.lanes))?;
        }
        if let Some(source) = &self.source {
            write!(f, "\n  at {source}{}", self.inlining)?;
        }
        if let (Some(line), Some(text)) = (self.ptx_line, &self.ptx_text) {
            write!(f, "\n  at PTX line {line}: {text}")?;
        }
        for label in &self.also {
            write!(f, "\n  and {label}")?;
        }
        write_details(f, &self.memory, &self.notes, self.help.as_deref())
    }
}

impl std::error::Error for Fault {}

/// The end of a fault's or a finding's text: the memory it is about, notes, and help.
pub fn write_details(
    f: &mut fmt::Formatter<'_>,
    memory: &[Label],
    notes: &[String],
    help: Option<&str>,
) -> fmt::Result {
    for label in memory {
        write!(f, "\n  of {label}")?;
    }
    for note in notes {
        write!(f, "\n  note: {note}")?;
    }
    help.map_or(Ok(()), |help| write!(f, "\n  help: {help}"))
}
