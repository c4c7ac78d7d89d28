//! Attention: softmax(Q·Kᵀ)·V over sequences of keys.

pub mod decode;
