//! The input sets: edge values crossed with each other, then random bits, from fixed seeds.

use crate::golden::case::Width;

/// Elements of a scalar operand.
pub(crate) const ELEMENTS: usize = 1024;

/// What the numbers of a set are.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Kind {
    U8,
    U16,
    U32,
    U64,
    F16,
    Bf16,
    F32,
    F64,
    F16x2,
    Bf16x2,
    /// Every byte value, in order.
    Bytes,
    /// Elements of matrices: small integers, exact in every product and sum.
    Small(Element),
    /// Elements of matrices: signs and magnitudes over many binades.
    Wide(Element),
    /// Elements of matrices: infinities, NaNs, zeros and subnormals among others.
    Special(Element),
    /// Metadata of sparse matrices: two of four.
    TwoOfFour,
    /// Metadata of sparse matrices: one of two.
    OneOfTwo,
    /// 0, 1, 2, ... in elements of that many bits, cut to their width.
    Iota(usize),
}

/// The element of a matrix.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Element {
    F16,
    Bf16,
    Tf32,
    F32,
    F64,
    E4m3,
    E5m2,
    /// Any integer or bit type: the words are random.
    Word,
    /// s32 accumulators.
    S32,
}

/// One input buffer.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Input {
    pub(crate) kind: Kind,
    /// How many operands it is used together with.
    pub(crate) arity: usize,
    /// Which of them it is.
    pub(crate) position: usize,
    pub(crate) elements: usize,
}

impl Input {
    pub(crate) fn file(&self) -> String {
        let kind = format!("{:?}", self.kind).to_lowercase().replace('(', "-").replace(')', "");
        format!("{kind}-{}of{}-{}.npy", self.position + 1, self.arity, self.elements)
    }

    /// How a launch description names it.
    pub(crate) fn reference(&self) -> String {
        format!("{{\"npy\": \"../inputs/{}\"}}", self.file())
    }

    fn width(&self) -> Width {
        match self.kind {
            Kind::U8 | Kind::Bytes => Width::B8,
            Kind::U16 | Kind::F16 | Kind::Bf16 => Width::B16,
            Kind::U64 | Kind::F64 | Kind::Iota(64) => Width::B64,
            Kind::Small(Element::F64) | Kind::Wide(Element::F64) | Kind::Special(Element::F64) => Width::B64,
            _ => Width::B32,
        }
    }

    /// The NumPy file: its header, padded to 128 bytes, and the little-endian elements.
    pub(crate) fn npy(&self) -> Vec<u8> {
        let (bytes, values) = (self.width().bytes(), self.values());
        let header =
            format!("{{'descr': '<u{bytes}', 'fortran_order': False, 'shape': ({},), }}", self.elements);
        let descr = if bytes == 1 { header.replace("<u1", "|u1") } else { header };
        let mut file = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
        file.extend(format!("{descr:<117}\n").bytes());
        for value in values {
            file.extend(&value.to_le_bytes()[..bytes]);
        }
        file
    }

    pub(crate) fn values(&self) -> Vec<u64> {
        let seed = self.file().bytes().fold(0u64, |hash, byte| hash.wrapping_mul(31) + u64::from(byte));
        let mut random = Random(seed);
        match self.kind {
            Kind::Bytes => (0..self.elements as u64).map(|i| i & 0xff).collect(),
            Kind::Iota(bits) => (0..self.elements).map(|word| numbered(word, bits)).collect(),
            Kind::F16x2 => pairs(Input { kind: Kind::F16, ..*self }.scalars(), self.elements),
            Kind::Bf16x2 => pairs(Input { kind: Kind::Bf16, ..*self }.scalars(), self.elements),
            Kind::Small(element) => {
                (0..self.elements).map(|_| element.word(&mut random, Element::small)).collect()
            }
            Kind::Wide(element) => {
                (0..self.elements).map(|_| element.word(&mut random, Element::wide)).collect()
            }
            Kind::Special(element) => {
                (0..self.elements).map(|_| element.word(&mut random, Element::special)).collect()
            }
            Kind::TwoOfFour => metadata(&mut random, self.elements, &[0x4, 0x8, 0xc, 0x9, 0xd, 0xe]),
            Kind::OneOfTwo => metadata(&mut random, self.elements, &[0x4, 0xe]),
            _ => self.scalars(),
        }
    }

    /// Edges crossed with edges, then random numbers, of which half are related to each other.
    fn scalars(&self) -> Vec<u64> {
        let edges = edges(self.kind);
        let mut values = Vec::with_capacity(self.elements);
        // All operands of one instruction walk the same random sequence, each keeping its own part
        // of it.
        let mut random = Random(0x5eed + self.arity as u64);
        for index in 0..self.elements {
            let row: Vec<u64> = match self.arity {
                1 if index < edges.len() => vec![edges[index]],
                2 if index < 576 => vec![edges[index / 24 % edges.len()], edges[index % 24 % edges.len()]],
                3 if index < 512 => (0..3).map(|_| edges[random.below(edges.len())]).collect(),
                arity => {
                    related(self.kind, (0..arity).map(|_| number(self.kind, &mut random)).collect(), index)
                }
            };
            values.push(row[self.position]);
        }
        values
    }
}

