//! `cvt` between wide floats and those of 4, 6 and 8 bits, held to lists of all their numbers; and
//! the loads of Blackwell: 256 bits at once, and matrices of 4- and 6-bit elements.

use crate::common::{Finished, kernel, run, shape, try_run, words};
use warpwright_emulator::FaultKind;

fn blackwell(pointers: usize, body: &str) -> String {
    // PTX 9.2 has conversions that 9.0 lacks.
    kernel(pointers, body).replace("sm_90a", "sm_100a").replace(".version 9.0", ".version 9.2")
}

/// A format: its name, its bits, those of the fraction, its bias, what replaces an overflow without
/// `.satfinite`, and the bits that replace NaN.
#[derive(Clone, Copy)]
struct Narrow {
    name: &'static str,
    width: u32,
    fraction: u32,
    bias: i32,
    largest: u32,
    overflow: u32,
    nan: u32,
}

const fn narrow(
    name: &'static str,
    width: u32,
    fraction: u32,
    bias: i32,
    [largest, overflow, nan]: [u32; 3],
) -> Narrow {
    Narrow { name, width, fraction, bias, largest, overflow, nan }
}

const F16: Narrow = narrow("f16", 16, 10, 15, [0x7bff, 0x7c00, 0x7fff]);
const BF16: Narrow = narrow("bf16", 16, 7, 127, [0x7f7f, 0x7f80, 0x7fff]);
const E4M3: Narrow = narrow("e4m3", 8, 3, 7, [0x7e, 0x7f, 0x7f]);
const E5M2: Narrow = narrow("e5m2", 8, 2, 15, [0x7b, 0x7c, 0x7f]);
const E2M3: Narrow = narrow("e2m3", 6, 3, 1, [0x1f, 0x1f, 0x1f]);
const E3M2: Narrow = narrow("e3m2", 6, 2, 3, [0x1f, 0x1f, 0x1f]);
const E2M1: Narrow = narrow("e2m1", 4, 1, 1, [7, 7, 7]);

impl Narrow {
    /// The value of the bits of a magnitude, up to the first that is too large.
    fn value(self, bits: u32) -> f64 {
        let (exponent, fraction) = ((bits >> self.fraction) as i32, bits & ((1 << self.fraction) - 1));
        let implicit = if exponent == 0 { 0 } else { 1 << self.fraction };
        f64::from(fraction | implicit) * f64::from(exponent.max(1) - self.bias - self.fraction as i32).exp2()
    }

    /// The bits of an f32 rounded to nearest, or by a random part of a unit.
    fn rounded(self, value: f32, random: Option<f64>, finite: bool, relu: bool) -> u32 {
        if value.is_nan() {
            return self.nan;
        }
        let sign = u32::from(value.is_sign_negative()) << (self.width - 1);
        let magnitude = f64::from(value.abs());
        let up = |below: u32| {
            let (low, high) = (self.value(below), self.value(below + 1));
            let part = (magnitude - low) / (high - low);
            match random {
                Some(random) => part + random >= 1.0,
                None => part > 0.5 || part == 0.5 && below % 2 == 1,
            }
        };
        let (mut low, mut high) = (0, self.largest + 1);
        while high - low > 1 {
            let middle = low.midpoint(high);
            if self.value(middle) <= magnitude { low = middle } else { high = middle }
        }
        let is_beyond = magnitude >= self.value(self.largest + 1) || low == self.largest && up(low);
        let bits = match is_beyond {
            true if finite => self.largest,
            true => self.overflow,
            false => low + u32::from(up(low)),
        };
        if relu && sign != 0 { 0 } else { sign | bits }
    }

    /// The f16 of any bits.
    fn widened(self, bits: u32, relu: bool) -> u32 {
        let magnitude = bits & ((1 << (self.width - 1)) - 1);
        let negative = bits >> (self.width - 1) & 1 != 0;
        if magnitude > self.largest {
            let is_infinity = self.overflow != self.nan && magnitude == self.overflow;
            return match (is_infinity, negative) {
                (false, _) => 0x7fff,
                (true, true) if relu => 0,
                (true, _) => 0x7c00 | u32::from(negative) << 15,
            };
        }
        let value = if negative { -self.value(magnitude) } else { self.value(magnitude) };
        if relu && negative { 0 } else { half::f16::from_f64(value).to_bits().into() }
    }
}

