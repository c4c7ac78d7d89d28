//! The reductions as workloads: inputs, references and tolerances.

pub mod reference;

use strum::{EnumMessage, IntoStaticStr, VariantArray};
use warpwright::arch::Capability;
use warpwright_harness::{Compared, Options, Prepared, Refused, Result, Setup, Work, Workload, compare};

use self::reference::{check_extreme, check_index, check_sum};
use crate::sample::{ElementType, Sampled, with_element_type, work_of_one_read};
use warpwright_kernels::monoid::{ArgMax, ArgMin, Max, Min, Monoid, Searchable, Sum};
use warpwright_kernels::operations::Operations;
use warpwright_kernels::reduce::single_pass::{self, SinglePass};

/// Options of every reduction.
#[derive(Clone, Debug, Options)]
pub(crate) struct Reduction {
    /// Number of elements.
    #[option(default = 1_000_003)]
    length: usize,
    /// Data type of the elements.
    #[option(name = "type")]
    element: ElementType,
    /// CTAs per SM.
    #[option(min = 1, max = 64, search = [1, 2, 4])]
    ctas_per_sm: Option<u32>,
    /// Vectors per thread and tile.
    #[option(min = 1, max = 64, search = [1, 2, 4, 8, 16])]
    unroll: Option<u32>,
    /// Tiles in shared memory, on sm_90 and later.
    #[option(max = 64, search = [2, 3, 4, 6])]
    stages: Option<u32>,
}

impl Reduction {
    fn single_pass<M>(&self, monoid: M, capability: &Capability) -> Result<SinglePass<M>> {
        let fastest = SinglePass::new(monoid, capability);
        let stages = self.stages.unwrap_or(fastest.stages);
        if stages > 0 && fastest.stages == 0 {
            let reason = "--stages needs sm_90: tiles are copied to shared memory by bulk copies";
            return Err(Refused::new(reason).into());
        }
        let ctas_per_sm = self.ctas_per_sm.unwrap_or(fastest.ctas_per_sm);
        Ok(SinglePass { ctas_per_sm, unroll: self.unroll.unwrap_or(fastest.unroll), stages, ..fastest })
    }

    fn work(&self) -> Work {
        with_element_type!(self.element, T => work_of_one_read::<T>(self.length))
    }

    /// The reduction of random elements, whose result `check` compares with the reference.
    fn prepare<T: Sampled, M: Monoid<T>>(
        &self,
        setup: &Setup,
        monoid: M,
        check: impl Fn(M::Output, &[T]) -> Compared + 'static,
    ) -> Result<Box<dyn Prepared>> {
        let operations = Operations::new(setup.device());
        let single_pass = self.single_pass(monoid, setup.capability())?;
        let buffers = setup.buffers(self.work(), |seed| {
            let input = setup.input(self.length, |length| T::draw_many(seed, length))?;
            Ok((input, setup.output::<M::Output>(1)?))
        })?;
        Ok(buffers
            .launch(move |stream, (input, output)| {
                Ok(single_pass::launch(&operations, stream, input, output, single_pass)?)
            })
            .verify(move |(input, output)| {
                let found = check(output.to_vec()?[0], &input.to_vec()?);
                Ok(compare([found], |index| vec![index as usize])?)
            }))
    }
}

/// Reduces all elements to their sum, minimum or maximum, in one launch.
#[derive(Clone, Debug, Options)]
pub(crate) struct ReduceWorkload {
    /// Operation that combines two elements.
    by: By,
    /// Shared options.
    #[option(flatten)]
    reduction: Reduction,
}

/// The operation of a reduction or scan.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum By {
    /// The sum.
    #[default]
    Sum,
    /// The minimum.
    Min,
    /// The maximum.
    Max,
}

impl Workload for ReduceWorkload {
    const NAME: &'static str = "reduce";

    fn work(&self) -> Work {
        self.reduction.work()
    }

    fn prepare(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        let reduction = &self.reduction;
        with_element_type!(reduction.element, T => match self.by {
            By::Sum => {
                let single_pass = reduction.single_pass(Sum, setup.capability())?;
                let (operations, length) = (Operations::new(setup.device()), reduction.length as u64);
                let grid = single_pass::grid_of::<T, Sum>(&operations, &single_pass, length)?;
                let steps = single_pass.rounding_steps::<T>(length, grid);
                reduction.prepare::<T, _>(setup, Sum, move |found, input| check_sum::<T>(found, input, steps))
            }
            By::Min => reduction.prepare::<T, _>(setup, Min, |found, input| {
                check_extreme::<T>(found, input, |a, b| a < b, <T as Searchable>::MOST)
            }),
            By::Max => reduction.prepare::<T, _>(setup, Max, |found, input| {
                check_extreme::<T>(found, input, |a, b| a > b, <T as Searchable>::LEAST)
            }),
        })
    }
}

/// Finds the index of the first largest or smallest element, in one launch.
#[derive(Clone, Debug, Options)]
pub(crate) struct ArgMaxWorkload {
    /// Which element is searched for.
    of: Extreme,
    /// Shared options.
    #[option(flatten)]
    reduction: Reduction,
}

/// The largest or the smallest element.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
enum Extreme {
    /// The largest.
    #[default]
    Max,
    /// The smallest.
    Min,
}

impl Workload for ArgMaxWorkload {
    const NAME: &'static str = "argmax";

    fn work(&self) -> Work {
        self.reduction.work()
    }

    fn prepare(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        with_element_type!(self.reduction.element, T => match self.of {
            Extreme::Max => self.reduction.prepare::<T, _>(setup, ArgMax, |found, input| {
                check_index::<T>(found, input, |a, b| a > b)
            }),
            Extreme::Min => self.reduction.prepare::<T, _>(setup, ArgMin, |found, input| {
                check_index::<T>(found, input, |a, b| a < b)
            }),
        })
    }
}
