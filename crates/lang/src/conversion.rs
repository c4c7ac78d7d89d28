//! Conversions between number types. PTX ISA, `cvt`.

use warpwright_ir::{Operand, RegisterClass};

use crate::arithmetic::{renormalize, widen_half};
use crate::element::{
    Convertible, Element, Kind, Number, bf16x2, e4m3x2, e5m2x2, f16x2, s8x4, s16x2, u8x4, u16x2,
};
use crate::operation::{compute, compute_into, fresh, on_behalf_of_author, refuse};
use crate::requirement::{Feature, require};
use crate::value::{Reg, Value, bits_word};
use half::{bf16, f16};

/// Whether a conversion clamps what is out of range.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Saturate {
    /// Integers keep their low bits.
    #[default]
    No,
    /// Integers clamp to the range of the result, and floats to [0, 1].
    Yes,
}

/// How a result that has no exact representation is rounded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rounding {
    /// To the nearest, halves to the even one.
    #[default]
    NearestEven,
    /// To the nearest, halves away from zero; only conversions to tf32 have it.
    NearestAway,
    /// Toward zero.
    Zero,
    /// Toward minus infinity.
    Down,
    /// Toward plus infinity.
    Up,
}

impl Rounding {
    /// The word for a result that is a float.
    pub(crate) fn word(self) -> &'static str {
        match self {
            Rounding::NearestEven => ".rn",
            Rounding::NearestAway => ".rna",
            Rounding::Zero => ".rz",
            Rounding::Down => ".rm",
            Rounding::Up => ".rp",
        }
    }

    /// The word for a float made integral.
    fn integral_word(self) -> &'static str {
        match self {
            Rounding::NearestEven | Rounding::NearestAway => ".rni",
            Rounding::Zero => ".rzi",
            Rounding::Down => ".rmi",
            Rounding::Up => ".rpi",
        }
    }
}

impl<T: Convertible> Reg<T> {
    /// The value as a `U`, as with Rust's `as`: to a float it rounds to nearest even; from a float
    /// to an integer it rounds toward zero and clamps to the range, with NaN giving 0; integers
    /// keep their low bits or are extended.
    #[track_caller]
    pub fn convert<U: Convertible>(self) -> Reg<U> {
        let to_integer = matches!(U::KIND, Kind::Signed | Kind::Unsigned);
        self.convert_with(if to_integer { Rounding::Zero } else { Rounding::NearestEven }, Saturate::No)
    }

    /// The value as a `U`, rounded by `rounding`, and clamped if it saturates.
    #[track_caller]
    pub fn convert_with<U: Convertible>(self, rounding: Rounding, saturate: Saturate) -> Reg<U> {
        let conversion = Conversion { rounding, saturate };
        match (T::NAME, U::NAME) {
            (from, to) if from == to && saturate == Saturate::No => Reg::from_register(self.register()),
            ("bool", _) => retype::<bool>(self).to_u32().convert_with(rounding, saturate),
            (_, "bool") => {
                refuse("a number does not convert to a predicate; compare it: `x.ne(0)`");
                fresh()
            }
            ("tf32", _) => retype::<f32>(self).convert_with(rounding, saturate),
            ("f32", "tf32") => to_tf32(retype(self), rounding),
            (_, "tf32") => self.convert::<f32>().convert_with(rounding, saturate),
            ("e4m3" | "e5m2", _) => from_fp8(self).convert_with(rounding, saturate),
            ("bf16", "f32") => retype(widen_half("bf16", Reg::operand(self))),
            ("bf16", _) => self.convert::<f32>().convert_with(rounding, saturate),
            ("f32", name) if matches!(name, "e4m3" | "e5m2") => {
                require(Feature::Fp8Conversion);
                let zero = Value::<f32>::reg(0.0).operand();
                let pair: Reg<u16> =
                    compute(format!("cvt.rn.satfinite.{}.f32", fp8_pair(name)), [zero, Reg::operand(self)]);
                Reg::from_register(pair.register())
            }
            (_, "e4m3" | "e5m2") => self.convert::<f32>().convert_with(rounding, saturate),
            ("f32", "bf16") => conversion.record(Reg::operand(self), "f32", "bf16", (false, true)),
            (_, "bf16") if T::KIND == Kind::Float && T::BYTES == 2 => {
                self.convert::<f32>().convert_with(rounding, saturate)
            }
            (_, "bf16") => to_odd_f32(self).convert_with(rounding, saturate),
            _ => conversion.between(self),
        }
    }
}

