//! Epilogues of one's own: `operations.multiply_with(&stream, product, &finish, &a, &b, &mut c)`.
//!
//! A [`FusedEpilogue`] is staged into the kernel: it is asked once for the closure that maps a sum and its place to what is stored, and is
//! given registers that hold what a launch brings, the [`Terms`]. A [`Finish`] has the values of one launch.

use std::hash::{Hash, Hasher};
use std::panic::Location;

use warpwright::ir;
use warpwright::lang::recorder;
use warpwright::prelude::*;
use warpwright::runtime::{Buffer, LaunchCounts, Storable, Stream};

use super::GemmOutput;
use super::batched::Batch;
use super::epilogue::Epilogue;
use super::fused::Fused;
use super::multiply::{Factor, Operands, refused};
use crate::operations::{Operations, Result, expect_length};

/// Numbers that an epilogue is given.
pub const NUMBERS: usize = 4;

/// An epilogue that a GEMM into `C` stages into its kernel.
///
/// A kernel is built for each value of it (by `Eq` and `Hash`), so its fields are what the kernel's text depends on; what differs from launch
/// to launch is in [`Finish`]. Where nothing is to be configured, [`Inline`] makes a closure one.
pub trait FusedEpilogue<C>: Clone + Eq + Hash + Send + Sync + 'static {
    /// What becomes of a sum, told where it belongs, from what a launch gives.
    fn epilogue(&self, given: Terms<C>) -> impl Epilogue;
}

/// A closure from [`Terms`] to an epilogue as a [`FusedEpilogue`]. It captures nothing, for it is known by its type.
///
/// ```
/// use warpwright::prelude::*;
/// use warpwright::runtime::Device;
/// use warpwright_kernels::gemm::epilogue::{Epilogue, biased, plus, relu, scaled};
/// use warpwright_kernels::gemm::finish::{Finish, Inline, Terms};
/// use warpwright_kernels::gemm::multiply::Product;
/// use warpwright_kernels::operations::Operations;
///
/// let device = Device::named("emu:h200")?;
/// let (operations, stream) = (Operations::new(&device), device.stream()?);
/// let a = device.buffer_from(&[bf16::from_f32(1.0); 16 * 8])?;
/// let b = device.buffer_from(&[bf16::from_f32(-0.5); 8 * 24])?;
/// let bias = device.buffer_from(&[1.0f32; 24])?;
/// let residual: Vec<f32> = (0..16 * 24).map(|place| (place % 7) as f32).collect();
/// let shortcut = device.buffer_from(&residual)?;
/// let mut c = device.uninitialized::<f32>(16 * 24)?;
/// // C = relu(alpha * A·B + bias + residual)
/// let block = Inline::new(|given: Terms<f32>| {
///     let ones = constant(1.0f32);
///     scaled(given.number(0)).then(biased(given.columns(0))).then(plus(ones, given.matrix())).then(relu())
/// });
/// let finish = Finish {
///     numbers: [2.0, 0.0, 0.0, 0.0],
///     columns: [Some(&bias), None],
///     matrix: Some(&shortcut),
///     ..Finish::by(block)
/// };
/// operations.multiply_with(&stream, Product::new(16, 24, 8), &finish, &a, &b, &mut c)?;
/// let expected: Vec<f32> = residual.iter().map(|value| (2.0 * -4.0 + 1.0 + value).max(0.0)).collect();
/// assert_eq!(c.to_vec()?, expected);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy)]
pub struct Inline<F>(F);

impl<F> Inline<F> {
    /// Of a closure that captures nothing.
    pub fn new(closure: F) -> Self {
        const { assert!(size_of::<F>() == 0, "an epilogue is known by its type: let its values be `Finish`'s") }
        Self(closure)
    }
}

impl<F> PartialEq for Inline<F> {
    /// Closures of one type that capture nothing are one.
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl<F> Eq for Inline<F> {}

impl<F> Hash for Inline<F> {
    fn hash<H: Hasher>(&self, _: &mut H) {}
}

impl<C, E, F> FusedEpilogue<C> for Inline<F>
where
    E: Epilogue,
    F: Fn(Terms<C>) -> E + Clone + Send + Sync + 'static,
{
    fn epilogue(&self, given: Terms<C>) -> impl Epilogue {
        (self.0)(given)
    }
}

/// What a launch does with the sums: an epilogue, and what it is given.
#[derive(Clone, Copy)]
pub struct Finish<'a, C, E> {
    /// The epilogue.
    pub epilogue: E,
    /// Numbers that mean what the epilogue makes of them.
    pub numbers: [f32; NUMBERS],
    /// A number for each row of C: m of them; of a batch, those of all products one after another.
    pub rows: Option<&'a Buffer<f32>>,
    /// Numbers for each column of C: n of them; of a batch, those of all products one after another.
    pub columns: [Option<&'a Buffer<f32>>; 2],
    /// A matrix that lies as C does: a residual from another buffer, say.
    pub matrix: Option<&'a Buffer<C>>,
}

impl<C, E> Finish<'_, C, E> {
    /// By an epilogue that is given nothing yet.
    pub fn by(epilogue: E) -> Self {
        Self { epilogue, numbers: [0.0; NUMBERS], rows: None, columns: [None; 2], matrix: None }
    }

    /// What there is.
    pub(super) fn kinds(&self) -> Kinds {
        Kinds {
            rows: self.rows.is_some(),
            columns: self.columns.map(|vector| vector.is_some()),
            matrix: self.matrix.is_some(),
        }
    }

