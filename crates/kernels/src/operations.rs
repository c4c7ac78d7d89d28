//! What a program calls: `operations.reduce(&stream, &buffer, Max)`.
//!
//! [`Operations`] holds what calls share: each kernel, compiled when it is first needed for its
//! types and configuration, and each stream's scratch memory, which grows and is kept. The
//! operations themselves are methods that the families add in their own files, all in the same
//! form:
//!
//! ```
//! use warpwright::runtime::Device;
//! use warpwright_kernels::monoid::{Max, Sum};
//! use warpwright_kernels::operations::Operations;
//!
//! let device = Device::named("emu:h200")?;
//! let operations = Operations::new(&device);
//! let stream = device.stream()?;
//! let numbers = device.buffer_from(&[3.0f32, 1.0, 4.0, 1.0, 5.0])?;
//! assert_eq!(operations.reduce(&stream, &numbers, Max)?.to_vec()?, [5.0]);
//! assert_eq!(operations.reduce(&stream, &numbers, Sum)?.to_vec()?, [14.0]);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Work is enqueued in a stream and the host continues, as with any launch. Buffers may have any
//! length, 0 and more than 2^32 included.

use std::any::{Any, TypeId};
use std::fmt;
use std::hash::Hash;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use crate::cache::Cache;
use crate::gemm::problem::error::GemmError;
use rustc_hash::FxHashMap;
use warpwright::arch::limits::{THREADS_PER_CTA, WARP_SIZE};
use warpwright::lang::{Kernel, StagingErrors};
use warpwright::runtime::{self, Assemblers, Buffer, Compiled, Device, LaunchCounts, Storable, Stream};

/// The result of an operation.
pub type Result<T, E = OperationError> = std::result::Result<T, E>;

/// Why an operation was not done. `Debug` writes the same message as `Display`, because a `main`
/// that returns the error prints `Debug`.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum OperationError {
    /// Two lengths that must agree do not.
    #[error("{what}: expected a length of {expected}, found {given}")]
    Length {
        /// What has the wrong length.
        what: &'static str,
        /// The length it must have.
        expected: usize,
        /// The length it has.
        given: usize,
    },
    /// Extents that the operation cannot take.
    #[error("{what}: {reason}")]
    Shape {
        /// The operation.
        what: &'static str,
        /// What is wrong, and what would be right.
        reason: String,
    },
    /// A question that has no answer where there are no elements.
    #[error("{what} of no elements does not exist; pass at least one")]
    Empty {
        /// The result.
        what: &'static str,
    },
    /// A GEMM was refused.
    #[error(transparent)]
    Gemm(#[from] GemmError),
    /// The kernel cannot be built for these types.
    #[error(transparent)]
    Staging(#[from] StagingErrors),
    /// The device refused or failed.
    #[error(transparent)]
    Runtime(#[from] runtime::Error),
}

impl fmt::Debug for OperationError {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, formatter)
    }
}

/// Refuses a buffer that has another length than is needed.
///
/// # Errors
/// It has.
pub fn expect_length(what: &'static str, expected: usize, given: usize) -> Result<()> {
    if expected == given { Ok(()) } else { Err(OperationError::Length { what, expected, given }) }
}

/// Refuses a kernel's configuration whose CTAs do not have whole warps, from `least` threads on.
pub fn expect_whole_warps(what: &'static str, least: u32, threads: u32) -> Result<()> {
    if threads.is_multiple_of(WARP_SIZE) && (least..=THREADS_PER_CTA).contains(&threads) {
        return Ok(());
    }
    let reason = format!(
        "its CTAs have {threads} threads; give them a multiple of 32 from {least} to {THREADS_PER_CTA}"
    );
    Err(OperationError::Shape { what, reason })
}

/// Scratch memory, by stream and type.
type ScratchByStream = FxHashMap<(u64, TypeId), Arc<Mutex<dyn Any + Send>>>;

