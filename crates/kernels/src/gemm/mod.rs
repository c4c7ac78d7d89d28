//! GEMM on tensor cores: `operations.gemm(&stream, &Gemm::new(m, n, k), &a, &b, &mut c)`.
//!
//! C = activation(alpha · A·B + bias) + beta · C for any m, n and k, accumulated in `f32`: single,
//! batched, or grouped, with the scales of CUTLASS's blockwise and block-scaled GEMMs or without, with
//! the epilogue above or one of the caller's. m, n and k count elements everywhere.
//!
//! The way of a GEMM on Hopper, from the description to `wgmma`:
//!
//! ```text
//! mod.rs                     Gemm: the description; Operations::gemm: what is refused
//! host/launch.rs             the plan, made at the first launch of a problem: kernel, tensor maps, workspace
//! device/kernel.rs           the kernel's entry: tensor maps and extents become Problems
//! device/mainloop/tma.rs     tiles and stages; the thread that loads them
//! device/mainloop/wgmma.rs   roles, barriers, and the loop over k with wgmma
//! ```
//!
//! `docs/kernels/gemm.md` lists the other files. The folder has three floors, `problem`, `device` and
//! `host`, each of which imports only those before it; `workloads/gemm` is the command line's.

pub mod device;
pub mod host;
pub mod problem;

use warpwright::arch::{Capability, DataType};
use warpwright::runtime::{Buffer, LaunchCounts, Stream};

use crate::operations::{Operations, Result, expect_length};
use device::epilogue::FusedEpilogue;
use host::choice;
use host::config::Algorithm;
use host::grouped;
use host::heuristic;
use host::launch::{self, Buffers, Call};
use problem::batching::{Batch, GemmProblem, Problem, check_offsets};
use problem::block_scaled::{BlockScaledFormat, padded_k, row_elements};
use problem::epilogue::{Activation, Epilogue, Linear};
use problem::error::GemmError;
use problem::operands::{OperandArgument, OperandBuffer};
use problem::scales::{Granularities, Scaling};
use problem::types::{GemmTypes, MatrixLayout, MultipliesWith, Operand};

pub use problem::types::GemmOutput;

/// A GEMM: its problems, its epilogue, and its algorithm if the caller chooses one.
///
/// ```
/// use warpwright::prelude::*;
/// use warpwright::runtime::Device;
/// use warpwright_kernels::gemm::Gemm;
/// use warpwright_kernels::gemm::problem::epilogue::Activation;
/// use warpwright_kernels::operations::Operations;
///
/// let device = Device::named("emu:h200")?;
/// let (operations, stream) = (Operations::new(&device), device.stream()?);
/// let a = device.buffer_from(&[bf16::from_f32(1.0); 16 * 8])?;
/// let b = device.buffer_from(&[bf16::from_f32(-0.5); 8 * 24])?;
/// let bias = device.buffer_from(&[5.0f32; 24])?;
/// let mut c = device.buffer_from(&[1.0f32; 16 * 24])?;
/// let gemm = Gemm::new(16, 24, 8).bias(&bias).activation(Activation::Relu).beta(2.0);
/// operations.gemm(&stream, &gemm, &a, &b, &mut c)?;
/// assert_eq!(c.to_vec()?, [3.0; 16 * 24]); // relu(8 * -0.5 + 5) + 2 * 1
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Clone, Copy)]
pub struct Gemm<'a, E = Linear<'a>> {
    batch: Batch,
    offsets: Option<&'a Buffer<u32>>,
    epilogue: E,
    algorithm: Option<Algorithm>,
    preloads_b: bool,
    gate: Option<Activation>,
}

impl<'a> Gemm<'a> {
    /// C (m, n) = A (m, k) · B (k, n): A row-major, B column-major, C row-major.
    pub fn new(m: u32, n: u32, k: u32) -> Self {
        Problem::new(m, n, k).into()
    }

