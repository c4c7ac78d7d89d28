//! The kernel of a group of products, and the table that it is told of them by.

use std::sync::Arc;

use warpwright::arch::Capability;
use warpwright::lang::pointer::In;
use warpwright::prelude::*;
use warpwright::runtime::{self, Buffer, Compiled, HostBuffer, LaunchCounts, Storable, Stream, TileMaps};

use super::fused::Fused;
use super::kinds::{One, Scales};
use super::linear::{Linear, Parts};
use super::members::{GroupLaunch, Member};
use super::multiply::{Product, extents, legal};
use super::products::{Products, RECORD_EXTENTS, RECORD_SCALES, Records, record_bytes};
use super::readable::{CopyScratch, Factors};
use super::ready::{Planned, WarpgroupWay};
use super::store::Finished;
use super::warpgroups::WarpgroupGemm;
use super::{GemmOutput, WarpgroupInput};
use crate::operations::{Operations, Result, Scratch, both};

/// Products of one launch; more are several launches.
pub(super) const MOST_MEMBERS: usize = 512;

/// The GEMM for a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct GroupedGemm<G> {
    fused: Fused<G, Parts>,
    /// There is room for so many members.
    most: u32,
}

impl<G: WarpgroupGemm> GroupedGemm<G> {
    fn records(&self, table: &Global<u8>, count: Reg<u32>) -> Records {
        Records { table: *table, count, most: self.most, are_scaled: G::Scales::ARE_SOME }
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
        let (products, scales) = (Products::of_records(records), G::Scales::in_table(table));
        // The maps of C are in the table; and nothing is split, so that nothing needs a workspace.
        let (boxes, workspace) = (TensorMap::in_global(*table), (&table.cast(), &table.cast()));
        let epilogue = |tile: &mut Finished| self.apply::<C>(&records, &products, tile);
        let gemm = self.fused.gemm;
        gemm.into_boxes::<A, B, C>((&products, scales), (&boxes, None), workspace, epilogue);
    }

    #[kernel]
    fn run_any<A: WarpgroupInput, B: WarpgroupInput, C: GemmOutput>(&self, table: &Global<u8>, count: u32) {
        let records = self.records(table, count);
        let (products, scales) = (Products::of_records(records), G::Scales::in_table(table));
        let workspace = (&table.cast(), &table.cast());
        let epilogue = |tile: &mut Finished| self.apply::<C>(&records, &products, tile);
        let gemm = self.fused.gemm;
        gemm.into_elements::<A, B, C>((&products, scales), &table.cast(), workspace, epilogue);
    }

    /// The PTX; whether it stores boxes.
    fn ptx<A: WarpgroupInput, B: WarpgroupInput, C: GemmOutput>(
        &self,
        stores_boxes: bool,
        capability: &'static Capability,
    ) -> Result<String> {
        Ok(match stores_boxes {
            true => runtime::ptx(&self.run::<A, B, C>()?, capability)?,
            false => runtime::ptx(&self.run_any::<A, B, C>()?, capability)?,
        })
    }

    /// For products of one kind.
    fn of<W: WarpgroupWay<Gemm = G>, T: Element, C: GemmOutput>(
        products: &[Product],
        way: W,
        linear: &Linear<'_>,
    ) -> Self {
        let gemm = planned(products[0], way).gemm::<T, C>();
        let fused = linear.finish::<C>().fused(gemm, way.configuration().transposed);
        Self { fused, most: (products.len() as u32).next_power_of_two() }
    }
}

/// The PTX for products of one kind, as many as have room.
pub(super) fn ptx<W: WarpgroupWay, A: WarpgroupInput, B: WarpgroupInput, C: GemmOutput>(
    products: &[Product],
    way: W,
    capability: &'static Capability,
) -> Result<String> {
    let kernel = GroupedGemm::of::<W, A, C>(products, way, &Linear::default());
    let stores_boxes = stores_boxes::<C>(products);
    match way.configuration().transposed {
        false => kernel.ptx::<A, B, C>(stores_boxes, capability),
        true => kernel.ptx::<B, A, C>(stores_boxes, capability),
    }
}

/// Whether TMA can store every C.
fn stores_boxes<C: GemmOutput>(products: &[Product]) -> bool {
    products.iter().all(|product| product.stores_boxes::<C>())
}

/// What is computed of a member.
fn planned<W>(product: Product, way: W) -> Planned<W, One> {
    Planned { kind: One, batch: product.into(), way }
}

/// The launch for members of one kind, whose A and B are the kernel's own.
pub(super) struct Group<'m, A, B, C> {
    members: Vec<Member<'m, A, B, C>>,
    /// The maps of each.
    maps: Vec<Arc<MemberMaps<A, B, C>>>,
    compiled: Arc<Compiled<(In<u8>, u32)>>,
    ctas: u32,
    /// Bytes of the table.
    room: usize,
}

/// The maps of members of one shape.
struct MemberMaps<A, B, C> {
    factors: Factors<A, B>,
    /// Of C, where TMA stores it.
    boxes: Option<TileMaps<C>>,
    /// Of the scales of A and B, where blocks have some.
    scales: Option<[TileMaps<f32>; 2]>,
    /// (m, n, k) of the product as the kernel computes it.
    extents: (u32, u32, u32),
}

