//! The state that the checkers keep of memory, warps and barriers.

pub(crate) mod agents;
pub(crate) mod barrier;
pub(crate) mod bypass;
pub(crate) mod clock;
pub(crate) mod footprint;
pub(crate) mod knowledge;
pub(crate) mod locations;
pub(crate) mod mark;
pub(crate) mod mbarrier;
pub(crate) mod memory;
pub(crate) mod registers;
pub(crate) mod shadow;
pub(crate) mod tensor_memory;
pub(crate) mod undefined;
pub(crate) mod undefined_local;
pub(crate) mod undefined_matrix;
pub(crate) mod undefined_shared;
pub(crate) mod unwritten;
pub(crate) mod warp;
pub(crate) mod work;