/// The operations of a device: its kernels as far as they were needed, and its streams' scratch
/// memory.
///
/// It may be shared between threads.
pub struct Operations {
    device: Device,
    /// Compiled kernels by configuration.
    kernels: Arc<Cache>,
    /// Other values that operations keep between calls.
    cache: Arc<Cache>,
    scratch: Mutex<ScratchByStream>,
}

impl Operations {
    /// The operations of `device`; nothing is compiled yet.
    pub fn new(device: &Device) -> Self {
        Self::with_kernels(device.clone(), Arc::default())
    }

    /// The same operations on a [rehearsal](Device::rehearsal) of the device: the kernels that they need are compiled
    /// for both.
    pub fn rehearsal(&self) -> Self {
        Self::with_kernels(self.device.rehearsal(), self.kernels.clone())
    }

    /// The same, whose kernels other processes assemble before.
    pub fn rehearsal_with(&self, assemblers: Arc<Assemblers>) -> Self {
        Self::with_kernels(self.device.rehearsal_with(assemblers), self.kernels.clone())
    }

    fn with_kernels(device: Device, kernels: Arc<Cache>) -> Self {
        Self { device, kernels, cache: Arc::default(), scratch: Mutex::default() }
    }

    /// The same kernels with scratch memory of their own, which lives as long as the returned value. A graph that
    /// another library captures needs it: shared scratch memory is replaced when a later call needs more.
    pub fn with_own_scratch(&self) -> Self {
        let Self { device, kernels, cache, .. } = self;
        Self {
            device: device.clone(),
            kernels: kernels.clone(),
            cache: cache.clone(),
            scratch: Mutex::default(),
        }
    }

    /// The device.
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// The kernel that `stage`, a method of the configuration `kernel`, stages; compiled at the
    /// first call.
    ///
    /// ```
    /// # use warpwright::prelude::*;
    /// # use warpwright::runtime::Device;
    /// # use warpwright_kernels::operations::Operations;
    /// #[derive(Clone, PartialEq, Eq, Hash)]
    /// struct Fill {
    ///     threads: u32,
    /// }
    ///
    /// impl Fill {
    ///     #[kernel]
    ///     fn run(&self, output: &mut Global<f32>, value: f32) {
    ///         launch::threads(self.threads);
    ///         output[block_idx().x * self.threads + thread_idx().x] = value;
    ///     }
    /// }
    ///
    /// # let device = Device::named("emu:h200")?;
    /// # let (operations, stream) = (Operations::new(&device), device.stream()?);
    /// let mut buffer = device.uninitialized::<f32>(64)?;
    /// let kernel = operations.kernel(Fill { threads: 32 }, Fill::run)?;
    /// kernel.launch(&stream, 2, (&mut buffer, 7.0))?;
    /// # assert_eq!(buffer.to_vec()?, [7.0; 64]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// It cannot be built or compiled for the device.
    pub fn kernel<K, F, Args>(&self, kernel: K, stage: F) -> Result<Arc<Compiled<Args>>>
    where
        K: Eq + Hash + Send + Sync + 'static,
        F: Fn(&K) -> Result<Kernel<Args>, StagingErrors> + 'static,
        Args: 'static,
    {
        const { assert!(size_of::<F>() == 0, "a kernel is known by its method's type: name the method itself") }
        self.kernels.get_or_insert::<F, _, _, _>(kernel, |kernel| Ok(self.device.compile(&stage(kernel)?)?))
    }

    /// What `make` makes of `key`: made at the first call for `For`, a type that says what it is
    /// for, and kept.
    ///
    /// # Errors
    /// `make`'s.
    pub fn remembered<For, K, V>(&self, key: K, make: impl FnOnce(&K) -> Result<V>) -> Result<Arc<V>>
    where
        For: 'static,
        K: Eq + Hash + Send + Sync + 'static,
        V: Send + Sync + 'static,
    {
        self.cache.get_or_insert::<For, K, V, _>(key, make)
    }