/// Every fourth row is made to cancel: the last operand is what the others nearly add or multiply
/// up to.
fn related(kind: Kind, mut row: Vec<u64>, index: usize) -> Vec<u64> {
    if !index.is_multiple_of(4) || row.len() < 2 {
        return row;
    }
    let nudge = (index / 4 % 5) as u64;
    let last = row.len() - 1;
    row[last] = match (kind, last) {
        (Kind::F32, 1) => (row[0] ^ 0x8000_0000).wrapping_add(nudge) & 0xffff_ffff,
        (Kind::F32, _) => {
            let product = f32::from_bits(row[0] as u32) * f32::from_bits(row[1] as u32);
            u64::from((-product).to_bits().wrapping_add(nudge as u32))
        }
        (Kind::F64, 1) => (row[0] ^ 1 << 63).wrapping_add(nudge),
        (Kind::F64, _) => (-(f64::from_bits(row[0]) * f64::from_bits(row[1]))).to_bits().wrapping_add(nudge),
        (Kind::F16 | Kind::Bf16, 1) => (row[0] ^ 0x8000).wrapping_add(nudge) & 0xffff,
        (_, _) => row[last],
    };
    row
}

fn pairs(halves: Vec<u64>, elements: usize) -> Vec<u64> {
    (0..elements).map(|i| halves[i] | halves[(i + elements / 2) % elements] << 16).collect()
}

/// The word that holds its share of the numbered elements.
fn numbered(word: usize, bits: usize) -> u64 {
    let count = (32 / bits).max(1);
    let mask = u64::MAX >> (64 - bits);
    (0..count).fold(0, |packed, i| packed | ((word * count + i) as u64 & mask) << (i * bits))
}

fn metadata(random: &mut Random, elements: usize, nibbles: &[u64]) -> Vec<u64> {
    (0..elements)
        .map(|_| (0..8).fold(0, |word, i| word | nibbles[random.below(nibbles.len())] << (4 * i)))
        .collect()
}

/// splitmix64.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub(crate) fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }
}

/// A random number: half of them any bits, half of moderate size.
fn number(kind: Kind, random: &mut Random) -> u64 {
    let (bits, moderate, shift) = (random.next(), random.next() & 1 == 0, random.below(64));
    let float = |exponent_bits: u32, fraction_bits: u32, spread: u64| {
        let width = 1 + exponent_bits + fraction_bits;
        let bits = bits & (u64::MAX >> (64 - width));
        let field = ((1u64 << exponent_bits) - 1) << fraction_bits;
        let bias = (1u64 << (exponent_bits - 1)) - 1;
        let exponent = bias - spread + (bits >> fraction_bits) % (2 * spread);
        if moderate { bits & !field | exponent << fraction_bits } else { bits }
    };
    let integer =
        |width: u32| (bits & (u64::MAX >> (64 - width))) >> if moderate { shift as u32 % width } else { 0 };
    match kind {
        Kind::F16 => float(5, 10, 6),
        Kind::Bf16 => float(8, 7, 12),
        Kind::F32 => float(8, 23, 12),
        Kind::F64 => float(11, 52, 30),
        Kind::U8 => integer(8),
        Kind::U16 => integer(16),
        Kind::U64 => integer(64),
        _ => integer(32),
    }
}

