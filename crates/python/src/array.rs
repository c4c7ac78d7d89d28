//! Arrays of the host: NumPy's by their array interface, all others by DLPack.

use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::dlpack;
use crate::error::ArgumentError;
use crate::host::Range;

/// An array of the host, described; it keeps the object that owns the memory.
#[pyclass(frozen, module = "warpwright._warpwright")]
pub(crate) struct HostArray {
    /// The first element.
    #[pyo3(get)]
    address: u64,
    /// The element type, as its library names it.
    #[pyo3(get)]
    dtype: String,
    #[pyo3(get)]
    item_bytes: usize,
    #[pyo3(get)]
    shape: Vec<i64>,
    /// Strides in elements.
    #[pyo3(get)]
    strides: Vec<i64>,
    /// All bytes that elements are in.
    range: Range,
    _owner: Py<PyAny>,
}

#[pymethods]
impl HostArray {
    /// Describes an array.
    #[new]
    fn new(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        if let Ok(interface) = object.getattr("__array_interface__") {
            return Self::of_numpy(object, &interface.cast_into()?);
        }
        if object.hasattr("__dlpack__")? {
            return Self::of_dlpack(object);
        }
        let kind = object.get_type().name()?;
        Err(ArgumentError::new_err(format!(
            "a {kind} is no array; pass a NumPy array, or a tensor of the host with `__dlpack__`"
        )))
    }

    /// Whether a kernel may write it.
    #[getter]
    fn writable(&self) -> bool {
        self.range.is_writable
    }

    /// Bytes from the first to the last element.
    #[getter]
    fn extent_bytes(&self) -> usize {
        self.range.bytes()
    }
}

impl HostArray {
    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    pub(crate) fn range(&self) -> Range {
        self.range
    }

    fn of_numpy(object: &Bound<'_, PyAny>, interface: &Bound<'_, PyDict>) -> PyResult<Self> {
        let item = |key: &str| interface.get_item(key).map(|item| item.filter(|item| !item.is_none()));
        let expected = |key: &str| {
            item(key)?.ok_or_else(|| ArgumentError::new_err(format!("the array interface has no `{key}`")))
        };
        let (address, is_read_only): (u64, bool) = expected("data")?.extract()?;
        let code: String = expected("typestr")?.extract()?;
        if code.contains('O') {
            return Err(ArgumentError::new_err(
                "an array of Python objects has no elements that a kernel can read; convert it with `astype`",
            ));
        }
        if code.starts_with('>') {
            return Err(ArgumentError::new_err(
                "the array has big-endian elements, and GPUs are little-endian; convert it with `astype`",
            ));
        }
        let item_bytes: usize = code.get(2..).and_then(|digits| digits.parse().ok()).unwrap_or(0);
        let shape: Vec<i64> = expected("shape")?.extract()?;
        let bytes_strides: Option<Vec<i64>> =
            item("strides")?.map(|strides| strides.extract()).transpose()?;
        let dtype = object.getattr("dtype").and_then(|dtype| dtype.getattr("name"));
        let dtype = dtype.and_then(|name| name.extract()).unwrap_or(code);
        let strides = match bytes_strides {
            Some(strides) => strides,
            None => contiguous(&shape).iter().map(|stride| stride * item_bytes as i64).collect(),
        };
        let range = range((address, item_bytes), &shape, &strides, is_read_only)?;
        let strides = strides.iter().map(|stride| stride / (item_bytes.max(1) as i64)).collect();
        let _owner = object.clone().unbind();
        Ok(Self { address, dtype, item_bytes, shape, strides, range, _owner })
    }

    fn of_dlpack(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let read = dlpack::read(object)?;
        let (address, item_bytes, shape) = (read.address, read.item_bytes, read.shape);
        let strides = read.strides;
        let in_bytes: Vec<i64> =
            strides.iter().map(|stride| stride.saturating_mul(item_bytes as i64)).collect();
        let range = range((address, item_bytes), &shape, &in_bytes, read.is_read_only)?;
        Ok(Self { address, dtype: read.dtype, item_bytes, shape, strides, range, _owner: read.capsule })
    }
}

/// The strides of a row-major array, in elements.
fn contiguous(shape: &[i64]) -> Vec<i64> {
    let mut stride = 1i64;
    let mut strides: Vec<i64> = shape
        .iter()
        .rev()
        .map(|extent| {
            let own = stride;
            stride = stride.saturating_mul((*extent).max(1));
            own
        })
        .collect();
    strides.reverse();
    strides
}

/// The bytes of all elements of an array whose first one, of a size, is at an address. Strides are in bytes.
fn range(
    (address, item_bytes): (u64, usize),
    shape: &[i64],
    strides: &[i64],
    is_read_only: bool,
) -> PyResult<Range> {
    let is_writable = !is_read_only;
    if shape.contains(&0) || item_bytes == 0 {
        return Ok(Range { start: address, end: address, is_writable });
    }
    let (mut start, mut end) = (i128::from(address), i128::from(address) + item_bytes as i128);
    for (extent, stride) in shape.iter().zip(strides) {
        let reach = i128::from(*extent - 1) * i128::from(*stride);
        if reach < 0 { start += reach } else { end += reach }
    }
    let inside = |bound: i128| u64::try_from(bound).ok();
    let bounds = inside(start).zip(inside(end)).filter(|(start, _)| *start > 0);
    let (start, end) = bounds.ok_or_else(|| ArgumentError::new_err("the array exceeds the address space"))?;
    Ok(Range { start, end, is_writable })
}
