//! A kernel by warpgroups, ready to be launched: all about the launch that does not depend on where the matrices are.

use std::hash::Hash;
use std::sync::Arc;

use warpwright::arch::Capability;
use warpwright::prelude::*;
use warpwright::runtime::{self, Buffer, LaunchCounts, Storable, Stream, TileMaps};

use super::batched::Batch;
use super::finish::{Finish, FusedEpilogue, Kinds, NUMBERS};
use super::fused::Fused;
use super::hopper::HopperGemm;
use super::kinds::{Given, Kind};
use super::linear::Parts;
use super::multiply::{Operands, Product, extents, legal, no_matrix};
use super::plan::{Configuration, Cost, Shape};
use super::readable::{Factors, Readable};
use super::warpgroups::{FusedKernel, WarpgroupGemm};
use super::{GemmOutput, WarpgroupInput};
use crate::operations::{Operations, Result, Scratch};

/// How a GEMM by warpgroups is computed.
pub(super) trait WarpgroupWay: Copy + Eq + Hash + Send + Sync + 'static {
    /// The GEMM.
    type Gemm: WarpgroupGemm;

    /// Tile, cluster and so on.
    fn configuration(self) -> Configuration;

    /// The GEMM of what is read; whether tiles of the products' A begin at any row.
    fn gemm<T: Element, C: Element>(self, read: Readable, begin_anywhere: bool) -> Self::Gemm;

    /// What it costs.
    fn cost(self, shape: Shape, sms: u32) -> Cost;

    /// The maps of the scales of the kernel's own A and B; `None` where blocks have no scales.
    fn scale_maps<T: Element, C: Element, K: Kind>(
        planned: Planned<Self, K>,
    ) -> Result<Option<[TileMaps<f32>; 2]>>;
}

impl WarpgroupWay for Configuration {
    type Gemm = HopperGemm;

    fn configuration(self) -> Configuration {
        self
    }

    fn gemm<T: Element, C: Element>(self, read: Readable, _: bool) -> HopperGemm {
        read.kernel::<T, C>(self)
    }

    fn cost(self, shape: Shape, sms: u32) -> Cost {
        Cost::of(self, shape, sms)
    }

    fn scale_maps<T: Element, C: Element, K: Kind>(
        _: Planned<Self, K>,
    ) -> Result<Option<[TileMaps<f32>; 2]>> {
        Ok(None)
    }
}

/// Products of a kind, and the way that they are computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Planned<W, K> {
    pub(super) kind: K,
    /// The products; of groups of rows, all rows times as many B.
    pub(super) batch: Batch,
    pub(super) way: W,
}

impl<W: WarpgroupWay, K: Kind> Planned<W, K> {
    /// What the kernel reads: its A is the products' B where it computes C's transpose.
    pub(super) fn read<T: Element>(self) -> Readable {
        let transposed = self.way.configuration().transposed;
        Readable::of::<T>(if transposed { self.batch.transposed() } else { self.batch })
    }

    /// Whether the kernel has an A, and a B, for each product.
    pub(super) fn own(self) -> (bool, bool) {
        let (a, b) = self.kind.own();
        if self.way.configuration().transposed { (b, a) } else { (a, b) }
    }

    /// The GEMM.
    pub(super) fn gemm<T: Element, C: Element>(self) -> W::Gemm {
        self.way.gemm::<T, C>(self.read::<T>(), self.kind.begin_anywhere())
    }

    /// The kernel with an epilogue.
    fn kernel<T: Element, C: Element, E: Clone>(
        self,
        finish: &Finish<'_, C, E>,
    ) -> FusedKernel<W::Gemm, E, K> {
        let fused = finish.fused(self.gemm::<T, C>(), self.way.configuration().transposed);
        FusedKernel { fused, kind: self.kind }
    }

