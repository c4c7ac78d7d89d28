//! Tensor maps as kernels take them.

use crate::arguments::{Argument, AsArgument};

/// A tensor map: how a tensor lies in global memory and which box of it a copy moves, encoded for the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(C, align(64))]
pub struct TensorMap([u8; 128]);

impl TensorMap {
    /// The map that `bytes` encode.
    pub fn from_bytes(bytes: [u8; 128]) -> Self {
        Self(bytes)
    }

    /// The encoded bytes.
    pub fn as_bytes(&self) -> &[u8; 128] {
        &self.0
    }
}

impl AsArgument for TensorMap {
    fn as_argument(&self) -> Argument {
        Argument::bytes(self.0)
    }
}

impl AsArgument for &TensorMap {
    fn as_argument(&self) -> Argument {
        (*self).as_argument()
    }
}
