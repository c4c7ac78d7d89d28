//! The errors of kernels.

use std::fmt;

use super::unwritten::Unwritten;
use crate::kernel::{Location, RegisterClass};

/// An error in a kernel, at the author's line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{location}: {fault}")]
pub struct VerifyError {
    /// Where the author wrote it.
    pub location: Location,
    /// The error.
    pub fault: Fault,
}

/// The kinds of errors. The message states the error and, if possible, the fix.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// PTX has no instruction of that name.
    #[error("PTX has no instruction `{opcode}`{}", offer(.spellings))]
    UnknownInstruction {
        /// The dotted name.
        opcode: String,
        /// The spellings of instructions with the same first word.
        spellings: Vec<String>,
    },
    /// The instruction takes other operands.
    #[error("`{opcode}` takes {}, not {found}", .expected.join(" or "))]
    WrongOperands {
        /// The dotted name.
        opcode: String,
        /// The operands of each of its forms.
        expected: Vec<String>,
        /// The operands given, by class.
        found: String,
    },
    /// The instruction exists only on other targets.
    #[error("{instruction} does not exist on {target}; it needs {availability}")]
    NotOnTarget {
        /// The dotted name, and the form if the target has others of that name.
        instruction: String,
        /// The `.target` of the kernel.
        target: &'static str,
        /// The targets that have it.
        availability: String,
    },
    /// A register that is not written on every path to this line.
    #[error("{0}")]
    ReadBeforeWritten(Unwritten),
    /// A register number that the kernel does not have.
    #[error("register {0} was never declared")]
    UnknownRegister(u32),
    /// Something other than a predicate where one is needed.
    #[error("a condition must be a predicate, not a {} value", width(*.0))]
    NotAPredicate(RegisterClass),
    /// `break` or `continue` with the label of no enclosing loop or block.
    #[error("`break` and `continue` must be inside the loop or block that they leave")]
    UnknownLabel,
    /// `continue` to a block.
    #[error("`continue` needs a loop; a block can only be left with `break`")]
    ContinueOutsideLoop,
    /// A label used twice.
    #[error("two loops or blocks, one inside the other, have the same label")]
    NestedLabel,
    /// A name that is neither a parameter nor a variable.
    #[error("`{0}` names no parameter and no shared or local variable of this kernel")]
    UnknownSymbol(String),
    /// Two parameters or variables of one name.
    #[error("`{0}` names two parameters or variables of this kernel")]
    DuplicateSymbol(String),
    /// A variable of no bytes.
    #[error("`{0}` has no bytes; give it at least one element, or leave it out")]
    EmptyVariable(String),
    /// An alignment that is not a power of two.
    #[error("`{name}` is aligned to {align} bytes; an alignment must be a power of two")]
    BadAlignment {
        /// The variable.
        name: String,
        /// The alignment given.
        align: u32,
    },
    /// More static shared memory than a module may declare.
    #[error(
        "static shared memory reaches {bytes} bytes here; the limit is {limit}; use dynamic shared memory"
    )]
    TooMuchStaticShared {
        /// Bytes up to the end of this variable.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// More shared memory in all than the target has.
    #[error("static and dynamic shared memory are {bytes} bytes; a CTA of {target} has at most {limit}")]
    TooMuchShared {
        /// Bytes of both.
        bytes: u64,
        /// The limit.
        limit: u64,
        /// The `.target` of the kernel.
        target: &'static str,
    },
    /// More local memory than a thread has.
    #[error("local arrays reach {bytes} bytes here; a thread has at most {limit}")]
    TooMuchLocal {
        /// Bytes up to the end of this variable.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// More parameters than a launch can pass.
    #[error("the kernel's parameters take {bytes} bytes; the limit is {limit}; pass a pointer instead")]
    TooManyParameters {
        /// Bytes of all parameters.
        bytes: u64,
        /// The limit.
        limit: u64,
    },
    /// A launch bound that exceeds the limits of the target.
    #[error("{what} is {value}; {target} allows at most {limit}")]
    LaunchTooLarge {
        /// The launch bound.
        what: &'static str,
        /// The value given.
        value: u64,
        /// The limit.
        limit: u64,
        /// The `.target` of the kernel.
        target: &'static str,
    },
    /// A value that `printf` cannot take.
    #[error("printf takes values of 32 or 64 bits; convert this {} value first", width(*.0))]
    PrintArgument(RegisterClass),
    /// A format string with more or fewer conversions than there are values.
    #[error("the format string has {conversions} conversions for {arguments} values")]
    PrintCount {
        /// `%` conversions in the string.
        conversions: usize,
        /// Values given.
        arguments: usize,
    },
}

fn offer(spellings: &[String]) -> String {
    if spellings.is_empty() {
        return String::new();
    }
    let shown: Vec<String> = spellings.iter().take(4).map(|spelling| format!("`{spelling}`")).collect();
    let more = if spellings.len() > 4 { ", ..." } else { "" };
    format!("; it has {}{more}", shown.join(", "))
}

/// A register class in words.
fn width(class: RegisterClass) -> &'static str {
    match class {
        RegisterClass::Predicate => "predicate",
        RegisterClass::B16 => "16-bit",
        RegisterClass::B32 => "32-bit",
        RegisterClass::B64 => "64-bit",
        RegisterClass::B128 => "128-bit",
    }
}

impl fmt::Display for Location {
    /// `src/gemm.rs:12:9`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.file, self.line, self.column)
    }
}
