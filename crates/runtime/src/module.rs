//! Loaded modules and their kernels.

use std::panic::Location;
use std::sync::Arc;

use smallvec::SmallVec;
use warpwright_arch::Occupancy;
use warpwright_ir as ir;
use warpwright_ptx::syntax;

use crate::allocation::Allocation;
use crate::arguments::{Argument, KernelArguments, MANY_ARGUMENTS};
use crate::attributes::{KernelAttributes, LaunchCounts};
use crate::backend::{Backend, Call, LoadedKernel, LoadedModule, Packed};
use crate::buffer::{Buffer, Storable};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::launch::Launch;
use crate::launch_check::Requirements;
use crate::launch_log::LaunchRecord;
use crate::node::Node;
use crate::signature::{self, Parameter};
use crate::stream::Stream;

impl Device {
    /// Loads PTX text.
    ///
    /// # Errors
    /// The text is not valid PTX, or the device cannot run it. The message names the lines.
    pub fn load_ptx(&self, text: &str) -> Result<Module> {
        let backend = self.backend.rehearses.as_ref().unwrap_or(&self.backend);
        let parsed = match warpwright_ptx::parse(text) {
            Ok(module) => Some(Arc::new(module)),
            // The driver may be newer than this parser, and decides what is valid PTX.
            Err(_) if !backend.properties.is_emulated => None,
            Err(error) => return Err(error.into()),
        };
        let loaded = self.backend.loader.clone().load(text, parsed.as_deref())?;
        Ok(Module { backend: backend.clone(), loaded, ptx: text.into(), parsed })
    }
}

/// PTX loaded on a device.
#[derive(Clone)]
pub struct Module {
    backend: Arc<Backend>,
    loaded: Arc<dyn LoadedModule>,
    ptx: Arc<str>,
    /// Absent if only the driver can parse the text.
    parsed: Option<Arc<syntax::Module>>,
}

impl Module {
    /// The device it is loaded on.
    pub fn device(&self) -> Device {
        Device { backend: self.backend.clone() }
    }

    pub(crate) fn loaded(&self) -> &Arc<dyn LoadedModule> {
        &self.loaded
    }

    /// The names of its kernels; empty if only the driver can parse the text.
    pub fn kernels(&self) -> Vec<String> {
        self.entries().map(|entry| entry.name.clone()).collect()
    }

    fn entries(&self) -> impl Iterator<Item = &syntax::Function> {
        self.parsed.iter().flat_map(|module| signature::entries(module))
    }

    /// One of its kernels.
    ///
    /// # Errors
    /// The module has no kernel of that name.
    pub fn function(&self, name: &str) -> Result<Function> {
        let no_such_kernel = || Error::NoSuchKernel { name: name.to_owned(), known: self.kernels() };
        let loaded = self.loaded.clone().kernel(name)?.ok_or_else(no_such_kernel)?;
        let entry = self.entries().find(|entry| entry.name == name);
        let requirements = entry.map(Requirements::of).unwrap_or_default();
        Ok(Function { module: self.clone(), name: name.into(), loaded, requirements })
    }

    /// A `.global` or `.const` variable as a buffer: `__device__` and `__constant__` variables of
    /// CUDA, which `cudaMemcpyToSymbol` writes. The module stays loaded as long as the buffer lives.
    ///
    /// ```
    /// # use warpwright_runtime::Device;
    /// # let device = Device::named("emu:h200")?; let ptx = include_str!("../tests/ptx/vector.ptx");
    /// let module = device.load_ptx(ptx)?;
    /// let mut table = module.variable::<u32>("table")?;
    /// table.copy_from(&[1, 2, 3, 4])?;
    /// assert_eq!(table.to_vec()?, [1, 2, 3, 4]);
    /// # Ok::<(), warpwright_runtime::Error>(())
    /// ```
    ///
    /// # Errors
    /// The module has no variable of that name, or its size is not a multiple of an element's.
    pub fn variable<T: Storable>(&self, name: &str) -> Result<Buffer<T>> {
        let no_such_variable = || Error::NoSuchVariable { name: name.to_owned(), known: self.variables() };
        let (address, bytes) = self.loaded.variable(name)?.ok_or_else(no_such_variable)?;
        if !bytes.is_multiple_of(size_of::<T>()) {
            let (name, element, element_bytes) = (name.to_owned(), T::NAME, size_of::<T>());
            return Err(Error::VariableElement { name, bytes, element, element_bytes });
        }
        let allocation = Allocation::of_module(&self.backend, &self.loaded, address, bytes);
        // Every kernel of the module reaches it without an argument.
        allocation.expose();
        Ok(Buffer::over(allocation))
    }

    /// The names of its `.global` and `.const` variables; empty if only the driver can parse the text.
    pub fn variables(&self) -> Vec<String> {
        let variables = self.parsed.iter().flat_map(|module| &module.variables);
        let in_memory = |variable: &&syntax::Variable| {
            matches!(variable.space, syntax::StateSpace::Global | syntax::StateSpace::Constant)
        };
        variables.filter(in_memory).map(|variable| variable.name.clone()).collect()
    }
}

impl std::fmt::Debug for Module {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Module({})", self.kernels().join(", "))
    }
}

