//! The ladder of Hopper GEMMs as a workload.

use warpwright::arch::Capability;
use warpwright::prelude::*;
use warpwright::runtime::cublas::{self, CublasMatmul, MatmulShape};
use warpwright::runtime::{Buffer, LaunchCounts, MappedBuffer, Storable, Stream, TensorMap as Map};
use warpwright_harness::{
    HostNumber, Ladder, Measure, Options, Prepared, Result, Setup, Work, Workload, data_types, words,
};
use warpwright_kernels::gemm::GemmOutput;

use super::step::{HopperStep, Step, Storing};
use super::tile_copy::{self, TileCopy};
use super::{DEPTH, tile};
use crate::error::LessonError;
use crate::library::library;
use crate::operands::Inputs;

data_types! {
    /// Types of C.
    pub(crate) enum OutputType by with_output { bf16, f32 }
}

/// Multiplies bf16 matrices, C = A·Bᵀ, with TMA and wgmma: a step of the ladder of Hopper lessons.
#[derive(Clone, Debug, Options)]
pub(crate) struct HopperLadder {
    /// Rows of A and C.
    #[option(default = 512, min = 1, max = 1 << 30)]
    m: u32,
    /// Rows of B and columns of C.
    #[option(default = 512, min = 1, max = 1 << 30)]
    n: u32,
    /// Columns of A and B, a multiple of 8.
    #[option(default = 256, min = 1, max = 1 << 30)]
    k: u32,
    /// Step of the ladder.
    step: HopperStep,
    /// Data type of C.
    output: OutputType,
}

/// A launch of a step.
type Launch<C> = Box<dyn FnMut(&Stream, &mut Set<C>) -> Result<LaunchCounts>>;

/// Tensor maps of A and B, and C.
struct Set<C> {
    seed: u64,
    a: Map,
    b: Map,
    c: Buffer<C>,
}

impl HopperLadder {
    fn extents(&self) -> (u32, u32, u32) {
        (self.m, self.n, self.k)
    }

    fn a(&self, setup: &Setup, seed: u64) -> Result<Buffer<bf16>> {
        let length = self.m as usize * self.k as usize;
        setup.input(length, |_| Inputs::of((self.extents(), seed)).a.clone())
    }

    fn b(&self, setup: &Setup, seed: u64) -> Result<Buffer<bf16>> {
        let length = self.n as usize * self.k as usize;
        setup.input(length, |_| Inputs::of((self.extents(), seed)).b.clone())
    }

    fn c<C: Storable>(&self, setup: &Setup) -> Result<Buffer<C>> {
        setup.output(self.m as usize * self.n as usize)
    }

    /// A launch that copies A.
    fn prepare_copy(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        let extents @ (m, _, k) = self.extents();
        let compiled = setup.device().compile(&TileCopy.run()?)?;
        let tiles = m.div_ceil(tile_copy::ROWS) * k.div_ceil(DEPTH);
        let buffers = setup.buffers(self.work(), |seed| {
            let mut target = setup.output::<bf16>(m as usize * k as usize)?;
            let source = map(&self.a(setup, seed)?, (m, k), tile_copy::ROWS)?;
            let to = map(&mut target, (m, k), tile_copy::ROWS)?;
            Ok((seed, source, to, target))
        })?;
        Ok(buffers
            .launch(move |stream, (_, source, target, _)| {
                Ok(compiled.launch(stream, tiles, (source, target, k))?)
            })
            .verify(move |(seed, .., target)| Inputs::<bf16>::of((extents, *seed)).verify_copy(target)))
    }

    /// A launch that multiplies.
    fn prepare_of<C: GemmOutput + HostNumber>(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        let extents @ (m, n, k) = self.extents();
        let step = Step::<C>::new(self.step)?;
        let grid = step.grid((m, n), setup.sm_count())?;
        let launch: Launch<C> = match &step.kernel {
            Storing::Elements(kernel) => {
                let compiled = setup.device().compile(kernel)?;
                Box::new(move |stream, Set { a, b, c, .. }| {
                    Ok(compiled.launch(stream, grid, (a, b, c, m, n, k))?)
                })
            }
            Storing::Boxes(kernel) => {
                rows_of_16_bytes("C", "n", n)?;
                let compiled = setup.device().compile(kernel)?;
                Box::new(move |stream, Set { a, b, c, .. }| {
                    let mut c = map(c, (m, n), STORED_ROWS)?;
                    Ok(compiled.launch(stream, grid, (a, b, &mut c, m, n, k))?)
                })
            }
        };
        let buffers = setup.buffers(self.work(), |seed| {
            Ok(Set {
                seed,
                a: map(&self.a(setup, seed)?, (m, k), step.tile.0)?,
                // Each CTA of a cluster loads its part of B's rows.
                b: map(&self.b(setup, seed)?, (n, k), step.tile.1 / step.cluster)?,
                c: self.c(setup)?,
            })
        })?;
        Ok(buffers
            .launch(launch)
            .verify(move |Set { seed, c, .. }| Inputs::<bf16>::of((extents, *seed)).verify_product(c)))
    }

