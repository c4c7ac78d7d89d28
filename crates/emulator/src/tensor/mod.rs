//! Warp-wide matrix instructions, as functions on register columns.
//!
//! A *register column* is one register of all 32 lanes of a warp: `[u32; 32]`, indexed by lane. An operand of a matrix
//! instruction is a slice of register columns, in the order in which the PTX text lists them. Which lane and register
//! hold which element of a matrix is data: a [`fragment::Fragment`] maps (lane, element of the lane) to (row, column).