/// Values of f32 that are special to some format, their neighbors, and others.
fn singles() -> Vec<f32> {
    let mut values = vec![0.0, -0.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY, f32::MAX, f32::MIN_POSITIVE];
    for format in [F16, BF16, E4M3, E5M2, E2M3, E3M2, E2M1] {
        for bits in
            (0..=format.largest).step_by((format.largest as usize / 60).max(1)).chain([format.largest])
        {
            let (low, high) = (format.value(bits) as f32, format.value(bits + 1) as f32);
            for value in [low, low + (high - low) / 2.0] {
                let bits = value.to_bits();
                values.extend([bits, bits + 1, bits.saturating_sub(1)].map(f32::from_bits));
            }
        }
    }
    for exponent in 0..255 {
        values.extend([0, 1, 0x40_0000, 0x7f_ffff].map(|fraction| f32::from_bits(exponent << 23 | fraction)));
    }
    let negative: Vec<f32> = values.iter().map(|value| -value).collect();
    values.extend(negative);
    values
}

/// The results of an instruction that has its sources in `%r1` and up, and its result in `%r9`.
fn converted(instruction: &str, sources: &[Vec<u32>]) -> Vec<u32> {
    let (threads, each) = (sources[0].len(), sources.len());
    let loads: String =
        (0..each).map(|source| format!("ld.global.u32 %r{}, [%p0+{}];\n", source + 1, 4 * source)).collect();
    let body = format!(
        ".reg .b8 %b<4>; mov.u32 %r20, %ctaid.x; mad.lo.u32 %t, %r20, 256, %t;
        setp.ge.u32 %q1, %t, {threads}; @%q1 exit;
        mul.wide.u32 %d0, %t, {}; add.u64 %p0, %p0, %d0; {loads}
        cvt.u16.u32 %h1, %r1; cvt.u8.u16 %b1, %h1;
        {instruction}
        mul.wide.u32 %d0, %t, 4; add.u64 %p1, %p1, %d0; st.global.u32 [%p1], %r9;",
        4 * each
    );
    let given = (0..threads).flat_map(|thread| sources.iter().map(move |source| source[thread]));
    let arguments = [words(given), words(vec![0; threads])];
    let grid = threads.div_ceil(256) as u32;
    run(&blackwell(2, &body), shape(grid, 256), &arguments).words(1)
}

const CLAMPED: [(&str, bool); 3] = [("satfinite", false), ("satfinite.relu", true), ("relu.satfinite", true)];

#[test]
fn singles_are_rounded_to_narrow_floats() {
    let b = singles();
    let a: Vec<f32> = b.iter().rev().copied().collect();
    let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    for (words, relu) in CLAMPED {
        for format in [E2M1, E2M3, E3M2, E4M3, E5M2] {
            let Narrow { name, width, .. } = format;
            let (register, widened) = match width {
                4 => ("%b2", "cvt.u32.u8 %r9, %b2;"),
                _ => ("%h2", "cvt.u32.u16 %r9, %h2;"),
            };
            let found = converted(
                &format!("cvt.rn.{words}.{name}x2.f32 {register}, %r1, %r2; {widened}"),
                &[bits(&a), bits(&b)],
            );
            let stride = if width == 4 { 4 } else { 8 };
            for ((&a, &b), found) in a.iter().zip(&b).zip(found) {
                let one = |value| format.rounded(value, None, true, relu);
                assert_eq!(found, one(a) << stride | one(b), "{a:e} {b:e} to {name} {words}");
            }
        }
        // From f16, whose values f32 has all.
        let halves: Vec<u32> = (0..1u32 << 14).map(|bits| bits << 2 | bits >> 12).collect();
        let found = converted(
            &format!(
                "shl.b32 %r2, %r1, 16; or.b32 %r1, %r1, %r2; cvt.rn.{words}.e2m1x2.f16x2 %b2, %r1; cvt.u32.u8 %r9, %b2;"
            ),
            std::slice::from_ref(&halves),
        );
        for (&half, found) in halves.iter().zip(found) {
            let one = E2M1.rounded(half::f16::from_bits(half as u16).to_f32(), None, true, relu);
            assert_eq!(found, one << 4 | one, "{half:#x} {words}");
        }
        // PTX 9.1: of both halves, into the others too.
        for format in [E2M3, E3M2, E4M3, E5M2] {
            let name = format.name;
            let found = converted(
                &format!(
                    "shl.b32 %r2, %r1, 16; or.b32 %r1, %r1, %r2; cvt.rn.{words}.{name}x2.bf16x2 %h2, %r1; cvt.u32.u16 %r9, %h2;"
                ),
                std::slice::from_ref(&halves),
            );
            for (&half, found) in halves.iter().zip(found) {
                let one = format.rounded(half::bf16::from_bits(half as u16).to_f32(), None, true, relu);
                assert_eq!(found, one << 8 | one, "{half:#x} of bf16 to {name} {words}");
            }
        }
    }
}