    /// The same product by cuBLAS, compared with the same reference.
    fn cublas<C: HostNumber>(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        let extents = self.extents();
        let (m, n, k) = (self.m as usize, self.n as usize, self.k as usize);
        let shape = MatmulShape {
            m,
            n,
            k,
            a: cublas::MatrixLayout::RowMajor,
            b: cublas::MatrixLayout::ColumnMajor,
            batch: 1,
        };
        let matrices =
            |seed| -> Result<_> { Ok((self.a(setup, seed)?, self.b(setup, seed)?, self.c::<C>(setup)?)) };
        let (a, b, mut c) = matrices(setup.seed())?;
        let product = CublasMatmul::new(&setup.device().stream()?, shape, &a, &b, &mut c)?;
        drop((a, b, c));
        let buffers = setup.buffers(self.work(), |seed| Ok((seed, matrices(seed)?)))?;
        Ok(buffers
            .launch(move |stream, (_, (a, b, c))| {
                product.launch(stream, a, b, c)?;
                Ok(LaunchCounts::default())
            })
            .verify(move |(seed, (.., c))| Inputs::<bf16>::of((extents, *seed)).verify_product(c)))
    }
}

/// Rows of C that a warpgroup stores at a time.
const STORED_ROWS: u32 = 64;

/// Refuses a matrix of 16-bit elements whose row stride is not a multiple of 16 bytes.
fn rows_of_16_bytes(
    matrix: &'static str,
    option: &'static str,
    extent: u32,
) -> std::result::Result<(), LessonError> {
    let element_bytes = bf16::BYTES;
    match extent.is_multiple_of(16 / element_bytes) {
        true => Ok(()),
        false => Err(LessonError::RowsOf16Bytes { matrix, option, extent, element_bytes }),
    }
}

/// The tensor map of a row-major matrix of 16-bit elements, with tiles of `tile_rows` rows as
/// boxes.
fn map<T: Storable>(
    buffer: impl MappedBuffer<T>,
    (rows, columns): (u32, u32),
    tile_rows: u32,
) -> Result<Map> {
    Ok(Map::of_tile(buffer, (rows.into(), columns.into()), &tile(tile_rows))?)
}

impl Workload for HopperLadder {
    const NAME: &'static str = "hopper-ladder";

    fn supports(capability: &Capability) -> bool {
        capability.target == "sm_90a"
    }

    /// A, B and C are moved once; for the copy, A is read and written.
    fn work(&self) -> Work {
        let [m, n, k] = [self.m, self.n, self.k].map(f64::from);
        let operand_bytes = f64::from(bf16::BYTES);
        if self.step == HopperStep::TileCopy {
            return Work { operations: 0.0, bytes: 2.0 * operand_bytes * m * k };
        }
        let c_bytes = with_output!(self.output, C => f64::from(C::BYTES));
        Work { operations: 2.0 * m * n * k, bytes: operand_bytes * (m + n) * k + c_bytes * m * n }
    }

    fn prepare(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        rows_of_16_bytes("A and B", "k", self.k)?;
        match self.step {
            HopperStep::TileCopy => self.prepare_copy(setup),
            HopperStep::Gemm => library("gemm", self, &[])?.prepare(setup),
            _ => with_output!(self.output, C => self.prepare_of::<C>(setup)),
        }
    }

    fn baseline(&self, name: &str, setup: &Setup) -> Option<Result<Box<dyn Prepared>>> {
        (name == "cublas").then(|| with_output!(self.output, C => self.cublas::<C>(setup)))
    }

    fn ladder() -> Option<Ladder> {
        Some(Ladder {
            option: "step",
            // The first step multiplies nothing: its speed is in bytes.
            steps: words::<HopperStep>().split_off(1),
            defaults: &[],
            measure: Measure::MatrixOperations,
            baseline: Some("cublas"),
            counted_on: "emu:h200",
            counted: &[("m", "256"), ("n", "512"), ("k", "256")],
        })
    }
}
