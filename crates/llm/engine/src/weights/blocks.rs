//! Blocks of quantized numbers, as GGUF stores them.
//!
//! ```text
//! Q8_0   d (f16), 32 i8                                   d q
//! Q4_0   d, 16 bytes: elements i and i + 16               d (q - 8)
//! Q4_1   d, m, 16 bytes                                   d q + m
//! Q4_K   d, m, 12 bytes of 8 scales and 8 minima of 6 bits, 128 bytes     d s q - m t, 8 x 32 elements
//! Q6_K   128 bytes of low nibbles, 64 of two high bits, 16 i8 scales, d   d s (q - 32), 16 x 16 elements
//! ```

use half::f16;

use super::tensor::Kind;

fn half(bytes: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([bytes[at], bytes[at + 1]]).to_f32()
}

/// The numbers of a block of `kind`.
pub(super) fn dequantize(kind: Kind, block: &[u8], values: &mut [f32]) {
    match kind {
        Kind::Q8_0 => {
            let d = half(block, 0);
            values.iter_mut().zip(&block[2..]).for_each(|(value, q)| *value = d * f32::from(q.cast_signed()));
        }
        Kind::Q4_0 => nibbles(&block[2..], values, |q| half(block, 0) * (q - 8.0)),
        Kind::Q4_1 => nibbles(&block[4..], values, |q| half(block, 0) * q + half(block, 2)),
        Kind::Q4K => q4_k(block, values),
        Kind::Q6K => q6_k(block, values),
        Kind::F32 | Kind::F16 | Kind::Bf16 => {}
    }
}

/// Low nibbles are the first half of the elements, high nibbles the second.
fn nibbles(bytes: &[u8], values: &mut [f32], number: impl Fn(f32) -> f32) {
    let (low, high) = values.split_at_mut(bytes.len());
    for ((low, high), byte) in low.iter_mut().zip(high).zip(bytes) {
        *low = number(f32::from(byte & 15));
        *high = number(f32::from(byte >> 4));
    }
}

fn q4_k(block: &[u8], values: &mut [f32]) {
    let (d, m) = (half(block, 0), half(block, 2));
    let (scales, quants) = (&block[4..16], &block[16..]);
    // Six bits of the scale and of the minimum of run j.
    let factors = |j: usize| match j {
        0..4 => (scales[j] & 63, scales[j + 4] & 63),
        _ => ((scales[j + 4] & 15) | (scales[j - 4] >> 6 << 4), (scales[j + 4] >> 4) | (scales[j] >> 6 << 4)),
    };
    for (pair, bytes) in quants.chunks(32).enumerate() {
        for half in 0..2 {
            let (scale, minimum) = factors(2 * pair + half);
            let (scale, minimum) = (d * f32::from(scale), m * f32::from(minimum));
            for (value, byte) in values[(2 * pair + half) * 32..].iter_mut().zip(bytes) {
                *value = scale * f32::from(byte >> (4 * half) & 15) - minimum;
            }
        }
    }
}

fn q6_k(block: &[u8], values: &mut [f32]) {
    let (low, high, scales, d) = (&block[..128], &block[128..192], &block[192..208], half(block, 208));
    for (at, value) in values.iter_mut().enumerate() {
        // Two halves of 128 elements, each of four runs of 32.
        let (part, run, lane) = (at / 128, at % 128 / 32, at % 32);
        let nibble = low[64 * part + 32 * (run % 2) + lane] >> (4 * (run / 2)) & 15;
        let bits = high[32 * part + lane] >> (2 * run) & 3;
        let q = i32::from(nibble | bits << 4) - 32;
        *value = d * f32::from(scales[at / 16].cast_signed()) * q as f32;
    }
}
