//! Conditions that are none.
use warpwright_lang::{Reg, kernel};

#[kernel]
fn conditions(n: u32, x: f32) {
    if n {}
    while n {}
    if n < 3 && n {}
    let either = x || n < 2;
    if n - 1 {}
}

#[kernel]
fn chain_of_lets(n: u32) {
    let some = Some(3u32);
    if let Some(y) = some
        && n < 3
    {
        let z = n + y;
    }
}

fn not_attributed(a: Reg<u32>, b: Reg<u32>) -> Reg<u32> {
    if a < b { a } else { b }
}

fn main() {}
