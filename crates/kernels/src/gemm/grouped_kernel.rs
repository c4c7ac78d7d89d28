//! The kernel of a group of products, and the table that it is told of them by.

use std::sync::Arc;

use warpwright::arch::Capability;
use warpwright::prelude::*;
use warpwright::runtime::{self, Buffer, HostBuffer, LaunchCounts, Storable, Stream, TileMaps};

use super::fused::Fused;
use super::grouped::GroupMember;
use super::hopper::{self, HopperGemm};
use super::kinds::{Nothing, One};
use super::linear::{Linear, Parts};
use super::multiply::{Product, extents, legal, refused};
use super::plan::Configuration;
use super::products::{Products, RECORD_BYTES, RECORD_EXTENTS, Records};
use super::readable::{CopyScratch, Factors};
use super::ready::Planned;
use super::store::Finished;
use super::warpgroups::WarpgroupGemm;
use super::{GemmOutput, WarpgroupInput};
use crate::operations::{Operations, Result, Scratch, both};

/// Products of one launch; more are several launches.
pub(super) const MOST_MEMBERS: usize = 512;

/// The GEMM for a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct GroupedGemm {
    fused: Fused<HopperGemm, Parts>,
    /// There is room for so many members.
    most: u32,
}

impl GroupedGemm {
    fn records(&self, table: &Global<u8>, count: Reg<u32>) -> Records {
        Records { table: *table, count, most: self.most }
    }

    /// Puts a tile's sums through the epilogue of its product.
    #[device]
    fn apply<C: GemmOutput>(&self, records: &Records, products: &Products, tile: &mut Finished) {
        if let Some(product) = tile.product {
            let given = records.terms::<C>(product, self.fused.kinds);
            tile.apply(&self.fused.finish_by(given), products);
        }
    }

    #[kernel]
    fn run<A: WarpgroupInput, B: WarpgroupInput, C: GemmOutput>(&self, table: &Global<u8>, count: u32) {
        let records = self.records(table, count);
        let products = Products::of_records(records);
        // The maps of C are in the table; and nothing is split, so that nothing needs a workspace.
        let (boxes, workspace) = (TensorMap::in_global(*table), (&table.cast(), &table.cast()));
        let epilogue = |tile: &mut Finished| self.apply::<C>(&records, &products, tile);
        let gemm = self.fused.gemm;
        gemm.into_boxes::<A, B, C>((&products, Nothing), (&boxes, None), workspace, epilogue);
    }

    #[kernel]
    fn run_any<A: WarpgroupInput, B: WarpgroupInput, C: GemmOutput>(&self, table: &Global<u8>, count: u32) {
        let records = self.records(table, count);
        let products = Products::of_records(records);
        let workspace = (&table.cast(), &table.cast());
        let epilogue = |tile: &mut Finished| self.apply::<C>(&records, &products, tile);
        let gemm = self.fused.gemm;
        gemm.into_elements::<A, B, C>((&products, Nothing), &table.cast(), workspace, epilogue);
    }
}

/// The PTX for products of one kind, as many as have room.
pub(super) fn ptx<A: WarpgroupInput, B: WarpgroupInput, C: GemmOutput>(
    products: &[Product],
    configuration: Configuration,
    capability: &'static Capability,
) -> Result<String> {
    let kernel = GroupedGemm::of::<A, C>(products, configuration, &Linear::default())?;
    fn of<A: WarpgroupInput, B: WarpgroupInput, C: GemmOutput>(
        kernel: GroupedGemm,
        stores_boxes: bool,
        capability: &'static Capability,
    ) -> Result<String> {
        Ok(match stores_boxes {
            true => runtime::ptx(&kernel.run::<A, B, C>()?, capability)?,
            false => runtime::ptx(&kernel.run_any::<A, B, C>()?, capability)?,
        })
    }
    let stores_boxes = stores_boxes::<C>(products);
    match configuration.transposed {
        false => of::<A, B, C>(kernel, stores_boxes, capability),
        true => of::<B, A, C>(kernel, stores_boxes, capability),
    }
}

