//! `operations.linear(&stream, product, &Linear { .. }, &a, &b, &mut c)`: a product with scales, bias, activation and residual in one
//! kernel.
//!
//! C = activation(alpha · rows · (A·B) · columns + bias) + beta · C

use warpwright::prelude::*;
use warpwright::runtime::{Buffer, LaunchCounts, Storable, Stream};

use super::GemmOutput;
use super::epilogue::{self, Epilogue, Place};
use super::finish::{Finish, FusedEpilogue, Terms};
use super::multiply::{Factor, Operands, Product};
use crate::operations::{OperationError, Operations, Result, expect_length};

/// A function of each element.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Activation {
    /// None.
    #[default]
    Identity,
    /// At least zero.
    Relu,
    /// The Gaussian error linear unit, by its tanh approximation.
    Gelu,
    /// The sigmoid linear unit.
    Silu,
}

/// What becomes of A·B: `activation(alpha · rows · (A·B) · columns + bias) + beta · C`.
#[derive(Clone, Copy)]
pub struct Linear<'a> {
    /// Times every sum: the scales of the tensors, say.
    pub alpha: f32,
    /// How much of what C holds is added.
    pub beta: f32,
    /// Times every sum of a row: m of them.
    pub row_scales: Option<&'a Buffer<f32>>,
    /// Times every sum of a column: n of them.
    pub column_scales: Option<&'a Buffer<f32>>,
    /// Added to every sum of a column: n of them.
    pub bias: Option<&'a Buffer<f32>>,
    /// Of the sums, before C is added.
    pub activation: Activation,
}

impl Default for Linear<'_> {
    fn default() -> Self {
        Self {
            alpha: 1.0,
            beta: 0.0,
            row_scales: None,
            column_scales: None,
            bias: None,
            activation: Activation::Identity,
        }
    }
}

impl Linear<'_> {
    /// The epilogue, and what it is given.
    pub(super) fn finish<C>(&self) -> Finish<'_, C, Parts> {
        let parts =
            Parts { factor: self.alpha != 1.0, residual: self.beta != 0.0, activation: self.activation };
        Finish {
            numbers: [self.alpha, self.beta, 0.0, 0.0],
            rows: self.row_scales,
            columns: [self.column_scales, self.bias],
            ..Finish::by(parts)
        }
    }
}

impl Linear<'_> {
    /// Refuses vectors that have other lengths than `count` products ask for, and products of no depth.
    pub(super) fn check(&self, product: Product, count: u32) -> Result<()> {
        if product.k == 0 {
            return Err(OperationError::Shape {
                what: "linear",
                reason: "k is 0: there is nothing to multiply".to_owned(),
            });
        }
        let vectors = [
            ("the row scales", self.row_scales, product.m),
            ("the column scales", self.column_scales, product.n),
            ("the bias", self.bias, product.n),
        ];
        for (what, vector, length) in vectors {
            if let Some(vector) = vector {
                expect_length(what, count as usize * length as usize, vector.len())?;
            }
        }
        Ok(())
    }
}

impl Operations {
    /// C = activation(alpha · rows · (A·B) · columns + bias) + beta · C, accumulated in f32; C is row-major.
    ///
    /// ```
    /// use warpwright::prelude::*;
    /// use warpwright::runtime::Device;
    /// use warpwright_kernels::gemm::linear::{Activation, Linear};
    /// use warpwright_kernels::gemm::multiply::Product;
    /// use warpwright_kernels::operations::Operations;
    ///
    /// let device = Device::named("emu:h200")?;
    /// let (operations, stream) = (Operations::new(&device), device.stream()?);
    /// let a = device.buffer_from(&[bf16::from_f32(1.0); 16 * 8])?;
    /// let b = device.buffer_from(&[bf16::from_f32(-0.5); 8 * 24])?;
    /// let bias = device.buffer_from(&[5.0f32; 24])?;
    /// let mut c = device.buffer_from(&[1.0f32; 16 * 24])?;
    /// let linear =
    ///     Linear { beta: 2.0, bias: Some(&bias), activation: Activation::Relu, ..Linear::default() };
    /// operations.linear(&stream, Product::new(16, 24, 8), &linear, &a, &b, &mut c)?;
    /// assert_eq!(c.to_vec()?, [3.0; 16 * 24]); // relu(8 * -0.5 + 5) + 2 * 1
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`multiply`](Self::multiply); a vector has another length than C's rows or columns; or k is 0.
    pub fn linear<A: Factor<B>, B: Factor<A>, C: GemmOutput + Storable>(
        &self,
        stream: &Stream,
        product: Product,
        linear: &Linear<'_>,
        a: &Buffer<A>,
        b: &Buffer<B>,
        c: &mut Buffer<C>,
    ) -> Result<LaunchCounts> {
        linear.check(product, 1)?;
        let way = self.way::<A, B, C>(product.into())?;
        self.compute(stream, product.into(), way, Operands { a, b, c, finish: &linear.finish() })
    }
}

/// The parts of a [`Linear`] that the kernel is built for, beside what it is given.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Parts {
    factor: bool,
    residual: bool,
    activation: Activation,
}

impl<C: GemmOutput> FusedEpilogue<C> for Parts {
    fn epilogue(&self, given: Terms<C>) -> impl Epilogue {
        let Self { factor, residual, activation } = *self;
        let [column_scales, bias] = given.columns_if_given();
        let [alpha, beta] = [given.number(0), given.number(1)];
        let steps = [
            factor.then(|| boxed(epilogue::scaled(alpha))),
            given.rows_if_given().map(|scales| boxed(epilogue::scaled_by_row(scales))),
            column_scales.map(|scales| boxed(epilogue::scaled_by_column(scales))),
            bias.map(|bias| boxed(epilogue::biased(bias))),
            match activation {
                Activation::Identity => None,
                Activation::Relu => Some(boxed(epilogue::relu())),
                Activation::Gelu => Some(boxed(epilogue::gelu())),
                Activation::Silu => Some(boxed(epilogue::silu())),
            },
            residual.then(|| boxed(epilogue::plus(beta, given.c()))),
        ];
        move |sum: Reg<f32>, at: Place| steps.iter().flatten().fold(sum, |sum, step| step(sum, at))
    }
}

/// An epilogue among others.
type Step = Box<dyn Fn(Reg<f32>, Place) -> Reg<f32>>;

fn boxed(epilogue: impl Epilogue + 'static) -> Step {
    Box::new(move |sum, at| epilogue.apply(sum, at))
}
