//! Products that `wgmma` reads from canonical tiles of shared memory, by the descriptors that the
//! algebra derives: every swizzle, every major-ness that the type has, an operand that does not
//! begin where its tile does.

use crate::hardware::Check;
use crate::hardware::case::{Case, Registers, copy, declare, load, store};
use crate::hardware::elements::{Matrix, accumulator_bits, places, put};
use crate::hardware::multiply::registers;
use warpwright_arch::DataType;
use warpwright_layout::ComposedLayout;
use warpwright_layout::atom::{Major, MmaAtom, Operand, SharedDescriptor, SharedSwizzle, SharedTile};

const THREADS: usize = 128;

/// One operand in shared memory.
struct InShared {
    /// The whole tile.
    tile: ComposedLayout,
    /// The part of it that the instruction reads, and its first row and column.
    descriptor: SharedDescriptor,
    origin: (i64, i64),
}

impl InShared {
    /// The last operand of (`rows`, `depth`) elements in a tile of two by at least two of them.
    fn new(tile: SharedTile, rows: i64, depth: i64) -> InShared {
        let run = tile.swizzle.span_bytes() * 8 / tile.element_bits;
        let (mut tall, mut deep) = (2 * rows, 2 * depth);
        match tile.major {
            Major::K => deep = deep.max(2 * run),
            Major::Mn => tall = tall.max(2 * run),
        }
        let whole = tile.fill((tall, deep)).expect("the block divides its multiples");
        let last = (tall / rows - 1, deep / depth - 1);
        let operand = whole.local_tile((rows, depth), &last.into()).expect("the operand divides the tile");
        let descriptor = SharedDescriptor::of_operand(&operand, tile.major, tile.element_bits)
            .expect("tiles that SharedTile fills are canonical");
        InShared { tile: whole, descriptor, origin: (last.0 * rows, last.1 * depth) }
    }

    /// The tile's bytes, when the operand is `matrix` and the rest of the tile its continuation.
    fn bytes(&self, matrix: &Matrix, element: DataType) -> Vec<u8> {
        let bits = element.bits() as usize;
        let offsets = self.tile.offsets().expect("known");
        let rows = self.tile.inner().mode(0).and_then(|mode| mode.known_size("a tile")).expect("known");
        let mut bytes = vec![0; offsets.len() * bits / 8];
        for (index, offset) in offsets.into_iter().enumerate() {
            let (row, column) = (index as i64 % rows, index as i64 / rows);
            put(&mut bytes, offset as usize * bits, bits, matrix.bits(row, column));
        }
        bytes
    }

    /// Text that makes the descriptor of an operand whose tile begins `start` bytes into shared
    /// memory.
    fn describe(&self, name: &str, start: usize) -> String {
        format!(
            "{{\n.reg .b32 %at;\nadd.u32 %at, %shared, {};\nshr.u32 %at, %at, 4;\nand.b32 %at, %at, 0x3fff;\n\
             cvt.u64.u32 {name}, %at;\nor.b64 {name}, {name}, {:#x};\n}}\n",
            start as i64 + self.descriptor.start_bytes,
            self.descriptor.bits()
        )
    }
}

pub(crate) fn checks() -> Vec<Check> {
    let mut checks = Vec::new();
    let both = [Major::K, Major::Mn];
    for swizzle in SharedSwizzle::ALL {
        for (a, b) in both.into_iter().flat_map(|a| both.map(|b| (a, b))) {
            checks.push(check("SM90_64x64x16_F32F16F16_SS", (a, swizzle), (b, swizzle)));
        }
        checks.push(check("SM90_64x64x16_F32BF16BF16_RS", (Major::K, swizzle), (Major::Mn, swizzle)));
        for name in [
            "SM90_64x64x16_F16F16F16_RS",
            "SM90_64x16x8_F32TF32TF32_SS",
            "SM90_64x16x8_F32TF32TF32_RS",
            "SM90_64x16x32_F32E4M3E5M2_SS",
            "SM90_64x16x32_F32E5M2E4M3_RS",
            "SM90_64x16x32_S32S8U8_SS",
            "SM90_64x16x32_S32U8S8_RS",
            "SM90_64x16x256_S32U1U1_SS",
        ] {
            checks.push(check(name, (Major::K, swizzle), (Major::K, swizzle)));
        }
    }
    // Operands of different swizzles, and the narrowest and the widest instruction.
    let (narrow, wide) = (SharedSwizzle::Bytes32, SharedSwizzle::Bytes128);
    checks.push(check("SM90_64x64x16_F32F16F16_SS", (Major::K, wide), (Major::Mn, narrow)));
    checks.push(check("SM90_64x8x16_F32F16F16_SS", (Major::Mn, SharedSwizzle::None), (Major::K, wide)));
    checks.push(check("SM90_64x256x16_F32F16F16_SS", (Major::K, wide), (Major::Mn, wide)));
    checks
}

