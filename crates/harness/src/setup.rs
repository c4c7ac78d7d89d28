//! The device that a workload is prepared on, and the buffers on it.

use warpwright::arch::Capability;
use warpwright::runtime::{Buffer, Device, Storable};

use crate::error::Result;
use crate::number::{HostNumber, Values};
use crate::prepared::Rotation;
use crate::work::Work;

/// All sets of buffers together are this many times the size of the L2 cache, up to [`MAX_SETS`].
const L2_SIZES: u64 = 4;
/// The maximum number of sets.
const MAX_SETS: u64 = 64;
/// The byte that outputs are filled with: a NaN in every float.
const POISON: u8 = 0xff;

/// A device and the seed of the inputs.
#[derive(Clone, Debug)]
pub struct Setup {
    device: Device,
    seed: u64,
}

impl Setup {
    /// Inputs of seed 1.
    pub fn new(device: &Device) -> Self {
        Self::with_seed(device, 1)
    }

    /// Inputs of `seed`.
    pub fn with_seed(device: &Device, seed: u64) -> Self {
        Self { device: device.clone(), seed }
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The seed of the inputs.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// The compute capability of the device.
    pub fn capability(&self) -> &'static Capability {
        self.device.properties().capability
    }

    /// The SM count of the device.
    pub fn sm_count(&self) -> u32 {
        self.device.properties().sm_count
    }

    /// Refuses work whose buffers cannot fit, before anything is generated or allocated.
    pub(crate) fn check_memory(&self, work: Work) -> Result<()> {
        Ok(self.device.check_memory(work.bytes as u64)?)
    }

    /// Sets of buffers that launches use in rotation. `make` makes the set of a seed.
    ///
    /// On a GPU the sets together exceed the L2 cache, so that no launch finds its inputs there. An
    /// emulated device has no cache and one set.
    ///
    /// # Errors
    /// The errors of `make`.
    pub fn buffers<Set>(&self, work: Work, make: impl Fn(u64) -> Result<Set>) -> Result<Rotation<Set>> {
        let sets = (0..self.set_count(work)).map(|set| make(self.seed.wrapping_add(set << 32)));
        Ok(Rotation { sets: sets.collect::<Result<_>>()? })
    }

    /// The number of sets that [`buffers`](Self::buffers) makes.
    pub fn set_count(&self, work: Work) -> u64 {
        let properties = self.device.properties();
        match properties.is_emulated {
            true => 1,
            false => (L2_SIZES * properties.l2_bytes).div_ceil((work.bytes as u64).max(1)).min(MAX_SETS),
        }
    }

    /// A buffer with the `length` elements that `generate` makes. A dry run generates nothing.
    ///
    /// # Errors
    /// The device is out of memory.
    ///
    /// # Panics
    /// `generate` returns another number of elements.
    pub fn input<T: Storable>(
        &self,
        length: usize,
        generate: impl FnOnce(usize) -> Vec<T>,
    ) -> Result<Buffer<T>> {
        if self.device.is_dry_run() {
            return Ok(self.device.uninitialized(length)?);
        }
        self.device.check_memory((length as u64).saturating_mul(size_of::<T>() as u64))?;
        let elements = generate(length);
        assert_eq!(elements.len(), length, "the generator makes as many elements as the buffer has");
        Ok(self.device.buffer_from(&elements)?)
    }

    /// A buffer with `length` random numbers.
    ///
    /// # Errors
    /// The device is out of memory.
    pub fn values<T: HostNumber>(&self, values: Values, seed: u64, length: usize) -> Result<Buffer<T>> {
        self.input(length, |length| values.numbers(seed, length))
    }

    /// A buffer for `length` elements of a result. Every byte is `0xff`, a NaN in every float, so
    /// that an element that the kernel does not write is found.
    ///
    /// # Errors
    /// The device is out of memory.
    pub fn output<T: Storable>(&self, length: usize) -> Result<Buffer<T>> {
        self.device.check_memory((length as u64).saturating_mul(size_of::<T>() as u64))?;
        let mut buffer = self.device.uninitialized(length)?;
        if !self.device.properties().is_emulated {
            let stream = self.device.stream()?;
            stream.fill(&mut buffer, POISON)?;
            stream.synchronize()?;
        }
        Ok(buffer)
    }
}
