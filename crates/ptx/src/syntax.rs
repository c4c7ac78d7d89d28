//! The syntax tree of a PTX module, as the parser makes it and the emulator reads it.
//!
//! The tree keeps the text as it is: an opcode is its dotted words, an operand is a name, a number
//! or an address. Which opcodes exist and what they mean is left to the reader of the tree, so that
//! a module with an unknown instruction still parses, and is refused later with its own line.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

/// A whole PTX file.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Module {
    /// `.version 9.0` is `(9, 0)`.
    pub version: (u32, u32),
    /// The words of `.target`, the architecture first: `["sm_90a", "debug"]`.
    pub target: Vec<String>,
    /// `.address_size`, 64 if the text omits it.
    pub address_size: u32,
    /// `.file` numbers and their paths.
    pub files: BTreeMap<u32, String>,
    /// Module-level `.pragma` texts.
    pub pragmas: Vec<String>,
    /// `.alias name, function;`: pairs of a name and its function.
    pub aliases: Vec<(String, String)>,
    /// Module-level variables, in order.
    pub variables: Vec<Variable>,
    /// Kernels and device functions, in order. A declaration has no body.
    pub functions: Vec<Function>,
}

impl Module {
    /// Sets every line number to 0, so that two modules compare equal however their text is broken
    /// into lines.
    pub fn erase_lines(&mut self) {
        self.variables.iter_mut().for_each(|variable| variable.line = 0);
        for function in &mut self.functions {
            function.line = 0;
            erase_variable_lines(&mut function.returns);
            erase_variable_lines(&mut function.parameters);
            function.body.iter_mut().for_each(|body| erase_statement_lines(body));
        }
    }
}

fn erase_variable_lines(variables: &mut [Variable]) {
    variables.iter_mut().for_each(|variable| variable.line = 0);
}

fn erase_statement_lines(statements: &mut [Statement]) {
    for statement in statements {
        match statement {
            Statement::Instruction(instruction) => (instruction.line, instruction.inlined) = (0, None),
            Statement::Variable(variable) => variable.line = 0,
            Statement::Block(block) => erase_statement_lines(block),
            Statement::CallPrototype { returns, parameters, .. } => {
                erase_variable_lines(returns);
                erase_variable_lines(parameters);
            }
            _ => {}
        }
    }
}

/// `.visible`, `.extern`, `.weak`, `.common`, or nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Linkage {
    /// No linking directive.
    #[default]
    Private,
    /// `.visible`
    Visible,
    /// `.extern`
    Extern,
    /// `.weak`
    Weak,
    /// `.common`
    Common,
}

/// Where a variable lives.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum StateSpace {
    /// `.reg`
    Register,
    /// `.const`
    Constant,
    /// `.global`
    Global,
    /// `.local`
    Local,
    /// `.param`
    Parameter,
    /// `.shared`
    Shared,
    /// `.tex` and the other opaque, read-only spaces of old PTX.
    Texture,
}

/// A type word such as `.u32`, without its dot. Parsing keeps every word PTX has.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)] // each variant is the PTX word of the same spelling
pub enum Type {
    Pred,
    B8,
    B16,
    B32,
    B64,
    B128,
    U8,
    U16,
    U32,
    U64,
    S8,
    S16,
    S32,
    S64,
    F16,
    F16x2,
    Bf16,
    Bf16x2,
    Tf32,
    F32,
    F64,
    E4m3,
    E5m2,
    TexRef,
    SamplerRef,
    SurfRef,
}

impl StateSpace {
    /// The space a declaration opens with: `shared`.
    pub fn from_word(word: &str) -> Option<Self> {
        Some(match word {
            "reg" => Self::Register,
            "const" => Self::Constant,
            "global" => Self::Global,
            "local" => Self::Local,
            "param" => Self::Parameter,
            "shared" => Self::Shared,
            "tex" => Self::Texture,
            _ => return None,
        })
    }

    /// The PTX word, without its dot.
    pub fn word(self) -> &'static str {
        match self {
            Self::Register => "reg",
            Self::Constant => "const",
            Self::Global => "global",
            Self::Local => "local",
            Self::Parameter => "param",
            Self::Shared => "shared",
            Self::Texture => "tex",
        }
    }
}