/// A kernel of a module.
#[derive(Clone)]
pub struct Function {
    module: Module,
    name: Arc<str>,
    loaded: Arc<dyn LoadedKernel>,
    requirements: Requirements,
}

impl Function {
    /// Its name in the PTX.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The device it is loaded on.
    pub fn device(&self) -> Device {
        self.module.device()
    }

    /// The PTX of its module.
    pub fn ptx(&self) -> &Arc<str> {
        &self.module.ptx
    }

    /// Its resources, as the assembler reports them.
    pub fn attributes(&self) -> &KernelAttributes {
        self.loaded.attributes()
    }

    /// Its parameters; `None` if only the driver can parse the text.
    pub fn parameters(&self) -> Option<&[Parameter]> {
        self.requirements.parameters()
    }

    /// The same kernel, with what its description says that its PTX does not.
    pub(crate) fn described_by(self, kernel: &ir::Kernel) -> Self {
        Self { requirements: self.requirements.described_by(kernel), ..self }
    }

    pub(crate) fn loaded(&self) -> &Arc<dyn LoadedKernel> {
        &self.loaded
    }

    pub(crate) fn requirements(&self) -> &Requirements {
        &self.requirements
    }

    /// The number of CTAs per SM for a launch, and what limits it.
    ///
    /// # Errors
    /// No CTA fits an SM.
    pub fn occupancy(&self, launch: &Launch) -> Result<Occupancy> {
        launch.occupancy(&self.name, self.attributes(), self.module.backend.properties.capability)
    }

    /// The maximum number of clusters that are resident at the same time for a launch. A cluster
    /// runs in one GPC, and GPCs have different numbers of SMs, so this may be fewer than the SMs
    /// together have room for. On a GPU the driver computes it.
    ///
    /// # Errors
    /// No CTA fits an SM.
    pub fn resident_clusters(&self, launch: &Launch) -> Result<u32> {
        let ctas: u32 = launch.cluster.0.iter().product();
        let by_occupancy =
            self.occupancy(launch)?.ctas_per_sm * self.module.backend.properties.sm_count / ctas;
        Ok(self.loaded.resident_clusters(launch)?.unwrap_or(by_occupancy).max(1))
    }

    /// Starts the kernel on a stream.
    ///
    /// On a GPU the call returns immediately, and a later synchronization reports a fault. The
    /// emulator returns when the kernel is complete, with its fault if it has one.
    ///
    /// # Errors
    /// The launch or an argument does not fit the kernel or the device, a buffer is half-written,
    /// or the kernel failed.
    #[track_caller]
    pub fn launch(
        &self,
        stream: &Stream,
        launch: Launch,
        arguments: impl KernelArguments,
    ) -> Result<LaunchCounts> {
        let call = Location::caller();
        let arguments = arguments.arguments();
        self.requirements.check_types(&self.name, &launch, &arguments)?;
        self.launch_with(stream, launch, &arguments, call)
    }

    /// Starts the kernel with these arguments, with the extents that its PTX requires. A launch does
    /// not allocate or lock on the host, unless the stream is captured.
    pub(crate) fn launch_with(
        &self,
        stream: &Stream,
        launch: Launch,
        arguments: &[Argument<'_>],
        call: Call,
    ) -> Result<LaunchCounts> {
        let backend = &stream.backend;
        let loaded = (&self.module.backend, self.attributes());
        self.requirements.check(&self.name, &launch, arguments, loaded, backend)?;
        let parameters = self.parameters();
        let packed: SmallVec<[Packed<'_>; MANY_ARGUMENTS]> = arguments
            .iter()
            .enumerate()
            .map(|(index, argument)| {
                let bytes = argument.as_bytes();
                let align = parameters.map_or(bytes.len(), |parameters| parameters[index].align);
                Packed { bytes, align }
            })
            .collect();
        backend.log.add(|| self.record(launch));
        if let Some(recording) = stream.recording() {
            recording.add(Node::launch((&self.name, &self.loaded), launch, arguments, &packed, call));
            return Ok(LaunchCounts::default());
        }
        if backend.is_dry_run {
            return Ok(LaunchCounts::default());
        }
        let written = arguments.iter().flat_map(Argument::written);
        Allocation::mark_after_fault(
            self.loaded.launch(stream.handle, &launch, &packed, call),
            written,
            (backend, &self.name),
        )
    }

    /// The log record of a launch.
    fn record(&self, launch: Launch) -> LaunchRecord {
        let mut attributes = *self.attributes();
        if attributes.registers_per_thread == 0 {
            let entry = self.module.entries().find(|entry| *entry.name == *self.name);
            let directives = entry.iter().flat_map(|entry| &entry.directives);
            let most =
                directives.filter(|(word, _)| word == "maxnreg").find_map(|(_, numbers)| numbers.first());
            attributes.registers_per_thread = most.map_or(0, |most| *most as u32);
        }
        let capability = self.module.backend.properties.capability;
        LaunchRecord {
            kernel: self.name.clone(),
            ptx: self.module.ptx.clone(),
            launch,
            attributes,
            capability,
        }
    }
}

impl std::fmt::Debug for Function {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Function({})", self.name)
    }
}
