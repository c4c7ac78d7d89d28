//! Reductions, scans and broadcasts over the threads of a CTA, in the order of the threads: the
//! operation need be associative only.
//!
//! Each call has shared memory of its own and synchronizes the CTA twice, so that calls may follow
//! one another and stand in loops. The kernel states its block before. All threads make the call: a
//! thread that has exited or skipped it is a deadlock.

use crate::composite::{ValueArray, select_value};
use crate::device_value::DeviceValue;
use crate::element::DeviceNumber;
use crate::operation::{on_behalf_of_author, perform, refuse};
use crate::recorder;
use crate::special::{lane_id, thread_idx};
use crate::value::{Reg, Value, constant};
use crate::warp::{Lanes, add};
use warpwright_arch::limits::WARP_SIZE;
use warpwright_ir::Operand;

/// The calling thread's position in its block.
#[derive(Clone, Copy)]
struct Position {
    thread: Reg<u32>,
    warp: Reg<u32>,
    lane: Reg<u32>,
    /// The threads of the block.
    threads: u32,
    /// The warps of the block.
    warps: u32,
    /// The lanes of this warp.
    lanes: Lanes,
    /// The last of them.
    last_lane: Reg<u32>,
}

impl Position {
    #[track_caller]
    fn here() -> Self {
        let block = recorder::with(|recorder| recorder.kernel().launch.required_block);
        if block.is_none() {
            refuse(
                "a reduction, scan or broadcast over the block needs its extents: state them before the call, by \
                 `launch::threads(n)`",
            );
        }
        let [x, y, z] = block.unwrap_or([WARP_SIZE, 1, 1]);
        let index = thread_idx();
        let mut thread = index.x;
        if y > 1 || z > 1 {
            thread += index.y * x;
        }
        if z > 1 {
            thread += index.z * (x * y);
        }
        let threads = x * y * z;
        let (warps, rest) = (threads.div_ceil(WARP_SIZE), threads % WARP_SIZE);
        let warp = thread / WARP_SIZE;
        let (lanes, last_lane) = if rest == 0 {
            (Lanes::all(), constant(WARP_SIZE - 1))
        } else {
            let held = warp.eq(warps - 1).select(rest, WARP_SIZE);
            (Lanes::first(held), held - 1)
        };
        Self { thread, warp, lane: lane_id(), threads, warps, lanes, last_lane }
    }

    /// Refuses a thread that is known and that the block has not.
    #[track_caller]
    fn demand_thread(&self, thread: Operand) {
        let Operand::Integer(thread) = thread else { return };
        if thread >= self.threads.into() {
            refuse(format!(
                "`block::broadcast`: the thread is {thread}, and the block has threads 0 to {}",
                self.threads - 1
            ));
        }
    }

    /// Waits until all threads of the block arrive. The barrier counts them, so a thread that has
    /// exited is missing rather than counted.
    #[track_caller]
    fn synchronize(&self) {
        let threads = self.warps * WARP_SIZE;
        perform("bar.sync", [Operand::Integer(0), Operand::Integer(threads.into())]);
    }

    /// The warp's part of `of_warps`, in each of the first lanes of warp 0; the last in the others.
    #[track_caller]
    fn of_warps<V: DeviceValue + Copy>(&self, of_warps: &ValueArray<V, crate::space::SharedSpace>) -> V {
        of_warps.get(self.lane.min(self.warps - 1))
    }
}

/// The values of the block's threads combined by an associative `operation`, thread 0's first;
/// every thread has the result.
///
/// ```
/// use warpwright_lang::special::thread_idx;
/// use warpwright_lang::{block, kernel, launch, pointer::Global};
///
/// /// The product of 200 numbers.
/// #[kernel]
/// fn product(x: &Global<f32>, result: &mut Global<f32>) {
///     launch::threads(200);
///     let thread = thread_idx().x;
///     let product = block::reduce(x[thread], |a, b| a * b);
///     if thread == 0 {
///         result[0] = product;
///     }
/// }
/// assert!(product().is_ok());
/// ```
#[track_caller]
#[crate::device]
pub fn reduce<V: DeviceValue + Copy>(value: V, operation: impl Fn(V, V) -> V) -> V {
    let at = Position::here();
    let of_warp = at.lanes.reduce(value, &operation);
    combine_warps(at, of_warp, operation)
}

/// The warps' values combined; every thread has the result.
#[track_caller]
#[crate::device]
fn combine_warps<V: DeviceValue + Copy>(at: Position, of_warp: V, operation: impl Fn(V, V) -> V) -> V {
    if at.warps == 1 {
        return of_warp;
    }
    // The last element is the result.
    let shared = ValueArray::shared_as("memory of a block reduction", of_warp, at.warps + 1);
    if at.lane == 0 {
        shared.set(at.warp, of_warp);
    }
    at.synchronize();
    if at.warp == 0 {
        let result = Lanes::first_of_all(at.warps).reduce(at.of_warps(&shared), operation);
        if at.lane == 0 {
            shared.set(at.warps, result);
        }
    }
    at.synchronize();
    shared.get(at.warps)
}

