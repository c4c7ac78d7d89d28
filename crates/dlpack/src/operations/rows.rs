//! Operations on rows: the last axis of a tensor.

use warpwright_kernels::columns::MatrixColumns;
use warpwright_kernels::rows::Gain;

use super::with_float;
use crate::call::{Call, Given};
use crate::error::Error;

/// Rows and columns of tensors of one shape.
fn shape_of<const COUNT: usize>(tensors: [Given<'_>; COUNT]) -> Result<(u32, u32), Error> {
    let first = tensors[0];
    for other in &tensors[1..] {
        if other.tensor.extents() != first.tensor.extents() {
            let (given, expected) = (other.tensor.extents(), first.tensor.extents());
            return Err(other.refused(format!("has the shape {given:?}; pass {expected:?}")));
        }
    }
    first.rows_and_columns()
}

pub(crate) fn softmax(call: &Call<'_>) -> Result<(), Error> {
    let [x, y] = ["x", "y"].map(|name| call.tensor(name));
    let shape = shape_of([x, y])?;
    with_float!(x, T => with_float!(y, U => {
        call.operations().softmax(call.stream(), &x.buffer::<T>()?, shape, &mut y.buffer::<U>()?)?;
        Ok(())
    }))
}

pub(crate) fn log_softmax(call: &Call<'_>) -> Result<(), Error> {
    let [x, y] = ["x", "y"].map(|name| call.tensor(name));
    let shape = shape_of([x, y])?;
    with_float!(x, T => with_float!(y, U => {
        call.operations().log_softmax(call.stream(), &x.buffer::<T>()?, shape, &mut y.buffer::<U>()?)?;
        Ok(())
    }))
}

fn gain(call: &Call<'_>) -> Result<Gain, Error> {
    call.one_of("zero_centred", &[Gain::Weight, Gain::ZeroCentred])
}

pub(crate) fn rms_norm(call: &Call<'_>) -> Result<(), Error> {
    let [x, weight, y] = ["x", "weight", "y"].map(|name| call.tensor(name));
    let (shape, gain, epsilon) = (shape_of([x, y])?, gain(call)?, call.float("epsilon"));
    weight.expect_extents([shape.1])?;
    with_float!(x, T => with_float!(y, U => {
        let (x, weight) = (x.buffer::<T>()?, weight.buffer::<T>()?);
        call.operations().rms_norm(call.stream(), (&x, shape), (&weight, gain), epsilon, &mut y.buffer::<U>()?)?;
        Ok(())
    }))
}

pub(crate) fn add_rms_norm(call: &Call<'_>) -> Result<(), Error> {
    let [x, residual, weight, sum, y] = ["x", "residual", "weight", "sum", "y"].map(|name| call.tensor(name));
    let (shape, gain, epsilon) = (shape_of([x, residual, sum, y])?, gain(call)?, call.float("epsilon"));
    weight.expect_extents([shape.1])?;
    with_float!(x, T => {
        let [x, residual, weight] = [x, residual, weight].map(|tensor| tensor.buffer::<T>());
        let (x, residual, weight) = (x?, residual?, weight?);
        let (mut sum, mut y) = (sum.buffer::<T>()?, y.buffer::<T>()?);
        let inputs = (&x, &residual, shape);
        call.operations().add_rms_norm(call.stream(), inputs, (&weight, gain), epsilon, (&mut sum, &mut y))?;
        Ok(())
    })
}

pub(crate) fn layer_norm(call: &Call<'_>) -> Result<(), Error> {
    let [x, weight, bias, y] = ["x", "weight", "bias", "y"].map(|name| call.tensor(name));
    let (shape, epsilon) = (shape_of([x, y])?, call.float("epsilon"));
    weight.expect_extents([shape.1])?;
    bias.expect_extents([shape.1])?;
    with_float!(x, T => with_float!(y, U => {
        let (x, weight, bias) = (x.buffer::<T>()?, weight.buffer::<T>()?, bias.buffer::<T>()?);
        call.operations().layer_norm(call.stream(), (&x, shape), (&weight, &bias), epsilon, &mut y.buffer::<U>()?)?;
        Ok(())
    }))
}

pub(crate) fn cross_entropy(call: &Call<'_>) -> Result<(), Error> {
    let [x, target, loss] = ["x", "target", "loss"].map(|name| call.tensor(name));
    let [rows, columns] = x.extents()?;
    target.expect_extents([rows])?;
    loss.expect_extents([rows])?;
    with_float!(x, T => {
        let (x, target, mut loss) = (x.buffer::<T>()?, target.buffer()?, loss.buffer()?);
        call.operations().cross_entropy(call.stream(), (&x, (rows, columns)), &target, &mut loss)?;
        Ok(())
    })
}

pub(crate) fn swiglu(call: &Call<'_>) -> Result<(), Error> {
    let [gate, value, y] = ["gate", "value", "y"].map(|name| call.tensor(name));
    let shape = shape_of([gate, value, y])?;
    with_float!(gate, T => {
        let (gate, value, mut y) = (gate.buffer::<T>()?, value.buffer::<T>()?, y.buffer::<T>()?);
        let [gate, value] = [&gate, &value].map(|buffer| MatrixColumns::all(buffer, shape.1));
        call.operations().swiglu(call.stream(), shape, gate, value, &mut y)?;
        Ok(())
    })
}
