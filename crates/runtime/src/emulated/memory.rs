//! The memory of an emulated device.

use std::collections::BTreeMap;
use std::sync::{Arc, MutexGuard, PoisonError};

use warpwright_arch::tensor_map::{Description, TENSOR_MAP_BYTES};
use warpwright_check::{Elements, SourceFiles};
use warpwright_emulator::{MemoryError, tensor_map};

use super::{Adopted, Machine, SharedRegions, expect_none, source};
use crate::backend::{Call, Memory, of_one_kind};
use crate::error::{Error, Result};

impl Memory for Machine {
    fn allocate(&self, bytes: usize) -> Result<u64> {
        let address = self.result(self.write().allocate(bytes as u64))?;
        self.note(|host| host.allocated(address, bytes as u64));
        Ok(address)
    }

    fn free(&self, address: u64) {
        self.note(|host| host.freed(address));
        let shared = self.shared().remove(&address);
        if let Some((region, machines)) = shared {
            machines.iter().for_each(|machine| machine.write().detach(&region));
        }
        // The address came from `allocate` and is freed once, so this cannot fail.
        let _ = self.write().free(address);
    }

    fn share(&self, others: &[Arc<dyn Memory>], bytes: usize) -> Result<Option<u64>> {
        of_one_kind(others).map_or(Ok(None), |others| self.share_with(others, bytes))
    }

    unsafe fn adopt(&self, address: u64, bytes: usize) -> Result<()> {
        let (mut adopted, bytes) = (self.adopted(), bytes as u64);
        if self.read().is_inside_allocation(address, bytes) {
            containing(&mut adopted, address).into_iter().for_each(|(_, memory)| memory.users += 1);
            return Ok(());
        }
        // SAFETY: the caller passes allocated bytes, which stay so until they are released.
        self.result(unsafe { self.write().adopt(address, bytes) })?;
        adopted.insert(address, Adopted { bytes, users: 1 });
        Ok(())
    }

    fn release(&self, address: u64) {
        let mut adopted = self.adopted();
        let Some((start, memory)) = containing(&mut adopted, address) else { return };
        memory.users -= 1;
        if memory.users == 0 {
            adopted.remove(&start);
            self.write().release(start);
            self.note(|host| host.freed(start));
        }
    }

    fn upload(&self, address: u64, bytes: &[u8]) -> Result<()> {
        self.settle_all();
        self.note(|host| host.written(address, bytes.len() as u64, is_uniform(bytes)));
        self.result(self.write().write(address, bytes))
    }

    fn zero(&self, to: &Elements) -> Result<()> {
        self.settle_all();
        self.note(|host| host.written(to.address(), to.bytes, true));
        self.result(self.write().fill(to.address(), 0, to.bytes as usize))
    }

    fn download(&self, address: u64, bytes: &mut [u8]) -> Result<()> {
        self.settle_all();
        self.result(self.read().read(address, bytes))
    }

    fn expect_written(&self, read: &Elements, call: Call) -> Result<()> {
        let Some(host) = self.host_checks() else { return Ok(()) };
        let call = source(call);
        let finding = host.unwritten(read, &call, self.read().initialized());
        expect_none(finding.into_iter().collect::<Vec<_>>())?;
        if let Some(remark) = host.left(read, &call) {
            eprintln!("{}", warpwright_check::render(&remark, &mut SourceFiles::here(), false));
            self.remarks().push(remark);
        }
        Ok(())
    }

    fn encode_tensor_map(&self, map: &Description) -> Result<[u8; TENSOR_MAP_BYTES]> {
        Ok(tensor_map::encode(map))
    }
}

impl Machine {
    /// Allocates memory that these other devices access, too; `None` if they are of another host.
    fn share_with(&self, others: Vec<Arc<Self>>, bytes: usize) -> Result<Option<u64>> {
        let own = self.read();
        if !others.iter().all(|other| own.is_peer_of(&other.read())) {
            return Ok(None);
        }
        drop(own);
        let region = self.result(self.write().share(bytes as u64))?;
        others.iter().for_each(|machine| machine.write().attach(&region));
        let address = region.address();
        self.shared().insert(address, (region, others));
        Ok(Some(address))
    }

    fn shared(&self) -> MutexGuard<'_, SharedRegions> {
        self.shared.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn adopted(&self) -> MutexGuard<'_, BTreeMap<u64, Adopted>> {
        self.adopted.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn result<T>(&self, outcome: Result<T, MemoryError>) -> Result<T> {
        outcome.map_err(|error| match error {
            MemoryError::OutOfMemory { requested, .. } => {
                Error::OutOfMemory { bytes: requested, device: self.name.clone() }
            }
            MemoryError::HostOutOfMemory { requested, available } => {
                Error::OutOfHostMemory { bytes: requested, available, device: self.name.clone() }
            }
            MemoryError::NotAdopted { address, taken, .. } => Error::ForeignMemory {
                address,
                device: self.name.clone(),
                reason: format!("the emulator has {taken} there"),
            },
            other => Error::Driver {
                call: "emulator",
                name: "memory error".to_owned(),
                description: other.to_string(),
            },
        })
    }
}

/// The adopted memory that contains an address, and where it begins.
fn containing(adopted: &mut BTreeMap<u64, Adopted>, address: u64) -> Option<(u64, &mut Adopted)> {
    let (start, memory) = adopted.range_mut(..=address).next_back()?;
    (address < start + memory.bytes).then_some((*start, memory))
}

/// Whether bytes are equal elements, of up to 8 bytes.
fn is_uniform(bytes: &[u8]) -> bool {
    bytes.len() >= 16 && bytes[8..] == bytes[..bytes.len() - 8]
}