/// Every type with its PTX word and its size in bytes; a predicate and an opaque handle have none.
const TYPES: [(Type, &str, u32); 26] = [
    (Type::Pred, "pred", 0),
    (Type::B8, "b8", 1),
    (Type::B16, "b16", 2),
    (Type::B32, "b32", 4),
    (Type::B64, "b64", 8),
    (Type::B128, "b128", 16),
    (Type::U8, "u8", 1),
    (Type::U16, "u16", 2),
    (Type::U32, "u32", 4),
    (Type::U64, "u64", 8),
    (Type::S8, "s8", 1),
    (Type::S16, "s16", 2),
    (Type::S32, "s32", 4),
    (Type::S64, "s64", 8),
    (Type::F16, "f16", 2),
    (Type::F16x2, "f16x2", 4),
    (Type::Bf16, "bf16", 2),
    (Type::Bf16x2, "bf16x2", 4),
    (Type::Tf32, "tf32", 4),
    (Type::F32, "f32", 4),
    (Type::F64, "f64", 8),
    (Type::E4m3, "e4m3", 1),
    (Type::E5m2, "e5m2", 1),
    (Type::TexRef, "texref", 0),
    (Type::SamplerRef, "samplerref", 0),
    (Type::SurfRef, "surfref", 0),
];

impl Type {
    /// The type of a PTX word without its dot: `u32`.
    pub fn from_word(word: &str) -> Option<Self> {
        TYPES.iter().find(|(_, name, _)| *name == word).map(|(ty, _, _)| *ty)
    }

    /// The PTX word, without its dot.
    pub fn word(self) -> &'static str {
        TYPES[self as usize].1
    }

    /// Bytes of one value in memory; 0 for predicates and opaque handles, which have no place
    /// there.
    pub fn bytes(self) -> u32 {
        TYPES[self as usize].2
    }
}

/// `.ptr .global .align 16` on a kernel parameter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PointerAttribute {
    /// The space the pointer points to; `None` is generic.
    pub space: Option<StateSpace>,
    /// The alignment it promises, in bytes.
    pub align: u32,
}

/// A variable, a register declaration or a formal parameter.
#[derive(Clone, Debug, PartialEq)]
pub struct Variable {
    /// Its state space.
    pub space: StateSpace,
    /// Its linking directive.
    pub linkage: Linkage,
    /// `.align`, in bytes.
    pub align: Option<u32>,
    /// `.v2` or `.v4`, 1 where absent.
    pub vector: u32,
    /// The element type.
    pub ty: Type,
    /// `.ptr`, on kernel parameters.
    pub pointer: Option<PointerAttribute>,
    /// The name, or the prefix of a numbered run of registers.
    pub name: String,
    /// `Some(n)` for `%r<n>`: the names `%r0` to `%r(n-1)`.
    pub numbered: Option<u32>,
    /// Array dimensions, outermost first; `None` is the empty `[]`.
    pub dimensions: Vec<Option<u64>>,
    /// What `.attribute(...)` lists, each as text: `managed`, `unified(1, 2)`.
    pub attributes: Vec<String>,
    /// The initial value: the elements of the outermost braces, or the one value of a scalar.
    pub initializer: Option<Vec<Initializer>>,
    /// The line of the text, from 1.
    pub line: u32,
}

impl Variable {
    /// Whether the declaration is of this name, which may be one of a numbered run.
    pub fn declares(&self, name: &str) -> bool {
        match self.numbered {
            None => self.name == name,
            Some(count) => is_numbered(name, &self.name, count),
        }
    }
}

/// Whether a name is one of the run `prefix<count>`.
pub(crate) fn is_numbered(name: &str, prefix: &str, count: u32) -> bool {
    let Some(number) = name.strip_prefix(prefix) else { return false };
    let is_plain =
        number == "0" || !number.starts_with('0') && number.bytes().all(|byte| byte.is_ascii_digit());
    is_plain && number.parse::<u32>().is_ok_and(|number| number < count)
}

