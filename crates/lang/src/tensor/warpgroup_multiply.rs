//! `wgmma.mma_async`. PTX ISA, "wgmma.mma_async" and "wgmma.mma_async.sp".
//!
//! B is read from shared memory. A is one of
//!
//! | A | atom | given as |
//! |---|---|---|
//! | a tile in shared memory | `.._SS` | a [`MatrixOperand`] |
//! | the warpgroup's registers | `.._RS` | the [`Fragment`] of [`ThreadMma::a_fragment`](super::ThreadMma::a_fragment) |
//! | either, of which half is stored | `SM90_SPARSE_..` | [`Sparse`]: one of these, and metadata |
//!
//! ```
//! use warpwright_lang::element::f16;
//! use warpwright_lang::fence::fence_proxy_async_shared;
//! use warpwright_lang::pointer::Global;
//! use warpwright_lang::shared::dynamic_shared_aligned;
//! use warpwright_lang::tensor::{Accumulate, Fragment, Tensor, TiledMma, TmaTile, multiply, wait_multiplications};
//! use warpwright_lang::{block::sync_threads, kernel, launch, special::thread_idx};
//! use warpwright_layout::{All, Layout, atom::Major};
//!
//! /// c = -(2 a) b, by one warpgroup: a (64, 16) by rows, doubled in registers; b (8, 16) by rows, in shared memory.
//! #[kernel]
//! fn doubled(a: &Global<f16>, b: &Global<f16>, c: &mut Global<f32>) {
//!     launch::threads(128);
//!     let thread = thread_idx().x;
//!     let layout = TmaTile::new::<f16>((8, 16), Major::K).and_then(|tile| tile.layout(1));
//!     let tile = Tensor::new(dynamic_shared_aligned::<f16>(128, 1024), layout.expect("two blocks"));
//!     tile.set((thread / 16, thread % 16, 0), b[thread]);
//!     fence_proxy_async_shared();
//!     sync_threads();
//!     let mma = TiledMma::warpgroups("SM90_64x8x16_F32F16F16_RS", 1).negating_a();
//!     let part = mma.thread(thread);
//!     let mine = part.a(&Tensor::with_layout(*a, Layout::row_major((64, 16))));
//!     let mut left: Fragment<f16> = part.a_fragment((64, 16));
//!     for pair in (0..left.len()).step_by(2) {
//!         left.set_pair(pair, mine.get(pair) + mine.get(pair), mine.get(pair + 1) + mine.get(pair + 1));
//!     }
//!     let mut accumulator: Fragment<f32> = part.c_fragment((64, 8));
//!     multiply(&mma, &mut accumulator, &left, &mma.b_operand(&tile).slice((All, All, 0)), Accumulate::No);
//!     wait_multiplications(0);
//!     let c = part.c(&Tensor::with_layout(*c, Layout::row_major((64, 8))));
//!     for index in 0..accumulator.len() {
//!         c.set(index, accumulator.get(index));
//!     }
//! }
//! assert!(doubled().is_ok());
//! ```

use warpwright_ir::Operand as IrOperand;
use warpwright_layout::atom::{MmaAtom, Operand};
use warpwright_layout::{All, Coordinate};

use super::accumulate::Accumulate;
use super::agreement::agree;
use super::fragment::Fragment;
use super::multiply::{covered, demand_accumulators, demand_fragment, extent, vector};
use super::tiled_mma::{Modifiers, TiledMma, has_scales};
use super::warpgroup::{MatrixOperand, Reads, takes_either_major};
use crate::element::Element;
use crate::operation::{perform, record, refuse};
use crate::value::constant;

mod sealed {
    pub trait Sealed {}
}

/// What a `wgmma` takes as A: a [`MatrixOperand`], a [`Fragment`], or [`Sparse`] of one of them.
pub trait LeftOperand: sealed::Sealed {
    /// Requirements on the atom, except for sparsity.
    #[doc(hidden)]
    const FROM_SHARED: bool;

    /// Whether it comes with metadata.
    #[doc(hidden)]
    const IS_SPARSE: bool = false;

    /// Blocks along the depth.
    #[doc(hidden)]
    #[track_caller]
    fn steps(&self) -> i64;

