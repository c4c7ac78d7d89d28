//! Signatures that no kernel has.
use warpwright_lang::pointer::Global;
use warpwright_lang::{DeviceValue, device, kernel};

#[kernel]
fn returns_a_value(a: u32) -> u32 {
    a
}

#[kernel]
fn takes_a_slice(a: &[f32]) {
    let x = a[0] + 1.0;
}

#[kernel]
fn takes_a_slice_to_write(a: &mut [f32], n: u32) {
    a[n] = 1.0;
}

#[kernel]
fn takes_a_size(n: usize) {}

#[kernel]
fn takes_sizes(n: &Global<usize>) {}

#[kernel]
fn takes_a_vector(a: Vec<f32>) {}

#[kernel]
fn takes_an_array_by_reference(a: &[f32; 3]) {}

#[kernel]
fn takes_a_pointer(a: *mut f32) {}

#[kernel]
fn takes_text(a: &str) {}

enum Mode {
    Fast,
}

#[kernel]
fn takes_an_enum(mode: Mode, n: u32) {
    match mode {
        Mode::Fast => {}
    }
}

#[kernel]
fn takes_an_option(n: Option<u32>) {
    if let Some(n) = n {}
}

#[kernel]
fn fails(n: u32) {
    let width = Err::<u32, String>("no width".to_owned())?;
}

fn launches() {
    takes_a_slice_to_write().unwrap().name();
}

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
