//! SwiGLU as a workload.

use strum::{EnumMessage, IntoStaticStr, VariantArray};
use warpwright::runtime::{Buffer, Storable};
use warpwright_harness::{
    Compared, HostNumber, Options, Prepared, Result, Setup, Values, Work, Workload, compare, data_types,
};

use warpwright_kernels::columns::MatrixColumns;
use warpwright_kernels::operations::Operations;
use warpwright_kernels::rows::RowElement;

data_types! {
    /// Types of gates and values.
    pub(crate) enum GateType by with_gate_type { bf16, f16, f32 }
}

/// Where gates and values are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
enum Layout {
    /// Halves of the columns of one matrix.
    #[default]
    Fused,
    /// Two matrices.
    Separate,
}

/// Multiplies the silu of gates with values, elementwise.
#[derive(Clone, Debug, Options)]
pub(crate) struct SwigluWorkload {
    /// Rows.
    #[option(default = 5, max = 1 << 24)]
    tokens: u32,
    /// Columns of the result.
    #[option(default = 1000, max = 1 << 24)]
    intermediate: u32,
    /// Data type of gates, values and result.
    #[option(name = "type")]
    element: GateType,
    /// Where gates and values are.
    layout: Layout,
    /// Vectors of a thread.
    #[option(default = 1, min = 1, max = 8, search = [1, 2, 4])]
    steps: u32,
}

impl SwigluWorkload {
    /// Offset and stride of gates and values, in the buffers of [`Self::prepare_of`].
    fn columns_of<'l, T>(&self, [first, second]: &'l [Buffer<T>; 2]) -> [MatrixColumns<'l, T>; 2] {
        let columns = self.intermediate;
        match self.layout {
            Layout::Fused => {
                [0, columns].map(|offset| MatrixColumns { buffer: first, offset, stride: 2 * columns })
            }
            Layout::Separate => {
                [first, second].map(|buffer| MatrixColumns { buffer, offset: 0, stride: columns })
            }
        }
    }

    fn prepare_of<T: RowElement + HostNumber + Storable>(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        let (rows, columns) = (self.tokens as usize, self.intermediate as usize);
        let lengths = match self.layout {
            Layout::Fused => [2 * rows * columns, 0],
            Layout::Separate => [rows * columns; 2],
        };
        let operations = Operations::new(setup.device());
        let buffers = setup.buffers(self.work(), |seed| {
            let inputs = [
                setup.values::<T>(Values::Normal, seed, lengths[0])?,
                setup.values(Values::Normal, !seed, lengths[1])?,
            ];
            Ok((inputs, setup.output::<T>(rows * columns)?))
        })?;
        let (this, reference) = (self.clone(), self.clone());
        Ok(buffers
            .launch(move |stream, (inputs, y)| {
                let [gates, values] = this.columns_of(inputs);
                Ok(operations.swiglu_by(
                    this.steps,
                    stream,
                    (this.tokens, this.intermediate),
                    gates,
                    values,
                    y,
                )?)
            })
            .verify(move |(inputs, y)| {
                let numbers = [inputs[0].to_vec()?, inputs[1].to_vec()?];
                let parts =
                    reference.columns_of(inputs).map(|part| (part.offset as usize, part.stride as usize));
                let input = |part: usize, index: usize| {
                    let (offset, stride) = parts[part];
                    let buffer = if reference.layout == Layout::Fused { 0 } else { part };
                    numbers[buffer][offset + index / columns * stride + index % columns].exact()
                };
                let compared = y.to_vec()?.into_iter().enumerate().map(|(index, found)| {
                    let gate = input(0, index);
                    let expected = gate / (1.0 + (-gate).exp()) * input(1, index);
                    let tolerance =
                        (1.01 * T::ROUNDING + 20.0 * f32::ROUNDING) * expected.abs() + T::SMALLEST;
                    Compared { found: found.exact(), expected, tolerance }
                });
                Ok(compare(compared, |index| vec![index as usize / columns, index as usize % columns])?)
            }))
    }
}

impl Workload for SwigluWorkload {
    const NAME: &'static str = "swiglu";

    /// Gates and values are read once, and the result is written once.
    fn work(&self) -> Work {
        let elements = f64::from(self.tokens) * f64::from(self.intermediate);
        let bytes = with_gate_type!(self.element, T => size_of::<T>()) as f64;
        Work { operations: 5.0 * elements, bytes: 3.0 * bytes * elements }
    }

    fn prepare(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        with_gate_type!(self.element, T => self.prepare_of::<T>(setup))
    }
}
