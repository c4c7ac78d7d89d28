//! Atomic operations on memory, with their order and scope. PTX ISA, `atom` and `red`.
//!
//! `atomic_*` returns the old value; `reduce_*` returns nothing, so the thread does not wait for
//! the memory system. [`atomic_update`](Pointer::atomic_update) makes any operation atomic.
//!
//! The old value of `atomic_add(1)` is a ticket: every caller gets another one. With
//! [`AtomicOrdering::AcquireRelease`] the thread with the last ticket observes what the others wrote
//! before they took theirs, and so does its CTA after the next barrier:
//!
//! ```
//! use warpwright_lang::access::Scope;
//! use warpwright_lang::atomic::{AtomicOrdering, Atomicity};
//! use warpwright_lang::pointer::Global;
//! use warpwright_lang::special::{block_idx, grid_dim, thread_idx};
//! use warpwright_lang::value::constant;
//! use warpwright_lang::{block, kernel, launch};
//!
//! /// y = the sum of x. `tickets` is 0 before the launch.
//! #[kernel]
//! fn sum(x: &Global<f32>, partial: &mut Global<f32>, tickets: &mut Global<u32>, y: &mut Global<f32>) {
//!     launch::threads(256);
//!     let (cta, ctas, thread) = (block_idx().x, grid_dim().x, thread_idx().x);
//!     let total = block::reduce_sum(x[cta * 256 + thread]);
//!     let mut ticket = constant(0u32);
//!     if thread == 0 {
//!         partial[cta] = total;
//!         let order = Atomicity::new(AtomicOrdering::AcquireRelease, Scope::Device);
//!         ticket = tickets.atomic_add_with(1, order);
//!     }
//!     if block::broadcast(ticket, 0) == ctas - 1 {
//!         let mut mine = constant(0.0f32);
//!         for other in (thread..ctas).step_by(256) {
//!             mine += partial.at(other).load();
//!         }
//!         let total = block::reduce_sum(mine);
//!         if thread == 0 {
//!             y[0] = total;
//!         }
//!     }
//! }
//! assert!(sum().is_ok());
//! ```

mod ordered;
mod update;

use warpwright_ir::Operand;

pub use self::ordered::AtomicOrdered;

use crate::access::Scope;
use crate::element::{Element, Kind, WideInteger, bf16x2, f16x2};
use crate::operation::{fresh, perform, record, refuse};
use crate::pointer::{Global, Pointer};
use crate::requirement::{Feature, require};
use crate::space::{ClusterSpace, GenericSpace, GlobalSpace, SharedSpace, Space};
use crate::value::{Reg, Value};
use half::{bf16, f16};

/// How an atomic operation orders the thread's other accesses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AtomicOrdering {
    /// It does not.
    #[default]
    Relaxed,
    /// Later accesses come after it.
    Acquire,
    /// Earlier accesses come before it.
    Release,
    /// Both.
    AcquireRelease,
}

/// The order and the scope of an atomic operation; by default relaxed, at GPU scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Atomicity {
    /// The order.
    pub ordering: AtomicOrdering,
    /// The scope: the threads for which the operation is atomic.
    pub scope: Scope,
}

impl Default for Atomicity {
    fn default() -> Self {
        Self { ordering: AtomicOrdering::Relaxed, scope: Scope::Device }
    }
}

impl Atomicity {
    /// With this order and scope.
    pub fn new(ordering: AtomicOrdering, scope: Scope) -> Self {
        Self { ordering, scope }
    }

    fn words(self) -> String {
        let ordering = match self.ordering {
            AtomicOrdering::Relaxed => ".relaxed",
            AtomicOrdering::Acquire => ".acquire",
            AtomicOrdering::Release => ".release",
            AtomicOrdering::AcquireRelease => ".acq_rel",
        };
        format!("{ordering}{}", self.scope.word())
    }
}

/// A state space with atomic operations.
pub trait AtomicSpace: Space {}

impl AtomicSpace for GlobalSpace {}
impl AtomicSpace for SharedSpace {}
impl AtomicSpace for ClusterSpace {}
impl AtomicSpace for GenericSpace {}

/// A type that memory can add to atomically.
pub trait AtomicAdd: Element {
    /// The operation and its type.
    const ADD: &'static str;
}

