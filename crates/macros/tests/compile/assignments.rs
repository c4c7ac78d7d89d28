//! Assignments of values that do not fit.
use warpwright_lang::pointer::Global;
use warpwright_lang::kernel;

#[kernel]
fn assignments(a: u32, x: f32, output: &mut Global<f32>) {
    let mut sum = 0.0f32;
    sum += x;
    let mut y = a;
    y = x;
    y = 1.5;
    y += 1.5;
    output[0] = a;
    output[x] = 1.0;
    output[0] += a;
}

#[kernel]
fn later(a: u32) {
    let y;
    if a < 3 {
        y = a;
    } else {
        y = 3;
    }
}

#[kernel]
fn patterns(a: u32) {
    let mut pair = Some(a);
    Some(pair) = None;
}

fn main() {}
