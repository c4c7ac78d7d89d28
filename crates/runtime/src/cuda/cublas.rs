//! Matrix products by NVIDIA's cuBLASLt, to time our own against. Opened at run time, and needed
//! for nothing else.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::{Arc, OnceLock};

use libloading::Library;

use crate::backend::Backend;
use crate::buffer::{Allocation, Buffer, Storable};
use crate::device::{Device, same_device};
use crate::error::{Error, Result};
use crate::stream::Stream;

/// The names the library goes by, newest first; a path in `WARPWRIGHT_CUBLAS` comes before them.
const LIBRARIES: [&str; 4] =
    ["libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so", "/usr/local/cuda/lib64/libcublasLt.so"];
/// Memory that algorithms may work in, in bytes: what cuBLAS itself takes on Hopper.
const WORKSPACE_BYTES: usize = 32 << 20;
/// Algorithms tried; the fastest is kept.
const CANDIDATES: usize = 16;
/// Launches by which an algorithm's time is told.
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
/// `CUBLASLT_MATMUL_DESC_FAST_ACCUM`, an `int8_t`: 8-bit floats are summed by the tensor cores
/// alone, as `wgmma` does.
const FAST_ACCUMULATION: c_int = 25;
/// `CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES`
const MOST_WORKSPACE: c_int = 1;
/// `CUBLASLT_MATRIX_LAYOUT_BATCH_COUNT`, an `int32_t`, and
/// `CUBLASLT_MATRIX_LAYOUT_STRIDED_BATCH_OFFSET`, an `int64_t`, in elements.
const BATCH_COUNT: c_int = 5;
const BATCH_STRIDE: c_int = 6;

/// `cublasLtMatmulHeuristicResult_t`
#[repr(C)]
#[derive(Clone, Copy)]
struct Candidate {
    algorithm: [u64; 8],
    workspace_bytes: usize,
    state: c_int,
    waves: f32,
    reserved: [c_int; 4],
}

type Handle = *mut c_void;

macro_rules! library {
    ($($symbol:ident ($($argument:ident: $ty:ty),* $(,)?);)*) => {
        /// The library, opened.
        #[allow(non_snake_case)] // The names are those of the library's documentation.
        struct Lt {
            $($symbol: unsafe extern "C" fn($($ty),*) -> c_int,)*
            /// Keeps the functions above alive.
            library: Library,
        }

        impl Lt {
            fn of(library: Library) -> std::result::Result<Self, String> {
                Ok(Self {
                    $($symbol: {
                        // SAFETY: the type is the one cublasLt.h gives for this symbol.
                        let symbol = unsafe { library.get(concat!(stringify!($symbol), "\0").as_bytes()) };
                        *symbol.map_err(|error| error.to_string())?
                    },)*
                    library,
                })
            }

            $(
                /// # Safety
                /// As the library's documentation asks of the function of this name.
                #[allow(non_snake_case, clippy::too_many_arguments)]
                unsafe fn $symbol(&self, $($argument: $ty),*) -> Result<()> {
                    // SAFETY: the caller upholds what the library asks.
                    match unsafe { (self.$symbol)($($argument),*) } {
                        0 => Ok(()),
                        code => Err(Error::Driver {
                            call: stringify!($symbol),
                            name: format!("cublasStatus_t {code}"),
                            description: "cuBLASLt refuses".to_owned(),
                        }),
                    }
                }
            )*
        }
    };
}

