//! Blocks of quantized numbers, as GGUF stores them. f16 factors d and m, elements q:
//!
//! ```text
//! Q8_0     d, 32 i8                                              d q
//! Q4_0     d, 16 bytes: elements i and i + 16                    d (q - 8)
//! Q4_1     d, m, 16 bytes                                        d q + m
//! Q5_0     d, 32 fifth bits, 16 bytes                            d (q - 16)
//! Q5_1     d, m, 32 fifth bits, 16 bytes                         d q + m
//! IQ4_NL   d, 16 bytes                                           d LEVELS[q]
//! MXFP4    an exponent e, 16 bytes                               2^(e - 128) DOUBLES[q]
//! Q2_K     16 bytes of scales and minima of 4 bits, 64 bytes, d, m       d s q - m t, 16 x 16 elements
//! Q3_K     32 bytes of third bits, 64, 12 of scales of 6 bits, d         d (s - 32) (q - 4), 16 x 16
//! Q4_K     d, m, 12 bytes of 8 scales and 8 minima of 6 bits, 128 bytes  d s q - m t, 8 x 32
//! Q5_K     the same with 32 bytes of fifth bits before the 128
//! Q6_K     128 bytes of low nibbles, 64 of two high bits, 16 i8 scales, d        d s (q - 32), 16 x 16
//! IQ4_XS   d, 8 high bits of scales of 2, 4 bytes of low nibbles, 128 bytes      d (s - 32) LEVELS[q], 8 x 32
//! ```
//!
//! The layouts are ggml-quants.c's.

use half::f16;

use super::kind::Kind;

/// The numbers of IQ4's nibbles.
const LEVELS: [i8; 16] = [-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113];
/// Twice the numbers of e2m1.
const DOUBLES: [i8; 16] = [0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12];

fn half(block: &[u8], at: usize) -> f32 {
    f16::from_le_bytes([block[at], block[at + 1]]).to_f32()
}

/// The numbers of a block of `kind`.
pub(super) fn dequantize(kind: Kind, block: &[u8], values: &mut [f32]) {
    match kind {
        Kind::F32 | Kind::F16 | Kind::Bf16 => {}
        Kind::Q8_0 => {
            let d = half(block, 0);
            values.iter_mut().zip(&block[2..]).for_each(|(value, q)| *value = d * f32::from(q.cast_signed()));
        }
        Kind::Q4_0 => nibbles(&block[2..], values, |_, q| half(block, 0) * (f32::from(q) - 8.0)),
        Kind::Q4_1 => nibbles(&block[4..], values, |_, q| half(block, 0) * f32::from(q) + half(block, 2)),
        Kind::Q5_0 => nibbles(&block[6..], values, |at, q| {
            half(block, 0) * (f32::from(q | fifth(&block[2..6], at)) - 16.0)
        }),
        Kind::Q5_1 => nibbles(&block[8..], values, |at, q| {
            half(block, 0) * f32::from(q | fifth(&block[4..8], at)) + half(block, 2)
        }),
        Kind::Iq4Nl => nibbles(&block[2..], values, |_, q| half(block, 0) * level(q)),
        Kind::Mxfp4 => {
            let scale = half_of_power(block[0]);
            nibbles(&block[1..], values, |_, q| scale * f32::from(DOUBLES[usize::from(q)]));
        }
        Kind::Q2K => q2_k(block, values),
        Kind::Q3K => q3_k(block, values),
        Kind::Q4K => q45_k(block, None, &block[16..], values),
        Kind::Q5K => q45_k(block, Some(&block[16..48]), &block[48..], values),
        Kind::Q6K => q6_k(block, values),
        Kind::Iq4Xs => iq4_xs(block, values),
    }
}

/// Low nibbles are the first half of the elements, high nibbles the second. `number` gets the element's index, too.
fn nibbles(bytes: &[u8], values: &mut [f32], number: impl Fn(usize, u8) -> f32) {
    let (low, high) = values.split_at_mut(bytes.len());
    for (at, ((low, high), byte)) in low.iter_mut().zip(high).zip(bytes).enumerate() {
        *low = number(at, byte & 15);
        *high = number(at + bytes.len(), byte >> 4);
    }
}

