//! Values of `if`, `match` and loops.
use warpwright_lang::{Reg, kernel};

#[kernel]
fn of_branches(a: u32, x: f32) {
    let name = if a < 3 { "small" } else { "large" };
    let y = if a < 3 { a } else { x };
}

#[kernel]
fn of_match(a: u32) {
    let y = match a {
        0 => 1,
        1 => 2,
    };
}

#[kernel]
fn of_for(a: u32) {
    for i in 0..a {
        break i;
    }
}

#[kernel]
fn by_cast(a: u32) {
    let i = a as usize;
    let table = [1, 2, 3];
    let y = table[a as usize];
    let s = String::new() as u32;
}

#[kernel]
fn on_the_host(a: u32) {
    assert!(a < 3);
    assert_eq!(1, a);
    println!("{}", a);
    println!("{a}");
    let text = format!("{:?}", a);
    println!("{}", a < 3);
}

fn without_the_attribute(a: Reg<u32>) -> Reg<u32> {
    if a == 1 { a } else { a + 1 }
}

fn smaller_without_the_attribute(a: Reg<f32>, b: Reg<f32>) -> Reg<f32> {
    if a < b { a } else { b }
}

#[kernel]
fn reduces_floats(x: f32) {
    let y = x.warp_sum(warpwright_lang::warp::ALL_LANES);
    if y < 3.0 {
        return 1;
    }
}

fn main() {}