/// The values that go wrong. The first 24 are crossed with each other.
fn edges(kind: Kind) -> Vec<u64> {
    let float = |exponent_bits: u32, fraction_bits: u32| -> Vec<u64> {
        let one = ((1u64 << (exponent_bits - 1)) - 1) << fraction_bits;
        let unit = 1u64 << fraction_bits;
        let infinity = ((1u64 << exponent_bits) - 1) << fraction_bits;
        let sign = 1u64 << (exponent_bits + fraction_bits);
        let quiet = unit >> 1;
        vec![
            0,
            sign,
            one,
            sign | one,
            infinity,
            sign | infinity,
            infinity | quiet,
            sign | infinity | quiet | 5,
            infinity | 3,
            sign - 1,
            1,
            sign | 1,
            unit - 1,
            sign | (unit - 1),
            unit,
            sign | unit,
            unit + 1,
            infinity - 1,
            sign | (infinity - 1),
            one + 1,
            one - 1,
            one - unit,
            one + (fraction_bits as u64 + 1) * unit,
            sign | (one - (fraction_bits as u64 + 1) * unit),
            one + quiet,
            sign | (one + unit + quiet),
            unit / 2,
            unit * 2 + 1,
            one + unit * (u64::from(exponent_bits) / 2),
            sign | (one - unit + 1),
            one + 2 * unit,
            sign | (one + 3 * unit + quiet),
        ]
    };
    // Where narrower types overflow, underflow or tie.
    let boundaries = [
        65504.0,
        65520.0,
        65519.99,
        65536.0,
        5.9604645e-8,
        2.9802322e-8,
        6.1035156e-5,
        6.1e-5,
        448.0,
        464.0,
        480.0,
        57344.0,
        61440.0,
        0.001953125,
        0.0009765625,
        127.5,
        128.0,
        -128.5,
        -129.0,
        255.5,
        256.0,
        32767.5,
        -32768.5,
        65535.5,
        2147483520.0,
        2147483648.0,
        -2147483648.0,
        -2147484000.0,
        4294967040.0,
        4294967296.0,
        9.223372e18,
        9.223_371e18,
        -9.223372e18,
        1.8446744e19,
        1.8446743e19,
        0.5,
        -0.5,
        2.5,
        -2.5,
        3.5,
        0.49999997,
        1.00390625,
        1.01171875,
        3.389531e38,
        3.4e38,
        std::f64::consts::TAU,
        std::f64::consts::PI,
        100.0,
        -149.0,
        -150.0,
        -126.0,
        128.0,
        1.0e10,
        2147483647.0,
        2147483646.5,
        4294967295.0,
        4294967295.5,
    ];
    match kind {
        Kind::F32 => {
            let mut edges = float(8, 23);
            edges.extend(boundaries.iter().map(|&x| u64::from((x as f32).to_bits())));
            edges
        }
        Kind::F64 => {
            let mut edges = float(11, 52);
            edges.extend(boundaries.iter().map(|x: &f64| x.to_bits()));
            edges.extend([
                0x36a0_0000_0000_0000,
                0x3690_0000_0000_0000,
                0x47ef_ffff_f000_0000,
                0x47ef_ffff_efff_ffff,
            ]);
            edges
        }
        Kind::F16 => float(5, 10),
        Kind::Bf16 => float(8, 7),
        Kind::U8 => vec![0, 1, 2, 3, 7, 8, 15, 16, 31, 32, 63, 64, 127, 128, 129, 254, 255],
        kind => {
            let width = match kind {
                Kind::U16 => 16,
                Kind::U64 => 64,
                _ => 32,
            };
            let all = u64::MAX >> (64 - width);
            let top = 1u64 << (width - 1);
            vec![
                0,
                1,
                all,
                2,
                all - 1,
                7,
                8,
                15,
                16,
                31,
                32,
                33,
                63,
                64,
                127,
                128,
                255,
                256,
                top,
                top - 1,
                top + 1,
                all / 3,
                all / 5,
                all >> (width / 2),
                0x8000 & all,
                0x7fff,
                all ^ 0x7f,
                all ^ 0x7fff,
                0x1020 & all,
                65,
            ]
        }
    }
}

impl Element {
    /// A register full of elements.
    fn word(self, random: &mut Random, draw: fn(Element, &mut Random) -> f64) -> u64 {
        use warpwright_emulator::numeric::{Rounding, format::Format};
        let mut packed = |format: Format, width: u32| {
            (0..32 / width).fold(0u64, |word, i| {
                let bits = format.encode(draw(self, random), Rounding::NearestEven, false);
                word | u64::from(bits) << (i * width)
            })
        };
        match self {
            Element::F16 => packed(Format::F16, 16),
            Element::Bf16 => packed(Format::BF16, 16),
            Element::E4m3 => packed(Format::E4M3, 8),
            Element::E5m2 => packed(Format::E5M2, 8),
            Element::Tf32 => packed(Format::TF32, 32) << 13,
            Element::F32 => packed(Format::F32, 32),
            Element::F64 => draw(self, random).to_bits(),
            Element::S32 => (draw(self, random) as i64 as u64) & 0xffff_ffff,
            Element::Word => random.next() & 0xffff_ffff,
        }
    }

    fn small(self, random: &mut Random) -> f64 {
        if self == Element::S32 {
            return (random.below(1 << 20) as f64) - f64::from(1 << 19);
        }
        random.below(9) as f64 - 4.0
    }

    fn wide(self, random: &mut Random) -> f64 {
        let spread = match self {
            Element::F16 => 7,
            Element::E4m3 => 4,
            Element::E5m2 => 8,
            Element::F32 => 16,
            Element::S32 => 31,
            _ => 10,
        };
        let fraction = 1.0 + random.below(1 << 30) as f64 / f64::from(1 << 30);
        let sign = if random.next() & 1 == 0 { 1.0 } else { -1.0 };
        sign * fraction
            * 2f64
                .powi(random.below(2 * spread) as i32 - if self == Element::S32 { 0 } else { spread as i32 })
    }

    fn special(self, random: &mut Random) -> f64 {
        match random.below(200) {
            0 => f64::INFINITY,
            1 => f64::NEG_INFINITY,
            2 => f64::NAN,
            3..20 => 0.0,
            20..30 => -0.0,
            30..60 => {
                // Subnormals of the element, or nearly.
                let exponent = match self {
                    Element::F16 => -16,
                    Element::E4m3 => -8,
                    Element::E5m2 => -16,
                    Element::F64 => -1015,
                    _ => -130,
                };
                self.wide(random) * 2f64.powi(exponent)
            }
            60..70 => {
                2f64.powi(if matches!(self, Element::F16 | Element::E5m2 | Element::E4m3) { 8 } else { 64 })
            }
            _ => self.wide(random),
        }
    }
}
