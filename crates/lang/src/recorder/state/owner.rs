//! Which kernel a register belongs to.
//!
//! While a kernel is staged, its registers are numbered from a start of its own, so that a value of
//! another kernel is recognized wherever it is used. The finished kernel numbers them from 0.

use std::sync::atomic::{AtomicU32, Ordering};

use warpwright_ir::Register;

/// Bits of a register's number in its kernel; those above are the kernel's.
const NUMBER_BITS: u32 = 26;

/// A register of no kernel, where a value is never used.
pub(crate) const NO_REGISTER: Register = Register(u32::MAX);

/// The registers of one kernel: those that begin with `start`.
#[derive(Clone, Copy)]
pub(crate) struct Owner {
    start: u32,
}

impl Owner {
    /// The registers of the next kernel. The numbers repeat after 63 kernels: a value of the 63rd
    /// kernel before counts as the kernel's own.
    pub(crate) fn next() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let kernels = (1 << (u32::BITS - NUMBER_BITS)) - 1;
        Self { start: (NEXT.fetch_add(1, Ordering::Relaxed) % kernels) << NUMBER_BITS }
    }

    /// The register of that number.
    pub(crate) fn register(self, number: usize) -> Register {
        Register(self.start | number as u32)
    }

    /// The number of one of the kernel's registers; `None` for others.
    pub(crate) fn number(self, register: Register) -> Option<usize> {
        let number = register.0 ^ self.start;
        (number >> NUMBER_BITS == 0).then_some(number as usize)
    }
}

/// The number of a register in its kernel, as messages show it.
pub(crate) fn number_in_kernel(register: Register) -> u32 {
    register.0 & ((1 << NUMBER_BITS) - 1)
}
