//! What the driver gives a cooperative launch: two words in global memory, of which one is the barrier of the grid. CUDA's
//! cooperative groups find them by two environment registers (`cooperative_groups/details/driver_abi.h`).
//!
//! Every launch here is as if it were cooperative: a barrier of the grid that more CTAs wait at than the device holds is a
//! deadlock, and told.

use warpwright_ptx::syntax::{Module, Operand, Statement};

use super::error::DecodeError;
use crate::memory::Memory;
use crate::program::LoadError;

/// The registers that hold the halves of the address, and how far up they lie in it.
const REGISTERS: [(&str, u32); 2] = [("%envreg1", 32), ("%envreg2", 0)];
/// Its size, which its first word tells; the barrier is the second.
const BYTES: u32 = 8;

/// The words of the barrier, by their address; nowhere if no function asks for them.
pub(crate) struct GridWorkspace(Option<u64>);

impl GridWorkspace {
    /// Places the words if a function of the module asks for them.
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

    /// What an environment register holds, if it is one of these.
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
