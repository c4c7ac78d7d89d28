use warpwright_emulator::numeric::FloatMode;
use warpwright_emulator::numeric::format::Format as Numbers;
use warpwright_emulator::numeric::{half, single};
use warpwright_gates::Circuit;

use super::Random;

/// Operands: special ones in all pairs, close ones, which cancel, and random bits.
fn cases(width: usize, fraction: usize) -> Vec<Vec<u128>> {
    let (sign, hidden) = (1u64 << (width - 1), 1u64 << fraction);
    let infinity = (sign - 1) & !(hidden - 1);
    let positive = [
        0,
        1,
        2,
        hidden - 1,
        hidden,
        hidden + 1,
        2 * hidden,
        infinity / 2,
        infinity / 2 + 1,
        infinity - 1,
        infinity,
        sign - 1,
    ];
    let special: Vec<u64> = positive.iter().flat_map(|bits| [*bits, bits | sign]).collect();
    let mut pairs: Vec<(u64, u64)> =
        special.iter().flat_map(|a| special.iter().map(move |b| (*a, *b))).collect();
    let mut random = Random(width as u64 + fraction as u64);
    let all = (sign - 1) | sign;
    for _ in 0..20_000 {
        let (a, b) = (random.next() & all, random.next() & all);
        let near = a ^ sign ^ (b >> (width / 2)) ^ (b & hidden);
        pairs.extend([
            (a, b),
            (a, near & all),
            (a & (2 * hidden - 1), b),
            (a, special[b as usize % special.len()]),
        ]);
    }
    pairs.into_iter().map(|(a, b)| vec![a.into(), b.into()]).collect()
}

fn check(name: &str, width: usize, fraction: usize, expected: impl Fn(u32, u32) -> u32) {
    let list = Circuit::named(name).expect("a circuit").netlist();
    let cases = cases(width, fraction);
    for (case, found) in cases.iter().zip(list.simulate(&cases)) {
        let expected = expected(case[0] as u32, case[1] as u32);
        assert_eq!(
            found[0] as u32, expected,
            "{name} {:x} {:x}: {:x}, not {expected:x}",
            case[0], case[1], found[0]
        );
    }
}

#[test]
fn f32_is_the_emulators() {
    check("add-f32", 32, 23, |a, b| single::add(a, b, FloatMode::NEAREST));
    check("multiply-f32", 32, 23, |a, b| single::mul(a, b, FloatMode::NEAREST));
}

#[test]
fn f16_and_bf16_are_the_emulators() {
    let add = |format: Numbers| {
        move |a: u32, b: u32| half::add(format, a as u16, b as u16, FloatMode::NEAREST).into()
    };
    let multiply = |format: Numbers| {
        move |a: u32, b: u32| half::mul(format, a as u16, b as u16, FloatMode::NEAREST).into()
    };
    check("add-f16", 16, 10, add(Numbers::F16));
    check("multiply-f16", 16, 10, multiply(Numbers::F16));
    check("add-bf16", 16, 7, add(Numbers::BF16));
    check("multiply-bf16", 16, 7, multiply(Numbers::BF16));
}
