//! The seam of loading: modules, their variables and kernels, and launches.

use std::sync::Arc;

use warpwright_ptx::syntax;

use super::streams::{Call, Handle};
use crate::attributes::{KernelAttributes, LaunchCounts};
use crate::error::Result;
use crate::launch::Launch;

/// Loads modules on one device.
pub(crate) trait Loader: Send + Sync {
    /// Loads a module. `parsed` is the syntax tree of `ptx`; it is absent if only the driver can
    /// parse the text.
    fn load(self: Arc<Self>, ptx: &str, parsed: Option<&syntax::Module>) -> Result<Arc<dyn LoadedModule>>;
}

/// A module loaded on a device.
pub(crate) trait LoadedModule: Send + Sync {
    /// The kernel of that name, or `None`. The kernel keeps the module loaded.
    fn kernel(self: Arc<Self>, name: &str) -> Result<Option<Arc<dyn LoadedKernel>>>;
    /// Address and size of a global variable, or `None`.
    fn variable(&self, name: &str) -> Result<Option<(u64, usize)>>;
}

/// A kernel of a loaded module. It caches what a launch needs.
pub(crate) trait LoadedKernel: Send + Sync {
    fn attributes(&self) -> &KernelAttributes;
    /// The maximum number of clusters of a launch that are resident at the same time, or `None` if
    /// the device does not report it.
    fn resident_clusters(&self, _launch: &Launch) -> Result<Option<u32>> {
        Ok(None)
    }
    fn launch(
        &self,
        stream: Handle,
        launch: &Launch,
        arguments: &[Packed<'_>],
        call: Call,
    ) -> Result<LaunchCounts>;
}

/// One argument, as it is in the parameter bank.
pub(crate) struct Packed<'a> {
    /// Its bytes.
    pub(crate) bytes: &'a [u8],
    /// The alignment of its parameter.
    pub(crate) align: usize,
}
