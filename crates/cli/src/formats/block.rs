//! A block of numbers with one scale: MX formats and NVFP4.

use anyhow::{Result, bail};
use serde_json::{Value, json};
use warpwright_emulator::numeric::format::Format;

use super::single::{encoded, short};

/// A format of blocks.
pub(super) struct Block {
    pub(super) name: &'static str,
    /// Numbers that share a scale.
    most: usize,
    element: Format,
    element_name: &'static str,
    scale: Scale,
}

/// The type of a scale.
enum Scale {
    /// A power of two, in 8 bits: OCP Microscaling Formats 1.0. Its exponent is the largest number's, less the exponent of the
    /// format's largest value.
    PowerOfTwo,
    /// An e4m3: the largest number over the format's largest value.
    E4m3,
}

/// Every format of blocks.
pub(super) const BLOCKS: &[Block] = &[
    Block { name: "mxfp8", most: 32, element: Format::E4M3, element_name: "e4m3", scale: Scale::PowerOfTwo },
    Block { name: "mxfp6", most: 32, element: Format::E3M2, element_name: "e3m2", scale: Scale::PowerOfTwo },
    Block { name: "mxfp4", most: 32, element: Format::E2M1, element_name: "e2m1", scale: Scale::PowerOfTwo },
    Block { name: "nvfp4", most: 16, element: Format::E2M1, element_name: "e2m1", scale: Scale::E4m3 },
];

/// A block, quantized.
pub(super) struct Quantized {
    block: &'static Block,
    largest: f64,
    scale: f64,
    /// Each number, it over the scale, its element, and the element times the scale.
    elements: Vec<[f64; 4]>,
}

impl Block {
    pub(super) fn quantized(&'static self, numbers: &[f64]) -> Result<Quantized> {
        if numbers.len() > self.most || numbers.iter().any(|number| !number.is_finite()) {
            bail!("a block of {} has at most {} finite numbers", self.name, self.most);
        }
        let largest = numbers.iter().fold(0.0f64, |largest, number| largest.max(number.abs()));
        let most = self.element.decode(self.element.largest());
        let scale = match self.scale {
            _ if largest == 0.0 => 1.0,
            Scale::PowerOfTwo => (largest.log2().floor() - most.log2().floor()).clamp(-127.0, 127.0).exp2(),
            Scale::E4m3 => Format::E4M3.decode(encoded(Format::E4M3, largest / most).max(1)),
        };
        let elements = numbers.iter().map(|number| {
            let scaled = number / scale;
            let element = self.element.decode(encoded(self.element, scaled));
            [*number, scaled, element, element * scale]
        });
        Ok(Quantized { block: self, largest, scale, elements: elements.collect() })
    }
}

impl Quantized {
    pub(super) fn as_json(&self) -> Value {
        json!({
            "format": self.block.name,
            "scale": self.scale,
            "elements": self.elements.iter().map(|element| element[2]).collect::<Vec<_>>(),
            "values": self.elements.iter().map(|element| element[3]).collect::<Vec<_>>(),
        })
    }

    pub(super) fn text(&self) -> String {
        let Block { name, element_name, element, scale, .. } = self.block;
        let most = element.decode(element.largest());
        let rule = match scale {
            Scale::PowerOfTwo => format!(
                "2^({} - {}) = {}, a power of two in 8 bits",
                if self.largest > 0.0 { self.largest.log2().floor() } else { most.log2().floor() },
                most.log2().floor(),
                short(self.scale)
            ),
            Scale::E4m3 => {
                format!("{} / {} as e4m3: {}", short(self.largest), short(most), short(self.scale))
            }
        };
        let mut lines = vec![
            format!(
                "{name}: elements of {element_name}, at most {}, and a scale for {} of them",
                short(most),
                self.block.most
            ),
            format!("largest magnitude {}; scale {rule}", short(self.largest)),
            format!(
                "{:>12} {:>12} {:>10} {:>12} {:>10}",
                "number", "/ scale", *element_name, "x scale", "error"
            ),
        ];
        for [number, scaled, element, value] in &self.elements {
            let error = if *number == 0.0 { 0.0 } else { 100.0 * (value - number).abs() / number.abs() };
            lines.push(format!(
                "{:>12} {:>12} {:>10} {:>12} {error:>8.1} %",
                short(*number),
                short(*scaled),
                short(*element),
                short(*value)
            ));
        }
        let bits = f64::from(element.width()) + 8.0 / self.block.most as f64;
        lines.push(format!("{bits} bits per number in a full block"));
        lines.join("\n")
    }
}
