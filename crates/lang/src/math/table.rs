//! The functions of one argument and the accuracy they are tested to.

use crate::value::Reg;

/// A function of one argument.
#[derive(Clone, Copy, Debug)]
pub struct Function<T> {
    /// Its name, the method's.
    pub name: &'static str,
    /// Records it.
    pub record: fn(Reg<T>) -> Reg<T>,
    /// The largest error, in units in the last place of the exact result: of f32 over all 2^32
    /// arguments.
    pub ulp: f64,
    /// Arguments that are usual: where its speed is measured.
    pub range: (T, T),
    /// The bound that the CUDA C++ Programming Guide documents for its function of the same name:
    /// units to the correctly rounded result, so that an error here may be larger by 1/2.
    pub cuda: Option<f64>,
}

macro_rules! functions {
    (
        both { $($name:ident $low:literal .. $high:literal, ulp $f32:literal $f64:literal $(, CUDA $cuda32:literal $cuda64:literal)?;)* }
        single { $($single:ident $from:literal .. $to:literal, ulp $ulp:literal $(, CUDA $cuda:literal)?;)* }
    ) => {
        /// Every function of one f32.
        pub const FUNCTIONS: &[Function<f32>] = &[
            $(functions!(one $name $low, $high, $f32 $(, $cuda32)?),)*
            $(functions!(one $single $from, $to, $ulp $(, $cuda)?)),*
        ];

        /// Every function of one f64.
        pub const DOUBLE_FUNCTIONS: &[Function<f64>] =
            &[$(functions!(one $name $low, $high, $f64 $(, $cuda64)?)),*];
    };
    (one $name:ident $low:literal, $high:literal, $ulp:literal $(, $cuda:literal)?) => {
        Function {
            name: stringify!($name),
            record: |x| x.$name(),
            ulp: $ulp,
            range: ($low, $high),
            cuda: functions!(bound $($cuda)?),
        }
    };
    (bound) => { None };
    (bound $cuda:literal) => { Some($cuda) };
}

// The range, and the bounds of f32 and f64.
functions! {
    both {
        exp -80.0 .. 80.0, ulp 2.1 2.5, CUDA 2.0 1.0;
        exp2 -100.0 .. 100.0, ulp 2.4 2.5, CUDA 2.0 1.0;
        exp10 -30.0 .. 30.0, ulp 2.1 2.5, CUDA 2.0 1.0;
        exp_m1 -4.0 .. 4.0, ulp 1.5 2.5, CUDA 1.0 1.0;
        ln 0.001 .. 1000.0, ulp 1.0 2.5, CUDA 1.0 1.0;
        log2 0.001 .. 1000.0, ulp 1.1 2.5, CUDA 1.0 1.0;
        log10 0.001 .. 1000.0, ulp 1.0 2.5, CUDA 2.0 1.0;
        ln_1p -0.9 .. 10.0, ulp 1.5 2.5, CUDA 1.0 1.0;
        sqrt 0.001 .. 1000.0, ulp 0.5 0.5, CUDA 0.0 0.0;
        rsqrt 0.001 .. 1000.0, ulp 1.6 2.5, CUDA 2.0 1.0;
        cbrt -100.0 .. 100.0, ulp 1.0 2.5, CUDA 1.0 1.0;
        recip 0.001 .. 1000.0, ulp 0.5 0.5, CUDA 0.0 0.0;
        sin -100.0 .. 100.0, ulp 1.6 3.5, CUDA 2.0 2.0;
        cos -100.0 .. 100.0, ulp 1.6 3.5, CUDA 2.0 2.0;
        tan -100.0 .. 100.0, ulp 3.2 3.5, CUDA 4.0 2.0;
        asin -1.0 .. 1.0, ulp 1.8 3.5, CUDA 2.0 2.0;
        acos -1.0 .. 1.0, ulp 1.8 3.5, CUDA 2.0 2.0;
        atan -10.0 .. 10.0, ulp 2.2 3.5, CUDA 2.0 2.0;
        sinh -10.0 .. 10.0, ulp 3.1 3.5, CUDA 3.0 2.0;
        cosh -10.0 .. 10.0, ulp 2.5 2.5, CUDA 2.0 1.0;
        tanh -4.0 .. 4.0, ulp 2.1 2.5, CUDA 2.0 1.0;
        asinh -100.0 .. 100.0, ulp 1.9 4.5, CUDA 3.0 3.0;
        acosh 1.0 .. 100.0, ulp 2.4 4.5, CUDA 4.0 3.0;
        atanh -0.99 .. 0.99, ulp 2.2 3.5, CUDA 3.0 2.0;
        erf -3.0 .. 3.0, ulp 1.3 3.5, CUDA 2.0 2.0;
        erfc -3.0 .. 6.0, ulp 4.0 6.5, CUDA 4.0 5.0;
        sigmoid -10.0 .. 10.0, ulp 4.0 8.0;
        silu -10.0 .. 10.0, ulp 7.1 8.0;
        gelu -10.0 .. 10.0, ulp 5.3 20.0;
        gelu_tanh -10.0 .. 10.0, ulp 215.0 3000.0;
        softplus -10.0 .. 10.0, ulp 2.8 8.0;
        floor -10.0 .. 10.0, ulp 0.0 0.0, CUDA 0.0 0.0;
        ceil -10.0 .. 10.0, ulp 0.0 0.0, CUDA 0.0 0.0;
        trunc -10.0 .. 10.0, ulp 0.0 0.0, CUDA 0.0 0.0;
        round -10.0 .. 10.0, ulp 0.0 0.0, CUDA 0.0 0.0;
        round_ties_even -10.0 .. 10.0, ulp 0.0 0.0, CUDA 0.0 0.0;
        fract -10.0 .. 10.0, ulp 0.0 0.0;
        signum -10.0 .. 10.0, ulp 0.0 0.0;
        to_degrees -10.0 .. 10.0, ulp 0.7 2.0;
        to_radians -10.0 .. 10.0, ulp 0.7 2.0;
    }
    single {
        tgamma -5.0 .. 30.0, ulp 0.6, CUDA 5.0;
        lgamma -5.0 .. 100.0, ulp 0.6;
    }
}
