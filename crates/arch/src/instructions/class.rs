//! What kind of instruction a row is, and the pipe of an SM that it occupies.

/// A pipe of an SM, by its name in Nsight Compute (Kernel Profiling Guide, "Pipelines").
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Pipe {
    /// Address divergence unit: barriers of CTAs and clusters.
    Adu,
    /// Integers without multiplications, bits, comparisons, moves, narrowing conversions.
    Alu,
    /// Convergence barrier unit: branches, and the convergence of a warp.
    Cbu,
    /// f32, and integer multiplications.
    Fma,
    /// f16 and bf16. From sm_86 on it is part of the FMA pipe.
    Fp16,
    /// f64.
    Fp64,
    /// Load/store unit: memory, shuffles, mbarriers.
    Lsu,
    /// Tensor cores.
    Tensor,
    /// Tensor memory accelerator.
    Tma,
    /// Instructions that a warp executes once.
    Uniform,
    /// Special functions, and conversions between integers and floats.
    Xu,
}

impl Pipe {
    /// All of them.
    pub const ALL: [Pipe; 11] = [
        Pipe::Adu,
        Pipe::Alu,
        Pipe::Cbu,
        Pipe::Fma,
        Pipe::Fp16,
        Pipe::Fp64,
        Pipe::Lsu,
        Pipe::Tensor,
        Pipe::Tma,
        Pipe::Uniform,
        Pipe::Xu,
    ];
}

