//! How many problems one launch computes, and the addresses of their matrices.
//!
//! ```text
//! single               C = A·B
//! batched              one shape, matrices at strides             A0 A1 A2  x  B0 B1 B2
//! grouped along m      rows of one A and C, a B for each group    A rows 0..5, 5..5, 5..12  x  B0 B1 B2
//! grouped, unlike      every problem has its own extents          A0 x B0,  A1 x B1,  ..
//! ```

use super::epilogue::{Activation, GATED_COLUMNS};
use super::error::GemmError;
use super::types::{GemmTypes, MatrixLayout};
use crate::operations::{self, expect_length};

/// One problem: C (m, n) = A (m, k) · B (k, n), each without gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Problem {
    /// Rows of A and C.
    pub m: u32,
    /// Columns of B and C.
    pub n: u32,
    /// Columns of A, rows of B.
    pub k: u32,
    /// The layout of A.
    pub a: MatrixLayout,
    /// The layout of B.
    pub b: MatrixLayout,
}

impl Problem {
    /// Row-major A (m, k) and column-major B (k, n): k is contiguous in both, as the tensor cores
    /// read it fastest.
    pub fn new(m: u32, n: u32, k: u32) -> Self {
        Self { m, n, k, a: MatrixLayout::RowMajor, b: MatrixLayout::ColumnMajor }
    }

    /// The problem whose C is the transpose of this one's: Bᵀ·Aᵀ.
    pub(crate) fn transposed(self) -> Self {
        Self { m: self.n, n: self.m, k: self.k, a: self.b.transposed(), b: self.a.transposed() }
    }

    /// Whether there is anything to multiply.
    pub(crate) fn has_work(self) -> bool {
        ![self.m, self.n, self.k].contains(&0)
    }

    /// Whether TMA can store C: its rows are multiples of 16 bytes.
    pub(crate) fn tma_stores(self, output_bytes: u32) -> bool {
        (u64::from(self.n) * u64::from(output_bytes)).is_multiple_of(16)
    }
}

/// Problems of one shape, whose matrices are at constant strides.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Batch {
    /// The shape; a matrix has no gaps in itself.
    pub problem: Problem,
    /// Problems.
    pub count: u32,
    /// Elements from one A to the next; 0 if all share one.
    pub a_stride: u64,
    /// Elements from one B to the next; 0 if all share one.
    pub b_stride: u64,
    /// Elements from one C to the next.
    pub c_stride: u64,
}

impl From<Problem> for Batch {
    fn from(problem: Problem) -> Self {
        Self::new(problem, 1)
    }
}

impl Batch {
    /// `count` problems without gaps between the matrices.
    pub fn new(problem: Problem, count: u32) -> Self {
        let [m, n, k] = [problem.m, problem.n, problem.k].map(u64::from);
        Self { problem, count, a_stride: m * k, b_stride: k * n, c_stride: m * n }
    }

    /// Groups along m: `problem.m` rows of one A, and `count` different B.
    pub fn along_m(problem: Problem, count: u32) -> Self {
        Self { a_stride: 0, ..Self::new(problem, count) }
    }

    /// The same batch with one A.
    #[must_use]
    pub fn sharing_a(self) -> Self {
        Self { a_stride: 0, ..self }
    }

    /// The same batch with one B, such as the weights of a layer.
    #[must_use]
    pub fn sharing_b(self) -> Self {
        Self { b_stride: 0, ..self }
    }

    /// Elements of all A, B and C, gaps included.
    pub fn lengths(self) -> [usize; 3] {
        let [m, n, k] = [self.problem.m, self.problem.n, self.problem.k].map(u64::from);
        let length = |stride: u64, matrix: u64| match self.count {
            0 => 0,
            count => (u64::from(count - 1) * stride + matrix) as usize,
        };
        [length(self.a_stride, m * k), length(self.b_stride, k * n), length(self.c_stride, m * n)]
    }

