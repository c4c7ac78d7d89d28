//! Errors as Python's exceptions, which `python/warpwright/_errors.py` defines.

use pyo3::prelude::*;
use serde_json::Value;
use warpwright::runtime::Error;

macro_rules! exceptions {
    ($($name:ident)*) => {
        $(pyo3::import_exception!(warpwright._errors, $name);)*
    };
}

exceptions! {
    ArgumentError DeviceError FaultError FindingsError HalfWrittenError LaunchError OutOfMemoryError PtxError
    ReadOnlyError UnknownKernelError WarpwrightError
}

/// An error of the runtime. Findings and faults of a launch are [`found`].
pub(crate) fn raised(error: Error) -> PyErr {
    let message = error.to_string();
    match error {
        Error::UnknownDevice { .. }
        | Error::UnknownArch(_)
        | Error::NoDriver { .. }
        | Error::NoSuchGpu { .. }
        | Error::TooOld { .. }
        | Error::EmulatorStart { .. }
        | Error::NotChecked { .. }
        | Error::NotCounted { .. }
        | Error::NotTimed { .. }
        | Error::NotLimited { .. }
        | Error::PrintsToStandardOutput { .. }
        | Error::WrongDevice { .. } => DeviceError::new_err(message),
        Error::OutOfMemory { .. } | Error::OutOfHostMemory { .. } => OutOfMemoryError::new_err(message),
        Error::Parse(_) | Error::Load(_) | Error::Assemble { .. } => PtxError::new_err(message),
        Error::NoSuchKernel { .. } => UnknownKernelError::new_err(message),
        Error::ArgumentCount { .. }
        | Error::ArgumentType { .. }
        | Error::TensorMap(_)
        | Error::TensorMapOf { .. }
        | Error::TensorOutside { .. }
        | Error::ForeignMemory { .. } => ArgumentError::new_err(message),
        Error::BadLaunch { .. } => LaunchError::new_err(message),
        Error::HalfWritten { .. } => HalfWrittenError::new_err(message),
        Error::Findings { .. } => {
            let mut findings = warpwright_cli::findings::Findings::default();
            findings.add(warpwright::runtime::Schedule::Eager, error.findings());
            found(&message, &Value::from(findings.json()), false)
        }
        _ => WarpwrightError::new_err(message),
    }
}

/// What checkers found, or what stopped a kernel.
pub(crate) fn found(message: &str, findings: &Value, is_fault: bool) -> PyErr {
    let arguments = (message.to_owned(), findings.to_string());
    if is_fault { FaultError::new_err(arguments) } else { FindingsError::new_err(arguments) }
}
