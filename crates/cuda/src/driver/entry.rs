//! Initialization, errors, and the addresses of functions.

use std::ffi::{CString, c_char, c_int};
use std::sync::Mutex;

use super::guard;
use crate::edge::{Entry, In, Out, Text, functions};
use crate::machine::{CUDA_VERSION, initialize};
use crate::report;
use crate::status::{Result, Status};

/// `CU_GET_PROC_ADDRESS_PER_THREAD_DEFAULT_STREAM`
const PER_THREAD_DEFAULT_STREAM: u64 = 2;

/// Outcome of a search, `CUdriverProcAddressQueryResult`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Found {
    Entry(usize),
    Nothing,
    VersionTooLow,
}

/// The newest variant of a function that a version of CUDA has: of `cuMemAlloc`, `cuMemAlloc_v2`.
pub(crate) fn find(name: &str, version: u32, per_thread: bool) -> Found {
    let mut found: Option<(bool, u32, &Entry)> = None;
    let mut is_known = false;
    for entry in super::TABLES.iter().copied().flatten() {
        let Some(rest) = entry.name.strip_prefix(name) else { continue };
        let (rest, is_per_thread) = match rest.strip_suffix("_ptsz").or(rest.strip_suffix("_ptds")) {
            Some(rest) => (rest, true),
            None => (rest, false),
        };
        let variant = match rest.strip_prefix("_v").map(str::parse) {
            Some(Ok(variant)) => variant,
            None if rest.is_empty() => 1,
            _ => continue,
        };
        if is_per_thread && !per_thread {
            continue;
        }
        is_known = true;
        if entry.since > version {
            continue;
        }
        // The thread's variant, if there is one; then the newest.
        let rank = (is_per_thread, variant, entry);
        if found.as_ref().is_none_or(|best| (best.1, best.0) < (rank.1, rank.0)) {
            found = Some(rank);
        }
    }
    match found {
        Some((_, _, entry)) => Found::Entry((entry.address)()),
        None if is_known => Found::VersionTooLow,
        None => Found::Nothing,
    }
}

/// A string that lives as long as the process.
pub(crate) fn leaked(text: &str) -> *const c_char {
    static KEPT: Mutex<Vec<(String, usize)>> = Mutex::new(Vec::new());
    let mut kept = KEPT.lock().unwrap_or_else(std::sync::PoisonError::into_inner);
    if let Some((_, address)) = kept.iter().find(|(of, _)| of == text) {
        return std::ptr::with_exposed_provenance(*address);
    }
    let pointer = CString::new(text).unwrap_or_default().into_raw().cast_const();
    kept.push((text.to_owned(), pointer.expose_provenance()));
    pointer
}

fn proc_address(symbol: Text, pfn: Out<usize>, version: c_int, flags: u64, status: Out<c_int>) -> Result<()> {
    let name = symbol.text()?;
    pfn.check()?;
    let found = find(&name, version.max(0) as u32, flags & PER_THREAD_DEFAULT_STREAM != 0);
    let (address, code) = match found {
        Found::Entry(address) => (address, 0),
        Found::Nothing => (0, 1),
        Found::VersionTooLow => (0, 2),
    };
    pfn.set(address)?;
    status.set_if_wanted(code);
    if address == 0 && status.is_null() { Err(Status::NOT_FOUND) } else { Ok(()) }
}

functions! { guard; TABLE:
    2000 cuInit: (flags: u32) {
        if flags != 0 { return Err(Status::INVALID_VALUE) }
        initialize()
    }
    2020 cuDriverGetVersion: (version: Out<c_int>) {
        version.set(CUDA_VERSION as c_int)
    }
    6000 cuGetErrorName: (error: Status, text: Out<*const c_char>) {
        let name = if error == Status::SUCCESS { Some("CUDA_SUCCESS") } else { error.row().map(|row| row.driver) };
        text.set(name.map_or(std::ptr::null(), leaked))?;
        name.map(|_| ()).ok_or(Status::INVALID_VALUE)
    }
    6000 cuGetErrorString: (error: Status, text: Out<*const c_char>) {
        let said = if error == Status::SUCCESS { Some("no error") } else { error.row().map(|row| row.text) };
        text.set(said.map_or(std::ptr::null(), leaked))?;
        said.map(|_| ()).ok_or(Status::INVALID_VALUE)
    }
    11030 cuGetProcAddress: (symbol: Text, pfn: Out<usize>, version: c_int, flags: u64) {
        let name = symbol.text()?;
        match find(&name, version.max(0) as u32, flags & PER_THREAD_DEFAULT_STREAM != 0) {
            Found::Entry(address) => pfn.set(address),
            _ => { pfn.set(0)?; Err(Status::NOT_FOUND) }
        }
    }
    12000 cuGetProcAddress_v2: (symbol: Text, pfn: Out<usize>, version: c_int, flags: u64, status: Out<c_int>) {
        proc_address(symbol, pfn, version, flags, status)
    }
    4000 cuGetExportTable: (table: Out<usize>, id: In<[u8; 16]>) {
        table.set(0)?;
        id.get()?;
        report::once(
            "the program is linked to NVIDIA's runtime library, which asks the driver for a proof that it is NVIDIA's; \
             relink it with `nvcc -cudart shared`, so that it loads warpwright's runtime library",
        );
        Err(Status::NOT_FOUND)
    }
}
