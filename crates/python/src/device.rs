//! Devices.

use std::sync::{Arc, Mutex, PoisonError};

use pyo3::prelude::*;
use warpwright::runtime;
use warpwright_cli::{inputs, results};

use crate::buffer::Buffer;
use crate::error::{ArgumentError, DeviceError, OutOfMemoryError, raised};
use crate::kernel::Module;
use crate::shared::{Part, Shared};

/// A GPU, or an emulated one.
#[pyclass(frozen, module = "warpwright._warpwright")]
pub(crate) struct Device {
    pub(crate) shared: Arc<Shared>,
    checked: bool,
}

#[pymethods]
impl Device {
    /// Opens a device.
    #[new]
    #[pyo3(signature = (name, *, check, schedules, count, time, limit))]
    fn new(
        name: &str,
        check: bool,
        schedules: Vec<String>,
        count: bool,
        time: bool,
        limit: Option<&str>,
    ) -> PyResult<Self> {
        let limit = limit.map(inputs::limit).transpose().map_err(|reason| {
            ArgumentError::new_err(format!(
                "`limit` is {limit:?}: {reason}",
                limit = limit.unwrap_or_default()
            ))
        })?;
        if schedules.is_empty() {
            return Err(ArgumentError::new_err("`schedules` is empty; name one or more, such as `eager`"));
        }
        let printed: Arc<Mutex<String>> = Arc::default();
        let mut parts: Vec<Part> = Vec::new();
        for text in &schedules {
            let schedule = inputs::schedule(text)
                .map_err(|reason| ArgumentError::new_err(format!("the schedule is {text:?}: {reason}")))?;
            if parts.iter().any(|part| part.schedule == schedule) {
                return Err(ArgumentError::new_err(format!("the schedule {text:?} is named twice")));
            }
            let mut device = runtime::Device::with_schedule(name, schedule).map_err(raised)?;
            if device.properties().is_emulated {
                let text = printed.clone();
                let print = move |line: &str| {
                    text.lock().unwrap_or_else(PoisonError::into_inner).push_str(line);
                };
                device = device.printing_to(print).map_err(raised)?;
            } else if schedules.len() > 1 {
                return Err(DeviceError::new_err(format!(
                    "{name} is a GPU, which has no schedules; name none"
                )));
            }
            if check {
                device = device.checked().map_err(raised)?;
            }
            if count {
                device = device.counted().map_err(raised)?;
            }
            if time {
                device = device.timed().map_err(raised)?;
            }
            if let Some(limit) = limit {
                device = device.limited(limit).map_err(raised)?;
            }
            let stream = device.stream().map_err(raised)?;
            parts.push(Part { schedule, device, stream });
        }
        let shared = Shared { parts, printed, process: std::process::id() };
        Ok(Self { shared: Arc::new(shared), checked: check })
    }

    /// The name that selects it.
    #[getter]
    fn name(&self) -> &str {
        self.shared.first().name()
    }

    #[getter]
    fn is_emulated(&self) -> bool {
        self.shared.is_emulated()
    }

    #[getter]
    fn is_checked(&self) -> bool {
        self.checked
    }

    /// Product, PTX target, SMs, bytes of memory, and the boost clock in MHz.
    fn properties(&self) -> (String, String, u32, u64, u32) {
        let properties = self.shared.first().properties();
        let (product, target) = (properties.product.clone(), properties.target.clone());
        (product, target, properties.sm_count, properties.global_bytes, properties.boost_mhz)
    }

    /// Registers of an SM, bytes of shared memory that a CTA may have, threads of a CTA, and the compute capability.
    fn limits(&self) -> (u32, u32, u32, (u32, u32)) {
        let limits = self.shared.first().properties().capability;
        let registers = limits.registers_per_sm;
        (registers, limits.shared_bytes_per_cta_opt_in, limits.threads_per_cta, limits.compute_capability)
    }

    /// Loads PTX text.
    fn load(&self, py: Python<'_>, ptx: &str) -> PyResult<Module> {
        self.shared.expect_own_process()?;
        py.detach(|| Module::load(&self.shared, ptx))
    }

    /// A new buffer of undefined contents.
    fn empty(&self, py: Python<'_>, bytes: u64) -> PyResult<Buffer> {
        self.shared.expect_own_process()?;
        let length =
            usize::try_from(bytes).map_err(|_| OutOfMemoryError::new_err("more bytes than addresses"))?;
        py.detach(|| Buffer::new(&self.shared, length))
    }

    /// The prediction of the launches since the previous call, as JSON and as text.
    fn take_times(&self, name: &str) -> (String, String) {
        let device = self.shared.first();
        let answer = results::time(name, device.name(), &device.take_predictions());
        (answer.json.to_string(), answer.text)
    }

    /// What the launches since the previous call did, as JSON and as text. They are of kernels of `module`.
    fn take_report(&self, name: &str, module: &Module) -> PyResult<(String, String)> {
        let device = self.shared.first();
        let answer = results::report(name, device.name(), device.take_counters(), &module.ptx);
        let answer = answer.map_err(|error| DeviceError::new_err(error.to_string()))?;
        Ok((answer.json.to_string(), answer.text))
    }
}
