//! From a function of one lane to an operation of the warp.
//!
//! `two(|a: u32, b: u32| a.wrapping_add(b))` is a complete instruction: it becomes one loop over 32
//! lanes. A *vectored* one is compiled three times (AVX-512, AVX2 with FMA, and the target's
//! baseline), and the best for the machine is chosen when the program is loaded; a *plain* one
//! once, for functions that would not vectorize.

use std::marker::PhantomData;

use warpwright_events::LANES;

use crate::registers::{Lane, Registers, Slot};

/// The registers of a lane operation. Those that a shape does not use are zero.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Operands {
    /// The destinations: one or two.
    pub(crate) d: Slot,
    pub(crate) e: Slot,
    /// Sources.
    pub(crate) a: Slot,
    pub(crate) b: Slot,
    pub(crate) c: Slot,
    pub(crate) x: Slot,
}

/// An operation on registers, each lane by itself.
pub(crate) trait LaneOperation: Send + Sync {
    /// Executes in the lanes of a mask.
    fn run(&self, registers: &mut Registers, mask: u32);
}

/// The loop of a lane operation, before it is compiled for a machine.
pub(crate) trait LaneLoop: Send + Sync + 'static {
    fn bind(&mut self, operands: Operands);
    fn run(&self, registers: &mut Registers, mask: u32);
}

struct Portable<L>(L);

impl<L: LaneLoop> LaneOperation for Portable<L> {
    fn run(&self, registers: &mut Registers, mask: u32) {
        self.0.run(registers, mask);
    }
}

/// A loop compiled for a wider machine. Only `vectored` creates one, after feature detection.
#[cfg(target_arch = "x86_64")]
struct Avx512<L>(L);
#[cfg(target_arch = "x86_64")]
struct Avx2<L>(L);

#[cfg(target_arch = "x86_64")]
impl<L: LaneLoop> LaneOperation for Avx512<L> {
    fn run(&self, registers: &mut Registers, mask: u32) {
        #[target_feature(
            enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx2,fma,bmi1,bmi2,lzcnt,popcnt"
        )]
        fn run<L: LaneLoop>(body: &L, registers: &mut Registers, mask: u32) {
            body.run(registers, mask);
        }
        // SAFETY: `vectored` makes this type only on a processor that has these features.
        unsafe { run(&self.0, registers, mask) }
    }
}

#[cfg(target_arch = "x86_64")]
impl<L: LaneLoop> LaneOperation for Avx2<L> {
    fn run(&self, registers: &mut Registers, mask: u32) {
        #[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt,popcnt")]
        fn run<L: LaneLoop>(body: &L, registers: &mut Registers, mask: u32) {
            body.run(registers, mask);
        }
        // SAFETY: `vectored` makes this type only on a processor that has these features.
        unsafe { run(&self.0, registers, mask) }
    }
}

/// How wide the processor's vectors are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Width {
    Portable,
    #[cfg(target_arch = "x86_64")]
    Avx2,
    #[cfg(target_arch = "x86_64")]
    Avx512,
}

/// The widest vectors this processor has. Detection is cached by the standard library.
pub(crate) fn width() -> Width {
    #[cfg(target_arch = "x86_64")]
    {
        let avx2 = is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("lzcnt")
            && is_x86_feature_detected!("popcnt");
        let avx512 = is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl")
            && is_x86_feature_detected!("avx512cd");
        if avx2 && avx512 {
            return Width::Avx512;
        }
        if avx2 {
            return Width::Avx2;
        }
    }
    Width::Portable
}

/// A loop compiled for the machine's vectors.
pub(crate) fn vectored<L: LaneLoop>(body: L) -> Box<dyn LaneOperation> {
    match width() {
        #[cfg(target_arch = "x86_64")]
        Width::Avx512 => Box::new(Avx512(body)),
        #[cfg(target_arch = "x86_64")]
        Width::Avx2 => Box::new(Avx2(body)),
        Width::Portable => Box::new(Portable(body)),
    }
}

/// A loop compiled once.
pub(crate) fn plain<L: LaneLoop>(body: L) -> Box<dyn LaneOperation> {
    Box::new(Portable(body))
}

