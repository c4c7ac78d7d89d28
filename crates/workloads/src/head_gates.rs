//! The gates of heads as a workload.

use warpwright::runtime::Storable;
use warpwright_harness::{
    Compared, HostNumber, Options, Prepared, Result, Setup, Values, Work, Workload, compare, data_types,
};

use warpwright_kernels::operations::Operations;
use warpwright_kernels::rope::HeadRows;
use warpwright_kernels::rows::RowElement;

data_types! {
    /// Types of heads.
    pub(crate) enum HeadType by with_head_type { bf16, f16, f32 }
}

/// Multiplies heads by the sigmoid of gates, which follow the queries in a projection.
#[derive(Clone, Debug, Options)]
pub(crate) struct HeadGatesWorkload {
    /// Tokens.
    #[option(default = 5, max = 1 << 16)]
    tokens: u32,
    /// Heads.
    #[option(default = 4, max = 1 << 8)]
    heads: u32,
    /// Elements of a head.
    #[option(default = 80, max = 1 << 10)]
    head_dim: u32,
    /// Data type of the heads.
    #[option(name = "type")]
    element: HeadType,
}

impl HeadGatesWorkload {
    fn elements(&self) -> usize {
        self.tokens as usize * self.heads as usize * self.head_dim as usize
    }

    fn prepare_of<T: RowElement + HostNumber + Storable>(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        let Self { tokens, heads, head_dim, .. } = *self;
        let (count, head_stride) = (self.elements(), 2 * head_dim);
        // Keys follow the queries and their gates.
        let token_stride = heads * head_stride + head_dim;
        let operations = Operations::new(setup.device());
        let buffers = setup.buffers(self.work(), |seed| {
            let x = setup.values::<T>(Values::Normal, seed, count)?;
            let projection = setup.values::<T>(Values::Normal, !seed, (tokens * token_stride) as usize)?;
            Ok((x, projection, setup.output::<T>(count)?))
        })?;
        Ok(buffers
            .launch(move |stream, (x, projection, y)| {
                let gates = HeadRows { buffer: &*projection, offset: head_dim, token_stride, head_stride };
                Ok(operations.gate_heads(stream, (tokens, heads, head_dim), x, gates, y)?)
            })
            .verify(move |(x, projection, y)| {
                let (x, projection) = (x.to_vec()?, projection.to_vec()?);
                let [heads, d, stride] = [heads, head_dim, token_stride].map(|extent| extent as usize);
                let compared = y.to_vec()?.into_iter().enumerate().map(|(at, found)| {
                    let (head, column) = (at / d, at % d);
                    let gate = projection[head / heads * stride + head % heads * 2 * d + d + column].exact();
                    let expected = x[at].exact() / (1.0 + (-gate).exp());
                    let tolerance = (1.01 * T::ROUNDING + 1e-6) * expected.abs() + T::SMALLEST;
                    Compared { found: found.exact(), expected, tolerance }
                });
                Ok(compare(compared, |index| vec![index as usize / d, index as usize % d])?)
            }))
    }
}

impl Workload for HeadGatesWorkload {
    const NAME: &'static str = "head-gates";

    /// Heads and gates are read once, and the result is written once.
    fn work(&self) -> Work {
        let bytes = with_head_type!(self.element, T => size_of::<T>()) as f64;
        let elements = self.elements() as f64;
        Work { operations: 4.0 * elements, bytes: 3.0 * bytes * elements }
    }

    fn prepare(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        with_head_type!(self.element, T => self.prepare_of::<T>(setup))
    }
}
