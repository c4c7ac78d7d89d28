//! Tensor memory: the accumulators of fifth-generation tensor cores (PTX ISA, "Tensor Memory").
//!
//! A CTA has 128 rows by 512 columns of 32-bit cells. (The PTX ISA calls the rows lanes; here lanes
//! are threads.) An address has the row in bits 16 and up, and the column below. Columns are
//! allocated and freed while the kernel runs.
//!
//! | file | contents |
//! |---|---|
//! | [`columns`] | allocation of columns |
//! | [`shape`] | the mapping of registers and lanes to cells |
//! | [`moves`] | loads and stores |
//! | [`shift`] | shifts of rows |
//! | [`copy`] | copies from shared memory |
//! | [`multiply`] | MMAs, by one CTA or a pair |
//! | [`cells`] | the cells themselves |
//! | [`pair`] | the CTAs that take part in what one of them issues |
//! | [`perform`] | copies and multiplies as they happen |
//! | [`queue`] | what was issued and has not happened |
//! | [`pipeline`] | issued work that has not executed, and its completion |

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
pub(crate) mod shift;

pub(crate) use cells::{Area, ROWS_OF_WARP, TensorMemory};
pub(crate) use pair::{partner, ranks};
