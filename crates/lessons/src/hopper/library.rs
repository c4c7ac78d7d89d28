//! The ladder for the command line: one kernel of the library, whose option `step` says how far up.

use std::cell::RefCell;
use std::rc::Rc;

use warpwright::arch::Capability;
use warpwright::prelude::*;
use warpwright::runtime::cublas::{self, CublasProduct, ProductShape};
use warpwright::runtime::{Buffer, Device, LaunchCounts, Storable, Stream, TensorMap as Map};

use super::error::LessonError;
use super::inputs::Inputs;
use super::step::{STEPS, Step, Storing};
use super::tile_copy::{self, TileCopy};
use super::{DEPTH, tile};
use crate::product::product;
use warpwright_kernels::gemm::GemmOutput;
use warpwright_kernels::prepared::{Ready, ptx, with_resources};
use warpwright_kernels::reference::Rounded;
use warpwright_kernels::registry::{
    Ladder, LibraryKernel, Measure, OptionSpec, Options, Prepared, Resources, Result, Work,
};

/// The ladder.
pub(crate) struct Library;

const OPTIONS: &[OptionSpec] = &[
    OptionSpec::extent("m", 512, "rows of A and C"),
    OptionSpec::extent("n", 512, "rows of B and columns of C"),
    OptionSpec::extent("k", 256, "columns of A and B, a multiple of 8"),
    OptionSpec::choice("step", STEPS, "how far up the ladder"),
    OptionSpec::choice("output", &["bf16", "f32"], "type of C"),
    OptionSpec::number("seed", 1, "of the inputs"),
];

/// What launches a kernel once.
type Launcher = Box<dyn FnMut(&Stream) -> Result<LaunchCounts>>;

/// A product to compute.
#[derive(Clone, Copy)]
struct Problem {
    m: u32,
    n: u32,
    k: u32,
    step: &'static str,
    seed: u64,
}

impl Problem {
    fn of(options: &Options) -> Result<Self> {
        let (m, n, k) = (options.u32("m")?, options.u32("n")?, options.u32("k")?);
        rows_of_16_bytes("A and B", "k", k)?;
        Ok(Self { m, n, k, step: options.choice("step"), seed: options.number("seed") })
    }

    fn text<C: GemmOutput>(&self, target: &str) -> Result<String> {
        match Step::<C>::named(self.step)?.kernel {
            Storing::Elements(kernel) => ptx(kernel, target),
            Storing::Boxes(kernel) => ptx(kernel, target),
        }
    }

    /// A launch that copies A.
    fn prepare_copy(&self, device: &Device) -> Result<Box<dyn Prepared>> {
        let (m, k) = (self.m, self.k);
        let inputs = Inputs::of(((m, self.n, k), self.seed));
        let source = device.buffer_from(&inputs.a)?;
        let target = device.uninitialized::<bf16>(inputs.a.len())?;
        let source = map(&source, (m, k), tile_copy::ROWS)?;
        let target_map = map(&target, (m, k), tile_copy::ROWS)?;
        let compiled = device.compile(&TileCopy.run()?)?;
        let tiles = m.div_ceil(tile_copy::ROWS) * k.div_ceil(DEPTH);
        let bytes = 2.0 * f64::from(bf16::BYTES) * f64::from(m) * f64::from(k);
        Ok(Box::new(Ready {
            launch: move |stream: &Stream| Ok(compiled.launch(stream, tiles, (&source, &target_map, k))?),
            verify: move || inputs.verify_copy(&target),
            work: Work { operations: 0.0, bytes },
        }))
    }

    /// A launch that multiplies.
    fn prepare<C: GemmOutput + Storable + Rounded>(&self, device: &Device) -> Result<Box<dyn Prepared>> {
        let &Self { m, n, k, .. } = self;
        let step = Step::<C>::named(self.step)?;
        let grid = step.grid((m, n), device.properties().sm_count)?;
        let inputs = Inputs::of(((m, n, k), self.seed));
        let a = map(&device.buffer_from(&inputs.a)?, (m, k), step.tile.0)?;
        // Each CTA of a cluster loads its part of B's rows.
        let b = map(&device.buffer_from(&inputs.b)?, (n, k), step.tile.1 / step.cluster)?;
        let c = Rc::new(device.uninitialized::<C>(m as usize * n as usize)?);
        let resources;
        let launch: Launcher = match step.kernel {
            Storing::Elements(kernel) => {
                let compiled = device.compile(&kernel)?;
                let (shape, c) = (compiled.shape(grid), Rc::clone(&c));
                resources = Resources::of(compiled.function(), &shape)?;
                Box::new(move |stream| {
                    Ok(compiled.function().launch(stream, shape, (&a, &b, &*c, m, n, k))?)
                })
            }
            Storing::Boxes(kernel) => {
                rows_of_16_bytes("C", "n", n)?;
                let compiled = device.compile(&kernel)?;
                let c = map(&c, (m, n), STORED_ROWS)?;
                resources = Resources::of(compiled.function(), &compiled.shape(grid))?;
                Box::new(move |stream| Ok(compiled.launch(stream, grid, (&a, &b, &c, m, n, k))?))
            }
        };
        let work = self.work::<C>();
        let ready = Ready { launch, verify: move || inputs.verify_product(&c), work };
        Ok(with_resources(Box::new(ready), resources))
    }

