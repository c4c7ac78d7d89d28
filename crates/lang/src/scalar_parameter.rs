//! Parameters by value: scalars, and arrays of them.

use std::panic;

use half::{bf16, f16};
use warpwright_ir::{self as ir, Operand, Parameter, ParameterType};

use crate::element::{
    Element, Kind, b1x32, bf16x2, e4m3, e4m3x2, e4m3x4, e5m2, e5m2x2, e5m2x4, f16x2, s4x8, s8x4, s16x2, tf32,
    u4x8, u8x4, u16x2,
};
use crate::parameter::KernelParameter;
use crate::recorder::{self, Recorder};
use crate::reg::Reg;

/// Declares a scalar.
#[track_caller]
fn declare_scalar<T: Element>(name: &str) -> Reg<T> {
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

/// A kernel takes each element by value.
macro_rules! parameters {
    ($($ty:ty),*) => {
        $(
            #[diagnostic::do_not_recommend]
            impl KernelParameter for $ty {
                type Host = Self;
                type Value = Reg<Self>;

                #[track_caller]
                fn declare(name: &str) -> Reg<Self> {
                    declare_scalar(name)
                }
            }
        )*
    };
}

parameters!(bool, u8, u16, u32, u64, i8, i16, i32, i64, f16, bf16, f32, f64, tf32, e4m3, e5m2);
parameters!(f16x2, bf16x2, e4m3x2, e5m2x2, e4m3x4, e5m2x4, u8x4, s8x4, u16x2, s16x2, u4x8, s4x8, b1x32);