impl<T: Element> Reg<T> {
    /// The bits, read as another type of the same width.
    #[track_caller]
    pub fn bit_cast<U: Element>(self) -> Reg<U> {
        bit_cast(self)
    }
}

/// The same bits as another type.
#[track_caller]
pub fn bit_cast<T: Element, U: Element>(value: Reg<T>) -> Reg<U> {
    if T::CLASS != U::CLASS || T::BYTES != U::BYTES {
        refuse(format!(
            "a {} has {} bytes and a {} has {}: their bits cannot be exchanged",
            T::NAME,
            T::BYTES,
            U::NAME,
            U::BYTES
        ));
        return fresh();
    }
    let word = bits_word(T::CLASS);
    let result = compute(format!("mov.{word}"), [value.operand()]);
    renormalize(result);
    result
}

/// The same register read as another type of its class.
fn retype<U: Element>(value: Reg<impl Element>) -> Reg<U> {
    Reg::from_register(value.register())
}

fn fp8_pair(name: &str) -> &'static str {
    if name == "e4m3" { "e4m3x2" } else { "e5m2x2" }
}

/// An 8-bit float, exactly, as f16.
#[track_caller]
fn from_fp8<T: Element>(value: Reg<T>) -> Reg<f16> {
    require(Feature::Fp8Conversion);
    let pair: Reg<f16x2> = compute(format!("cvt.rn.f16x2.{}", fp8_pair(T::NAME)), [Reg::operand(value)]);
    let (low, high) = (fresh::<f16>(), fresh::<f16>());
    crate::operation::record(
        "mov.b32",
        1,
        vec![Operand::Vector(vec![low.operand(), high.operand()]), pair.operand()],
    );
    low
}

#[track_caller]
fn to_tf32<U: Element>(value: Reg<f32>, rounding: Rounding) -> Reg<U> {
    let word = match rounding {
        // sm_80 rounds ties away; for round-to-nearest-even it takes sm_90.
        Rounding::NearestAway => ".rna",
        Rounding::NearestEven
            if crate::requirement::target().is_none_or(|t| t.compute_capability < (9, 0)) =>
        {
            ".rna"
        }
        Rounding::NearestEven => ".rn",
        Rounding::Zero => {
            require(Feature::Tf32Rounding);
            ".rz"
        }
        _ => {
            refuse("conversion to tf32 rounds to nearest or toward zero");
            ".rna"
        }
    };
    compute(format!("cvt{word}.tf32.f32"), [value.operand()])
}

/// A wide number as f32 *rounded to odd*: truncated, with the last bit set if anything was lost.
/// Rounding that again to bf16 is exact, in every mode. (`cvt.rn.bf16.s32` would need sm_90.)
#[track_caller]
fn to_odd_f32<T: Element>(value: Reg<T>) -> Reg<f32> {
    let word = crate::arithmetic::arithmetic_word::<T>();
    let truncated: Reg<f32> = compute(format!("cvt.rz.f32.{word}"), [Reg::operand(value)]);
    if T::BYTES <= 2 {
        return truncated;
    }
    let (back, different) = if T::KIND == Kind::Float {
        ("cvt.f64.f32".to_owned(), "setp.ne")
    } else {
        (format!("cvt.rzi.{word}.f32"), "setp.ne")
    };
    let back: Reg<T> = compute(back, [truncated.operand()]);
    let inexact: Reg<bool> =
        compute(format!("{different}.{word}"), [Reg::operand(back), Reg::operand(value)]);
    let sticky = inexact.to_u32();
    compute("or.b32", [truncated.operand(), sticky.operand()])
}

struct Conversion {
    rounding: Rounding,
    saturate: Saturate,
}

impl Conversion {
    #[track_caller]
    fn between<T: Element, U: Element>(&self, value: Reg<T>) -> Reg<U> {
        let floats = (T::KIND == Kind::Float, U::KIND == Kind::Float);
        let rounds = match floats {
            (true, true) => U::BYTES < T::BYTES,
            (false, false) => false,
            _ => true,
        };
        let result = self.record(Reg::operand(value), T::PTX, U::PTX, (floats.1 && !floats.0, rounds));
        if !floats.1 && U::BYTES == 1 && U::CLASS == RegisterClass::B16 {
            renormalize(result);
        }
        result
    }

    /// Records the `cvt`. `rounds` is for conversions from float to integer, and for those that
    /// round at all.
    #[track_caller]
    fn record<U: Element>(&self, value: Operand, from: &str, to: &str, rounds: (bool, bool)) -> Reg<U> {
        let to_integer = matches!(U::KIND, Kind::Signed | Kind::Unsigned);
        let rounding = match (rounds.1, to_integer) {
            (false, _) => "",
            (true, true) => self.rounding.integral_word(),
            (true, false) => self.rounding.word(),
        };
        let saturate = if self.saturate == Saturate::Yes { ".sat" } else { "" };
        compute(format!("cvt{rounding}{saturate}.{to}.{from}"), [value])
    }
}