    /// A GEMM with it; whether that computes C's transpose.
    pub(super) fn fused<G>(&self, gemm: G, transposed: bool) -> Fused<G, E>
    where
        E: Clone,
    {
        Fused { gemm, epilogue: self.epilogue.clone(), kinds: self.kinds(), transposed }
    }

    /// The vectors; `nothing` stands for those that are not there.
    pub(super) fn vectors<'a>(&'a self, nothing: &'a Buffer<f32>) -> [&'a Buffer<f32>; 3] {
        [self.rows, self.columns[0], self.columns[1]].map(|vector| vector.unwrap_or(nothing))
    }
}

impl<C: Storable, E> Finish<'_, C, E> {
    /// Refuses vectors and matrices of other lengths than a batch's C asks for.
    fn check(&self, batch: Batch, c: &Buffer<C>) -> Result<()> {
        let length = |extent: u32| batch.count as usize * extent as usize;
        let vectors = [
            ("the vector of the rows", self.rows, batch.product.m),
            ("the first vector of the columns", self.columns[0], batch.product.n),
            ("the second vector of the columns", self.columns[1], batch.product.n),
        ];
        for (what, vector, extent) in vectors {
            if let Some(vector) = vector {
                expect_length(what, length(extent), vector.len())?;
            }
        }
        self.matrix.map_or(Ok(()), |matrix| expect_length("the epilogue's matrix", c.len(), matrix.len()))
    }
}

impl Operations {
    /// C = the epilogue of A·B, in one kernel, for a product or each product of a batch; accumulated in f32, C is row-major.
    ///
    /// # Errors
    /// As [`multiply_batched`](Self::multiply_batched); a vector or the matrix has another length than C asks for; k is 0; or the epilogue takes what
    /// it is not given.
    pub fn multiply_with<A: Factor<B>, B: Factor<A>, C: GemmOutput + Storable, E: FusedEpilogue<C>>(
        &self,
        stream: &Stream,
        batch: impl Into<Batch>,
        finish: &Finish<'_, C, E>,
        a: &Buffer<A>,
        b: &Buffer<B>,
        c: &mut Buffer<C>,
    ) -> Result<LaunchCounts> {
        let batch = batch.into();
        if batch.product.k == 0 {
            return Err(refused("k is 0: there is nothing to multiply".to_owned()));
        }
        finish.check(batch, c)?;
        let way = self.way::<A, B, C>(batch)?;
        self.compute(stream, batch, way, Operands { a, b, c, finish })
    }
}

/// Which of the things that an epilogue may be given there are: the kernel is built for them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Kinds {
    pub(super) rows: bool,
    pub(super) columns: [bool; 2],
    pub(super) matrix: bool,
}

/// What an epilogue is given on the device.
#[derive(Clone, Copy, DeviceValue)]
pub struct Terms<C> {
    numbers: [Reg<f32>; NUMBERS],
    rows: Option<Global<f32>>,
    columns: [Option<Global<f32>>; 2],
    matrix: Option<Global<C>>,
    c: Global<C>,
}

impl<C: Element> Terms<C> {
    /// Of a kernel's parameters: the numbers; those of rows and columns; the matrix, and C.
    pub(super) fn new(
        kinds: Kinds,
        numbers: [Reg<f32>; NUMBERS],
        [rows, first, second]: [&Global<f32>; 3],
        [matrix, c]: [&Global<C>; 2],
    ) -> Self {
        Self {
            numbers,
            rows: kinds.rows.then_some(*rows),
            columns: [kinds.columns[0].then_some(*first), kinds.columns[1].then_some(*second)],
            matrix: kinds.matrix.then_some(*matrix),
            c: *c,
        }
    }

    /// A number, 0 to 3.
    #[track_caller]
    pub fn number(&self, index: usize) -> Reg<f32> {
        if index >= NUMBERS {
            not_given(Location::caller(), format!("number {index}: there are {NUMBERS}"));
        }
        self.numbers[index % NUMBERS]
    }

    /// The numbers of the rows, for [`scaled_by_row`](super::epilogue::scaled_by_row) and its like.
    #[track_caller]
    pub fn rows(&self) -> Global<f32> {
        given(self.rows, "the numbers of the rows: set `Finish::rows`")
    }

    /// The numbers of the columns, the first or the second, for [`biased`](super::epilogue::biased) and its like.
    #[track_caller]
    pub fn columns(&self, index: usize) -> Global<f32> {
        given(
            self.columns.get(index).copied().flatten(),
            &format!("numbers {index} of the columns: set `Finish::columns`, which has two"),
        )
    }

    /// The matrix, for [`plus`](super::epilogue::plus) and its like.
    #[track_caller]
    pub fn matrix(&self) -> Global<C> {
        given(self.matrix, "a matrix: set `Finish::matrix`")
    }

    /// What C holds before, for [`plus`](super::epilogue::plus).
    pub fn c(&self) -> Global<C> {
        self.c
    }

    /// The numbers of the rows, if they are given.
    pub(super) fn rows_if_given(&self) -> Option<Global<f32>> {
        self.rows
    }

    /// The numbers of the columns that are given.
    pub(super) fn columns_if_given(&self) -> [Option<Global<f32>>; 2] {
        self.columns
    }
}

/// What is there, or a mistake at the caller's line.
#[track_caller]
fn given<E: Element>(there: Option<Global<E>>, what: &str) -> Global<E> {
    let location = Location::caller();
    there.unwrap_or_else(|| {
        not_given(location, what.to_owned());
        Global::from_address(constant(0u64), false)
    })
}

fn not_given(location: &'static Location<'static>, what: String) {
    let location = ir::Location::from(location);
    recorder::with(|recorder| recorder.error(location, format!("the epilogue is not given {what}")));
}