#[test]
fn narrow_floats_are_widened_exactly() {
    for format in [E2M1, E2M3, E3M2, E4M3, E5M2] {
        for (relu, word) in [(false, ""), (true, ".relu")] {
            let Narrow { name, width, .. } = format;
            let (source, stride) = if width == 4 { ("%b1", 4) } else { ("%h1", 8) };
            let pairs: Vec<u32> =
                (0..1 << width).map(|bits| (bits << stride) | (bits * 7 % (1 << width))).collect();
            let instruction = format!("cvt.rn{word}.f16x2.{name}x2 %r9, {source};");
            for (&pair, found) in pairs.iter().zip(converted(&instruction, std::slice::from_ref(&pairs))) {
                let one = |bits: u32| format.widened(bits & ((1 << width) - 1), relu);
                assert_eq!(found, one(pair >> stride) << 16 | one(pair), "{pair:#x} of {name}{word}");
            }
            let instruction = format!("cvt.rn{word}.bf16x2.{name}x2 %r9, {source};");
            for (&pair, found) in pairs.iter().zip(converted(&instruction, std::slice::from_ref(&pairs))) {
                let one = |bits: u32| {
                    let half = half::f16::from_bits(format.widened(bits & ((1 << width) - 1), relu) as u16);
                    // The NaN of `cvt`.
                    if half.is_nan() { 0x7fff } else { half::bf16::from_f32(half.to_f32()).to_bits().into() }
                };
                assert_eq!(found, one(pair >> stride) << 16 | one(pair), "{pair:#x} of {name}{word} to bf16");
            }
        }
    }
}

/// The ue8m0 of a magnitude: the power of two below it or above it.
fn power(value: f64, up: bool, finite: bool) -> u32 {
    let value = value.abs();
    if value.is_nan() {
        return 0xff;
    }
    let fits = |code: &u32| {
        let power = f64::from(*code as i32 - 127).exp2();
        if up { power >= value } else { power <= value }
    };
    let found = if up { (0..255).find(fits) } else { (0..255).rev().find(fits) };
    match (found, finite) {
        _ if value.is_infinite() => {
            if finite {
                0xfe
            } else {
                0xff
            }
        }
        (Some(code), _) => code,
        (None, _) if !up => 0,
        (None, true) => 0xfe,
        (None, false) => 0xff,
    }
}

#[test]
fn scales_are_powers_of_two() {
    let b = singles();
    let a: Vec<f32> = b.iter().rev().copied().collect();
    let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    for (rounding, up) in [("rz", false), ("rp", true)] {
        for (word, finite) in [("", false), (".satfinite", true)] {
            let found = converted(
                &format!("cvt.{rounding}{word}.ue8m0x2.f32 %h2, %r1, %r2; cvt.u32.u16 %r9, %h2;"),
                &[bits(&a), bits(&b)],
            );
            for ((&a, &b), found) in a.iter().zip(&b).zip(found) {
                let one = |value: f32| power(value.into(), up, finite);
                assert_eq!(found, one(a) << 8 | one(b), "{a:e} {b:e} {rounding}{word}");
            }
            let pairs: Vec<u32> = (0..1 << 13).map(|bits| bits << 19 | bits << 3 | 5).collect();
            let instruction = format!("cvt.{rounding}{word}.ue8m0x2.bf16x2 %h2, %r1; cvt.u32.u16 %r9, %h2;");
            for (&pair, found) in pairs.iter().zip(converted(&instruction, std::slice::from_ref(&pairs))) {
                let one = |bits: u32| power(f32::from_bits(bits << 16).into(), up, finite);
                assert_eq!(found, one(pair >> 16) << 8 | one(pair & 0xffff), "{pair:#x} {rounding}{word}");
            }
        }
    }
    let codes: Vec<u32> = (0..=255).map(|code| code << 8 | (255 - code)).collect();
    for (&pair, found) in
        codes.iter().zip(converted("cvt.rn.bf16x2.ue8m0x2 %r9, %h1;", std::slice::from_ref(&codes)))
    {
        let one = |code: u32| match code {
            255 => 0x7fff,
            0 => 0x40,
            code => code << 7,
        };
        assert_eq!(found, one(pair >> 8) << 16 | one(pair & 0xff), "{pair:#x}");
    }
}

