//! Modules and libraries: loaded PTX, its kernels and its variables.

use std::collections::HashMap;
use std::sync::{Arc, Mutex, PoisonError};

use warpwright_runtime::{Error, Module as Loaded};

use crate::context::Context;
use crate::function::{FUNCTIONS, Function};
use crate::handles::Handles;
use crate::machine::machine;
use crate::report;
use crate::space::{self, Kind};
use crate::status::{Result, Status};

/// Modules by their handles.
pub(crate) static MODULES: Handles<Module> = Handles::new();

/// A module, which a library also is: the emulator loads both at once.
pub(crate) struct Module {
    pub(crate) number: usize,
    loaded: Loaded,
    functions: Mutex<HashMap<String, Arc<Function>>>,
}

impl Module {
    /// Loads PTX text. The error has the loader's message.
    pub(crate) fn load_text(text: &str, context: &Context) -> Result<Arc<Self>, (Status, String)> {
        let machine = machine().map_err(|status| (status, String::new()))?;
        let loaded = machine.raw.device().load_ptx(text).map_err(|error| {
            let message = error.to_string();
            report::once(&format!("a module is refused: {message}"));
            (of_load(&error), message)
        })?;
        let variables = loaded.variables();
        let make = |number| Self { number, loaded, functions: Mutex::default() };
        let module = MODULES.add(make).1;
        for (address, bytes) in variables.iter().filter_map(|name| module.variable(name).ok()) {
            space::add(address, bytes as u64, Kind::Variable, context.number);
        }
        Ok(module)
    }

    /// A variable's address and size.
    pub(crate) fn variable(&self, name: &str) -> Result<(u64, usize)> {
        self.loaded.raw_variable(name).ok().flatten().ok_or(Status::NOT_FOUND)
    }

    /// A kernel.
    pub(crate) fn function(&self, name: &str) -> Result<Arc<Function>> {
        let mut functions = self.functions.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(function) = functions.get(name) {
            return Ok(function.clone());
        }
        let loaded = self.loaded.function(name).map_err(|_| Status::NOT_FOUND)?;
        let make = |number| Function::new(number, loaded, self.number);
        let function = FUNCTIONS.add(make).1;
        functions.insert(name.to_owned(), function.clone());
        Ok(function)
    }

    /// The names of its kernels.
    pub(crate) fn kernels(&self) -> Vec<String> {
        self.loaded.kernels()
    }

    /// Removes it: its variables and kernels are found no more.
    pub(crate) fn unload(&self) -> Result<()> {
        for name in self.loaded.variables() {
            if let Ok((address, _)) = self.variable(&name) {
                space::remove(address, |kind| kind == Kind::Variable)?;
            }
        }
        for (_, function) in self.functions.lock().unwrap_or_else(PoisonError::into_inner).drain() {
            FUNCTIONS.remove(crate::handles::Handle::new(function.number))?;
        }
        Ok(())
    }
}

/// The status of a module that is refused.
fn of_load(error: &Error) -> Status {
    match error {
        Error::OutOfMemory { .. } | Error::OutOfHostMemory { .. } => Status::OUT_OF_MEMORY,
        _ => Status::INVALID_PTX,
    }
}
