//! A number in a format: its bits, its value, its neighbors.

use serde_json::{Value, json};
use warpwright_arch::DataType;
use warpwright_emulator::numeric::Rounding;
use warpwright_emulator::numeric::format::Format;
use warpwright_emulator::tensor::element;

/// What a number becomes.
pub(super) struct Rounded {
    pub(super) number: f64,
    pub(super) data_type: DataType,
    /// Sign, exponent and fraction, with spaces between.
    bits: String,
    hexadecimal: u32,
    pub(super) value: f64,
    /// The next values of the format on both sides, where there are any.
    below: Option<f64>,
    above: Option<f64>,
}

/// The nearest value of the format, or its largest for a number beyond it.
pub(super) fn encoded(format: Format, number: f64) -> u32 {
    format.encode(number, Rounding::NearestEven, true)
}

/// Every number in every format.
pub(super) fn rounded(number: f64, formats: &[DataType]) -> Vec<Rounded> {
    let each = formats.iter().filter_map(|data_type| Some((*data_type, element::format(*data_type)?)));
    each.map(|(data_type, format)| {
        let bits = encoded(format, number);
        let magnitude = bits & ((1 << (format.width() - 1)) - 1);
        let sign = bits >> (format.width() - 1);
        let signed = |magnitude: u32| format.decode(magnitude | sign << (format.width() - 1));
        let smaller =
            if magnitude == 0 { format.decode(1 | 1 << (format.width() - 1)) } else { signed(magnitude - 1) };
        let larger = (magnitude < format.largest()).then(|| signed(magnitude + 1));
        let (below, above) = if sign == 0 { (Some(smaller), larger) } else { (larger, Some(smaller)) };
        let fraction = bits & ((1 << format.fraction_bits) - 1);
        let exponent = bits >> format.fraction_bits & ((1 << format.exponent_bits) - 1);
        let text = format!(
            "{sign} {exponent:0e$b} {fraction:0f$b}",
            e = format.exponent_bits as usize,
            f = format.fraction_bits as usize
        );
        Rounded { number, data_type, bits: text, hexadecimal: bits, value: format.decode(bits), below, above }
    })
    .collect()
}

impl Rounded {
    /// The error relative to the number; 0 for zero.
    fn error(&self) -> f64 {
        if self.number == 0.0 { 0.0 } else { (self.value - self.number).abs() / self.number.abs() }
    }

    pub(super) fn as_json(&self) -> Value {
        json!({
            "number": self.number,
            "format": self.data_type.ptx(),
            "bits": self.hexadecimal,
            "value": self.value,
            "relative_error": self.error(),
            "below": self.below,
            "above": self.above,
        })
    }
}

/// At most nine digits, without zeros at the end.
pub(super) fn short(value: f64) -> String {
    let magnitude = value.abs();
    if magnitude != 0.0 && !(1e-6..1e9).contains(&magnitude) {
        return format!("{value:.4e}");
    }
    let before = if magnitude == 0.0 { 0 } else { magnitude.log10().floor() as i32 };
    let text = format!("{value:.*}", (8 - before).max(1) as usize);
    text.trim_end_matches('0').trim_end_matches('.').to_owned()
}

/// A line for each format.
pub(super) fn text(rounded: &[Rounded]) -> String {
    let mut lines = vec![format!(
        "{:<6} {:<34} {:>12} {:>9} {:>12} {:>12}",
        "format", "sign exponent fraction", "value", "error", "below", "above"
    )];
    for one in rounded {
        let neighbor = |value: Option<f64>| value.map_or("-".to_owned(), short);
        lines.push(format!(
            "{:<6} {:<34} {:>12} {:>7.2e} {:>12} {:>12}",
            one.data_type.ptx(),
            one.bits,
            short(one.value),
            one.error(),
            neighbor(one.below),
            neighbor(one.above)
        ));
    }
    lines.join("\n")
}
