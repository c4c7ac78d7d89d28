//! What a launch computes: one product, products of one shape, or groups of rows; what a kernel is built for, and what a launch tells it.

use std::hash::Hash;

use warpwright::lang::kernel::KernelParameter;
use warpwright::prelude::*;
use warpwright::runtime::{self, Buffer, HostParameter};

use super::batched::Batch;
use super::multiply::Product;
use super::plan::Configuration;
use super::products::{BatchAxis, Products, RowGroups};

/// Parameters of a kernel that only some kernels have.
pub(super) trait Given:
    KernelParameter<Value = Self, Host: HostParameter + 'static> + DeviceValue
{
    /// What the host has of them.
    type OnHost<'h>;

    /// What a launch passes.
    fn passed<'p>(on_host: &'p Self::OnHost<'_>) -> Passed<'p, Self>;
}

/// What a launch passes for such parameters.
pub(super) type Passed<'p, P> = <<P as KernelParameter>::Host as HostParameter>::Passed<'p>;

/// What scales A and B, as parameters of a kernel.
pub(super) trait Scales: Given + Copy {
    /// Whether blocks have some.
    const ARE_SOME: bool;

    /// Those of products whose maps are in a table.
    fn in_table(table: &Global<u8>) -> Self;
}

/// Nothing more.
#[derive(Clone, Copy, DeviceValue, KernelParameter)]
pub(super) struct Nothing;

impl Given for Nothing {
    type OnHost<'h> = ();

    fn passed((): &()) {}
}

impl Scales for Nothing {
    const ARE_SOME: bool = false;

    fn in_table(_: &Global<u8>) -> Self {
        Self
    }
}

/// The maps of the scales of A and of B.
#[derive(Clone, Copy, DeviceValue, KernelParameter)]
pub(super) struct ScaleMaps {
    pub(super) a: TensorMap,
    pub(super) b: TensorMap,
}

impl Given for ScaleMaps {
    type OnHost<'h> = [runtime::TensorMap; 2];

    fn passed<'p>([a, b]: &'p [runtime::TensorMap; 2]) -> Passed<'p, Self> {
        (a, b)
    }
}

impl Scales for ScaleMaps {
    const ARE_SOME: bool = true;

    #[track_caller]
    fn in_table(table: &Global<u8>) -> Self {
        let map = TensorMap::in_global(*table);
        Self { a: map, b: map }
    }
}

/// Which products a kernel is built for.
pub(super) trait Kind: Copy + Eq + Hash + Send + Sync + 'static {
    /// What a launch tells of them.
    type Told: Given;

    /// Whether each has an A, and a B, of its own.
    fn own(self) -> (bool, bool);

    /// Whether a product's first row of A may be any row of all.
    fn begin_anywhere(self) -> bool {
        false
    }

    /// How many C of a batch there are, and elements from one to the next, where each product has its own.
    fn own_c(self, batch: Batch) -> Option<(u32, u64)>;

    /// Products of one shape that have as many tiles as there can be.
    fn even(self, batch: Batch, configuration: Configuration) -> Batch;

    /// The products of a launch, of which `one` has the factors and extents; whether the kernel computes C's transpose.
    fn products(self, one: Products, told: Self::Told, transposed: bool) -> Products;
}

/// A single product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct One;

impl Kind for One {
    type Told = Nothing;

    fn own(self) -> (bool, bool) {
        (false, false)
    }

    fn own_c(self, _: Batch) -> Option<(u32, u64)> {
        None
    }

    fn even(self, batch: Batch, _: Configuration) -> Batch {
        batch
    }

    fn products(self, one: Products, _: Nothing, _: bool) -> Products {
        one
    }
}

/// Products of one shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Alike {
    /// Whether each has an A, and a B, of its own.
    pub(super) own: (bool, bool),
}

/// How many products there are, and the elements from one C to the next.
#[derive(Clone, Copy, DeviceValue, KernelParameter)]
pub(super) struct Repetition {
    count: Reg<u32>,
    c_stride: Reg<u64>,
}

impl Given for Repetition {
    type OnHost<'h> = (u32, u64);

    fn passed<'p>(&told: &'p (u32, u64)) -> Passed<'p, Self> {
        told
    }
}

impl Kind for Alike {
    type Told = Repetition;

    fn own(self) -> (bool, bool) {
        self.own
    }

    fn own_c(self, batch: Batch) -> Option<(u32, u64)> {
        Some((batch.count, batch.c_stride))
    }

    fn even(self, batch: Batch, _: Configuration) -> Batch {
        batch
    }

    fn products(
        self,
        one: Products,
        Repetition { count, c_stride }: Repetition,
        transposed: bool,
    ) -> Products {
        let (a, b) = self.own;
        let own = if transposed { (b, a) } else { (a, b) };
        one.in_batch(BatchAxis { count, own, c_stride })
    }
}

/// Groups of rows, each with a B of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Groups {
    /// There is room for so many.
    pub(super) most: u32,
}

/// Where the groups begin, and how many there are.
#[derive(Clone, Copy, DeviceValue)]
pub(super) struct Offsets {
    offsets: Global<u32>,
    count: Reg<u32>,
}

impl KernelParameter for Offsets {
    type Host = (<&'static Global<u32> as KernelParameter>::Host, u32);
    type Value = Self;

    #[track_caller]
    fn declare(name: &str) -> Self {
        let offsets = <&Global<u32>>::declare(&format!("{name}_offsets"));
        Self { offsets, count: u32::declare(&format!("{name}_count")) }
    }
}

impl Given for Offsets {
    type OnHost<'h> = (&'h Buffer<u32>, u32);

    fn passed<'p>(&(offsets, count): &'p Self::OnHost<'_>) -> Passed<'p, Self> {
        (offsets, count)
    }
}

impl Kind for Groups {
    type Told = Offsets;

    fn own(self) -> (bool, bool) {
        (false, true)
    }

    fn own_c(self, _: Batch) -> Option<(u32, u64)> {
        None
    }

    fn begin_anywhere(self) -> bool {
        true
    }

    /// One tile of each group is not full.
    fn even(self, batch: Batch, Configuration { tile, cluster, transposed, .. }: Configuration) -> Batch {
        let Batch { product, count, .. } = batch;
        let high = if transposed { tile.1 * cluster.1 } else { tile.0 * cluster.0 };
        let tiles_of_rows = product.m / high + count.min(product.m).max(1);
        // A batch of products of one row of tiles each has as many.
        Batch::new(Product { m: 1, ..product }, tiles_of_rows)
    }

    fn products(self, one: Products, Offsets { offsets, count }: Offsets, transposed: bool) -> Products {
        one.in_groups(RowGroups { count, offsets, most: self.most, transposed })
    }
}
