//! A Hopper kernel for a batch of products, ready to be launched: all about the launch that does not depend on where the matrices are.

use std::sync::Arc;

use warpwright::runtime::{self, Buffer, LaunchCounts, Storable, Stream, TileMaps};

use super::GemmOutput;
use super::batched::{Batch, Batched};
use super::finish::{Finish, FusedEpilogue, NUMBERS};
use super::fused::Fused;
use super::hopper::{self, HopperGemm};
use super::multiply::{Factor, Operands, Product, extents, legal, no_matrix};
use super::plan::{self, Configuration};
use super::readable::{Factors, Readable};
use crate::operations::{Operations, Result, Scratch};

/// The kernel of a batch.
pub(super) struct Ready<T, C> {
    factors: Factors<T>,
    /// Sums of split tiles, and counters.
    split_space: (usize, usize),
    /// What stands for a matrix that the epilogue is not given.
    no_matrix: Arc<Buffer<C>>,
    start: Start<C>,
}

/// Launches a kernel.
type Start<C> = Box<dyn Fn(&Stream, Launched<'_, C>) -> Result<LaunchCounts> + Send + Sync>;

/// What a launch is given.
pub(super) struct Launched<'a, C> {
    /// The maps of the kernel's own A and B.
    pub(super) maps: [runtime::TensorMap; 2],
    pub(super) c: &'a mut Buffer<C>,
    pub(super) slots: &'a mut Buffer<f32>,
    pub(super) arrived: &'a mut Buffer<u32>,
    /// The numbers of an epilogue, and those of the rows and columns.
    pub(super) numbers: [f32; NUMBERS],
    pub(super) vectors: [&'a Buffer<f32>; 3],
    pub(super) matrix: &'a Buffer<C>,
}

impl<T: Factor, C: GemmOutput + Storable> Ready<T, C> {
    pub(super) fn new<E: FusedEpilogue<C>>(
        operations: &Operations,
        batch: Batch,
        configuration: Configuration,
        finish: &Finish<'_, C, E>,
    ) -> Result<Self> {
        let readable = Readable::of::<T>(batch);
        let gemm = readable.batch.product.kernel::<T, C>(configuration);
        let sms = operations.device().properties().sm_count;
        let cost = plan::Cost::of(configuration, batch.shape::<T, C>(), sms);
        let Product { m, n, k, .. } = batch.product;
        let (m, n) = if configuration.transposed { (n, m) } else { (m, n) };
        let fused = finish.fused(gemm, configuration.transposed);
        let many = batch.kernel(fused.clone());
        let repetition = (batch.count, batch.c_stride);
        let maps = || -> Result<TileMaps<C>> {
            let (extents, tile) = (extents(m, n), legal(gemm.c_tile::<C>())?);
            Ok(match batch.count {
                1 => TileMaps::new(extents, &tile)?,
                count => TileMaps::of_many(extents, (count.into(), batch.c_stride), &tile)?,
            })
        };
        let start: Start<C> = match (batch.count, batch.stores_boxes::<C>()) {
            (1, true) => {
                let (compiled, maps) =
                    (operations.kernel(fused, Fused::<HopperGemm, E>::run::<T, C>)?, maps()?);
                let shape = compiled.shape(cost.ctas, hopper::THREADS).overlapping();
                Box::new(move |stream, given| {
                    let Launched { maps: [a, b], c, slots, arrived, numbers, vectors, matrix } = given;
                    let ([rows, columns, more], map) = (vectors, maps.of(c)?);
                    let arguments =
                        (&a, &b, &map, &*c, matrix, numbers, rows, columns, more, slots, arrived, m, n, k);
                    Ok(compiled.launch_as(stream, shape, arguments)?)
                })
            }
            (1, false) => {
                let compiled = operations.kernel(fused, Fused::<HopperGemm, E>::run_any::<T, C>)?;
                let shape = compiled.shape(cost.ctas, hopper::THREADS).overlapping();
                Box::new(move |stream, given| {
                    let Launched { maps: [a, b], c, slots, arrived, numbers, vectors, matrix } = given;
                    let [rows, columns, more] = vectors;
                    let arguments =
                        (&a, &b, c, matrix, numbers, rows, columns, more, slots, arrived, m, n, k);
                    Ok(compiled.launch_as(stream, shape, arguments)?)
                })
            }
            (_, true) => {
                let (compiled, maps) = (operations.kernel(many, Batched::<E>::run::<T, C>)?, maps()?);
                let shape = compiled.shape(cost.ctas, hopper::THREADS).overlapping();
                Box::new(move |stream, given| {
                    let Launched { maps: [a, b], c, slots, arrived, numbers, vectors, matrix } = given;
                    let ([rows, columns, more], map) = (vectors, maps.of(c)?);
                    let arguments = (
                        &a, &b, &map, &*c, matrix, numbers, rows, columns, more, slots, arrived, m, n, k,
                        repetition,
                    );
                    Ok(compiled.launch_as(stream, shape, arguments)?)
                })
            }
            (_, false) => {
                let compiled = operations.kernel(many, Batched::<E>::run_any::<T, C>)?;
                let shape = compiled.shape(cost.ctas, hopper::THREADS).overlapping();
                Box::new(move |stream, given| {
                    let Launched { maps: [a, b], c, slots, arrived, numbers, vectors, matrix } = given;
                    let [rows, columns, more] = vectors;
                    let arguments = (
                        &a, &b, c, matrix, numbers, rows, columns, more, slots, arrived, m, n, k, repetition,
                    );
                    Ok(compiled.launch_as(stream, shape, arguments)?)
                })
            }
        };
        Ok(Self {
            factors: Factors::new(readable, batch.own(), &gemm, configuration.transposed)?,
            split_space: if configuration.split { cost.split_space() } else { (1, 1) },
            no_matrix: no_matrix(operations)?,
            start,
        })
    }

    pub(super) fn launch<E>(
        &self,
        operations: &Operations,
        stream: &Stream,
        operands: Operands<'_, T, C, E>,
    ) -> Result<LaunchCounts> {
        let parts = (&self.factors, self.split_space, &*self.no_matrix);
        launch((operations, stream), parts, operands, |launched| (self.start)(stream, launched))
    }
}

/// Launches a kernel: `start` is given maps of its own A and B, and memory for the sums and counters of split tiles.
pub(super) fn launch<T: Factor, C: GemmOutput + Storable, E>(
    (operations, stream): (&Operations, &Stream),
    (factors, split_space, no_matrix): (&Factors<T>, (usize, usize), &Buffer<C>),
    Operands { a, b, c, finish }: Operands<'_, T, C, E>,
    start: impl FnOnce(Launched<'_, C>) -> Result<LaunchCounts>,
) -> Result<LaunchCounts> {
    factors.mapped(operations, stream, [a, b], |maps| {
        operations.with_scratch(stream, |workspace: &mut Workspace| {
            let (slots, arrived, nothing) = workspace.of_size(operations, stream, split_space)?;
            let (numbers, vectors) = (finish.numbers, finish.vectors(nothing));
            let matrix = finish.matrix.unwrap_or(no_matrix);
            start(Launched { maps, c, slots, arrived, numbers, vectors, matrix })
        })
    })
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
