//! Bodies that are no Rust: the compiler's own message, and no other.
use warpwright_lang::pointer::Global;
use warpwright_lang::{Reg, device, kernel};

#[kernel]
fn lacks_a_semicolon(y: &mut Global<f32>, n: u32) {
    let first = y[n]
    for i in 0..n {
        if i < n {
            y[i] = first;
        }
    }
}

struct Tile;

#[device]
impl Tile {
    fn chains_comparisons(&self, h: Reg<u32>, w: Reg<u32>) -> Reg<bool> {
        h < w & w < 5
    }
}

#[device]
fn lacks_an_operand(x: Reg<u32>) -> Reg<u32> {
    x *
}

fn main() {
    let _ = lacks_a_semicolon();
}
