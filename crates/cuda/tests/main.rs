//! Programs in C, compiled with our own declarations, run over the library.

mod calls;
mod images;
mod programs;
