//! Loading a module: its kernels, each decoded with the functions that it may call.

mod function;
mod kernel;

use warpwright_arch::Arch;
use warpwright_ptx::VerifyError;
use warpwright_ptx::syntax::Module;

use crate::decode::{DecodeError, grid_workspace, variables};
use crate::load_error::LoadError;
use crate::memory::Memory;
use crate::program::Program;

/// Verifies a module, decodes it, and allocates its variables.
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
    if let Some(error) = warpwright_ptx::verify(module).into_iter().next() {
        let VerifyError { function, line, text, message } = error;
        return Err(LoadError { function, line, text, message });
    }
    let variables = variables::place(module, memory)?;
    let workspace = grid_workspace::GridWorkspace::place(module, memory)?;
    let kernels = kernel::decode_all(module, &variables, workspace, arch.capability)?;
    Ok(Program { kernels: kernels.into(), variables: variables.of_module.into() })
}
