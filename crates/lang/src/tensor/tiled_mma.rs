//! Plans of multiplications: MMA atoms repeated over warps.

use warpwright_arch::DataType;
use warpwright_layout::atom::MmaAtom;
use warpwright_layout::{Error, Int, Layout};

use super::legal::legal;
use crate::operation::refuse;

/// An MMA atom, given by CuTe's name or as a value: [`MmaAtom::wgmma`].
pub trait IntoMmaAtom {
    /// The atom, or the reason why it does not exist.
    fn into_atom(self) -> Result<MmaAtom, Error>;
}

impl<N: AsRef<str> + ?Sized> IntoMmaAtom for &N {
    fn into_atom(self) -> Result<MmaAtom, Error> {
        MmaAtom::named(self.as_ref())
    }
}

impl IntoMmaAtom for Result<MmaAtom, Error> {
    fn into_atom(self) -> Result<MmaAtom, Error> {
        self
    }
}

/// Modifiers of the operands and the accumulator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Modifiers {
    pub(super) negates_a: bool,
    pub(super) negates_b: bool,
    pub(super) saturates: bool,
}

/// A plan for multiplying tiles: an MMA atom repeated over warps.
///
/// The layout algebra behind it is [`warpwright_layout::TiledMma`].
#[derive(Clone)]
pub struct TiledMma {
    pub(super) plan: Option<warpwright_layout::TiledMma>,
    pub(super) modifiers: Modifiers,
}

impl TiledMma {
    /// The atom, for example `SM80_16x8x16_F32BF16BF16F32_TN`, repeated over `warps` along (m, n),
    /// with neighboring warps along m. Each warp's tile of N is widened to `n` columns so that one
    /// `ldmatrix.x4` fills two atoms' worth of B.
    #[track_caller]
    pub fn new(atom: impl IntoMmaAtom, warps: (u32, u32)) -> Self {
        let plan = atom.into_atom().and_then(|atom| {
            let (_, n, _) = atom.shape;
            let layout = Layout::column_major((warps.0, warps.1, 1))?;
            let wider_n = Int::from(2 * n * i64::from(warps.1)).into();
            let keep = || warpwright_layout::Tiler::All;
            warpwright_layout::TiledMma::permuted(atom, &layout, [keep(), wider_n, keep()])
        });
        Self::of_plan(legal(plan.map(Some), || None))
    }

    /// The atom alone: one instruction, one warp.
    #[track_caller]
    pub fn atom(atom: impl IntoMmaAtom) -> Self {
        let plan = atom
            .into_atom()
            .and_then(|atom| warpwright_layout::TiledMma::new(atom, &Layout::column_major((1, 1, 1))?));
        Self::of_plan(legal(plan.map(Some), || None))
    }

    pub(super) fn of_plan(plan: Option<warpwright_layout::TiledMma>) -> Self {
        Self { plan, modifiers: Modifiers::default() }
    }

    /// The plan in the layout algebra; `None` after a mistake that was already reported.
    pub(super) fn plan(&self) -> Option<&warpwright_layout::TiledMma> {
        self.plan.as_ref()
    }

    /// The number of threads.
    #[track_caller]
    pub fn threads(&self) -> u32 {
        self.plan.as_ref().map_or(0, |plan| legal(plan.threads(), || 0) as u32)
    }

    /// The same with -A for A: `accumulator - a * b`. A `wgmma` of floats has it (scale-a of -1).
    ///
    /// ```
    /// use warpwright_lang::{kernel, tensor::TiledMma};
    /// #[kernel]
    /// fn negated() {
    ///     TiledMma::warpgroups("SM90_64x128x16_F32BF16BF16_SS", 1).negating_a();
    /// }
    /// assert!(negated().is_ok());
    /// ```
    #[track_caller]
    pub fn negating_a(self) -> Self {
        self.demand_negation();
        Self { modifiers: Modifiers { negates_a: true, ..self.modifiers }, ..self }
    }

    /// The same with -B for B (scale-b of -1); see [`negating_a`](Self::negating_a).
    #[track_caller]
    pub fn negating_b(self) -> Self {
        self.demand_negation();
        Self { modifiers: Modifiers { negates_b: true, ..self.modifiers }, ..self }
    }

    /// The same with accumulators clamped to the range of `i32` instead of wrapping: `.satfinite`.
    /// A `wgmma` of 8-bit integers has it.
    ///
    /// ```
    /// use warpwright_lang::{kernel, tensor::TiledMma};
    /// #[kernel]
    /// fn saturated() {
    ///     TiledMma::warpgroups("SM90_64x128x32_S32S8S8_SS", 1).saturating();
    /// }
    /// assert!(saturated().is_ok());
    /// ```
    #[track_caller]
    pub fn saturating(self) -> Self {
        if let Some(atom) = self.plan().map(|plan| plan.atom())
            && !(atom.family.is_warpgroup() && matches!(atom.a, DataType::S8 | DataType::U8))
        {
            refuse(format!("{} does not saturate: `saturating` needs a wgmma of S8 or U8", atom.name()));
        }
        Self { modifiers: Modifiers { saturates: true, ..self.modifiers }, ..self }
    }

    #[track_caller]
    fn demand_negation(&self) {
        if let Some(atom) = self.plan().map(|plan| plan.atom())
            && !(atom.family.is_warpgroup() && has_scales(atom))
        {
            refuse(format!(
                "{} does not negate its operands: `negating_a` and `negating_b` need a wgmma of floats",
                atom.name()
            ));
        }
    }
}

/// Whether the instruction has operands that scale A and B by 1 or -1: those of floats (PTX ISA,
/// "wgmma.mma_async").
pub(super) fn has_scales(atom: &MmaAtom) -> bool {
    atom.d != DataType::S32
}
