//! `operations.multiply_grouped(&stream, &mut members)`: products of different extents, each with matrices of its own, in one launch.
//!
//! ```text
//! a table in global memory, a record a product:      maps of A, B and C | m, n, k | where C is
//! ```
//!
//! The host writes the table and the stream copies it ahead of the launch; a CTA finds its tile's record and reads its maps from there.

use warpwright::arch::Capability;
use warpwright::prelude::*;
use warpwright::runtime::{self, Buffer, HostBuffer, LaunchCounts, Storable, Stream};

use super::epilogue::as_it_is;
use super::hopper::{self, HopperGemm};
use super::multiply::{Factor, Product, Way, extents, refused};
use super::plan::{self, Configuration, Shape};
use super::products::{Products, RECORD_BYTES, RECORD_EXTENTS, Records};
use super::{GemmOutput, WarpgroupInput};
use crate::operations::{Operations, Result, Scratch, both, expect_length};

/// A product of a group, and its matrices.
pub struct GroupMember<'a, T, C> {
    /// What is multiplied.
    pub product: Product,
    /// A (m, k).
    pub a: &'a Buffer<T>,
    /// B (k, n).
    pub b: &'a Buffer<T>,
    /// C (m, n), row-major.
    pub c: &'a mut Buffer<C>,
}

/// Products of one launch; more are several launches.
const MOST_MEMBERS: usize = 512;

