//! The bytes of a scalar argument.

use serde_json::Value;

use super::json::{Complaint, Node};
use crate::dtype::{Dtype, NumpyKind};

/// The bytes of a scalar: of a number, which floats of every type round to the nearest; of `"nan"`,
/// `"inf"` or `"-inf"`, which JSON lacks; or of its bits, in hexadecimal.
pub(super) fn bytes(node: &Node<'_>, dtype: &Dtype) -> Result<Vec<u8>, Complaint> {
    let name = dtype.name();
    let refuse =
        |wanted: &str| node.complain(format!("expected {wanted} for {name}, not {}", node.describe()));
    if let Value::String(text) = node.value() {
        if let Some(digits) = text.strip_prefix("0x") {
            let width = dtype.data_type.bits();
            let bits = u64::from_str_radix(digits, 16).ok();
            let bits = bits.filter(|bits| !digits.starts_with('+') && (width == 64 || bits >> width == 0));
            return bits
                .map(|bits| dtype.element(bits))
                .ok_or_else(|| refuse("a hexadecimal number that fits"));
        }
        let special = match text.as_str() {
            "nan" | "inf" | "-inf" if dtype.is_float() => text.parse::<f64>().ok(),
            _ => None,
        };
        let Some(special) = special else { return Err(refuse("a number, or its bits as \"0x...\",")) };
        return fitting(dtype, special, dtype.nearest(special))
            .ok_or_else(|| node.complain(format!("{name} has no {text}")));
    }
    if dtype.is_float() {
        let Value::Number(number) = node.value() else { return Err(refuse("a number")) };
        let rounded = match (number.as_u64(), number.as_i64()) {
            (Some(integer), _) => dtype.nearest_to_integer(integer),
            (None, Some(integer)) => dtype.nearest_to_signed(integer),
            (None, None) => dtype.nearest(number.as_f64().unwrap_or(f64::NAN)),
        };
        let value = number.as_f64().unwrap_or(f64::NAN);
        return fitting(dtype, value, rounded).ok_or_else(|| refuse("a number in range"));
    }
    let width = dtype.bytes() as u32 * 8;
    let integer = match node.value() {
        Value::Bool(flag) if name == "bool" => Some(u64::from(*flag)),
        value if name == "bool" => value.as_u64().filter(|bit| *bit < 2),
        value if dtype.numpy == NumpyKind::Signed => {
            let range = i64::MIN >> (64 - width)..=i64::MAX >> (64 - width);
            value.as_i64().filter(|number| range.contains(number)).map(|number| number as u64)
        }
        value => value.as_u64().filter(|number| width == 64 || number >> width == 0),
    };
    integer.map(|bits| dtype.element(bits)).ok_or_else(|| refuse("an integer in range"))
}

