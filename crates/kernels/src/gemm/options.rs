//! What the GEMMs of the command line have in common: options of types and orders, and the matrices that they are about.

use warpwright::runtime::cublas;
use warpwright::runtime::{Buffer, Device, Storable};

use super::Order;
use super::batched::Batch;
use crate::reference::{Rounded, normal};
use crate::registry::{OptionSpec, Options, Result};

/// An order, as cuBLASLt is told of it.
pub(super) fn cublas_order(order: Order) -> cublas::Order {
    match order {
        Order::RowMajor => cublas::Order::RowMajor,
        Order::ColumnMajor => cublas::Order::ColumnMajor,
    }
}

/// The matrices of one product.
pub(super) struct Buffers<A, B, C> {
    pub(super) a: Buffer<A>,
    pub(super) b: Buffer<B>,
    pub(super) c: Buffer<C>,
}

/// Sets of matrices of a product, C poisoned, by their seeds.
pub(super) fn matrices<A, B, C>(
    device: &Device,
    batch: Batch,
) -> impl Fn(u64) -> Result<Buffers<A, B, C>> + use<A, B, C>
where
    A: Storable + Rounded,
    B: Storable + Rounded,
    C: Storable + Rounded,
{
    let ([a, b, c], device) = (batch.lengths(), device.clone());
    move |seed| {
        Ok(Buffers {
            a: factor(&device, 2 * seed, a)?,
            b: factor(&device, 2 * seed + 1, b)?,
            c: device.buffer_from(&vec![C::round(f32::NAN); c])?,
        })
    }
}

/// Random normal numbers.
pub(super) fn factor<T: Storable + Rounded>(device: &Device, seed: u64, count: usize) -> Result<Buffer<T>> {
    let values: Vec<T> = normal(seed, count, T::round);
    Ok(device.buffer_from(&values)?)
}

/// Calls a method of a problem with the types that the options name.
macro_rules! with_types {
    ($options:expr, $problem:ident.$method:ident($argument:expr)) => {{
        macro_rules! with_output {
            ($a:ident, $b:ident) => {
                match $options.choice("output") {
                    "f32" => $problem.$method::<$a, $b, f32>($argument),
                    "bf16" => $problem.$method::<$a, $b, bf16>($argument),
                    _ => $problem.$method::<$a, $b, f16>($argument),
                }
            };
        }
        match ($options.choice("input"), $options.choice("b-input")) {
            ("e4m3", "e5m2") => with_output!(e4m3, e5m2),
            ("e5m2", "e4m3") => with_output!(e5m2, e4m3),
            (a, b) if b != "same" && a != b => Err(unlike_types(a, b)),
            ("bf16", _) => with_output!(bf16, bf16),
            ("f16", _) => with_output!(f16, f16),
            ("tf32", _) => with_output!(tf32, tf32),
            ("e4m3", _) => with_output!(e4m3, e4m3),
            _ => with_output!(e5m2, e5m2),
        }
    }};
}

pub(super) use with_types;

/// Calls a method of a problem with the type of A and B and that of C.
macro_rules! with_one_type {
    ($options:expr, $problem:ident.$method:ident($argument:expr)) => {{
        macro_rules! with_output {
            ($input:ident) => {
                match $options.choice("output") {
                    "f32" => $problem.$method::<$input, f32>($argument),
                    "bf16" => $problem.$method::<$input, bf16>($argument),
                    _ => $problem.$method::<$input, f16>($argument),
                }
            };
        }
        match ($options.choice("input"), $options.choice("b-input")) {
            (a, b) if b != "same" && a != b => {
                Err("cuBLASLt is timed with factors of one type: leave out --b-input".into())
            }
            ("bf16", _) => with_output!(bf16),
            ("f16", _) => with_output!(f16),
            ("tf32", _) => with_output!(tf32),
            ("e4m3", _) => with_output!(e4m3),
            _ => with_output!(e5m2),
        }
    }};
}

pub(super) use with_one_type;

/// Why there is no product of those types.
pub(super) fn unlike_types(a: &str, b: &str) -> Box<dyn std::error::Error + Send + Sync> {
    format!("--input {a} --b-input {b}: factors are of one type, or one is e4m3 and the other e5m2").into()
}

/// The type of A, and of B.
pub(super) const INPUT: OptionSpec =
    OptionSpec::choice("input", &["bf16", "f16", "tf32", "e4m3", "e5m2"], "type of A and B");

/// The type of B.
pub(super) const B_INPUT: OptionSpec = OptionSpec::choice(
    "b-input",
    &["same", "e4m3", "e5m2"],
    "type of B, if it is not A's: 8-bit floats multiply each other",
);

/// The type of C.
pub(super) const OUTPUT: OptionSpec = OptionSpec::choice("output", &["f32", "bf16", "f16"], "type of C");

/// How A lies.
pub(super) const A_ORDER: OptionSpec =
    OptionSpec::choice("a", &["row", "column"], "which extent of A is contiguous: its rows or its columns");

/// How B lies.
pub(super) const B_ORDER: OptionSpec =
    OptionSpec::choice("b", &["column", "row"], "which extent of B is contiguous");

/// What chooses a configuration.
pub(super) const PLAN: OptionSpec = OptionSpec::choice(
    "plan",
    &["tuned", "model"],
    "whether what `warpwright tune` has found goes before the model",
);

/// The way of that rank, of all of them from the cheapest on.
pub(super) fn ranked<W: Copy>(ways: &[W], rank: usize) -> Result<W> {
    let found = ways.get(rank).copied();
    found.ok_or_else(|| format!("--rank {rank}: there are {} ways, from rank 0 on", ways.len()).into())
}

/// The order that an option names.
pub(super) fn order(options: &Options, name: &str) -> Order {
    match options.choice(name) {
        "row" => Order::RowMajor,
        _ => Order::ColumnMajor,
    }
}
