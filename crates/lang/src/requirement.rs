//! Operations that need a certain architecture, checked at the author's line.
//!
//! A kernel may be staged for one target ([`for_target`]); an operation that the target lacks is
//! then refused at the author's line. Without a target every operation is recorded.

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

/// The architecture of the target, if one was named.
pub fn target() -> Option<&'static Capability> {
    TARGET.get()
}

macro_rules! features {
    ($($(#[$doc:meta])* $feature:ident $name:literal, $since:expr;)*) => {
        /// A group of instructions that only some architectures have.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Feature {
            $($(#[$doc])* $feature,)*
        }

        impl Feature {
            /// All of them.
            pub const ALL: &'static [Feature] = &[$(Feature::$feature),*];

            /// Its name in messages, and the first compute capability that has it.
            pub fn requirement(self) -> (&'static str, (u32, u32)) {
                match self {
                    $(Feature::$feature => ($name, $since),)*
                }
            }
        }
    };
}

features! {
    /// Conversions to and from 8-bit floats. PTX ISA, `cvt`: sm_89.
    Fp8Conversion "conversion to and from 8-bit floats", (8, 9);
    /// Fences that only acquire or only release (ptxas): sm_90.
    OneWayFences "a fence that only acquires or only releases", (9, 0);
    /// Clusters and distributed shared memory: sm_90.
    Clusters "clusters", (9, 0);
    /// mbarriers that count bytes, arrivals that count for several, orders by scope, and waits that
    /// suspend: sm_90.
    TransactionBarriers "an mbarrier that counts bytes or arrivals, orders by scope, or suspends its waiters", (9, 0);
    /// The tensor memory accelerator: tensor maps, tensor and bulk copies: sm_90.
    TensorCopies "the tensor memory accelerator", (9, 0);
    /// Replacing fields of tensor maps (`tensormap.replace`): sm_90a.
    TensorMapReplace "replacing the fields of a tensor map", (9, 0);
    /// Moving registers between warpgroups (`setmaxnreg`): sm_90a.
    RegisterReallocation "moving registers between warpgroups (setmaxnreg)", (9, 0);
    /// Programmatic dependent launch (`griddepcontrol`): sm_90.
    DependentLaunch "programmatic dependent launch (griddepcontrol)", (9, 0);
    /// `elect.sync`: sm_90.
    Elect "electing a lane", (9, 0);
    /// `stmatrix`: sm_90.
    StoreMatrix "storing matrices (stmatrix)", (9, 0);
    /// Converting to tf32 otherwise than to the nearest, halves away from zero: sm_90.
    Tf32Rounding "rounding to tf32 by another rule than halves away from zero", (9, 0);
    /// `atom` and `red` on vectors: sm_90.
    VectorAtomics "atomics on vectors", (9, 0);
    /// bf16 atomics without a compare-and-swap loop: sm_90.
    BfloatAtomics "atomics on bf16", (9, 0);
    /// Approximations in bf16: sm_90.
    BfloatApproximations "approximations in bf16", (9, 0);
    /// Arithmetic on pairs of 16-bit integers, and minima and maxima not below zero: sm_90.
    IntegerPairs "arithmetic on pairs of 16-bit integers (and min.relu, max.relu)", (9, 0);
    /// 256-bit global loads and stores: sm_100.
    WideVectors "256-bit loads and stores", (10, 0);
    /// Minimum and maximum of three floats: sm_100.
    ThreeInputMinimum "the minimum and maximum of three floats", (10, 0);
    /// Canceling clusters that have not started (`clusterlaunchcontrol`): sm_100.
    ClusterLaunchControl "canceling clusters that have not started (clusterlaunchcontrol)", (10, 0);
    /// Tensor memory and what computes in it (`tcgen05`): sm_100a.
    TensorMemory "tensor memory (tcgen05)", (10, 0);
    /// Tensor copies of single rows (`.tile::gather4`, `.tile::scatter4`): sm_100a.
    TensorRows "tensor copies of single rows (gather4, scatter4)", (10, 0);
    /// `redux.sync` on f32: sm_100a.
    FloatRedux "warp reductions of f32 (redux.sync)", (10, 0);
    /// `mma.sync` with scales of blocks: sm_120a.
    BlockScaledMma "mma.sync with scales of blocks", (12, 0);
}

impl Feature {
    /// Whether only architectures with tensor memory have it: GeForce GPUs of Blackwell (sm_120a) do
    /// not.
    fn is_of_tensor_memory(self) -> bool {
        matches!(self, Feature::TensorMemory | Feature::TensorRows | Feature::FloatRedux)
    }
}

/// Refuses, at the author's line, what the target lacks.
#[track_caller]
pub(crate) fn require(feature: Feature) {
    let Some(capability) = target() else { return };
    let (name, (major, minor)) = feature.requirement();
    let (is_there, targets) = match feature.is_of_tensor_memory() {
        true => (capability.tensor_memory_columns > 0, "sm_100a and sm_103a".to_owned()),
        false => (capability.compute_capability >= (major, minor), format!("sm_{major}{minor} and later")),
    };
    if !is_there {
        refuse(format!(
            "not available on {}, which this kernel is built for: {name} ({targets})",
            capability.target
        ));
    }
}