/// Whether TMA can store every C.
fn stores_boxes<C: GemmOutput>(products: &[Product]) -> bool {
    products.iter().all(|product| product.stores_boxes::<C>())
}

impl GroupedGemm {
    /// For products of one kind.
    fn of<T: Element, C: GemmOutput>(
        products: &[Product],
        configuration: Configuration,
        linear: &Linear<'_>,
    ) -> Result<Self> {
        if configuration.split {
            return Err(refused(
                "tiles of a group are not split: take a configuration that leaves them whole".to_owned(),
            ));
        }
        let gemm = planned(products[0], configuration).gemm::<T, C>();
        let fused = linear.finish::<C>().fused(gemm, configuration.transposed);
        Ok(Self { fused, most: (products.len() as u32).next_power_of_two() })
    }
}

/// What is computed of a member.
fn planned(product: Product, way: Configuration) -> Planned<Configuration, One> {
    Planned { kind: One, batch: product.into(), way }
}

/// The launch for members of one kind, whose A and B are the kernel's own.
pub(super) struct Group<A, B, C> {
    kernel: GroupedGemm,
    /// The maps of each.
    maps: Vec<Arc<MemberMaps<A, B, C>>>,
    stores_boxes: bool,
    ctas: u32,
}

/// The maps of members of one shape.
struct MemberMaps<A, B, C> {
    factors: Factors<A, B>,
    /// Of C, where TMA stores it.
    boxes: Option<TileMaps<C>>,
    /// (m, n, k) of the product as the kernel computes it.
    extents: (u32, u32, u32),
}

