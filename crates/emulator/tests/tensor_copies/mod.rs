//! Tensor copies against a model that works element by element, at every schedule.

mod golden;
pub(crate) mod machine;
mod model;

use machine::{Case, Copy, TILE_BYTES, device, run};
use warpwright_arch::tensor_map::{Access, Description, ElementType, Fill, Interleave, L2Promotion, Swizzle};
use warpwright_emulator::{FaultKind, Schedule};

/// A small generator (xorshift64*), so that every run tests the same.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        ((self.0.wrapping_mul(0x2545_f491_4f6c_dd1d) >> 32) * bound) >> 32
    }

    fn of<T: Clone>(&mut self, values: &[T]) -> T {
        values[self.below(values.len() as u64) as usize].clone()
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.below(256) as u8).collect()
    }
}

const TYPES: [ElementType; 13] = {
    use ElementType::*;
    [U8, U16, U32, S32, U64, S64, F16, F32, F64, Bf16, F32Ftz, Tf32, Tf32Ftz]
};
const SWIZZLES: [Swizzle; 4] = [Swizzle::None, Swizzle::Bytes32, Swizzle::Bytes64, Swizzle::Bytes128];

/// A map whose tensor fits some 64 KB, and a copy that starts in it or a little outside.
fn random_case(random: &mut Random, copy: Copy) -> Case {
    let element = match copy {
        Copy::Reduce(_) => ElementType::U32,
        _ => random.of(&TYPES),
    };
    let size = u64::from(element.bits() / 8);
    let per_piece = 16 / size;
    let swizzle = random.of(&SWIZZLES);
    let rank = 1 + random.below(5) as usize;
    let most = [0, 4096, 64, 16, 8, 6][rank];
    let mut extents = vec![1 + random.below(most * 2)];
    let mut strides = Vec::new();
    let mut step = (extents[0] * size).next_multiple_of(16) + 16 * random.below(3);
    for _ in 1..rank {
        strides.push(step);
        extents.push(1 + random.below(most / 2 + 2));
        step = step * extents[extents.len() - 1] + 16 * random.below(4);
    }
    let pieces = match swizzle {
        Swizzle::None => (256 / per_piece).min(16),
        other => u64::from(other.span_bytes().expect("a swizzle") / 16),
    };
    let run = (per_piece * (1 + random.below(pieces))) as u32;
    let is_im2col = rank >= 3 && random.below(2) == 0 && !matches!(copy, Copy::Reduce(_));
    let near = |random: &mut Random, extent: u64| random.below(extent + 6) as i32 - 3;
    let mut coordinates: Vec<i32> = extents.iter().map(|&extent| near(random, extent)).collect();
    coordinates[0] = (near(random, extents[0] / per_piece)) * per_piece as i32;
    let element_strides = (0..rank).map(|_| random.of(&[1, 1, 1, 2, 3, 8])).collect();
    let mut offsets = Vec::new();
    let access = if is_im2col {
        let bounds: Vec<(i32, i32)> = (1..rank - 1)
            .map(|axis| {
                let lower = if copy == Copy::Load { random.of(&[0, -1, -2, 1]) } else { 0 };
                let upper = random.of(&[0, -1, 1]).max(lower + 1 - extents[axis] as i32);
                (lower, upper)
            })
            .collect();
        for (axis, (lower, upper)) in (1..).zip(&bounds) {
            let pixels = extents[axis] as i32 + upper - lower;
            coordinates[axis] = lower + random.below(pixels as u64) as i32;
            offsets.push(if copy == Copy::Load { random.below(4) as u16 } else { 0 });
        }
        Access::Im2col {
            lower: bounds.iter().map(|bound| bound.0).collect(),
            upper: bounds.iter().map(|bound| bound.1).collect(),
            channels: run,
            pixels: 1 + random.below(100) as u32,
        }
    } else {
        let mut box_extents = vec![run];
        let most = [0, 1, 64, 12, 6, 4][rank];
        box_extents.extend((1..rank).map(|_| 1 + random.below(most) as u32));
        Access::Tiled { box_extents }
    };
    let map = Description {
        element,
        address: 16 * random.below(3),
        extents,
        strides,
        access,
        element_strides,
        interleave: Interleave::None,
        swizzle,
        l2_promotion: random.of(&L2Promotion::ALL),
        fill: if element.is_float() { random.of(&[Fill::Zeros, Fill::Nan]) } else { Fill::Zeros },
    };
    if copy != Copy::Load {
        // The hardware does not store at negative coordinates.
        coordinates.iter_mut().for_each(|coordinate| *coordinate = (*coordinate).max(0));
    }
    Case { copy, map, coordinates, offsets, tile_offset: 128 * random.below(10) as u32, expected: None }
}

fn bytes_of(map: &Description) -> usize {
    let row = map.extents[0] * u64::from(map.step_bits()) / 8;
    let rest: u64 =
        map.extents[1..].iter().zip(&map.strides).map(|(extent, stride)| (extent - 1) * stride).sum();
    (map.address + row + rest) as usize
}

