//! NaN, infinities, zeros, subnormals and the largest numbers, of every type and as scales, in every
//! kind of `tcgen05.mma` and of sm_120a's `mma.sync`: sums of two products and an accumulator are held to
//! exact arithmetic.

use crate::common::{Argument, kernel, run, shape, words};
use crate::tensor_memory::{
    SCHEDULES, blackwell, launch, of_group, ran, registers, store_accumulators, with_columns,
};

/// A format of floats, or of integers without an exponent.
#[derive(Clone, Copy, Debug, PartialEq)]
struct Format {
    /// Its name in PTX, and its number in an instruction descriptor.
    name: &'static str,
    number: u32,
    bits: u32,
    fraction: u32,
    /// What the highest exponent holds besides numbers.
    special: Special,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Special {
    Nothing,
    /// NaN in the last code only.
    LastNan,
    /// Infinities and NaN.
    Ieee,
    /// An integer, with or without a sign.
    Integer,
}

use Special::{Ieee, Integer, LastNan, Nothing};

const fn format(name: &'static str, number: u32, bits: u32, fraction: u32, special: Special) -> Format {
    Format { name, number, bits, fraction, special }
}

const F16: Format = format("f16", 0, 16, 10, Ieee);
const BF16: Format = format("bf16", 1, 16, 7, Ieee);
/// 13 more bits follow, which do not count.
const TF32: Format = format("tf32", 2, 19, 10, Ieee);
const E4M3: Format = format("e4m3", 0, 8, 3, LastNan);
const E5M2: Format = format("e5m2", 1, 8, 2, Ieee);
const E2M3: Format = format("e2m3", 3, 6, 3, Nothing);
const E3M2: Format = format("e3m2", 4, 6, 2, Nothing);
const E2M1: Format = format("e2m1", 5, 4, 1, Nothing);
/// Without padding it has another number.
const PACKED: Format = Format { number: 1, ..E2M1 };
const U8: Format = format("u8", 0, 8, 8, Integer);
const S8: Format = format("s8", 1, 8, 7, Integer);

impl Format {
    fn bias(self) -> i32 {
        (1 << (self.bits - self.fraction - 2)) - 1
    }

    fn value(self, code: u32) -> f64 {
        let fraction = code & ((1 << self.fraction) - 1);
        if self.special == Integer {
            return f64::from(fraction) - f64::from(code >> self.fraction << self.fraction);
        }
        let exponents = (1u32 << (self.bits - self.fraction - 1)) - 1;
        let exponent = code >> self.fraction & exponents;
        let sign = if code >> (self.bits - 1) & 1 != 0 { -1.0 } else { 1.0 };
        let last = (1 << self.fraction) - 1;
        match self.special {
            Ieee if exponent == exponents && fraction == 0 => return sign * f64::INFINITY,
            Ieee if exponent == exponents => return f64::NAN,
            LastNan if exponent == exponents && fraction == last => return f64::NAN,
            _ => {}
        }
        let implied = if exponent == 0 { 0 } else { 1 << self.fraction };
        let unit = exponent.max(1) as i32 - self.bias() - self.fraction as i32;
        sign * f64::from(fraction + implied) * f64::from(unit).exp2()
    }

    fn one(self) -> u32 {
        if self.special == Integer { 1 } else { (self.bias() as u32) << self.fraction }
    }

    /// Codes to multiply: zeros, the least and the largest numbers, and what is no number.
    fn codes(self) -> Vec<u32> {
        let (sign, one) = (1 << (self.bits - 1), self.one());
        let top = (1 << (self.bits - 1)) - 1;
        let exponent = top >> self.fraction << self.fraction;
        match self.special {
            Integer => vec![0, 1, 0x7f, 0x80, 0xff, 0x55],
            Nothing => vec![0, sign, 1, sign | 1, one, sign | one, one + 1, top, sign | top],
            LastNan => vec![0, sign, 1, sign | 1, one, sign | one, one + 1, top - 1, sign | (top - 1), top],
            Ieee => vec![
                0,
                sign,
                1,
                sign | 1,
                one,
                sign | one,
                exponent - 1,
                sign | (exponent - 1),
                exponent,
                sign | exponent,
                top,
            ],
        }
    }

