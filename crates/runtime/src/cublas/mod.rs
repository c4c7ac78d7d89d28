//! Matrix multiplication by NVIDIA's cuBLASLt, as a baseline for benchmarks. The library is loaded
//! at run time and is optional.

mod library;

use std::ffi::c_int;
use std::sync::Arc;

use crate::allocation::Allocation;
use crate::backend::{Backend, same_device};
use crate::buffer::{Buffer, Storable};
use crate::device::Device;
use crate::error::{Error, Result};
use crate::stream::Stream;
use library::{Candidate, Descriptor, Lt, NONE};

/// Workspace in bytes; cuBLAS itself uses this size on Hopper.
const WORKSPACE_BYTES: usize = 32 << 20;
/// Number of algorithms that are timed; the fastest is kept.
const CANDIDATES: usize = 16;
/// Launches per timed algorithm.
const TRIAL_LAUNCHES: u32 = 5;

/// `cublasOperation_t`
const TRANSPOSE: c_int = 1;
/// `CUBLAS_COMPUTE_32F`, `CUDA_R_32F`: accumulation and scaling in f32.
const COMPUTE_F32: c_int = 68;
/// `CUBLAS_COMPUTE_32F_FAST_TF32`
const COMPUTE_TF32: c_int = 77;
const F32: c_int = 0;
/// `CUBLASLT_MATMUL_DESC_TRANSA`, `CUBLASLT_MATMUL_DESC_TRANSB`
const TRANSPOSE_A: c_int = 3;
const TRANSPOSE_B: c_int = 4;
/// `CUBLASLT_MATMUL_DESC_FAST_ACCUM`, an `int8_t`: the tensor cores accumulate 8-bit floats without
/// promotion to CUDA cores, as `wgmma` does.
const FAST_ACCUMULATION: c_int = 25;
/// `CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES`
const MOST_WORKSPACE: c_int = 1;
/// `CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT`, an `int32_t`, and
/// `CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET`, an `int64_t`, in elements.
const BATCH_COUNT: c_int = 5;
const BATCH_STRIDE: c_int = 6;

/// The version of cuBLASLt, such as `13.1.0`.
///
/// # Errors
/// cuBLASLt is not installed.
pub fn version() -> Result<String> {
    let lt = Lt::get()?;
    // SAFETY: the type is the one cublasLt.h gives for this symbol; it does not return a status.
    let symbol = unsafe { lt.library.get::<unsafe extern "C" fn() -> usize>(b"cublasLtGetVersion\0") };
    let symbol = symbol.map_err(|error| Error::NoCublas { reason: error.to_string() })?;
    // SAFETY: the function takes no arguments and needs no GPU.
    Ok(version_text(unsafe { symbol() }))
}

/// Formats a version number: major * 10,000 + minor * 100 + patch (`CUBLAS_VERSION`).
fn version_text(number: usize) -> String {
    format!("{}.{}.{}", number / 10_000, number / 100 % 100, number % 100)
}

/// The layout of a matrix in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MatrixLayout {
    /// The elements of a row are contiguous.
    RowMajor,
    /// The elements of a column are contiguous.
    ColumnMajor,
}

/// The shape of `C = A B`, with a row-major `C` and packed matrices.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MatmulShape {
    /// Rows of `A` and `C`.
    pub m: usize,
    /// Columns of `B` and `C`.
    pub n: usize,
    /// Columns of `A`, rows of `B`.
    pub k: usize,
    /// Layout of `A`.
    pub a: MatrixLayout,
    /// Layout of `B`.
    pub b: MatrixLayout,
    /// Number of matrices, stored one after another.
    pub batch: usize,
}

/// A matrix multiplication by cuBLASLt with f32 accumulation. It uses the fastest of the algorithms
/// that the library proposes.
pub struct CublasMatmul<In, Out> {
    lt: &'static Lt,
    handle: Descriptor,
    operation: Descriptor,
    layouts: [Descriptor; 3],
    algorithm: Candidate,
    workspace: Arc<Allocation>,
    shape: MatmulShape,
    backend: Arc<Backend>,
    elements: std::marker::PhantomData<(In, Out)>,
}

