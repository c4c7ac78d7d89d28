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
    ($(#[$doc:meta])* $table:ident: $ty:ty; $($name:ident $ulp:literal, $low:literal .. $high:literal $(, $cuda:literal)?;)*) => {
        $(#[$doc])*
        pub const $table: &[Function<$ty>] = &[$(Function {
            name: stringify!($name),
            record: |x| x.$name(),
            ulp: $ulp,
            range: ($low, $high),
            cuda: functions!(bound $($cuda)?),
        }),*];
    };
    (bound) => { None };
    (bound $cuda:literal) => { Some($cuda) };
}

functions! {
    /// Every function of one f32.
    FUNCTIONS: f32;
    exp 2.1, -80.0 .. 80.0, 2.0;
    exp2 2.4, -100.0 .. 100.0, 2.0;
    exp10 2.1, -30.0 .. 30.0, 2.0;
    exp_m1 1.5, -4.0 .. 4.0, 1.0;
    ln 1.0, 0.001 .. 1000.0, 1.0;
    log2 1.5, 0.001 .. 1000.0, 1.0;
    log10 3.5, 0.001 .. 1000.0, 2.0;
    ln_1p 1.6, -0.9 .. 10.0, 1.0;
    sqrt 0.5, 0.001 .. 1000.0, 0.0;
    rsqrt 1.6, 0.001 .. 1000.0, 2.0;
    cbrt 1.0, -100.0 .. 100.0, 1.0;
    recip 0.5, 0.001 .. 1000.0, 0.0;
    sin 1.6, -100.0 .. 100.0, 2.0;
    cos 1.6, -100.0 .. 100.0, 2.0;
    tan 3.2, -100.0 .. 100.0, 4.0;
    asin 2.6, -1.0 .. 1.0, 2.0;
    acos 1.6, -1.0 .. 1.0, 2.0;
    atan 2.2, -10.0 .. 10.0, 2.0;
    sinh 3.1, -10.0 .. 10.0, 3.0;
    cosh 2.5, -10.0 .. 10.0, 2.0;
    tanh 2.1, -4.0 .. 4.0, 2.0;
    asinh 1.9, -100.0 .. 100.0, 3.0;
    acosh 2.4, 1.0 .. 100.0, 4.0;
    atanh 3.2, -0.99 .. 0.99, 3.0;
    erf 1.3, -3.0 .. 3.0, 2.0;
    erfc 6.1, -3.0 .. 6.0, 4.0;
    sigmoid 4.0, -10.0 .. 10.0;
    silu 7.1, -10.0 .. 10.0;
    gelu 7.2, -10.0 .. 10.0;
    gelu_tanh 215.0, -10.0 .. 10.0;
    softplus 2.8, -10.0 .. 10.0;
    floor 0.0, -10.0 .. 10.0, 0.0;
    ceil 0.0, -10.0 .. 10.0, 0.0;
    trunc 0.0, -10.0 .. 10.0, 0.0;
    round 0.0, -10.0 .. 10.0, 0.0;
    round_ties_even 0.0, -10.0 .. 10.0, 0.0;
    fract 0.0, -10.0 .. 10.0;
    signum 0.0, -10.0 .. 10.0;
    to_degrees 0.7, -10.0 .. 10.0;
    to_radians 0.7, -10.0 .. 10.0;
}

functions! {
    /// Every function of one f64.
    DOUBLE_FUNCTIONS: f64;
    exp 2.5, -80.0 .. 80.0, 1.0;
    exp2 2.5, -100.0 .. 100.0, 1.0;
    exp10 2.5, -30.0 .. 30.0, 1.0;
    exp_m1 2.5, -4.0 .. 4.0, 1.0;
    ln 2.5, 0.001 .. 1000.0, 1.0;
    log2 2.5, 0.001 .. 1000.0, 1.0;
    log10 2.5, 0.001 .. 1000.0, 1.0;
    ln_1p 2.5, -0.9 .. 10.0, 1.0;
    sqrt 0.5, 0.001 .. 1000.0, 0.0;
    rsqrt 2.5, 0.001 .. 1000.0, 1.0;
    cbrt 2.5, -100.0 .. 100.0, 1.0;
    recip 0.5, 0.001 .. 1000.0, 0.0;
    sin 3.5, -100.0 .. 100.0, 2.0;
    cos 3.5, -100.0 .. 100.0, 2.0;
    tan 3.5, -100.0 .. 100.0, 2.0;
    asin 3.5, -1.0 .. 1.0, 2.0;
    acos 3.5, -1.0 .. 1.0, 2.0;
    atan 3.5, -10.0 .. 10.0, 2.0;
    sinh 3.5, -10.0 .. 10.0, 2.0;
    cosh 2.5, -10.0 .. 10.0, 1.0;
    tanh 3.5, -4.0 .. 4.0, 1.0;
    asinh 4.5, -100.0 .. 100.0, 3.0;
    acosh 4.5, 1.0 .. 100.0, 3.0;
    atanh 3.5, -0.99 .. 0.99, 2.0;
    erf 3.5, -3.0 .. 3.0, 2.0;
    erfc 6.5, -3.0 .. 6.0, 5.0;
    sigmoid 8.0, -10.0 .. 10.0;
    silu 8.0, -10.0 .. 10.0;
    gelu 8.0, -10.0 .. 10.0;
    gelu_tanh 1000.0, -10.0 .. 10.0;
    softplus 8.0, -10.0 .. 10.0;
    floor 0.0, -10.0 .. 10.0, 0.0;
    ceil 0.0, -10.0 .. 10.0, 0.0;
    trunc 0.0, -10.0 .. 10.0, 0.0;
    round 0.0, -10.0 .. 10.0, 0.0;
    round_ties_even 0.0, -10.0 .. 10.0, 0.0;
    fract 0.0, -10.0 .. 10.0;
    signum 0.0, -10.0 .. 10.0;
    to_degrees 2.0, -10.0 .. 10.0;
    to_radians 2.0, -10.0 .. 10.0;
}