/// One element of an initializer.
#[derive(Clone, Debug, PartialEq)]
pub enum Initializer {
    /// A number.
    Number(Number),
    /// The address of a symbol plus an offset; `generic` for `generic(symbol)`.
    Address {
        /// The symbol.
        symbol: String,
        /// Bytes past it.
        offset: i64,
        /// Whether the address is generic.
        generic: bool,
        /// `Some(mask)` for `0xFF00(symbol)`: the byte of the address that is taken.
        mask: Option<u64>,
    },
    /// A brace-enclosed group, for nested arrays.
    Group(Vec<Initializer>),
}

/// A literal.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Number {
    /// An integer, as its 64-bit two's complement.
    Integer(i64),
    /// `0fXXXXXXXX`, as bits.
    F32(u32),
    /// `0dXXXXXXXXXXXXXXXX` or a decimal floating literal, as bits.
    F64(u64),
}

/// A kernel (`.entry`) or a device function (`.func`).
#[derive(Clone, Debug, PartialEq)]
pub struct Function {
    /// `true` for `.entry`.
    pub is_entry: bool,
    /// Its linking directive.
    pub linkage: Linkage,
    /// Its name.
    pub name: String,
    /// Return parameters of a `.func`.
    pub returns: Vec<Variable>,
    /// Formal parameters.
    pub parameters: Vec<Variable>,
    /// What `.attribute(...)` lists, as for variables.
    pub attributes: Vec<String>,
    /// `.maxntid 256, 1, 1` and the like: the word without its dot, and its numbers. A `.pragma`
    /// there opens `body`.
    pub directives: Vec<(String, Vec<i64>)>,
    /// The objects in memory that the function uses, as far as its text describes them.
    pub objects: Vec<MemoryObject>,
    /// The body; `None` for a declaration.
    pub body: Option<Vec<Statement>>,
    /// The line of the text, from 1.
    pub line: u32,
}

/// An object in memory, as the author of the kernel sees it. In the text it is a comment that
/// begins with `//@`, which other readers ignore.
///
/// ```text
/// //@ dynamic_shared+1024: 16-bit bf16 in stages Swizzle<3,3,3> o 0 o (64,64,4):(64,1,4096) at 1 41 20
/// //@ output: 32-bit f32
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MemoryObject {
    /// The variable, or the parameter that points there.
    pub symbol: String,
    /// Bytes past it.
    pub offset: u64,
    /// The element's name.
    pub element: String,
    /// Bits of one element.
    pub element_bits: u32,
    /// From coordinates to elements past the place, in the notation of layouts; `None` where
    /// nothing is known but the element.
    pub layout: Option<String>,
    /// Whether the last mode of the layout is the stage of a pipeline.
    pub is_staged: bool,
    /// Where the author allocated it.
    pub location: Option<SourceLocation>,
}

/// One statement of a body.
#[derive(Clone, Debug, PartialEq)]
pub enum Statement {
    /// `name:`
    Label(String),
    /// An instruction.
    Instruction(Instruction),
    /// A `.reg`, `.shared`, `.local`, `.param`, `.global` or `.const` declaration.
    Variable(Variable),
    /// `.loc`: the source position of what follows.
    Location(SourceLocation),
    /// `{ ... }`: a scope for names.
    Block(Vec<Statement>),
    /// `name: .branchtargets a, b;`
    BranchTargets {
        /// The label of the table.
        name: String,
        /// The labels listed.
        targets: Vec<String>,
    },
    /// `name: .callprototype ...;`
    CallPrototype {
        /// The label of the prototype.
        name: String,
        /// Return parameters.
        returns: Vec<Variable>,
        /// Formal parameters.
        parameters: Vec<Variable>,
        /// `.noreturn`, `.abi_preserve 8` and the like, as in [`Function::directives`].
        directives: Vec<(String, Vec<i64>)>,
    },
    /// `name: .calltargets f, g;`
    CallTargets {
        /// The label of the list.
        name: String,
        /// The functions listed.
        targets: Vec<String>,
    },
    /// `.pragma "text";`
    Pragma(String),
}

