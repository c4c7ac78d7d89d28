//! What a case may take: seconds, and bytes of memory.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::{Cell, RefCell};
use std::panic::{self, AssertUnwindSafe};
use std::sync::Once;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

/// The longest time of a case, unless the user sets another, in seconds.
pub(super) const MOST_SECONDS: u64 = 10;
/// The same in tests, which other tests delay.
#[cfg(test)]
pub(super) const PATIENT: u64 = 60;
/// The most memory of the program, all cases in flight together.
const MOST_BYTES: i64 = 2 << 30;
/// A thread counts its own bytes up to this number before it adds them to those of the program: a
/// counter that every allocation of every thread writes would make the threads wait for each other.
const MOST_OWN_BYTES: i64 = 64 << 10;
/// The number of a thread that runs no case.
const IDLE: u64 = u64::MAX;

/// Bytes that are allocated now, without the [`OWN_BYTES`] of the threads.
static BYTES: AtomicI64 = AtomicI64::new(0);
/// The seed of the cases that run; [`IDLE`] where none do, and memory has no limit.
static SEED: AtomicU64 = AtomicU64::new(IDLE);

/// The system's allocator, with a limit while cases run.
pub(crate) struct Counting;

#[global_allocator]
static COUNTING: Counting = Counting;

impl Counting {
    /// Counts bytes that this thread allocated, or freed where they are negative.
    fn add(bytes: i64) {
        let settled = OWN_BYTES.try_with(|own| {
            let all = own.get() + bytes;
            let is_settled = all.abs() >= MOST_OWN_BYTES;
            own.set(if is_settled { 0 } else { all });
            if is_settled { all } else { 0 }
        });
        // A thread that ends has no count of its own any more.
        let settled = settled.unwrap_or(bytes);
        if settled == 0 {
            return;
        }
        let all = BYTES.fetch_add(settled, Ordering::Relaxed) + settled;
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
        Self::add(layout.size() as i64);
        // SAFETY: the caller keeps the contract of `alloc`.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        Self::add(layout.size() as i64);
        // SAFETY: the caller keeps the contract of `alloc_zeroed`.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, pointer: *mut u8, layout: Layout) {
        Self::add(-(layout.size() as i64));
        // SAFETY: the caller keeps the contract of `dealloc`.
        unsafe { System.dealloc(pointer, layout) }
    }

    unsafe fn realloc(&self, pointer: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        Self::add(size as i64 - layout.size() as i64);
        // SAFETY: the caller keeps the contract of `realloc`.
        unsafe { System.realloc(pointer, layout, size) }
    }
}

thread_local! {
    /// Bytes that this thread allocated and that [`BYTES`] does not have yet.
    static OWN_BYTES: Cell<i64> = const { Cell::new(0) };
    /// The number of the case that this thread runs.
    static NUMBER: RefCell<u64> = const { RefCell::new(IDLE) };
    /// What the last panic of this thread said.
    static MESSAGE: RefCell<String> = const { RefCell::new(String::new()) };
}

/// Watches the cases of some threads.
pub(super) struct Limits(Arc<Watched>);

/// A thread's case, in cache lines of its own.
#[repr(align(128))]
struct Current {
    number: AtomicU64,
    /// When it began, in milliseconds.
    began: AtomicU64,
}

struct Watched {
    begin: Instant,
    cases: Vec<Current>,
}

impl Limits {
    /// Begins to watch: a case of `seed` that exceeds a limit, `seconds` or memory, ends the program
    /// with its number.
    pub(super) fn watch(seed: u64, threads: usize, seconds: u64) -> Self {
        keep_messages();
        SEED.store(seed.min(IDLE - 1), Ordering::Relaxed);
        let idle = || Current { number: AtomicU64::new(IDLE), began: AtomicU64::new(0) };
        let cases = (0..threads).map(|_| idle()).collect();
        let watched = Arc::new(Watched { begin: Instant::now(), cases });
        let weak = Arc::downgrade(&watched);
        std::thread::spawn(move || look(seed, Duration::from_secs(seconds), &weak));
        Self(watched)
    }

    /// Runs a case on a thread. A panic is an error, with its message and place.
    pub(super) fn during<T>(
        &self,
        thread: usize,
        number: u64,
        case: impl FnOnce() -> T,
    ) -> Result<T, String> {
        let current = &self.0.cases[thread];
        current.began.store(self.0.begin.elapsed().as_millis() as u64, Ordering::Relaxed);
        current.number.store(number, Ordering::Release);
        NUMBER.set(number);
        let result = panic::catch_unwind(AssertUnwindSafe(case));
        result.map_err(|_| MESSAGE.take())
    }

    /// Ends the last case of a thread.
    pub(super) fn leave(&self, thread: usize) {
        self.0.cases[thread].number.store(IDLE, Ordering::Release);
        NUMBER.set(IDLE);
    }
}

/// Looks for a case that takes too long, until nobody runs cases any more.
fn look(seed: u64, limit: Duration, watched: &Weak<Watched>) {
    while let Some(watched) = watched.upgrade() {
        let now = watched.begin.elapsed().as_millis() as u64;
        for current in &watched.cases {
            let (case, began) =
                (current.number.load(Ordering::Acquire), current.began.load(Ordering::Relaxed));
            if case != IDLE && now.saturating_sub(began) > limit.as_millis() as u64 {
                eprintln!("--seed {seed} --only {case} takes more than {} s", limit.as_secs());
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
