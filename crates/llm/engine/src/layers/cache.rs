//! What layers keep between steps.

use warpwright::runtime::Buffer;

/// What a layer keeps between steps.
pub(crate) enum Cache<T> {
    KeyValues(KeyValues<T>),
    States(DeltaStates<T>),
}

/// The pools of keys and values of a layer.
pub(crate) struct KeyValues<T> {
    pub(crate) keys: Buffer<T>,
    pub(crate) values: Buffer<T>,
}

/// The states of all slots.
pub(crate) struct DeltaStates<T> {
    /// (slots, conv - 1, channels).
    pub(crate) conv: Buffer<T>,
    /// (slots, value heads, key_dim, value_dim) of the states' type, in words of 32 bits.
    pub(crate) rule: Buffer<f32>,
}
