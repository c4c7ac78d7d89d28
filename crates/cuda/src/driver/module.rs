//! Modules, libraries, kernels and the linker.

use std::ffi::{c_char, c_int, c_void};

use super::guard;
use crate::context::{Context, current};
use crate::edge::{In, Out, Text, functions};
use crate::function::{FUNCTIONS, Function};
use crate::handles::Handle;
use crate::linker::{self, LINKERS, Linker};
use crate::machine::machine;
use crate::module::{MODULES, Module};
use crate::status::{Result, Status};

/// `CUjit_option` of the buffer for errors, and of its size.
const ERROR_LOG: c_int = 5;
const ERROR_LOG_BYTES: c_int = 6;

/// Loads an image, and writes why it is refused to the buffer that the options name.
fn load(
    module: Out<usize>,
    image: usize,
    options: (u32, In<c_int>, In<usize>),
    context: &Context,
) -> Result<()> {
    module.check()?;
    if image == 0 {
        return Err(Status::INVALID_VALUE);
    }
    let text = crate::fatbin::ptx(image, machine()?.arch.capability)?;
    match Module::load_text(&text, context) {
        Ok(loaded) => module.set(loaded.number),
        Err((status, message)) => {
            write_log(options, &message)?;
            Err(status)
        }
    }
}

fn write_log((count, names, values): (u32, In<c_int>, In<usize>), message: &str) -> Result<()> {
    let (mut buffer, mut room) = (0, 0);
    for index in 0..count as usize {
        match names.at(index).get()? {
            ERROR_LOG => buffer = values.at(index).get()?,
            ERROR_LOG_BYTES => room = values.at(index).get()? as u32 as usize,
            _ => {}
        }
    }
    if buffer != 0 && room > 0 {
        Out::<c_char>::at_address(buffer).set_text(message, room)?;
    }
    Ok(())
}

const NO_OPTIONS: fn() -> (u32, In<c_int>, In<usize>) = || (0, In::at_address(0), In::at_address(0));

/// A file's bytes, with the zero that ends a text.
fn file(name: Text) -> Result<Vec<u8>> {
    let mut bytes = std::fs::read(name.text()?).map_err(|_| Status::FILE_NOT_FOUND)?;
    bytes.resize(bytes.len() + 8, 0);
    Ok(bytes)
}

fn address(bytes: &[u8]) -> usize {
    bytes.as_ptr().expose_provenance()
}

/// The context that a library, which belongs to none, is loaded for.
fn of_library() -> Result<&'static Context> {
    machine()?;
    Ok(crate::context::current_or_none()?.unwrap_or_else(Context::primary))
}

fn variable(module: &Module, name: Text, to: Out<u64>, bytes: Out<usize>) -> Result<()> {
    let (address, size) = module.variable(&name.text()?)?;
    to.set_if_wanted(address);
    bytes.set_if_wanted(size);
    Ok(())
}

