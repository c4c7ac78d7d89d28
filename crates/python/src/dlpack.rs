//! Tensors of other libraries by DLPack (<https://dmlc.github.io/dlpack/latest/c_api.html>, version 1.1).

use std::ffi::c_void;
use std::ptr::NonNull;

use pyo3::exceptions::{PyAttributeError, PyTypeError};
use pyo3::prelude::*;
use pyo3::types::{PyCapsule, PyDict, PyTuple};
use warpwright_dlpack::{DataType, Tensor};

use crate::error::ArgumentError;

const CPU: i32 = 1;
const CUDA: i32 = 2;
const CUDA_HOST: i32 = 3;
/// `DLPACK_FLAG_BITMASK_READ_ONLY`.
const READ_ONLY: u64 = 1;

/// `DLManagedTensorVersioned`, as far as its tensor.
#[repr(C)]
struct Versioned {
    version: (u32, u32),
    context: *mut c_void,
    deleter: *mut c_void,
    flags: u64,
    tensor: Tensor,
}

/// What a tensor says of its memory, and the capsule that keeps it.
pub(crate) struct Described {
    pub(crate) address: u64,
    pub(crate) dtype: String,
    pub(crate) item_bytes: usize,
    pub(crate) shape: Vec<i64>,
    /// In elements.
    pub(crate) strides: Vec<i64>,
    pub(crate) is_read_only: bool,
    pub(crate) capsule: Py<PyAny>,
}

/// Reads a tensor of the host.
pub(crate) fn read(object: &Bound<'_, PyAny>) -> PyResult<Described> {
    let kind = object.get_type().name()?;
    let (device, _): (i32, i32) = object.call_method0("__dlpack_device__")?.extract()?;
    match device {
        CPU | CUDA_HOST => {}
        CUDA => {
            return Err(ArgumentError::new_err(format!(
                "this {kind} is in the memory of a GPU; pass a tensor of the host, such as `tensor.cpu()`"
            )));
        }
        other => {
            return Err(ArgumentError::new_err(format!(
                "this {kind} is on a device of DLPack's kind {other}; pass a tensor of the host"
            )));
        }
    }
    let capsule = capsule_of(object)?;
    let (tensor, is_read_only) = tensor_of(&capsule)?;
    let (dtype, item_bytes) = element(tensor)?;
    Ok(Described {
        address: tensor.address(),
        dtype,
        item_bytes,
        shape: tensor.extents().to_vec(),
        strides: tensor.strides(),
        is_read_only,
        capsule: capsule.into_any().unbind(),
    })
}

/// The capsule of a tensor: of version 1, which says whether it is read-only, where the library has that.
pub(crate) fn capsule_of<'py>(object: &Bound<'py, PyAny>) -> PyResult<Bound<'py, PyCapsule>> {
    let options = PyDict::new(object.py());
    options.set_item("max_version", (1, 1))?;
    let none = PyTuple::empty(object.py());
    let capsule = match object.call_method("__dlpack__", none, Some(&options)) {
        Err(error) if error.is_instance_of::<PyTypeError>(object.py()) => {
            object.call_method0("__dlpack__")?
        }
        other => other?,
    };
    capsule.cast_into::<PyCapsule>().map_err(|_| PyAttributeError::new_err("`__dlpack__` returns no capsule"))
}

/// The tensor of a capsule, and whether its memory must not be written.
pub(crate) fn tensor_of<'c>(capsule: &'c Bound<'_, PyCapsule>) -> PyResult<(&'c Tensor, bool)> {
    Ok(if capsule.is_valid_checked(Some(c"dltensor_versioned")) {
        let pointer: NonNull<Versioned> = capsule.pointer_checked(Some(c"dltensor_versioned"))?.cast();
        // SAFETY: a capsule of this name holds a `DLManagedTensorVersioned`, which lives until its consumer or the
        // capsule deletes it. This is no consumer: the capsule keeps its name.
        let managed = unsafe { pointer.as_ref() };
        (&managed.tensor, managed.flags & READ_ONLY != 0)
    } else {
        let pointer: NonNull<Tensor> = capsule.pointer_checked(Some(c"dltensor"))?.cast();
        // SAFETY: a capsule of this name holds a `DLManagedTensor`, which begins with its tensor.
        let tensor = unsafe { pointer.as_ref() };
        // It cannot say that its memory must not be written, and JAX's must not: NumPy decides the same.
        (tensor, true)
    })
}

/// The name of the element type, and its size.
fn element(tensor: &Tensor) -> PyResult<(String, usize)> {
    let DataType { code, bits, lanes } = tensor.data_type();
    let family = match code {
        0 => "int",
        1 => "uint",
        2 => "float",
        4 => "bfloat",
        5 => "complex",
        6 => "bool",
        // kDLFloat8_e3m4 to kDLFloat8_e8m0fnu.
        7 => "float8_e3m4",
        8 => "float8_e4m3",
        9 => "float8_e4m3b11fnuz",
        10 => "float8_e4m3fn",
        11 => "float8_e4m3fnuz",
        12 => "float8_e5m2",
        13 => "float8_e5m2fnuz",
        14 => "float8_e8m0fnu",
        _ => "",
    };
    if family.is_empty() || lanes != 1 || bits % 8 != 0 || bits == 0 {
        return Err(ArgumentError::new_err(format!(
            "this tensor has elements of DLPack's code {code}, {bits} bits and {lanes} lanes; pass elements of whole bytes"
        )));
    }
    let name = if code <= 5 { format!("{family}{bits}") } else { family.to_owned() };
    Ok((name, usize::from(bits) / 8))
}
