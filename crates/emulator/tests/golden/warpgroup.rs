//! `wgmma`: small integers in every layout of shared memory, whose sums are exact and so prove
//! where each element lies; wide magnitudes and special values in every type.
//!
//! Each CTA is a warpgroup. It fills 12 KiB for A and 12 KiB for B from its own part of two buffers
//! of random elements, and multiplies what the descriptors make of them.

use crate::golden::case::{Buffer, Case, Width};
use crate::golden::inputs::{Element, Input, Kind};

use Element::{Bf16, E4m3, E5m2, F16, F32, S32, Tf32, Word};

/// Bytes of shared memory for each of A and B.
const REGION: usize = 12288;
const CTAS: usize = 2;
const THREADS: usize = 128;

/// A matrix in shared memory, as its descriptor has it.
#[derive(Clone, Copy)]
struct Place {
    /// Its name in the case's.
    name: &'static str,
    transposed: bool,
    /// Bytes from the start of its region, leading and stride offsets.
    start: usize,
    leading: usize,
    stride: usize,
    base: u64,
    mode: u64,
}

const fn depth(name: &'static str, mode: u64, leading: usize, stride: usize) -> Place {
    Place { name, transposed: false, start: 0, leading, stride, base: 0, mode }
}

const fn along(name: &'static str, mode: u64, leading: usize, stride: usize) -> Place {
    Place { name, transposed: true, start: 0, leading, stride, base: 0, mode }
}

const K_NONE: Place = depth("k0", 0, 128, 256);
const K_32: Place = depth("k32", 3, 16, 256);
const K_64: Place = depth("k64", 2, 16, 512);
const K_128: Place = depth("k128", 1, 16, 1024);
const K_PLACES: [Place; 4] = [K_NONE, K_32, K_64, K_128];
/// For 64 rows or columns, 16 deep.
const MN_NONE: Place = along("mn0", 0, 1024, 128);
const MN_32: Place = along("mn32", 3, 256, 1024);
const MN_64: Place = along("mn64", 2, 512, 1024);
const MN_128: Place = along("mn128", 1, 4096, 1024);
const MN_PLACES: [Place; 4] = [MN_NONE, MN_32, MN_64, MN_128];

const fn at(place: Place, name: &'static str, start: usize, base: u64) -> Place {
    Place { name, start, base, ..place }
}

