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
pub(super) struct Buffers<T, C> {
    pub(super) a: Buffer<T>,
    pub(super) b: Buffer<T>,
    pub(super) c: Buffer<C>,
}

/// Sets of matrices of a product, C poisoned, by their seeds.
pub(super) fn matrices<T, C>(
    device: &Device,
    batch: Batch,
) -> impl Fn(u64) -> Result<Buffers<T, C>> + use<T, C>
where
    T: Storable + Rounded,
    C: Storable + Rounded,
{
    let ([a, b, c], device) = (batch.lengths(), device.clone());
    move |seed| {
        let factor = |seed: u64, count: usize| -> Result<Buffer<T>> {
            let values: Vec<T> = normal(seed, count, T::round);
            Ok(device.buffer_from(&values)?)
        };
        let c = device.buffer_from(&vec![C::round(f32::NAN); c])?;
        Ok(Buffers { a: factor(2 * seed, a)?, b: factor(2 * seed + 1, b)?, c })
    }
}

/// Calls a method of a problem with the types that the options name.
macro_rules! with_types {
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
        match $options.choice("input") {
            "bf16" => with_output!(bf16),
            "f16" => with_output!(f16),
            "tf32" => with_output!(tf32),
            "e4m3" => with_output!(e4m3),
            _ => with_output!(e5m2),
        }
    }};
}

pub(super) use with_types;

/// The type of A and B.
pub(super) const INPUT: OptionSpec =
    OptionSpec::choice("input", &["bf16", "f16", "tf32", "e4m3", "e5m2"], "type of A and B");

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

/// The order that an option names.
pub(super) fn order(options: &Options, name: &str) -> Order {
    match options.choice(name) {
        "row" => Order::RowMajor,
        _ => Order::ColumnMajor,
    }
}
