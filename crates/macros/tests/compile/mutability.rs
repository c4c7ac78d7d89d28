//! Variables that lack their `mut`; those that have it are no cause of warnings.
#![deny(unused_mut)]
use warpwright_lang::pointer::Global;
use warpwright_lang::value::constant;
use warpwright_lang::{DeviceValue, Reg, device, kernel};

#[derive(Clone, Copy, DeviceValue)]
struct State {
    count: Reg<u32>,
    sum: Reg<f32>,
}

#[kernel]
fn forgotten(n: u32, output: &mut Global<u32>) {
    let total = constant(0u32);
    for i in 0..n {
        total += i;
    }
    let (a, b) = (n, constant(0u32));
    while b < n {
        b += a;
    }
    let last = n;
    if n < 3 {
        last = a;
    }
    n += 1;
    output[n] = total + last;
}

#[device]
fn forgotten_struct(x: Reg<f32>, n: Reg<u32>) -> Reg<f32> {
    let state = State { count: n, sum: x };
    for i in 0..n {
        state.sum += x;
        state.count += i;
    }
    state.sum
}

#[device]
fn declared((mut a, b): (Reg<u32>, Reg<u32>), state: &mut State) -> Reg<u32> {
    let (mut sum, mut product) = (a, b);
    for i in 0..b {
        sum += i;
        product *= i;
    }
    for (mut i, j) in [(sum, product)] {
        i += j;
        a += i;
    }
    if let Some(mut last) = Some(a) {
        last += 1;
        state.count = last;
    }
    let add = |(mut x, y): (Reg<u32>, Reg<u32>)| {
        x += y;
        x
    };
    add((a, b))
}

fn main() {}
