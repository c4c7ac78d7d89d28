//! The operation for programs.

use std::sync::Arc;

use warpwright::runtime::{Buffer, Device, LaunchCounts, Storable, Stream};

use super::kernel::{
    AbortKernel, Collective, CollectiveKernel, MAX_CTAS, MAX_RANKS, ResetKernel, THREADS, VECTORS,
    workspace_bytes,
};
use crate::operations::{OperationError, Operations, Result, expect_length};
use crate::rows::RowElement;
use crate::vector;

/// Elements of a message at most: indices have 32 bits.
const MAX_LENGTH: u32 = 1 << 31;

/// The operation's name in errors.
const OPERATION: &str = "a collective operation";

/// The collective operations of one rank.
///
/// All ranks make the same calls in the same order, each on one stream and from a host thread of its
/// own. A rank whose calls stop makes the others wait, unless it [aborts](Self::abort).
pub struct Communicator {
    rank: u32,
    addresses: [u64; MAX_RANKS],
    /// Of all ranks: kernels of each write to all of them.
    workspaces: Arc<Vec<Buffer<u8>>>,
}

impl Communicator {
    /// Those of all ranks: of each device, in order. Devices are two to eight of [`Device::peers`].
    ///
    /// # Errors
    /// There are fewer devices or more, one cannot access the memory of another, or memory is missing.
    pub fn of_devices(devices: &[Device]) -> Result<Vec<Self>> {
        if !(2..=MAX_RANKS).contains(&devices.len()) {
            let reason = format!("{} devices; give 2 to {MAX_RANKS}", devices.len());
            return Err(OperationError::Shape { what: OPERATION, reason });
        }
        let bytes = workspace_bytes(devices.len() as u32) as usize;
        let workspaces = Arc::new(Device::peer_buffers::<u8>(devices, bytes)?);
        let mut addresses = [0; MAX_RANKS];
        addresses.iter_mut().zip(&*workspaces).for_each(|(address, buffer)| *address = buffer.address());
        let rank = |rank| Self { rank: rank as u32, addresses, workspaces: workspaces.clone() };
        Ok((0..devices.len()).map(rank).collect())
    }

    /// The number of the rank, from 0.
    pub fn rank(&self) -> u32 {
        self.rank
    }

    /// The number of ranks.
    pub fn ranks(&self) -> u32 {
        self.workspaces.len() as u32
    }

    /// y = the sum of `x` of all ranks. Every rank has the same result, rounded once to `T` from f32. Made
    /// for messages of up to half a megabyte; longer ones take several rounds.
    ///
    /// # Errors
    /// The lengths differ, or the device refuses.
    pub fn all_reduce<T: RowElement + Storable>(
        &self,
        operations: &Operations,
        stream: &Stream,
        x: &Buffer<T>,
        y: &mut Buffer<T>,
    ) -> Result<LaunchCounts> {
        expect_length("the result of an all-reduce", x.len(), y.len())?;
        self.launch(operations, stream, Collective::Reduce, (x, x.len()), y)
    }

    /// y += the sum of `x` of all ranks, as [`all_reduce`](Self::all_reduce).
    ///
    /// ```
    /// # use warpwright::runtime::Device;
    /// # use warpwright_kernels::communicator::Communicator;
    /// # use warpwright_kernels::operations::Operations;
    /// let devices = Device::peers("emu:h200", 2)?;
    /// let ranks = Communicator::of_devices(&devices)?;
    /// std::thread::scope(|scope| {
    ///     for (device, rank) in devices.iter().zip(&ranks) {
    ///         scope.spawn(|| {
    ///             let (operations, stream) = (Operations::new(device), device.stream().unwrap());
    ///             let x = device.buffer_from(&[rank.rank() as f32; 3]).unwrap();
    ///             let mut y = device.buffer_from(&[10.0f32; 3]).unwrap();
    ///             rank.all_reduce_add(&operations, &stream, &x, &mut y).unwrap();
    ///             assert_eq!(y.to_vec().unwrap(), [11.0; 3]);
    ///         });
    ///     }
    /// });
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// The lengths differ, or the device refuses.
    pub fn all_reduce_add<T: RowElement + Storable>(
        &self,
        operations: &Operations,
        stream: &Stream,
        x: &Buffer<T>,
        y: &mut Buffer<T>,
    ) -> Result<LaunchCounts> {
        expect_length("the result of an all-reduce", x.len(), y.len())?;
        self.launch(operations, stream, Collective::ReduceAdd, (x, x.len()), y)
    }