impl<In: Storable, Out: Storable> CublasMatmul<In, Out> {
    /// Prepares the multiplication and times the proposed algorithms on these buffers; `c` is
    /// overwritten.
    ///
    /// # Errors
    /// There is no GPU or no cuBLASLt, the library does not support the types, or the length of a
    /// buffer does not match the shape.
    pub fn new(
        stream: &Stream,
        shape: MatmulShape,
        a: &Buffer<In>,
        b: &Buffer<In>,
        c: &mut Buffer<Out>,
    ) -> Result<Self> {
        let backend = stream.backend.clone();
        if backend.properties.is_emulated {
            return Err(Error::NoCublas { reason: "it needs a GPU, and the device is emulated".to_owned() });
        }
        // The library works in the context that is current on this thread.
        backend.streams.synchronize()?;
        let lt = Lt::get()?;
        // SAFETY: `new` passes an out-pointer that is valid for the call.
        let handle = Descriptor::new(lt, Lt::cublasLtDestroy, |out| unsafe { lt.cublasLtCreate(out) })?;
        let operation = operation::<In>(lt, shape)?;
        let layouts = layouts(lt, shape, data_type::<In>()?, data_type::<Out>()?)?;
        let proposed = candidates(&handle, &operation, &layouts)?;
        let workspace = Allocation::new(&backend, WORKSPACE_BYTES, 1)?;
        let algorithm = NONE;
        let elements = std::marker::PhantomData;
        let mut product =
            Self { lt, handle, operation, layouts, algorithm, workspace, shape, backend, elements };
        product.keep_the_fastest(&proposed, stream, a, b, c)?;
        Ok(product)
    }

    fn keep_the_fastest(
        &mut self,
        candidates: &[Candidate],
        stream: &Stream,
        a: &Buffer<In>,
        b: &Buffer<In>,
        c: &mut Buffer<Out>,
    ) -> Result<()> {
        let mut best = None;
        for candidate in candidates.iter().filter(|candidate| candidate.state == 0) {
            self.algorithm = *candidate;
            // The first launch loads the kernel.
            self.launch(stream, a, b, c)?;
            let start = stream.record()?;
            for _ in 0..TRIAL_LAUNCHES {
                self.launch(stream, a, b, c)?;
            }
            let end = stream.record()?;
            end.synchronize()?;
            let time = end.since(&start)?;
            if best.is_none_or(|(fastest, _)| time < fastest) {
                best = Some((time, *candidate));
            }
        }
        let (_, fastest) = best.ok_or_else(|| Error::NoCublas {
            reason: format!(
                "it proposes no algorithm for {:?} of {} and {}",
                self.shape,
                In::NAME,
                Out::NAME
            ),
        })?;
        self.algorithm = fastest;
        Ok(())
    }

    /// Starts the multiplication on a stream.
    ///
    /// # Errors
    /// The length of a buffer does not match the shape, a buffer belongs to another device, or the
    /// library returns an error.
    pub fn launch(&self, stream: &Stream, a: &Buffer<In>, b: &Buffer<In>, c: &mut Buffer<Out>) -> Result<()> {
        let MatmulShape { m, n, k, batch, .. } = self.shape;
        same_device("the cuBLAS matmul", &self.backend, &stream.backend)?;
        let buffers =
            [("A", a.len(), batch * m * k), ("B", b.len(), batch * k * n), ("C", c.len(), batch * m * n)];
        for (what, given, expected) in buffers {
            if given != expected {
                return Err(Error::Length { what, expected, given });
            }
        }
        for allocation in [&a.allocation, &b.allocation, &c.allocation] {
            same_device("a buffer of the cuBLAS matmul", allocation.backend(), &self.backend)?;
            allocation.check()?;
        }
        let (alpha, beta) = (1f32, 0f32);
        // SAFETY: the descriptors are alive, the matrices and the workspace have the described
        // sizes; alpha and beta are read before the call returns.
        unsafe {
            self.lt.cublasLtMatmul(
                self.handle.handle,
                self.operation.handle,
                (&raw const alpha).cast(),
                b.allocation.address(),
                self.layouts[0].handle,
                a.allocation.address(),
                self.layouts[1].handle,
                (&raw const beta).cast(),
                c.allocation.address(),
                self.layouts[2].handle,
                c.allocation.address(),
                self.layouts[2].handle,
                &self.algorithm,
                self.workspace.address(),
                WORKSPACE_BYTES,
                stream.handle.pointer(),
            )
        }
    }

    /// The device it runs on.
    pub fn device(&self) -> Device {
        Device { backend: self.backend.clone() }
    }
}

/// The operation, with f32 accumulation.
fn operation<In: Storable>(lt: &'static Lt, shape: MatmulShape) -> Result<Descriptor> {
    // SAFETY: `new` passes an out-pointer that is valid for the call.
    let operation = Descriptor::new(lt, Lt::cublasLtMatmulDescDestroy, |out| unsafe {
        lt.cublasLtMatmulDescCreate(out, compute_type::<In>(), F32)
    })?;
    for (attribute, order) in [(TRANSPOSE_A, shape.b), (TRANSPOSE_B, shape.a)] {
        if order == MatrixLayout::ColumnMajor {
            // SAFETY: the attribute is an int.
            unsafe { operation.set(Lt::cublasLtMatmulDescSetAttribute, attribute, TRANSPOSE) }?;
        }
    }
    if In::BYTES == 1 {
        // SAFETY: the attribute is an int8_t.
        unsafe { operation.set(Lt::cublasLtMatmulDescSetAttribute, FAST_ACCUMULATION, 1i8) }?;
    }
    Ok(operation)
}