impl<'m, A, B, C> Group<'m, A, B, C>
where
    A: WarpgroupInput + Storable,
    B: WarpgroupInput + Storable,
    C: GemmOutput + Storable,
{
    pub(super) fn new<W: WarpgroupWay>(
        operations: &Operations,
        members: Vec<Member<'m, A, B, C>>,
        way: W,
    ) -> Result<Self> {
        let products: Vec<Product> = members.iter().map(|member| member.product).collect();
        let kernel = GroupedGemm::of::<W, A, C>(&products, way, &members[0].linear);
        let frame = kernel.fused.gemm.frame();
        let stores_boxes = stores_boxes::<C>(&products);
        let maps_of = |&product: &Product| {
            operations.remembered::<(A, B, C), _, _>((product, way, stores_boxes), |_| {
                MemberMaps::<A, B, C>::new(product, way, stores_boxes)
            })
        };
        let maps: Vec<_> = products.iter().map(maps_of).collect::<Result<_>>()?;
        // As many CTAs as there are tiles, or as the device holds.
        let group = frame.cluster.0 * frame.cluster.1;
        let (high, wide) = (frame.tile.0 as u32 * frame.cluster.0, frame.tile.1 as u32 * frame.cluster.1);
        let tiles = maps.iter().map(|maps: &Arc<MemberMaps<A, B, C>>| {
            let (m, n, _) = maps.extents;
            m.div_ceil(high).saturating_mul(n.div_ceil(wide))
        });
        let clusters = operations.device().properties().sm_count / group;
        let ctas = group * tiles.fold(0, u32::saturating_add).min(clusters);
        let compiled = match stores_boxes {
            true => operations.kernel(kernel, GroupedGemm::<W::Gemm>::run::<A, B, C>)?,
            false => operations.kernel(kernel, GroupedGemm::<W::Gemm>::run_any::<A, B, C>)?,
        };
        let are_scaled = <W::Gemm as WarpgroupGemm>::Scales::ARE_SOME;
        Ok(Self { members, maps, compiled, ctas, room: kernel.most as usize * record_bytes(are_scaled) })
    }

    /// The table, once copies of the factors that need some have been asked of the stream.
    fn records(
        &self,
        operations: &Operations,
        stream: &Stream,
        GroupCopies(copies): &mut GroupCopies<A, B>,
    ) -> Result<(Vec<u8>, LaunchCounts)> {
        copies.resize_with(copies.len().max(self.members.len()), CopyScratch::default);
        let (mut records, mut counts) = (Vec::new(), LaunchCounts::default());
        for ((member, maps), scratch) in self.members.iter().zip(&self.maps).zip(copies) {
            let (factors, copied) = maps.factors.maps(operations, stream, (member.a, member.b), scratch)?;
            counts = both(counts, copied);
            records.extend(maps.record(&factors, member)?);
        }
        Ok((records, counts))
    }
}

impl<A, B, C> GroupLaunch for Group<'_, A, B, C>
where
    A: WarpgroupInput + Storable,
    B: WarpgroupInput + Storable,
    C: GemmOutput + Storable,
{
    fn launch(&self, operations: &Operations, stream: &Stream) -> Result<LaunchCounts> {
        let (records, copied) = operations.with_scratch(stream, |copies: &mut GroupCopies<A, B>| {
            self.records(operations, stream, copies)
        })?;
        operations.with_scratch(stream, |scratch: &mut GroupScratch| {
            let table = scratch.filled(stream, &records, self.room)?;
            let count = self.members.len() as u32;
            let shape = self.compiled.shape(self.ctas);
            Ok(both(copied, self.compiled.launch(stream, shape, (table, count))?))
        })
    }
}

impl<A, B, C> MemberMaps<A, B, C>
where
    A: WarpgroupInput + Storable,
    B: WarpgroupInput + Storable,
    C: GemmOutput + Storable,
{
    fn new<W: WarpgroupWay>(product: Product, way: W, stores_boxes: bool) -> Result<Self> {
        let planned = planned(product, way);
        let (read, gemm) = (planned.read::<A>(), planned.gemm::<A, C>());
        let frame = gemm.frame();
        let Product { m, n, k, .. } = read.batch.product;
        let boxes = match stores_boxes {
            true => Some(TileMaps::new(extents(m, n), &legal(frame.c_tile::<C>())?)?),
            false => None,
        };
        let factors = Factors::new(read, planned.own(), frame)?;
        Ok(Self { factors, boxes, scales: W::scale_maps::<A, C, _>(planned)?, extents: (m, n, k) })
    }

    /// What the table says of a member whose factors have those maps.
    fn record(&self, factors: &[runtime::TensorMap; 2], member: &Member<'_, A, B, C>) -> Result<Vec<u8>> {
        let mut record = Vec::new();
        factors.iter().for_each(|map| record.extend_from_slice(map.as_bytes()));
        if let Some(boxes) = &self.boxes {
            record.extend_from_slice(boxes.of(member.c)?.as_bytes());
        }
        record.resize(RECORD_EXTENTS, 0);
        let (m, n, k) = self.extents;
        [m, n, k, 0].iter().for_each(|extent| record.extend_from_slice(&extent.to_le_bytes()));
        let finish = member.linear.finish::<C>();
        let vectors = [finish.rows, finish.columns[0], finish.columns[1]];
        let addresses = vectors.map(|vector| vector.map_or(0, Buffer::address));
        for address in [member.c.address()].into_iter().chain(addresses) {
            record.extend_from_slice(&address.to_le_bytes());
        }
        finish.numbers.iter().for_each(|number| record.extend_from_slice(&number.to_le_bytes()));
        record.resize(RECORD_SCALES, 0);
        for (maps, scales) in self.scales.iter().flatten().zip(member.scales.iter().flatten()) {
            record.extend_from_slice(maps.of(scales)?.as_bytes());
        }
        Ok(record)
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
    /// The table with these records in so many bytes, once what is asked of the stream gets there.
    fn filled(&mut self, stream: &Stream, records: &[u8], room: usize) -> Result<&Buffer<u8>> {
        let device = stream.device();
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
