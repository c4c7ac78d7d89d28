//! Findings of the checkers.

use std::fmt;

use serde::{Serialize, Serializer};
use warpwright_events::{Fault, FaultKind, Label, TileOperand, lane_list, write_details};

use crate::report::order::{Gap, Rank};

/// The kinds of finding. Each has a page: `warpwright check --explain CODE`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum FindingKind {
    /// Two threads access the same bytes, at least one writes, and nothing orders them.
    Race,
    /// An access to bytes that asynchronous work in flight still reads or writes.
    InFlight,
    /// Two proxies access the same bytes with no proxy fence between them.
    ProxyFence,
    /// Synchronized threads use the same cells of tensor memory without
    /// `tcgen05.fence::after_thread_sync`.
    TensorFence,
    /// A read of memory that nothing has written.
    Uninitialized,
    /// A remark: the host reads elements that still are what it filled the buffer with.
    Unwritten,
    /// The kernel ends with asynchronous work in flight.
    Leak,
    /// An access to what the predecessor may still use, before `griddepcontrol.wait`.
    Overlap,
    /// Two streams use the same bytes, at least one writes, and nothing orders the two.
    StreamOrder,
    /// A load through the read-only path of bytes that the kernel has written.
    NonCoherent,
    /// A barrier or an mbarrier is used against its rules, or its counts are wrong.
    Barrier,
    /// Part of a warp executes what all of its lanes must execute together.
    Divergence,
    /// A fault.
    Fault(FaultKind),
}

impl FindingKind {
    /// All kinds.
    pub fn all() -> impl Iterator<Item = FindingKind> {
        let found = [
            FindingKind::Race,
            FindingKind::InFlight,
            FindingKind::ProxyFence,
            FindingKind::TensorFence,
            FindingKind::Uninitialized,
            FindingKind::Unwritten,
            FindingKind::Leak,
            FindingKind::Overlap,
            FindingKind::StreamOrder,
            FindingKind::NonCoherent,
            FindingKind::Barrier,
            FindingKind::Divergence,
        ];
        found.into_iter().chain(FaultKind::ALL.map(FindingKind::Fault))
    }

    /// Whether it may be on purpose: a remark, and no error.
    pub fn is_remark(self) -> bool {
        self == FindingKind::Unwritten
    }

    /// Its code.
    pub fn code(self) -> &'static str {
        match self {
            FindingKind::Race => "race",
            FindingKind::InFlight => "in-flight",
            FindingKind::ProxyFence => "proxy-fence",
            FindingKind::TensorFence => "tensor-fence",
            FindingKind::Uninitialized => "uninitialized",
            FindingKind::Unwritten => "unwritten",
            FindingKind::Leak => "leak",
            FindingKind::Overlap => "overlap",
            FindingKind::StreamOrder => "stream-order",
            FindingKind::NonCoherent => "non-coherent",
            FindingKind::Barrier => FaultKind::Barrier.code(),
            FindingKind::Divergence => "divergence",
            FindingKind::Fault(kind) => kind.code(),
        }
    }
}

/// Something that is wrong with a kernel.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct Finding {
    /// The kind.
    #[serde(rename = "code")]
    pub kind: FindingKind,
    /// The kernel; empty if it is about no kernel.
    pub kernel: String,
    /// One sentence.
    pub message: String,
    /// Source locations: the reported access first, then the conflicting one.
    pub labels: Vec<Label>,
    /// The names of the addresses, and where the kernel allocates that memory.
    pub memory: Vec<Label>,
    /// Explanations.
    pub notes: Vec<String>,
    /// How to correct it.
    pub help: Option<String>,
    /// How often it occurred.
    pub count: u64,
    /// The tile of an MMA that it is about, if any.
    #[serde(skip)]
    pub tile: Option<TileOperand>,
    /// The index among the findings of the one that this one may follow from, if any.
    #[serde(skip)]
    pub cause: Option<usize>,
    #[serde(skip)]
    pub(crate) rank: Rank,
    /// The instructions between which an order is missing, if it is about two accesses of threads.
    #[serde(skip)]
    pub(crate) gap: Option<Gap>,
}

/// The [code](FindingKind::code).
impl Serialize for FindingKind {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.code())
    }
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "[{}] {}", self.kind.code(), self.message)?;
        if !self.kernel.is_empty() {
            write!(f, "\n  in kernel `{}`", self.kernel)?;
        }
        for label in &self.labels {
            write!(f, "\n  at {label}")?;
        }
        write_details(f, &self.memory, &self.notes, self.help.as_deref())?;
        if self.count > 1 {
            write!(f, "\n  found {} times", self.count)?;
        }
        Ok(())
    }
}

/// Help that applies to all faults of a kind.
fn general_help(kind: FaultKind) -> Option<&'static str> {
    match kind {
        FaultKind::LaneMask => {
            Some("list exactly the lanes in the mask that execute the instruction together")
        }
        FaultKind::Warpgroup => {
            Some("let all threads of the four warps execute it together, also those without work")
        }
        FaultKind::Unsupported => Some("run the kernel on a GPU"),
        _ => None,
    }
}

/// The first sentence of a message as a title: with a lowercase initial and no full stop.
fn as_title(message: &str) -> String {
    let message = message.strip_prefix("Deadlock: ").unwrap_or(message);
    let message = message.strip_suffix('.').unwrap_or(message);
    let mut letters = message.chars();
    match (letters.next(), letters.next()) {
        (Some(first), Some(second)) if second.is_lowercase() || second == ' ' => {
            first.to_lowercase().chain(message.chars().skip(1)).collect()
        }
        _ => message.to_owned(),
    }
}

impl From<&Fault> for Finding {
    /// A fault as a finding.
    fn from(fault: &Fault) -> Self {
        let mut who = String::new();
        if let Some(warp) = fault.warp {
            who = format!("warp {warp}");
        }
        if fault.lanes != 0 {
            who = format!("{who}{}{}", if who.is_empty() { "" } else { ", " }, lane_list(fault.lanes));
        }
        if let Some([x, y, z]) = fault.cta {
            who = format!("{who}{}CTA ({x}, {y}, {z})", if who.is_empty() { "" } else { " of " });
        }
        let label = fault.ptx_line.map(|ptx_line| Label {
            source: fault.source.clone(),
            inlining: fault.inlining.clone(),
            ptx_line,
            ptx_text: fault.ptx_text.clone().unwrap_or_default(),
            text: fault.what.clone().unwrap_or(who),
        });
        // Words of its own leave out the CTA.
        let cta = fault.cta.filter(|_| fault.what.is_some());
        let of_cta = cta.map(|[x, y, z]| format!("this is CTA ({x}, {y}, {z})"));
        Self {
            kind: FindingKind::Fault(fault.kind),
            kernel: fault.kernel.clone(),
            message: as_title(&fault.message),
            labels: label.into_iter().chain(fault.also.iter().cloned()).collect(),
            memory: fault.memory.clone(),
            notes: fault.notes.iter().cloned().chain(of_cta).collect(),
            help: fault.help.clone().or_else(|| general_help(fault.kind).map(str::to_owned)),
            count: 1,
            tile: None,
            cause: None,
            rank: if fault.is_cause { Rank::Protocol } else { Rank::Stop },
            gap: None,
        }
    }
}
