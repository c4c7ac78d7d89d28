//! Prints what a matrix multiply costs: `cargo run --release -p warpwright-emulator --example matrix`.

use std::hint::black_box;
use std::time::Instant;

use warpwright_emulator::tensor::accumulate::IntegerSum;
use warpwright_emulator::tensor::element::Element;
use warpwright_emulator::tensor::half_multiply::{self, Half};
use warpwright_emulator::tensor::multiply::{Multiply, Types};
use warpwright_emulator::tensor::{Order, Shape};

/// The shortest of many runs of a thousand, for one.
fn nanoseconds(mut work: impl FnMut()) -> f64 {
    let best = (0..50).map(|_| {
        let start = Instant::now();
        (0..1000).for_each(|_| work());
        start.elapsed().as_secs_f64()
    });
    best.fold(f64::INFINITY, f64::min) * 1e6
}

fn main() {
    let register = |seed: u32| std::array::from_fn(|lane| 0x3f80_3f81 ^ (seed * 77 + lane as u32) << 4);
    let registers: Vec<[u32; 32]> = (0..16).map(register).collect();
    let r = |index: usize| &registers[index];
    for (name, half) in [("f16", Half::F16), ("bf16", Half::Bf16)] {
        let mut sums = [[0; 32]; 4];
        let time = nanoseconds(|| {
            let [c0, c1, c2, c3] = &sums;
            sums =
                half_multiply::multiply(half, [[r(0), r(1)], [r(2), r(3)]], [r(4), r(5)], [c0, c1, c2, c3]);
        });
        println!("m16n8k16.f32.{name}  {time:7.1} ns");
        black_box(sums);
    }
    for (word, element, accumulator) in [
        ("m16n8k16", Element::F16, Element::F16),
        ("m16n8k8", Element::Tf32, Element::F32),
        ("m16n8k32", Element::E4m3, Element::F32),
        ("m16n8k32", Element::S8, Element::S32),
    ] {
        let shape = Shape::from_word(word).expect("the word is a shape");
        let types = Types { d: accumulator, a: element, b: element, c: accumulator };
        let multiply = Multiply::dense(shape, types, (Order::Row, Order::Column), IntegerSum::Wrapping)
            .expect("the multiply exists");
        let mut d = vec![[0; 32]; multiply.fragments().d.registers()];
        let time =
            nanoseconds(|| multiply.words(&registers, &registers, &registers, None, black_box(&mut d)));
        println!("{word}.{}.{}  {time:7.1} ns", accumulator.word(), element.word());
    }
}