macro_rules! packs {
    ($($name:ident -> $packed:ty, $feature:expr, $opcode:literal;)*) => {
        impl Reg<f32> {
            $(
                #[doc = concat!("This value and `high` rounded to a [`", stringify!($packed), "`], this one in the lower half.")]
                #[track_caller]
                pub fn $name(self, high: impl Value<f32>) -> Reg<$packed> {
                    let feature: Option<Feature> = $feature;
                    if let Some(feature) = feature {
                        require(feature);
                    }
                    compute($opcode, [high.operand(), Reg::operand(self)])
                }
            )*
        }
    };
}

packs! {
    pack_f16x2 -> f16x2, None, "cvt.rn.f16x2.f32";
    pack_bf16x2 -> bf16x2, None, "cvt.rn.bf16x2.f32";
    pack_e4m3x2 -> e4m3x2, Some(Feature::Fp8Conversion), "cvt.rn.satfinite.e4m3x2.f32";
    pack_e5m2x2 -> e5m2x2, Some(Feature::Fp8Conversion), "cvt.rn.satfinite.e5m2x2.f32";
}

macro_rules! unpacks {
    ($($packed:ty => $lane:ty;)*) => {
        $(
            impl Reg<$packed> {
                /// The two lanes, the lower first.
                #[track_caller]
                pub fn unpack(self) -> [Reg<$lane>; 2] {
                    let lanes = [fresh(), fresh()];
                    let vector = Operand::Vector(lanes.map(Reg::<$lane>::operand).to_vec());
                    crate::operation::record("mov.b32", 1, vec![vector, Reg::operand(self)]);
                    lanes
                }

                /// The pair of `low` and `high`.
                #[track_caller]
                pub fn pack(low: impl Value<$lane>, high: impl Value<$lane>) -> Self {
                    let lanes = vec![low.reg().operand(), high.reg().operand()];
                    compute("mov.b32", [Operand::Vector(lanes)])
                }
            }
        )*
    };
}

unpacks! {
    f16x2 => f16;
    bf16x2 => bf16;
    u16x2 => u16;
    s16x2 => i16;
}

macro_rules! saturating_packs {
    ($($pair:ident $pair_ty:ty, $pair_word:literal, $four:ident $four_ty:ty, $four_word:literal;)*) => {
        impl Reg<i32> {
            $(
                #[doc = concat!("This value and `high`, clamped, as a [`", stringify!($pair_ty), "`], this one in the lower half: `cvt.pack`.")]
                #[track_caller]
                pub fn $pair(self, high: impl Value<i32>) -> Reg<$pair_ty> {
                    compute(concat!("cvt.pack.sat.", $pair_word, ".s32"), [high.reg().operand(), Reg::operand(self)])
                }
            )*
        }

        $(
            impl Reg<$four_ty> {
                /// The four values, clamped, the first in the lowest byte: `cvt.pack`.
                #[track_caller]
                pub fn $four(values: [Reg<i32>; 4]) -> Self {
                    let join = |high: Reg<i32>, low: Reg<i32>, above: Operand| -> Reg<$four_ty> {
                        let opcode = concat!("cvt.pack.sat.", $four_word, ".s32.b32");
                        compute(opcode, [Reg::operand(high), Reg::operand(low), above])
                    };
                    on_behalf_of_author(|| {
                        let upper = join(values[3], values[2], Value::<u32>::reg(0).operand());
                        join(values[1], values[0], Reg::operand(upper))
                    })
                }
            }
        )*
    };
}

saturating_packs! {
    pack_u16x2 u16x2, "u16", pack_saturating u8x4, "u8";
    pack_s16x2 s16x2, "s16", pack_saturating s8x4, "s8";
}

impl<T: Number> Reg<T> {
    /// A new register with this value.
    #[track_caller]
    pub fn duplicate(self) -> Self {
        let copy = fresh();
        compute_into(copy, format!("mov.{}", crate::value::move_word::<T>()), [Reg::operand(self)]);
        copy
    }
}

impl<T: Convertible, U: Convertible> crate::staging::DeviceCast<U> for Reg<T> {
    type Output = Reg<U>;

    #[track_caller]
    fn device_cast(self) -> Reg<U> {
        self.convert()
    }
}