impl Operations {
    /// C = A·B for each member of a group, in one launch on Hopper where TMA can read all A and B; accumulated in f32, C is row-major.
    ///
    /// ```
    /// use warpwright::prelude::*;
    /// use warpwright::runtime::Device;
    /// use warpwright_kernels::gemm::grouped::GroupMember;
    /// use warpwright_kernels::gemm::multiply::Product;
    /// use warpwright_kernels::operations::Operations;
    ///
    /// let device = Device::named("emu:h200")?;
    /// let (operations, stream) = (Operations::new(&device), device.stream()?);
    /// let ones = |count: usize| device.buffer_from(&vec![bf16::ONE; count]);
    /// let (wide, deep) = (Product::new(8, 48, 16), Product::new(24, 8, 40));
    /// let (a, b) = ([ones(8 * 16)?, ones(24 * 40)?], [ones(16 * 48)?, ones(40 * 8)?]);
    /// let mut c = [device.uninitialized::<f32>(8 * 48)?, device.uninitialized::<f32>(24 * 8)?];
    /// let [first, second] = &mut c;
    /// let mut members = [
    ///     GroupMember { product: wide, a: &a[0], b: &b[0], c: first },
    ///     GroupMember { product: deep, a: &a[1], b: &b[1], c: second },
    /// ];
    /// operations.multiply_grouped(&stream, &mut members)?;
    /// assert_eq!((c[0].to_vec()?, c[1].to_vec()?), (vec![16.0; 8 * 48], vec![40.0; 24 * 8]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// A buffer has another length than its product asks for; the members' A, or B, lie in different orders; the device has no kernel for the types;
    /// or it failed.
    pub fn multiply_grouped<T: Factor, C: GemmOutput + Storable>(
        &self,
        stream: &Stream,
        members: &mut [GroupMember<'_, T, C>],
    ) -> Result<LaunchCounts> {
        let way = self.ways_of_group(members)[0];
        self.multiply_grouped_by(stream, members, way)
    }

    /// The ways to multiply a group, the cheapest first: those of an average member that leave tiles whole.
    pub fn ways_of_group<T: Factor, C: Element>(&self, members: &[GroupMember<'_, T, C>]) -> Vec<Way> {
        let properties = self.device().properties();
        let real: Vec<Product> = members.iter().map(|member| member.product).filter(has_work).collect();
        let readable = |product: &Product| product.takes_warpgroups::<T>(properties.capability);
        if real.is_empty() || !real.iter().all(readable) {
            return vec![Way::Warps];
        }
        let average = |extent: fn(&Product) -> u32| {
            let sum: u64 = real.iter().map(|product| u64::from(extent(product))).sum();
            sum.div_ceil(real.len() as u64) as u32
        };
        let (m, n, k) =
            (average(|product| product.m), average(|product| product.n), average(|product| product.k));
        let shape = Shape { m, n, k, batch: real.len() as u32, ..real[0].shape::<T, C>() };
        let costs = plan::costs(shape, properties.sm_count);
        let whole = costs.iter().map(|cost| cost.configuration).filter(|configuration| !configuration.split);
        whole.map(Way::Warpgroups).chain([Way::Warps]).collect()
    }

    /// C = A·B for each member, in that way; by `mma.sync`, a launch each.
    ///
    /// # Errors
    /// As [`multiply_grouped`](Self::multiply_grouped); and if the way does not suit a member, or splits tiles.
    pub fn multiply_grouped_by<T: Factor, C: GemmOutput + Storable>(
        &self,
        stream: &Stream,
        members: &mut [GroupMember<'_, T, C>],
        way: Way,
    ) -> Result<LaunchCounts> {
        let mut counts = LaunchCounts::default();
        let configuration = match way {
            Way::Warps => None,
            Way::Warpgroups(configuration) => Some(configuration),
        };
        let mut together = Vec::new();
        for GroupMember { product, a, b, c } in members {
            let [m, n, k] = [product.m, product.n, product.k].map(|extent| extent as usize);
            expect_length("A", m * k, a.len())?;
            expect_length("B", k * n, b.len())?;
            expect_length("C", m * n, c.len())?;
            if configuration.is_none() || !has_work(product) {
                counts = both(counts, self.multiply_by(stream, *product, Way::Warps, a, b, c)?);
            } else {
                together.push(GroupMember { product: *product, a, b, c });
            }
        }
        if let Some(configuration) = configuration {
            for members in together.chunks_mut(MOST_MEMBERS) {
                counts = both(counts, self.launch_group(stream, members, configuration)?);
            }
        }
        Ok(counts)
    }

    fn launch_group<T: Factor, C: GemmOutput + Storable>(
        &self,
        stream: &Stream,
        members: &[GroupMember<'_, T, C>],
        configuration: Configuration,
    ) -> Result<LaunchCounts> {
        let properties = self.device().properties();
        let grouping = Grouping::of::<T, C>(members, configuration, properties.capability)?;
        let records = grouping.records(members)?;
        let ctas = grouping.ctas(members, properties.sm_count);
        self.with_scratch(stream, |scratch: &mut GroupScratch| {
            let table = scratch.filled(stream, &records, grouping.most)?;
            let count = members.len() as u32;
            let compiled = match grouping.stores_boxes {
                true => self.kernel(grouping, Grouping::run::<T, C>)?,
                false => self.kernel(grouping, Grouping::run_any::<T, C>)?,
            };
            let shape = compiled.shape(ctas, hopper::THREADS);
            Ok(compiled.launch_as(stream, shape, (table, count))?)
        })
    }
}

/// Whether tiles of it are to be computed.
fn has_work(product: &Product) -> bool {
    product.m != 0 && product.n != 0 && product.k != 0
}

/// The GEMM for a group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
struct Grouping {
    gemm: HopperGemm,
    /// Whether the kernel computes C's transposes.
    transposed: bool,
    /// Whether TMA can store every C.
    stores_boxes: bool,
    /// There is room for so many members.
    most: u32,
}

impl Grouping {
    fn of<T: Factor, C: GemmOutput>(
        members: &[GroupMember<'_, T, C>],
        configuration: Configuration,
        capability: &Capability,
    ) -> Result<Self> {
        let first = members[0].product;
        for GroupMember { product, .. } in members {
            if (product.a, product.b) != (first.a, first.b) {
                return Err(refused("the members' A, and B, must lie in one order".to_owned()));
            }
            if !product.takes_warpgroups::<T>(capability) {
                return Err(super::multiply::no_warpgroups::<T>(*product));
            }
        }
        if configuration.split {
            return Err(refused(
                "tiles of a group are not split: take a configuration that leaves them whole".to_owned(),
            ));
        }
        Ok(Self {
            gemm: first.kernel::<T, C>(configuration),
            transposed: configuration.transposed,
            stores_boxes: members.iter().all(|member| member.product.stores_boxes::<C>()),
            most: (members.len() as u32).next_power_of_two(),
        })
    }

    /// The extents of a member's product as the kernel computes it.
    fn extents(&self, Product { m, n, k, .. }: Product) -> (u32, u32, u32) {
        if self.transposed { (n, m, k) } else { (m, n, k) }
    }

    /// The table.
    fn records<T: Factor, C: GemmOutput + Storable>(
        &self,
        members: &[GroupMember<'_, T, C>],
    ) -> Result<Vec<u8>> {
        let legal = |tile: Result<TmaTile, warpwright::layout::Error>| {
            tile.map_err(|error| refused(error.to_string()))
        };
        let (a_tile, b_tile) = (legal(self.gemm.a_tile::<T>())?, legal(self.gemm.b_tile::<T>())?);
        let mut records = Vec::new();
        for (number, GroupMember { product, a, b, c }) in members.iter().enumerate() {
            let (m, n, k) = self.extents(*product);
            let (a, b) = if self.transposed { (b, a) } else { (a, b) };
            records.extend_from_slice(runtime::TensorMap::of_tile(a, extents(m, k), &a_tile)?.as_bytes());
            records.extend_from_slice(runtime::TensorMap::of_tile(b, extents(n, k), &b_tile)?.as_bytes());
            if self.stores_boxes {
                let tile = legal(self.gemm.c_tile::<C>())?;
                records.extend_from_slice(runtime::TensorMap::of_tile(c, extents(m, n), &tile)?.as_bytes());
            }
            records.resize(number * RECORD_BYTES + RECORD_EXTENTS, 0);
            for extent in [m, n, k, 0] {
                records.extend_from_slice(&extent.to_le_bytes());
            }
            records.extend_from_slice(&c.address().to_le_bytes());
            records.resize((number + 1) * RECORD_BYTES, 0);
        }
        Ok(records)
    }

    /// CTAs of a launch: as many as there are tiles, or as the device holds.
    fn ctas<T, C>(&self, members: &[GroupMember<'_, T, C>], sms: u32) -> u32 {
        let HopperGemm { tile, cluster, .. } = self.gemm;
        let group = cluster.0 * cluster.1;
        let tiles = members.iter().map(|member| {
            let (m, n, _) = self.extents(member.product);
            m.div_ceil(tile.0 as u32 * cluster.0).saturating_mul(n.div_ceil(tile.1 as u32 * cluster.1))
        });
        group * tiles.fold(0, u32::saturating_add).min(sms / group)
    }

    #[kernel]
    fn run<T: WarpgroupInput, C: GemmOutput>(&self, table: &Global<u8>, count: u32) {
        let products = Products::of_records(Records { table: *table, count, most: self.most });
        // The maps of C are in the table; and nothing is split, so that nothing needs a workspace.
        let workspace = (&table.cast(), &table.cast());
        self.gemm.store_boxes::<T, C>(&products, &TensorMap::in_global(*table), workspace, &as_it_is());
    }

    #[kernel]
    fn run_any<T: WarpgroupInput, C: GemmOutput>(&self, table: &Global<u8>, count: u32) {
        let products = Products::of_records(Records { table: *table, count, most: self.most });
        let workspace = (&table.cast(), &table.cast());
        self.gemm.store_elements::<T, C>(&products, &table.cast(), workspace, &as_it_is());
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