    /// Multiplies every accumulator by `alpha`.
    #[must_use]
    pub fn alpha(self, alpha: f32) -> Self {
        Self { epilogue: Linear { alpha, ..self.epilogue }, ..self }
    }

    /// Adds `beta` times what C holds, last.
    #[must_use]
    pub fn beta(self, beta: f32) -> Self {
        Self { epilogue: Linear { beta, ..self.epilogue }, ..self }
    }

    /// Multiplies the accumulators of each row by a scale: m of them, for all problems of a batch
    /// one after another.
    #[must_use]
    pub fn row_scales(self, scales: &'a Buffer<f32>) -> Self {
        Self { epilogue: Linear { row_scales: Some(scales), ..self.epilogue }, ..self }
    }

    /// Multiplies the accumulators of each column by a scale: n of them, for all problems of a
    /// batch one after another.
    #[must_use]
    pub fn column_scales(self, scales: &'a Buffer<f32>) -> Self {
        Self { epilogue: Linear { column_scales: Some(scales), ..self.epilogue }, ..self }
    }

    /// Adds a bias to each column: n of them, for all problems of a batch one after another.
    #[must_use]
    pub fn bias(self, bias: &'a Buffer<f32>) -> Self {
        Self { epilogue: Linear { bias: Some(bias), ..self.epilogue }, ..self }
    }

    /// Applies a function to each element, before C is added.
    #[must_use]
    pub fn activation(self, activation: Activation) -> Self {
        Self { epilogue: Linear { activation, ..self.epilogue }, ..self }
    }
}

impl From<Problem> for Gemm<'_> {
    fn from(problem: Problem) -> Self {
        Batch::from(problem).into()
    }
}

impl From<Batch> for Gemm<'_> {
    fn from(batch: Batch) -> Self {
        let epilogue = Linear::default();
        Self { batch, offsets: None, epilogue, algorithm: None, preloads_b: false, gate: None }
    }
}

impl<'a, E> Gemm<'a, E> {
    /// The layouts of A and B.
    #[must_use]
    pub fn layouts(self, a: MatrixLayout, b: MatrixLayout) -> Self {
        let problem = Problem { a, b, ..self.batch.problem };
        Self { batch: Batch { problem, ..self.batch }, ..self }
    }

    /// `count` problems of this shape in one launch, their matrices one after another without gaps.
    #[must_use]
    pub fn batch(self, count: u32) -> Self {
        Self { batch: Batch::new(self.batch.problem, count), ..self }
    }

    /// The elements from one A, B and C of a batch to the next.
    #[must_use]
    pub fn strides(self, a_stride: u64, b_stride: u64, c_stride: u64) -> Self {
        Self { batch: Batch { a_stride, b_stride, c_stride, ..self.batch }, ..self }
    }

    /// All problems of a batch have one A.
    #[must_use]
    pub fn share_a(self) -> Self {
        Self { batch: self.batch.sharing_a(), ..self }
    }

    /// All problems of a batch have one B, such as the weights of a layer.
    #[must_use]
    pub fn share_b(self) -> Self {
        Self { batch: self.batch.sharing_b(), ..self }
    }

    /// Groups along m, as in a mixture of experts: rows `offsets[g]` to `offsets[g + 1]` of the m
    /// rows of A times B number g. The offsets increase, and the last is m; they are read on the
    /// device, where a kernel may have written them.
    ///
    /// ```text
    /// offsets   A (m, k)         B (groups, k, n)      C (m, n)
    ///    0      +-------+        +---+                 +-------+
    ///           | ..... |   ·    | 0 |         ->      | ..... |
    ///    5      +-------+        +---+                 +-------+
    ///    5                       | 1 |   no rows: no tiles
    ///           | ..... |        +---+
    ///           | ..... |   ·    | 2 |         ->
    ///   12      +-------+        +---+
    /// ```
    ///
    /// `examples/gemm.rs` runs this one.
    #[must_use]
    pub fn along_m(self, offsets: &'a Buffer<u32>) -> Self {
        let count = offsets.len().saturating_sub(1) as u32;
        Self { batch: Batch::along_m(self.batch.problem, count), offsets: Some(offsets), ..self }
    }