    /// The batch whose Cs are the transposes of this one's.
    pub(crate) fn transposed(self) -> Self {
        let Self { problem, a_stride, b_stride, .. } = self;
        Self { problem: problem.transposed(), a_stride: b_stride, b_stride: a_stride, ..self }
    }

    /// The number of different A, and B, and the elements from one to the next.
    pub fn matrices(self) -> [(u32, u64); 2] {
        [self.a_stride, self.b_stride].map(|stride| (if stride == 0 { 1 } else { self.count }, stride))
    }

    /// Whether each problem has an A, and a B, of its own.
    pub(crate) fn own(self) -> (bool, bool) {
        let [a, b] = self.matrices().map(|(count, _)| count > 1);
        (a, b)
    }

    /// Whether there is nothing to multiply.
    pub(crate) fn is_empty(self) -> bool {
        self.count == 0 || !self.problem.has_work()
    }

    /// Whether TMA can store every C.
    pub(crate) fn tma_stores(self, output_bytes: u32) -> bool {
        let steps = (self.c_stride * u64::from(output_bytes)).is_multiple_of(16);
        self.problem.tma_stores(output_bytes) && (steps || self.count == 1)
    }

    /// Refuses matrices A, B and C of those lengths: shorter than needed, longer if there are no
    /// gaps; and Cs that overlap.
    pub(crate) fn expect_lengths(self, [a, b, c]: [usize; 3]) -> operations::Result<()> {
        let packed = Self::new(self.problem, self.count);
        if self.c_stride < packed.c_stride && self.count > 1 {
            return Err(GemmError::OverlappingC { elements: packed.c_stride, stride: self.c_stride }.into());
        }
        let [a_needed, b_needed, c_needed] = self.lengths();
        for (what, needed, has_gaps, length) in [
            ("A", a_needed, self.a_stride != packed.a_stride, a),
            ("B", b_needed, self.b_stride != packed.b_stride, b),
            ("C", c_needed, self.c_stride != packed.c_stride, c),
        ] {
            // There may be a gap after the last matrix, too.
            if !has_gaps || length < needed {
                expect_length(what, needed, length)?;
            }
        }
        Ok(())
    }
}

/// All problems of a launch: what a kernel is chosen for, apart from the epilogue.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GemmProblem {
    /// The problems; of groups along m, all rows and the different B.
    pub batch: Batch,
    /// Whether they are groups along m.
    pub along_m: bool,
    /// The types of the matrices, and the scales of A and B.
    pub types: GemmTypes,
    /// Whether no launch that may still run writes B.
    pub preloads_b: bool,
    /// The function of the gates, if the columns of A·B are gates and values: C has half of them.
    pub gate: Option<Activation>,
}

impl GemmProblem {
    /// A batch.
    pub fn new(batch: impl Into<Batch>, types: GemmTypes) -> Self {
        Self { batch: batch.into(), along_m: false, types, preloads_b: false, gate: None }
    }

    /// Refuses gates that no kernel has; `adds` if the epilogue adds a matrix with C's layout.
    pub fn expect_gate(&self, adds: bool) -> Result<(), GemmError> {
        let Problem { n, .. } = self.batch.problem;
        let is_single = self.batch.count == 1 && !self.along_m && self.types.scaling.factors().is_none();
        match self.gate {
            Some(_) if !is_single => Err(GemmError::GatedBatch),
            Some(_) if !n.is_multiple_of(GATED_COLUMNS) => {
                Err(GemmError::GatedColumns { n, of: GATED_COLUMNS })
            }
            Some(_) if adds => Err(GemmError::GatedSum),
            _ => Ok(()),
        }
    }
}

/// The most groups along m of one launch, and the most problems of one grouped launch: more are
/// several launches.
pub(crate) const MAX_GROUPS: usize = 512;

/// Refuses offsets that are no groups.
pub(crate) fn check_offsets(offsets: usize) -> Result<(), GemmError> {
    if offsets == 0 || offsets > MAX_GROUPS + 1 {
        return Err(GemmError::Offsets { offsets, max_groups: MAX_GROUPS });
    }
    Ok(())
}
