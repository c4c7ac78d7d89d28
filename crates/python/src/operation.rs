//! The operations of the kernel library on tensors where they are: on a GPU in the current stream of their library, on
//! the host by an emulated GPU.

use std::cell::RefCell;
use std::ffi::{c_int, c_void};
use std::ptr::{NonNull, null_mut};

use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyTuple, PyType};
use serde_json::Value;
use warpwright::runtime;
use warpwright_cli::findings::Findings;
use warpwright_dlpack::{Argument, DeviceType, Error, Kind, OPERATIONS, Tensor};
use warpwright_kernels::operations::OperationError;

use crate::device::Device;
use crate::dlpack::{capsule_of, tensor_of};
use crate::error::{ArgumentError, WarpwrightError, found, raised};
use crate::launch::interruptible;

/// An operation of the library.
#[pyclass(frozen, module = "warpwright._warpwright")]
pub(crate) struct Operation {
    row: &'static warpwright_dlpack::Operation,
}

#[pymethods]
impl Operation {
    #[getter]
    fn name(&self) -> &'static str {
        self.row.name
    }

    #[getter]
    fn documentation(&self) -> &'static str {
        self.row.documentation.trim()
    }

    /// The names of the parameters, and whether each is a tensor that is written.
    #[getter]
    fn parameters(&self) -> Vec<(&'static str, bool)> {
        let is_written = |kind| matches!(kind, Kind::Output | Kind::OptionalOutput);
        self.row.parameters.iter().map(|parameter| (parameter.name, is_written(parameter.kind))).collect()
    }

    /// Enqueues the operation: in `stream`, or in the current stream of the tensors' library.
    #[pyo3(signature = (*arguments, stream = None))]
    fn __call__(&self, arguments: &Bound<'_, PyTuple>, stream: Option<u64>) -> PyResult<()> {
        let py = arguments.py();
        let mut given = Vec::with_capacity(arguments.len());
        for (index, argument) in arguments.iter_borrowed().enumerate() {
            let kind = self.row.parameters.get(index).map(|parameter| parameter.kind);
            given.push(Passed::of(&argument, kind, self.row, index)?);
        }
        let converted: Vec<_> = given.iter().map(Passed::argument).collect();
        let device = given.iter().find_map(|passed| match passed {
            Passed::Tensor { tensor, api, .. } => Some((tensor.device().ok()?, *api)),
            Passed::Value(_) => None,
        });
        let outcome = match device {
            Some(((DeviceType::Cuda, ordinal), api)) => {
                let stream = match (stream, api) {
                    (Some(stream), _) => stream as *mut c_void,
                    (None, Some(api)) => api.stream(ordinal)?,
                    (None, None) => null_mut(),
                };
                // SAFETY: the arguments keep their tensors during the call. Behind it, their library frees memory in the
                // order of the stream.
                unsafe { self.row.call(&converted, stream) }
            }
            _ => {
                let converted = Shareable(&converted);
                // SAFETY: as above; the work is done when the call returns.
                let call = move |_: &_| unsafe { self.row.call(converted.get(), null_mut()) };
                interruptible(py, warpwright_dlpack::interrupt, call)?
            }
        };
        outcome.map_err(operation_raised)
    }
}

/// All operations, in the order of the table.
#[pyfunction]
pub(crate) fn operations() -> Vec<Operation> {
    OPERATIONS.iter().map(|row| Operation { row }).collect()
}

/// Computes on tensors of the host with this device from now on.
#[pyfunction]
pub(crate) fn emulate(device: &Device) {
    warpwright_dlpack::emulate(device.shared.first());
}

/// Frees the memory that captured calls keep for their graphs.
#[pyfunction]
pub(crate) fn release_captured(py: Python<'_>) {
    py.detach(warpwright_dlpack::release_captured);
}

/// Arguments for another thread, which uses them while this one waits.
struct Shareable<'c>(&'c [Argument<'c>]);

// SAFETY: tensors are descriptions that nothing changes during the call.
unsafe impl Send for Shareable<'_> {}

impl<'c> Shareable<'c> {
    fn get(&self) -> &'c [Argument<'c>] {
        self.0
    }
}