/// A computation compiled for the machine's vectors, large enough to check for them on each call.
pub(crate) trait Vectored {
    type Result;
    /// To be inlined into the function of each width.
    fn compute(self) -> Self::Result;
}

/// Computes with the machine's vectors.
pub(crate) fn in_vectors<V: Vectored>(computation: V) -> V::Result {
    #[cfg(target_arch = "x86_64")]
    {
        #[target_feature(
            enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx2,fma,bmi1,bmi2,lzcnt,popcnt"
        )]
        fn avx512<V: Vectored>(computation: V) -> V::Result {
            computation.compute()
        }
        #[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt,popcnt")]
        fn avx2<V: Vectored>(computation: V) -> V::Result {
            computation.compute()
        }
        match width() {
            // SAFETY: the processor has these features.
            Width::Avx512 => return unsafe { avx512(computation) },
            // SAFETY: the processor has these features.
            Width::Avx2 => return unsafe { avx2(computation) },
            Width::Portable => {}
        }
    }
    computation.compute()
}

/// The results of a lane function: one value, or two for operations with two destinations.
pub(crate) trait Output: Copy + 'static {
    /// All lanes, before they are written.
    type Columns;
    fn columns() -> Self::Columns;
    fn set(columns: &mut Self::Columns, lane: usize, value: Self);
    fn write(registers: &mut Registers, operands: &Operands, mask: u32, columns: Self::Columns);
}

impl<R: Lane> Output for R {
    type Columns = [R; LANES];

    #[inline(always)]
    fn columns() -> Self::Columns {
        [R::default(); LANES]
    }

    #[inline(always)]
    fn set(columns: &mut Self::Columns, lane: usize, value: Self) {
        columns[lane] = value;
    }

    #[inline(always)]
    fn write(registers: &mut Registers, operands: &Operands, mask: u32, columns: Self::Columns) {
        R::write(registers, operands.d, mask, columns);
    }
}

impl<R: Lane, S: Lane> Output for (R, S) {
    type Columns = ([R; LANES], [S; LANES]);

    #[inline(always)]
    fn columns() -> Self::Columns {
        ([R::default(); LANES], [S::default(); LANES])
    }

    #[inline(always)]
    fn set(columns: &mut Self::Columns, lane: usize, value: Self) {
        columns.0[lane] = value.0;
        columns.1[lane] = value.1;
    }

    #[inline(always)]
    fn write(registers: &mut Registers, operands: &Operands, mask: u32, columns: Self::Columns) {
        R::write(registers, operands.d, mask, columns.0);
        S::write(registers, operands.e, mask, columns.1);
    }
}

macro_rules! shapes {
    ($($kernel:ident, $name:ident, ($($T:ident $value:ident $slot:ident),*);)*) => {$(
        /// A function applied to every lane.
        pub(crate) struct $kernel<$($T,)* R, F> {
            operands: Operands,
            function: F,
            types: PhantomData<fn($($T),*) -> R>,
        }

        impl<$($T: Lane,)* R: Output, F: Fn($($T),*) -> R + Send + Sync + 'static> LaneLoop for $kernel<$($T,)* R, F> {
            fn bind(&mut self, operands: Operands) {
                self.operands = operands;
            }

            #[inline(always)]
            fn run(&self, registers: &mut Registers, mask: u32) {
                $(let $value = $T::read(registers, self.operands.$slot);)*
                let mut result = R::columns();
                for lane in 0..LANES {
                    R::set(&mut result, lane, (self.function)($($value[lane]),*));
                }
                R::write(registers, &self.operands, mask, result);
            }
        }

        /// A lane loop over a function of this many sources.
        pub(crate) fn $name<$($T: Lane,)* R: Output, F: Fn($($T),*) -> R + Send + Sync + 'static>(
            function: F,
        ) -> $kernel<$($T,)* R, F> {
            $kernel { operands: Operands::default(), function, types: PhantomData }
        }
    )*};
}

shapes! {
    Map1, one, (A a a);
    Map2, two, (A a a, B b b);
    Map3, three, (A a a, B b b, C c c);
    Map4, four, (A a a, B b b, C c c, X x x);
}
