//! What an operation needs of the architecture, checked where the author wrote it.
//!
//! A kernel may be staged for one target ([`for_target`]); an operation that the target lacks is then refused at the
//! author's line. Without a target every operation is recorded.

use std::cell::Cell;

use warpwright_arch::Capability;

use crate::operation::refuse;

thread_local! {
    static TARGET: Cell<Option<&'static Capability>> = const { Cell::new(None) };
}

/// Runs `stage` with `capability` as the target of what it stages.
///
/// ```
/// use warpwright_arch::Arch;
/// use warpwright_lang::requirement::{for_target, target};
/// let h200 = Arch::named("h200")?.capability;
/// assert_eq!(for_target(h200, target).map(|found| found.target), Some("sm_90a"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub fn for_target<R>(capability: &'static Capability, stage: impl FnOnce() -> R) -> R {
    /// Puts the outer target back, also when staging panics.
    struct Restore(Option<&'static Capability>);
    impl Drop for Restore {
        fn drop(&mut self) {
            TARGET.set(self.0);
        }
    }
    let _restore = Restore(TARGET.replace(Some(capability)));
    stage()
}

/// The architecture that is staged for, if one was named.
pub fn target() -> Option<&'static Capability> {
    TARGET.get()
}

/// A group of instructions that not every architecture has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Feature {
    /// Conversions to and from 8-bit floats. PTX ISA, `cvt`: sm_89.
    Fp8Conversion,
    /// `mma.sync` on 8-bit floats: sm_89.
    Fp8Matrix,
    /// Clusters and distributed shared memory: sm_90.
    Clusters,
    /// mbarriers that count bytes, and waits that suspend: sm_90.
    TransactionBarriers,
    /// The tensor memory accelerator: tensor maps, tensor and bulk copies: sm_90.
    TensorCopies,
    /// Replacing fields of tensor maps (`tensormap.replace`): sm_90a.
    TensorMapReplace,
    /// Moving registers between warpgroups (`setmaxnreg`): sm_90a.
    RegisterReallocation,
    /// Programmatic dependent launch (`griddepcontrol`): sm_90.
    DependentLaunch,
    /// `elect.sync`: sm_90.
    Elect,
    /// `stmatrix`: sm_90.
    StoreMatrix,
    /// Rounding to nearest even when converting to tf32: sm_90.
    Tf32NearestEven,
    /// `atom` and `red` on vectors: sm_90.
    VectorAtomics,
    /// bf16 atomics without a compare-and-swap loop: sm_90.
    BfloatAtomics,
    /// Approximations in bf16: sm_90.
    BfloatApproximations,
    /// Arithmetic on pairs of 16-bit integers, and minima and maxima not below zero: sm_90.
    IntegerPairs,
    /// 256-bit global loads and stores: sm_100.
    WideVectors,
    /// Minimum and maximum of three floats: sm_100.
    ThreeInputMinimum,
    /// `redux.sync` on f32: sm_100a.
    FloatRedux,
}

impl Feature {
    /// Its name in messages, and the first compute capability that has it.
    pub fn requirement(self) -> (&'static str, (u32, u32)) {
        match self {
            Feature::Fp8Conversion => ("conversion to and from 8-bit floats", (8, 9)),
            Feature::Fp8Matrix => ("matrix multiplication of 8-bit floats", (8, 9)),
            Feature::Clusters => ("clusters", (9, 0)),
            Feature::TransactionBarriers => ("an mbarrier that counts bytes or suspends its waiters", (9, 0)),
            Feature::TensorCopies => ("the tensor memory accelerator", (9, 0)),
            Feature::TensorMapReplace => ("replacing the fields of a tensor map", (9, 0)),
            Feature::RegisterReallocation => ("moving registers between warpgroups (setmaxnreg)", (9, 0)),
            Feature::DependentLaunch => ("programmatic dependent launch (griddepcontrol)", (9, 0)),
            Feature::Elect => ("electing a lane", (9, 0)),
            Feature::StoreMatrix => ("storing matrices (stmatrix)", (9, 0)),
            Feature::Tf32NearestEven => ("rounding to the nearest even tf32", (9, 0)),
            Feature::VectorAtomics => ("atomics on vectors", (9, 0)),
            Feature::BfloatAtomics => ("atomics on bf16", (9, 0)),
            Feature::BfloatApproximations => ("approximations in bf16", (9, 0)),
            Feature::IntegerPairs => {
                ("arithmetic on pairs of 16-bit integers (and min.relu, max.relu)", (9, 0))
            }
            Feature::WideVectors => ("256-bit loads and stores", (10, 0)),
            Feature::ThreeInputMinimum => ("the minimum and maximum of three floats", (10, 0)),
            Feature::FloatRedux => ("warp reductions of f32 (redux.sync)", (10, 0)),
        }
    }
}

/// Refuses, at the author's line, what the target lacks.
#[track_caller]
pub(crate) fn require(feature: Feature) {
    let Some(capability) = target() else { return };
    let (name, (major, minor)) = feature.requirement();
    if capability.compute_capability < (major, minor) {
        refuse(format!(
            "this kernel is built for {}, and {name} came with sm_{major}{minor}",
            capability.target
        ));
    }
}