macro_rules! classes {
    ($($(#[doc = $doc:literal])* $class:ident: $pipe:ident, $operations:literal;)*) => {
        /// What kind of instruction a row is. Instructions of a class and a pipe are alike in latency
        /// and issue.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Class {
            $($(#[doc = $doc])* $class,)*
        }

        impl Class {
            /// All of them.
            pub const ALL: &'static [Class] = &[$(Class::$class),*];

            /// The pipe that most rows of the class occupy.
            pub(super) const fn pipe(self) -> Pipe {
                match self {
                    $(Class::$class => Pipe::$pipe,)*
                }
            }

            /// The arithmetic operations of most rows of the class.
            pub(super) const fn operations(self) -> u32 {
                match self {
                    $(Class::$class => $operations,)*
                }
            }
        }
    };
}

// Source of the pipes: Nsight Compute, Kernel Profiling Guide, "Pipelines", and, for bits that are
// counted, CUDA C++ Programming Guide, "Throughput of Native Arithmetic Instructions". Neither names the
// pipes of reductions and matches of a warp, of barriers of a cluster, and of moves of tensor memory;
// they are not measured here. A division is a sequence of instructions, most of them on the pipe given.
classes! {
    /// Integer arithmetic without multiplications.
    Integer: Alu, 1;
    /// Integer products, also with sums.
    IntegerMultiply: Fma, 1;
    /// Integer quotients and remainders.
    IntegerDivide: Fma, 1;
    /// Logic, shifts, fields of bits, permutations of bytes.
    Logic: Alu, 1;
    /// Bits that are counted, found or reversed.
    BitCount: Xu, 1;
    /// `set`, `setp`.
    Compare: Alu, 1;
    /// `selp`, `slct`.
    Select: Alu, 1;
    /// Sums and products of floats.
    Float: Fma, 1;
    /// Quotients of floats.
    FloatDivide: Fma, 1;
    /// The least and the greatest of floats, their signs and kinds.
    FloatCompare: Alu, 1;
    /// Reciprocals, roots, sines, logarithms, powers.
    Special: Xu, 1;
    /// `cvt`.
    Conversion: Xu, 1;
    /// Moves between registers, and of the stack.
    Move: Alu, 0;
    /// Conversions of addresses between spaces and CTAs.
    Address: Alu, 0;
    /// `ld`.
    Load: Lsu, 0;
    /// `st`.
    Store: Lsu, 0;
    /// `atom`.
    Atomic: Lsu, 0;
    /// `red`.
    Reduction: Lsu, 0;
    /// `prefetch`, `prefetchu`.
    Prefetch: Lsu, 0;
    /// Priorities of lines in caches.
    CacheControl: Lsu, 0;
    /// `ldmatrix`.
    MatrixLoad: Lsu, 0;
    /// `stmatrix`.
    MatrixStore: Lsu, 0;
    /// `wmma.load`.
    FragmentLoad: Lsu, 0;
    /// `wmma.store`.
    FragmentStore: Lsu, 0;
    /// `cp.async`, its groups and waits.
    AsyncCopy: Lsu, 0;
    /// `cp.async.bulk` and `cp.reduce.async.bulk`, their groups and waits.
    BulkCopy: Tma, 0;
    /// The same through tensor maps.
    TensorCopy: Tma, 0;
    /// Changes of tensor maps.
    TensorMap: Lsu, 0;
    /// `mma`, `wmma.mma`.
    Mma: Tensor, 0;
    /// `wgmma.mma_async`.
    WarpgroupMma: Tensor, 0;
    /// Fence, groups and waits of `wgmma`.
    WarpgroupSync: Tensor, 0;
    /// `tcgen05.mma`.
    TensorMemoryMma: Tensor, 0;
    /// Copies and shifts in the queue of the tensor core.
    TensorMemoryCopy: Tensor, 0;
    /// `tcgen05.ld`.
    TensorMemoryLoad: Tensor, 0;
    /// `tcgen05.st`.
    TensorMemoryStore: Tensor, 0;
    /// Fences and waits of `tcgen05`.
    TensorMemorySync: Tensor, 0;
    /// Columns of tensor memory, and commits.
    TensorMemoryControl: Tensor, 0;
    /// Exchanges of registers between lanes: `shfl`, `movmatrix`.
    Exchange: Lsu, 0;
    /// Predicates of a warp: `vote`, `activemask`, `elect`.
    Vote: Alu, 0;
    /// `match`.
    Match: Alu, 0;
    /// `redux`.
    WarpReduction: Alu, 0;
    /// `bar.warp`.
    WarpBarrier: Cbu, 0;
    /// `bar`, `barrier`.
    CtaBarrier: Adu, 0;
    /// `barrier.cluster`.
    ClusterBarrier: Adu, 0;
    /// `mbarrier.init`.
    MbarrierInit: Lsu, 0;
    /// Other operations on an mbarrier.
    Mbarrier: Lsu, 0;
    /// Fences of memory and of proxies.
    Fence: Lsu, 0;
    /// `clusterlaunchcontrol`.
    ClusterLaunch: Uniform, 0;
    /// Returns, exits and traps.
    Branch: Cbu, 0;
    /// Registers of a warpgroup, dependent grids, sleep, performance events.
    Control: Cbu, 0;
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::instructions::{Operand, forms};

    #[test]
    fn every_class_and_every_pipe_has_rows() {
        for class in Class::ALL {
            assert!(forms().any(|form| form.class == *class), "{class:?}");
        }
        for pipe in Pipe::ALL {
            assert!(forms().any(|form| form.pipe == pipe), "{pipe:?}");
        }
    }

    /// What follows from the name and the operands of a row about its class, for the whole table.
    #[test]
    fn classes_agree_with_names_and_operands() {
        for form in forms() {
            let row = format!("{} {}: {:?} on {:?}", form.name, form.operands, form.class, form.pipe);
            let has = |word: &str| form.name.split(['.', '|', ' ', '?', ':']).any(|own| own == word);
            let (_, signature) = form.instances(1).remove(0);
            let addresses =
                signature.operands.iter().filter(|operand| matches!(operand, Operand::Address(_))).count();
            assert!(addresses == 0 || form.operations == 0, "{row}");
            let is_on_lanes = matches!(
                form.pipe,
                Pipe::Alu | Pipe::Fma | Pipe::Fp16 | Pipe::Fp64 | Pipe::Xu | Pipe::Cbu | Pipe::Adu
            );
            assert!(addresses == 0 || !is_on_lanes, "{row}");
            let is_wide = has("f64") && form.operations > 0 && !has("f32") && !has("approx");
            let is_bitwise = form.class == Class::FloatCompare || form.class == Class::Conversion;
            assert!(!is_wide || is_bitwise || has("selp") || form.pipe == Pipe::Fp64, "{row}");
            let fuses = ["fma", "mad", "madc", "mad24"].into_iter().any(has);
            assert!(!fuses || form.operations == 2, "{row}");
        }
    }
}
