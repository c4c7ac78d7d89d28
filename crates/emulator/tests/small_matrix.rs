//! `mma` of sm_120a: of floats of 4 to 8 bits, and with scales of blocks. There was no such GPU:
//! results are held to the PTX ISA's words, and to sums that are exact.

use crate::common::{floats, kernel, run, shape, words};

/// A type: its name, its bits, the bits before it in a byte, and the bits of small numbers.
#[derive(Clone, Copy)]
struct Small {
    name: &'static str,
    width: u32,
    below: u32,
    fraction: u32,
    bias: u32,
}

const E2M1: Small = Small { name: "e2m1", width: 4, below: 2, fraction: 1, bias: 1 };
const E2M3: Small = Small { name: "e2m3", width: 6, below: 0, fraction: 3, bias: 1 };
const E3M2: Small = Small { name: "e3m2", width: 6, below: 0, fraction: 2, bias: 3 };
const E4M3: Small = Small { name: "e4m3", width: 8, below: 0, fraction: 3, bias: 7 };
const E5M2: Small = Small { name: "e5m2", width: 8, below: 0, fraction: 2, bias: 15 };

impl Small {
    fn bits(self, value: i32) -> u32 {
        let magnitude = value.unsigned_abs();
        let bits = match magnitude {
            0 => 0,
            _ => {
                ((magnitude as f32).to_bits() >> (23 - self.fraction)) - ((127 - self.bias) << self.fraction)
            }
        };
        bits | u32::from(value < 0) << (self.width - 1)
    }
}

/// Small numbers that A and B consist of.
fn element(seed: usize, row: usize, step: usize) -> i32 {
    ((row * 31 + step * 17 + seed * 7 + row * step) % 7) as i32 - 3
}

/// The scale of a block of a row of A (`side` 0) or a column of B, and its byte.
fn scale(is_float: bool, side: usize, index: usize, block: usize) -> (f64, u8) {
    let choice = (index * 5 + block * 3 + side) % 3;
    match is_float {
        true => [(0.5, 0x30), (1.0, 0x38), (1.5, 0x3c)][choice],
        false => [(0.5, 126), (1.0, 127), (4.0, 129)][choice],
    }
}

/// The kind, its words, the types of A and B, and with scales: the elements of a block, the type, and
/// the places of A's and B's scales.
type Case = (&'static str, [Small; 2], Option<(usize, &'static str, [[usize; 2]; 2])>);

const CASES: [Case; 8] = [
    ("kind::f8f6f4", [E2M1, E3M2], None),
    ("kind::f8f6f4", [E2M3, E4M3], None),
    ("kind::mxf8f6f4.block_scale.scale_vec::1X", [E4M3, E5M2], Some((32, "ue8m0", [[0, 0], [0, 0]]))),
    ("kind::mxf8f6f4.block_scale", [E2M1, E2M3], Some((32, "ue8m0", [[3, 1], [2, 3]]))),
    ("kind::mxf4.block_scale.scale_vec::2X", [E2M1; 2], Some((32, "ue8m0", [[2, 1], [0, 2]]))),
    ("kind::mxf4.block_scale", [E2M1; 2], Some((32, "ue8m0", [[0, 0], [2, 1]]))),
    ("kind::mxf4nvf4.block_scale.scale_vec::2X", [E2M1; 2], Some((32, "ue8m0", [[0, 0], [0, 0]]))),
    ("kind::mxf4nvf4.block_scale.scale_vec::4X", [E2M1; 2], Some((16, "ue4m3", [[0, 1], [0, 3]]))),
];

/// The columns of the elements of a row of A that are stored, in order, and the row's metadata: two of
/// four elements, or pairs of elements.
fn positions(row: usize, depth: usize, is_packed: bool) -> (Vec<usize>, u64) {
    let size = if is_packed { 2 } else { 1 };
    let (mut columns, mut metadata) = (Vec::new(), 0);
    for group in 0..depth / (4 * size) {
        let choice = (row * 7 + group * 5 + row * group) % 6;
        let places = [[0, 1], [0, 2], [0, 3], [1, 2], [1, 3], [2, 3]][choice];
        metadata |= ((places[0] | places[1] << 2) as u64) << (4 * group);
        for place in places {
            columns.extend((0..size).map(|at| (4 * group + place) * size + at));
        }
    }
    (columns, metadata)
}

#[test]
fn every_kind_multiplies() {
    for ((number, case), is_sparse) in
        CASES.into_iter().enumerate().flat_map(|case| [(case, false), (case, true)])
    {
        multiplies(number, case, is_sparse);
    }
}