library! {
    cublasLtCreate(handle: *mut Handle);
    cublasLtDestroy(handle: Handle);
    cublasLtMatmulDescCreate(operation: *mut Handle, compute: c_int, scale: c_int);
    cublasLtMatmulDescDestroy(operation: Handle);
    cublasLtMatmulDescSetAttribute(operation: Handle, attribute: c_int, value: *const c_void, bytes: usize);
    cublasLtMatrixLayoutCreate(layout: *mut Handle, ty: c_int, rows: u64, columns: u64, leading: i64);
    cublasLtMatrixLayoutDestroy(layout: Handle);
    cublasLtMatrixLayoutSetAttribute(layout: Handle, attribute: c_int, value: *const c_void, bytes: usize);
    cublasLtMatmulPreferenceCreate(preference: *mut Handle);
    cublasLtMatmulPreferenceDestroy(preference: Handle);
    cublasLtMatmulPreferenceSetAttribute(preference: Handle, attribute: c_int, value: *const c_void, bytes: usize);
    cublasLtMatmulAlgoGetHeuristic(
        handle: Handle,
        operation: Handle,
        a: Handle,
        b: Handle,
        c: Handle,
        d: Handle,
        preference: Handle,
        wanted: c_int,
        found: *mut Candidate,
        count: *mut c_int,
    );
    cublasLtMatmul(
        handle: Handle,
        operation: Handle,
        alpha: *const c_void,
        a: u64,
        a_layout: Handle,
        b: u64,
        b_layout: Handle,
        beta: *const c_void,
        c: u64,
        c_layout: Handle,
        d: u64,
        d_layout: Handle,
        algorithm: *const Candidate,
        workspace: u64,
        workspace_bytes: usize,
        stream: Handle,
    );
}

impl Lt {
    fn get() -> Result<&'static Self> {
        static LT: OnceLock<std::result::Result<Lt, String>> = OnceLock::new();
        let open = || {
            let chosen = std::env::var("WARPWRIGHT_CUBLAS").ok();
            let mut reason = String::new();
            for name in chosen.iter().map(String::as_str).chain(LIBRARIES) {
                // SAFETY: the initializers are those of the installed library, which any program
                // that uses it runs.
                match unsafe { Library::new(name) } {
                    Ok(library) => return Lt::of(library),
                    Err(error) => reason = error.to_string(),
                }
            }
            Err(reason)
        };
        LT.get_or_init(open).as_ref().map_err(|reason| Error::NoCublas { reason: reason.clone() })
    }
}

/// The version of the cuBLASLt that products run with, such as `13.1.0`.
///
/// # Errors
/// There is no cuBLASLt.
pub fn version() -> Result<String> {
    let lt = Lt::get()?;
    // SAFETY: the type is the one cublasLt.h gives for this symbol, the only one that answers with
    // something else than a status.
    let symbol = unsafe { lt.library.get::<unsafe extern "C" fn() -> usize>(b"cublasLtGetVersion\0") };
    let symbol = symbol.map_err(|error| Error::NoCublas { reason: error.to_string() })?;
    // SAFETY: the function takes nothing, and needs no GPU.
    Ok(version_text(unsafe { symbol() }))
}

/// The text of a version as the library has it: major * 10,000 + minor * 100 + patch
/// (`CUBLAS_VERSION`).
fn version_text(number: usize) -> String {
    format!("{}.{}.{}", number / 10_000, number / 100 % 100, number % 100)
}

/// A description that the library made, given back when dropped.
struct Made {
    handle: Handle,
    give_back: unsafe fn(&Lt, Handle) -> Result<()>,
}

impl Drop for Made {
    fn drop(&mut self) {
        if let Ok(lt) = Lt::get() {
            // SAFETY: the handle is of the kind that this function gives back, and is given back
            // once.
            let _ = unsafe { (self.give_back)(lt, self.handle) };
        }
    }
}

/// How a matrix lies in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The elements of a row are neighbors.
    RowMajor,
    /// The elements of a column are neighbors.
    ColumnMajor,
}

/// The shape of a matrix product `C = A B` with a row-major `C`, packed without gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProductShape {
    /// Rows of `A` and `C`.
    pub m: usize,
    /// Columns of `B` and `C`.
    pub n: usize,
    /// Columns of `A`, rows of `B`.
    pub k: usize,
    /// How `A` lies.
    pub a: Order,
    /// How `B` lies.
    pub b: Order,
    /// How many of them, the matrices one after another.
    pub batch: usize,
}

