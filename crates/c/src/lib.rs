//! warpwright's kernel library as a shared library: the functions of `include/warpwright.h`, which
//! [`warpwright_dlpack`] defines.

pub use warpwright_dlpack::c;
