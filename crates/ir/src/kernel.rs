//! The data types of the IR.

use std::borrow::Cow;
use std::panic;

use warpwright_arch::tensor_map::Requirement;

/// A position in the author's Rust source.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Location {
    /// Path as the compiler knows it.
    pub file: &'static str,
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1.
    pub column: u32,
}

impl From<&'static panic::Location<'static>> for Location {
    fn from(location: &'static panic::Location<'static>) -> Self {
        Self { file: location.file(), line: location.line(), column: location.column() }
    }
}

/// What a virtual register holds: a width, or a predicate. Signedness and floatness belong to
/// instructions.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RegisterClass {
    /// One bit: `.pred`.
    Predicate,
    /// 16 bits; 8-bit values live here too.
    B16,
    /// 32 bits.
    B32,
    /// 64 bits.
    B64,
    /// 128 bits.
    B128,
}

/// A virtual register of one kernel: an index into [`Kernel::registers`].
///
/// A register may be written many times; it is a variable, not an SSA value.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Register(pub u32);

/// What an instruction reads or writes.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    /// A virtual register.
    Register(Register),
    /// An integer literal.
    Integer(i128),
    /// A 32-bit floating literal, as bits.
    F32(u32),
    /// A 64-bit floating literal, as bits.
    F64(u64),
    /// A special register, with its `%`: `%tid.x`.
    Special(Cow<'static, str>),
    /// The address of a named variable or parameter: shared, local, global, constant.
    Symbol(String),
    /// `[base + offset]`, or `[base + offset, rest...]` for tensor copies.
    Address {
        /// A register, a symbol, or a literal.
        base: Box<Operand>,
        /// Bytes past the base.
        offset: i64,
        /// Coordinates and the like.
        rest: Vec<Operand>,
    },
    /// `{a, b, ...}`
    Vector(Vec<Operand>),
    /// `!p`
    Not(Register),
    /// `p|q`
    Pair(Register, Register),
    /// `_`
    Sink,
}

/// A PTX instruction.
#[derive(Clone, Debug, PartialEq)]
pub struct Instruction {
    /// `@p` when `Some((p, true))`, `@!p` when `Some((p, false))`.
    pub guard: Option<(Register, bool)>,
    /// The dotted opcode: `fma.rn.f32`.
    pub opcode: Cow<'static, str>,
    /// The number of destinations, which are the first operands. (A store has none.)
    pub destinations: usize,
    /// All operands in PTX order, destinations first.
    pub operands: Vec<Operand>,
    /// The author's position.
    pub location: Location,
}

/// Names a loop or a block that a `break` or `continue` can leave.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Label(pub u32);

/// A list of statements.
pub type Body = Vec<Statement>;

/// One statement of a kernel.
#[derive(Clone, Debug, PartialEq)]
pub enum Statement {
    /// A PTX instruction.
    Instruction(Instruction),
    /// A branch on a predicate.
    If {
        /// The predicate.
        condition: Register,
        /// Executed if it holds.
        then: Body,
        /// Executed if it does not.
        otherwise: Body,
        /// The author's position.
        location: Location,
    },
    /// Repeats until left by `Break` or `Return`.
    Loop {
        /// Its name for `Break` and `Continue`.
        label: Label,
        /// The statements repeated.
        body: Body,
        /// Executed by `Continue` before the next iteration: the step of a counted loop.
        step: Body,
        /// The author's position.
        location: Location,
    },
    /// Runs once, and may be left early by `Break`: the body of an inlined helper with an early
    /// `return`.
    Block {
        /// Its name for `Break`.
        label: Label,
        /// The statements.
        body: Body,
    },
    /// Leaves a `Loop` or `Block`.
    Break(Label, Location),
    /// Continues with the `step` of a `Loop`, then its next iteration.
    Continue(Label, Location),
    /// Ends the thread.
    Return(Location),
    /// `printf`: the format string (C conventions) and its arguments, already promoted to 32 or 64
    /// bits.
    Print {
        /// The format string.
        format: String,
        /// Argument registers with, for each, whether it prints as a double (`%f`) rather than an
        /// integer or pointer.
        arguments: Vec<(Register, bool)>,
        /// The author's position.
        location: Location,
    },
    /// `assert`: when the predicate is false, print the message and trap.
    Assert {
        /// The condition.
        condition: Register,
        /// The author's text.
        message: String,
        /// The author's position.
        location: Location,
    },
}

/// The type of a kernel parameter as the host passes it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParameterType {
    /// A device pointer to elements of the named type; `writable` if the kernel takes `&mut`.
    Pointer {
        /// The element's name, as messages show it: `bf16`.
        element: &'static str,
        /// Bytes of one element; 0 where several share a byte.
        element_bytes: u32,
        /// Whether the kernel may write through it.
        writable: bool,
    },
    /// A scalar.
    Scalar {
        /// The type's name: `u32`.
        name: &'static str,
        /// Its size in bytes.
        bytes: u32,
    },
    /// Raw bytes passed by value.
    Bytes {
        /// Size in bytes.
        size: u32,
        /// Alignment in bytes.
        align: u32,
    },
    /// Consecutive tensor maps passed by value.
    TensorMaps {
        /// What the kernel needs of each.
        needs: Vec<TensorMapNeeds>,
        /// Whether the kernel may write through them.
        writable: bool,
    },
}

