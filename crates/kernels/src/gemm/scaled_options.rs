//! What the GEMMs of the command line whose blocks have scales have in common.

use warpwright::prelude::*;

use super::explain::Reason;
use super::multiply::Product;
use super::multiply_scaled::{Granularities, ScaledWay};
use super::plan::Cost;
use super::scales::Granularity;
use crate::registry::{OptionSpec, Options, Work};

/// What has a scale of A.
pub(super) const A_SCALES: OptionSpec = OptionSpec::choice(
    "a-scales",
    &["row", "block"],
    "what has a scale of A: 128 of k of a row or of 128 rows",
);

/// What has a scale of B.
pub(super) const B_SCALES: OptionSpec = OptionSpec::choice(
    "b-scales",
    &["block", "row"],
    "what has a scale of B: 128 of k of 128 columns or of one",
);

/// The type of A.
pub(super) const INPUT: OptionSpec = OptionSpec::choice("input", &["e4m3", "e5m2"], "type of A");

/// The type of C.
pub(super) const OUTPUT: OptionSpec = OptionSpec::choice("output", &["bf16", "f16", "f32"], "type of C");

/// What has a scale.
pub(super) fn granularities(options: &Options) -> Granularities {
    let granularity = |name| match options.choice(name) {
        "row" => Granularity::Row,
        _ => Granularity::Block,
    };
    (granularity("a-scales"), granularity("b-scales"))
}

/// What any way to multiply must do: each element and scale moved once.
pub(super) fn work<C: Element>(product: Product, (a, b): Granularities) -> Work {
    let Product { m, n, k, .. } = product;
    let elements = |rows: u32, columns: u32| f64::from(rows) * f64::from(columns);
    let scales = 4.0 * (a.count((m, k)) + b.count((n, k))) as f64;
    let factors = elements(m, k) + elements(n, k);
    Work {
        operations: 2.0 * elements(m, n) * f64::from(k),
        bytes: factors + scales + f64::from(C::BYTES) * elements(m, n),
    }
}

/// Lines of the table of ways that are shown.
const SHOWN: usize = 12;

/// The cheapest ways and the chosen one by a model; `of` says what they are the ways of.
pub(super) fn table(
    of: &str,
    ways: &[ScaledWay],
    chosen: ScaledWay,
    cost: impl Fn(ScaledWay) -> Cost,
) -> Vec<String> {
    let mut lines = vec![format!("rank  of {} ways{of}, by the model", ways.len())];
    let shown = ways.iter().enumerate().filter(|(rank, way)| *rank < SHOWN || **way == chosen);
    lines.extend(shown.map(|(rank, &way)| {
        let mark = if way == chosen { "->" } else { "" };
        format!("{mark:>2}{rank:>3} {}, {}", cost(way), way.describe_sums())
    }));
    lines
}

/// A way in all that it is.
pub(super) fn described(way: ScaledWay) -> String {
    format!("{way}, raster {}", way.configuration.raster)
}

/// The last line: what was chosen, and why.
pub(super) fn conclusion(chosen: ScaledWay, reason: &Reason) -> String {
    format!("{}: {reason}", described(chosen))
}

/// Calls a method of a problem with the types that the options name.
macro_rules! with_narrow_types {
    ($options:expr, $problem:expr, $method:ident($argument:expr)) => {{
        let problem = $problem;
        macro_rules! with_output {
            ($a:ident, $b:ident) => {
                match $options.choice("output") {
                    "bf16" => problem.$method::<$a, $b, bf16>($argument),
                    "f16" => problem.$method::<$a, $b, f16>($argument),
                    _ => problem.$method::<$a, $b, f32>($argument),
                }
            };
        }
        match ($options.choice("input"), $options.choice("b-input")) {
            ("e4m3", "same" | "e4m3") => with_output!(e4m3, e4m3),
            ("e4m3", _) => with_output!(e4m3, e5m2),
            (_, "e4m3") => with_output!(e5m2, e4m3),
            _ => with_output!(e5m2, e5m2),
        }
    }};
}

pub(super) use with_narrow_types;
