//! What the host puts on a stream.

use std::ops::Range;
use std::sync::Arc;

use warpwright_events::{Code, Inlining, Label, Source};

/// Elements of a buffer that an operation of the host uses.
#[derive(Clone, Copy, Debug)]
pub struct Elements {
    /// The address of the buffer.
    pub buffer: u64,
    /// How many bytes of the buffer come before them.
    pub start: u64,
    /// Their size in bytes.
    pub bytes: u64,
    /// The name of their type.
    pub element: &'static str,
    /// The size of an element in bytes.
    pub element_bytes: u64,
}

impl Elements {
    /// The address of the first one.
    pub fn address(&self) -> u64 {
        self.buffer + self.start
    }

    pub(crate) fn range(&self) -> Range<u64> {
        self.address()..self.address() + self.bytes
    }

    /// How many there are.
    pub(crate) fn count(&self) -> u64 {
        self.bytes / self.element_bytes
    }

    /// The indices in the buffer of the elements in a range of addresses.
    pub(crate) fn indices(&self, range: &Range<u64>) -> Range<u64> {
        let (first, end) = (range.start - self.buffer, range.end - self.buffer);
        first / self.element_bytes..end.div_ceil(self.element_bytes)
    }
}

/// `element 3`, `elements 3 to 9`
pub(crate) fn shown_indices(indices: &Range<u64>) -> String {
    match indices.end - indices.start {
        1 => format!("element {}", indices.start),
        _ => format!("elements {} to {}", indices.start, indices.end - 1),
    }
}

/// A copy or a fill on a stream.
#[derive(Clone, Copy, Debug)]
pub enum Transfer {
    /// A copy between two buffers.
    Copy {
        /// The target.
        to: Elements,
        /// The source.
        from: Elements,
    },
    /// A fill of a buffer.
    Fill(Elements),
    /// A copy from the host to a buffer.
    ToDevice(Elements),
    /// A copy from a buffer to the host.
    ToHost(Elements),
}

impl Transfer {
    pub(crate) fn read(&self) -> Option<&Elements> {
        match self {
            Self::Copy { from, .. } | Self::ToHost(from) => Some(from),
            Self::Fill(_) | Self::ToDevice(_) => None,
        }
    }

    pub(crate) fn written(&self) -> Option<&Elements> {
        match self {
            Self::Copy { to, .. } | Self::Fill(to) | Self::ToDevice(to) => Some(to),
            Self::ToHost(_) => None,
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Copy { .. } => "copy",
            Self::Fill(_) => "fill",
            Self::ToDevice(_) => "copy to the device",
            Self::ToHost(_) => "copy to the host",
        }
    }
}

/// An operation of a stream.
#[derive(Clone, Debug)]
pub(crate) enum Operation {
    Launch(Arc<Code>),
    Transfer(Transfer),
}

impl Operation {
    /// The kernel, if it is a launch.
    pub(crate) fn code(&self) -> Option<&Code> {
        match self {
            Self::Launch(code) => Some(code),
            Self::Transfer(_) => None,
        }
    }

    /// `` `add` ``, `a copy`
    pub(crate) fn actor(&self) -> String {
        match self {
            Self::Launch(code) => format!("`{}`", code.kernel),
            Self::Transfer(transfer) => format!("a {}", transfer.name()),
        }
    }

    /// `` the launch of `add` ``, `the copy`
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Launch(code) => format!("the launch of `{}`", code.kernel),
            Self::Transfer(transfer) => format!("the {}", transfer.name()),
        }
    }
}

/// A position in the host's program.
pub(crate) fn host_label(call: &Source, text: String) -> Label {
    Label {
        source: Some(call.clone()),
        inlining: Inlining::default(),
        ptx_line: 0,
        ptx_text: String::new(),
        text,
    }
}