/// cuBLASLt's own way to do one matrix product, accumulated in f32: the fastest of the algorithms
/// it proposes.
pub struct CublasProduct<In, Out> {
    lt: &'static Lt,
    handle: Made,
    operation: Made,
    layouts: [Made; 3],
    algorithm: Candidate,
    workspace: Arc<Allocation>,
    shape: ProductShape,
    backend: Arc<dyn Backend>,
    elements: std::marker::PhantomData<(In, Out)>,
}

impl<In: Storable, Out: Storable> CublasProduct<In, Out> {
    /// Prepares the product, and times the algorithms proposed on these buffers; `c` is
    /// overwritten.
    ///
    /// # Errors
    /// There is no GPU or no cuBLASLt, it does not know the types, or a buffer has another length
    /// than the shape asks for.
    pub fn new(
        stream: &Stream,
        shape: ProductShape,
        a: &Buffer<In>,
        b: &Buffer<In>,
        c: &mut Buffer<Out>,
    ) -> Result<Self> {
        let backend = stream.backend.clone();
        if backend.properties().is_emulated {
            return Err(Error::NoCublas { reason: "it needs a GPU, and the device is emulated".to_owned() });
        }
        // Makes the device's context current on this thread, which is where the library works.
        backend.synchronize()?;
        let lt = Lt::get()?;
        let ProductShape { m, n, k, .. } = shape;
        let (input, output) = (data_type::<In>()?, data_type::<Out>()?);
        let make = |give_back: unsafe fn(&Lt, Handle) -> Result<()>,
                    made: &dyn Fn(*mut Handle) -> Result<()>| {
            let mut handle = null_mut();
            made(&mut handle)?;
            Ok::<_, Error>(Made { handle, give_back })
        };
        // Each maker is paired with its own destroyer.
        // SAFETY: `make` passes an out-pointer that is valid for the call.
        let handle = make(Lt::cublasLtDestroy, &|out| unsafe { lt.cublasLtCreate(out) })?;
        // SAFETY: as above.
        let operation = make(Lt::cublasLtMatmulDescDestroy, &|out| unsafe {
            lt.cublasLtMatmulDescCreate(out, compute_type::<In>(), F32)
        })?;
        let layout = |ty, rows: usize, columns: usize| {
            // SAFETY: as above.
            let layout = make(Lt::cublasLtMatrixLayoutDestroy, &|out| unsafe {
                lt.cublasLtMatrixLayoutCreate(out, ty, rows as u64, columns as u64, rows as i64)
            })?;
            if shape.batch != 1 {
                let (count, stride) = (shape.batch as i32, (rows * columns) as i64);
                for (attribute, value, bytes) in [
                    (BATCH_COUNT, (&raw const count).cast(), size_of::<i32>()),
                    (BATCH_STRIDE, (&raw const stride).cast(), size_of::<i64>()),
                ] {
                    // SAFETY: the attributes are an int32_t and an int64_t.
                    unsafe { lt.cublasLtMatrixLayoutSetAttribute(layout.handle, attribute, value, bytes) }?;
                }
            }
            Ok::<_, Error>(layout)
        };
        // The library's matrices are column-major. A row-major C is Cᵀ to it, so it multiplies Bᵀ
        // (first) by Aᵀ (second): a row-major factor is already the transpose it needs.
        let stored = |order, rows, columns| match order {
            Order::RowMajor => (columns, rows),
            Order::ColumnMajor => (rows, columns),
        };
        let (first, second) = (stored(shape.b, k, n), stored(shape.a, m, k));
        let layouts =
            [layout(input, first.0, first.1)?, layout(input, second.0, second.1)?, layout(output, n, m)?];
        for (attribute, order) in [(TRANSPOSE_A, shape.b), (TRANSPOSE_B, shape.a)] {
            if order == Order::ColumnMajor {
                let transpose = TRANSPOSE;
                let value = (&raw const transpose).cast();
                // SAFETY: the attribute is an int.
                unsafe {
                    lt.cublasLtMatmulDescSetAttribute(operation.handle, attribute, value, size_of::<c_int>())
                }?;
            }
        }
        if In::BYTES == 1 {
            let fast = 1i8;
            let value = (&raw const fast).cast();
            // SAFETY: the attribute is an int8_t.
            unsafe { lt.cublasLtMatmulDescSetAttribute(operation.handle, FAST_ACCUMULATION, value, 1) }?;
        }
        // SAFETY: as above.
        let preference = make(Lt::cublasLtMatmulPreferenceDestroy, &|out| unsafe {
            lt.cublasLtMatmulPreferenceCreate(out)
        })?;
        let most = WORKSPACE_BYTES;
        // SAFETY: the attribute is a size_t.
        unsafe {
            lt.cublasLtMatmulPreferenceSetAttribute(
                preference.handle,
                MOST_WORKSPACE,
                (&raw const most).cast(),
                size_of::<usize>(),
            )
        }?;
        let none =
            Candidate { algorithm: [0; 8], workspace_bytes: 0, state: 0, waves: 0.0, reserved: [0; 4] };
        let mut candidates = [none; CANDIDATES];
        let mut count = 0;
        // SAFETY: the descriptions are alive, and there is room for as many candidates as are
        // wanted.
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
        let workspace = Allocation::new(&backend, WORKSPACE_BYTES, 1)?;
        let mut product = Self {
            lt,
            handle,
            operation,
            layouts,
            algorithm: none,
            workspace,
            shape,
            backend,
            elements: std::marker::PhantomData,
        };
        let proposed = &candidates[..usize::try_from(count).unwrap_or(0)];
        product.keep_the_fastest(proposed, stream, a, b, c)?;
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

    /// Starts the product on a stream.
    ///
    /// # Errors
    /// A buffer has another length than the shape asks for, or belongs to another device; the
    /// library refuses.
    pub fn launch(&self, stream: &Stream, a: &Buffer<In>, b: &Buffer<In>, c: &mut Buffer<Out>) -> Result<()> {
        let ProductShape { m, n, k, batch, .. } = self.shape;
        same_device("the product", &self.backend, &stream.backend)?;
        let buffers =
            [("A", a.len(), batch * m * k), ("B", b.len(), batch * k * n), ("C", c.len(), batch * m * n)];
        for (what, given, expected) in buffers {
            if given != expected {
                return Err(Error::Length { what, expected, given });
            }
        }
        for allocation in [&a.allocation, &b.allocation, &c.allocation] {
            same_device("a buffer of the product", allocation.backend(), &self.backend)?;
            allocation.check()?;
        }
        let (alpha, beta) = (1f32, 0f32);
        // SAFETY: the descriptions are alive, the matrices have the sizes they describe, and so
        // does the workspace; alpha and beta are read before the call returns.
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
                super::raw(stream.handle),
            )
        }
    }

    /// The device it runs on.
    pub fn device(&self) -> Device {
        Device { backend: self.backend.clone() }
    }
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
        other => Err(Error::NoCublas { reason: format!("products of {other} are not offered") }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn candidates_have_the_size_of_cublas_lt_h() {
        assert_eq!(size_of::<Candidate>(), 96);
        assert_eq!(std::mem::offset_of!(Candidate, state), 72);
    }

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
        let shape = ProductShape { m: 2, n: 2, k: 2, a: Order::RowMajor, b: Order::RowMajor, batch: 1 };
        let refused = CublasProduct::new(&stream, shape, &a, &a, &mut c).map(|_| ()).expect_err("no GPU");
        assert!(refused.to_string().contains("emulated"), "{refused}");
    }
}
