//! Sets of registers.

use crate::kernel::{Kernel, Register};

/// A set of the registers of one kernel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RegisterSet(Vec<u64>);

impl RegisterSet {
    /// No register of `kernel`.
    pub(crate) fn empty(kernel: &Kernel) -> Self {
        Self(vec![0; kernel.registers.len().div_ceil(64)])
    }

    pub(crate) fn insert(&mut self, register: Register) {
        self.0[register.0 as usize / 64] |= 1 << (register.0 % 64);
    }

    pub(crate) fn remove(&mut self, register: Register) {
        self.0[register.0 as usize / 64] &= !(1 << (register.0 % 64));
    }

    pub(crate) fn contains(&self, register: Register) -> bool {
        self.0[register.0 as usize / 64] >> (register.0 % 64) & 1 == 1
    }

    pub(crate) fn intersect(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(own, other)| *own &= other);
    }

    pub(crate) fn unite(&mut self, other: &Self) {
        self.0.iter_mut().zip(&other.0).for_each(|(own, other)| *own |= other);
    }
}
