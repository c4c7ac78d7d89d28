//! The types of a kernel's parameters.

/// A type that a kernel's parameter may have: scalars, and pointers to global memory by reference.
#[diagnostic::on_unimplemented(
    message = "a kernel cannot take a `{Self}`",
    label = "not a type of a kernel's parameters",
    note = "device parameters are `&Global<T>` and `&mut Global<T>` (global memory), `&TensorMap`, scalars such as `u32`, `f32` and \
            `bool`, arrays of them, and structs with `#[derive(KernelParameter)]`",
    note = "what is known when the kernel is built goes in the struct that the kernel is a method of"
)]
pub trait KernelParameter {
    /// What the host passes.
    type Host;
    /// What the body works with; for a reference, what it refers to.
    type Value;
    /// Declares the parameter.
    fn declare(name: &str) -> Self::Value;
}