/// What a kernel needs of a tensor map that it takes: a launch compares it with the map passed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TensorMapNeeds {
    /// What its copies need, and the author's position of the first; `None` without copies, and for
    /// an untyped map.
    pub boxes: Option<(Requirement, Location)>,
    /// Extents that the kernel assumes: the axis, counted from the contiguous one, and the extent.
    pub extents: Vec<(usize, u64, Location)>,
    /// Where a copy first writes through it.
    pub written: Option<Location>,
}

/// A kernel parameter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parameter {
    /// Its name in the author's source; the PTX name is derived from it.
    pub name: String,
    /// Its type.
    pub ty: ParameterType,
}

/// A variable in shared or local memory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryVariable {
    /// The symbol.
    pub name: String,
    /// Size in bytes.
    pub bytes: u64,
    /// Alignment in bytes.
    pub align: u32,
    /// The author's position.
    pub location: Location,
}

/// An array in the dynamic shared memory. Its name is another symbol of that memory's start: an
/// access adds the offset. No instruction depends on it; reports use it to tell which array an
/// address was computed from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DynamicArray {
    /// The symbol.
    pub name: String,
    /// Bytes past the start of the dynamic shared memory.
    pub offset: u64,
    /// Size in bytes.
    pub bytes: u64,
}

/// An object in shared memory: its elements and their coordinates. No instruction depends on it;
/// reports use it to name the element at an address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryObject {
    /// The symbol that the offset is relative to.
    pub symbol: String,
    /// Bytes past the symbol.
    pub offset: u64,
    /// The element's name, as messages show it: `bf16`.
    pub element: &'static str,
    /// Bits of one element.
    pub element_bits: u32,
    /// From coordinates to elements past the place, in the notation of layouts: `Swizzle<3,3,3> o 0
    /// o (64,64):(64,1)`.
    pub layout: String,
    /// Whether the last mode of the layout is the stage of a pipeline.
    pub is_staged: bool,
    /// The author's position.
    pub location: Location,
}

/// Consecutive registers that the author made as one fragment of a tile. No instruction depends on
/// it; errors use it to name the fragment that a register belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FragmentRegisters {
    /// The first register.
    pub first: Register,
    /// How many there are.
    pub count: u32,
    /// Where the author made the fragment.
    pub location: Location,
}

/// The launch bounds of a kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LaunchBounds {
    /// `.reqntid`: the exact extents of a CTA.
    pub required_block: Option<[u32; 3]>,
    /// `.maxntid`: the maximum number of threads of a CTA.
    pub maximum_threads: Option<u32>,
    /// `.minnctapersm`
    pub minimum_blocks_per_sm: Option<u32>,
    /// `.maxnreg`
    pub maximum_registers: Option<u32>,
    /// `.reqnctapercluster`
    pub cluster: Option<[u32; 3]>,
}

/// One kernel, ready to be verified and written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Kernel {
    /// The entry's name in PTX.
    pub name: String,
    /// Parameters in order.
    pub parameters: Vec<Parameter>,
    /// The class of each virtual register.
    pub registers: Vec<RegisterClass>,
    /// The registers of fragments.
    pub fragments: Vec<FragmentRegisters>,
    /// Statically sized shared variables.
    pub shared: Vec<MemoryVariable>,
    /// Local arrays.
    pub local: Vec<MemoryVariable>,
    /// Alignment in bytes of the dynamic shared memory, if it is used; its symbol is
    /// [`DYNAMIC_SHARED`].
    pub dynamic_shared_align: Option<u32>,
    /// Bytes of dynamic shared memory that a launch must provide.
    pub dynamic_shared_bytes: u32,
    /// The arrays in the dynamic shared memory.
    pub dynamic_arrays: Vec<DynamicArray>,
    /// The objects in shared memory.
    pub objects: Vec<MemoryObject>,
    /// Launch bounds.
    pub launch: LaunchBounds,
    /// The threads along x of the smallest plan that takes `%tid.x` itself as the index of a
    /// thread, and the author's position: a launch of more is refused. `None` if the block is
    /// stated, for then the kernel is checked when it is built.
    pub planned_threads: Option<(u32, Location)>,
    /// The statements.
    pub body: Body,
    /// The number of labels in `body`: all labels are below it.
    pub labels: u32,
}

/// The location of the first statement of `body`.
pub(crate) fn first_location(body: &[Statement]) -> Option<Location> {
    match body.first()? {
        Statement::Instruction(instruction) => Some(instruction.location),
        Statement::Block { body, .. } => first_location(body),
        Statement::If { location, .. }
        | Statement::Loop { location, .. }
        | Statement::Break(_, location)
        | Statement::Continue(_, location)
        | Statement::Return(location)
        | Statement::Print { location, .. }
        | Statement::Assert { location, .. } => Some(*location),
    }
}

/// The symbol of the dynamic shared memory.
pub const DYNAMIC_SHARED: &str = "dynamic_shared";
