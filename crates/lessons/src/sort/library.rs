//! The ladder of sorts for the command line.

use warpwright::runtime::{Device, Storable};
use warpwright_kernels::prepared::ptx;
use warpwright_kernels::registry::{Ladder, LibraryKernel, Measure, OptionSpec, Options, Prepared, Result};
use warpwright_kernels::sort::SortKey;
use warpwright_kernels::sort::reference::{KEY_TYPES, ORDERS, direction, prepare_keys, prepare_pairs};
use warpwright_kernels::with_key_type;

use super::bitonic::{self, Bitonic};
use super::merge::{self, Merge};
use crate::product::product;

/// The ladder of sorts.
pub(crate) struct Library;

const STEPS: &[&str] = &["bitonic", "merge", "radix"];

const OPTIONS: &[OptionSpec] = &[
    OptionSpec::number("length", 1_000_003, "keys"),
    OptionSpec::choice("type", KEY_TYPES, "type of the keys"),
    OptionSpec::choice("values", &["none", "u32", "u64"], "what stands beside each key"),
    OptionSpec::choice("by", STEPS, "the algorithm: by bitonic, equal keys lose their order"),
    OptionSpec::choice("order", ORDERS, "of the input: random has NaN, infinities and -0 among floats"),
    OptionSpec::choice("direction", &["ascending", "descending"], "of the output"),
    OptionSpec::number("seed", 1, "of the input"),
];

fn pairs<K: SortKey, V: Storable>(
    device: &Device,
    options: &Options,
    value: fn(u64) -> V,
) -> Result<Box<dyn Prepared>> {
    if options.choice("by") == "merge" {
        return prepare_pairs::<K, V>(
            device,
            options,
            value,
            true,
            |operations, stream, from, to, direction| {
                merge::pairs(operations, stream, from, to, Merge::new::<K>(direction))
            },
        );
    }
    prepare_pairs::<K, V>(device, options, value, false, |operations, stream, from, to, direction| {
        bitonic::pairs(operations, stream, from, to, Bitonic::new::<K>(direction))
    })
}

fn keys<K: SortKey>(device: &Device, options: &Options) -> Result<Box<dyn Prepared>> {
    if options.choice("by") == "merge" {
        return prepare_keys::<K>(device, options, |operations, stream, from, to, direction| {
            merge::keys(operations, stream, from, to, Merge::new::<K>(direction))
        });
    }
    prepare_keys::<K>(device, options, |operations, stream, from, to, direction| {
        bitonic::keys(operations, stream, from, to, Bitonic::new::<K>(direction))
    })
}

impl LibraryKernel for Library {
    fn name(&self) -> &'static str {
        "sort-ladder"
    }

    fn summary(&self) -> &'static str {
        "keys in order, with or without values: bitonic, merge and radix sort"
    }

    fn options(&self) -> &'static [OptionSpec] {
        OPTIONS
    }

    fn ptx(&self, target: &str, options: &Options) -> Result<String> {
        let direction = direction(options);
        if options.choice("by") == "radix" {
            let (kernel, options) = product("sort", options, &[])?;
            return kernel.ptx(target, &options);
        }
        with_key_type!(options.choice("type"), K => match (options.choice("by"), options.choice("values")) {
            ("bitonic", "none") => ptx(Bitonic::new::<K>(direction).order_tiles::<K>()?, target),
            ("bitonic", "u32") => ptx(Bitonic::new::<K>(direction).order_tiles_of_pairs::<K, u32>()?, target),
            ("bitonic", _) => ptx(Bitonic::new::<K>(direction).order_tiles_of_pairs::<K, u64>()?, target),
            (_, "none") => ptx(Merge::new::<K>(direction).merge_runs::<K>()?, target),
            (_, "u32") => ptx(Merge::new::<K>(direction).merge_runs_of_pairs::<K, u32>()?, target),
            _ => ptx(Merge::new::<K>(direction).merge_runs_of_pairs::<K, u64>()?, target),
        })
    }

    fn prepare(&self, device: &Device, options: &Options) -> Result<Box<dyn Prepared>> {
        if options.choice("by") == "radix" {
            let (kernel, options) = product("sort", options, &[])?;
            return kernel.prepare(device, &options);
        }
        with_key_type!(options.choice("type"), K => match options.choice("values") {
            "none" => keys::<K>(device, options),
            "u32" => pairs::<K, u32>(device, options, |index| index as u32),
            _ => pairs::<K, u64>(device, options, |index| index),
        })
    }

    fn ladder(&self) -> Option<Ladder> {
        Some(Ladder {
            option: "by",
            steps: STEPS,
            defaults: &[],
            measure: Measure::Keys,
            rival: None,
            counted: &[("length", "65536")],
        })
    }
}
