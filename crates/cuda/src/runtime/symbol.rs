//! Variables of the device by their host side.

use std::ffi::c_int;

use super::memory::plain;
use super::registry::variable;
use crate::edge::{Out, functions};
use crate::handles::Handle;
use crate::status::{Result, Status};
use crate::stream::Stream;

/// Bytes of a variable from an offset.
fn part(symbol: usize, offset: usize, bytes: usize) -> Result<u64> {
    let (address, size) = variable(symbol)?;
    let is_inside = offset.checked_add(bytes).is_some_and(|end| end <= size);
    if is_inside { Ok(address + offset as u64) } else { Err(Status::INVALID_VALUE) }
}

functions! { super::guard; TABLE:
    2000 cudaMemcpyToSymbol | cudaMemcpyToSymbol_ptds: (
        symbol: usize, from: u64, bytes: usize, offset: usize, direction: c_int,
    ) {
        plain(part(symbol, offset, bytes)?, from, bytes, direction, Handle::new(0), true)
    }
    2000 cudaMemcpyToSymbolAsync | cudaMemcpyToSymbolAsync_ptsz: (
        symbol: usize, from: u64, bytes: usize, offset: usize, direction: c_int, stream: Handle<Stream>,
    ) {
        plain(part(symbol, offset, bytes)?, from, bytes, direction, stream, false)
    }
    2000 cudaMemcpyFromSymbol | cudaMemcpyFromSymbol_ptds: (
        to: u64, symbol: usize, bytes: usize, offset: usize, direction: c_int,
    ) {
        plain(to, part(symbol, offset, bytes)?, bytes, direction, Handle::new(0), true)
    }
    2000 cudaMemcpyFromSymbolAsync | cudaMemcpyFromSymbolAsync_ptsz: (
        to: u64, symbol: usize, bytes: usize, offset: usize, direction: c_int, stream: Handle<Stream>,
    ) {
        plain(to, part(symbol, offset, bytes)?, bytes, direction, stream, false)
    }
    2000 cudaGetSymbolAddress: (address: Out<u64>, symbol: usize) { address.set(variable(symbol)?.0) }
    2000 cudaGetSymbolSize: (bytes: Out<usize>, symbol: usize) { bytes.set(variable(symbol)?.1) }
}
