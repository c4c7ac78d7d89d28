//! The types of a kernel's parameters.

use std::panic;

use warpwright_ir::{self as ir, Operand, Parameter, ParameterType};

use crate::element::{Element, Kind};
use crate::recorder::{self, Recorder};
use crate::value::Reg;

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

/// Declares a scalar.
#[track_caller]
pub(crate) fn declare_scalar<T: Element>(name: &str) -> Reg<T> {
    let location = ir::Location::from(panic::Location::caller());
    recorder::with(|recorder| {
        let ty = ParameterType::Scalar { name: T::NAME, bytes: T::BYTES };
        recorder.kernel().parameters.push(Parameter { name: name.to_owned(), ty });
        load_parameter(recorder, name, 0, location)
    })
}

/// A field of a struct by value.
#[diagnostic::do_not_recommend]
impl<T: Element> KernelParameter for Reg<T> {
    type Host = T;
    type Value = Self;

    #[track_caller]
    fn declare(name: &str) -> Self {
        declare_scalar(name)
    }
}

/// A field of a struct by value.
#[diagnostic::do_not_recommend]
impl<T: Element, const N: usize> KernelParameter for [Reg<T>; N] {
    type Host = [T; N];
    type Value = Self;

    #[track_caller]
    fn declare(name: &str) -> Self {
        <[T; N]>::declare(name)
    }
}

/// An array by value: its elements one after another, as in C.
#[diagnostic::do_not_recommend]
impl<T: Element, const N: usize> KernelParameter for [T; N] {
    type Host = [T; N];
    type Value = [Reg<T>; N];

    #[track_caller]
    fn declare(name: &str) -> [Reg<T>; N] {
        let location = ir::Location::from(panic::Location::caller());
        recorder::with(|recorder| {
            let size = N as u32 * T::BYTES;
            if size == 0 {
                recorder.error(location, "a kernel cannot take an array without elements");
            }
            let ty = ParameterType::Bytes { size, align: T::BYTES };
            recorder.kernel().parameters.push(Parameter { name: name.to_owned(), ty });
            std::array::from_fn(|index| {
                load_parameter(recorder, name, index as i64 * i64::from(T::BYTES), location)
            })
        })
    }
}

/// Loads the element `offset` bytes into the parameter `name`.
fn load_parameter<T: Element>(
    recorder: &mut Recorder,
    name: &str,
    offset: i64,
    location: ir::Location,
) -> Reg<T> {
    let address =
        Operand::Address { base: Box::new(Operand::Symbol(name.to_owned())), offset, rest: Vec::new() };
    let predicate = T::CLASS == ir::RegisterClass::Predicate;
    let class = if predicate { ir::RegisterClass::B16 } else { T::CLASS };
    let register = recorder.fresh(class);
    let word = if predicate { "u8" } else { load_word::<T>() };
    recorder.emit(format!("ld.param.{word}"), 1, vec![Operand::Register(register), address], location);
    if !predicate {
        return Reg::from_register(register);
    }
    let truth = recorder.fresh(ir::RegisterClass::Predicate);
    let operands = vec![Operand::Register(truth), Operand::Register(register), Operand::Integer(0)];
    recorder.emit("setp.ne.u16", 1, operands, location);
    Reg::from_register(truth)
}

fn load_word<T: Element>() -> &'static str {
    match T::BYTES {
        1 if T::KIND == Kind::Signed => "s8",
        1 => "u8",
        2 => "b16",
        4 => "b32",
        _ => "b64",
    }
}