/// PTX ISA, "cvt": the random bits of each operand. For f16 and bf16 they are the bits that the
/// conversion drops. A pair of narrower floats shares 16 bits, which the first of the two reads in
/// reverse.
#[test]
fn random_bits_round() {
    let b = singles();
    let a: Vec<f32> = b.iter().rev().copied().collect();
    let bits = |values: &[f32]| values.iter().map(|value| value.to_bits()).collect::<Vec<_>>();
    let random: Vec<u32> = (0..a.len() as u32).map(|index| index.wrapping_mul(0x9e37_79b9)).collect();
    let modes = [
        ("", false, false),
        (".relu", false, true),
        (".satfinite", true, false),
        (".relu.satfinite", true, true),
    ];
    for (word, finite, relu) in modes {
        for (format, width) in [(F16, 13), (BF16, 16)] {
            let instruction = format!("cvt.rs{word}.{}x2.f32 %r9, %r1, %r2, %r3;", format.name);
            let found = converted(&instruction, &[bits(&a), bits(&b), random.clone()]);
            for (((&a, &b), &random), found) in a.iter().zip(&b).zip(&random).zip(found) {
                let part = |bits: u32| f64::from(bits & ((1 << width) - 1)) / f64::from(1 << width);
                let one = |value, bits| format.rounded(value, Some(part(bits)), finite, relu);
                let expected = one(a, random >> 16) << 16 | one(b, random);
                assert_eq!(found, expected, "{a:e} {b:e} {random:#x} {}{word}", format.name);
            }
        }
    }
    for (word, relu) in CLAMPED {
        for format in [E4M3, E5M2, E2M3, E3M2, E2M1] {
            let (register, stride) = if format.width == 4 { ("%h2", 4) } else { ("%r9", 8) };
            let widened = if format.width == 4 { "cvt.u32.u16 %r9, %h2;" } else { "" };
            let name = format.name;
            let instruction =
                format!("cvt.rs.{word}.{name}x4.f32 {register}, {{%r1, %r2, %r2, %r1}}, %r3; {widened}");
            let found = converted(&instruction, &[bits(&a), bits(&b), random.clone()]);
            for (((&a, &b), &random), found) in a.iter().zip(&b).zip(&random).zip(found) {
                let (upper, lower) = match format.width {
                    4 => {
                        ((random >> 24) << 8 | random >> 8 & 0xff, (random >> 16 & 0xff) << 8 | random & 0xff)
                    }
                    _ => (random >> 16, random & 0xffff),
                };
                let one =
                    |value, bits: u32| format.rounded(value, Some(f64::from(bits) / 65536.0), true, relu);
                let reversed = |bits: u32| bits.reverse_bits() >> 16;
                let elements =
                    [one(a, reversed(upper)), one(b, upper), one(b, reversed(lower)), one(a, lower)];
                let expected = elements.into_iter().fold(0, |word, element| word << stride | element);
                assert_eq!(found, expected, "{a:e} {b:e} {random:#x} {name} {word}");
            }
        }
    }
}

/// Loads and stores of 256 bits, with all their hints.
#[test]
fn accesses_of_256_bits_reach_their_words() {
    let loads = [
        "ld.global.v8.b32",
        "ld.v8.f32",
        "ld.relaxed.gpu.global.L1::evict_last.v8.u32",
        "ld.volatile.global.v8.s32",
        "ld.global.nc.L1::no_allocate.L2::evict_first.L2::256B.v8.b32",
        "ld.acquire.cluster.v8.b32",
    ];
    let stores = [
        "st.global.v8.b32",
        "st.v8.f32",
        "st.release.gpu.global.v8.b32",
        "st.global.L1::evict_last.L2::evict_first.v8.b32",
    ];
    let names = |first: u32, letter: &str, count: u32| {
        (first..first + count).map(|at| format!("%{letter}{at}")).collect::<Vec<_>>().join(", ")
    };
    let check = |finished: &Finished| {
        let expected: Vec<u32> = (0..256).map(|word| word * 3 + 1).collect();
        assert_eq!(finished.words(0), expected);
    };
    let given = || words((0..256).map(|word| word * 3 + 1));
    let place = "mul.wide.u32 %d0, %t, 32; add.u64 %p0, %p0, %d0; add.u64 %p1, %p1, %d0;";
    for (load, store) in loads.into_iter().flat_map(|load| stores.map(|store| (load, store))) {
        let body = format!(
            "{place} {load} {{{}}}, [%p1]; {store} [%p0], {{{}}};",
            names(10, "r", 8),
            names(10, "r", 8)
        );
        check(&run(&blackwell(2, &body), shape(1, 32), &[words([0; 256]), given()]));
    }
    for ty in ["b64", "f64"] {
        let body = format!(
            "{place} ld.global.L2::evict_last.v4.{ty} {{{}}}, [%p1]; st.global.v4.{ty} [%p0], {{{}}};",
            names(10, "d", 4),
            names(10, "d", 4)
        );
        check(&run(&blackwell(2, &body), shape(1, 32), &[words([0; 256]), given()]));
    }
    // Misaligned, and not global memory.
    let wrong = [
        (
            "add.u64 %p0, %p0, 16; ld.global.v8.b32 {%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7}, [%p0];",
            FaultKind::Misaligned,
        ),
        (
            ".shared .align 32 .b8 s[32]; mov.u64 %d0, s; cvta.shared.u64 %d0, %d0;
            ld.v8.b32 {%r0, %r1, %r2, %r3, %r4, %r5, %r6, %r7}, [%d0];",
            FaultKind::IllegalInstruction,
        ),
    ];
    for (body, kind) in wrong {
        let fault = try_run(&blackwell(1, body), shape(1, 1), &[words([0; 16])]).err().unwrap();
        assert_eq!(fault.kind, kind, "{fault}");
    }
}

