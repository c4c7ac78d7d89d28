//! The errors of the algebra, which show the layouts.

use std::fmt;
use std::ops::Range;

/// The reason why an operation is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// No layout equals A(B(c)).
    #[error("{0}")]
    NotRepresentable(Box<Illustration>),
    /// An inverse or complement of a layout that maps two coordinates to one offset.
    #[error("{0}")]
    NotInjective(Box<Illustration>),
    /// A block, vector or tile does not divide the layout it must fill.
    #[error("{0}")]
    DoesNotDivide(Box<Illustration>),
    /// A swizzle splits the contiguous elements of an access.
    #[error("{0}")]
    BreaksVector(Box<Illustration>),
    /// The operation needs a static leaf and met a dynamic one.
    #[error("{operation} needs to know `{leaf}` when the kernel is built: {reason}")]
    NeedsKnown {
        /// The operation.
        operation: &'static str,
        /// The leaf, as printed.
        leaf: String,
        /// Why the operation needs it.
        reason: String,
    },
    /// Shape and stride (or profile) have different tuple structures.
    #[error("shape {shape} and {stride} have different tuple structures: give one stride for each extent")]
    Incongruent {
        /// The shape, as printed.
        shape: String,
        /// The other tuple, as printed.
        stride: String,
    },
    /// An extent below 1.
    #[error("{layout} has an extent of {extent}: extents are at least 1")]
    EmptyExtent {
        /// The layout, as printed.
        layout: String,
        /// The extent.
        extent: i64,
    },
    /// A coordinate that does not fit its shape.
    #[error(
        "coordinate {coordinate} does not fit shape {shape}: it may have at most the shape's own tuple structure"
    )]
    BadCoordinate {
        /// The coordinate, as printed.
        coordinate: String,
        /// The shape, as printed.
        shape: String,
    },
    /// A coordinate outside its shape.
    #[error(
        "coordinate {coordinate} is outside shape {shape}: position {position} of an extent of {extent}, which has positions 0 to {}",
        extent - 1
    )]
    OutOfRange {
        /// The coordinate, as printed.
        coordinate: String,
        /// The shape, as printed.
        shape: String,
        /// The position that is outside.
        position: i64,
        /// The extent of its mode.
        extent: i64,
    },
    /// A mode that the layout does not have.
    #[error("{layout} has no mode {mode}: its rank is {rank}")]
    NoSuchMode {
        /// The layout, as printed.
        layout: String,
        /// The mode given.
        mode: usize,
        /// The rank of the layout.
        rank: usize,
    },
    /// A tiler, profile or coordinate with more modes than the layout.
    #[error("{layout} has rank {rank}, but {given} has {wanted} modes: leave out or group the extra ones")]
    RankTooSmall {
        /// The layout, as printed.
        layout: String,
        /// Its rank.
        rank: usize,
        /// The tiler or profile, as printed.
        given: String,
        /// The modes of the tiler or profile.
        wanted: usize,
    },
    /// Integers beyond 64 bits.
    #[error("an extent or offset exceeds 64 bits")]
    Overflow,
    /// A zero divisor.
    #[error("division by zero")]
    DivisionByZero,
    /// Too many elements to enumerate.
    #[error("{layout} has {size} elements; listing stops at {most}")]
    TooLarge {
        /// The layout, as printed.
        layout: String,
        /// Its size.
        size: i64,
        /// The limit.
        most: i64,
    },
    /// A memory offset of a layout that returns coordinates.
    #[error("{0} gives coordinates, not offsets in memory: its strides have bases")]
    IsCoordinate(String),
    /// Offsets and coordinates in one layout.
    #[error("{0} and {1} cannot be added: one is an offset, the other a coordinate of another structure")]
    MixedStrides(String, String),
    /// An argument outside its range.
    #[error("{what} is {given}, but must be {legal}")]
    BadArgument {
        /// The argument.
        what: &'static str,
        /// Its value, as printed.
        given: String,
        /// The legal values.
        legal: String,
    },
    /// Text that is not an expression of the layout language.
    #[error("{0}")]
    Syntax(Box<Illustration>),
}

impl Error {
    pub(crate) fn needs_known(operation: &'static str, leaf: impl fmt::Display, reason: &str) -> Error {
        Error::NeedsKnown { operation, leaf: leaf.to_string(), reason: reason.into() }
    }

    pub(crate) fn bad_argument(
        what: &'static str,
        given: impl fmt::Display,
        legal: impl Into<String>,
    ) -> Error {
        Error::BadArgument { what, given: given.to_string(), legal: legal.into() }
    }

    /// The first sentence of the message, on one line.
    pub fn summary(&self) -> String {
        match self {
            Error::NotRepresentable(picture)
            | Error::NotInjective(picture)
            | Error::DoesNotDivide(picture)
            | Error::BreaksVector(picture)
            | Error::Syntax(picture) => picture.summary.clone(),
            other => other.to_string(),
        }
    }
}

/// A message that shows the layouts, marks the offending modes, and suggests a fix.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Illustration {
    /// The error, in one sentence.
    pub summary: String,
    /// The layouts, with marks.
    pub lines: Vec<Marked>,
    /// The nearest legal choice, if one is known.
    pub suggestion: Option<String>,
}

/// A labeled text with a marked part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Marked {
    /// The label: `A`, `tiler`, ...
    pub label: String,
    /// The text.
    pub text: String,
    /// The marked columns (in characters), if any.
    pub span: Option<Range<usize>>,
    /// The note at the mark.
    pub note: String,
}

impl Illustration {
    pub(crate) fn new(summary: impl Into<String>) -> Illustration {
        Illustration { summary: summary.into(), lines: Vec::new(), suggestion: None }
    }

    /// Adds a line without a mark.
    pub(crate) fn show(self, label: &str, text: impl fmt::Display) -> Self {
        self.mark(label, text, None, "")
    }

    /// Adds a line with a mark on some columns.
    pub(crate) fn mark(
        mut self,
        label: &str,
        text: impl fmt::Display,
        span: Option<Range<usize>>,
        note: impl Into<String>,
    ) -> Self {
        self.lines.push(Marked { label: label.into(), text: text.to_string(), span, note: note.into() });
        self
    }

    pub(crate) fn suggest(mut self, suggestion: impl Into<String>) -> Self {
        self.suggestion = Some(suggestion.into());
        self
    }
}

impl fmt::Display for Illustration {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.summary)?;
        let width = self.lines.iter().map(|line| line.label.chars().count()).max().unwrap_or(0);
        for line in &self.lines {
            write!(f, "\n  {:>width$} = {}", line.label, line.text)?;
            if let Some(span) = &line.span {
                let indent = width + 5 + span.start;
                write!(f, "\n{:indent$}{} {}", "", "^".repeat(span.len().max(1)), line.note)?;
            }
        }
        match &self.suggestion {
            Some(suggestion) => write!(f, "\n  {suggestion}"),
            None => Ok(()),
        }
    }
}
