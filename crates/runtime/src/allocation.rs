//! Device memory, and whether a failed kernel left it half-written.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};

use warpwright_check::Elements;
use warpwright_lang::element::Element;

use crate::backend::{Backend, LoadedModule};
use crate::error::{Error, Result};

/// Allocations whose addresses were returned to the caller. A kernel may access them without
/// receiving the buffer as an argument.
static EXPOSED: Mutex<Vec<Weak<Allocation>>> = Mutex::new(Vec::new());

/// The name of an element type, and its size in bytes.
#[derive(Clone, Copy)]
pub(crate) struct ElementType(&'static str, u64);

impl ElementType {
    pub(crate) fn of<T: Element>() -> Self {
        Self(T::NAME, size_of::<T>() as u64)
    }

    pub(crate) fn named(name: &'static str, bytes: u64) -> Self {
        Self(name, bytes)
    }
}

/// What frees device memory.
enum Owner {
    /// The allocation itself.
    Itself,
    /// The allocation that this one is the beginning of.
    Whole(Arc<Allocation>),
    /// The module of which it is a variable, and which it keeps loaded.
    Module { _loaded: Arc<dyn LoadedModule> },
    /// Another library.
    Foreign,
}

/// Device memory, freed when its last owner is dropped.
pub(crate) struct Allocation {
    backend: Arc<Backend>,
    address: u64,
    bytes: usize,
    owner: Owner,
    /// The kernel whose failure left the contents undefined.
    half_written_by: Mutex<Option<String>>,
    /// Whether `half_written_by` is set. Every launch reads this flag without taking the lock.
    is_half_written: AtomicBool,
    /// Whether this allocation is in [`EXPOSED`].
    is_exposed: AtomicBool,
}

impl Allocation {
    pub(crate) fn new(backend: &Arc<Backend>, length: usize, element_bytes: usize) -> Result<Arc<Self>> {
        let out_of_memory =
            || Error::OutOfMemory { bytes: u64::MAX, device: backend.properties.name.clone() };
        let bytes = length.checked_mul(element_bytes).ok_or_else(out_of_memory)?;
        Ok(Self::at(backend, backend.memory.allocate(bytes)?, bytes))
    }

    /// Memory that was allocated at an address.
    pub(crate) fn at(backend: &Arc<Backend>, address: u64, bytes: usize) -> Arc<Self> {
        Arc::new(Self::over(backend.clone(), address, bytes, Owner::Itself))
    }

    /// The memory of a module's variable.
    pub(crate) fn of_module(
        backend: &Arc<Backend>,
        module: &Arc<dyn LoadedModule>,
        address: u64,
        bytes: usize,
    ) -> Arc<Self> {
        Arc::new(Self::over(backend.clone(), address, bytes, Owner::Module { _loaded: module.clone() }))
    }

    /// Memory that another library owns.
    ///
    /// # Safety
    /// As [`Memory::adopt`](crate::backend::Memory::adopt); the allocation releases it.
    pub(crate) unsafe fn adopted(backend: &Arc<Backend>, address: u64, bytes: usize) -> Result<Arc<Self>> {
        // SAFETY: the caller vouches for the memory.
        unsafe { backend.memory.adopt(address, bytes) }?;
        Ok(Arc::new(Self::over(backend.clone(), address, bytes, Owner::Foreign)))
    }

    /// The first `bytes` of an allocation. A kernel's failure marks both.
    pub(crate) fn beginning(whole: &Arc<Self>, bytes: usize) -> Arc<Self> {
        if bytes == whole.bytes {
            return whole.clone();
        }
        let mark = whole.half_written_by.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let part = Self::over(whole.backend.clone(), whole.address, bytes, Owner::Whole(whole.clone()));
        mark.iter().for_each(|kernel| part.mark(kernel));
        Arc::new(part)
    }

    fn over(backend: Arc<Backend>, address: u64, bytes: usize, owner: Owner) -> Self {
        Self {
            backend,
            address,
            bytes,
            owner,
            half_written_by: Mutex::new(None),
            is_half_written: AtomicBool::new(false),
            is_exposed: AtomicBool::new(false),
        }
    }

    /// The allocation that this one is the beginning of, or itself.
    pub(crate) fn whole(self: &Arc<Self>) -> &Arc<Self> {
        match &self.owner {
            Owner::Whole(whole) => whole,
            _ => self,
        }
    }

    pub(crate) fn backend(&self) -> &Arc<Backend> {
        &self.backend
    }

    pub(crate) fn address(&self) -> u64 {
        self.address
    }

    pub(crate) fn bytes(&self) -> usize {
        self.bytes
    }

    /// All of it, as elements of a type.
    pub(crate) fn elements(&self, ElementType(element, element_bytes): ElementType) -> Elements {
        Elements { buffer: self.address, start: 0, bytes: self.bytes as u64, element, element_bytes }
    }

    pub(crate) fn expose(self: &Arc<Self>) {
        if !self.is_exposed.swap(true, Ordering::Relaxed) {
            let mut exposed = EXPOSED.lock().unwrap_or_else(PoisonError::into_inner);
            exposed.retain(|allocation| allocation.strong_count() > 0);
            exposed.push(Arc::downgrade(self));
        }
    }

    /// The outcome of a launch. After a fault, marks what the kernel could write: `written`, and every
    /// allocation whose address was returned to the caller.
    pub(crate) fn mark_after_fault<'a, T>(
        outcome: Result<T>,
        written: impl Iterator<Item = &'a Arc<Self>>,
        (backend, kernel): (&Arc<Backend>, &str),
    ) -> Result<T> {
        if matches!(outcome, Err(Error::Fault { .. })) {
            written.for_each(|allocation| allocation.mark(kernel));
            Self::mark_exposed(backend, kernel);
        }
        outcome
    }

    /// Marks every allocation of a device whose address was returned to the caller.
    fn mark_exposed(backend: &Arc<Backend>, kernel: &str) {
        let exposed = EXPOSED.lock().unwrap_or_else(PoisonError::into_inner);
        let alive: Vec<_> = exposed.iter().filter_map(Weak::upgrade).collect();
        drop(exposed);
        alive
            .iter()
            .filter(|allocation| Arc::ptr_eq(&allocation.backend, backend))
            .for_each(|allocation| allocation.mark(kernel));
    }

    /// Returns an error if a failed kernel may have left the buffer half-written.
    #[inline]
    pub(crate) fn check(&self) -> Result<()> {
        if !self.is_half_written.load(Ordering::Acquire) {
            return Ok(());
        }
        let mark = self.half_written_by.lock().unwrap_or_else(PoisonError::into_inner);
        mark.as_ref().map_or(Ok(()), |kernel| Err(Error::HalfWritten { kernel: kernel.clone() }))
    }

    /// Records that `kernel`, which could write the buffer, failed.
    pub(crate) fn mark(&self, kernel: &str) {
        let mut mark = self.half_written_by.lock().unwrap_or_else(PoisonError::into_inner);
        *mark = Some(kernel.to_owned());
        self.is_half_written.store(true, Ordering::Release);
        if let Owner::Whole(whole) = &self.owner {
            whole.mark(kernel);
        }
    }

    /// Records that the whole buffer was overwritten.
    pub(crate) fn unmark(&self) {
        let mut mark = self.half_written_by.lock().unwrap_or_else(PoisonError::into_inner);
        *mark = None;
        self.is_half_written.store(false, Ordering::Release);
    }
}

impl Drop for Allocation {
    fn drop(&mut self) {
        match self.owner {
            Owner::Itself => self.backend.memory.free(self.address),
            Owner::Foreign => self.backend.memory.release(self.address),
            Owner::Whole(_) | Owner::Module { .. } => {}
        }
    }
}
