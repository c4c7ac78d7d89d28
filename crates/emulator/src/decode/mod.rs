//! From the syntax tree to operations that are ready to execute.
//!
//! Names become register slots, offsets and addresses; immediates and special registers become columns that are filled
//! when a warp starts, so that an operation reads nothing but registers. Every kernel is decoded with copies of the
//! functions it may call, so that its shared memory is laid out for it alone.

mod description;
mod function;
mod grid_workspace;
mod kernel;
mod names;
mod operand;
mod variables;
mod words;

use warpwright_arch::Arch;
use warpwright_ptx::syntax::Module;

pub(crate) use function::FunctionDecoder;
pub(crate) use names::{File, Register, Symbol};
pub(crate) use operand::{AddressOperand, BaseOperand};
pub(crate) use words::Words;

use crate::memory::Memory;
use crate::program::{LoadError, Program};

/// What is wrong with an instruction or a declaration, before it is known where it stands.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DecodeError(String);

impl DecodeError {
    pub(crate) fn new(message: impl Into<String>) -> Self {
        Self(message.into())
    }

    pub(crate) fn at(self, function: Option<&str>, line: u32, text: String) -> LoadError {
        LoadError { function: function.map(str::to_owned), line, text, message: self.0 }
    }
}

/// Decodes a module, and places its variables in memory.
pub(crate) fn load(module: &Module, arch: &'static Arch, memory: &mut Memory) -> Result<Program, LoadError> {
    if let Some(target) = module.target.first()
        && !arch.capability.runs(target)
    {
        return Err(DecodeError::new(format!(
            "The module is for {target}, which {} ({}) does not run.",
            arch.product, arch.capability.target
        ))
        .at(None, 0, String::new()));
    }
    let variables = variables::place(module, memory)?;
    let workspace = grid_workspace::GridWorkspace::place(module, memory)?;
    let kernels = kernel::decode_all(module, &variables, workspace)?;
    Ok(Program { kernels: kernels.into(), variables: variables.into() })
}
