//! The ladder of sorts as a workload.

use strum::{EnumMessage, IntoStaticStr, VariantArray};
use warpwright::runtime::Storable;
use warpwright_harness::{
    Ladder, Measure, Options, Prepared, Result, Setup, Work, Workload, data_types, words,
};
use warpwright_kernels::sort::SortKey;
use warpwright_workloads::sort::ValueType;
use warpwright_workloads::sort::reference::{Keys, SortProblem, Stability};

use super::bitonic::{self, Bitonic};
use super::merge::{self, Merge};
use crate::library::library;

data_types! {
    /// Types of keys.
    pub(crate) enum KeyType by with_key { u32, i32, f32, u64, i64, f64, u8, i8, u16, i16, f16, bf16 }
}

/// Sorts keys, with or without values, by bitonic, merge or radix sort.
#[derive(Clone, Debug, Options)]
pub(crate) struct SortLadder {
    /// Data type of the keys.
    #[option(name = "type")]
    key: KeyType,
    /// Data type of the values.
    values: ValueType,
    /// Step of the ladder. Bitonic sort is not stable.
    step: SortStep,
    /// The keys.
    #[option(flatten)]
    keys: Keys,
}

/// A step of the ladder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
enum SortStep {
    /// Bitonic sort.
    #[default]
    Bitonic,
    /// Merge sort.
    Merge,
    /// The library's radix sort.
    Radix,
}

fn of_keys<K: SortKey>(problem: &SortProblem<'_>, is_merge: bool) -> Result<Box<dyn Prepared>> {
    match is_merge {
        true => problem.of_keys::<K>(|operations, stream, from, to, direction| {
            merge::keys(operations, stream, from, to, Merge::new::<K>(direction))
        }),
        false => problem.of_keys::<K>(|operations, stream, from, to, direction| {
            bitonic::keys(operations, stream, from, to, Bitonic::new::<K>(direction))
        }),
    }
}

fn of_pairs<K: SortKey, V: Storable>(
    problem: &SortProblem<'_>,
    is_merge: bool,
    value: fn(u64) -> V,
) -> Result<Box<dyn Prepared>> {
    match is_merge {
        true => {
            problem.of_pairs::<K, V>(value, Stability::Stable, |operations, stream, from, to, direction| {
                merge::pairs(operations, stream, from, to, Merge::new::<K>(direction))
            })
        }
        false => {
            problem.of_pairs::<K, V>(value, Stability::Unstable, |operations, stream, from, to, direction| {
                bitonic::pairs(operations, stream, from, to, Bitonic::new::<K>(direction))
            })
        }
    }
}

impl Workload for SortLadder {
    const NAME: &'static str = "sort-ladder";

    fn work(&self) -> Work {
        with_key!(self.key, K => self.keys.work::<K>(self.values.bytes()))
    }

    fn prepare(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        let is_merge = match self.step {
            SortStep::Radix => return library("sort", self, &[])?.prepare(setup),
            step => step == SortStep::Merge,
        };
        let problem = SortProblem { setup, keys: &self.keys };
        with_key!(self.key, K => match self.values {
            ValueType::None => of_keys::<K>(&problem, is_merge),
            ValueType::U32 => of_pairs::<K, u32>(&problem, is_merge, |index| index as u32),
            ValueType::U64 => of_pairs::<K, u64>(&problem, is_merge, |index| index),
        })
    }

    fn ladder() -> Option<Ladder> {
        Some(Ladder {
            option: "step",
            steps: words::<SortStep>(),
            defaults: &[],
            measure: Measure::Keys,
            baseline: None,
            counted_on: "emu:h200",
            counted: &[("length", "65536")],
        })
    }
}
