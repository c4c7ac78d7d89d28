//! Ranges that the device cannot count.
use warpwright_lang::kernel;

#[kernel]
fn ranges(a: u32, b: i32, x: f32) {
    let size: usize = 3;
    for i in a..b {}
    for i in 0..x {}
    for i in size..a {}
    for i in (0..a).step_by(size) {}
    for i in a {}
    let range = 0..a;
}

fn main() {}
