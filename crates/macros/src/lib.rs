//! The attributes of the kernel language: `#[kernel]`, `#[device]`, `#[derive(DeviceValue)]` and
//! `#[derive(KernelParameter)]`.
//!
//! They rewrite the syntax that Rust does not let a library overload; `docs/language.md` gives the
//! rules, and `warpwright_lang::staging` is what the rewritten code calls.

mod assignment;
mod block;
mod branch;
mod derive;
mod expression;
mod function;
mod instruction;
mod invocation;
mod jump;
mod manifest;
mod operator;
mod parameter;
mod pattern;
mod repetition;
mod runtime;
mod scope;
mod selection;
mod sources;
mod survey;
#[cfg(test)]
mod tests;
mod unparsed;

use proc_macro::TokenStream;

/// Makes a method (or function) a kernel: calling it stages the body and returns a
/// `Result<Kernel<Args>, StagingErrors>`.
///
/// The method's `self` is the build-time configuration. The other parameters are the kernel
/// arguments: scalars, which the body sees as device values, `&Global<T>`, which it may read, and
/// `&mut Global<T>`, which it may write.
#[proc_macro_attribute]
pub fn kernel(arguments: TokenStream, item: TokenStream) -> TokenStream {
    function::kernel(arguments.into(), item.into()).into()
}

/// Lets a function (or every method of an `impl` block) use Rust's control flow, comparison and
/// assignment on device values.
///
/// Functions that only call and compute need no attribute.
#[proc_macro_attribute]
pub fn device(arguments: TokenStream, item: TokenStream) -> TokenStream {
    function::device(arguments.into(), item.into()).into()
}

/// Makes a struct of device values a device value itself: variables of its type can be assigned
/// under a device-time condition and carried by a device-time loop. Fields that are not device
/// values belong to build time.
#[proc_macro_derive(DeviceValue)]
pub fn derive_device_value(item: TokenStream) -> TokenStream {
    derive::device_value(item.into()).into()
}

/// Makes a struct a type that a kernel takes by value: a launch passes a tuple of what its fields
/// take, in order. The fields are device values (`Reg<u32>`, `[Reg<f32>; 4]`), tensor maps, and
/// structs like it; each becomes a parameter of the PTX.
///
/// ```ignore
/// #[derive(Clone, Copy, DeviceValue, KernelParameter)]
/// struct Problem { m: Reg<u32>, n: Reg<u32>, scale: Reg<f32> }
///
/// #[kernel]
/// fn run(problem: Problem, output: &mut Global<f32>) { .. } // launched with ((m, n, scale), &mut output)
/// ```
#[proc_macro_derive(KernelParameter)]
pub fn derive_kernel_parameter(item: TokenStream) -> TokenStream {
    derive::kernel_parameter(item.into()).into()
}

/// Records one PTX instruction as it is written, for instructions without a function in the
/// language.
///
/// `{name}` stands for an operand: `name = value` (a device value, or a build-time one where PTX
/// takes a literal) or `name = out Reg<T>`, a fresh register. The macro's value is the output, or a
/// tuple of the outputs in order. `@{p}` before the opcode is a guard; `[{a} + 4]`, `{{a}, {b}}`,
/// `{p}|{q}` and `!{p}` are written as in PTX.
///
/// ```ignore
/// let majority = ptx!("lop3.b32 {d}, {a}, {b}, {c}, 0xe8;", d = out Reg<u32>, a = x, b = y, c = z);
/// ```
#[proc_macro]
pub fn ptx(input: TokenStream) -> TokenStream {
    instruction::expand(input.into()).into()
}

/// The path of the crate's `src/lib.rs` as the compiler names it, and the files below `src`, each with its
/// text: `warpwright_lang::Sources::new` takes them. The macro stands in `src/lib.rs`.
#[proc_macro]
pub fn sources(input: TokenStream) -> TokenStream {
    syn::parse::<syn::parse::Nothing>(input)
        .and_then(|_| sources::list())
        .unwrap_or_else(|error| error.to_compile_error())
        .into()
}
