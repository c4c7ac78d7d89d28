//! The sort for the command line.

use warpwright::runtime::Device;

use super::radix::Radix;
use super::reference::{KEY_TYPES, ORDERS, direction, prepare_keys, prepare_pairs, with_key_type};
use crate::operations::Operations;
use crate::prepared::ptx;
use crate::registry::{LibraryKernel, OptionSpec, Options, Prepared, Result};

/// Sorts.
pub(crate) struct Library;

const OPTIONS: &[OptionSpec] = &[
    OptionSpec::number("length", 1_000_003, "keys"),
    OptionSpec::choice("type", KEY_TYPES, "type of the keys"),
    OptionSpec::choice("values", &["none", "u32", "u64"], "what stands beside each key"),
    OptionSpec::choice("order", ORDERS, "of the input: random has NaN, infinities and -0 among floats"),
    OptionSpec::choice("direction", &["ascending", "descending"], "of the output"),
    OptionSpec::number("seed", 1, "of the input"),
];

impl LibraryKernel for Library {
    fn name(&self) -> &'static str {
        "sort"
    }

    fn summary(&self) -> &'static str {
        "keys in order, with or without values: radix sort, a pass for each byte"
    }

    fn options(&self) -> &'static [OptionSpec] {
        OPTIONS
    }

    fn ptx(&self, target: &str, options: &Options) -> Result<String> {
        let direction = direction(options);
        with_key_type!(options.choice("type"), K => match options.choice("values") {
            "u32" => ptx(Radix::for_pairs::<K, u32>(direction).sweep.pairs::<K, u32>()?, target),
            "u64" => ptx(Radix::for_pairs::<K, u64>(direction).sweep.pairs::<K, u64>()?, target),
            _ => ptx(Radix::for_keys::<K>(direction).sweep.keys::<K>()?, target),
        })
    }

    fn prepare(&self, device: &Device, options: &Options) -> Result<Box<dyn Prepared>> {
        with_key_type!(options.choice("type"), K => match options.choice("values") {
            "none" => prepare_keys::<K>(device, options, Operations::sort),
            "u32" => prepare_pairs::<K, u32>(device, options, |index| index as u32, true, Operations::sort_pairs),
            _ => prepare_pairs::<K, u64>(device, options, |index| index, true, Operations::sort_pairs),
        })
    }
}
