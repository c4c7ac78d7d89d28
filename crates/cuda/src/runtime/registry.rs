//! What nvcc's host code registers before `main`: fat binaries, and the kernels and variables in them by the address of
//! their host side. A fat binary is loaded when something in it is used.

use std::collections::HashMap;
use std::ffi::{CStr, c_char};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use crate::context::Context;
use crate::edge::{Out, Text, functions};
use crate::fatbin;
use crate::function::Function;
use crate::machine::machine;
use crate::module::Module;
use crate::report;
use crate::status::{Result, Status};

/// A fat binary, by its address in the program.
struct Binary {
    image: usize,
    module: Mutex<Option<Result<Arc<Module>>>>,
}

/// Something in a fat binary.
#[derive(Clone)]
struct Symbol {
    binary: Arc<Binary>,
    name: String,
}

#[derive(Default)]
struct Registry {
    binaries: HashMap<usize, Arc<Binary>>,
    functions: HashMap<usize, Symbol>,
    variables: HashMap<usize, Symbol>,
}

fn registry() -> MutexGuard<'static, Registry> {
    static REGISTRY: OnceLock<Mutex<Registry>> = OnceLock::new();
    REGISTRY.get_or_init(Mutex::default).lock().unwrap_or_else(PoisonError::into_inner)
}

impl Binary {
    /// Its module, in the primary context.
    fn module(&self) -> Result<Arc<Module>> {
        let mut module = self.module.lock().unwrap_or_else(PoisonError::into_inner);
        let load = || {
            let text = fatbin::ptx(self.image, machine()?.arch.capability)?;
            Module::load_text(&text, Context::primary()).map_err(|(status, _)| status)
        };
        module.get_or_insert_with(load).clone()
    }
}

/// Forgets what was loaded, as `cudaDeviceReset` does.
pub(super) fn unload() {
    for binary in registry().binaries.values() {
        let module = binary.module.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Ok(module)) = module {
            // The module is of this registry alone.
            let _ = module.unload();
        }
    }
}

/// The kernel of a host function, or of a handle of the driver.
pub(super) fn function(address: usize) -> Result<Arc<Function>> {
    let symbol = registry().functions.get(&address).cloned();
    match symbol {
        Some(symbol) => {
            symbol.binary.module()?.function(&symbol.name).map_err(|_| Status::INVALID_DEVICE_FUNCTION)
        }
        None => {
            let handle = crate::handles::Handle::new(address);
            crate::function::FUNCTIONS.get(handle).map_err(|_| Status::INVALID_DEVICE_FUNCTION)
        }
    }
}

/// The address and the size of a variable, by the address of its host side.
pub(super) fn variable(address: usize) -> Result<(u64, usize)> {
    let symbol = registry().variables.get(&address).cloned().ok_or(Status::INVALID_SYMBOL)?;
    symbol.binary.module()?.variable(&symbol.name).map_err(|_| Status::INVALID_SYMBOL)
}

/// The version of the runtime that the program was built for.
pub(super) fn major() -> u32 {
    static MAJOR: OnceLock<u32> = OnceLock::new();
    *MAJOR.get_or_init(|| {
        let is_loaded = |name: &CStr| {
            // SAFETY: the name is a string; a handle of what is loaded already is not closed, which keeps it loaded.
            !unsafe { libc::dlopen(name.as_ptr(), libc::RTLD_NOLOAD | libc::RTLD_LAZY) }.is_null()
        };
        if is_loaded(c"libcudart.so.12") && !is_loaded(c"libcudart.so.13") { 12 } else { 13 }
    })
}

/// Adds a symbol of a fat binary.
fn add(handle: usize, address: usize, name: Text, of: fn(&mut Registry) -> &mut HashMap<usize, Symbol>) {
    let mut registry = registry();
    let Some(binary) = registry.binaries.get(&handle).cloned() else { return };
    let Ok(name) = name.text() else { return };
    of(&mut registry).insert(address, Symbol { binary, name });
}

/// Registers a fat binary and returns its handle.
#[unsafe(no_mangle)]
extern "C" fn __cudaRegisterFatBinary(image: usize) -> usize {
    let binary = Arc::new(Binary { image, module: Mutex::default() });
    // The handle is a pointer, which compilers' host code may keep but does not follow.
    let handle = crate::handles::number();
    registry().binaries.insert(handle, binary);
    handle
}

/// Ends the registration of a fat binary.
#[unsafe(no_mangle)]
extern "C" fn __cudaRegisterFatBinaryEnd(_handle: usize) {}

/// Forgets a fat binary. The program is ending, or unloads a library.
#[unsafe(no_mangle)]
extern "C" fn __cudaUnregisterFatBinary(handle: usize) {
    let mut registry = registry();
    let Some(binary) = registry.binaries.remove(&handle) else { return };
    let is_other = |_: &usize, symbol: &mut Symbol| !Arc::ptr_eq(&symbol.binary, &binary);
    registry.functions.retain(is_other);
    registry.variables.retain(is_other);
}

/// Registers a kernel.
#[unsafe(no_mangle)]
extern "C" fn __cudaRegisterFunction(handle: usize, address: usize, _device_side: usize, name: Text) {
    add(handle, address, name, |registry| &mut registry.functions);
}

/// Registers a variable.
#[unsafe(no_mangle)]
extern "C" fn __cudaRegisterVar(handle: usize, address: usize, _device_side: usize, name: Text) {
    add(handle, address, name, |registry| &mut registry.variables);
}

/// Registers a managed variable.
#[unsafe(no_mangle)]
extern "C" fn __cudaRegisterManagedVar(handle: usize, address: usize, _device_side: usize, name: Text) {
    report::once("the program has a `__managed__` variable, which the host cannot access under warpwright");
    add(handle, address, name, |registry| &mut registry.variables);
}

/// Prepares a module, which is loaded when it is used.
#[unsafe(no_mangle)]
extern "C" fn __cudaInitModule(_handle: usize) -> c_char {
    1
}

functions! { super::guard; TABLE:
    11000 cudaGetFuncBySymbol: (function: Out<usize>, address: usize) {
        function.set(self::function(address)?.number)
    }
    12000 cudaGetKernel: (kernel: Out<usize>, address: usize) {
        kernel.set(function(address)?.number)
    }
    12000 __cudaGetKernel: (kernel: Out<usize>, address: usize) {
        kernel.set(function(address)?.number)
    }
}