/// The bytes that a number was rounded to, if they are it: a finite number that is infinite, or
/// smaller than the largest, in a type is out of its range.
fn fitting(dtype: &Dtype, number: f64, bytes: Vec<u8>) -> Option<Vec<u8>> {
    let value = dtype.number(&bytes);
    let largest = dtype.number(&dtype.nearest(f64::MAX));
    let fits = if number.is_nan() {
        value.is_nan()
    } else if number.is_infinite() || dtype.name() == "ue8m0" {
        // `ue8m0` has powers of two only.
        value == number
    } else {
        value.is_finite() && (value.abs() < largest || number.abs() <= largest || largest.is_infinite())
    };
    fits.then_some(bytes)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    /// The bits of a scalar of that type, or the complaint.
    fn bits(dtype: &str, value: Value) -> Result<u64, String> {
        let dtype = Dtype::named(dtype).expect("in the table");
        let bytes = bytes(&Node::root(&value), dtype).map_err(|complaint| complaint.to_string())?;
        assert_eq!(bytes.len(), dtype.bytes());
        let mut word = [0; 8];
        word[..bytes.len()].copy_from_slice(&bytes);
        Ok(u64::from_le_bytes(word))
    }

    #[test]
    fn numbers_are_numbers_in_every_type() {
        // 1, -1.5, 0.1 and the largest number.
        let rows = [
            ("f16", [0x3c00, 0xbe00, 0x2e66], 65504.0, 0x7bff),
            ("bf16", [0x3f80, 0xbfc0, 0x3dcd], 3.389_531_389_251_535_5e38, 0x7f7f),
            ("tf32", [0x3f80_0000, 0xbfc0_0000, 0x3dcc_c000], 1e38, 0x7e96_8000),
            ("f32", [0x3f80_0000, 0xbfc0_0000, 0x3dcc_cccd], f64::from(f32::MAX), 0x7f7f_ffff),
            ("f64", [0x3ff0 << 48, 0xbff8 << 48, 0x3fb9_9999_9999_999a], f64::MAX, 0x7fef_ffff_ffff_ffff),
            ("e4m3", [0x38, 0xbc, 0x1d], 448.0, 0x7e),
            ("e5m2", [0x3c, 0xbe, 0x2e], 57344.0, 0x7b),
            ("e2m3", [0x08, 0x2c, 0x01], 7.5, 0x1f),
            ("e3m2", [0x0c, 0x2e, 0x02], 28.0, 0x1f),
            ("e2m1", [0x02, 0x0b, 0x00], 6.0, 0x07),
        ];
        for (dtype, [one, minus, tenth], largest, largest_bits) in rows {
            for (value, expected) in [
                (json!(1), one),
                (json!(1.0), one),
                (json!(-1.5), minus),
                (json!(0.1), tenth),
                (json!(0), 0),
                (json!(largest), largest_bits),
                (json!(format!("{one:#x}")), one),
            ] {
                assert_eq!(bits(dtype, value.clone()), Ok(expected), "{dtype} {value}");
            }
        }
        for (dtype, value, expected) in [
            ("ue8m0", json!(1), 0x7f),
            ("ue8m0", json!(0.25), 0x7d),
            ("ue8m0", json!("nan"), 0xff),
            ("f16", json!("-inf"), 0xfc00),
            ("bf16", json!("inf"), 0x7f80),
            ("tf32", json!("inf"), 0x7f80_0000),
            ("f32", json!("-inf"), 0xff80_0000),
            ("f64", json!("inf"), 0x7ff0 << 48),
            ("e5m2", json!("inf"), 0x7c),
            ("e4m3", json!("nan"), 0x7f),
            // The C literal of FLT_MAX, which is a little more.
            ("f32", json!(3.402_823_47e38), 0x7f7f_ffff),
            // Rounded once: by way of f64 it would be a tie.
            ("f32", json!(0x0100_0001_0000_0001u64), 0x5b80_0001),
            ("f32", json!("0x7fc00001"), 0x7fc0_0001),
            ("u8", json!(255), 255),
            ("i8", json!(-128), 128),
            ("u64", json!(u64::MAX), u64::MAX),
            ("i64", json!(i64::MIN), 1 << 63),
            ("bool", json!(true), 1),
            ("bool", json!(0), 0),
        ] {
            assert_eq!(bits(dtype, value.clone()), Ok(expected), "{dtype} {value}");
        }
        for dtype in ["f16", "bf16", "tf32", "f32", "f64", "e5m2"] {
            let nan = bits(dtype, json!("nan")).expect("it has NaN");
            let dtype = Dtype::named(dtype).expect("in the table");
            assert!(dtype.number(&dtype.element(nan)).is_nan(), "{}: {nan:#x}", dtype.name());
        }
    }

    #[test]
    fn what_a_type_does_not_have_is_refused() {
        for (dtype, value, words) in [
            ("f16", json!(65520), "expected a number in range for f16, not 65520"),
            ("bf16", json!(3.4e38), "a number in range"),
            ("f32", json!(1e39), "a number in range"),
            ("e4m3", json!(449), "a number in range"),
            ("e5m2", json!(-1e6), "a number in range"),
            ("e2m1", json!(7), "a number in range"),
            ("e4m3", json!("inf"), "e4m3 has no inf"),
            ("e2m1", json!("nan"), "e2m1 has no nan"),
            ("ue8m0", json!(0), "a number in range"),
            ("ue8m0", json!(-1), "a number in range"),
            ("ue8m0", json!(0.1), "a number in range"),
            ("f32", json!(null), "expected a number for f32, not null"),
            ("f32", json!(true), "expected a number for f32"),
            ("f32", json!("1"), "expected a number, or its bits"),
            ("u32", json!("nan"), "expected a number, or its bits"),
            ("u32", json!("12"), "expected a number, or its bits"),
            ("bf16", json!("0x10000"), "a hexadecimal number that fits"),
            ("e2m1", json!("0x10"), "a hexadecimal number that fits"),
            ("u32", json!("0x100000000"), "a hexadecimal number that fits"),
            ("u32", json!("0x"), "a hexadecimal number that fits"),
            ("u32", json!("0x+1"), "a hexadecimal number that fits"),
            ("u8", json!(256), "an integer in range"),
            ("u8", json!(-1), "an integer in range"),
            ("i8", json!(128), "an integer in range"),
            ("i8", json!(-129), "an integer in range"),
            ("u32", json!(1.5), "an integer in range"),
            ("u64", json!(1e30), "an integer in range"),
            ("bool", json!(2), "an integer in range"),
        ] {
            let complaint = bits(dtype, value.clone()).expect_err("it is not of that type");
            assert!(complaint.contains(words), "{dtype} {value}: {complaint}");
        }
    }
}