    /// What any way to multiply must do: each element of A, B and C moved once.
    fn work<C: Element>(&self) -> Work {
        let [m, n, k] = [self.m, self.n, self.k].map(f64::from);
        let factors = f64::from(bf16::BYTES) * (m + n) * k;
        Work { operations: 2.0 * m * n * k, bytes: factors + f64::from(C::BYTES) * m * n }
    }

    /// The same product by cuBLAS, held to the same reference.
    fn cublas<C: Storable + Rounded>(&self, device: &Device) -> Result<Box<dyn Prepared>> {
        let &Self { m, n, k, .. } = self;
        let inputs = Inputs::of(((m, n, k), self.seed));
        let (a, b) = (device.buffer_from(&inputs.a)?, device.buffer_from(&inputs.b)?);
        let (m, n, k) = (m as usize, n as usize, k as usize);
        let c = Rc::new(RefCell::new(device.uninitialized::<C>(m * n)?));
        let shape =
            ProductShape { m, n, k, a: cublas::Order::RowMajor, b: cublas::Order::ColumnMajor, batch: 1 };
        let product = CublasProduct::new(&device.stream()?, shape, &a, &b, &mut c.borrow_mut())?;
        let result = Rc::clone(&c);
        Ok(Box::new(Ready {
            launch: move |stream: &Stream| {
                product.launch(stream, &a, &b, &mut c.borrow_mut())?;
                Ok(LaunchCounts::default())
            },
            verify: move || inputs.verify_product(&result.borrow()),
            work: self.work::<C>(),
        }))
    }
}

/// Rows of C that a warpgroup stores at once.
const STORED_ROWS: u32 = 64;

/// Refuses a matrix of 16-bit elements whose rows are not whole multiples of 16 bytes.
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

/// The map of a row-major matrix of 16-bit elements, whose boxes are tiles of `high` rows.
fn map<T: Storable>(buffer: &Buffer<T>, (rows, columns): (u32, u32), high: u32) -> Result<Map> {
    Ok(Map::of_tile(buffer, (rows.into(), columns.into()), &tile(high))?)
}

impl LibraryKernel for Library {
    fn name(&self) -> &'static str {
        "hopper-ladder"
    }

    fn summary(&self) -> &'static str {
        "C = A·Bᵀ in bf16 by TMA and wgmma, a step of the ladder of Hopper lessons"
    }

    fn options(&self) -> &'static [OptionSpec] {
        OPTIONS
    }

    fn applies_to(&self, capability: &Capability) -> bool {
        capability.target == "sm_90a"
    }

    fn ptx(&self, target: &str, options: &Options) -> Result<String> {
        let problem = Problem::of(options)?;
        match (problem.step, options.choice("output")) {
            ("tile-copy", _) => ptx(TileCopy.run()?, target),
            ("gemm", _) => {
                let (kernel, options) = product("gemm", options, &[])?;
                kernel.ptx(target, &options)
            }
            (_, "f32") => problem.text::<f32>(target),
            _ => problem.text::<bf16>(target),
        }
    }

    fn prepare(&self, device: &Device, options: &Options) -> Result<Box<dyn Prepared>> {
        let problem = Problem::of(options)?;
        match (problem.step, options.choice("output")) {
            ("tile-copy", _) => problem.prepare_copy(device),
            ("gemm", _) => {
                let (kernel, options) = product("gemm", options, &[])?;
                kernel.prepare(device, &options)
            }
            (_, "f32") => problem.prepare::<f32>(device),
            _ => problem.prepare::<bf16>(device),
        }
    }

    fn rival(&self, name: &str, device: &Device, options: &Options) -> Option<Result<Box<dyn Prepared>>> {
        let prepare = || {
            let problem = Problem::of(options)?;
            match options.choice("output") {
                "f32" => problem.cublas::<f32>(device),
                _ => problem.cublas::<bf16>(device),
            }
        };
        (name == "cublas").then(prepare)
    }

    fn ladder(&self) -> Option<Ladder> {
        let (_copy, steps) = STEPS.split_first()?;
        Some(Ladder {
            option: "step",
            // The first step multiplies nothing: its speed is bytes.
            steps,
            defaults: &[],
            measure: Measure::MatrixOperations,
            rival: Some("cublas"),
            counted: &[("m", "256"), ("n", "512"), ("k", "256")],
        })
    }
}