macro_rules! atomic_add {
    ($($ty:ty => $word:literal),*) => { $(impl AtomicAdd for $ty { const ADD: &'static str = $word; })* };
}

// Two's complement: a signed 64-bit sum is the unsigned one.
atomic_add!(
    u32 => "add.u32", i32 => "add.s32", u64 => "add.u64", i64 => "add.u64", f32 => "add.f32", f64 => "add.f64",
    f16 => "add.noftz.f16", bf16 => "add.noftz.bf16", f16x2 => "add.noftz.f16x2", bf16x2 => "add.noftz.bf16x2"
);

/// A type that memory can compare and exchange: 16, 32 or 64 bits.
pub trait AtomicCompare: Element {}

macro_rules! atomic {
    ($trait:ident: $($ty:ty),*) => { $(impl $trait for $ty {})* };
}

atomic!(AtomicCompare: u16, i16, u32, i32, u64, i64, f32, f64, f16, bf16, f16x2, bf16x2);

impl<T: Element, S: AtomicSpace> Pointer<T, S> {
    #[track_caller]
    fn atomic(self, operation: &str, operands: &[Operand], atomicity: Atomicity) -> Reg<T> {
        self.demand_writable();
        let old = fresh();
        let opcode = format!("atom{}{}.{operation}", atomicity.words(), S::WORD);
        record(opcode, 1, [&[Reg::operand(old), self.operand()], operands].concat());
        old
    }

    #[track_caller]
    fn reduce(self, operation: &str, operand: Operand, atomicity: Atomicity) {
        self.demand_writable();
        if matches!(atomicity.ordering, AtomicOrdering::Acquire | AtomicOrdering::AcquireRelease) {
            return refuse(
                "a reduction returns no value and cannot acquire: use Relaxed or Release, or the `atomic_` form",
            );
        }
        perform(format!("red{}{}.{operation}", atomicity.words(), S::WORD), [self.operand(), operand]);
    }
}

macro_rules! operations {
    ($bound:ident: $($what:literal $atomic:ident $atomic_with:ident $reduce:ident $reduce_with:ident $operation:ident;)*) => {
        impl<T: $bound, S: AtomicSpace> Pointer<T, S> {
            $(
                #[doc = concat!("Replaces the element by ", $what, "; returns the old value. Relaxed, at GPU scope.")]
                #[track_caller]
                pub fn $atomic(self, value: impl Value<T>) -> Reg<T> {
                    self.$atomic_with(value, Atomicity::default())
                }

                #[doc = concat!("[`", stringify!($atomic), "`](Self::", stringify!($atomic), ") in a given order and scope.")]
                #[track_caller]
                pub fn $atomic_with(self, value: impl Value<T>, atomicity: Atomicity) -> Reg<T> {
                    let operation = operation::$operation::<T>();
                    needs::<T>();
                    self.atomic(&operation, &[value.operand()], atomicity)
                }

                #[doc = concat!("Replaces the element by ", $what, ". Relaxed, at GPU scope.")]
                #[track_caller]
                pub fn $reduce(self, value: impl Value<T>) {
                    self.$reduce_with(value, Atomicity::default());
                }

                #[doc = concat!("[`", stringify!($reduce), "`](Self::", stringify!($reduce), ") in a given order and scope.")]
                #[track_caller]
                pub fn $reduce_with(self, value: impl Value<T>, atomicity: Atomicity) {
                    let operation = operation::$operation::<T>();
                    needs::<T>();
                    self.reduce(&operation, value.operand(), atomicity);
                }
            )*
        }
    };
}

/// Refuses types that the target has no atomics for.
#[track_caller]
fn needs<T: Element>() {
    if T::PTX.starts_with("bf16") {
        require(Feature::BfloatAtomics);
    }
}

/// The operation and its type, for each element type.
mod operation {
    use super::{AtomicAdd, Element, Kind, WideInteger};

    pub(super) fn add<T: AtomicAdd>() -> String {
        T::ADD.to_owned()
    }

    pub(super) fn and<T: WideInteger>() -> String {
        bitwise::<T>("and")
    }

    pub(super) fn or<T: WideInteger>() -> String {
        bitwise::<T>("or")
    }

    pub(super) fn xor<T: WideInteger>() -> String {
        bitwise::<T>("xor")
    }

    fn bitwise<T: Element>(name: &str) -> String {
        debug_assert!(T::KIND == Kind::Unsigned || T::KIND == Kind::Signed);
        format!("{name}.b{}", 8 * T::BYTES)
    }
}

operations! { AtomicAdd:
    "its sum with `value`" atomic_add atomic_add_with reduce_add reduce_add_with add;
}

operations! { WideInteger:
    "its bitwise and with `value`" atomic_and atomic_and_with reduce_and reduce_and_with and;
    "its bitwise or with `value`" atomic_or atomic_or_with reduce_or reduce_or_with or;
    "its bitwise exclusive or with `value`" atomic_xor atomic_xor_with reduce_xor reduce_xor_with xor;
}

impl<S: AtomicSpace> Pointer<u32, S> {
    /// Increments; at `limit` the element restarts from 0. Returns the old value.
    #[track_caller]
    pub fn atomic_increment(self, limit: impl Value<u32>, atomicity: Atomicity) -> Reg<u32> {
        self.atomic("inc.u32", &[limit.operand()], atomicity)
    }

    /// Decrements; from 0 and from above `limit` the element restarts at `limit`. Returns the old
    /// value.
    #[track_caller]
    pub fn atomic_decrement(self, limit: impl Value<u32>, atomicity: Atomicity) -> Reg<u32> {
        self.atomic("dec.u32", &[limit.operand()], atomicity)
    }
}

impl<T: AtomicCompare, S: AtomicSpace> Pointer<T, S> {
    /// Replaces the element by `value`. Returns the old value. 16-bit elements are exchanged by a
    /// loop, as [`atomic_update`](Self::atomic_update) does.
    #[track_caller]
    pub fn atomic_exchange(self, value: impl Value<T>, atomicity: Atomicity) -> Reg<T> {
        if T::BYTES == 2 {
            return self.atomic_update_with(|_| value.reg(), atomicity);
        }
        self.atomic(&format!("exch.b{}", 8 * T::BYTES), &[value.operand()], atomicity)
    }

    /// Replaces the element by `value` if its bits equal those of `expected`. Returns the old
    /// value.
    #[track_caller]
    pub fn atomic_compare_exchange(
        self,
        expected: impl Value<T>,
        value: impl Value<T>,
        atomicity: Atomicity,
    ) -> Reg<T> {
        let operands = [expected.operand(), value.operand()];
        self.atomic(&format!("cas.b{}", 8 * T::BYTES), &operands, atomicity)
    }
}

/// A float that vectors of consecutive elements are reduced into by one instruction; sm_90.
pub trait VectorReduced: Element {
    /// How many elements, at most.
    const MOST: usize;
    /// The opcode's suffix after the operation: 16-bit additions do not flush subnormals.
    const MODE: &'static str;
}

macro_rules! vector_reduced {
    ($($ty:ty, $most:literal, $mode:literal;)*) => {
        $(impl VectorReduced for $ty {
            const MOST: usize = $most;
            const MODE: &'static str = $mode;
        })*
    };
}

vector_reduced! {
    f32, 4, "";
    f16, 8, ".noftz";
    bf16, 8, ".noftz";
    f16x2, 4, ".noftz";
    bf16x2, 4, ".noftz";
}

/// A 16-bit float, or a pair of them, of which vectors have minima and maxima too.
pub trait VectorOrdered: VectorReduced {}

impl VectorOrdered for f16 {}
impl VectorOrdered for bf16 {}
impl VectorOrdered for f16x2 {}
impl VectorOrdered for bf16x2 {}

macro_rules! vector_operations {
    ($bound:ident: $($what:literal $reduce:ident $atomic:ident $operation:literal;)*) => {
        impl<T: $bound> Global<T> {
            $(
                #[doc = concat!("Replaces `N` consecutive elements by ", $what, ", each atomically; the \
                 address is a multiple of their total size. `N` is a power of two, at most 4 for `f32` and \
                 for pairs, 8 for 16-bit floats; sm_90.")]
                #[track_caller]
                pub fn $reduce<const N: usize>(self, values: [Reg<T>; N], atomicity: Atomicity) {
                    if let Some(operation) = vector_operation::<T>($operation, N) {
                        self.reduce(&operation, vector(values), atomicity);
                    }
                }

                #[doc = concat!("[`", stringify!($reduce), "`](Self::", stringify!($reduce), "), \
                 returning the old values.")]
                #[track_caller]
                pub fn $atomic<const N: usize>(self, values: [Reg<T>; N], atomicity: Atomicity) -> [Reg<T>; N] {
                    let old = [(); N].map(|()| fresh::<T>());
                    if let Some(operation) = vector_operation::<T>($operation, N) {
                        self.demand_writable();
                        let opcode = format!("atom{}.global.{operation}", atomicity.words());
                        record(opcode, 1, vec![vector(old), self.operand(), vector(values)]);
                    }
                    old
                }
            )*
        }
    };
}

vector_operations! { VectorReduced:
    "their sums with `values`" reduce_add_vector atomic_add_vector "add";
}

vector_operations! { VectorOrdered:
    "the smaller of them and `values`" reduce_min_vector atomic_min_vector "min";
    "the larger of them and `values`" reduce_max_vector atomic_max_vector "max";
}

fn vector<T: Element, const N: usize>(registers: [Reg<T>; N]) -> Operand {
    Operand::Vector(registers.map(Reg::operand).to_vec())
}

/// The operation on `lanes` elements and its type, if there is one.
#[track_caller]
fn vector_operation<T: VectorReduced>(name: &str, lanes: usize) -> Option<String> {
    require(Feature::VectorAtomics);
    if lanes < 2 || !lanes.is_power_of_two() || lanes > T::MOST {
        let legal = if T::MOST == 8 { "2, 4 or 8" } else { "2 or 4" };
        refuse(format!("a vector reduction takes {legal} elements of {}, not {lanes}", T::NAME));
        return None;
    }
    Some(format!("{name}{}.v{lanes}.{}", T::MODE, T::PTX))
}