fn multiplies(number: usize, (kind, types, scales): Case, is_sparse: bool) {
    let is_packed = kind.contains("mxf4");
    let (stored, each, width) = if is_packed { (64, 8, 4) } else { (32, 4, 8) };
    let fold = if is_sparse { 2 } else { 1 };
    let depth = fold * stored;
    let register = |side: usize, row: usize, first: usize| -> u32 {
        (0..each)
            .map(|part| {
                let bits = types[side].bits(element(side + 1, row, first + part));
                let below = if is_packed { 0 } else { types[side].below };
                bits << (width * part as u32 + below)
            })
            .sum()
    };
    // Sparse rows have as many scales, of longer blocks.
    let scales = scales.map(|(block, ty, places)| (fold * block, ty, places));
    let mut given = Vec::new();
    for lane in 0..32usize {
        let (row, quarter) = (lane / 4, lane % 4 * each);
        given.extend((0..4).map(|r| register(0, row + r % 2 * 8, quarter + r / 2 * 4 * each)));
        given.extend((0..4).map(|r| if r < 2 * fold { register(1, row, quarter + r * 4 * each) } else { 0 }));
        let (_, metadata) = positions(row + lane % 2 * 8, depth, is_packed);
        given.push((metadata >> (lane % 4 / 2 * 32)) as u32);
        for side in 0..2 {
            let Some((block, ty, places)) = scales else {
                given.push(0);
                continue;
            };
            let [byte, lanes] = places[side];
            // Lanes without scales have a NaN.
            let mut word = [0xff; 4];
            let has_scales = if side == 0 { lane % 4 / 2 == lanes } else { lane % 4 == lanes };
            if has_scales {
                let index = if side == 0 { row + lane % 2 * 8 } else { row };
                for at in 0..depth / block {
                    word[byte + at] = scale(ty == "ue4m3", side, index, at).1;
                }
            }
            given.push(u32::from_le_bytes(word));
        }
        given.push(0);
    }
    let stype = scales.map_or(String::new(), |(_, ty, _)| format!(".{ty}"));
    let operands = scales.map_or(String::new(), |(.., [[a, b], [c, d]])| {
        format!(", {{%r19}}, {{{a}, {b}}}, {{%r20}}, {{{c}, {d}}}")
    });
    let shape_word = format!("m16n8k{depth}");
    let name = match number % 2 {
        0 => format!("{shape_word}.row.col.{kind}"),
        _ => format!("{kind}.{shape_word}.row.col"),
    };
    let (sp, b, metadata) = match is_sparse {
        true => (".sp::ordered_metadata", "%r14, %r15, %r16, %r17", ", %r18, 0"),
        false => ("", "%r14, %r15", ""),
    };
    let body = format!(
        "mul.wide.u32 %d0, %t, 48; add.u64 %p1, %p1, %d0;
        ld.global.v4.u32 {{%r10, %r11, %r12, %r13}}, [%p1]; ld.global.v4.u32 {{%r14, %r15, %r16, %r17}}, [%p1+16];
        ld.global.v4.u32 {{%r18, %r19, %r20, %r21}}, [%p1+32];
        mov.f32 %f0, 0f3F800000;
        mma{sp}.sync.aligned.{name}.f32.{}.{}.f32{stype} {{%f1, %f2, %f3, %f4}}, {{%r10, %r11, %r12, %r13}},
            {{{b}}}, {{%f0, %f0, %f0, %f0}}{metadata}{operands};
        mul.wide.u32 %d0, %t, 16; add.u64 %p0, %p0, %d0; st.global.v4.f32 [%p0], {{%f1, %f2, %f3, %f4}};",
        types[0].name, types[1].name,
    );
    let text = kernel(2, &body).replace("sm_90a", "sm_120a");
    let finished = run(&text, shape(1, 32), &[floats([0.0; 128]), words(given)]);
    for (at, found) in finished.floats(0).iter().enumerate() {
        let (lane, r) = (at / 4, at % 4);
        let (row, column) = (lane / 4 + r / 2 * 8, lane % 4 * 2 + r % 2);
        let columns = if is_sparse { positions(row, depth, is_packed).0 } else { (0..depth).collect() };
        let product = |(index, step): (usize, usize)| {
            let factor = scales.map_or(1.0, |(block, ty, _)| {
                let of = |side, index| scale(ty == "ue4m3", side, index, step / block).0;
                of(0, row) * of(1, column)
            });
            factor * f64::from(element(1, row, index) * element(2, column, step))
        };
        let expected = 1.0 + columns.into_iter().enumerate().map(product).sum::<f64>();
        assert_eq!(f64::from(*found), expected, "row {row}, column {column} of {kind}, sparse: {is_sparse}");
    }
}
