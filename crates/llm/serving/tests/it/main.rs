//! The tests of the serving half.

mod scheduler;
