use warpwright_arch::DataType;
use warpwright_emulator::numeric::format::Format;
use warpwright_emulator::tensor::Shape;
use warpwright_emulator::tensor::accumulate::{FloatSum, result_bits};
use warpwright_emulator::tensor::tile::Tile;
use warpwright_gates::Circuit;
use warpwright_gates::tensor_core::SIDE;

use super::Random;

/// The emulator's D: its tiles have eight columns, of which four are used here.
fn expected(case: &[u128]) -> Vec<u128> {
    let (a, rest) = case.split_at(SIDE * SIDE);
    let (b, c) = rest.split_at(SIDE * SIDE);
    let left = a.iter().map(|bits| Format::F16.decode(*bits as u32)).collect();
    let (mut right, mut addend) = (Tile::zeros(SIDE, 8), Tile::zeros(SIDE, 8));
    for place in 0..SIDE * SIDE {
        let (row, column) = (place / SIDE, place % SIDE);
        right.set(row, column, Format::F16.decode(b[place] as u32));
        addend.set(row, column, f64::from(f32::from_bits(c[place] as u32)));
    }
    let sum = FloatSum::of(Shape::new(16, 8, 16), DataType::F16, DataType::F32);
    let d = sum.multiply(&Tile::from_rows(SIDE, left), &right, &addend);
    (0..SIDE * SIDE)
        .map(|place| result_bits(DataType::F32, d.get(place / SIDE, place % SIDE)).into())
        .collect()
}

#[test]
fn the_tensor_core_is_the_emulators() {
    let list = Circuit::named("tensor-core").expect("a circuit").netlist();
    let mut random = Random(7);
    let mut case = |kind: u64| -> Vec<u128> {
        let half = |random: &mut Random| match kind {
            0 => random.next() & 0xffff,
            // Numbers from 2^-2 to 2^2, and sparse special ones.
            1 => (random.next() & 0x8fff) | 0x3000,
            2 => random.next() & 0x83ff,
            _ => match random.next() % 16 {
                0 => 0x7c00,
                1 => 0xfc00,
                2 => 0x7e01,
                3..8 => random.next() & 0x8000,
                _ => random.next() & 0xbfff,
            },
        };
        let single = |random: &mut Random| match kind {
            0 => random.next() & 0xffff_ffff,
            1 => (random.next() & 0x83ff_ffff) | 0x3c00_0000,
            2 => random.next() & 0x80ff_ffff,
            _ => [0, 0x8000_0000, 0x7f80_0000, 0x7f7f_ffff, 0xff7f_ffff, 1][random.next() as usize % 6],
        };
        let halves: Vec<u128> = (0..2 * SIDE * SIDE).map(|_| half(&mut random).into()).collect();
        let singles = (0..SIDE * SIDE).map(|_| single(&mut random).into()).collect();
        [halves, singles].concat()
    };
    let cases: Vec<Vec<u128>> = (0..2048).map(|number| case(number % 4)).collect();
    for (case, found) in cases.iter().zip(list.simulate(&cases)) {
        assert_eq!(found, expected(case), "{case:x?}");
    }
}
