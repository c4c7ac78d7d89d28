//! What can be wrong with a kernel.

use std::fmt;

use crate::kernel::{Location, RegisterClass};

/// A mistake in a kernel, at the author's line.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{location}: {fault}")]
pub struct VerifyError {
    /// Where the author wrote it.
    pub location: Location,
    /// What is wrong.
    pub fault: Fault,
}

/// A kind of mistake. Displays as a sentence that says what is wrong and, where it can, what to do.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// No instruction is spelled so.
    #[error("PTX has no instruction `{opcode}`{}", offer(.spellings))]
    UnknownInstruction {
        /// The dotted name.
        opcode: String,
        /// How instructions with the same first word are spelled.
        spellings: Vec<String>,
    },
    /// The instruction exists, and takes other operands.
    #[error("`{opcode}` takes {}, but was given {found}", .expected.join(" or "))]
    WrongOperands {
        /// The dotted name.
        opcode: String,
        /// The operands of each form it has.
        expected: Vec<String>,
        /// Those it was given, by class.
        found: String,
    },
    /// The instruction exists, on other architectures.
    #[error("`{opcode}` is not there on {target}: it needs {availability}")]
    NotOnTarget {
        /// The dotted name.
        opcode: String,
        /// The `.target` of the kernel.
        target: &'static str,
        /// Where it is.
        availability: String,
    },
    /// A register that some way to this place leaves without a value.
    #[error(
        "a value is read here that has none yet on some way to this line; give it one before the branch or loop"
    )]
    ReadBeforeWritten,
    /// A register number that the kernel does not have.
    #[error("register {0} was never declared")]
    UnknownRegister(u32),
    /// Something other than a predicate where one is needed.
    #[error("a condition must be a predicate, not a {} value", width(*.0))]
    NotAPredicate(RegisterClass),
    /// `break` or `continue` with a label that no loop or block around it has.
    #[error("`break` and `continue` must stand inside the loop or block that they leave")]
    UnknownLabel,
    /// `continue` to a block, which has no next round.
    #[error("`continue` needs a loop; a block can only be left with `break`")]
    ContinueOutsideLoop,
    /// A label used twice.
    #[error("two loops or blocks, one inside the other, have the same label")]
    NestedLabel,
    /// A name that is neither parameter nor variable.
    #[error("`{0}` names no parameter and no shared or local variable of this kernel")]
    UnknownSymbol(String),
    /// Two parameters or variables of one name.
    #[error("`{0}` names two parameters or variables of this kernel")]
    DuplicateSymbol(String),
    /// A variable of no bytes.
    #[error("`{0}` has no bytes; give it at least one element, or leave it out")]
    EmptyVariable(String),
    /// An alignment that is no power of two.
    #[error("`{name}` is aligned to {align} bytes; an alignment must be a power of two")]
    BadAlignment {
        /// The variable.
        name: String,
        /// The alignment asked for.
        align: u32,
    },
    /// More static shared memory than a module may declare.
    #[error(
        "static shared memory comes to {bytes} bytes here, of {limit} at most; ask for more as dynamic shared memory"
    )]
    TooMuchStaticShared {
        /// Bytes up to and with this variable.
        bytes: u64,
        /// Bytes allowed.
        limit: u64,
    },
    /// More shared memory in all than the target has.
    #[error("static and dynamic shared memory come to {bytes} bytes; a CTA of {target} has {limit} at most")]
    TooMuchShared {
        /// Bytes of both.
        bytes: u64,
        /// Bytes a CTA can have.
        limit: u64,
        /// The `.target` of the kernel.
        target: &'static str,
    },
    /// More local memory than a thread has.
    #[error("local arrays come to {bytes} bytes here; a thread has {limit} at most")]
    TooMuchLocal {
        /// Bytes up to and with this variable.
        bytes: u64,
        /// Bytes a thread can have.
        limit: u64,
    },
    /// More parameters than a launch can pass.
    #[error("the kernel's parameters take {bytes} bytes, of {limit} at most; pass a pointer instead")]
    TooManyParameters {
        /// Bytes of all parameters.
        bytes: u64,
        /// Bytes allowed.
        limit: u64,
    },
    /// A launch that no device of the target can do.
    #[error("{what} is {value}; {target} allows {limit} at most")]
    LaunchTooLarge {
        /// Which launch bound.
        what: &'static str,
        /// What was asked for.
        value: u64,
        /// What is allowed.
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