fn check(atom: &str, a: (Major, SharedSwizzle), b: (Major, SharedSwizzle)) -> Check {
    let name = format!("{atom} A {:?} {:?}, B {:?} {:?}", a.0, a.1, b.0, b.1);
    let atom = MmaAtom::named(atom).expect("a row of the table");
    let tile = |(major, swizzle): (Major, SharedSwizzle), element: DataType| SharedTile {
        major,
        swizzle,
        element_bits: element.bits().into(),
    };
    let (m, n, k) = atom.shape;
    let left = atom.a_from_shared.then(|| InShared::new(tile(a, atom.a), m, k));
    let right = InShared::new(tile(b, atom.b), n, k);
    let (a_values, b_values) = (Matrix::new(atom.a, 1), Matrix::new(atom.b, 2));

    let a_bytes = left.as_ref().map_or(Vec::new(), |left| left.bytes(&a_values, atom.a));
    let b_start = a_bytes.len().next_multiple_of(1024);
    let mut input = a_bytes;
    input.resize(b_start, 0);
    input.extend(right.bytes(&b_values, atom.b));
    let shared_bytes = input.len();

    let a_registers = registers(&atom, Operand::A);
    let a_origin = left.as_ref().map_or((0, 0), |left| left.origin);
    if left.is_none() {
        let (rows, bits) = (atom.tile(Operand::A).0, atom.a.bits() as usize);
        let mut held = vec![0; THREADS * a_registers.bytes()];
        for (thread, value, place) in places(&atom.thread_values(Operand::A).expect("known")) {
            let element = a_values.bits(place % rows, place / rows);
            put(&mut held, 8 * thread * a_registers.bytes() + value * bits, bits, element);
        }
        input.extend(held);
    }

    let d = registers(&atom, Operand::D);
    let mut expected = vec![0; THREADS * d.bytes()];
    let bits = atom.d.bits() as usize;
    for (thread, value, place) in places(&atom.thread_values(Operand::D).expect("known")) {
        let (row, column) = (place % m, place / m);
        let one = |at: i64| {
            a_values.value(a_origin.0 + row, a_origin.1 + at)
                * b_values.value(right.origin.0 + column, right.origin.1 + at)
        };
        let sum = (0..k).map(one).sum::<i64>();
        put(&mut expected, 8 * thread * d.bytes() + value * bits, bits, accumulator_bits(atom.d, sum));
    }

    let (a_operand, a_text) = match &left {
        Some(left) => ("%left".to_owned(), left.describe("%left", 0)),
        None => (a_registers.list(), load(&[a_registers], shared_bytes)),
    };
    let body = format!(
        ".reg .b64 %left, %right;\n{}fence.proxy.async.shared::cta;\nbar.sync 0;\n{}{a_text}{}\
         wgmma.fence.sync.aligned;\n{} {}, {a_operand}, %right, {};\n\
         wgmma.commit_group.sync.aligned;\nwgmma.wait_group.sync.aligned 0;\n{}",
        copy(true, THREADS, shared_bytes),
        right.describe("%right", b_start),
        declare(Registers { name: 'd', ..d }),
        atom.instruction(),
        d.list(),
        modifiers(&atom, a.0, b.0),
        store(d)
    );
    let case =
        Case { name, threads: THREADS, shared_bytes, input, output_bytes: expected.len(), map: None, body };
    Check { case, expected }
}

/// What follows the operands: scale-d, the signs of A and B, and for 16-bit types whether each is
/// transposed.
fn modifiers(atom: &MmaAtom, a: Major, b: Major) -> String {
    let transposed = |major: Major| u8::from(major == Major::Mn);
    match (atom.a, atom.a_from_shared) {
        (DataType::F16 | DataType::Bf16, true) => format!("0, 1, 1, {}, {}", transposed(a), transposed(b)),
        (DataType::F16 | DataType::Bf16, false) => format!("0, 1, 1, {}", transposed(b)),
        (DataType::S8 | DataType::U8 | DataType::B1, _) => "0".into(),
        _ => "0, 1, 1".into(),
    }
}
