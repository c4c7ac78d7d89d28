//! The CuTe DSL tutorial, in Rust: hello, divides, and an addition grown into vectors. The chapter
//! is `book/src/toolchain/cute_dsl.md`.

use std::error::Error;
use std::io::Write;

use warpwright::lang::pointer::{In, Out};
use warpwright::prelude::*;
use warpwright::runtime::Device;

const GREETING: &[u8] = b"hello from gpu";

/// Thread 0 says hello.
#[kernel]
fn hello(message: &mut Global<u8>) {
    launch::threads(32);
    if thread_idx().x == 0 {
        for (place, letter) in GREETING.iter().enumerate() {
            message[place] = *letter;
        }
    }
}

/// The matrices of the additions: (m, n), row-major.
const M: u32 = 64;
const N: u32 = 128;
const THREADS: u32 = 128;
/// Elements that a thread of the second addition moves at once.
const VECTOR: u32 = 4;

/// C = A + B: a thread an element.
#[kernel]
fn add(a: &Global<f32>, b: &Global<f32>, c: &mut Global<f32>) {
    launch::threads(THREADS);
    let index = block_idx().x * THREADS + thread_idx().x;
    let matrix = |pointer| Tensor::with_layout(pointer, Layout::row_major((M, N)));
    let (a, b, c) = (matrix(*a), matrix(*b), matrix(*c));
    let at = (index / N, index % N);
    c.set(at, a.get(at) + b.get(at));
}

/// C = A + B: a thread a vector, which is a tile of (1, 4).
#[kernel]
fn add_vectors(a: &Global<f32>, b: &Global<f32>, c: &mut Global<f32>) {
    launch::threads(THREADS);
    let index = block_idx().x * THREADS + thread_idx().x;
    let columns = N / VECTOR;
    let tile = |pointer| {
        let matrix = Layout::row_major((M, N)).and_then(|matrix| matrix.zipped_divide((1, VECTOR)));
        Tensor::with_layout(pointer, matrix).slice((All, (index / columns, index % columns)))
    };
    let (a, b, c) = (tile(*a), tile(*b), tile(*c));
    let (a, b) = (a.get_vector::<4>(0), b.get_vector::<4>(0));
    c.set_vector(0, [a[0] + b[0], a[1] + b[1], a[2] + b[2], a[3] + b[3]]);
}

/// Adds matrices on the device, and prints what it took.
fn show(
    device: &Device,
    out: &mut dyn Write,
    kernel: Kernel<(In<f32>, In<f32>, Out<f32>)>,
    elements_of_thread: u32,
) -> Result<(), Box<dyn Error>> {
    let elements = M * N;
    let a: Vec<f32> = (0..elements).map(|index| index as f32).collect();
    let b: Vec<f32> = (0..elements).map(|index| (index % 7) as f32).collect();
    let mut c = device.uninitialized::<f32>(elements as usize)?;
    let grid = elements / elements_of_thread / THREADS;
    let (a_there, b_there) = (device.buffer_from(&a)?, device.buffer_from(&b)?);
    device.compile(&kernel)?.launch(&device.stream()?, grid, (&a_there, &b_there, &mut c))?;
    let right = c.to_vec()?.iter().zip(a.iter().zip(&b)).all(|(c, (a, b))| *c == a + b);
    if !right {
        return Err(format!("{} adds wrongly", kernel.name()).into());
    }
    let text = warpwright::runtime::ptx(&kernel, device.properties().capability)?;
    let opcodes = text.lines().filter_map(|line| line.split_whitespace().next());
    let memory: Vec<&str> =
        opcodes.filter(|op| op.starts_with("ld.global") || op.starts_with("st.global")).collect();
    Ok(writeln!(out, "{:<11} {grid:>2} CTAs, each thread: {}", kernel.name(), memory.join(", "))?)
}

pub(crate) fn lesson(device: &Device, out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let mut message = device.zeros::<u8>(GREETING.len())?;
    device.compile(&hello()?)?.launch(&device.stream()?, 1, (&mut message,))?;
    let message = message.to_vec()?;
    if message != GREETING {
        return Err("the device said something else".into());
    }
    writeln!(out, "{}\n", String::from_utf8(message)?)?;

    let layout = Layout::column_major((8, 8))?;
    writeln!(out, "layout           {layout:#}")?;
    writeln!(out, "logical_divide   {:#}", layout.logical_divide((2, 4))?)?;
    writeln!(out, "zipped_divide    {:#}", layout.zipped_divide((2, 4))?)?;
    writeln!(out, "  one tile       {:#}", layout.zipped_divide((2, 4))?.mode(0)?)?;
    writeln!(out, "  grid of tiles  {:#}\n", layout.zipped_divide((2, 4))?.mode(1)?)?;

    show(device, out, add()?, 1)?;
    show(device, out, add_vectors()?, VECTOR)
}

fn main() -> Result<(), Box<dyn Error>> {
    lesson(&Device::default()?, &mut std::io::stdout())
}
