//! GEMM on tensor cores: `operations.gemm(&stream, &Gemm::new(m, n, k), &a, &b, &mut c)`.
//!
//! C = activation(alpha · A·B + bias) + beta · C for any m, n and k, accumulated in `f32`: single,
//! batched, or grouped, with block scales or without, with the epilogue above or one of the
//! caller's. The folder has three floors, each of which imports only those above it in this list:
//!
//! ```text
//! problem/            what is computed
//!   types.rs            operand and output types: one table
//!   batching.rs         shapes, strides, groups
//!   scales.rs           block scales
//!   narrow.rs           MXFP8, MXFP6, MXFP4 and NVFP4
//!   epilogue.rs         epilogue arguments
//!   error.rs            why a GEMM is refused
//! device/             what runs
//!   mainloop/tma.rs     what GEMMs that TMA feeds have in common
//!   mainloop/wgmma.rs   Hopper: roles, barriers and loop with wgmma
//!   mainloop/tcgen05.rs Blackwell: the same with tcgen05.mma and tensor memory
//!   mainloop/promotion.rs   its accumulation with block scales
//!   mainloop/vector_scales.rs  scales of 16 or 32 elements, in tensor memory
//!   mainloop/mma_sync.rs    Ampere: cp.async, ldmatrix, mma.sync
//!   mainloop/mma_sync_promotion.rs  8-bit operands, and their block scales
//!   mainloop/mma_sync_scales.rs  scales of 16 or 32 elements, in registers
//!   scheduler.rs        work units: data-parallel, stream-K, split-K, grouped
//!   problems.rs         a tile's problem: extents, operands, coordinates
//!   epilogue.rs         epilogue operations: closures that compose
//!   store.rs            accumulators to C: TMA, or registers
//!   reduction.rs        parts of split tiles, through a workspace
//!   cluster_split.rs    parts of split tiles, through a cluster's shared memory
//!   staging.rs          copies of operands that TMA cannot read
//!   unpack.rs           copies of operands of 6 bits with a byte an element
//!   quantize.rs         matrices to MXFP8, MXFP6, MXFP4 and NVFP4
//!   kernel.rs           the kernels' entries
//! host/               what decides and launches
//!   config.rs           algorithms, configurations: legality
//!   candidates.rs       what the heuristic ranks and a search tries
//!   cost.rs             the cost model
//!   heuristic.rs        ranks by it; what `--explain` prints
//!   tune.rs             tuned results
//!   launch.rs           plans: kernel, workspace, arguments; types are values
//!   maps.rs             tensor maps, and copies of operands
//!   grouped.rs          the same for problems of unlike extents
//! ```
//!
//! `narrow.rs` is the front door of MXFP8, MXFP6, MXFP4 and NVFP4. `workloads/gemm` is what the command line makes of it: options, inputs, the reference, the
//! cuBLASLt baseline and the search.
//!
//! The first launch of a problem makes a plan: the algorithm (the caller's, the tuned one, or the
//! heuristic's), the compiled kernel, tensor maps and workspace. Later launches look it up.

pub mod device;
pub mod host;
mod narrow;
pub mod problem;

use warpwright::runtime::{Buffer, LaunchCounts, Stream};

