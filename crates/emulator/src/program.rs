//! A loaded module.

use std::collections::BTreeMap;
use std::sync::Arc;

use crate::kernel::image::Kernel;
use crate::operation::kind::Operation;

/// A module whose kernels can be launched on the emulator that loaded it.
#[derive(Clone, Debug)]
pub struct Program {
    pub(crate) kernels: Arc<BTreeMap<String, LoadedKernel>>,
    pub(crate) variables: Arc<BTreeMap<String, ModuleVariable>>,
}

/// A module variable in global or constant memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ModuleVariable {
    /// Its address.
    pub address: u64,
    /// Its size in bytes.
    pub size: u64,
}

impl Program {
    /// The names of the kernels, in order.
    pub fn kernels(&self) -> impl Iterator<Item = &str> {
        self.kernels.keys().map(String::as_str)
    }

    /// A kernel by name.
    pub fn kernel(&self, name: &str) -> Option<&Kernel> {
        self.loaded(name).map(|loaded| &loaded.kernel)
    }

    pub(crate) fn loaded(&self, name: &str) -> Option<&LoadedKernel> {
        self.kernels.get(name)
    }

    /// A `.global` or `.const` variable of the module by name.
    pub fn variable(&self, name: &str) -> Option<ModuleVariable> {
        self.variables.get(name).copied()
    }
}

/// A kernel and its operations.
#[derive(Debug)]
pub(crate) struct LoadedKernel {
    pub(crate) kernel: Kernel,
    /// The operations of all its functions, one after another; the kernel's own first.
    pub(crate) operations: Vec<Operation>,
}