/// An argument with what keeps its tensor.
enum Passed {
    Tensor { tensor: Tensor, api: Option<&'static Exchange>, _capsule: Option<Py<PyAny>> },
    Value(Argument<'static>),
}

impl Passed {
    fn of(
        object: &Bound<'_, PyAny>,
        kind: Option<Kind>,
        row: &'static warpwright_dlpack::Operation,
        index: usize,
    ) -> PyResult<Self> {
        if object.is_none() {
            return Ok(Self::Value(Argument::None));
        }
        match kind {
            Some(Kind::Integer) => Ok(Self::Value(Argument::Integer(object.extract()?))),
            Some(Kind::Float) => Ok(Self::Value(Argument::Float(object.extract()?))),
            _ => Self::of_tensor(object).map_err(|error| {
                let py = object.py();
                if error.is_instance_of::<pyo3::exceptions::PyAttributeError>(py) {
                    let name = row.parameters.get(index).map_or("an argument", |parameter| parameter.name);
                    let kind =
                        object.get_type().name().map_or_else(|_| String::new(), |name| name.to_string());
                    ArgumentError::new_err(format!("{}: {name} takes a tensor, not `{kind}`", row.name))
                } else {
                    error
                }
            }),
        }
    }

    fn of_tensor(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Some(api) = Exchange::of(&object.get_type())
            && let Some(describe) = api.describe
        {
            let mut tensor = std::mem::MaybeUninit::<Tensor>::uninit();
            // SAFETY: the function takes an object of the type that it was found at, and fills the tensor if it
            // returns 0. The tensor's memory is the object's, which the caller keeps during the call.
            if unsafe { describe(object.as_ptr().cast(), tensor.as_mut_ptr()) } != 0 {
                return Err(PyErr::fetch(object.py()));
            }
            // SAFETY: it was filled.
            let tensor = unsafe { tensor.assume_init() };
            return Ok(Self::Tensor { tensor, api: Some(api), _capsule: None });
        }
        let capsule: Bound<'_, PyCapsule> = capsule_of(object)?;
        let (tensor, _) = tensor_of(&capsule)?;
        Ok(Self::Tensor { tensor: *tensor, api: None, _capsule: Some(capsule.into_any().unbind()) })
    }

    fn argument(&self) -> Argument<'_> {
        match self {
            Self::Tensor { tensor, .. } => Argument::Tensor(tensor),
            Self::Value(value) => *value,
        }
    }
}

/// `DLPackExchangeAPI`, version 1: functions of a tensor type that need no Python.
#[repr(C)]
struct Exchange {
    version: (u32, u32),
    previous: *const Self,
    allocate: *const c_void,
    from_object: *const c_void,
    to_object: *const c_void,
    describe: Option<unsafe extern "C" fn(*mut c_void, *mut Tensor) -> c_int>,
    current_stream: Option<unsafe extern "C" fn(c_int, i32, *mut *mut c_void) -> c_int>,
}

thread_local! {
    /// The functions of each type that was asked for, by its address. Types of tensors live until the process ends.
    static FOUND: RefCell<Vec<(usize, Option<&'static Exchange>)>> = const { RefCell::new(Vec::new()) };
}

impl Exchange {
    fn of(class: &Bound<'_, PyType>) -> Option<&'static Self> {
        let key = class.as_ptr() as usize;
        let known = FOUND.with_borrow(|found| found.iter().find(|(of, _)| *of == key).map(|(_, api)| *api));
        known.unwrap_or_else(|| {
            let api = Self::ask(class);
            FOUND.with_borrow_mut(|found| found.push((key, api)));
            api
        })
    }

    fn ask(class: &Bound<'_, PyType>) -> Option<&'static Self> {
        let capsule = class.getattr("__dlpack_c_exchange_api__").ok()?.cast_into::<PyCapsule>().ok()?;
        let pointer: NonNull<Self> = capsule.pointer_checked(Some(c"dlpack_exchange_api")).ok()?.cast();
        // SAFETY: a capsule of this name holds a table of functions that lives as long as the process.
        let api = unsafe { pointer.as_ref() };
        (api.version.0 == 1).then_some(api)
    }

    /// The current stream of a GPU.
    fn stream(&self, ordinal: i32) -> PyResult<*mut c_void> {
        let mut stream = null_mut();
        let Some(ask) = self.current_stream else { return Ok(stream) };
        // SAFETY: 2 is kDLCUDA, and the pointer is valid for the call.
        if unsafe { ask(2, ordinal, &mut stream) } != 0 {
            return Err(WarpwrightError::new_err(
                "the library of the tensors does not tell its current stream",
            ));
        }
        Ok(stream)
    }
}

fn operation_raised(error: Error) -> PyErr {
    match error {
        Error::Runtime(error) | Error::Operation(OperationError::Runtime(error)) => runtime_raised(error),
        other => ArgumentError::new_err(other.to_string()),
    }
}

fn runtime_raised(error: runtime::Error) -> PyErr {
    if let runtime::Error::Fault { .. } = error {
        let mut findings = Findings::default();
        findings.add(runtime::Schedule::Eager, error.findings());
        return found(&error.to_string(), &Value::from(findings.json()), true);
    }
    raised(error)
}