    /// The kernel's PTX, with those parts of an epilogue.
    pub(super) fn ptx<A: WarpgroupInput, B: WarpgroupInput, C: GemmOutput>(
        self,
        (epilogue, kinds): (Parts, Kinds),
        capability: &'static Capability,
    ) -> Result<String> {
        let kernel = self.kernel::<A, C, _>(&Finish::by(epilogue));
        let kernel = FusedKernel { fused: Fused { kinds, ..kernel.fused }, ..kernel };
        let stores_boxes = self.batch.stores_boxes::<C>();
        match self.way.configuration().transposed {
            false => kernel.ptx::<A, B, C>(stores_boxes, capability),
            true => kernel.ptx::<B, A, C>(stores_boxes, capability),
        }
    }
}

/// The kernel of such a GEMM.
pub(super) struct Ready<G: WarpgroupGemm, K: Kind, A, B, C> {
    factors: Factors<A, B>,
    /// Sums of split tiles, and counters.
    split_space: (usize, usize),
    /// What stands for a matrix that the epilogue is not given.
    no_matrix: Arc<Buffer<C>>,
    start: Start<G, K, C>,
}

/// Launches a kernel, with the scales of A and B and what is told of the products.
type Start<G, K, C> = Box<
    dyn Fn(
            &Stream,
            Launched<'_, C>,
            &OnHost<'_, <G as WarpgroupGemm>::Scales>,
            &OnHost<'_, <K as Kind>::Told>,
        ) -> Result<LaunchCounts>
        + Send
        + Sync,
>;

/// What the host has of parameters.
pub(super) type OnHost<'h, P> = <P as Given>::OnHost<'h>;

/// What a launch is given.
struct Launched<'a, C> {
    /// The maps of the kernel's own A and B.
    maps: [runtime::TensorMap; 2],
    c: &'a mut Buffer<C>,
    slots: &'a mut Buffer<f32>,
    arrived: &'a mut Buffer<u32>,
    /// The numbers of an epilogue, and those of the rows and columns.
    numbers: [f32; NUMBERS],
    vectors: [&'a Buffer<f32>; 3],
    matrix: &'a Buffer<C>,
}

impl<G, K, A, B, C> Ready<G, K, A, B, C>
where
    G: WarpgroupGemm,
    K: Kind,
    A: WarpgroupInput + Storable,
    B: WarpgroupInput + Storable,
    C: GemmOutput + Storable,
{
    fn new<W: WarpgroupWay<Gemm = G>, E: FusedEpilogue<C>>(
        operations: &Operations,
        planned: Planned<W, K>,
        finish: &Finish<'_, C, E>,
    ) -> Result<Self> {
        let Planned { kind, batch, way } = planned;
        let configuration = way.configuration();
        let sms = operations.device().properties().sm_count;
        let cost = way.cost(kind.even(batch, configuration).shape::<A, C>(), sms);
        let (kernel, read) = (planned.kernel::<A, C, E>(finish), planned.read::<A>());
        let frame = *kernel.fused.gemm.frame();
        let Product { m, n, k, .. } = read.batch.product;
        let start: Start<G, K, C> = if batch.stores_boxes::<C>() {
            let (matrix, tile) = (extents(m, n), legal(frame.c_tile::<C>())?);
            let boxes: TileMaps<C> = match kind.own_c(batch) {
                None => TileMaps::new(matrix, &tile)?,
                Some((count, stride)) => TileMaps::of_many(matrix, (count.into(), stride), &tile)?,
            };
            let compiled = operations.kernel(kernel, FusedKernel::<G, E, K>::run::<A, B, C>)?;
            let shape = compiled.shape(cost.ctas).overlapping();
            Box::new(move |stream, given, scales, told| {
                let Launched { maps: [a, b], c, slots, arrived, numbers, vectors, matrix } = given;
                let ([rows, columns, more], boxes) = (vectors, boxes.of(c)?);
                let (scales, told) = (G::Scales::passed(scales), K::Told::passed(told));
                let arguments = (
                    &a, &b, scales, &boxes, c, matrix, numbers, rows, columns, more, slots, arrived, m, n, k,
                    told,
                );
                Ok(compiled.launch(stream, shape, arguments)?)
            })
        } else {
            let compiled = operations.kernel(kernel, FusedKernel::<G, E, K>::run_any::<A, B, C>)?;
            let shape = compiled.shape(cost.ctas).overlapping();
            Box::new(move |stream, given, scales, told| {
                let Launched { maps: [a, b], c, slots, arrived, numbers, vectors, matrix } = given;
                let [rows, columns, more] = vectors;
                let (scales, told) = (G::Scales::passed(scales), K::Told::passed(told));
                let arguments =
                    (&a, &b, scales, c, matrix, numbers, rows, columns, more, slots, arrived, m, n, k, told);
                Ok(compiled.launch(stream, shape, arguments)?)
            })
        };
        Ok(Self {
            factors: Factors::new(read, planned.own(), &frame)?,
            split_space: if configuration.split { cost.split_space() } else { (1, 1) },
            no_matrix: no_matrix(operations)?,
            start,
        })
    }

    fn launch<E>(
        &self,
        (operations, stream): (&Operations, &Stream),
        Operands { a, b, c, finish }: Operands<'_, A, B, C, E>,
        scales: &OnHost<'_, G::Scales>,
        told: &OnHost<'_, K::Told>,
    ) -> Result<LaunchCounts> {
        self.factors.mapped(operations, stream, (a, b), |maps| {
            operations.with_scratch(stream, |workspace: &mut Workspace| {
                let (slots, arrived, nothing) = workspace.of_size(operations, stream, self.split_space)?;
                let (numbers, vectors) = (finish.numbers, finish.vectors(nothing));
                let matrix = finish.matrix.unwrap_or(&self.no_matrix);
                let launched = Launched { maps, c, slots, arrived, numbers, vectors, matrix };
                (self.start)(stream, launched, scales, told)
            })
        })
    }
}

