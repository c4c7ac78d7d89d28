//! The memory of Python's arrays: the only place that accesses it.

use warpwright::runtime::{Buffer, Device, Error};

/// Bytes of the host that a Python object owns, which the holder of this value keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Range {
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) is_writable: bool,
}

impl Range {
    pub(crate) fn bytes(&self) -> usize {
        (self.end - self.start) as usize
    }

    fn pointer(&self) -> *mut u8 {
        std::ptr::with_exposed_provenance_mut(self.start as usize)
    }

    /// A copy of the bytes.
    pub(crate) fn read(&self) -> Vec<u8> {
        let mut bytes = vec![0; self.bytes()];
        // SAFETY: the array is alive, since its holder is; a thread of Python that writes it meanwhile has a race of its own,
        // as with NumPy's operations that release the interpreter's lock.
        unsafe { std::ptr::copy_nonoverlapping(self.pointer(), bytes.as_mut_ptr(), bytes.len()) };
        bytes
    }

    /// Overwrites the bytes. Nothing happens to a range that is not writable.
    pub(crate) fn write(&self, bytes: &[u8]) {
        if self.is_writable && bytes.len() == self.bytes() {
            // SAFETY: as in `read`; the array allows writes.
            unsafe { std::ptr::copy_nonoverlapping(bytes.as_ptr(), self.pointer(), bytes.len()) };
        }
    }
}

/// Copies keep the place of an array in this many bytes, since compilers rely on alignments that they are told.
const ALIGNMENT: u64 = 256;

/// Bytes of the host that a device accesses.
pub(crate) struct Span {
    buffer: Buffer<u8>,
    /// Bytes of the buffer before them.
    lead: u64,
    copy: Copy,
}

enum Copy {
    /// They are used in place.
    None,
    /// The emulator uses a copy on the host, which has as many bytes before it.
    Host(Vec<u8>, usize),
    /// The copy is in the memory of the device.
    Device,
}

impl Span {
    /// Lets a device access the bytes, in place where it can and may.
    pub(crate) fn on(device: &Device, range: &Range, in_place: bool) -> Result<Self, Error> {
        if !device.properties().is_emulated {
            return Self::uploaded(device, range);
        }
        if in_place && range.is_writable {
            match view(device, range.start, range.bytes()) {
                Ok(buffer) => return Ok(Self { buffer, lead: 0, copy: Copy::None }),
                // The emulator has other memory there.
                Err(Error::ForeignMemory { .. }) => {}
                Err(error) => return Err(error),
            }
        }
        let bytes = range.read();
        let mut memory = vec![0u8; bytes.len() + ALIGNMENT as usize];
        let address = memory.as_mut_ptr().expose_provenance() as u64;
        let front = (range.start.wrapping_sub(address) % ALIGNMENT) as usize;
        memory[front..front + bytes.len()].copy_from_slice(&bytes);
        match view(device, address + front as u64, bytes.len()) {
            Ok(buffer) => Ok(Self { buffer, lead: 0, copy: Copy::Host(memory, front) }),
            Err(Error::ForeignMemory { .. }) => Self::uploaded(device, range),
            Err(error) => Err(error),
        }
    }

    fn uploaded(device: &Device, range: &Range) -> Result<Self, Error> {
        let lead = range.start % ALIGNMENT;
        let mut bytes = vec![0; lead as usize];
        bytes.extend(range.read());
        Ok(Self { buffer: device.buffer_from(&bytes)?, lead, copy: Copy::Device })
    }

    pub(crate) fn buffer(&self) -> &Buffer<u8> {
        &self.buffer
    }

    /// Bytes of [`buffer`](Self::buffer) before the span.
    pub(crate) fn lead(&self) -> u64 {
        self.lead
    }

    /// The device address of the first byte.
    pub(crate) fn address(&self) -> u64 {
        self.buffer.address() + self.lead
    }

    /// The bytes after a launch; `None` where they were used in place.
    pub(crate) fn result(&self) -> Result<Option<Vec<u8>>, Error> {
        match &self.copy {
            Copy::None => Ok(None),
            Copy::Host(memory, front) => Ok(Some(memory[*front..*front + self.buffer.len()].to_vec())),
            Copy::Device => Ok(Some(self.buffer.to_vec()?.split_off(self.lead as usize))),
        }
    }
}

/// `length` bytes at an address that a device accesses.
fn view(device: &Device, address: u64, length: usize) -> Result<Buffer<u8>, Error> {
    // SAFETY: the memory is an array, which its holder keeps, or a vector in the same `Span`. Launches of this package are
    // complete when they return, and no element is accessed in between.
    unsafe { Buffer::from_raw_parts(device, address, length) }
}