use crate::operations::{Operations, Result, expect_length};
use device::epilogue::FusedEpilogue;
use host::config::{Algorithm, has_block_scales};
use host::grouped;
use host::heuristic;
use host::launch::{self, Buffers, Call};
use problem::batching::{Batch, GemmProblem, Problem, check_offsets};
use problem::epilogue::{Activation, Epilogue, Linear};
use problem::error::GemmError;
use problem::scales::{BlockScales, Granularities, OperandArgument};
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
    fn described(&self, types: GemmTypes, scales: Option<Granularities>) -> GemmProblem {
        let Self { batch, preloads_b, gate, .. } = *self;
        let along_m = self.offsets.is_some();
        GemmProblem { along_m, scales, preloads_b, gate, ..GemmProblem::new(batch, types) }
    }

    /// The call with those matrices, their types as values.
    fn call<'l, A, B, C>(&'l self, a: &'l A, b: &'l B, c: &'l mut Buffer<C>) -> Call<'l, E::Operation>
    where
        A: OperandArgument,
        B: OperandArgument,
        C: GemmOutput,
        E: Epilogue<C>,
    {
        let scales = a.scales().zip(b.scales()).map(<[_; 2]>::from);
        let granularities = scales.map(|[a, b]| (a.granularity, b.granularity));
        let problem = self.described(GemmTypes::of::<A::Element, B::Element, C>(), granularities);
        let (a, b, c) = (a.values().cast(), b.values().cast(), c.cast_mut());
        let scales = scales.map(|scales| scales.map(|scales| scales.scales.cast()));
        let buffers = Buffers { a, b, c, scales, offsets: self.offsets };
        let (operation, epilogue) = self.epilogue.arguments().untyped();
        Call { problem, algorithm: self.algorithm, buffers, operation, epilogue }
    }

    /// Refuses buffers and epilogue arguments of wrong lengths. Returns whether there is a kernel
    /// to launch.
    fn check<A, B, C>(&self, a: &A, b: &B, c: &Buffer<C>) -> Result<bool>
    where
        A: OperandArgument,
        B: OperandArgument,
        C: GemmOutput,
        E: Epilogue<C>,
    {
        let (batch, along_m) = (self.batch, self.offsets.is_some());
        let Problem { m, n, k, .. } = batch.problem;
        if k == 0 && (along_m || !self.epilogue.is_identity()) {
            return Err(GemmError::NoDepth.into());
        }
        if self.gate.is_some() {
            let adds = self.epilogue.adds_c() || self.epilogue.arguments().matrix.is_some();
            self.described(GemmTypes::of::<A::Element, B::Element, C>(), None).expect_gate(adds)?;
            expect_length("C", m as usize * (n / 2) as usize, c.len())?;
        }
        match self.offsets {
            None => {
                let columns = if self.gate.is_some() { 2 } else { 1 };
                batch.expect_lengths([a.values().len(), b.values().len(), columns * c.len()])?;
            }
            Some(offsets) => {
                check_offsets(offsets.len())?;
                if batch.problem.a == MatrixLayout::ColumnMajor {
                    return Err(GemmError::ColumnMajorGroups.into());
                }
                let [a_length, b_length, _] = batch.lengths();
                expect_length(
                    "A",
                    if batch.count == 0 { m as usize * k as usize } else { a_length },
                    a.values().len(),
                )?;
                expect_length("B", b_length, b.values().len())?;
                expect_length("C", m as usize * n as usize, c.len())?;
            }
        }
        let [(a_count, _), (b_count, _)] = batch.matrices();
        for (what, scales, operand, count) in
            [("A's scales", a.scales(), (m, k), a_count), ("B's scales", b.scales(), (n, k), b_count)]
        {
            if let Some(BlockScales { scales, granularity }) = scales {
                expect_length(what, count as usize * granularity.count(operand), scales.len())?;
            }
        }
        self.epilogue.arguments().check(batch, along_m, E::VECTORS, c.len())?;
        Ok(batch.count != 0 && m != 0 && n != 0)
    }
}

/// A problem of a group with its buffers: [`Operations::gemm_grouped`].
pub struct GroupMember<'a, A, B, C> {
    /// The problem, a single one, with its epilogue and algorithm.
    pub gemm: Gemm<'a>,
    /// A: a buffer, or one with block scales.
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
    /// [`Scaled`](problem::scales::Scaled), with block scales (`examples/gemm.rs`).
    ///
    /// In a batch the scales of each A and B follow those of the one before, without gaps; in
    /// groups along m the scales of A are those of all rows. If k is 0, C becomes zero.
    ///
    /// # Errors
    /// A buffer has a wrong length; matrices C overlap; k is 0 with an epilogue; the device has no
    /// kernel for the types or cannot run the algorithm; or it failed.
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
        let capability = self.device().properties().capability;
        if a.scales().is_some() && !has_block_scales(capability) {
            return Err(GemmError::NoBlockScales { target: capability.target }.into());
        }
        if !gemm.check(&a, &b, c)? {
            return Ok(LaunchCounts::default());
        }
        let batch = gemm.batch;
        if batch.problem.k == 0 {
            if batch.c_stride != Batch::new(batch.problem, batch.count).c_stride {
                return Err(GemmError::NoDepthWithGaps.into());
            }
            stream.fill_zero(c)?;
            return Ok(LaunchCounts::default());
        }
        launch::launch::<C, E::Operation>(self, stream, gemm.call(&a, &b, c))
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
        for GroupMember { gemm, a, b, c } in members.iter() {
            gemm.check(a, b, c)?;
        }
        let members = members.iter_mut().map(|GroupMember { gemm, a, b, c }| gemm.call(a, b, c));
        grouped::run(self, stream, members.collect())
    }

    /// The algorithms for a GEMM of operands `T` with those block scales, the cheapest by the
    /// heuristic first.
    pub fn gemm_algorithms<T: Operand, C: GemmOutput>(
        &self,
        gemm: &Gemm<'_, impl Sized>,
        scales: Option<Granularities>,
    ) -> Vec<Algorithm> {
        let properties = self.device().properties();
        let problem = gemm.described(GemmTypes::of::<T, T, C>(), scales);
        heuristic::algorithms(&problem, properties.capability, properties.sm_count)
    }

    /// The algorithms for a group, the cheapest by the heuristic first.
    pub fn grouped_algorithms<T: Operand, C: GemmOutput>(
        &self,
        problems: &[Problem],
        scales: Option<Granularities>,
    ) -> Vec<Algorithm> {
        let properties = self.device().properties();
        let working: Vec<_> = problems.iter().copied().filter(|problem| problem.has_work()).collect();
        let types = GemmTypes::of::<T, T, C>();
        heuristic::grouped_algorithms(&working, types, scales, properties.capability, properties.sm_count)
    }
}
