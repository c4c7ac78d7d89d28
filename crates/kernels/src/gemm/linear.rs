//! `operations.linear(&stream, product, &Linear { .. }, &a, &b, &mut c)`: a product with scales, bias, activation and residual in one
//! kernel.
//!
//! C = activation(alpha · rows · (A·B) · columns + bias) + beta · C

use warpwright::prelude::*;
use warpwright::runtime::{Buffer, LaunchCounts, Storable, Stream};

use super::epilogue::{self, Epilogue, Place};
use super::hopper::HopperGemm;
use super::multiply::{Factor, Operands, Product};
use super::products::Products;
use super::{Gemm, GemmInput, GemmOutput, WarpgroupInput};
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
    /// The numbers of the epilogue.
    pub(super) fn factors(&self) -> [f32; 2] {
        [self.alpha, self.beta]
    }

    /// The row scales, the column scales and the bias; `nothing` stands for those that are not there.
    pub(super) fn vectors<'a>(&'a self, nothing: &'a Buffer<f32>) -> [&'a Buffer<f32>; 3] {
        [self.row_scales, self.column_scales, self.bias].map(|vector| vector.unwrap_or(nothing))
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
    pub fn linear<T: Factor, C: GemmOutput + Storable>(
        &self,
        stream: &Stream,
        product: Product,
        linear: &Linear<'_>,
        a: &Buffer<T>,
        b: &Buffer<T>,
        c: &mut Buffer<C>,
    ) -> Result<LaunchCounts> {
        linear.check(product, 1)?;
        let way = self.way::<T, C>(product.into())?;
        self.compute(stream, product.into(), way, Operands { a, b, c, linear })
    }
}

/// Which parts of a [`Linear`] there are.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Parts {
    factor: bool,
    row_scales: bool,
    column_scales: bool,
    bias: bool,
    residual: bool,
    activation: Activation,
    /// Whether the kernel computes C's transpose.
    pub(super) transposed: bool,
}

/// The numbers and vectors of an epilogue.
#[derive(Clone, Copy, DeviceValue)]
pub(super) struct Terms<C> {
    alpha: Reg<f32>,
    beta: Reg<f32>,
    row_scales: Global<f32>,
    column_scales: Global<f32>,
    bias: Global<f32>,
    residual: Global<C>,
}

impl<C: Element> Terms<C> {
    /// Of what a kernel is given: alpha and beta; row scales, column scales and bias; and what C holds.
    pub(super) fn new(
        [alpha, beta]: [Reg<f32>; 2],
        [row_scales, column_scales, bias]: [&Global<f32>; 3],
        residual: &Global<C>,
    ) -> Self {
        let (row_scales, column_scales, bias) = (*row_scales, *column_scales, *bias);
        Self { alpha, beta, row_scales, column_scales, bias, residual: *residual }
    }
}

impl Parts {
    pub(super) fn of(linear: &Linear<'_>, transposed: bool) -> Self {
        Self {
            factor: linear.alpha != 1.0,
            row_scales: linear.row_scales.is_some(),
            column_scales: linear.column_scales.is_some(),
            bias: linear.bias.is_some(),
            residual: linear.beta != 0.0,
            activation: linear.activation,
            transposed,
        }
    }

    /// The epilogue of those parts.
    pub(super) fn epilogue<C: GemmOutput>(self, terms: Terms<C>) -> impl Epilogue {
        let mut steps: Vec<Step> = Vec::new();
        let mut step = |wanted: bool, step: Step| {
            if wanted {
                steps.push(step);
            }
        };
        step(self.factor, boxed(epilogue::scaled(terms.alpha)));
        step(self.row_scales, boxed(epilogue::scaled_by_row(terms.row_scales)));
        step(self.column_scales, boxed(epilogue::scaled_by_column(terms.column_scales)));
        step(self.bias, boxed(epilogue::biased(terms.bias)));
        step(self.activation == Activation::Relu, boxed(epilogue::relu()));
        step(self.activation == Activation::Gelu, boxed(epilogue::gelu()));
        step(self.activation == Activation::Silu, boxed(epilogue::silu()));
        step(self.residual, boxed(epilogue::plus(terms.beta, terms.residual)));
        move |sum: Reg<f32>, at: Place| {
            let at = if self.transposed { at.transposed() } else { at };
            steps.iter().fold(sum, |sum, step| step(sum, at))
        }
    }
}

/// An epilogue among others.
type Step = Box<dyn Fn(Reg<f32>, Place) -> Reg<f32>>;

fn boxed(epilogue: impl Epilogue + 'static) -> Step {
    Box::new(move |sum, at| epilogue.apply(sum, at))
}

/// A GEMM of either kind, and what becomes of its sums: the kernels that are launched.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(super) struct Fused<G> {
    pub(super) gemm: G,
    pub(super) parts: Parts,
}

impl Fused<Gemm> {
    #[kernel]
    pub(super) fn run<T: GemmInput, C: GemmOutput>(
        &self,
        a: &Global<T>,
        b: &Global<T>,
        c: &mut Global<C>,
        factors: [f32; 2],
        row_scales: &Global<f32>,
        column_scales: &Global<f32>,
        bias: &Global<f32>,
        m: u32,
        n: u32,
        k: u32,
    ) {
        let terms = Terms::new(factors, [row_scales, column_scales, bias], c);
        self.gemm.compute(a, b, c, (m, n, k), &self.parts.epilogue(terms));
    }
}

impl Fused<HopperGemm> {
    #[kernel]
    pub(super) fn run<T: WarpgroupInput, C: GemmOutput>(
        &self,
        a: &TensorMap,
        b: &TensorMap,
        c: &TensorMap,
        residual: &Global<C>,
        factors: [f32; 2],
        row_scales: &Global<f32>,
        column_scales: &Global<f32>,
        bias: &Global<f32>,
        slots: &mut Global<f32>,
        arrived: &mut Global<u32>,
        m: u32,
        n: u32,
        k: u32,
    ) {
        let terms = Terms::new(factors, [row_scales, column_scales, bias], residual);
        let epilogue = self.parts.epilogue(terms);
        let products = Products::one(a, b, (m, n, k));
        self.gemm.store_boxes::<T, C>(&products, c, (slots, arrived), &epilogue);
    }

    #[kernel]
    pub(super) fn run_any<T: WarpgroupInput, C: GemmOutput>(
        &self,
        a: &TensorMap,
        b: &TensorMap,
        c: &mut Global<C>,
        factors: [f32; 2],
        row_scales: &Global<f32>,
        column_scales: &Global<f32>,
        bias: &Global<f32>,
        slots: &mut Global<f32>,
        arrived: &mut Global<u32>,
        m: u32,
        n: u32,
        k: u32,
    ) {
        let terms = Terms::new(factors, [row_scales, column_scales, bias], c);
        let epilogue = self.parts.epilogue(terms);
        let products = Products::one(a, b, (m, n, k));
        self.gemm.store_elements::<T, C>(&products, c, (slots, arrived), &epilogue);
    }
}
