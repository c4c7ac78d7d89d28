//! Literals and loops that name no type or range of the device.
use warpwright_lang::element::{DeviceFloat, DeviceNumber, bf16, f16};
use warpwright_lang::value::constant;
use warpwright_lang::{Reg, device};

#[device]
fn clamped(x: Reg<f16>) -> Reg<f16> {
    if x < f16::ZERO {
        return 0.0;
    }
    x
}

#[device]
fn doubled(x: Reg<bf16>) -> Reg<bf16> {
    x * 2.0
}

#[device]
fn scaled<T: DeviceFloat>(x: Reg<T>) -> Reg<T> {
    x * 2.0
}

#[device]
fn positive<T: DeviceFloat>(x: Reg<T>) -> Reg<T> {
    if x > 0.0 { x } else { 0.0 }
}

#[device]
fn zero<T: DeviceNumber>(x: Reg<T>) -> Reg<T> {
    if x == constant(T::ZERO) {
        return 1.0;
    }
    0
}

#[device]
fn assigned(x: Reg<f16>) -> Reg<f16> {
    let mut y = x;
    y = 1.5;
    y += 1.0;
    y
}

fn main() {}
