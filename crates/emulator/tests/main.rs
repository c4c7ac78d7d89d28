//! The tests of the crate, in one program.

mod aliasing;
mod asynchronous;
mod blackwell_copies;
mod bulk;
mod cluster;
mod cluster_launch;
mod common;
mod compiled;
mod deadlock;
mod golden;
mod hostile;
mod machine;
mod mbarrier;
mod measured;
mod narrow;
mod operand_forms;
mod registers;
mod rounding;
mod small_matrix;
mod special_values;
mod table;
mod tensor_copies;
mod tensor_memory;
mod tensor_multiply;
mod unsupported;
mod warpgroup;