    /// An epilogue of the caller's in place of [`Linear`].
    #[must_use]
    pub fn epilogue<F>(self, epilogue: F) -> Gemm<'a, F> {
        let Self { batch, offsets, algorithm, preloads_b, gate, .. } = self;
        Gemm { batch, offsets, epilogue, algorithm, preloads_b, gate }
    }

    /// An algorithm of the caller's in place of the tuned or the heuristic's: see
    /// [`Operations::gemm_algorithms`].
    #[must_use]
    pub fn algorithm(self, algorithm: Algorithm) -> Self {
        Self { algorithm: Some(algorithm), ..self }
    }

    /// Loads B before the launches in front of this one end, where the kernel can: on Hopper, for a single
    /// problem. None of them may write B, or its scales: B is the weights of a layer.
    #[must_use]
    pub fn preload_b(self) -> Self {
        Self { preloads_b: true, ..self }
    }

    /// Columns of A·B are gates and values, in turns of 8, and C (m, n / 2) has the products of values
    /// and activated gates, such as SwiGLU of a layer's gate and up projections:
    ///
    /// ```text
    /// row of A·B    g0 .. g7 | v0 .. v7 | g8 .. g15 | v8 .. v15 | ..
    /// row of C      f(g0)·v0 .. f(g7)·v7 | f(g8)·v8 .. f(g15)·v15 | ..
    /// ```
    ///
    /// The epilogue comes before, on the columns of A·B; it cannot add C. For a single problem whose n
    /// is a multiple of 16.
    ///
    /// ```
    /// use warpwright::prelude::*;
    /// use warpwright::runtime::Device;
    /// use warpwright_kernels::gemm::Gemm;
    /// use warpwright_kernels::gemm::problem::epilogue::Activation;
    /// use warpwright_kernels::operations::Operations;
    ///
    /// let device = Device::named("emu:h200")?;
    /// let (operations, stream) = (Operations::new(&device), device.stream()?);
    /// let x = device.buffer_from(&[bf16::from_f32(1.0); 4 * 8])?;
    /// // Eight columns of gates, whose products are 4, and eight of values, whose products are 8.
    /// let columns = |value| [bf16::from_f32(value); 8 * 8];
    /// let weights = device.buffer_from(&[columns(0.5), columns(1.0)].concat())?;
    /// let mut c = device.uninitialized::<f32>(4 * 8)?;
    /// let gemm = Gemm::new(4, 16, 8).gated(Activation::Relu);
    /// operations.gemm(&stream, &gemm, &x, &weights, &mut c)?;
    /// assert_eq!(c.to_vec()?, [32.0; 4 * 8]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use]
    pub fn gated(self, activation: Activation) -> Self {
        Self { gate: Some(activation), ..self }
    }

    /// The shape and the layouts of one problem; of groups along m, of all together.
    pub fn problem(&self) -> Problem {
        self.batch.problem
    }

    /// The problem of matrices of those types.
    fn described(&self, types: GemmTypes) -> GemmProblem {
        let Self { batch, preloads_b, gate, .. } = *self;
        let along_m = self.offsets.is_some();
        GemmProblem { along_m, preloads_b, gate, ..GemmProblem::new(batch, types) }
    }

    /// The problem of block-scaled matrices, whose k and strides count the zeros behind each row, too.
    fn block_scaled(&self, types: GemmTypes) -> Result<GemmProblem, GemmError> {
        let described = self.described(types);
        let Batch { problem, count, a_stride, b_stride, c_stride } = described.batch;
        if (problem.a, problem.b) != (MatrixLayout::RowMajor, MatrixLayout::ColumnMajor) {
            return Err(GemmError::BlockScaledLayouts);
        }
        if described.along_m {
            return Err(GemmError::BlockScaledGroups);
        }
        let packed = Batch::new(problem, count);
        let stride = |own: u64, packed: u64, rows: u32, data_type: DataType| match own {
            0 => Ok(0),
            _ if own == packed => Ok(u64::from(rows) * u64::from(row_elements(problem.k, data_type))),
            _ => Err(GemmError::BlockScaledStrides),
        };
        let a_stride = stride(a_stride, packed.a_stride, problem.m, types.a)?;
        let b_stride = stride(b_stride, packed.b_stride, problem.n, types.b)?;
        let problem = Problem { k: padded_k(problem.k), ..problem };
        Ok(GemmProblem { batch: Batch { problem, count, a_stride, b_stride, c_stride }, ..described })
    }

    /// The problem of those operands. Refuses what has no kernel on GPUs of that capability, and
    /// buffers and epilogue arguments of wrong lengths.
    fn check<C: GemmOutput>(
        &self,
        [a, b]: [OperandBuffer<'_>; 2],
        c: &Buffer<C>,
        capability: &Capability,
    ) -> Result<GemmProblem>
    where
        E: Epilogue<C>,
    {
        let types = GemmTypes::new(a.data_type, b.data_type, C::DATA_TYPE).with(a.scaling(b)?);
        let is_block_scaled = types.scaling.factors().is_some();
        let problem = if is_block_scaled { self.block_scaled(types)? } else { self.described(types) };
        let (batch, along_m) = (self.batch, self.offsets.is_some());
        let Problem { m, n, k, .. } = batch.problem;
        if types.scaling != Scaling::None {
            choice::expect_kernel(&problem, capability)?;
        }
        if k == 0 && (along_m || !self.epilogue.is_identity()) {
            return Err(GemmError::NoDepth.into());
        }
        let mut c_length = c.len();
        if self.gate.is_some() {
            problem.expect_gate(self.epilogue.adds_c() || self.epilogue.arguments().matrix.is_some())?;
            expect_length("C", m as usize * (n / 2) as usize, c_length)?;
            c_length *= 2;
        }
        let [(a_count, _), (b_count, _)] = batch.matrices();
        let [a_needed, b_needed, _] = batch.lengths();
        let expect_lengths = || {
            a.expect_lengths(["A", "A's scales"], a_count, (m, k))?;
            b.expect_lengths(["B", "B's scales"], b_count, (n, k))
        };
        match self.offsets {
            None if is_block_scaled => {
                expect_lengths()?;
                batch.expect_lengths([a_needed, b_needed, c_length])?;
            }
            None => batch.expect_lengths([a.length(), b.length(), c_length])?,
            Some(offsets) => {
                check_offsets(offsets.len())?;
                if batch.problem.a == MatrixLayout::ColumnMajor {
                    return Err(GemmError::ColumnMajorGroups.into());
                }
                let a_needed = if batch.count == 0 { m as usize * k as usize } else { a_needed };
                expect_length("A", a_needed, a.length())?;
                expect_length("B", b_needed, b.length())?;
                expect_length("C", m as usize * n as usize, c_length)?;
            }
        }
        expect_lengths()?;
        self.epilogue.arguments().check(batch, along_m, E::VECTORS, c.len())?;
        Ok(problem)
    }

    /// The call with those matrices, their types as values.
    fn call<'l, C: GemmOutput>(
        &'l self,
        problem: GemmProblem,
        [a, b]: [OperandBuffer<'l>; 2],
        c: &'l mut Buffer<C>,
    ) -> Call<'l, E::Operation>
    where
        E: Epilogue<C>,
    {
        let scales = a.scales.zip(b.scales).map(|((_, a), (_, b))| [a, b]);
        let buffers = Buffers { a: a.values, b: b.values, c: c.cast_mut(), scales, offsets: self.offsets };
        let (operation, epilogue) = self.epilogue.arguments().untyped();
        Call { problem, algorithm: self.algorithm, buffers, operation, epilogue }
    }
}

