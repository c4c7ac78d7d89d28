//! The kernels, and the parts they share with the lessons.

pub mod combine;
pub mod copies;
pub mod double_buffered;
pub mod fragments;
pub mod tma;
