//! Comparisons of things that do not compare.
use warpwright_lang::kernel;

#[kernel]
fn of_two_types(a: u32, b: i32, x: f32) {
    let size: usize = 3;
    if a < b {}
    if a == size {}
    if x > 1 {}
    if 2.0 != a {}
    if "small" < 3 {}
}

fn main() {}