    /// Does `work` with the scratch memory of type `S` of `stream`, which is made at the first call
    /// and kept.
    ///
    /// The work of one stream runs in order, so its calls may use the same memory one after
    /// another. After an error the memory is freed: a kernel that failed may have left anything in
    /// it.
    ///
    /// # Errors
    /// `work`'s.
    pub fn with_scratch<S, R>(&self, stream: &Stream, work: impl FnOnce(&mut S) -> Result<R>) -> Result<R>
    where
        S: Default + Send + 'static,
    {
        let key = (stream.id(), TypeId::of::<S>());
        let scratch = self.scratch(key, || Arc::new(Mutex::new(S::default())));
        let mut scratch = scratch.lock().unwrap_or_else(PoisonError::into_inner);
        let outcome = work(scratch.downcast_mut().expect("the key holds the type"));
        if outcome.is_err() {
            self.lock_scratch().remove(&key);
        }
        outcome
    }

    fn scratch(
        &self,
        key: (u64, TypeId),
        make: fn() -> Arc<Mutex<dyn Any + Send>>,
    ) -> Arc<Mutex<dyn Any + Send>> {
        self.lock_scratch().entry(key).or_insert_with(make).clone()
    }

    fn lock_scratch(&self) -> MutexGuard<'_, ScratchByStream> {
        self.scratch.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// How many CTAs of a kernel the device holds at once.
    ///
    /// # Errors
    /// Not even one fits.
    pub fn resident<Args>(&self, kernel: &Compiled<Args>) -> Result<u32> {
        let occupancy = kernel.function().occupancy(&kernel.shape(1))?;
        Ok(occupancy.ctas_per_sm * self.device.properties().sm_count)
    }

    /// A grid of that many CTAs.
    ///
    /// # Errors
    /// There are more than a grid holds; `what` is the operation that wanted them.
    pub fn grid(&self, what: &'static str, ctas: u64) -> Result<u32> {
        let fits = u32::try_from(ctas).ok().filter(|ctas| *ctas < 1 << 31);
        fits.ok_or_else(|| OperationError::Shape {
            what,
            reason: format!("{ctas} CTAs are more than a grid holds; do the work in parts"),
        })
    }

    /// Frees all scratch memory; later calls take it anew.
    pub fn release_scratch(&self) {
        self.lock_scratch().clear();
    }
}

/// Device memory that is kept between calls and grows when one needs more: a field of an
/// operation's scratch memory.
pub struct Scratch<T> {
    buffer: Option<Buffer<T>>,
}

impl<T> Default for Scratch<T> {
    fn default() -> Self {
        Self { buffer: None }
    }
}

impl<T: Storable> Scratch<T> {
    /// At least `length` elements that hold anything.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn at_least(&mut self, device: &Device, length: usize) -> Result<&mut Buffer<T>> {
        if self.buffer.as_ref().is_none_or(|buffer| buffer.len() < length) {
            // The old one goes first, so that both need not fit.
            self.buffer = None;
            self.buffer = Some(device.uninitialized(length)?);
        }
        Ok(self.buffer.as_mut().expect("there is one now"))
    }

    /// At least `length` elements that hold what earlier calls left; bytes that no call ever had
    /// are zero. Growing makes all zero.
    ///
    /// # Errors
    /// There is not enough memory.
    pub fn at_least_kept(&mut self, stream: &Stream, length: usize) -> Result<&mut Buffer<T>> {
        if self.buffer.as_ref().is_none_or(|buffer| buffer.len() < length) {
            // At once, also where the stream's work is recorded for a graph.
            self.buffer = None;
            self.buffer = Some(stream.device().zeros(length)?);
        }
        Ok(self.buffer.as_mut().expect("there is one now"))
    }
}

/// What two launches executed together.
pub fn both(first: LaunchCounts, second: LaunchCounts) -> LaunchCounts {
    LaunchCounts {
        warp_instructions: first.warp_instructions + second.warp_instructions,
        lane_operations: first.lane_operations + second.lane_operations,
        mma_multiply_adds: first.mma_multiply_adds + second.mma_multiply_adds,
    }
}
