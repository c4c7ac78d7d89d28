//! What a case may take: seconds, and bytes of memory.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// The longest time of a case.
const MOST_TIME: Duration = Duration::from_secs(10);
/// The most memory of the program, all cases in flight together.
const MOST_BYTES: u64 = 2 << 30;
/// The number of a thread that runs no case.
const IDLE: u64 = u64::MAX;

/// Bytes that are allocated now.
static BYTES: AtomicU64 = AtomicU64::new(0);
/// The seed of the cases that run; [`IDLE`] where none do, and memory has no limit.
static SEED: AtomicU64 = AtomicU64::new(IDLE);

/// The system's allocator, with a limit while cases run.
pub(crate) struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

impl Counting {
    fn add(bytes: usize) {
        let all = BYTES.fetch_add(bytes as u64, Ordering::Relaxed) + bytes as u64;
        let seed = SEED.load(Ordering::Relaxed);
        if all > MOST_BYTES && seed != IDLE {
            SEED.store(IDLE, Ordering::Relaxed);
            let case = NUMBER.try_with(|number| *number.borrow()).unwrap_or(IDLE);
            eprintln!("--seed {seed} --only {case} takes more than {MOST_BYTES} bytes");
            std::process::abort();
        }
    }
}

// SAFETY: every call goes to the system's allocator with the same arguments.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        Self::add(layout.size());
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        Self::add(layout.size());
        // SAFETY: the caller keeps the contract of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        BYTES.fetch_sub(layout.size() as u64, Ordering::Relaxed);
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }
}

thread_local! {
    /// The number of the case that this thread runs.
    static NUMBER: RefCell<u64> = const { RefCell::new(IDLE) };
    /// What the last panic of this thread said.
    static MESSAGE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Watches the cases of some threads.
pub(super) struct Limits(Arc<Watched>);

/// A thread's case: its number, and when it began in milliseconds.
type Slot = (AtomicU64, AtomicU64);

struct Watched {
    begin: Instant,
    slots: Vec<Slot>,
}

impl Limits {
    /// Begins to watch: a case of `seed` that exceeds a limit ends the program with its number.
    pub(super) fn watch(seed: u64, threads: usize) -> Self {
        keep_messages();
        SEED.store(seed.min(IDLE - 1), Ordering::Relaxed);
        let slots = (0..threads).map(|_| (AtomicU64::new(IDLE), AtomicU64::new(0))).collect();
        let watched = Arc::new(Watched { begin: Instant::now(), slots });
        let weak = Arc::downgrade(&watched);
        std::thread::spawn(move || look(seed, &weak));
        Self(watched)
    }

    /// Runs a case on a thread. A panic is an error, with its message and place.
    pub(super) fn during<T>(
        &self,
        thread: usize,
        number: u64,
        case: impl FnOnce() -> T,
    ) -> Result<T, String> {
        let (current, began) = &self.0.slots[thread];
        began.store(self.0.begin.elapsed().as_millis() as u64, Ordering::Relaxed);
        current.store(number, Ordering::Release);
        NUMBER.set(number);
        let result = panic::catch_unwind(AssertUnwindSafe(case));
        result.map_err(|_| MESSAGE.take())
    }

    /// Ends the last case of a thread.
    pub(super) fn leave(&self, thread: usize) {
        self.0.slots[thread].0.store(IDLE, Ordering::Release);
        NUMBER.set(IDLE);
    }
}

/// Looks for a case that takes too long, until nobody runs cases any more.
fn look(seed: u64, watched: &Weak<Watched>) {
    while let Some(watched) = watched.upgrade() {
        let now = watched.begin.elapsed().as_millis() as u64;
        for (number, began) in &watched.slots {
            let (case, began) = (number.load(Ordering::Acquire), began.load(Ordering::Relaxed));
            if case != IDLE && now.saturating_sub(began) > MOST_TIME.as_millis() as u64 {
                eprintln!("--seed {seed} --only {case} takes more than {} s", MOST_TIME.as_secs());
                std::process::exit(1);
            }
        }
        drop(watched);
        std::thread::sleep(Duration::from_millis(100));
    }
}

/// Keeps the messages of panics in cases, which are printed once all cases are run.
fn keep_messages() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        let before = panic::take_hook();
        panic::set_hook(Box::new(move |info| {
            if NUMBER.with(|number| *number.borrow()) == IDLE {
                before(info);
            } else {
                MESSAGE.set(info.to_string());
            }
        }));
    });
}
