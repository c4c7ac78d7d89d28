//! Warp-wide matrix instructions, as functions on register columns.
//!
//! A *register column* is one register of all 32 lanes of a warp: `[u32; 32]` (`[u64; 32]` for
//! f64), indexed by lane. An operand of a matrix instruction is a slice of register columns, in the
//! order of the PTX text. The mapping of lanes and registers to elements is data: a
//! [`fragment::Fragment`] maps (lane, element of the lane) to (row, column). An instruction gathers
//! its operands into dense [`tile::Tile`]s, multiplies those, and scatters the result. The most
//! frequent MMAs have implementations of their own ([`half_multiply`], [`float_multiply`],
//! [`warpgroup`]).
//!
//! | file | contents |
//! |---|---|
//! | [`element`] | the values of matrix elements |
//! | [`fragment`] | fragment layouts of `mma` |
//! | [`warp_matrix`] | fragment layouts of `wmma` |
//! | [`sparse`] | which elements of a sparse A are stored |
//! | [`tile`] | dense matrices |
//! | [`accumulate`] | accumulation in tensor cores: order, alignment, rounding |
//! | [`multiply`] | `mma` and `wmma` |
//! | [`half_multiply`] | m16n8k8 and m16n8k16 of f16 and bf16 into f32, fast |
//! | [`float_multiply`] | m16n8 of 16-bit floats and tf32, with the hardware's rounding |
//! | [`aligned_sum`] | accumulation in tensor cores, for whole blocks in the host's vectors |
//! | [`descriptor`] | the addresses of a `wgmma` matrix in shared memory |
//! | [`warpgroup_operands`] | A and B of `wgmma`, from shared memory or registers |
//! | [`warpgroup`] | `wgmma` |
//! | `tensor_memory_multiply` | `tcgen05.mma` |
//! | `block_scaled` | `tcgen05.mma` with scales |

pub mod accumulate;
pub mod aligned_sum;
pub(crate) mod block_scaled;
pub(crate) mod column_mask;
pub mod descriptor;
pub mod element;
pub mod float_multiply;
pub mod fragment;
pub mod half_multiply;
pub mod multiply;
pub mod sparse;
pub(crate) mod tensor_memory_multiply;
pub mod tile;
pub mod warp_matrix;
pub mod warpgroup;
pub mod warpgroup_operands;

pub use warpwright_events::LANES;

/// One 32-bit register of all lanes.
pub type Column = [u32; LANES];

/// Rows of D, columns of D, and the depth that is summed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Shape {
    /// Rows of A and D.
    pub m: usize,
    /// Columns of B and D.
    pub n: usize,
    /// Columns of A and rows of B.
    pub k: usize,
}

impl Shape {
    /// `m` by `n` by `k`.
    pub const fn new(m: usize, n: usize, k: usize) -> Shape {
        Shape { m, n, k }
    }

    /// Reads `m16n8k16`. No MMA has an extent beyond 1024.
    ///
    /// ```
    /// use warpwright_emulator::tensor::Shape;
    /// assert_eq!(Shape::from_word("m16n8k16"), Some(Shape::new(16, 8, 16)));
    /// assert_eq!(Shape::from_word("x4"), None);
    /// ```
    pub fn from_word(word: &str) -> Option<Shape> {
        let (m, rest) = word.strip_prefix('m')?.split_once('n')?;
        let (n, k) = rest.split_once('k')?;
        let extent = |text: &str| text.parse().ok().filter(|&extent| extent <= 1024);
        Some(Shape { m: extent(m)?, n: extent(n)?, k: extent(k)? })
    }

    /// Multiply-adds of the whole product.
    pub const fn multiply_adds(self) -> usize {
        self.m * self.n * self.k
    }
}

impl From<Shape> for warpwright_arch::mma::Shape {
    fn from(Shape { m, n, k }: Shape) -> Self {
        Self { m: m as u32, n: n as u32, k: k as u32 }
    }
}

/// The order of a matrix in memory, or of an operand in the instruction's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Order {
    /// `.row`: a row's elements are neighbors.
    Row,
    /// `.col`: a column's elements are neighbors.
    Column,
}
