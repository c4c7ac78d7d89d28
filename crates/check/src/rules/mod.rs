//! The rules that the checkers apply to events.

mod alignment;
mod array;
mod mbarrier;
mod misuse;
mod operands;
mod race;
mod registers;
mod synchronization;
mod tensor_memory;
pub(crate) mod trusting;
mod undefined;
