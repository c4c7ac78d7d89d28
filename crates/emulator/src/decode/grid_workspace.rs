//! The workspace of a cooperative launch: two words in global memory, of which one is the grid
//! barrier. CUDA's cooperative groups find them through two environment registers
//! (`cooperative_groups/details/driver_abi.h`).
//!
//! Every emulated launch is cooperative. A grid barrier of more CTAs than the device holds is
//! reported as a deadlock.

use warpwright_ptx::syntax::{Module, Operand, Statement};

use super::error::DecodeError;
use crate::load_error::LoadError;
use crate::memory::Memory;

/// The registers that hold the halves of the address, and the bit position of each.
const REGISTERS: [(&str, u32); 2] = [("%envreg1", 32), ("%envreg2", 0)];
/// Its size, stored in its first word; the barrier is the second.
const BYTES: u32 = 8;

/// The words of the barrier, by address; none if no function uses them.
pub(crate) struct GridWorkspace(Option<u64>);

impl GridWorkspace {
    /// Allocates the words if a function of the module uses them.
    pub(crate) fn place(module: &Module, memory: &mut Memory) -> Result<Self, LoadError> {
        let mut bodies = module.functions.iter().filter_map(|function| function.body.as_ref());
        if !bodies.any(|body| asks(body)) {
            return Ok(Self(None));
        }
        let refused = |error: crate::memory::MemoryError| {
            DecodeError::new(error.to_string()).at(None, 0, String::new())
        };
        let name = "the barrier of the grid".to_owned();
        let address = memory.reserve(BYTES.into(), BYTES.into(), Some(name), false).map_err(refused)?;
        memory.write(address, &u64::from(BYTES).to_le_bytes()).map_err(refused)?;
        Ok(Self(Some(address)))
    }

    /// The content of an environment register, if it is one of these.
    pub(crate) fn register(&self, name: &str) -> Option<u64> {
        let (_, shift) = REGISTERS.iter().find(|(register, _)| *register == name)?;
        self.0.map(|address| address >> shift & u64::from(u32::MAX))
    }
}

fn asks(statements: &[Statement]) -> bool {
    let is_register = |operand: &Operand| matches!(operand, Operand::Name(name) if REGISTERS.iter().any(|(register, _)| register == name));
    statements.iter().any(|statement| match statement {
        Statement::Instruction(instruction) => instruction.operands.iter().any(is_register),
        Statement::Block(inner) => asks(inner),
        _ => false,
    })
}