impl<A, B, C> Group<A, B, C>
where
    A: WarpgroupInput + Storable,
    B: WarpgroupInput + Storable,
    C: GemmOutput + Storable,
{
    pub(super) fn new(
        operations: &Operations,
        members: &[GroupMember<'_, A, C, B>],
        configuration: Configuration,
    ) -> Result<Self> {
        let products: Vec<Product> = members.iter().map(|member| member.product).collect();
        let kernel = GroupedGemm::of::<A, C>(&products, configuration, &members[0].linear)?;
        let gemm = kernel.fused.gemm;
        let stores_boxes = stores_boxes::<C>(&products);
        let maps_of = |&product: &Product| {
            operations.remembered::<(A, B, C), _, _>((product, configuration, stores_boxes), |_| {
                MemberMaps::<A, B, C>::new(product, configuration, stores_boxes)
            })
        };
        let maps: Vec<_> = products.iter().map(maps_of).collect::<Result<_>>()?;
        // As many CTAs as there are tiles, or as the device holds.
        let group = gemm.cluster.0 * gemm.cluster.1;
        let (high, wide) = (gemm.tile.0 as u32 * gemm.cluster.0, gemm.tile.1 as u32 * gemm.cluster.1);
        let tiles = maps.iter().map(|maps: &Arc<MemberMaps<A, B, C>>| {
            let (m, n, _) = maps.extents;
            m.div_ceil(high).saturating_mul(n.div_ceil(wide))
        });
        let clusters = operations.device().properties().sm_count / group;
        let ctas = group * tiles.fold(0, u32::saturating_add).min(clusters);
        Ok(Self { kernel, maps, stores_boxes, ctas })
    }

    pub(super) fn launch(
        &self,
        operations: &Operations,
        stream: &Stream,
        members: &[GroupMember<'_, A, C, B>],
    ) -> Result<LaunchCounts> {
        let (records, copied) = operations.with_scratch(stream, |copies: &mut GroupCopies<A, B>| {
            self.records(operations, stream, members, copies)
        })?;
        operations.with_scratch(stream, |scratch: &mut GroupScratch| {
            let table = scratch.filled(stream, &records, self.kernel.most)?;
            let count = members.len() as u32;
            let compiled = match self.stores_boxes {
                true => operations.kernel(self.kernel, GroupedGemm::run::<A, B, C>)?,
                false => operations.kernel(self.kernel, GroupedGemm::run_any::<A, B, C>)?,
            };
            let shape = compiled.shape(self.ctas, hopper::THREADS);
            Ok(both(copied, compiled.launch_as(stream, shape, (table, count))?))
        })
    }

    /// The table, once copies of the factors that need some have been asked of the stream.
    fn records(
        &self,
        operations: &Operations,
        stream: &Stream,
        members: &[GroupMember<'_, A, C, B>],
        GroupCopies(copies): &mut GroupCopies<A, B>,
    ) -> Result<(Vec<u8>, LaunchCounts)> {
        copies.resize_with(copies.len().max(members.len()), CopyScratch::default);
        let (mut records, mut counts) =
            (Vec::with_capacity(members.len() * RECORD_BYTES), LaunchCounts::default());
        let each = members.iter().zip(&self.maps).zip(copies);
        for (number, ((GroupMember { a, b, c, linear, .. }, maps), scratch)) in each.enumerate() {
            let (factors, copied) = maps.factors.maps(operations, stream, (a, b), scratch)?;
            counts = both(counts, copied);
            factors.iter().for_each(|map| records.extend_from_slice(map.as_bytes()));
            if let Some(boxes) = &maps.boxes {
                records.extend_from_slice(boxes.of(c)?.as_bytes());
            }
            records.resize(number * RECORD_BYTES + RECORD_EXTENTS, 0);
            let (m, n, k) = maps.extents;
            [m, n, k, 0].iter().for_each(|extent| records.extend_from_slice(&extent.to_le_bytes()));
            let finish = linear.finish::<C>();
            let vectors = [finish.rows, finish.columns[0], finish.columns[1]];
            let addresses = vectors.map(|vector| vector.map_or(0, Buffer::address));
            for address in [c.address()].into_iter().chain(addresses) {
                records.extend_from_slice(&address.to_le_bytes());
            }
            finish.numbers.iter().for_each(|number| records.extend_from_slice(&number.to_le_bytes()));
            records.resize((number + 1) * RECORD_BYTES, 0);
        }
        Ok((records, counts))
    }
}

impl<A, B, C> MemberMaps<A, B, C>
where
    A: WarpgroupInput + Storable,
    B: WarpgroupInput + Storable,
    C: GemmOutput + Storable,
{
    fn new(product: Product, configuration: Configuration, stores_boxes: bool) -> Result<Self> {
        let planned = planned(product, configuration);
        let (read, gemm) = (planned.read::<A>(), planned.gemm::<A, C>());
        let Product { m, n, k, .. } = read.batch.product;
        let boxes = match stores_boxes {
            true => Some(TileMaps::new(extents(m, n), &legal(gemm.c_tile::<C>())?)?),
            false => None,
        };
        Ok(Self { factors: Factors::new(read, planned.own(), &gemm)?, boxes, extents: (m, n, k) })
    }
}

/// The copies of members' factors.
struct GroupCopies<A, B>(Vec<CopyScratch<A, B>>);

impl<A, B> Default for GroupCopies<A, B> {
    fn default() -> Self {
        Self(Vec::new())
    }
}

/// The table on its way to the device, and there.
#[derive(Default)]
struct GroupScratch {
    host: Option<HostBuffer<u8>>,
    table: Scratch<u8>,
}

impl GroupScratch {
    /// The table with these records and room for `most`, once what is asked of the stream gets there.
    fn filled(&mut self, stream: &Stream, records: &[u8], most: u32) -> Result<&Buffer<u8>> {
        let device = stream.device();
        let room = most as usize * RECORD_BYTES;
        if self.host.as_ref().is_none_or(|host| host.len() < room) {
            self.host = Some(device.host_buffer(room)?);
        }
        let host = self.host.as_mut().expect("there is one now");
        host.as_mut_slice()?[..records.len()].copy_from_slice(records);
        let table = self.table.at_least(&device, host.len())?;
        stream.copy_to_device(table, host)?;
        Ok(table)
    }
}