    /// The code where registers and shared memory have it.
    fn stored(self, code: u32) -> u32 {
        if self == TF32 { code << 13 } else { code }
    }
}

/// The type of scales.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Scales {
    Ue8m0,
    Ue4m3,
}

impl Scales {
    fn value(self, byte: u8) -> f64 {
        match self {
            Scales::Ue8m0 if byte == 0xff => f64::NAN,
            Scales::Ue8m0 => (f64::from(byte) - 127.0).exp2(),
            Scales::Ue4m3 => E4M3.value(byte.into()),
        }
    }

    fn bytes(self) -> &'static [u8] {
        match self {
            Scales::Ue8m0 => &[127, 0, 1, 254, 255, 130, 120],
            Scales::Ue4m3 => &[0x38, 0, 1, 0x7e, 0x7f, 0x40, 8],
        }
    }
}

/// What is multiplied: the kind with its words, A and B, and scales.
type Row = (&'static str, Format, Format, Option<Scales>);

const TENSOR_CORE: [Row; 14] = [
    ("f16", F16, F16, None),
    ("f16", BF16, BF16, None),
    ("tf32", TF32, TF32, None),
    ("f8f6f4", E4M3, E5M2, None),
    ("f8f6f4", E5M2, E4M3, None),
    ("f8f6f4", E3M2, E2M3, None),
    ("f8f6f4", E2M1, E5M2, None),
    ("i8", S8, U8, None),
    ("i8", U8, S8, None),
    ("mxf8f6f4.block_scale", E5M2, E4M3, Some(Scales::Ue8m0)),
    ("mxf8f6f4.block_scale.block32", E2M1, E3M2, Some(Scales::Ue8m0)),
    ("mxf4.block_scale.scale_vec::2X", PACKED, PACKED, Some(Scales::Ue8m0)),
    ("mxf4nvf4.block_scale.scale_vec::2X", PACKED, PACKED, Some(Scales::Ue8m0)),
    ("mxf4nvf4.block_scale.scale_vec::4X", PACKED, PACKED, Some(Scales::Ue4m3)),
];

/// The exact sum of a few numbers, as a number of 53 bits whose last bit is set if it was not exact.
fn exact_sum(terms: &[f64]) -> f64 {
    // Numbers that do not overlap, the smallest first (Shewchuk, "Adaptive Precision Floating-Point
    // Arithmetic").
    let mut parts: Vec<f64> = Vec::new();
    for &term in terms {
        let mut carried = term;
        let mut next = Vec::new();
        for part in parts {
            let sum = carried + part;
            let virtual_part = sum - carried;
            let rest = (carried - (sum - virtual_part)) + (part - virtual_part);
            if rest != 0.0 {
                next.push(rest);
            }
            carried = sum;
        }
        if carried != 0.0 {
            next.push(carried);
        }
        parts = next;
    }
    let top = parts.pop().unwrap_or(0.0);
    match parts.pop() {
        Some(rest) if top.to_bits() & 1 == 0 => {
            let is_beyond = (rest > 0.0) == (top > 0.0);
            f64::from_bits(if is_beyond { top.to_bits() | 1 } else { top.to_bits() - 1 })
        }
        _ => top,
    }
}

/// Compares an element of D. With scales it is the exact sum rounded once; otherwise tensor cores cut what
/// is far below the largest term.
fn check(found: f32, terms: &[f64], is_exact: bool, what: &dyn std::fmt::Debug) {
    let plain = terms.iter().sum::<f64>();
    if terms.iter().any(|term| !term.is_finite()) {
        if plain.is_nan() {
            assert_eq!(found.to_bits(), 0x7fff_ffff, "{what:?}: {terms:?}");
        } else {
            assert_eq!(f64::from(found), plain, "{what:?}: {terms:?}");
        }
        return;
    }
    let sum = exact_sum(terms);
    let rounded = sum as f32;
    let largest = terms.iter().fold(0.0f64, |largest, term| largest.max(term.abs()));
    let fits = |term: &f64| (*term / largest * f64::from(1 << 23)).fract() == 0.0 || largest == 0.0;
    if is_exact || f64::from(rounded) == sum && terms.iter().all(fits) {
        assert_eq!(f64::from(found), f64::from(rounded), "{what:?}: {terms:?}");
    } else {
        let distance = (f64::from(found) - sum).abs();
        let is_near = distance <= largest * f64::from(-22).exp2() + f64::from(-148).exp2();
        let is_over = found.is_infinite() && sum.abs() >= f64::from(f32::MAX);
        assert!(is_near || is_over, "{what:?}: {found:e} of {terms:?}");
    }
}

/// A tensor-core MMA of 128 rows and 64 columns, or 55 with content.
#[derive(Clone, Copy, Debug)]
struct Multiply {
    row: Row,
    sparse: bool,
    /// D of f16, or saturating integers.
    other: bool,
}

const COLUMNS: usize = 64;
const ADDENDS: [f64; 5] = [0.0, 1.0, f64::INFINITY, f64::NEG_INFINITY, f64::NAN];
const INTEGERS: [i32; 5] = [0, i32::MAX, i32::MIN, 77, -77];

impl Multiply {
    /// Bits of an element in shared memory, with its padding.
    fn container(self) -> usize {
        let (kind, a, ..) = self.row;
        match a {
            TF32 => 32,
            F16 | BF16 => 16,
            _ if kind.starts_with("mxf4") => 4,
            _ => 8,
        }
    }

    /// The two elements of a row of A.
    fn left(self, row: usize) -> [u32; 2] {
        let codes = self.row.1.codes();
        [codes[row % codes.len()], codes[row / codes.len() % codes.len()]]
    }

    /// The two elements of a column of B, of which the second is 1.
    fn right(self, column: usize) -> [u32; 2] {
        let codes = self.row.2.codes();
        [codes[column % codes.len()], self.row.2.one()]
    }

    fn scale(self, side: usize, index: usize) -> u8 {
        let bytes = self.row.3.map_or(&[0u8][..], Scales::bytes);
        bytes[if side == 0 { index / 2 } else { index / 3 } % bytes.len()]
    }

    /// The place of D's initial value among five.
    fn addend(self, column: usize) -> usize {
        column / self.row.2.codes().len() % 5
    }

    fn initial(self, column: usize) -> u32 {
        let (addend, is_integer) = (self.addend(column), self.row.1.special == Integer);
        match (is_integer, self.other) {
            (true, _) => INTEGERS[addend] as u32,
            (false, true) => half::f16::from_f64(ADDENDS[addend]).to_bits().into(),
            (false, false) => (ADDENDS[addend] as f32).to_bits(),
        }
    }

    /// Rows of pairs of elements in shared memory: 16 bytes of each row, and then the next 16. `second` is
    /// the step of the second element.
    fn image(
        self,
        format: Format,
        rows: usize,
        chunks: usize,
        second: usize,
        of: &dyn Fn(usize) -> [u32; 2],
    ) -> Vec<u8> {
        let mut image = vec![0u8; rows * chunks * 16];
        let (container, width) = (self.container(), format.bits.min(32) as usize);
        let each = 128 / container;
        let width = if format == TF32 { 32 } else { width };
        for (row, (at, code)) in
            (0..rows).flat_map(|row| [(row, (0, of(row)[0])), (row, (second, of(row)[1]))])
        {
            let first = 8 * (at / each * rows * 16 + row * 16) + at % each * width;
            let code = format.stored(code);
            for bit in (0..width).filter(|bit| code >> bit & 1 != 0) {
                image[(first + bit) / 8] |= 1 << ((first + bit) % 8);
            }
        }
        image
    }

    fn run(self, schedule: warpwright_emulator::Schedule) {
        let (kind, a, b, scales) = self.row;
        let fold = if self.sparse { 2 } else { 1 };
        // The second stored element of a row is the second of two pairs, or of four elements.
        let second = if self.sparse && a == TF32 { 2 } else { 1 };
        let mut image = self.image(a, 128, 2, 1, &|row| self.left(row));
        image.extend(self.image(b, COLUMNS, 2 * fold, second, &|column| self.right(column)));
        let size = image.len();
        let cells: Vec<u32> = (0..128)
            .flat_map(|lane| {
                let scale =
                    move |side: usize, column: usize| u32::from(self.scale(side, 32 * column + lane % 32));
                let initial = (0..COLUMNS).map(move |column| self.initial(column));
                let of_a = (0..4).map(move |column| scale(0, column) * 0x0101_0101);
                let of_b = (0..2).map(move |column| scale(1, column) * 0x0101_0101);
                initial.chain([0x4444_4444; 4]).chain(of_a).chain(of_b)
            })
            .collect();
        let is_integer = a.special == Integer;
        let d_type = match (is_integer, self.other) {
            _ if scales.is_some() => 0,
            (true, _) => 2,
            (false, is_half) => u32::from(!is_half),
        };
        let descriptor = u32::from(self.sparse) << 2
            | u32::from(is_integer && self.other) << 3
            | d_type << 4
            | a.number << 7
            | b.number << 10
            | (COLUMNS as u32 / 8) << 17
            | u32::from(scales == Some(Scales::Ue8m0)) << 23
            | 8 << 24;
        let move_in: String = (0..9)
            .map(|eight| {
                let loads: String = (0..8)
                    .map(|word| format!("ld.global.u32 %r{}, [%p2+{}];\n", 20 + word, 32 * eight + 4 * word))
                    .collect();
                let column = if eight == 8 { 256 } else { 8 * eight };
                format!(
                    "{loads} add.u32 %r1, %r101, {column}; tcgen05.st.sync.aligned.32x32b.x8.b32 [%r1], {};\n",
                    registers(20, 8)
                )
            })
            .collect();
        let move_out = store_accumulators(COLUMNS);
        let matrix =
            |start: usize, extent: usize| 1u64 << 46 | 8 << 32 | (extent as u64) << 16 | (start as u64 / 16);
        let body = format!(
            ".shared .align 1024 .b8 image[{size}];
            mul.wide.u32 %d5, %t, 296; add.u64 %p2, %p2, %d5; {move_in}
            ld.global.u32 %r20, [%p2+288]; ld.global.u32 %r21, [%p2+292];
            add.u32 %r1, %r101, 264; tcgen05.st.sync.aligned.32x32b.x2.b32 [%r1], {{%r20, %r21}};
            tcgen05.wait::st.sync.aligned;
            mul.wide.u32 %d6, %t, 4; add.u64 %p0, %p0, %d6;
            mov.u32 %r6, image; cvt.u64.u32 %d0, %r6; shr.u64 %d0, %d0, 4; and.b64 %d0, %d0, 0x3fff;
            mad.lo.u32 %r6, %t, 4, %r6; mov.u32 %r7, {size};
            fill: ld.global.u32 %r8, [%p0]; st.shared.u32 [%r6], %r8; add.u64 %p0, %p0, 512; add.u32 %r6, %r6, 512;
            sub.u32 %r7, %r7, 512; setp.gt.s32 %q1, %r7, 0; @%q1 bra fill;
            fence.proxy.async; tcgen05.fence::before_thread_sync; MEET
            @!%q10 bra issued; tcgen05.fence::after_thread_sync;
            add.u64 %d1, %d0, {left:#x}; add.u64 %d2, %d0, {right:#x}; add.u32 %r10, %r100, 256;
            add.u32 %r11, %r100, 260; add.u32 %r12, %r100, 264;
            tcgen05.mma{sp}.cta_group::1.kind::{kind} [%r100], %d1, %d2,{metadata} {descriptor},{scales} %q10;
            tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r103];
            issued: wait: mbarrier.try_wait.parity.shared::cta.b64 %q3, [%r103], 0; @!%q3 bra wait;
            tcgen05.fence::after_thread_sync;
            mul.wide.u32 %d7, %t, {out}; add.u64 %p1, %p1, %d7; {move_out}",
            left = matrix(0, 128),
            right = matrix(128 * 32, COLUMNS),
            sp = if self.sparse { ".sp" } else { "" },
            metadata = if self.sparse { " [%r10]," } else { "" },
            scales = if scales.is_some() { " [%r11], [%r12]," } else { "" },
            out = 4 * COLUMNS,
        );
        let text = blackwell(3, &of_group(1, &with_columns(512, &body)));
        let out = vec![0u32; 128 * COLUMNS];
        let arguments = [Argument::Buffer(image), words(out), words(cells)];
        let found = ran(&text, launch(1, schedule), &arguments).words(1);
        for (at, &cell) in found.iter().enumerate() {
            let (row, column) = (at / COLUMNS, at % COLUMNS);
            let (left, right) = (self.left(row), self.right(column));
            let factor = scales
                .map_or(1.0, |scales| scales.value(self.scale(0, row)) * scales.value(self.scale(1, column)));
            let product = |step: usize| a.value(left[step]) * b.value(right[step]) * factor;
            let what = (self, row, column);
            if is_integer {
                let sum = (product(0) + product(1)) as i64 + i64::from(INTEGERS[self.addend(column)]);
                let clamped = sum.clamp(i32::MIN.into(), i32::MAX.into());
                assert_eq!(cell as i32, if self.other { clamped } else { sum } as i32, "{what:?}");
                continue;
            }
            // What is not stored is zero, and not multiplied by what is beside it.
            let terms = [product(0), product(1), ADDENDS[self.addend(column)]];
            if !self.other {
                check(f32::from_bits(cell), &terms, scales.is_some(), &what);
                continue;
            }
            let found = half::f16::from_bits(cell as u16).to_f64();
            let expected = half::f16::from_f64(exact_sum(&terms)).to_f64();
            let plain = terms.iter().sum::<f64>();
            match plain.is_finite() {
                true => assert_eq!(found, expected, "{what:?}: {terms:?}"),
                false => assert!(found == plain || found.is_nan() && plain.is_nan(), "{what:?}: {terms:?}"),
            }
        }
    }
}

#[test]
fn tensor_cores_multiply_special_values() {
    for (number, row) in TENSOR_CORE.into_iter().enumerate() {
        for sparse in [false, true] {
            Multiply { row, sparse, other: false }.run(SCHEDULES[number % 4]);
            if row.1 == F16 || row.3.is_none() && row.0 != "f16" && row.1 != TF32 {
                Multiply { row, sparse, other: true }.run(SCHEDULES[(number + 1) % 4]);
            }
        }
    }
}

const WARP: [Row; 9] = [
    ("f8f6f4", E4M3, E5M2, None),
    ("f8f6f4", E5M2, E3M2, None),
    ("f8f6f4", E2M1, E2M3, None),
    ("mxf8f6f4.block_scale.scale_vec::1X", E5M2, E4M3, Some(Scales::Ue8m0)),
    ("mxf8f6f4.block_scale.scale_vec::1X", E4M3, E5M2, Some(Scales::Ue8m0)),
    ("mxf8f6f4.block_scale.scale_vec::1X", E3M2, E2M1, Some(Scales::Ue8m0)),
    ("mxf4.block_scale.scale_vec::2X", PACKED, PACKED, Some(Scales::Ue8m0)),
    ("mxf4nvf4.block_scale.scale_vec::2X", PACKED, PACKED, Some(Scales::Ue8m0)),
    ("mxf4nvf4.block_scale.scale_vec::4X", PACKED, PACKED, Some(Scales::Ue4m3)),
];

/// `mma.sync` of 16 rows and 8 columns: lane 4 r + 0 has the first elements of row r, and of column r.
fn warp_multiplies((kind, a, b, scales): Row, sparse: bool, from: usize, addend: f64) {
    let (is_packed, fold) = (kind.starts_with("mxf4"), if sparse { 2 } else { 1 });
    let left = |row: usize| {
        let codes = a.codes();
        [codes[(row + from) % codes.len()], codes[(row / 2 + from) % codes.len()]]
    };
    let right = |column: usize| [b.codes()[(column + from) % b.codes().len()], b.one()];
    let pair = |[first, second]: [u32; 2], format: Format| {
        let (below, width) =
            (if !is_packed && format.bits == 4 { 2 } else { 0 }, if is_packed { 4 } else { 8 });
        (first | second << width) << below
    };
    let byte = |side: usize, index: usize| {
        let bytes = scales.map_or(&[0u8][..], Scales::bytes);
        bytes[(index * (side + 1) + from) % bytes.len()]
    };
    let given = (0..32usize).flat_map(|lane| {
        let (row, is_first) = (lane / 4, lane % 4 == 0);
        let of = |word: u32| if is_first { word } else { 0 };
        // The first two lanes of four have the scales of rows, and the first one that of a column.
        let of_a = u32::from(byte(0, row + lane % 2 * 8)) * 0x0101_0101;
        let of_b = u32::from(byte(1, row)) * 0x0101_0101;
        [of(pair(left(row), a)), of(pair(left(row + 8), a)), of(pair(right(row), b)), of_a, of_b]
    });
    let shape_word = format!("m16n8k{}", fold * if is_packed { 64 } else { 32 });
    let (sp, zeros, metadata) =
        if sparse { (".sp::ordered_metadata", ", %r0, %r0", ", %r9, 0") } else { ("", "", "") };
    let scale_type = match scales {
        Some(Scales::Ue8m0) => ".ue8m0",
        Some(Scales::Ue4m3) => ".ue4m3",
        None => "",
    };
    let places = if scales.is_some() { ", {%r13}, {0, 0}, {%r14}, {0, 0}" } else { "" };
    let body = format!(
        "mul.wide.u32 %d0, %t, 20; add.u64 %p1, %p1, %d0;
        ld.global.u32 %r10, [%p1]; ld.global.u32 %r11, [%p1+4]; ld.global.u32 %r12, [%p1+8];
        ld.global.u32 %r13, [%p1+12]; ld.global.u32 %r14, [%p1+16];
        mov.u32 %r0, 0; mov.u32 %r9, 0x44444444; mov.b32 %f0, {:#x};
        mma{sp}.sync.aligned.kind::{kind}.{shape_word}.row.col.f32.{}.{}.f32{scale_type} {{%f1, %f2, %f3, %f4}},
            {{%r10, %r11, %r0, %r0}}, {{%r12, %r0{zeros}}}, {{%f0, %f0, %f0, %f0}}{metadata}{places};
        mul.wide.u32 %d0, %t, 16; add.u64 %p0, %p0, %d0; st.global.v4.f32 [%p0], {{%f1, %f2, %f3, %f4}};",
        (addend as f32).to_bits(),
        a.name,
        b.name,
    );
    let text = kernel(2, &body).replace("sm_90a", "sm_120a");
    let finished = run(&text, shape(1, 32), &[words([0; 128]), words(given)]);
    for (at, &found) in finished.floats(0).iter().enumerate() {
        let (lane, register) = (at / 4, at % 4);
        let (row, column) = (lane / 4 + register / 2 * 8, lane % 4 * 2 + register % 2);
        let factor = scales.map_or(1.0, |scales| scales.value(byte(0, row)) * scales.value(byte(1, column)));
        let (left, right) = (left(row), right(column));
        let product = |step: usize| a.value(left[step]) * b.value(right[step]) * factor;
        let what = (kind, a.name, b.name, sparse, from, row, column);
        check(found, &[product(0), product(1), addend], scales.is_some(), &what);
    }
}

#[test]
fn warps_multiply_special_values() {
    for row in WARP {
        for (from, sparse) in (0..12).flat_map(|from| [(from, false), (from, true)]) {
            warp_multiplies(row, sparse, from, ADDENDS[from % 5]);
        }
    }
}

#[test]
fn sums_of_the_reference_are_exact() {
    assert_eq!(exact_sum(&[1.0, f64::from(-60).exp2(), -1.0]), f64::from(-60).exp2());
    let beyond_half = exact_sum(&[1.0, f64::from(-24).exp2(), f64::from(-200).exp2()]);
    assert_eq!(beyond_half as f32, 1.0 + f32::EPSILON);
    let below_half = exact_sum(&[1.0, f64::from(-24).exp2(), -f64::from(-200).exp2()]);
    assert_eq!(below_half as f32, 1.0);
}
