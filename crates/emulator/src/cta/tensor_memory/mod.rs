//! Tensor memory: what the fifth generation of tensor cores computes in (PTX ISA, "Tensor Memory").
//!
//! A CTA's is 128 rows by 512 columns of 32-bit cells. (The PTX ISA calls the rows lanes; here lanes are threads.) An address is
//! the row in bits 16 and up, and the column below. Columns are asked for and given back while the kernel runs.
//!
//! | file | what it holds |
//! |---|---|
//! | [`columns`] | who has which columns |
//! | [`shape`] | which register of which lane goes to which cell |
//! | [`moves`] | loads and stores |
//! | [`copy`] | copies from shared memory |
//! | [`multiply`] | multiplies, by one CTA or a pair |
//! | [`cells`] | the cells themselves |
//! | [`pair`] | the CTAs that take part in what one of them issues |
//! | [`perform`] | copies and multiplies as they happen |
//! | [`queue`] | what was issued and has not happened |
//! | [`pipeline`] | what was issued and has not happened, and what its end is told to |

pub(crate) mod cells;
pub(crate) mod columns;
pub(crate) mod copy;
pub(crate) mod moves;
pub(crate) mod multiply;
pub(crate) mod pair;
mod perform;
pub(crate) mod pipeline;
pub(crate) mod queue;
pub(crate) mod shape;

pub(crate) use cells::{Area, ROWS_OF_WARP, TensorMemory};
pub(crate) use pair::{partner, ranks};