    /// Rows of y are the rows of `x` of all ranks, side by side. `x` has rows of `columns`.
    ///
    /// # Errors
    /// `x` is not of whole rows, y has another length, or the device refuses.
    pub fn all_gather<T: RowElement + Storable>(
        &self,
        operations: &Operations,
        stream: &Stream,
        (x, columns): (&Buffer<T>, u32),
        y: &mut Buffer<T>,
    ) -> Result<LaunchCounts> {
        let columns = columns as usize;
        if columns == 0 || !x.len().is_multiple_of(columns) {
            let reason = format!("{} elements are not rows of {columns}", x.len());
            return Err(OperationError::Shape { what: "an all-gather", reason });
        }
        expect_length("the result of an all-gather", self.workspaces.len() * x.len(), y.len())?;
        self.launch(operations, stream, Collective::Gather, (x, columns), y)
    }

    /// Ends the waits of other ranks for this one, which cannot make its next call. Results that they wait
    /// for hold anything, and no rank makes a further call before one of them [resets](Self::reset) all.
    ///
    /// # Errors
    /// The device refuses.
    pub fn abort(&self, operations: &Operations, stream: &Stream) -> Result<()> {
        let kernel = operations.kernel(AbortKernel { ranks: self.ranks() }, AbortKernel::run)?;
        kernel.launch(stream, 1, (self.addresses, self.rank))?;
        Ok(())
    }

    /// Makes the communicators of all ranks as new after an [abort](Self::abort). One rank calls it, and waits for the
    /// stream, while the streams of all ranks are idle.
    ///
    /// # Errors
    /// The device refuses.
    pub fn reset(&self, operations: &Operations, stream: &Stream) -> Result<()> {
        let kernel = operations.kernel(ResetKernel { ranks: self.ranks() }, ResetKernel::run)?;
        kernel.launch(stream, 1, (self.addresses,))?;
        Ok(())
    }

    /// Launches the operation. Vectors do not cross rows of `columns`.
    fn launch<T: RowElement + Storable>(
        &self,
        operations: &Operations,
        stream: &Stream,
        operation: Collective,
        (x, columns): (&Buffer<T>, usize),
        y: &mut Buffer<T>,
    ) -> Result<LaunchCounts> {
        let Some(length) = u32::try_from(x.len()).ok().filter(|length| *length <= MAX_LENGTH) else {
            let reason = format!("{} elements; divide them into parts of {MAX_LENGTH} or fewer", x.len());
            return Err(OperationError::Shape { what: OPERATION, reason });
        };
        if length == 0 {
            return Ok(LaunchCounts::default());
        }
        let lanes = vector::widest(columns as u64, T::BYTES);
        // One vector of a thread as long as one round is enough.
        let vectors = if length.div_ceil(THREADS * lanes) <= MAX_CTAS { 1 } else { VECTORS };
        let overlaps = operations.device().properties().capability.compute_capability >= (9, 0);
        let kernel = CollectiveKernel { ranks: self.ranks(), lanes, vectors, operation, overlaps };
        let kernel = operations.kernel(kernel, CollectiveKernel::run::<T>)?;
        let ctas = length.div_ceil(THREADS * lanes * vectors).min(MAX_CTAS);
        let shape = kernel.shape(ctas);
        let shape = if overlaps { shape.overlapping() } else { shape };
        Ok(kernel.launch(stream, shape, (x, y, self.addresses, self.rank, length, columns as u32))?)
    }
}
