//! Pools of memory. Allocations are the device's: a pool names them and has attributes.

use std::ffi::c_int;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use crate::edge::{In, Out};
use crate::handles::Handles;
use crate::machine::machine;
use crate::space;
use crate::status::{Result, Status};

/// Pools by their handles.
pub(crate) static POOLS: Handles<Pool> = Handles::new();

/// `CU_MEMPOOL_ATTR_RELEASE_THRESHOLD`; the attributes before it are of 32 bits.
const RELEASE_THRESHOLD: c_int = 4;
/// `CU_MEMPOOL_ATTR_USED_MEM_HIGH`
const LAST: c_int = 8;

/// A pool.
pub(crate) struct Pool {
    pub(crate) number: usize,
    attributes: Mutex<[u64; 5]>,
}

/// A new pool.
pub(crate) fn create() -> Result<Arc<Pool>> {
    machine()?;
    Ok(POOLS.add(|number| Pool { number, attributes: Mutex::new([0, 1, 1, 1, 0]) }).1)
}

/// The pool of the device.
pub(crate) fn default() -> Result<Arc<Pool>> {
    static DEFAULT: OnceLock<Arc<Pool>> = OnceLock::new();
    if let Some(pool) = DEFAULT.get() {
        return Ok(pool.clone());
    }
    let made = create()?;
    Ok(DEFAULT.get_or_init(|| made).clone())
}

impl Pool {
    pub(crate) fn set(&self, attribute: c_int, value: In<u8>) -> Result<()> {
        let value = match attribute {
            1..RELEASE_THRESHOLD => u64::from(In::<u32>::at_address(value.address()).get()?),
            RELEASE_THRESHOLD..=LAST => In::<u64>::at_address(value.address()).get()?,
            _ => return Err(Status::INVALID_VALUE),
        };
        if attribute <= RELEASE_THRESHOLD {
            self.attributes.lock().unwrap_or_else(PoisonError::into_inner)[attribute as usize] = value;
        } else if value != 0 {
            // The high marks can only be reset.
            return Err(Status::INVALID_VALUE);
        }
        Ok(())
    }

    pub(crate) fn get(&self, attribute: c_int, value: Out<u8>) -> Result<()> {
        let kept = *self.attributes.lock().unwrap_or_else(PoisonError::into_inner);
        match attribute {
            1..RELEASE_THRESHOLD => value.cast::<u32>().set(kept[attribute as usize] as u32),
            RELEASE_THRESHOLD => value.cast::<u64>().set(kept[attribute as usize]),
            5..=LAST => value.cast::<u64>().set(space::used_of(self.number)),
            _ => Err(Status::INVALID_VALUE),
        }
    }
}
