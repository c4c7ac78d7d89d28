//! Kernels that are written to one PTX text.

use warpwright_arch::Capability;

use crate::kernel::Kernel;

/// Kernels for one architecture: what becomes one PTX module.
#[derive(Clone, Debug, PartialEq)]
pub struct Module {
    /// The compute capability whose instructions the kernels may use; it gives `.target`.
    pub capability: &'static Capability,
    /// The kernels, in the order they are written.
    pub kernels: Vec<Kernel>,
}

impl Module {
    /// A module of `kernels` for `capability`.
    pub fn new(capability: &'static Capability, kernels: Vec<Kernel>) -> Self {
        Self { capability, kernels }
    }

    /// The `.version` to declare: the oldest that knows the target, so that the oldest possible driver takes the text.
    pub fn version(&self) -> (u32, u32) {
        self.capability.ptx_version
    }
}