/// The fifth bit of an element, in its place.
fn fifth(bits: &[u8], at: usize) -> u8 {
    (bits[at / 8] >> (at % 8) & 1) << 4
}

fn level(q: u8) -> f32 {
    f32::from(LEVELS[usize::from(q)])
}

/// 2^(e - 128): half of what the e8m0 says.
fn half_of_power(e: u8) -> f32 {
    match e {
        0 | 1 => f32::from_bits(0x20_0000 << e),
        e => f32::from_bits((u32::from(e) - 1) << 23),
    }
}

fn q2_k(block: &[u8], values: &mut [f32]) {
    let (scales, quants, d, m) = (&block[..16], &block[16..80], half(block, 80), half(block, 82));
    for (at, value) in values.iter_mut().enumerate() {
        // Two halves of 128 elements, each of four runs of 32.
        let (part, run, lane) = (at / 128, at % 128 / 32, at % 32);
        let (scale, minimum) = (scales[at / 16] & 15, scales[at / 16] >> 4);
        let q = quants[32 * part + lane] >> (2 * run) & 3;
        *value = d * f32::from(scale) * f32::from(q) - m * f32::from(minimum);
    }
}

fn q3_k(block: &[u8], values: &mut [f32]) {
    let (high, low, scales, d) = (&block[..32], &block[32..96], &block[96..108], half(block, 108));
    let scale = |j: usize| {
        let nibble = if j < 8 { scales[j] & 15 } else { scales[j - 8] >> 4 };
        f32::from(nibble | (scales[8 + j % 4] >> (2 * (j / 4)) & 3) << 4) - 32.0
    };
    for (at, value) in values.iter_mut().enumerate() {
        let (part, run, lane) = (at / 128, at % 128 / 32, at % 32);
        let q = low[32 * part + lane] >> (2 * run) & 3 | (high[lane] >> (4 * part + run) & 1) << 2;
        *value = d * scale(at / 16) * (f32::from(q) - 4.0);
    }
}

/// Q4_K, and Q5_K with its fifth bits.
fn q45_k(block: &[u8], fifths: Option<&[u8]>, quants: &[u8], values: &mut [f32]) {
    let (d, m, scales) = (half(block, 0), half(block, 2), &block[4..16]);
    // Six bits of the scale and of the minimum of run j.
    let factors = |j: usize| match j {
        0..4 => (scales[j] & 63, scales[j + 4] & 63),
        _ => ((scales[j + 4] & 15) | (scales[j - 4] >> 6 << 4), (scales[j + 4] >> 4) | (scales[j] >> 6 << 4)),
    };
    for (run, values) in values.chunks_mut(32).enumerate() {
        let (scale, minimum) = factors(run);
        let (scale, minimum) = (d * f32::from(scale), m * f32::from(minimum));
        for (lane, value) in values.iter_mut().enumerate() {
            let nibble = quants[32 * (run / 2) + lane] >> (4 * (run % 2)) & 15;
            let fifth = fifths.map_or(0, |bits| (bits[lane] >> run & 1) << 4);
            *value = scale * f32::from(nibble | fifth) - minimum;
        }
    }
}

fn q6_k(block: &[u8], values: &mut [f32]) {
    let (low, high, scales, d) = (&block[..128], &block[128..192], &block[192..208], half(block, 208));
    for (at, value) in values.iter_mut().enumerate() {
        let (part, run, lane) = (at / 128, at % 128 / 32, at % 32);
        let nibble = low[64 * part + 32 * (run % 2) + lane] >> (4 * (run / 2)) & 15;
        let bits = high[32 * part + lane] >> (2 * run) & 3;
        let q = i32::from(nibble | bits << 4) - 32;
        *value = d * f32::from(scales[at / 16].cast_signed()) * q as f32;
    }
}

fn iq4_xs(block: &[u8], values: &mut [f32]) {
    let (d, high) = (half(block, 0), u16::from_le_bytes([block[2], block[3]]));
    for (run, values) in values.chunks_mut(32).enumerate() {
        let low = u16::from(block[4 + run / 2] >> (4 * (run % 2)) & 15);
        let scale = d * (f32::from(low | (high >> (2 * run) & 3) << 4) - 32.0);
        nibbles(&block[8 + 16 * run..][..16], values, |_, q| scale * level(q));
    }
}
