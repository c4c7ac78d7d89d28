//! The quantization of rows as a workload.

use strum::{EnumMessage, IntoStaticStr, VariantArray};
use warpwright::arch::Capability;
use warpwright::prelude::*;
use warpwright::runtime::Buffer;
use warpwright_harness::{
    Compared, HostNumber, Options, Prepared, Result, Setup, Values, Work, Workload, compare,
};

use warpwright_kernels::gemm::problem::scales::Granularity;
use warpwright_kernels::gemv::InputNorm;
use warpwright_kernels::group_quantize::QuantizedRows;
use warpwright_kernels::operations::Operations;
use warpwright_kernels::rows::Gain;

/// What is quantized.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
enum Source {
    /// Rows as they are.
    #[default]
    Rows,
    /// SwiGLU of rows of gates and values.
    Swiglu,
    /// RMSNorm of rows, times the weight.
    Weight,
    /// RMSNorm of rows, times 1 + weight.
    ZeroCentred,
}

/// Quantizes rows of bf16 to e4m3 with a scale for each 128 elements.
#[derive(Clone, Debug, Options)]
pub(crate) struct GroupQuantizeWorkload {
    /// Rows.
    #[option(default = 5, max = 1 << 16)]
    tokens: u32,
    /// Columns: a multiple of 4.
    #[option(default = 300, max = 1 << 16)]
    hidden: u32,
    /// What is quantized.
    of: Source,
    /// Store the normalized rows as well.
    keep: bool,
}

const EPSILON: f32 = 1e-6;

/// The buffers of a launch.
struct Set {
    x: Buffer<bf16>,
    gains: Buffer<bf16>,
    values: Buffer<e4m3>,
    scales: Buffer<f32>,
    kept: Buffer<bf16>,
}

fn exact<T: HostNumber>(buffer: &Buffer<T>) -> Result<Vec<f64>> {
    Ok(buffer.to_vec()?.into_iter().map(T::exact).collect())
}

impl GroupQuantizeWorkload {
    /// Elements of a row of x.
    fn stride(&self) -> u32 {
        if self.of == Source::Swiglu { 2 * self.hidden + 4 } else { self.hidden }
    }

    /// Whether normalized rows are stored.
    fn keeps(&self) -> bool {
        self.keep && matches!(self.of, Source::Weight | Source::ZeroCentred)
    }

    /// A row before it is quantized.
    fn row(&self, x: &[f64], gains: &[f64]) -> Vec<f64> {
        let d = self.hidden as usize;
        let squares = x.iter().map(|x| x * x).sum::<f64>() / d as f64;
        let root = 1.0 / (squares + f64::from(EPSILON)).sqrt();
        let of_column = |column: usize| match self.of {
            Source::Rows => x[column],
            Source::Swiglu => x[column] / (1.0 + (-x[column]).exp()) * x[d + column],
            Source::Weight => x[column] * root * gains[column],
            Source::ZeroCentred => x[column] * root * (1.0 + gains[column]),
        };
        (0..d).map(of_column).collect()
    }
}

impl Workload for GroupQuantizeWorkload {
    const NAME: &'static str = "group-quantize";

    /// Conversions to e4m3 came with sm_89.
    fn supports(capability: &Capability) -> bool {
        capability.compute_capability >= (8, 9)
    }

    /// Rows are read once and written once.
    fn work(&self) -> Work {
        let rows = f64::from(self.tokens);
        let written = f64::from(self.hidden) * if self.keeps() { 3.0 } else { 1.0 };
        Work {
            operations: 4.0 * rows * f64::from(self.hidden),
            bytes: rows
                * (2.0 * f64::from(self.stride()) + written + f64::from(self.hidden.div_ceil(128)) * 4.0),
        }
    }

    fn prepare(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        let (this, shape) = (self.clone(), (self.tokens, self.hidden));
        let elements = self.tokens as usize * self.hidden as usize;
        let operations = Operations::new(setup.device());
        let buffers = setup.buffers(self.work(), |seed| {
            Ok(Set {
                x: setup.values(Values::Normal, seed, (this.tokens * this.stride()) as usize)?,
                gains: setup.values(Values::Normal, !seed, this.hidden as usize)?,
                values: setup.output(elements)?,
                // A scale of padding keeps what it holds.
                scales: setup.values(Values::Normal, seed ^ 1, Granularity::Row.count(shape))?,
                kept: setup.output(if this.keeps() { elements } else { 0 })?,
            })
        })?;
        let reference = self.clone();
        Ok(buffers
            .launch(move |stream, Set { x, gains, values, scales, kept }: &mut Set| {
                let to = QuantizedRows { values, scales };
                let norm = |gain| InputNorm { gains: &*gains, gain, epsilon: EPSILON };
                Ok(match this.of {
                    Source::Rows => operations.quantize_rows(stream, (x, this.hidden), to)?,
                    Source::Swiglu => {
                        operations.quantize_swiglu(stream, (x, this.stride(), this.hidden), to)?
                    }
                    Source::Weight => {
                        operations.quantize_normalized(stream, x, norm(Gain::Weight), to, kept)?
                    }
                    Source::ZeroCentred => {
                        operations.quantize_normalized(stream, x, norm(Gain::ZeroCentred), to, kept)?
                    }
                })
            })
            .verify(move |set| {
                let (x, gains, values) = (exact(&set.x)?, exact(&set.gains)?, exact(&set.values)?);
                let (scales, kept) = (exact(&set.scales)?, exact(&set.kept)?);
                let (stride, d) = (reference.stride() as usize, reference.hidden as usize);
                let mut compared = vec![];
                for row in 0..reference.tokens as usize {
                    let of_row = reference.row(&x[row * stride..][..stride], &gains);
                    for (block, of_block) in of_row.chunks(128).enumerate() {
                        let largest = of_block.iter().fold(0.0, |most: f64, x| most.max(x.abs()));
                        let scale = scales[Granularity::Row.index((row as u32, 128 * block as u32), shape)];
                        let expected = if largest > 0.0 { largest / 448.0 } else { 1.0 };
                        compared.push(Compared { found: scale, expected, tolerance: 1e-5 * expected });
                        for (column, expected) in (128 * block..).zip(of_block) {
                            let found = scale * values[row * d + column];
                            let tolerance = 1.01 * (e4m3::ROUNDING * expected.abs() + scale * e4m3::SMALLEST);
                            compared.push(Compared { found, expected: *expected, tolerance });
                        }
                    }
                    if reference.keeps() {
                        let found = kept[row * d..][..d].iter().zip(&of_row);
                        compared.extend(found.map(|(found, expected)| Compared {
                            found: *found,
                            expected: *expected,
                            tolerance: (1.01 * bf16::ROUNDING + 1e-6) * expected.abs(),
                        }));
                    }
                }
                Ok(compare(compared, |index| vec![index as usize])?)
            }))
    }
}
