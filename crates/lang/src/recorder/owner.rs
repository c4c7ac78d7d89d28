//! The registers of the kernel that is being staged, and those of others.

use warpwright_ir::{Location, Register, RegisterClass};

use super::Recorder;
use super::state::{NO_REGISTER, RegionId};

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
