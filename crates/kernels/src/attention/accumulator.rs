//! The atoms of attention's products on Hopper, and where a thread's accumulators are.
//!
//! A `wgmma` of 64 rows gives a thread two rows, lane/4 and 8 below of its warp's 16, and of every 8
//! columns the pair at 2*(lane%4). The four lanes of a quad have the other columns. (PTX ISA,
//! "wgmma.mma_async", the fragment of D.)

use warpwright::arch::DataType;
use warpwright::layout::Error;
use warpwright::layout::atom::{MmaAtom, Types};

use crate::gemm::problem::types::Operand;

/// The atom that multiplies 64 rows of A, in shared memory or in registers, by `columns` columns of
/// B.
pub(crate) fn atom<T: Operand>(columns: u32, a_from_shared: bool) -> Result<MmaAtom, Error> {
    let atom = MmaAtom::wgmma(columns, Types::new(T::DATA_TYPE, DataType::F32))?;
    Ok(MmaAtom { a_from_shared, ..atom })
}

/// The row, 0 or 1 of the thread's two, of element `i` of an accumulator.
pub(crate) fn row_of(i: u32) -> usize {
    (i / 2 % 2) as usize
}

/// The column of element `i`, but for the 2*(lane%4) of the thread.
pub(crate) fn column_of(i: u32) -> u32 {
    i / 4 * 8 + i % 2
}
