//! Signatures that no kernel has.
use warpwright_lang::{DeviceValue, device, kernel};

#[kernel]
fn returns_a_value(a: u32) -> u32 {
    a
}

#[kernel]
fn takes_a_slice(a: &[f32]) {}

#[kernel]
fn takes_a_size(n: usize) {}

#[kernel]
fn takes_a_vector(a: Vec<f32>) {}

#[kernel]
fn takes_a_pair((a, b): (u32, u32)) {}

#[kernel]
fn takes_anything(a: impl Copy) {}

#[kernel]
async fn is_asynchronous() {}

#[kernel]
const fn is_constant() {}

#[kernel(threads = 256)]
fn has_arguments() {}

#[kernel]
struct NoFunction;

#[device(inline)]
fn has_arguments_too() {}

#[device]
struct NoFunctionEither;

#[device]
const fn constant_helper() {}

#[device]
fn waits() {
    let ready = async { 3 };
}

#[derive(DeviceValue)]
enum Either {
    Left,
    Right,
}

fn main() {}
