//! The edge to C: what functions receive as pointers, and the tables of the functions.
//!
//! The types of this file are transparent wrappers of C's pointers. Only C makes them, as arguments of the functions of
//! a table, whose contract is the CUDA API's: a pointer is null or points to memory of its type. All other code is
//! free of raw accesses for that reason.

use std::cell::Cell;
use std::ffi::{CStr, c_char, c_void};
use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::status::{Result, Status};

/// Where a function writes a result.
#[repr(transparent)]
pub(crate) struct Out<T>(*mut T);

impl<T> Clone for Out<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Out<T> {}

impl<T: Copy> Out<T> {
    /// Where a structure of the caller wants a result.
    pub(crate) fn at_address(address: usize) -> Self {
        Self(std::ptr::with_exposed_provenance_mut(address))
    }

    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// Writes the result; null is an invalid value.
    pub(crate) fn set(self, value: T) -> Result<()> {
        self.check()?;
        // SAFETY: the pointer is of the caller's memory, by the contract of the API.
        unsafe { self.0.write_unaligned(value) };
        Ok(())
    }

    /// Writes a result that the caller may not want.
    pub(crate) fn set_if_wanted(self, value: T) {
        let _ = self.set(value);
    }

    /// Null is an invalid value.
    pub(crate) fn check(self) -> Result<()> {
        if self.0.is_null() { Err(Status::INVALID_VALUE) } else { Ok(()) }
    }

    /// The element of an array.
    pub(crate) fn at(self, index: usize) -> Self {
        Self(if self.0.is_null() { self.0 } else { self.0.wrapping_add(index) })
    }

    /// Reads what the caller has there.
    pub(crate) fn get(self) -> Result<T> {
        In(self.0.cast_const()).get()
    }

    /// The same place for another type.
    pub(crate) fn cast<U>(self) -> Out<U> {
        Out(self.0.cast())
    }

    /// The address.
    pub(crate) fn address(self) -> usize {
        self.0.expose_provenance()
    }
}

/// What a function reads.
#[repr(transparent)]
pub(crate) struct In<T>(*const T);

impl<T> Clone for In<T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for In<T> {}

impl<T: Copy> In<T> {
    /// What is at an address that a structure of the caller names.
    pub(crate) fn at_address(address: usize) -> Self {
        Self(std::ptr::with_exposed_provenance(address))
    }

    pub(crate) fn is_null(self) -> bool {
        self.0.is_null()
    }

    /// The value; null is an invalid value.
    pub(crate) fn get(self) -> Result<T> {
        if self.0.is_null() {
            return Err(Status::INVALID_VALUE);
        }
        // SAFETY: the pointer is to a value of the caller, by the contract of the API.
        Ok(unsafe { self.0.read_unaligned() })
    }

    /// The element of an array.
    pub(crate) fn at(self, index: usize) -> Self {
        Self(if self.0.is_null() { self.0 } else { self.0.wrapping_add(index) })
    }

    /// The elements of an array; null has none.
    pub(crate) fn array(self, count: usize) -> Result<Vec<T>> {
        (0..count).map(|index| self.at(index).get()).collect()
    }

    /// The address.
    pub(crate) fn address(self) -> usize {
        self.0.expose_provenance()
    }
}

/// A C string.
pub(crate) type Text = In<c_char>;

impl In<c_char> {
    pub(crate) fn text(self) -> Result<String> {
        if self.0.is_null() {
            return Err(Status::INVALID_VALUE);
        }
        // SAFETY: the pointer is to a string of the caller, by the contract of the API.
        let text = unsafe { CStr::from_ptr(self.0) };
        text.to_str().map(str::to_owned).map_err(|_| Status::INVALID_VALUE)
    }
}

/// No program has more bytes in one place.
const MOST_BYTES: usize = 1 << 46;

impl In<u8> {
    /// Bytes of the caller.
    pub(crate) fn bytes(self, count: usize) -> Result<Vec<u8>> {
        if count == 0 {
            return Ok(Vec::new());
        }
        if self.0.is_null() || count > MOST_BYTES {
            return Err(Status::INVALID_VALUE);
        }
        // SAFETY: the caller has as many bytes there, by the contract of the API.
        Ok(unsafe { std::slice::from_raw_parts(self.0, count) }.to_vec())
    }
}

