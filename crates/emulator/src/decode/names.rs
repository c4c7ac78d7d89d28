//! The meaning of names in a function's body.

use std::collections::HashMap;

use warpwright_ptx::syntax::Type;

use crate::registers::Slot;

/// A register file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum File {
    Word,
    Long,
    /// Two longs.
    Quad,
    Predicate,
}

impl File {
    /// The file that registers of a type live in.
    pub(crate) fn of(ty: Type) -> File {
        match (ty, ty.bytes()) {
            (Type::Pred, _) => File::Predicate,
            (_, 8) => File::Long,
            (_, 16) => File::Quad,
            (_, 0) => File::Long,
            _ => File::Word,
        }
    }

    /// The size of its registers in 32-bit registers of the hardware.
    pub(crate) fn words(self) -> u8 {
        match self {
            File::Predicate => 0,
            File::Word => 1,
            File::Long => 2,
            File::Quad => 4,
        }
    }
}

/// A register.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Register {
    pub(crate) file: File,
    pub(crate) slot: Slot,
    pub(crate) ty: Type,
}

/// The meaning of a name.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Symbol {
    Register(Register),
    /// A `.v2` or `.v4` register.
    Vector(Vec<Register>),
    /// A variable in shared memory, at an offset.
    Shared(u32),
    /// An `extern .shared` array: dynamic shared memory.
    DynamicShared,
    /// A local variable, or a `.param` variable of a device function, in the frame.
    Local {
        offset: u32,
        size: u32,
    },
    /// A parameter of the kernel.
    KernelParameter {
        offset: u32,
    },
    /// A global or constant variable, or a literal address.
    Global(u64),
    /// A function, by its index in the module.
    Function(u32),
    /// A label, by number.
    Label(u32),
    /// A `.branchtargets` list.
    Targets(Vec<u32>),
    /// A `.callprototype` or `.calltargets`.
    Prototype,
}

/// `.reg .b32 %r<100>`, or of vectors of registers: `.reg .v2 .b16 %h<4>`.
#[derive(Debug)]
struct Run {
    prefix: String,
    count: u32,
    kind: RegisterKind,
}

/// The declared type of a register.
#[derive(Clone, Copy, Debug)]
pub(crate) struct RegisterKind {
    pub(crate) ty: Type,
    /// The registers of a vector, 1 for a scalar.
    pub(crate) vector: u32,
}

/// The names of one pair of braces.
#[derive(Debug, Default)]
pub(crate) struct Scope {
    symbols: HashMap<String, Symbol>,
    /// Registers of runs get slots when they are first named.
    runs: Vec<Run>,
}

impl Scope {
    pub(crate) fn insert(&mut self, name: impl Into<String>, symbol: Symbol) {
        self.symbols.insert(name.into(), symbol);
    }

    pub(crate) fn insert_run(&mut self, prefix: &str, count: u32, kind: RegisterKind) {
        self.runs.push(Run { prefix: prefix.to_owned(), count, kind });
    }

    pub(crate) fn get(&self, name: &str) -> Option<&Symbol> {
        self.symbols.get(name)
    }

    /// The kind of a register of a run, if the name is one.
    pub(crate) fn of_run(&self, name: &str) -> Option<RegisterKind> {
        self.runs.iter().find_map(|run| {
            let number = name.strip_prefix(run.prefix.as_str())?;
            let plain = number == "0" || !number.starts_with('0');
            (plain && number.bytes().all(|byte| byte.is_ascii_digit()))
                .then(|| number.parse::<u32>().ok())
                .flatten()
                .filter(|number| *number < run.count)
                .map(|_| run.kind)
        })
    }
}

/// The position of a component of a vector: `.x` and `.r` are the first.
pub(crate) fn component(axis: &str) -> Option<usize> {
    [["x", "r"], ["y", "g"], ["z", "b"], ["w", "a"]].iter().position(|names| names.contains(&axis))
}
