//! The rules that the checkers apply to events.

mod alignment;
mod array;
mod barrier;
mod context;
mod end;
mod exchange;
pub(crate) mod loads;
mod mbarrier;
mod misuse;
mod operands;
mod race;
mod registers;
mod synchronization;
mod tensor_memory;
mod undefined;
mod unwritten;
mod verdict;
