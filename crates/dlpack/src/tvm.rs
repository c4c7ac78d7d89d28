//! The calling convention of tvm-ffi (<https://tvm.apache.org/ffi/>, version 0.1): values of 16 bytes, and errors that its
//! library keeps for the thread.

use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::sync::OnceLock;

use libloading::os::unix::{Library, RTLD_LAZY};

use crate::call::{Argument, Operation};
use crate::tensor::{DeviceType, Tensor};

/// `TVMFFIAny`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Any {
    type_index: i32,
    padding: u32,
    value: Value,
}

#[repr(C)]
#[derive(Clone, Copy)]
union Value {
    integer: i64,
    float: f64,
    pointer: *const c_void,
}

/// `TVMFFITypeIndex`.
mod type_index {
    pub(super) const NONE: i32 = 0;
    pub(super) const INTEGER: i32 = 1;
    pub(super) const BOOLEAN: i32 = 2;
    pub(super) const FLOAT: i32 = 3;
    pub(super) const TENSOR_POINTER: i32 = 7;
    pub(super) const TENSOR: i32 = 70;
}

/// Bytes of `TVMFFIObject`, which the tensor of a `TVMFFITensor` follows.
const OBJECT_BYTES: usize = 24;

/// `RTLD_NOLOAD` of glibc: the library only if it is loaded.
const NO_LOAD: c_int = 4;

type SetError = unsafe extern "C" fn(*const c_char, *const c_char);
type GetStream = unsafe extern "C" fn(i32, i32) -> *mut c_void;

/// Functions of tvm-ffi's library, which the caller has loaded.
struct Functions {
    set_error: Option<SetError>,
    get_stream: Option<GetStream>,
}

fn functions() -> &'static Functions {
    static FUNCTIONS: OnceLock<Functions> = OnceLock::new();
    FUNCTIONS.get_or_init(|| {
        // SAFETY: a library that is loaded runs no initializer.
        let library = unsafe { Library::open(Some("libtvm_ffi.so"), RTLD_LAZY | NO_LOAD) };
        let library = library.unwrap_or_else(|_| Library::this());
        // SAFETY: the functions have these types in tvm-ffi's header.
        let (set_error, get_stream) = unsafe {
            (
                library.get::<SetError>(b"TVMFFIErrorSetRaisedFromCStr"),
                library.get::<GetStream>(b"TVMFFIEnvGetStream"),
            )
        };
        let found = Functions {
            set_error: set_error.ok().map(|function| *function),
            get_stream: get_stream.ok().map(|function| *function),
        };
        // The functions are used until the process ends.
        std::mem::forget(library);
        found
    })
}

/// Calls an operation with the arguments of tvm-ffi, in the stream that is current there.
///
/// # Safety
/// `arguments` are `count` values that outlive the call, and `result` is the place for one.
pub(crate) unsafe fn call(
    operation: &'static Operation,
    arguments: *const Any,
    count: i32,
    result: *mut Any,
) -> c_int {
    let given = match usize::try_from(count) {
        // SAFETY: the caller has as many values.
        Ok(count) if count > 0 => unsafe { std::slice::from_raw_parts(arguments, count) },
        _ => &[],
    };
    let mut converted = Vec::with_capacity(given.len());
    for any in given {
        match argument(any) {
            Some(argument) => converted.push(argument),
            None => {
                let message = format!(
                    "{}: argument {} is no tensor, number or None (type {} of tvm-ffi)",
                    operation.name,
                    converted.len(),
                    any.type_index
                );
                return failed(c"TypeError", &message);
            }
        }
    }
    let device = converted.iter().find_map(|argument| match argument {
        Argument::Tensor(tensor) => tensor.device().ok(),
        _ => None,
    });
    let stream = match (device, functions().get_stream) {
        // SAFETY: 2 is kDLCUDA, and the function takes every ordinal.
        (Some((DeviceType::Cuda, ordinal)), Some(get_stream)) => unsafe { get_stream(2, ordinal) },
        _ => std::ptr::null_mut(),
    };
    // SAFETY: the caller keeps to tvm-ffi's convention: tensors live until the work is complete.
    match unsafe { operation.call(&converted, stream) } {
        Ok(()) => {
            // SAFETY: the caller passes a place for the result.
            unsafe {
                result.write(Any { type_index: type_index::NONE, padding: 0, value: Value { integer: 0 } })
            };
            0
        }
        Err(error) => failed(c"ValueError", &error.to_string()),
    }
}

fn argument(any: &Any) -> Option<Argument<'_>> {
    // SAFETY: the type says which member was written.
    unsafe {
        Some(match any.type_index {
            type_index::NONE => Argument::None,
            type_index::INTEGER | type_index::BOOLEAN => Argument::Integer(any.value.integer),
            type_index::FLOAT => Argument::Float(any.value.float),
            type_index::TENSOR_POINTER => Argument::Tensor(&*any.value.pointer.cast::<Tensor>()),
            type_index::TENSOR => {
                Argument::Tensor(&*any.value.pointer.byte_add(OBJECT_BYTES).cast::<Tensor>())
            }
            _ => return None,
        })
    }
}

fn failed(kind: &CStr, message: &str) -> c_int {
    let text = CString::new(message.replace('\0', " ")).unwrap_or_default();
    if let Some(set_error) = functions().set_error {
        // SAFETY: the function copies both texts.
        unsafe { set_error(kind.as_ptr(), text.as_ptr()) };
    }
    -1
}