/// A problem of a group with its buffers: [`Operations::gemm_grouped`].
pub struct GroupMember<'a, A, B, C> {
    /// The problem, a single one, with its epilogue and algorithm.
    pub gemm: Gemm<'a>,
    /// A: a buffer, or one with blockwise scales.
    pub a: A,
    /// B.
    pub b: B,
    /// C.
    pub c: &'a mut Buffer<C>,
}

impl<'a, A, B, C> GroupMember<'a, A, B, C> {
    /// C = A·B, with the epilogue of `gemm`.
    pub fn new(gemm: impl Into<Gemm<'a>>, a: A, b: B, c: &'a mut Buffer<C>) -> Self {
        Self { gemm: gemm.into(), a, b, c }
    }
}

impl Operations {
    /// Computes a GEMM, in one launch of a kernel that includes the epilogue.
    ///
    /// A and B are `&Buffer<T>` of one type, or one of e4m3 and one of e5m2; or both
    /// [`Scaled`](problem::scales::Scaled), with blockwise scales (`examples/gemm.rs`); or both
    /// [`BlockScaled`](problem::block_scaled::BlockScaled), MXFP8, MXFP6, MXFP4 or NVFP4, which
    /// Blackwell multiplies: their k is contiguous, and they have no groups and no gaps. The scales of
    /// NVFP4 tensors are the product that `gemm` has as its alpha.
    ///
    /// In a batch the scales of each A and B follow those of the one before, without gaps; in
    /// groups along m the scales of A are those of all rows. If k is 0, C becomes zero.
    ///
    /// ```
    /// use warpwright::runtime::Device;
    /// use warpwright_kernels::gemm::Gemm;
    /// use warpwright_kernels::gemm::problem::block_scaled::{BlockScaled, BlockScaledFormat};
    /// use warpwright_kernels::operations::Operations;
    ///
    /// let device = Device::named("emu:b200")?;
    /// let (operations, stream) = (Operations::new(&device), device.stream()?);
    /// let format = BlockScaledFormat::Nvfp4;
    /// let numbers = device.buffer_from(&[1.5f32; 16 * 64])?;
    /// let mut values = device.zeros::<u8>(format.value_bytes((16, 64)))?;
    /// let mut scales = device.zeros::<u8>(format.scale_bytes((16, 64)))?;
    /// operations.quantize(&stream, (16, 64), &numbers, format, 1.0, &mut values, &mut scales)?;
    /// let a = BlockScaled { format, values: &values, scales: &scales };
    /// let mut c = device.zeros::<f32>(16 * 16)?;
    /// operations.gemm(&stream, &Gemm::new(16, 16, 64), a, a, &mut c)?;
    /// assert_eq!(c.to_vec()?, [64.0 * 1.5 * 1.5; 16 * 16]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// A buffer has a wrong length; matrices C overlap; k is 0 with an epilogue; block-scaled formats
    /// do not multiply; the device has no kernel for the types or cannot run the algorithm; or it
    /// failed.
    pub fn gemm<A, B, C, E>(
        &self,
        stream: &Stream,
        gemm: &Gemm<'_, E>,
        a: A,
        b: B,
        c: &mut Buffer<C>,
    ) -> Result<LaunchCounts>
    where
        A: OperandArgument<Element: MultipliesWith<B::Element>>,
        B: OperandArgument<Scales = A::Scales, Element: MultipliesWith<A::Element>>,
        C: GemmOutput,
        E: Epilogue<C, Operation: FusedEpilogue<C>>,
    {
        let (operands, batch) = ([a.operand(), b.operand()], gemm.batch);
        let problem = gemm.check(operands, c, self.device().properties().capability)?;
        let Problem { m, n, k, .. } = batch.problem;
        if batch.count == 0 || m == 0 || n == 0 {
            return Ok(LaunchCounts::default());
        }
        if k == 0 {
            if batch.c_stride != Batch::new(batch.problem, batch.count).c_stride {
                return Err(GemmError::NoDepthWithGaps.into());
            }
            stream.fill_zero(c)?;
            return Ok(LaunchCounts::default());
        }
        launch::launch::<C, E::Operation>(self, stream, gemm.call(problem, operands, c))
    }

