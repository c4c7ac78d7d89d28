//! Atomic operations on bytes of the host.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU8, AtomicU16, AtomicU32, AtomicU64, Ordering};

use warpwright_ptx::syntax::Type;

use crate::numeric::compare::{self, ExtremumMode};
use crate::numeric::format::Format;
use crate::numeric::{FloatMode, double, half, single};

/// The operation on the old value and the operand.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Update {
    And,
    Or,
    Xor,
    Exchange,
    CompareAndSwap,
    Add,
    Increment,
    Decrement,
    Minimum,
    Maximum,
}

/// One element's new value.
pub(crate) type Combine = fn(old: u128, operand: u128) -> u128;

pub(crate) fn combine(update: Update, ty: Type) -> Option<Combine> {
    Some(match (update, ty) {
        (Update::And, _) => |a, b| a & b,
        (Update::Or, _) => |a, b| a | b,
        (Update::Xor, _) => |a, b| a ^ b,
        (Update::Exchange | Update::CompareAndSwap, _) => |_, b| b,
        (Update::Increment, _) => |a, b| if a >= b { 0 } else { a + 1 },
        (Update::Decrement, _) => |a, b| if a == 0 || a > b { b } else { a - 1 },
        (Update::Add, Type::U32 | Type::S32 | Type::U64 | Type::S64) => |a, b| a.wrapping_add(b),
        (Update::Add, Type::F32) => |a, b| single::add(a as u32, b as u32, FloatMode::NEAREST).into(),
        // The loop that adds in shared memory has the old value as its second operand (measured on
        // H200).
        (Update::Add, Type::F64) => |a, b| double::add(b as u64, a as u64, FloatMode::NEAREST).into(),
        (Update::Add, Type::F16) => {
            |a, b| half::add(Format::F16, a as u16, b as u16, FloatMode::NEAREST).into()
        }
        (Update::Add, Type::Bf16) => {
            |a, b| half::add(Format::BF16, a as u16, b as u16, FloatMode::NEAREST).into()
        }
        (Update::Add, Type::F16x2) => |a, b| {
            half::pair2(a as u32, b as u32, |x, y| half::add(Format::F16, x, y, FloatMode::NEAREST)).into()
        },
        (Update::Add, Type::Bf16x2) => |a, b| {
            half::pair2(a as u32, b as u32, |x, y| half::add(Format::BF16, x, y, FloatMode::NEAREST)).into()
        },
        (Update::Minimum, Type::U32 | Type::U64) => |a, b| a.min(b),
        (Update::Maximum, Type::U32 | Type::U64) => |a, b| a.max(b),
        (Update::Minimum, Type::S32) => |a, b| u128::from((a as i32).min(b as i32) as u32),
        (Update::Maximum, Type::S32) => |a, b| u128::from((a as i32).max(b as i32) as u32),
        (Update::Minimum, Type::S64) => |a, b| u128::from((a as i64).min(b as i64) as u64),
        (Update::Maximum, Type::S64) => |a, b| u128::from((a as i64).max(b as i64) as u64),
        (Update::Minimum, Type::F16) => |a, b| extremum(Format::F16, a, b, false),
        (Update::Maximum, Type::F16) => |a, b| extremum(Format::F16, a, b, true),
        (Update::Minimum, Type::Bf16) => |a, b| extremum(Format::BF16, a, b, false),
        (Update::Maximum, Type::Bf16) => |a, b| extremum(Format::BF16, a, b, true),
        (Update::Minimum, Type::F16x2) => |a, b| extremum_pair(Format::F16, a, b, false),
        (Update::Maximum, Type::F16x2) => |a, b| extremum_pair(Format::F16, a, b, true),
        (Update::Minimum, Type::Bf16x2) => |a, b| extremum_pair(Format::BF16, a, b, false),
        (Update::Maximum, Type::Bf16x2) => |a, b| extremum_pair(Format::BF16, a, b, true),
        _ => return None,
    })
}

/// The same in global memory, which adds some floats otherwise.
pub(crate) fn combine_global(update: Update, ty: Type) -> Option<Combine> {
    match (update, ty) {
        (Update::Add, Type::F32) => Some(add_flushed),
        (Update::Add, Type::F64) => Some(add_f64_global),
        _ => combine(update, ty),
    }
}

/// `add.f32` in global memory, which flushes subnormal operands and results (PTX ISA, "atom").
fn add_flushed(a: u128, b: u128) -> u128 {
    single::add(a as u32, b as u32, FloatMode { flush: true, ..FloatMode::NEAREST }).into()
}

/// `add.f64` in global memory, which leaves a NaN as it is, the operand's before the old one
/// (measured on H200).
fn add_f64_global(a: u128, b: u128) -> u128 {
    match [b, a].into_iter().find(|&x| f64::from_bits(x as u64).is_nan()) {
        Some(nan) => nan,
        None => double::add(a as u64, b as u64, FloatMode::NEAREST).into(),
    }
}

fn extremum(format: Format, a: u128, b: u128, maximum: bool) -> u128 {
    compare::extremum(format, a as u32, b as u32, ExtremumMode { maximum, ..ExtremumMode::default() }).into()
}

fn extremum_pair(format: Format, a: u128, b: u128, maximum: bool) -> u128 {
    let one = |shift: u32| extremum(format, a >> shift & 0xffff, b >> shift & 0xffff, maximum) << shift;
    one(0) | one(16)
}

/// A lock for 128-bit operations: few hosts have such instructions that Rust exposes.
static WIDE: Mutex<()> = Mutex::new(());

/// Replaces the element at `host` by the result of `update`, atomically; returns the old one.
///
/// # Safety
/// `host` points to `size` bytes, aligned to `size`, that stay allocated during the call.
pub(crate) unsafe fn update(host: *mut u8, size: u32, update: impl Fn(u128) -> u128) -> u128 {
    macro_rules! atomically {
        ($atomic:ty, $ty:ty) => {{
            // SAFETY: the caller passes aligned bytes of this size.
            let cell = unsafe { <$atomic>::from_ptr(host.cast()) };
            let mut old = cell.load(Ordering::Relaxed);
            loop {
                let new = update(old.into()) as $ty;
                match cell.compare_exchange_weak(old, new, Ordering::AcqRel, Ordering::Relaxed) {
                    Ok(old) => return old.into(),
                    Err(seen) => old = seen,
                }
            }
        }};
    }
    match size {
        1 => atomically!(AtomicU8, u8),
        2 => atomically!(AtomicU16, u16),
        4 => atomically!(AtomicU32, u32),
        8 => atomically!(AtomicU64, u64),
        _ => {
            let _turn = WIDE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
            let cell = host.cast::<u128>();
            // SAFETY: the caller passes 16 bytes; all 128-bit operations hold the lock.
            unsafe {
                let old = cell.read_unaligned();
                cell.write_unaligned(update(old));
                old
            }
        }
    }
}
