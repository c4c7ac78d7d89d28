//! The scan as a workload.

pub mod reference;

use warpwright_harness::{Options, Prepared, Result, Setup, Work, Workload};

use self::reference::{Reference, work};
use crate::reduce::By;
use crate::sample::{ElementType, Sampled, with_element_type};
use warpwright_kernels::monoid::{Max, Min, Monoid, Sum};
use warpwright_kernels::operations::Operations;
use warpwright_kernels::scan::single_pass::{ScanKind, SinglePass};

/// Combines every prefix, in one launch with decoupled look-back.
#[derive(Clone, Debug, Options)]
pub(crate) struct ScanWorkload {
    /// Number of elements.
    #[option(default = 1_000_003)]
    length: usize,
    /// Data type of the elements.
    #[option(name = "type")]
    element: ElementType,
    /// Operation that combines two elements.
    by: By,
    /// Whether a result includes the element at its own index.
    kind: ScanKind,
}

impl ScanWorkload {
    fn prepare_of<T: Sampled, M: Monoid<T, Output = T>>(
        &self,
        setup: &Setup,
        monoid: M,
        reference: Reference<T>,
    ) -> Result<Box<dyn Prepared>> {
        let kind = self.kind;
        let single_pass = SinglePass::new::<T>(monoid, kind, setup.capability());
        let steps = single_pass.rounding_steps::<T>(self.length as u64) as f64;
        let operations = Operations::new(setup.device());
        let buffers = setup.buffers(self.work(), |seed| {
            let input = setup.input(self.length, |length| T::draw_many(seed, length))?;
            Ok((input, setup.output::<T>(self.length)?))
        })?;
        Ok(buffers
            .launch(move |stream, (input, output)| {
                Ok(match kind {
                    ScanKind::Inclusive => operations.inclusive_scan(stream, input, output, monoid)?,
                    ScanKind::Exclusive => operations.exclusive_scan(stream, input, output, monoid)?,
                })
            })
            .verify(move |(input, output)| {
                reference.verify(kind, &input.to_vec()?, &output.to_vec()?, steps)
            }))
    }
}

impl Workload for ScanWorkload {
    const NAME: &'static str = "scan";

    fn work(&self) -> Work {
        with_element_type!(self.element, T => work::<T>(self.length))
    }

    fn prepare(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        with_element_type!(self.element, T => match self.by {
            By::Sum => self.prepare_of::<T, _>(setup, Sum, Reference::sums()),
            By::Min => self.prepare_of::<T, _>(setup, Min, Reference::smallest()),
            By::Max => self.prepare_of::<T, _>(setup, Max, Reference::largest()),
        })
    }
}