fn compare(random: &mut Random, case: &Case, schedules: &[Schedule]) {
    let mut device = device();
    let (global, tile) = (random.bytes(bytes_of(&case.map)), random.bytes(TILE_BYTES));
    let (mut global_expected, mut tile_expected) = (global.clone(), tile.clone());
    model::apply(case, &mut global_expected, &mut tile_expected);
    for &schedule in schedules {
        let (global_after, tile_after) = run(&mut device, case, &global, &tile, schedule)
            .unwrap_or_else(|fault| panic!("{fault}\n{case:?}"));
        let differs = |a: &[u8], b: &[u8]| a.iter().zip(b).position(|(a, b)| a != b);
        assert_eq!(differs(&tile_after, &tile_expected), None, "shared memory, {schedule:?}: {case:?}");
        assert_eq!(differs(&global_after, &global_expected), None, "global memory, {schedule:?}: {case:?}");
    }
}

const SCHEDULES: [Schedule; 4] =
    [Schedule::Eager, Schedule::Latest, Schedule::Random(1), Schedule::Random(2)];

#[test]
fn random_loads_are_what_the_model_says() {
    let mut random = Random(1);
    for _ in 0..300 {
        let case = random_case(&mut random, Copy::Load);
        compare(&mut random, &case, &SCHEDULES[..]);
    }
}

/// Without what the hardware does not store, or stores more of than the box (`golden.rs` has such
/// cases).
fn storable(mut case: Case) -> Case {
    case.map.element_strides[0] = 1;
    if let Access::Im2col { upper, .. } = &mut case.map.access {
        upper.iter_mut().for_each(|corner| *corner = (*corner).min(0));
        for (index, corner) in upper.iter().enumerate() {
            let last = case.map.extents[index + 1] as i32 - 1 + corner;
            case.coordinates[index + 1] = case.coordinates[index + 1].min(last);
        }
    }
    case
}

#[test]
fn random_stores_are_what_the_model_says() {
    let mut random = Random(2);
    for _ in 0..200 {
        let case = storable(random_case(&mut random, Copy::Store));
        compare(&mut random, &case, &SCHEDULES[..]);
    }
}

#[test]
fn random_reductions_are_what_the_model_says() {
    let mut random = Random(3);
    for operation in ["add", "min", "max", "inc", "dec", "and", "or", "xor"] {
        for _ in 0..12 {
            let case = storable(random_case(&mut random, Copy::Reduce(operation)));
            compare(&mut random, &case, &SCHEDULES[..]);
        }
    }
}

/// One legal load of each rank, to spoil.
fn load(rank: usize) -> Case {
    let extents = vec![8; rank];
    let box_extents = vec![4; rank];
    let map = Description::row_major(ElementType::F32, 0, &extents, &box_extents);
    Case {
        copy: Copy::Load,
        map,
        coordinates: vec![0; rank],
        offsets: Vec::new(),
        tile_offset: 0,
        expected: None,
    }
}

fn fault(case: &Case, bytes: usize) -> (FaultKind, String) {
    for schedule in SCHEDULES {
        let found = run(&mut device(), case, &vec![0; bytes], &[0; TILE_BYTES], schedule);
        let found = found.map(drop).expect_err("it is wrong");
        if schedule == SCHEDULES[SCHEDULES.len() - 1] {
            return (found.kind, found.to_string());
        }
    }
    unreachable!("there are schedules")
}

#[test]
fn wrong_copies_say_what_is_wrong() {
    let fine = load(2);
    assert!(run(&mut device(), &fine, &[0; 256], &[0; TILE_BYTES], Schedule::Eager).is_ok());
    let check = |case: &Case, bytes: usize, kind: FaultKind, words: &str| {
        let (found, message) = fault(case, bytes);
        assert_eq!(found, kind, "{message}");
        assert!(message.contains(words), "{message}");
        assert!(message.contains("cp.async.bulk.tensor"), "it names the instruction: {message}");
    };
    let case = Case { tile_offset: 64, ..load(2) };
    check(&case, 256, FaultKind::Misaligned, "it must be at a multiple of 128");
    let case = Case { coordinates: vec![1, 0], ..load(2) };
    check(
        &case,
        256,
        FaultKind::IllegalInstruction,
        "starts at element 1 of axis 0; it must start at a multiple of 4",
    );
    check(
        &load(2),
        88,
        FaultKind::OutOfBounds,
        "Row 3 of a tensor copy is inside its tensor, and reads 16 bytes",
    );
    let case = Case { tile_offset: TILE_BYTES as u32, ..load(2) };
    check(
        &case,
        256,
        FaultKind::OutOfBounds,
        "A copy accesses 64 bytes from offset 0x10000 on, which are outside shared memory",
    );
}
