//! The sort as a workload.

pub mod reference;

use strum::{EnumMessage, IntoStaticStr, VariantArray};
use warpwright_harness::{Options, Prepared, Result, Setup, Work, Workload, data_types};

use self::reference::{Keys, SortProblem, Stability};
use warpwright_kernels::operations::Operations;

data_types! {
    /// Types of keys.
    pub(crate) enum KeyType by with_key_type { u32, i32, f32, u64, i64, f64, u8, i8, u16, i16, f16, bf16 }
}

/// The type of the values beside the keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum ValueType {
    /// No values.
    #[default]
    None,
    /// Values of 4 bytes.
    U32,
    /// Values of 8 bytes.
    U64,
}

impl ValueType {
    /// Bytes of a value.
    pub fn bytes(self) -> u32 {
        match self {
            Self::None => 0,
            Self::U32 => 4,
            Self::U64 => 8,
        }
    }
}

/// Sorts keys, with or without values, by radix sort: a pass per byte of a key.
#[derive(Clone, Debug, Options)]
pub(crate) struct SortWorkload {
    /// Data type of the keys.
    #[option(name = "type")]
    key: KeyType,
    /// Data type of the value beside each key.
    values: ValueType,
    /// The keys.
    #[option(flatten)]
    keys: Keys,
}

impl Workload for SortWorkload {
    const NAME: &'static str = "sort";

    fn work(&self) -> Work {
        with_key_type!(self.key, K => self.keys.work::<K>(self.values.bytes()))
    }

    fn prepare(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        let problem = SortProblem { setup, keys: &self.keys };
        let stable = Stability::Stable;
        with_key_type!(self.key, K => match self.values {
            ValueType::None => problem.of_keys::<K>(Operations::sort),
            ValueType::U32 => problem.of_pairs::<K, u32>(|index| index as u32, stable, Operations::sort_pairs),
            ValueType::U64 => problem.of_pairs::<K, u64>(|index| index, stable, Operations::sort_pairs),
        })
    }
}
