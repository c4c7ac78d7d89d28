//! What the checkers conclude from events.

mod mbarrier;
mod misuse;
mod race;
mod registers;
mod synchronisation;
mod tensor_memory;
pub(crate) mod trusting;
