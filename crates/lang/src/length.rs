//! Lengths of arrays.

/// The length of a shared or local array: a `u32` that is known when the kernel is built.
#[diagnostic::on_unimplemented(
    message = "the length of an array is a `u32` that is known when the kernel is built, not a `{Self}`",
    label = "expected a build-time `u32`",
    note = "if the device computes the length, allocate for the largest one: a constant, or a field of the kernel's struct",
    note = "sizes of device code are `u32`: declare the field or variable as `u32`"
)]
pub trait Length {
    /// The number of elements.
    fn elements(self) -> u32;
}

impl Length for u32 {
    fn elements(self) -> u32 {
        self
    }
}