impl Out<c_char> {
    /// Writes a string, cut to a buffer of the caller.
    pub(crate) fn set_text(self, text: &str, room: usize) -> Result<()> {
        self.check()?;
        let Some(most) = room.checked_sub(1) else { return Err(Status::INVALID_VALUE) };
        for (index, byte) in text.bytes().take(most).chain([0]).enumerate() {
            self.at(index).set(byte as c_char)?;
        }
        Ok(())
    }
}

/// A function of the program that takes a pointer.
pub(crate) type HostFunction = Option<extern "C" fn(*mut c_void)>;

thread_local! {
    /// Whether the call is one of those for which the default stream is the thread's.
    static PER_THREAD: Cell<bool> = const { Cell::new(false) };
}

/// Runs a call for which the default stream is the thread's.
pub(crate) fn per_thread<T>(call: impl FnOnce() -> T) -> T {
    let before = PER_THREAD.replace(true);
    let result = call();
    PER_THREAD.set(before);
    result
}

/// Whether the default stream of this call is the thread's.
pub(crate) fn is_per_thread() -> bool {
    PER_THREAD.get()
}

/// The status of a call. A panic does not reach C: it is a fault of ours, and an unknown error.
pub(crate) fn guard(name: &str, call: impl FnOnce() -> Result<()>) -> Status {
    match catch_unwind(AssertUnwindSafe(call)) {
        Ok(Ok(())) => Status::SUCCESS,
        Ok(Err(status)) => status,
        Err(_) => {
            eprintln!("warpwright: `{name}` panicked, which is a fault of warpwright: please report it");
            Status::UNKNOWN
        }
    }
}

/// One function that the library exports.
#[derive(Clone, Copy)]
pub struct Entry {
    /// The name.
    pub name: &'static str,
    /// The first version of CUDA with it, as `CUDA_VERSION` counts: 12000 is 12.0.
    pub since: u32,
    /// Its address.
    pub address: fn() -> usize,
    /// Whether it does its work. The others return `CUDA_ERROR_NOT_SUPPORTED`.
    pub is_supported: bool,
}

impl std::fmt::Debug for Entry {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.name, self.since)
    }
}

/// Declares one function.
macro_rules! function {
    ($guard:path, $name:ident, ($($argument:ident: $type:ty),* $(,)?), $body:block) => {
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, clippy::too_many_arguments)]
        pub(crate) extern "C" fn $name($($argument: $type),*) -> $crate::status::Status {
            $guard(stringify!($name), || $body)
        }
    };
}
pub(crate) use function;

/// Declares the variant of a function whose default stream is the thread's.
macro_rules! per_thread_variant {
    ($name:ident, $of:ident, ($($argument:ident: $type:ty),* $(,)?)) => {
        #[unsafe(no_mangle)]
        #[allow(non_snake_case, clippy::too_many_arguments)]
        pub(crate) extern "C" fn $name($($argument: $type),*) -> $crate::status::Status {
            $crate::edge::per_thread(|| $of($($argument),*))
        }
    };
}
pub(crate) use per_thread_variant;

/// Declares functions of an API and their table. A second name is the variant whose default stream is the thread's.
macro_rules! functions {
    ($guard:path; $table:ident: $(
        $since:literal $name:ident $(| $per_thread:ident)?: $arguments:tt $body:block
    )*) => {
        $(
            $crate::edge::function!($guard, $name, $arguments, $body);
            $($crate::edge::per_thread_variant!($per_thread, $name, $arguments);)?
        )*
        pub(crate) static $table: &[$crate::edge::Entry] = &[$(
            $crate::edge::Entry {
                name: stringify!($name),
                since: $since,
                address: || $name as *const () as usize,
                is_supported: true,
            },
            $($crate::edge::Entry {
                name: stringify!($per_thread),
                since: $since,
                address: || $per_thread as *const () as usize,
                is_supported: true,
            },)?
        )*];
    };
}
pub(crate) use functions;

/// Declares functions that programs look for and that the library does not have.
macro_rules! unsupported {
    ($table:ident: $($name:ident)*) => {
        $(
            #[unsafe(no_mangle)]
            #[allow(non_snake_case)]
            pub(crate) extern "C" fn $name() -> $crate::status::Status {
                $crate::report::unsupported(stringify!($name))
            }
        )*
        pub(crate) static $table: &[$crate::edge::Entry] = &[$($crate::edge::Entry {
            name: stringify!($name),
            since: 0,
            address: || $name as *const () as usize,
            is_supported: false,
        }),*];
    };
}
pub(crate) use unsupported;
