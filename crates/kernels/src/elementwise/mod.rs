//! Elementwise kernels at the speed of memory: copy, map, zip.
//!
//! The reference is `to[i] = f(a[i], b[i], ..)`. The speed depends on the bytes per instruction and
//! the bytes in flight. A CTA has a tile of neighboring elements and processes it in steps; in a
//! step each thread moves one vector, and neighboring threads move neighboring vectors:
//!
//! ```text
//! tile of a CTA     | step 0                          | step 1                          | ..
//! thread            | t0 t0 t0 t0 | t1 t1 t1 t1 | ..  | t0 t0 t0 t0 | t1 t1 t1 t1 | ..  |
//!                     one vector: 8 to 128 bits         all loads come before the first store
//! ```

mod kernels;
mod operations;

pub use kernels::{Copy, Map, Walk, Zip};
pub use operations::grid;