    /// Computes problems of unlike extents, each with its own epilogue: on Hopper and Blackwell in one launch of
    /// all whose operands have the same layouts and granularities and whose epilogues have the same
    /// parts (`examples/gemm.rs`).
    ///
    /// # Errors
    /// As [`gemm`](Self::gemm); a member is no single problem; or its algorithm is stream-K or split-K. No
    /// member is computed then.
    pub fn gemm_grouped<A, B, C>(
        &self,
        stream: &Stream,
        members: &mut [GroupMember<'_, A, B, C>],
    ) -> Result<LaunchCounts>
    where
        A: OperandArgument<Element: MultipliesWith<B::Element>>,
        B: OperandArgument<Scales = A::Scales, Element: MultipliesWith<A::Element>>,
        C: GemmOutput,
    {
        if members.iter().any(|member| member.gemm.batch.count != 1 || member.gemm.offsets.is_some()) {
            return Err(GemmError::SeveralInMember.into());
        }
        if members.iter().any(|member| member.gemm.gate.is_some()) {
            return Err(GemmError::GatedBatch.into());
        }
        let capability = self.device().properties().capability;
        let mut calls = Vec::new();
        for GroupMember { gemm, a, b, c } in members.iter_mut() {
            let operands = [a.operand(), b.operand()];
            let problem = gemm.check(operands, c, capability)?;
            if problem.types.scaling.factors().is_some() {
                return Err(GemmError::BlockScaledGroups.into());
            }
            calls.push(gemm.call(problem, operands, c));
        }
        grouped::run(self, stream, calls)
    }

    /// The algorithms for a GEMM of operands `T` with those blockwise scales, the cheapest by the
    /// heuristic first.
    pub fn gemm_algorithms<T: Operand, C: GemmOutput>(
        &self,
        gemm: &Gemm<'_, impl Sized>,
        scales: Option<Granularities>,
    ) -> Vec<Algorithm> {
        let properties = self.device().properties();
        let problem = gemm.described(GemmTypes::of::<T, T, C>().with(scales));
        heuristic::algorithms(&problem, properties.capability, properties.sm_count)
    }

    /// The algorithms for a GEMM of block-scaled operands, the cheapest by the heuristic first.
    ///
    /// # Errors
    /// As [`gemm`](Self::gemm), of formats, layouts and strides.
    pub fn block_scaled_algorithms<C: GemmOutput>(
        &self,
        gemm: &Gemm<'_, impl Sized>,
        a: BlockScaledFormat,
        b: BlockScaledFormat,
    ) -> Result<Vec<Algorithm>> {
        let types = GemmTypes::new(a.data_type(), b.data_type(), C::DATA_TYPE).with(a.scaling(b)?);
        let (problem, properties) = (gemm.block_scaled(types)?, self.device().properties());
        Ok(heuristic::algorithms(&problem, properties.capability, properties.sm_count))
    }

    /// The algorithms for a group, the cheapest by the heuristic first.
    pub fn grouped_algorithms<T: Operand, C: GemmOutput>(
        &self,
        problems: &[Problem],
        scales: Option<Granularities>,
    ) -> Vec<Algorithm> {
        let properties = self.device().properties();
        let working: Vec<_> = problems.iter().copied().filter(|problem| problem.has_work()).collect();
        let types = GemmTypes::of::<T, T, C>().with(scales);
        heuristic::grouped_algorithms(&working, types, properties.capability, properties.sm_count)
    }
}