    /// Blocks of this warpgroup along the rows.
    #[doc(hidden)]
    #[track_caller]
    fn repetitions(&self) -> i64;

    /// Refuses what the atom does not take as A. Returns whether it takes it.
    #[doc(hidden)]
    #[track_caller]
    fn demand(&self, operation: &str, atom: &MmaAtom) -> bool;

    /// The instruction's operand for a block.
    #[doc(hidden)]
    #[track_caller]
    fn block(&self, repetition: i64, step: i64) -> IrOperand;

    /// The immediate that says which mode is contiguous, if A is in shared memory.
    #[doc(hidden)]
    fn order(&self) -> Option<IrOperand>;

    /// The metadata of a block, and the selector.
    #[doc(hidden)]
    #[track_caller]
    fn metadata(&self, _repetition: i64, _step: i64, _selectors: i64) -> Vec<IrOperand> {
        Vec::new()
    }
}

impl sealed::Sealed for MatrixOperand {}

impl LeftOperand for MatrixOperand {
    const FROM_SHARED: bool = true;

    #[track_caller]
    fn steps(&self) -> i64 {
        self.steps()
    }

    #[track_caller]
    fn repetitions(&self) -> i64 {
        self.repetitions()
    }

    #[track_caller]
    fn demand(&self, operation: &str, atom: &MmaAtom) -> bool {
        self.demand(operation, Reads::of(atom, Operand::A))
    }

    #[track_caller]
    fn block(&self, repetition: i64, step: i64) -> IrOperand {
        self.descriptor(repetition, step)
    }

    fn order(&self) -> Option<IrOperand> {
        Some(self.transposed())
    }
}

impl<T: Element> sealed::Sealed for Fragment<T> {}

impl<T: Element> LeftOperand for Fragment<T> {
    const FROM_SHARED: bool = false;

    #[track_caller]
    fn steps(&self) -> i64 {
        extent(self.layout(), 2)
    }

    #[track_caller]
    fn repetitions(&self) -> i64 {
        extent(self.layout(), 1)
    }

    #[track_caller]
    fn demand(&self, operation: &str, atom: &MmaAtom) -> bool {
        demand_fragment(operation, atom, Operand::A, self, 3)
    }

    #[track_caller]
    fn block(&self, repetition: i64, step: i64) -> IrOperand {
        vector(&self.slice((All, repetition, step)))
    }

    fn order(&self) -> Option<IrOperand> {
        None
    }
}

/// An A of which half is stored, in shared memory or registers, and where in its rows that half
/// stands.
///
/// ```
/// use warpwright_lang::element::f16;
/// use warpwright_lang::pointer::Global;
/// use warpwright_lang::shared::dynamic_shared_aligned;
/// use warpwright_lang::tensor::{Accumulate, Fragment, Sparse, Tensor, TiledMma, TmaTile, multiply, wait_multiplications};
/// use warpwright_lang::{kernel, launch, special::thread_idx};
/// use warpwright_layout::{All, atom::Major};
///
/// /// Multiplies by B, (8, 64), what is stored of A, (64, 32) of (64, 64): two instructions deep, with one register of metadata for both.
/// #[kernel]
/// fn sparse(metadata: &Global<u32>, c: &mut Global<f32>) {
///     launch::threads(128);
///     let whole = || (All, All, 0);
///     let tile = |rows, depth| {
///         let layout = TmaTile::new::<f16>((rows, depth), Major::K).and_then(|tile| tile.layout(1));
///         let memory = dynamic_shared_aligned::<f16>(rows * depth, 1024); // filled by TMA
///         Tensor::new(memory, layout.expect("whole blocks"))
///     };
///     let mma = TiledMma::warpgroups("SM90_SPARSE_64x8x32_F32F16F16_SS", 1);
///     let (a, b) = (mma.a_operand(&tile(64, 32), 0).slice(whole()), mma.b_operand(&tile(8, 64)).slice(whole()));
///     let part = mma.thread(thread_idx().x);
///     let mut words = part.metadata_fragment((64, 32));
///     words.set(0, metadata[thread_idx().x]);
///     let mut accumulator: Fragment<f32> = part.c_fragment((64, 8));
///     multiply(&mma, &mut accumulator, &Sparse { stored: &a, metadata: &words }, &b, Accumulate::No);
///     wait_multiplications(0);
///     c[thread_idx().x] = accumulator.get(0);
/// }
/// assert!(sparse().is_ok());
/// ```
pub struct Sparse<'a, A: LeftOperand> {
    /// The stored half of A.
    pub stored: &'a A,
    /// The registers of metadata (repetitions along m, registers along k), as
    /// [`ThreadMma::metadata_fragment`](super::ThreadMma::metadata_fragment) makes them.
    pub metadata: &'a Fragment<u32>,
}

