//! The ladder of Blackwell GEMMs as a workload.

use warpwright::arch::Capability;
use warpwright::runtime::{Buffer, LaunchCounts, Stream, TensorMap as Map};
use warpwright_harness::{
    HostNumber, Ladder, Measure, Options, Prepared, Result, Setup, Work, Workload, data_types, words,
};
use warpwright_kernels::gemm::GemmOutput;

use super::step::{BlackwellStep, Step, StepKernel, map_of_c};
use crate::elements;
use crate::error::LessonError;
use crate::operands::Inputs;

data_types! {
    /// Types of A, B and C.
    pub(crate) enum ElementType by with_element { bf16, f16 }
}

/// Multiplies matrices of 16-bit floats, C = A·Bᵀ, with TMA and tcgen05: a step of the ladder of Blackwell lessons.
#[derive(Clone, Debug, Options)]
pub(crate) struct BlackwellLadder {
    /// Rows of A and C.
    #[option(default = 512, min = 1, max = 1 << 30)]
    m: u32,
    /// Rows of B and columns of C, a multiple of 8.
    #[option(default = 512, min = 1, max = 1 << 30)]
    n: u32,
    /// Columns of A and B, a multiple of 8 (64 for step v2b).
    #[option(default = 256, min = 1, max = 1 << 30)]
    k: u32,
    /// Step of the ladder.
    step: BlackwellStep,
    /// Data type of A, B and C.
    element: ElementType,
}

/// A launch of a step.
type Launch<T> = Box<dyn FnMut(&Stream, &mut Set<T>) -> Result<LaunchCounts>>;

/// A and B, their tensor maps if the step has some, and C.
struct Set<T> {
    seed: u64,
    a: Buffer<T>,
    b: Buffer<T>,
    maps: Option<[Map; 2]>,
    c: Buffer<T>,
}

impl BlackwellLadder {
    /// Refuses extents that the step's kernel does not support.
    fn check(&self) -> std::result::Result<(), LessonError> {
        let of_rows = "stores 16 bytes of a row of C at a time";
        let by_tma = match self.step {
            BlackwellStep::Scalar => None,
            BlackwellStep::V2b => Some(("divides rows of A and B into spans of 128 bytes", 64)),
            _ => Some(("loads by TMA, which needs rows of A and B that are multiples of 16 bytes", 8)),
        };
        let rules = [
            Some(("n", self.n, of_rows, 8)),
            by_tma.map(|(reason, multiple)| ("k", self.k, reason, multiple)),
        ];
        for (option, extent, reason, multiple) in rules.into_iter().flatten() {
            if !extent.is_multiple_of(multiple) {
                return Err(LessonError::NotMultiple {
                    step: self.step.to_string(),
                    reason,
                    option,
                    multiple,
                    extent,
                });
            }
        }
        Ok(())
    }

    fn prepare_of<T: GemmOutput + HostNumber + Send + Sync>(
        &self,
        setup: &Setup,
    ) -> Result<Box<dyn Prepared>> {
        let extents @ (m, n, k) = (self.m, self.n, self.k);
        for (rows, columns) in [(m, k), (n, k), (m, n)] {
            elements(rows, columns)?;
        }
        let step = Step::<T>::new(self.step)?;
        let grid = step.grid((m, n), setup.sm_count());
        let boxes = match &step.kernel {
            StepKernel::Elements(_) => None,
            StepKernel::Maps(_, boxes) | StepKernel::MapsAlone(_, boxes) => Some(boxes.clone()),
        };
        let launch: Launch<T> = match &step.kernel {
            StepKernel::Elements(kernel) => {
                let compiled = setup.device().compile(kernel)?;
                Box::new(move |stream, Set { a, b, c, .. }| {
                    Ok(compiled.launch(stream, grid, (&*a, &*b, c, m, n, k))?)
                })
            }
            StepKernel::Maps(kernel, _) => {
                let compiled = setup.device().compile(kernel)?;
                Box::new(move |stream, Set { maps, c, .. }| {
                    let [a, b] = maps.as_ref().ok_or("a step that loads by TMA has tensor maps")?;
                    Ok(compiled.launch(stream, grid, (a, b, c, m, n, k))?)
                })
            }
            StepKernel::MapsAlone(kernel, _) => {
                let compiled = setup.device().compile(kernel)?;
                Box::new(move |stream, Set { maps, c, .. }| {
                    let [a, b] = maps.as_ref().ok_or("a step that loads by TMA has tensor maps")?;
                    let mut c = map_of_c(c, (m, n))?;
                    Ok(compiled.launch(stream, grid, (a, b, &mut c, m, n, k))?)
                })
            }
        };
        let buffers = setup.buffers(self.work(), |seed| {
            let inputs = || Inputs::<T>::of((extents, seed));
            let a = setup.input(m as usize * k as usize, |_| inputs().a.clone())?;
            let b = setup.input(n as usize * k as usize, |_| inputs().b.clone())?;
            let maps = boxes.as_ref().map(|boxes| boxes.maps((&a, m), (&b, n), k)).transpose()?;
            Ok(Set { seed, a, b, maps, c: setup.output(m as usize * n as usize)? })
        })?;
        Ok(buffers
            .launch(launch)
            .verify(move |Set { seed, c, .. }| Inputs::<T>::of((extents, *seed)).verify_product(c)))
    }
}

impl Workload for BlackwellLadder {
    const NAME: &'static str = "blackwell-ladder";

    fn supports(capability: &Capability) -> bool {
        ["sm_100a", "sm_103a"].contains(&capability.target)
    }

    /// A, B and C are moved once.
    fn work(&self) -> Work {
        let [m, n, k] = [self.m, self.n, self.k].map(f64::from);
        Work { operations: 2.0 * m * n * k, bytes: 2.0 * ((m + n) * k + m * n) }
    }

    fn prepare(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        self.check()?;
        with_element!(self.element, T => self.prepare_of::<T>(setup))
    }

    fn ladder() -> Option<Ladder> {
        Some(Ladder {
            option: "step",
            steps: words::<BlackwellStep>(),
            defaults: &[],
            measure: Measure::MatrixOperations,
            baseline: None,
            counted_on: "emu:b200",
            counted: &[("m", "256"), ("n", "512"), ("k", "256")],
        })
    }
}