/// The layouts of the first operand, the second and the result.
///
/// The library's matrices are column-major. A row-major C is Cᵀ to it, so it multiplies Bᵀ (first) by Aᵀ (second): a
/// row-major operand is already the transpose it needs.
fn layouts(lt: &'static Lt, shape: MatmulShape, input: c_int, output: c_int) -> Result<[Descriptor; 3]> {
    let MatmulShape { m, n, k, batch, .. } = shape;
    let layout = |ty, (rows, columns): (usize, usize)| {
        // SAFETY: `new` passes an out-pointer that is valid for the call.
        let layout = Descriptor::new(lt, Lt::cublasLtMatrixLayoutDestroy, |out| unsafe {
            lt.cublasLtMatrixLayoutCreate(out, ty, rows as u64, columns as u64, rows as i64)
        })?;
        if batch != 1 {
            let set = Lt::cublasLtMatrixLayoutSetAttribute;
            // SAFETY: the attribute is an int32_t.
            unsafe { layout.set(set, BATCH_COUNT, batch as i32) }?;
            // SAFETY: the attribute is an int64_t.
            unsafe { layout.set(set, BATCH_STRIDE, (rows * columns) as i64) }?;
        }
        Ok::<_, Error>(layout)
    };
    let stored = |order, rows, columns| match order {
        MatrixLayout::RowMajor => (columns, rows),
        MatrixLayout::ColumnMajor => (rows, columns),
    };
    Ok([
        layout(input, stored(shape.b, k, n))?,
        layout(input, stored(shape.a, m, k))?,
        layout(output, (n, m))?,
    ])
}

/// The algorithms that the library proposes, the best first.
fn candidates(
    handle: &Descriptor,
    operation: &Descriptor,
    layouts: &[Descriptor; 3],
) -> Result<Vec<Candidate>> {
    let lt = handle.lt;
    // SAFETY: `new` passes an out-pointer that is valid for the call.
    let preference = Descriptor::new(lt, Lt::cublasLtMatmulPreferenceDestroy, |out| unsafe {
        lt.cublasLtMatmulPreferenceCreate(out)
    })?;
    // SAFETY: the attribute is a size_t.
    unsafe { preference.set(Lt::cublasLtMatmulPreferenceSetAttribute, MOST_WORKSPACE, WORKSPACE_BYTES) }?;
    let mut candidates = vec![NONE; CANDIDATES];
    let mut count = 0;
    // SAFETY: the descriptors are alive, and `candidates` has room for all requested ones.
    unsafe {
        lt.cublasLtMatmulAlgoGetHeuristic(
            handle.handle,
            operation.handle,
            layouts[0].handle,
            layouts[1].handle,
            layouts[2].handle,
            layouts[2].handle,
            preference.handle,
            CANDIDATES as c_int,
            candidates.as_mut_ptr(),
            &mut count,
        )
    }?;
    candidates.truncate(usize::try_from(count).unwrap_or(0));
    Ok(candidates)
}

/// `cublasComputeType_t`
fn compute_type<T: Storable>() -> c_int {
    if T::NAME == "tf32" { COMPUTE_TF32 } else { COMPUTE_F32 }
}

/// `cudaDataType_t` of an element.
fn data_type<T: Storable>() -> Result<c_int> {
    match T::NAME {
        "f32" | "tf32" => Ok(F32),
        "f16" => Ok(2),
        "bf16" => Ok(14),
        "e4m3" => Ok(28),
        "e5m2" => Ok(29),
        other => Err(Error::NoCublas { reason: format!("elements of type {other} are not supported") }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_read() {
        assert_eq!(version_text(130_101), "13.1.1");
        assert_eq!(version_text(120_805), "12.8.5");
    }

    #[test]
    fn an_emulated_device_is_refused() {
        let device = Device::named("emu:h200").expect("the emulator always starts");
        let stream = device.stream().expect("a stream");
        let a = device.zeros::<half::bf16>(4).expect("it fits");
        let mut c = device.zeros::<f32>(4).expect("it fits");
        let shape =
            MatmulShape { m: 2, n: 2, k: 2, a: MatrixLayout::RowMajor, b: MatrixLayout::RowMajor, batch: 1 };
        let refused = CublasMatmul::new(&stream, shape, &a, &a, &mut c).map(|_| ()).expect_err("no GPU");
        assert!(refused.to_string().contains("emulated"), "{refused}");
    }
}
