//! Loaded PTX and its kernels.

use std::sync::Arc;

use pyo3::prelude::*;
use warpwright::runtime::{self, ParameterKind};

use crate::error::raised;
use crate::launch::{self, Counts, Given, Shape};
use crate::shared::Shared;

/// PTX, loaded on the device of each schedule.
#[pyclass(frozen, module = "warpwright._warpwright")]
pub(crate) struct Module {
    shared: Arc<Shared>,
    loaded: Vec<runtime::Module>,
    pub(crate) ptx: Arc<str>,
}

impl Module {
    pub(crate) fn load(shared: &Arc<Shared>, ptx: &str) -> PyResult<Self> {
        let loaded: Result<_, _> = shared.parts.iter().map(|part| part.device.load_ptx(ptx)).collect();
        Ok(Self { shared: shared.clone(), loaded: loaded.map_err(raised)?, ptx: ptx.into() })
    }
}

#[pymethods]
impl Module {
    /// The names of its kernels.
    #[getter]
    fn kernels(&self) -> Vec<String> {
        self.loaded[0].kernels()
    }

    #[getter]
    fn ptx(&self) -> &str {
        &self.ptx
    }

    /// One of its kernels.
    fn kernel(&self, name: &str) -> PyResult<Kernel> {
        let functions: Result<_, _> = self.loaded.iter().map(|module| module.function(name)).collect();
        let functions: Vec<runtime::Function> = functions.map_err(raised)?;
        Ok(Kernel { shared: self.shared.clone(), functions })
    }
}

/// A kernel.
#[pyclass(frozen, module = "warpwright._warpwright")]
pub(crate) struct Kernel {
    pub(crate) shared: Arc<Shared>,
    pub(crate) functions: Vec<runtime::Function>,
}

#[pymethods]
impl Kernel {
    #[getter]
    fn name(&self) -> &str {
        self.functions[0].name()
    }

    /// Its parameters: name, bytes, and `integer`, `float`, `pointer`, `bits` or `structure`. None where only the driver can
    /// read the PTX.
    #[getter]
    fn parameters(&self) -> Option<Vec<(String, usize, &'static str)>> {
        let kind = |kind| match kind {
            ParameterKind::Bits => "bits",
            ParameterKind::Integer => "integer",
            ParameterKind::Float => "float",
            ParameterKind::Pointer => "pointer",
            ParameterKind::Array => "structure",
        };
        let parameters = self.functions[0].parameters()?;
        let described = parameters
            .iter()
            .map(|parameter| (parameter.name.clone(), parameter.bytes, kind(parameter.kind)));
        Some(described.collect())
    }

    /// Registers of a thread (0 on the emulator), static shared memory of a CTA in bytes, and the most threads of a CTA.
    fn attributes(&self) -> (u32, u32, u32) {
        let attributes = self.functions[0].attributes();
        (attributes.registers_per_thread, attributes.shared_bytes, attributes.threads_per_cta)
    }

    /// Runs the kernel under each schedule and waits for its end. `keep` leaves arrays as they were.
    #[pyo3(signature = (shape, arguments, keep))]
    fn launch(&self, py: Python<'_>, shape: Shape, arguments: Vec<Given>, keep: bool) -> PyResult<Counts> {
        self.shared.expect_own_process()?;
        launch::run(py, self, &shape, &arguments, keep)
    }
}
