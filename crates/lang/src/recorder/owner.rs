//! Which kernel a register belongs to.
//!
//! While a kernel is staged, its registers are numbered from a start of its own, so that a value of
//! another kernel is recognized wherever it is used. The finished kernel numbers them from 0.

use std::sync::atomic::{AtomicU32, Ordering};

use warpwright_ir::{Location, Register, RegisterClass};

use super::{Recorder, RegionId};

/// Bits of a register's number in its kernel; those above are the kernel's.
const NUMBER_BITS: u32 = 26;

/// A register of no kernel, where a value is never used.
pub(crate) const NO_REGISTER: Register = Register(u32::MAX);

/// The registers of one kernel: those that begin with `start`.
#[derive(Clone, Copy)]
pub(super) struct Owner {
    start: u32,
}

impl Owner {
    /// The registers of the next kernel. The numbers repeat after 63 kernels: a value of the 63rd
    /// kernel before counts as the kernel's own.
    pub(super) fn next() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let kernels = (1 << (u32::BITS - NUMBER_BITS)) - 1;
        Self { start: (NEXT.fetch_add(1, Ordering::Relaxed) % kernels) << NUMBER_BITS }
    }

    /// The register of that number.
    pub(super) fn register(self, number: usize) -> Register {
        Register(self.start | number as u32)
    }

    /// The number of one of the kernel's registers; `None` for others.
    fn number(self, register: Register) -> Option<usize> {
        let number = register.0 ^ self.start;
        (number >> NUMBER_BITS == 0).then_some(number as usize)
    }
}

/// The number of a register in its kernel, as messages show it.
pub(crate) fn number_in_kernel(register: Register) -> u32 {
    register.0 & ((1 << NUMBER_BITS) - 1)
}

impl Recorder {
    /// The number of one of this kernel's registers; `None` for those of others.
    pub(super) fn number(&self, register: Register) -> Option<usize> {
        self.owner.number(register).filter(|number| *number < self.homes.len())
    }

    /// The region that a register was made in. Those of other kernels are reported at the end.
    pub(super) fn home(&self, register: Register) -> RegionId {
        self.number(register).map_or(self.regions[0].id, |number| self.homes[number])
    }

    /// The class of a register.
    pub(crate) fn class(&self, register: Register) -> RegisterClass {
        self.number(register).map_or(RegisterClass::B32, |number| self.kernel.registers[number])
    }

    /// Numbers the kernel's registers from 0, and refuses those of other kernels.
    pub(super) fn settle_registers(&mut self) {
        let owner = self.owner;
        let mut foreign: Vec<(Register, Location)> = Vec::new();
        self.kernel.for_each_register_mut(&mut |register, location| match owner.number(*register) {
            Some(number) => *register = Register(number as u32),
            None if *register == NO_REGISTER => {}
            None if foreign.iter().any(|(known, _)| known == register) => {}
            None => foreign.push((*register, location)),
        });
        for (_, location) in foreign {
            self.error(
                location,
                "this is a value of another kernel, and its registers do not exist here: compute it in this kernel, or pass it \
                 as a parameter",
            );
        }
    }
}