/// `.loc file line column`: the innermost position of inlined code.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SourceLocation {
    /// The number of a `.file`.
    pub file: u32,
    /// Line, from 1.
    pub line: u32,
    /// Column, from 1; 0 where unknown.
    pub column: u32,
}

/// A call that was inlined (`function_name F, inlined_at file line column`). It is not printed,
/// because the names are in a section of debugging data.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CallSite {
    /// The label of the inlined function's name in `.debug_str`.
    pub function: String,
    /// The position of the call.
    pub at: SourceLocation,
    /// The call around it, if that was inlined too.
    pub outer: Option<Arc<CallSite>>,
}

/// One instruction.
#[derive(Clone, Debug, PartialEq)]
pub struct Instruction {
    /// `@p` or `@!p`.
    pub guard: Option<Guard>,
    /// The dotted name.
    pub opcode: Opcode,
    /// Operands as written, destination first.
    pub operands: Vec<Operand>,
    /// The line of the text, from 1.
    pub line: u32,
    /// The `.loc` in force, if any.
    pub location: Option<SourceLocation>,
    /// The call that was inlined around the location, if any.
    pub inlined: Option<Arc<CallSite>>,
    /// The bytes of the variable it names that its author meant, if it names a part of it: one
    /// array of the dynamic shared memory. In the text it is a comment after the instruction, which
    /// other readers ignore: `mov.u32 %r1, dynamic_shared; //@ bytes 1024 to 5120`.
    pub part: Option<Range<u64>>,
}

/// The predicate that guards an instruction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Guard {
    /// The predicate register.
    pub predicate: String,
    /// `true` for `@!p`.
    pub negated: bool,
}

/// An instruction's dotted name: `ld.global.v4.f32`.
#[derive(Clone, PartialEq, Eq, Hash)]
pub struct Opcode(String);

impl Opcode {
    /// Takes the dotted text, without surrounding space.
    pub fn new(text: impl Into<String>) -> Self {
        Self(text.into())
    }

    /// The whole dotted text.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The first word: `ld`.
    pub fn base(&self) -> &str {
        self.0.split('.').next().unwrap_or("")
    }

    /// The words after the first. `::` stays inside a word: `shared::cluster`.
    pub fn modifiers(&self) -> impl Iterator<Item = &str> {
        self.0.split('.').skip(1)
    }

    /// Whether `word` is among the modifiers.
    pub fn has(&self, word: &str) -> bool {
        self.modifiers().any(|modifier| modifier == word)
    }
}

impl fmt::Display for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Opcode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Opcode({})", self.0)
    }
}

/// An operand as written.
#[derive(Clone, Debug, PartialEq)]
pub enum Operand {
    /// A register, special register, label, variable or function name: `%r1`, `%tid.x`, `smem`,
    /// `$L_1`.
    Name(String),
    /// A literal.
    Number(Number),
    /// `!p`
    Not(String),
    /// `p|q`
    Pair(Box<Operand>, Box<Operand>),
    /// `{a, b, c, d}`
    Vector(Vec<Operand>),
    /// `(a, b)`: the argument or return list of a call.
    List(Vec<Operand>),
    /// `[base + offset]` or `[base, {coordinates}]`.
    Address(Address),
    /// `symbol + 8` outside brackets, as in `mov.u64 %rd, table+8`.
    Offset(String, i64),
    /// `_`
    Sink,
}

/// A memory operand.
#[derive(Clone, Debug, PartialEq)]
pub struct Address {
    /// A register or symbol, or a literal address.
    pub base: AddressBase,
    /// Bytes added to the base. `array[3]` is read as the bytes before element 3.
    pub offset: i64,
    /// What follows the base inside the brackets: coordinate vectors of TMA and texture
    /// instructions, a second address, a mask. Empty for plain loads and stores.
    pub rest: Vec<Operand>,
}

/// What an address is counted from.
#[derive(Clone, Debug, PartialEq)]
pub enum AddressBase {
    /// A register or a symbol.
    Name(String),
    /// A literal.
    Absolute(i64),
}