/// `ldmatrix` of 4- and 6-bit elements: each becomes the low bits of a byte.
#[test]
fn matrices_of_small_elements_are_spread_over_bytes() {
    let element =
        |width: u32, row: usize, column: usize| (row * 29 + column * 13 + row * column) as u32 % (1 << width);
    for (width, format) in [(4, "b8x16.b4x16_p64"), (6, "b8x16.b6x16_p32")] {
        let mut rows = vec![0u8; 32 * 16];
        for (row, column) in (0..32).flat_map(|row| (0..16).map(move |column| (row, column))) {
            let at = column * width as usize;
            for bit in (0..width as usize).filter(|bit| element(width, row, column) >> bit & 1 != 0) {
                rows[16 * row + (at + bit) / 8] |= 1 << ((at + bit) % 8);
            }
        }
        // The padding is not read.
        for row in rows.chunks_mut(16) {
            row[2 * width as usize..].fill(0xa5);
        }
        for (name, matrices) in [
            ("m8n16.x1", 1),
            ("m8n16.x2", 2),
            ("x4.m8n16", 4),
            ("m16n16.x1.trans", 1),
            ("x2.trans.m16n16", 2),
        ] {
            let is_square = name.contains("m16n16");
            let registers = if is_square { 2 * matrices } else { matrices };
            let names: Vec<String> = (0..registers).map(|register| format!("%r{}", 10 + register)).collect();
            let stores: String = (0..registers)
                .map(|register| format!("st.global.u32 [%p0+{}], %r{};\n", 4 * register, 10 + register))
                .collect();
            let body = format!(
                ".shared .align 16 .b8 tile[512];
                mul.wide.u32 %d0, %t, 16; add.u64 %p1, %p1, %d0; ld.global.v4.u32 {{%r0, %r1, %r2, %r3}}, [%p1];
                mov.u32 %r4, tile; mad.lo.u32 %r4, %t, 16, %r4; st.shared.v4.u32 [%r4], {{%r0, %r1, %r2, %r3}};
                bar.warp.sync -1;
                ldmatrix.sync.aligned.{name}.shared::cta.{format} {{{}}}, [%r4];
                mul.wide.u32 %d0, %t, {}; add.u64 %p0, %p0, %d0; {stores}",
                names.join(", "),
                4 * registers
            );
            let given = rows.chunks(4).map(|bytes| u32::from_le_bytes(bytes.try_into().unwrap()));
            let found =
                run(&blackwell(2, &body), shape(1, 32), &[words(vec![0; 32 * registers]), words(given)])
                    .words(0);
            for (at, found) in found.into_iter().enumerate() {
                let (lane, register) = (at / registers, at % registers);
                let expected = (0..4).map(|byte| {
                    let (row, column) = match is_square {
                        // Of the transposed matrix four columns of rows t / 4 and t / 4 + 8 (CUTLASS's atoms).
                        true => (lane % 4 * 4 + register % 2 * 2 + byte % 2, lane / 4 + byte / 2 * 8),
                        false => (lane / 4, lane % 4 * 4 + byte),
                    };
                    let first = if is_square { register / 2 * 16 } else { register * 8 };
                    element(width, first + row, column) << (8 * byte)
                });
                assert_eq!(
                    found,
                    expected.sum::<u32>(),
                    "lane {lane}, register {register} of {name}.{format}"
                );
            }
        }
    }
}
