//! The functions of cuBLASLt, loaded at run time.

use std::ffi::{c_int, c_void};
use std::ptr::null_mut;
use std::sync::OnceLock;

use libloading::Library;

use crate::error::{Error, Result};

/// Names of the library, newest first. A path in `WARPWRIGHT_CUBLAS` is tried before them.
const LIBRARIES: [&str; 4] =
    ["libcublasLt.so.13", "libcublasLt.so.12", "libcublasLt.so", "/usr/local/cuda/lib64/libcublasLt.so"];
/// `cublasLtMatmulHeuristicResult_t`
#[repr(C)]
#[derive(Clone, Copy)]
pub(super) struct Candidate {
    algorithm: [u64; 8],
    workspace_bytes: usize,
    pub(super) state: c_int,
    waves: f32,
    reserved: [c_int; 4],
}

/// No algorithm yet.
pub(super) const NONE: Candidate =
    Candidate { algorithm: [0; 8], workspace_bytes: 0, state: 0, waves: 0.0, reserved: [0; 4] };

pub(super) type Handle = *mut c_void;

macro_rules! library {
    ($($symbol:ident ($($argument:ident: $ty:ty),* $(,)?);)*) => {
        /// The loaded library.
        #[allow(non_snake_case)] // The names are those of the library's documentation.
        pub(super) struct Lt {
            $($symbol: unsafe extern "C" fn($($ty),*) -> c_int,)*
            /// Keeps the functions above alive.
            pub(super) library: Library,
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
                /// As required by the library's documentation of this function.
                #[allow(non_snake_case, clippy::too_many_arguments)]
                pub(super) unsafe fn $symbol(&self, $($argument: $ty),*) -> Result<()> {
                    // SAFETY: the caller upholds the library's requirements.
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
    pub(super) fn get() -> Result<&'static Self> {
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

/// A descriptor of the library, destroyed when dropped.
pub(super) struct Descriptor {
    pub(super) lt: &'static Lt,
    pub(super) handle: Handle,
    destroy: unsafe fn(&Lt, Handle) -> Result<()>,
}

impl Descriptor {
    /// A descriptor that `make` writes through its pointer, and that `destroy` destroys.
    pub(super) fn new(
        lt: &'static Lt,
        destroy: unsafe fn(&Lt, Handle) -> Result<()>,
        make: impl FnOnce(*mut Handle) -> Result<()>,
    ) -> Result<Self> {
        let mut handle = null_mut();
        make(&mut handle)?;
        Ok(Self { lt, handle, destroy })
    }

    /// Sets an attribute with the library's function for this kind of descriptor.
    ///
    /// # Safety
    /// cublasLt.h gives the attribute the type `T`, and this kind of descriptor the function.
    pub(super) unsafe fn set<T>(
        &self,
        set: unsafe fn(&Lt, Handle, c_int, *const c_void, usize) -> Result<()>,
        attribute: c_int,
        value: T,
    ) -> Result<()> {
        // SAFETY: the descriptor is alive, the value has the size passed, and the caller vouches for the rest.
        unsafe { set(self.lt, self.handle, attribute, (&raw const value).cast(), size_of::<T>()) }
    }
}

impl Drop for Descriptor {
    fn drop(&mut self) {
        // SAFETY: `destroy` is the function for this kind of handle, and is called once.
        let _ = unsafe { (self.destroy)(self.lt, self.handle) };
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
}