#[derive(Clone, Copy)]
struct Multiply {
    family: &'static str,
    n: usize,
    k: usize,
    /// D, A and B as PTX spells them.
    types: [&'static str; 3],
    elements: [Element; 3],
    /// `None`: A is in registers.
    a: Option<Place>,
    b: Place,
    selector: Option<u32>,
    values: (&'static str, fn(Element) -> Kind),
    scales: (i32, i32),
    accumulates: bool,
    suffix: &'static str,
}

const EXACT: (&str, fn(Element) -> Kind) = ("exact", Kind::Small);
const WIDE: (&str, fn(Element) -> Kind) = ("wide", Kind::Wide);
const SPECIAL: (&str, fn(Element) -> Kind) = ("special", Kind::Special);

const fn dense(types: [&'static str; 3], elements: [Element; 3], k: usize) -> Multiply {
    Multiply {
        family: "wgmma",
        n: 32,
        k,
        types,
        elements,
        a: Some(K_128),
        b: K_128,
        selector: None,
        values: EXACT,
        scales: (1, 1),
        accumulates: true,
        suffix: "",
    }
}

const BRAIN: Multiply = dense(["f32", "bf16", "bf16"], [F32, Bf16, Bf16], 16);

const FLOATS: [Multiply; 12] = [
    dense(["f32", "f16", "f16"], [F32, F16, F16], 16),
    dense(["f16", "f16", "f16"], [F16, F16, F16], 16),
    BRAIN,
    dense(["f32", "tf32", "tf32"], [F32, Tf32, Tf32], 8),
    dense(["f32", "e4m3", "e4m3"], [F32, E4m3, E4m3], 32),
    dense(["f32", "e4m3", "e5m2"], [F32, E4m3, E5m2], 32),
    dense(["f32", "e5m2", "e4m3"], [F32, E5m2, E4m3], 32),
    dense(["f32", "e5m2", "e5m2"], [F32, E5m2, E5m2], 32),
    dense(["f16", "e4m3", "e4m3"], [F16, E4m3, E4m3], 32),
    dense(["f16", "e4m3", "e5m2"], [F16, E4m3, E5m2], 32),
    dense(["f16", "e5m2", "e4m3"], [F16, E5m2, E4m3], 32),
    dense(["f16", "e5m2", "e5m2"], [F16, E5m2, E5m2], 32),
];

const INTEGERS: [Multiply; 4] = [
    dense(["s32", "s8", "s8"], [S32, Word, Word], 32),
    dense(["s32", "u8", "u8"], [S32, Word, Word], 32),
    dense(["s32", "s8", "u8"], [S32, Word, Word], 32),
    dense(["s32", "u8", "s8"], [S32, Word, Word], 32),
];

const BITS: Multiply = dense(["s32", "b1", "b1"], [S32, Word, Word], 256);

pub(crate) fn cases() -> Vec<Case> {
    let mut all = [layouts(), widths(), floats(), integers(), scales(), sparse()].concat();
    all.push(chained());
    all
}

/// Every swizzle and both major-nesses; starts inside a swizzle's pattern; base offsets; unusual
/// strides.
fn layouts() -> Vec<Case> {
    let with = |a: Place, b: Place, n: usize| Multiply { a: Some(a), b, n, ..BRAIN };
    let mut multiplies = Vec::new();
    for (index, place) in K_PLACES.into_iter().enumerate() {
        multiplies.push(with(place, place, 32));
        multiplies.push(with(place, K_PLACES[(index + 1) % 4], 32));
        multiplies.push(with(place, MN_PLACES[index], 64));
        multiplies.push(with(MN_PLACES[index], place, 32));
        multiplies.push(with(MN_PLACES[index], MN_PLACES[index], 64));
        multiplies.push(with(MN_PLACES[index], MN_PLACES[(index + 3) % 4], 64));
    }
    let wide_none = along("mn0_n128", 0, 2048, 128);
    let wide_32 = along("mn32_n128", 3, 256, 2048);
    let wide_64 = along("mn64_n128", 2, 512, 2048);
    let wide_128 = along("mn128_n128", 1, 2048, 1024);
    multiplies.extend([wide_none, wide_32, wide_64, wide_128].map(|b| with(K_128, b, 128)));
    let slices = [
        (at(K_128, "k128_32", 32, 0), at(K_128, "k128_96", 96, 0)),
        (at(K_64, "k64_32", 32, 0), at(K_128, "k128_64", 64, 0)),
        (at(MN_128, "mn128_2048", 2048, 0), at(MN_128, "mn128_3072", 3072, 0)),
        (at(K_NONE, "k0_48", 48, 0), at(K_NONE, "k0_2064", 2064, 0)),
    ];
    let offsets = [
        (at(K_128, "k128_128", 128, 0), at(K_128, "k128_640", 640, 0)),
        (at(K_128, "k128_128_base1", 128, 1), at(K_128, "k128_640_base5", 640, 5)),
        (at(K_128, "k128_base3", 0, 3), at(K_128, "k128_256_base6", 256, 6)),
        (at(K_64, "k64_128_base1", 128, 1), at(K_64, "k64_384_base3", 384, 3)),
        (at(K_64, "k64_base2", 0, 2), at(K_64, "k64_base7", 0, 7)),
        (at(K_32, "k32_128_base1", 128, 1), at(K_32, "k32_base6", 0, 6)),
        (at(K_NONE, "k0_base5", 0, 5), at(MN_128, "mn128_base2", 0, 2)),
    ];
    let odd = [
        (depth("k128_stride1040", 1, 16, 1040), depth("k128_stride272", 1, 16, 272)),
        (depth("k128_leading64", 1, 64, 1024), depth("k64_leading2048", 2, 2048, 512)),
        (depth("k128_leading0", 1, 0, 1024), depth("k32_stride144", 3, 0, 144)),
        (depth("k0_strides48_400", 0, 48, 400), depth("k0_strides2064_16", 0, 2064, 16)),
    ];
    multiplies.extend(
        [slices.as_slice(), &offsets, &odd]
            .concat()
            .into_iter()
            .map(|(a, b)| with(a, b, if b.transposed { 64 } else { 32 })),
    );
    multiplies.iter().map(case).collect()
}

/// Every step of n there is a reason to look at.
fn widths() -> Vec<Case> {
    let narrow = Multiply { b: K_32, ..BRAIN };
    [8, 16, 24, 40, 96, 128, 200, 256].map(|n| case(&Multiply { n, ..narrow })).to_vec()
}

fn floats() -> Vec<Case> {
    let mut cases = Vec::new();
    for multiply in FLOATS {
        for values in [EXACT, WIDE, SPECIAL] {
            // Small integers of bf16 in these places are among the layouts.
            if (multiply.types[1], values.0) != ("bf16", "exact") {
                cases.push(case(&Multiply { values, ..multiply }));
            }
        }
        cases.push(case(&Multiply { a: None, values: WIDE, ..multiply }));
        cases.push(case(&Multiply { accumulates: false, values: WIDE, ..multiply }));
    }
    let right = Multiply { a: None, b: MN_64, n: 64, ..BRAIN };
    cases.push(case(&right));
    cases.push(case(&Multiply { values: SPECIAL, ..right }));
    cases.push(case(&Multiply { n: 256, b: K_32, values: WIDE, ..FLOATS[0] }));
    cases.push(case(&Multiply { n: 256, b: K_32, values: WIDE, ..FLOATS[1] }));
    cases.push(case(&Multiply { n: 256, b: K_32, values: WIDE, ..FLOATS[4] }));
    cases
}

fn integers() -> Vec<Case> {
    let mut cases = Vec::new();
    for (index, multiply) in INTEGERS.into_iter().enumerate() {
        let multiply = Multiply { b: K_PLACES[index], n: [8, 24, 48, 224][index], ..multiply };
        let multiply = if multiply.n == 224 { Multiply { b: K_32, ..multiply } } else { multiply };
        cases.push(case(&multiply));
        cases.push(case(&Multiply { a: None, ..multiply }));
        cases.push(case(&Multiply { suffix: ".satfinite", n: 32, values: WIDE, ..multiply }));
    }
    cases.push(case(&Multiply { suffix: ".and.popc", ..BITS }));
    cases.push(case(&Multiply { suffix: ".and.popc", a: None, b: K_NONE, n: 16, ..BITS }));
    cases
}

fn scales() -> Vec<Case> {
    let mut cases: Vec<Case> =
        [(-1, 1), (1, -1), (-1, -1)].map(|scales| case(&Multiply { scales, ..BRAIN })).to_vec();
    cases.push(case(&Multiply { scales: (-1, 1), values: SPECIAL, ..FLOATS[1] }));
    cases.push(case(&Multiply { scales: (-1, 1), values: WIDE, a: None, ..FLOATS[4] }));
    cases.push(case(&Multiply { scales: (-1, 1), values: WIDE, ..FLOATS[3] }));
    cases.push(case(&Multiply { accumulates: false, values: SPECIAL, ..FLOATS[0] }));
    cases.push(case(&Multiply { accumulates: false, ..INTEGERS[0] }));
    cases
}

fn sparse() -> Vec<Case> {
    let mut cases = Vec::new();
    for multiply in FLOATS.into_iter().chain(INTEGERS) {
        let multiply = Multiply { family: "wgmma_sparse", k: 2 * multiply.k, ..multiply };
        let selectors = if multiply.elements[1] == Tf32 || multiply.k == 32 { 0..2 } else { 0..1 };
        for selector in selectors {
            let multiply = Multiply { selector: Some(selector), ..multiply };
            cases.push(case(&multiply));
            cases.push(case(&Multiply { a: None, ..multiply }));
            if multiply.types[0] != "s32" && selector == 0 {
                cases.push(case(&Multiply { values: WIDE, ..multiply }));
            }
        }
    }
    let places = [
        depth("k0", 0, 128, 512),
        depth("k0_leading256", 0, 256, 1024),
        K_32,
        depth("k32_leading2048", 3, 2048, 256),
        K_64,
        depth("k64_leading2048", 2, 2048, 512),
        at(K_128, "k128_64", 64, 0),
        along("mn0", 0, 1024, 128),
        along("mn32", 3, 256, 1024),
        along("mn64", 2, 512, 1024),
        along("mn128", 1, 4096, 1024),
    ];
    for b in places {
        let sparse = Multiply { family: "wgmma_sparse", k: 32, selector: Some(1), ..BRAIN };
        cases.push(case(&Multiply { b, n: if b.transposed { 64 } else { 32 }, ..sparse }));
    }
    let transposed = Multiply { family: "wgmma_sparse", k: 32, selector: Some(0), a: Some(MN_128), ..BRAIN };
    cases.push(case(&transposed));
    cases
}

fn list(name: char, registers: usize) -> String {
    let names: Vec<String> = (0..registers).map(|i| format!("%{name}{i}")).collect();
    format!("{{{}}}", names.join(", "))
}

impl Multiply {
    fn name(&self) -> String {
        let [d, a, b] = self.types;
        let mut words = vec![format!("m64n{}k{}.{d}.{a}.{b}{}", self.n, self.k, self.suffix)];
        words.push(format!("{}.{}", self.a.map_or("registers", |place| place.name), self.b.name));
        words.extend(self.selector.map(|selector| format!("sp{selector}")));
        if self.scales != (1, 1) {
            let sign = |scale: i32| if scale < 0 { "minus" } else { "plus" };
            words.push(format!("{}_{}", sign(self.scales.0), sign(self.scales.1)));
        }
        words.extend((!self.accumulates).then(|| "afresh".to_owned()));
        words.push(self.values.0.to_owned());
        words.join(".")
    }

    /// Registers of the accumulator.
    fn registers(&self) -> usize {
        if self.types[0] == "f16" { self.n / 4 } else { self.n / 2 }
    }

    /// The instruction, whose accumulator is `%d`.
    fn instruction(&self) -> String {
        let [d, a, b] = self.types;
        let floats = d != "s32";
        let mut operands = vec![list('d', self.registers())];
        operands.push(if self.a.is_some() { "%from_a".to_owned() } else { list('a', 4) });
        operands.push("%from_b".to_owned());
        if let Some(selector) = self.selector {
            operands.extend(["%e0".to_owned(), selector.to_string()]);
        }
        operands.push("%accumulates".to_owned());
        if floats {
            operands.extend([self.scales.0.to_string(), self.scales.1.to_string()]);
        }
        if matches!(a, "f16" | "bf16") {
            operands.extend(self.a.map(|place| u32::from(place.transposed).to_string()));
            operands.push(u32::from(self.b.transposed).to_string());
        }
        let sparse = if self.selector.is_some() { ".sp" } else { "" };
        let (n, k, suffix) = (self.n, self.k, self.suffix);
        let operands = operands.join(", ");
        format!("wgmma.mma_async{sparse}.sync.aligned.m64n{n}k{k}.{d}.{a}.{b}{suffix} {operands};")
    }
}

fn case(multiply: &Multiply) -> Case {
    build(multiply, multiply.name(), &multiply.instruction())
}

/// Three multiplies of two groups, of which only the first is waited for before the second's
/// accumulator is.
fn chained() -> Case {
    let instruction = BRAIN.instruction();
    let twice = format!("{instruction}\n{instruction}\nwgmma.commit_group.sync.aligned;\n{instruction}");
    build(&BRAIN, "chained".to_owned(), &twice)
}

fn build(multiply: &Multiply, name: String, instructions: &str) -> Case {
    let threads = CTAS * THREADS;
    let input = |element: Element, position: usize, elements: usize| Input {
        kind: multiply.values.1(element),
        arity: 3,
        position,
        elements,
    };
    let [held, left, right] = multiply.elements;
    let region = CTAS * REGION / 4;
    let registers = multiply.registers();
    let mut case = Case::new(multiply.family, name).target("sm_90a");
    (case.block, case.threads) = (THREADS, threads);
    case = match multiply.a {
        Some(_) => case.operand('s', Width::B32, 0, Buffer::RawInput(input(left, 0, region))),
        None => case.operand('a', Width::B32, 4, Buffer::Input(input(left, 0, 4 * threads))),
    };
    case = case.operand('t', Width::B32, 0, Buffer::RawInput(input(right, 1, region)));
    case = case.operand('c', Width::B32, registers, Buffer::Input(input(held, 2, registers * threads)));
    if multiply.selector.is_some() {
        let kind = if left == Tf32 { Kind::OneOfTwo } else { Kind::TwoOfFour };
        let metadata = Input { kind, arity: 1, position: 0, elements: threads };
        case = case.operand('e', Width::B32, 1, Buffer::Input(metadata));
    }
    let mut body = format!(
        ".shared .align 1024 .b8 left[{REGION}];\n.shared .align 1024 .b8 right[{REGION}];\n\
         .reg .pred %more, %accumulates;\n.reg .b32 %at_shared, %word, %held;\n.reg .b64 %from_a, %from_b, %from;\n"
    );
    if let Some(place) = multiply.a {
        body += &fill("left", 's', "%from_a", place);
    }
    body += &fill("right", 't', "%from_b", multiply.b);
    body += "fence.proxy.async.shared::cta;\nbar.sync 0;\n";
    for register in 0..registers {
        body += &format!("mov.b32 %d{register}, %c{register};\n");
    }
    body += &format!(
        "setp.{}.u32 %accumulates, 0, 0;\nwgmma.fence.sync.aligned;\n{instructions}\n\
         wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;",
        if multiply.accumulates { "eq" } else { "ne" }
    );
    case.output(Width::B32, registers).body(body)
}

/// Copies a CTA's part of a buffer to shared memory, and makes a descriptor of it.
fn fill(region: &str, buffer: char, descriptor: &str, place: Place) -> String {
    let constant = (place.leading as u64 / 16) << 16
        | (place.stride as u64 / 16) << 32
        | place.base << 49
        | place.mode << 62;
    format!(
        "mov.u32 %word, %tid.x;\n\
         mad.lo.u32 %held, %block, {words}, %word;\n\
         mad.wide.u32 %from, %held, 4, %base_{buffer};\n\
         mov.u32 %at_shared, {region};\n\
         mad.lo.u32 %at_shared, %word, 4, %at_shared;\n\
         fill_{region}:\n\
         ld.global.u32 %held, [%from];\n\
         st.shared.u32 [%at_shared], %held;\n\
         add.u64 %from, %from, 512;\n\
         add.u32 %at_shared, %at_shared, 512;\n\
         add.u32 %word, %word, 128;\n\
         setp.lt.u32 %more, %word, {words};\n\
         @%more bra fill_{region};\n\
         mov.u32 %held, {region};\n\
         add.u32 %held, %held, {start};\n\
         shr.u32 %held, %held, 4;\n\
         cvt.u64.u32 {descriptor}, %held;\n\
         or.b64 {descriptor}, {descriptor}, {constant};\n",
        words = REGION / 4,
        start = place.start,
    )
}
