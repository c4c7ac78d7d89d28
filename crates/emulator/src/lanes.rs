//! From a function of one lane to an operation of the warp.
//!
//! `vector2(|a: u32, b: u32| a.wrapping_add(b))` is the whole of an instruction: it becomes one loop over 32 lanes,
//! compiled three times (AVX-512, AVX2 with FMA, and what the target always has), of which the machine's best is
//! chosen when a program is loaded. `scalar2` compiles it once, for functions that would not vectorise.

use crate::registers::{LANES, Lane, Registers, Slot};

/// The registers of a lane operation. Those a shape does not use are zero.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Operands {
    /// The destination.
    pub(crate) d: Slot,
    /// The second destination, where there are two.
    pub(crate) e: Slot,
    /// Sources.
    pub(crate) a: Slot,
    pub(crate) b: Slot,
    pub(crate) c: Slot,
    pub(crate) x: Slot,
}

/// Runs an operation in the lanes of a mask.
///
/// The pointer is unsafe to call because it may need instructions that not every processor has; `select` hands out
/// only those that this one has.
pub(crate) type LaneFn = unsafe fn(&mut Registers, &Operands, u32);

trait Kernel {
    fn run(registers: &mut Registers, operands: &Operands, mask: u32);
}

fn portable<K: Kernel>(registers: &mut Registers, operands: &Operands, mask: u32) {
    K::run(registers, operands, mask);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512cd,avx2,fma,bmi1,bmi2,lzcnt,popcnt")]
fn avx512<K: Kernel>(registers: &mut Registers, operands: &Operands, mask: u32) {
    K::run(registers, operands, mask);
}

#[cfg(target_arch = "x86_64")]
#[target_feature(enable = "avx2,fma,bmi1,bmi2,lzcnt,popcnt")]
fn avx2<K: Kernel>(registers: &mut Registers, operands: &Operands, mask: u32) {
    K::run(registers, operands, mask);
}

/// What the processor can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Width {
    Portable,
    Avx2,
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

fn select<K: Kernel>() -> LaneFn {
    match width() {
        #[cfg(target_arch = "x86_64")]
        Width::Avx512 => avx512::<K>,
        #[cfg(target_arch = "x86_64")]
        Width::Avx2 => avx2::<K>,
        _ => portable::<K>,
    }
}

/// The one value of a closure type that captures nothing.
#[inline(always)]
fn stateless<F: Copy + 'static>() -> F {
    const { assert!(size_of::<F>() == 0, "a lane function captures nothing") };
    // SAFETY: `F` has no bytes, and the public constructors below were given a value of it, which is `Copy`.
    unsafe { std::ptr::NonNull::<F>::dangling().read() }
}

/// What a lane function returns: one value, or two for operations with two destinations.
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
    ($($kernel:ident, $vector:ident, $scalar:ident, ($($T:ident $value:ident $slot:ident),*);)*) => {$(
        struct $kernel<$($T,)* R, F>(std::marker::PhantomData<($($T,)* R, F)>);

        impl<$($T: Lane,)* R: Output, F: Fn($($T),*) -> R + Copy + 'static> Kernel for $kernel<$($T,)* R, F> {
            #[inline(always)]
            fn run(registers: &mut Registers, operands: &Operands, mask: u32) {
                let function = stateless::<F>();
                $(let $value = $T::read(registers, operands.$slot);)*
                let mut result = R::columns();
                for lane in 0..LANES {
                    R::set(&mut result, lane, function($($value[lane]),*));
                }
                R::write(registers, operands, mask, result);
            }
        }

        /// The operation that applies a function to every lane, compiled for the machine's vectors.
        pub(crate) fn $vector<$($T: Lane,)* R: Output, F: Fn($($T),*) -> R + Copy + 'static>(_: F) -> LaneFn {
            select::<$kernel<$($T,)* R, F>>()
        }

        /// The operation that applies a function to every lane, one after another.
        pub(crate) fn $scalar<$($T: Lane,)* R: Output, F: Fn($($T),*) -> R + Copy + 'static>(_: F) -> LaneFn {
            portable::<$kernel<$($T,)* R, F>>
        }
    )*};
}

shapes! {
    Map1, vector1, scalar1, (A a a);
    Map2, vector2, scalar2, (A a a, B b b);
    Map3, vector3, scalar3, (A a a, B b b, C c c);
    Map4, vector4, scalar4, (A a a, B b b, C c c, X x x);
}