/// The values scanned, and, in the first lane of each warp, what the warps before it combine to:
/// `identity` for warp 0.
#[track_caller]
#[crate::device]
fn scan<V: DeviceValue + Copy>(at: Position, value: V, identity: V, operation: impl Fn(V, V) -> V) -> (V, V) {
    let in_warp = at.lanes.inclusive_scan(value, &operation);
    if at.warps == 1 {
        return (in_warp, identity);
    }
    let totals = ValueArray::shared_as("memory of a block scan", value, at.warps);
    let before = ValueArray::shared_as("memory of a block scan", value, at.warps);
    if at.lane == at.last_lane {
        totals.set(at.warp, in_warp);
    }
    at.synchronize();
    if at.warp == 0 {
        let scanned = Lanes::first_of_all(at.warps).inclusive_scan(at.of_warps(&totals), &operation);
        if at.lane < at.warps {
            before.set(at.lane, scanned);
        }
    }
    at.synchronize();
    let mut scanned = in_warp;
    let mut prefix = identity;
    if at.warp > 0 {
        prefix = before.get(at.warp - 1);
        scanned = operation(prefix, in_warp);
    }
    (scanned, prefix)
}

/// Each thread's value combined with those of all threads before it, thread 0's first.
#[track_caller]
pub fn inclusive_scan<V: DeviceValue + Copy>(value: V, operation: impl Fn(V, V) -> V) -> V {
    scan(Position::here(), value, value, operation).0
}

/// The values of all threads before combined, thread 0's first; `identity` in thread 0.
///
/// ```
/// use warpwright_lang::special::thread_idx;
/// use warpwright_lang::{block, kernel, launch, pointer::Global};
///
/// /// Moves the numbers that are not zero to the front.
/// #[kernel]
/// fn compact(x: &Global<u32>, kept: &mut Global<u32>) {
///     launch::threads(256);
///     let mine = x[thread_idx().x];
///     let before = block::exclusive_sum((mine != 0) as u32);
///     if mine != 0 {
///         kept[before] = mine;
///     }
/// }
/// assert!(compact().is_ok());
/// ```
#[track_caller]
pub fn exclusive_scan<V: DeviceValue + Copy>(value: V, identity: V, operation: impl Fn(V, V) -> V) -> V {
    let at = Position::here();
    let (scanned, prefix) = scan(at, value, identity, operation);
    select_value(at.lane.eq(0), prefix, at.lanes.up(scanned, 1))
}

/// The value of thread `thread`, counted along x, then y, then z.
#[track_caller]
#[crate::device]
pub fn broadcast<V: DeviceValue + Copy>(value: V, thread: impl Value<u32>) -> V {
    let at = Position::here();
    at.demand_thread(thread.operand());
    let shared = ValueArray::shared_as("memory of a block broadcast", value, 1);
    if at.thread == thread.reg() {
        shared.set(0u32, value);
    }
    at.synchronize();
    let sent = shared.get(0u32);
    // The next call in a loop sets it again.
    at.synchronize();
    sent
}

/// The sum of the threads' values; every thread has it.
#[track_caller]
pub fn reduce_sum<T: DeviceNumber>(value: Reg<T>) -> Reg<T> {
    let at = Position::here();
    on_behalf_of_author(|| combine_warps(at, at.lanes.reduce_sum(value), add))
}

/// The smallest of the threads' values; every thread has it.
#[track_caller]
pub fn reduce_min<T: DeviceNumber>(value: Reg<T>) -> Reg<T> {
    let at = Position::here();
    on_behalf_of_author(|| combine_warps(at, at.lanes.reduce_min(value), Reg::min))
}

/// The largest of the threads' values; every thread has it.
#[track_caller]
pub fn reduce_max<T: DeviceNumber>(value: Reg<T>) -> Reg<T> {
    let at = Position::here();
    on_behalf_of_author(|| combine_warps(at, at.lanes.reduce_max(value), Reg::max))
}

/// Each thread's value added to those of all threads before it.
#[track_caller]
pub fn inclusive_sum<T: DeviceNumber>(value: Reg<T>) -> Reg<T> {
    on_behalf_of_author(|| inclusive_scan(value, add))
}

/// The sum of the values of all threads before; 0 in thread 0.
#[track_caller]
pub fn exclusive_sum<T: DeviceNumber>(value: Reg<T>) -> Reg<T> {
    on_behalf_of_author(|| exclusive_scan(value, constant(T::ZERO), add))
}
