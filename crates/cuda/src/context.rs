//! Contexts: the primary one of the device and those that a program creates, and which of them is a thread's.

use std::cell::RefCell;
use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::{self, ThreadId};

use crate::handles::number;
use crate::machine::machine;
use crate::status::{Result, Status};
use crate::stream::{Ordered, STREAMS, Stream};

/// Contexts live as long as the process: a handle of a destroyed one is found to be one.
static CONTEXTS: Mutex<Vec<&'static Context>> = Mutex::new(Vec::new());
static PRIMARY: OnceLock<&'static Context> = OnceLock::new();

thread_local! {
    static CURRENT: RefCell<Vec<&'static Context>> = const { RefCell::new(Vec::new()) };
}

/// Limits of a context, by the number of `CUlimit`.
const LIMITS: [u64; 7] = [1024, 1 << 20, 8 << 20, 0, 2048, 128, 0];

/// A context.
pub(crate) struct Context {
    pub(crate) number: usize,
    pub(crate) is_primary: bool,
    pub(crate) flags: AtomicU32,
    is_destroyed: AtomicBool,
    /// The failure of a kernel, which every later call returns.
    failure: AtomicU32,
    /// How often the primary context is retained.
    pub(crate) retained: AtomicUsize,
    legacy: OnceLock<Arc<Stream>>,
    of_threads: Mutex<HashMap<ThreadId, Arc<Stream>>>,
    limits: Mutex<[u64; 7]>,
}

impl Context {
    fn new(flags: u32, is_primary: bool) -> &'static Self {
        let context: &'static Self = Box::leak(Box::new(Self {
            number: number(),
            is_primary,
            flags: AtomicU32::new(flags),
            is_destroyed: AtomicBool::new(false),
            failure: AtomicU32::new(0),
            retained: AtomicUsize::new(0),
            legacy: OnceLock::new(),
            of_threads: Mutex::default(),
            limits: Mutex::new(LIMITS),
        }));
        all().push(context);
        context
    }

    /// A context beside the primary one.
    pub(crate) fn create(flags: u32) -> &'static Self {
        Self::new(flags, false)
    }

    /// The context that the runtime API uses.
    pub(crate) fn primary() -> &'static Self {
        PRIMARY.get_or_init(|| Self::new(0, true))
    }

    /// The context of a handle.
    pub(crate) fn of_handle(number: usize) -> Result<&'static Self> {
        let found = all().iter().copied().find(|context| context.number == number);
        let context = found.ok_or(Status::INVALID_CONTEXT)?;
        if context.is_destroyed.load(Ordering::Acquire) {
            return Err(Status::CONTEXT_IS_DESTROYED);
        }
        Ok(context)
    }

    /// Marks it as destroyed, after its work.
    pub(crate) fn destroy(&'static self) {
        self.synchronize_all();
        self.is_destroyed.store(true, Ordering::Release);
        CURRENT.with_borrow_mut(|stack| stack.retain(|context| !std::ptr::eq(*context, self)));
    }

    /// Makes the primary context new: no failure, no streams of threads.
    pub(crate) fn reset(&self) {
        self.synchronize_all();
        self.failure.store(0, Ordering::Release);
        self.of_threads.lock().unwrap_or_else(PoisonError::into_inner).clear();
        *self.limits() = LIMITS;
    }

    /// Returns the failure of an earlier kernel.
    pub(crate) fn check(&self) -> Result<()> {
        match self.failure.load(Ordering::Acquire) {
            0 => Ok(()),
            code => Err(Status(code)),
        }
    }

    /// Keeps the first failure of a kernel.
    pub(crate) fn fail(&self, status: Status) {
        let _ = self.failure.compare_exchange(0, status.0, Ordering::AcqRel, Ordering::Acquire);
    }

    /// The default stream that waits for all blocking streams.
    pub(crate) fn legacy(&'static self) -> Result<Arc<Stream>> {
        if let Some(stream) = self.legacy.get() {
            return Ok(stream.clone());
        }
        let made = Stream::create(self, Ordered::Legacy, 0)?;
        Ok(self.legacy.get_or_init(|| made).clone())
    }

    /// The default stream of this thread.
    pub(crate) fn of_thread(&'static self) -> Result<Arc<Stream>> {
        let mut streams = self.of_threads.lock().unwrap_or_else(PoisonError::into_inner);
        let thread = thread::current().id();
        if let Some(stream) = streams.get(&thread) {
            return Ok(stream.clone());
        }
        let stream = Stream::create(self, Ordered::Blocking, 0)?;
        streams.insert(thread, stream.clone());
        Ok(stream)
    }

    /// Its streams.
    pub(crate) fn streams(&self) -> Vec<Arc<Stream>> {
        STREAMS.all().into_iter().filter(|stream| std::ptr::eq(stream.context, self)).collect()
    }

    /// Waits for all its work.
    pub(crate) fn synchronize_all(&self) {
        self.streams().iter().filter_map(|stream| stream.queue.end()).for_each(|end| end.wait());
        if let Ok(machine) = machine() {
            // With no work left, what a device reports here is nothing new.
            let _ = machine.raw.synchronize();
            machine.flush_printed();
        }
    }

    /// Waits for all work of all contexts, which may use memory of any of them.
    pub(crate) fn synchronize_device() {
        STREAMS.all().iter().filter_map(|stream| stream.queue.end()).for_each(|end| end.wait());
    }

    /// Waits for all its work, and returns the failure of a kernel.
    pub(crate) fn synchronize(&self) -> Result<()> {
        self.check()?;
        self.synchronize_all();
        self.check()
    }

    pub(crate) fn limits(&self) -> MutexGuard<'_, [u64; 7]> {
        self.limits.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn all() -> MutexGuard<'static, Vec<&'static Context>> {
    CONTEXTS.lock().unwrap_or_else(PoisonError::into_inner)
}

/// The context of this thread, or none.
pub(crate) fn current_or_none() -> Result<Option<&'static Context>> {
    machine()?;
    Ok(CURRENT.with_borrow(|stack| stack.last().copied()))
}

/// The context of this thread; an error if it has none, or if a kernel failed in it.
pub(crate) fn current() -> Result<&'static Context> {
    let context = current_or_none()?.ok_or(Status::INVALID_CONTEXT)?;
    if context.is_destroyed.load(Ordering::Acquire) {
        return Err(Status::CONTEXT_IS_DESTROYED);
    }
    context.check()?;
    Ok(context)
}

/// Makes a context the thread's, or none, in place of the one it has.
pub(crate) fn set_current(context: Option<&'static Context>) {
    CURRENT.with_borrow_mut(|stack| {
        stack.pop();
        stack.extend(context);
    });
}

/// Puts a context on the thread's stack.
pub(crate) fn push(context: &'static Context) {
    CURRENT.with_borrow_mut(|stack| stack.push(context));
}

/// Takes the context off the thread's stack.
pub(crate) fn pop() -> Result<&'static Context> {
    machine()?;
    CURRENT.with_borrow_mut(|stack| stack.pop()).ok_or(Status::INVALID_CONTEXT)
}