impl<A: LeftOperand> sealed::Sealed for Sparse<'_, A> {}

impl<A: LeftOperand> LeftOperand for Sparse<'_, A> {
    const FROM_SHARED: bool = A::FROM_SHARED;
    const IS_SPARSE: bool = true;

    #[track_caller]
    fn steps(&self) -> i64 {
        self.stored.steps()
    }

    #[track_caller]
    fn repetitions(&self) -> i64 {
        self.stored.repetitions()
    }

    #[track_caller]
    fn demand(&self, operation: &str, atom: &MmaAtom) -> bool {
        if !self.stored.demand(operation, atom) {
            return false;
        }
        let selectors = atom.metadata().map_or(1, |metadata| metadata.selectors());
        let layout = self.metadata.layout();
        let held = format!("{} x {}", extent(layout, 0), extent(layout, 1));
        let wanted = format!("{} x {}", self.repetitions(), (self.steps() + selectors - 1) / selectors);
        let advice = "make it by `metadata_fragment` of the tile of A";
        agree(operation, ("the registers of metadata are #", held), ("A takes #", wanted), advice)
    }

    #[track_caller]
    fn block(&self, repetition: i64, step: i64) -> IrOperand {
        self.stored.block(repetition, step)
    }

    fn order(&self) -> Option<IrOperand> {
        self.stored.order()
    }

    #[track_caller]
    fn metadata(&self, repetition: i64, step: i64, selectors: i64) -> Vec<IrOperand> {
        let mut operands = self.metadata.words_at([(repetition, step / selectors).into()]);
        operands.push(IrOperand::Integer((step % selectors).into()));
        operands
    }
}

/// Starts `accumulator += a * b` or `accumulator = a * b`, depending on `accumulate`: a batch of
/// `wgmma` over the whole depth of the operands. With [`Accumulate::No`] the accumulator need not have
/// been written.
///
/// The accumulator and the operands, registers included, belong to the tensor cores until
/// [`wait_multiplications`] has waited for the batch. It is [`fence_multiplications`],
/// [`issue_multiplications`] and [`commit_multiplications`]: a batch of several products calls them
/// itself.
#[track_caller]
pub fn multiply<C: Element>(
    mma: &TiledMma,
    accumulator: &mut Fragment<C>,
    a: &impl LeftOperand,
    b: &MatrixOperand,
    accumulate: Accumulate,
) {
    fence_multiplications();
    issue("multiply", mma, accumulator, a, b, accumulate);
    commit_multiplications();
}

/// Makes what the warpgroup's threads wrote to registers visible to the `wgmma` that follow: before
/// the first of a batch, and after every write of the accumulator, or of A in registers. PTX ISA,
/// "wgmma.fence".
#[track_caller]
pub fn fence_multiplications() {
    perform("wgmma.fence.sync.aligned", []);
}

/// The `wgmma` of one product, over all k-steps of the operands, that join the batch of the
/// warpgroup.
#[track_caller]
pub fn issue_multiplications<C: Element, A: LeftOperand>(
    mma: &TiledMma,
    accumulator: &mut Fragment<C>,
    a: &A,
    b: &MatrixOperand,
    accumulate: Accumulate,
) {
    issue("issue_multiplications", mma, accumulator, a, b, accumulate);
}

