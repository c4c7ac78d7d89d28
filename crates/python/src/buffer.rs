//! Device memory.

use std::sync::{Arc, PoisonError, RwLock};

use pyo3::prelude::*;
use warpwright::runtime;

use crate::array::HostArray;
use crate::error::{ArgumentError, WarpwrightError, raised};
use crate::shared::Shared;

/// The memory of a buffer, on the device of each schedule; none once it is freed.
pub(crate) type Parts = Arc<RwLock<Option<Vec<runtime::Buffer<u8>>>>>;

/// Bytes of device memory.
#[pyclass(frozen, module = "warpwright._warpwright")]
pub(crate) struct Buffer {
    pub(crate) shared: Arc<Shared>,
    pub(crate) parts: Parts,
    bytes: usize,
}

impl Buffer {
    pub(crate) fn new(shared: &Arc<Shared>, bytes: usize) -> PyResult<Self> {
        shared.first().check_memory(bytes as u64 * shared.parts.len() as u64).map_err(raised)?;
        let parts: Result<Vec<_>, _> =
            shared.parts.iter().map(|part| part.device.uninitialized::<u8>(bytes)).collect();
        let parts = Arc::new(RwLock::new(Some(parts.map_err(raised)?)));
        Ok(Self { shared: shared.clone(), parts, bytes })
    }
}

/// Says that a buffer is freed.
pub(crate) fn freed() -> PyErr {
    WarpwrightError::new_err("the buffer was freed; make a new one with `device.empty` or `device.array`")
}

#[pymethods]
impl Buffer {
    #[getter]
    fn nbytes(&self) -> usize {
        self.bytes
    }

    /// Frees the memory.
    fn free(&self, py: Python<'_>) {
        py.detach(|| drop(self.parts.write().unwrap_or_else(PoisonError::into_inner).take()));
    }

    /// Overwrites the buffer with the elements of a contiguous array of as many bytes.
    fn write(&self, py: Python<'_>, array: &HostArray) -> PyResult<()> {
        self.shared.expect_own_process()?;
        self.expect_bytes(array)?;
        py.detach(|| {
            let mut parts = self.parts.write().unwrap_or_else(PoisonError::into_inner);
            let bytes = array.range().read();
            let parts = parts.as_mut().ok_or_else(freed)?;
            parts.iter_mut().try_for_each(|part| part.copy_from(&bytes)).map_err(raised)
        })
    }

    /// Copies the buffer to a contiguous array of as many bytes, whose elements are of a type.
    fn read(&self, py: Python<'_>, array: &HostArray, dtype: &str) -> PyResult<()> {
        self.shared.expect_own_process()?;
        self.expect_bytes(array)?;
        let (element, element_bytes) = warpwright_cli::inputs::element_type(dtype).unwrap_or(("u8", 1));
        py.detach(|| {
            let parts = self.parts.read().unwrap_or_else(PoisonError::into_inner);
            let parts = parts.as_ref().ok_or_else(freed)?;
            // Each schedule has its own memory, and its own elements that nothing has written.
            let mut read = parts.iter().map(|part| part.to_bytes_of(element, element_bytes as u64));
            let first = read.next().transpose().map_err(raised)?.unwrap_or_default();
            read.try_for_each(|other| other.map(drop)).map_err(raised)?;
            array.range().write(&first);
            Ok(())
        })
    }
}

impl Buffer {
    fn expect_bytes(&self, array: &HostArray) -> PyResult<()> {
        let given = array.range().bytes();
        if given == self.bytes {
            return Ok(());
        }
        Err(ArgumentError::new_err(format!("the array has {given} bytes, and the buffer {}", self.bytes)))
    }
}