impl Operations {
    /// Launches the kernel of what is planned; the operands are the kernel's own.
    pub(super) fn by_warpgroups<W, K, A, B, C, E>(
        &self,
        stream: &Stream,
        planned: Planned<W, K>,
        operands: Operands<'_, A, B, C, E>,
        scales: &OnHost<'_, <W::Gemm as WarpgroupGemm>::Scales>,
        told: &OnHost<'_, K::Told>,
    ) -> Result<LaunchCounts>
    where
        W: WarpgroupWay,
        K: Kind,
        A: WarpgroupInput + Storable,
        B: WarpgroupInput + Storable,
        C: GemmOutput + Storable,
        E: FusedEpilogue<C>,
    {
        let finish = operands.finish;
        let key = (planned, finish.epilogue.clone(), finish.kinds());
        let ready = self.remembered::<(A, B, C), _, _>(key, |_| {
            Ready::<W::Gemm, K, A, B, C>::new(self, planned, finish)
        })?;
        ready.launch((self, stream), operands, scales, told)
    }
}

/// A stream's memory for products: where the parts of split tiles meet, and what stands for a vector that an epilogue does not read.
#[derive(Default)]
pub(super) struct Workspace {
    slots: Scratch<f32>,
    /// How many parts of each tile have come: zero between launches.
    arrived: Scratch<u32>,
    nothing: Scratch<f32>,
}

impl Workspace {
    /// Room for so many sums and counters, and what stands for no vector.
    pub(super) fn of_size(
        &mut self,
        operations: &Operations,
        stream: &Stream,
        (sums, counters): (usize, usize),
    ) -> Result<(&mut Buffer<f32>, &mut Buffer<u32>, &Buffer<f32>)> {
        let Self { slots, arrived, nothing } = self;
        let device = operations.device();
        Ok((
            slots.at_least(device, sums)?,
            arrived.at_least_kept(stream, counters)?,
            &*nothing.at_least(device, 1)?,
        ))
    }

    /// What stands for no vector.
    pub(super) fn nothing(&mut self, operations: &Operations) -> Result<&Buffer<f32>> {
        Ok(self.nothing.at_least(operations.device(), 1)?)
    }
}