functions! { guard; TABLE:
    2000 cuModuleLoad: (module: Out<usize>, name: Text) {
        let bytes = file(name)?;
        load(module, address(&bytes), NO_OPTIONS(), current()?)
    }
    2000 cuModuleLoadData: (module: Out<usize>, image: usize) {
        load(module, image, NO_OPTIONS(), current()?)
    }
    2010 cuModuleLoadDataEx: (module: Out<usize>, image: usize, count: u32, names: In<c_int>, values: In<usize>) {
        load(module, image, (count, names, values), current()?)
    }
    2000 cuModuleLoadFatBinary: (module: Out<usize>, image: usize) {
        load(module, image, NO_OPTIONS(), current()?)
    }
    2000 cuModuleUnload: (module: Handle<Module>) {
        let context = current()?;
        let module = MODULES.remove(module)?;
        context.synchronize_all();
        module.unload()
    }
    11070 cuModuleGetLoadingMode: (mode: Out<c_int>) {
        mode.set(1)
    }
    2000 cuModuleGetFunction: (function: Out<usize>, module: Handle<Module>, name: Text) {
        current()?;
        function.check()?;
        function.set(MODULES.get(module)?.function(&name.text()?)?.number)
    }
    12040 cuModuleGetFunctionCount: (count: Out<u32>, module: Handle<Module>) {
        count.set(MODULES.get(module)?.kernels().len() as u32)
    }
    12040 cuModuleEnumerateFunctions: (functions: Out<usize>, count: u32, module: Handle<Module>) {
        let module = MODULES.get(module)?;
        for (index, name) in module.kernels().iter().take(count as usize).enumerate() {
            functions.at(index).set(module.function(name)?.number)?;
        }
        Ok(())
    }
    3020 cuModuleGetGlobal_v2: (to: Out<u64>, bytes: Out<usize>, module: Handle<Module>, name: Text) {
        current()?;
        variable(&*MODULES.get(module)?, name, to, bytes)
    }
    12000 cuLibraryLoadData: (
        library: Out<usize>, image: usize, names: In<c_int>, values: In<usize>, count: u32,
        _library_names: In<c_int>, _library_values: In<usize>, _library_count: u32,
    ) {
        load(library, image, (count, names, values), of_library()?)
    }
    12000 cuLibraryLoadFromFile: (
        library: Out<usize>, name: Text, names: In<c_int>, values: In<usize>, count: u32,
        _library_names: In<c_int>, _library_values: In<usize>, _library_count: u32,
    ) {
        let bytes = file(name)?;
        load(library, address(&bytes), (count, names, values), of_library()?)
    }
    12000 cuLibraryUnload: (library: Handle<Module>) {
        MODULES.remove(library)?.unload()
    }
    12000 cuLibraryGetKernel: (kernel: Out<usize>, library: Handle<Module>, name: Text) {
        kernel.check()?;
        kernel.set(MODULES.get(library)?.function(&name.text()?)?.number)
    }
    12000 cuLibraryGetModule: (module: Out<usize>, library: Handle<Module>) {
        module.set(MODULES.get(library)?.number)
    }
    12000 cuLibraryGetGlobal: (to: Out<u64>, bytes: Out<usize>, library: Handle<Module>, name: Text) {
        variable(&*MODULES.get(library)?, name, to, bytes)
    }
    12000 cuLibraryGetManaged: (to: Out<u64>, bytes: Out<usize>, library: Handle<Module>, name: Text) {
        variable(&*MODULES.get(library)?, name, to, bytes)
    }
    12040 cuLibraryGetKernelCount: (count: Out<u32>, library: Handle<Module>) {
        count.set(MODULES.get(library)?.kernels().len() as u32)
    }
    12040 cuLibraryEnumerateKernels: (kernels: Out<usize>, count: u32, library: Handle<Module>) {
        cuModuleEnumerateFunctions(kernels, count, library).ok()
    }
    12000 cuKernelGetFunction: (function: Out<usize>, kernel: Handle<Function>) {
        current()?;
        function.set(FUNCTIONS.get(kernel)?.number)
    }
    12050 cuKernelGetLibrary: (library: Out<usize>, kernel: Handle<Function>) {
        library.set(FUNCTIONS.get(kernel)?.module)
    }
    12000 cuKernelGetAttribute: (value: Out<c_int>, attribute: c_int, kernel: Handle<Function>, _device: c_int) {
        value.set(FUNCTIONS.get(kernel)?.attribute(attribute)?)
    }
    12000 cuKernelSetAttribute: (attribute: c_int, value: c_int, kernel: Handle<Function>, _device: c_int) {
        FUNCTIONS.get(kernel)?.set_attribute(attribute, value)
    }
    12000 cuKernelSetCacheConfig: (kernel: Handle<Function>, _config: c_int, _device: c_int) {
        FUNCTIONS.get(kernel).map(|_| ())
    }
    12030 cuKernelGetName: (name: Out<*const c_char>, kernel: Handle<Function>) {
        name.set(super::leaked(FUNCTIONS.get(kernel)?.loaded.name()))
    }
    12040 cuKernelGetParamInfo: (kernel: Handle<Function>, index: usize, offset: Out<usize>, bytes: Out<usize>) {
        let function = FUNCTIONS.get(kernel)?;
        let (start, size) = *function.parameters.get(index).ok_or(Status::INVALID_VALUE)?;
        offset.set(start)?;
        bytes.set_if_wanted(size);
        Ok(())
    }
    12040 cuFuncGetParamInfo: (function: Handle<Function>, index: usize, offset: Out<usize>, bytes: Out<usize>) {
        cuKernelGetParamInfo(function, index, offset, bytes).ok()
    }
    2020 cuFuncGetAttribute: (value: Out<c_int>, attribute: c_int, function: Handle<Function>) {
        current()?;
        value.check()?;
        value.set(FUNCTIONS.get(function)?.attribute(attribute)?)
    }
    9000 cuFuncSetAttribute: (function: Handle<Function>, attribute: c_int, value: c_int) {
        current()?;
        FUNCTIONS.get(function)?.set_attribute(attribute, value)
    }
    3000 cuFuncSetCacheConfig: (function: Handle<Function>, _config: c_int) {
        FUNCTIONS.get(function).map(|_| ())
    }
    4020 cuFuncSetSharedMemConfig: (function: Handle<Function>, _config: c_int) {
        FUNCTIONS.get(function).map(|_| ())
    }
    11000 cuFuncGetModule: (module: Out<usize>, function: Handle<Function>) {
        module.set(FUNCTIONS.get(function)?.module)
    }
    12030 cuFuncGetName: (name: Out<*const c_char>, function: Handle<Function>) {
        name.set(super::leaked(FUNCTIONS.get(function)?.loaded.name()))
    }
    12040 cuFuncIsLoaded: (state: Out<c_int>, function: Handle<Function>) {
        FUNCTIONS.get(function)?;
        state.set(1)
    }
    12040 cuFuncLoad: (function: Handle<Function>) {
        FUNCTIONS.get(function).map(|_| ())
    }
    6050 cuLinkCreate_v2: (_count: u32, _names: In<c_int>, _values: In<usize>, state: Out<usize>) {
        state.check()?;
        state.set(Linker::create().number)
    }
    6050 cuLinkAddData_v2: (
        state: Handle<Linker>, kind: c_int, data: usize, bytes: usize, name: Text,
        _count: u32, _names: In<c_int>, _values: In<*mut c_void>,
    ) {
        let name = if name.is_null() { "an input".to_owned() } else { name.text()? };
        LINKERS.get(state)?.add(kind, In::at_address(data).bytes(bytes)?, &name)
    }
    6050 cuLinkAddFile_v2: (
        state: Handle<Linker>, kind: c_int, path: Text, _count: u32, _names: In<c_int>, _values: In<*mut c_void>,
    ) {
        let name = path.text()?;
        LINKERS.get(state)?.add(kind, std::fs::read(&name).map_err(|_| Status::FILE_NOT_FOUND)?, &name)
    }
    5050 cuLinkComplete: (state: Handle<Linker>, image: Out<usize>, bytes: Out<usize>) {
        let (address, size) = linker::complete(&*LINKERS.get(state)?)?;
        image.set(address)?;
        bytes.set_if_wanted(size);
        Ok(())
    }
    5050 cuLinkDestroy: (state: Handle<Linker>) {
        LINKERS.remove(state).map(|_| ())
    }
}
