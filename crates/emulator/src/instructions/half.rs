//! f16 and bf16 arithmetic, alone and in pairs (PTX ISA, "Half Precision Floating Point
//! Instructions").

use warpwright_ptx::syntax::Type;

use super::float;
use crate::decode::{Decoded, Decoder, Row};
use crate::lanes::{one, three, two};
use crate::numeric::format::Format;
use crate::numeric::{approximate, compare, half};

pub(super) fn decode(d: Decoder<'_, '_, '_>, i: &Row<'_>) -> Decoded {
    let ty = i.ty()?;
    let format = if matches!(ty, Type::F16 | Type::F16x2) { Format::F16 } else { Format::BF16 };
    let mode = float::mode(i);
    let ftz = mode.flush;
    match i.base() {
        "add" => map2(d, i, ty, move |a, b| half::add(format, a, b, mode)),
        "sub" => map2(d, i, ty, move |a, b| half::sub(format, a, b, mode)),
        "mul" => map2(d, i, ty, move |a, b| half::mul(format, a, b, mode)),
        "fma" if i.has("oob") => {
            map3(d, i, ty, move |a, b, c| half::fma_out_of_bounds(format, a, b, c, mode))
        }
        "fma" => map3(d, i, ty, move |a, b, c| half::fma(format, a, b, c, mode)),
        "min" | "max" => {
            let mode = float::extremum_mode(i);
            let best = move |a: u16, b: u16| compare::extremum(format, a.into(), b.into(), mode) as u16;
            match i.operands.len() {
                _ if ty == Type::F16 && float::is_move(i, mode) => map2(d, i, ty, |a, _| a),
                4 => map3(d, i, ty, move |a, b, c| best(best(a, b), c)),
                _ => map2(d, i, ty, best),
            }
        }
        "abs" => map1(d, i, ty, move |a| half::abs(format, a, ftz)),
        "neg" => map1(d, i, ty, move |a| half::neg(format, a, ftz)),
        "ex2" => map1(d, i, ty, move |a| approximate::ex2_half(format, a, ftz)),
        "tanh" => map1(d, i, ty, move |a| approximate::tanh_half(format, a)),
        _ => Err(i.unsupported()),
    }
}

macro_rules! maps {
    ($($map:ident: $shape:ident, $pair:ident, ($($a:ident),+), ($($half:ty),+);)*) => {$(
        /// A function of each element.
        fn $map(
            d: Decoder<'_, '_, '_>,
            i: &Row<'_>,
            ty: Type,
            function: impl Fn($($half),+) -> u16 + Send + Sync + 'static,
        ) -> Decoded {
            match ty.bytes() {
                4 => d.scalar(i, $shape(move |$($a: u32),+| half::$pair($($a),+, &function))),
                _ => d.scalar(i, $shape(function)),
            }
        }
    )*};
}

maps! {
    map1: one, pair1, (a), (u16);
    map2: two, pair2, (a, b), (u16, u16);
    map3: three, pair3, (a, b, c), (u16, u16, u16);
}