#[track_caller]
fn issue<C: Element, A: LeftOperand>(
    operation: &str,
    mma: &TiledMma,
    accumulator: &mut Fragment<C>,
    a: &A,
    b: &MatrixOperand,
    accumulate: Accumulate,
) {
    let Some(plan) = mma.plan() else { return };
    let atom = plan.atom();
    if !demand_left_operand::<A>(operation, atom)
        || !a.demand(operation, atom)
        || !b.demand(operation, Reads::of(atom, Operand::B))
        || !demand_fragment(operation, atom, Operand::C, accumulator, 3)
        || !demand_shapes(operation, plan, accumulator, a, b)
    {
        return;
    }
    let Modifiers { negates_a, negates_b, saturates } = mma.modifiers;
    let opcode = atom.instruction() + if saturates { ".satfinite" } else { "" };
    let sign = |negates: bool| IrOperand::Integer(if negates { -1 } else { 1 });
    let mut immediates = Vec::new();
    if has_scales(atom) {
        immediates.extend([sign(negates_a), sign(negates_b)]);
    }
    if takes_either_major(atom.b) {
        immediates.extend(a.order());
        immediates.push(b.transposed());
    }
    let selectors = atom.metadata().map_or(1, |metadata| metadata.selectors());
    let (rows, columns) = (extent(accumulator.layout(), 1), extent(accumulator.layout(), 2));
    let steps = a.steps();
    let mut accumulate = accumulate.reg();
    for step in 0..steps {
        for row in 0..rows {
            let (left, metadata) = (a.block(row, step), a.metadata(row, step, selectors));
            for column in 0..columns {
                let mut operands = vec![
                    vector(&accumulator.slice(Coordinate::from((All, row, column)))),
                    left.clone(),
                    b.descriptor(column, step),
                ];
                operands.extend(metadata.iter().cloned());
                operands.push(accumulate.operand());
                operands.extend(immediates.iter().cloned());
                record(opcode.clone(), 1, operands);
            }
        }
        if step == 0 && steps > 1 {
            accumulate = constant(true);
        }
    }
}

/// Refuses tiles that do not fit each other: (m, k) by (n, k) into (m, n).
#[track_caller]
fn demand_shapes<C: Element, A: LeftOperand>(
    operation: &str,
    plan: &warpwright_layout::TiledMma,
    accumulator: &Fragment<C>,
    a: &A,
    b: &MatrixOperand,
) -> bool {
    let (_, n, k) = plan.atom().shape;
    let depth = (("A has a depth of #", a.steps() * k), ("B has one of #", b.steps() * k));
    let rows = a.repetitions() * covered(plan, Operand::A).0;
    agree(operation, depth.0, depth.1, "multiply tiles (m, k) and (n, k) of the same k")
        && demand_accumulators(operation, plan, accumulator, rows, b.repetitions() * n)
}

/// Refuses an A of another kind than the atom takes.
#[track_caller]
fn demand_left_operand<A: LeftOperand>(operation: &str, atom: &MmaAtom) -> bool {
    let name = atom.name();
    let mistake = if !atom.family.is_warpgroup() {
        format!("{name} is an instruction of a warp, not of a warpgroup: multiply fragments by `gemm`")
    } else if atom.family.is_sparse() != A::IS_SPARSE {
        match A::IS_SPARSE {
            true => format!("{name} is dense, and this A has metadata; use an SM90_SPARSE_.. atom"),
            false => format!("{name} is sparse, and this A has no metadata; pass it as `Sparse`"),
        }
    } else if atom.a_from_shared && !A::FROM_SHARED {
        format!("{name} reads A from shared memory; use an .._RS atom for a fragment")
    } else if !atom.a_from_shared && A::FROM_SHARED {
        format!("{name} takes A from registers; use an .._SS atom for a tile in shared memory")
    } else {
        return true;
    };
    refuse(format!("`{operation}`: {mistake}"));
    false
}

/// Commits the `wgmma` issued since the last commit to a batch: [`wait_multiplications`] counts
/// batches. PTX ISA, "wgmma.commit_group".
#[track_caller]
pub fn commit_multiplications() {
    perform("wgmma.commit_group.sync.aligned", []);
}

/// Waits until at most the `in_flight` latest batches of the warpgroup are in flight.
#[track_caller]
pub fn wait_multiplications(in_flight: u32) {
    perform("wgmma.wait_group.sync.aligned", [IrOperand::Integer(in_flight.into())]);
}
