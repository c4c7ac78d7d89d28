//! What a call refuses, with its message.

use warpwright::prelude::{bf16, f16};
use warpwright_dlpack::Argument::{Float, Integer, None as Absent, Tensor as Given};
use warpwright_dlpack::{Argument, Tensor};

use crate::operations::call;

#[track_caller]
fn refuses(name: &str, arguments: &[Argument<'_>], message: &str) {
    let error = call(name, arguments).expect_err("it is refused");
    assert_eq!(error.to_string(), message);
}

#[test]
fn arguments_of_another_number_or_kind() {
    let x = vec![0f32; 8];
    let x = Tensor::of_host(&x, &[2, 4]);
    refuses("softmax", &[Given(&x)], "softmax: it has 1 arguments, and takes 2: x, y");
    refuses("softmax", &[Given(&x), Absent], "softmax: y is missing; pass a tensor");
    refuses("softmax", &[Integer(1), Given(&x)], "softmax: x is missing; pass a tensor");
    let numbers = [Integer(1), Integer(0)];
    let arguments = [&[Given(&x), Given(&x), Given(&x)][..], &numbers].concat();
    refuses("rms_norm", &arguments, "rms_norm: epsilon takes a number");
}

#[test]
fn tensors_that_do_not_fit() {
    let (x, y, integers) = (vec![0f32; 24], vec![0f32; 24], vec![0u32; 24]);
    let (shape, other, columns) = ([3, 8], [8, 3], [24]);
    let [x_tensor, y_tensor] = [&x, &y].map(|tensor| Tensor::of_host(tensor, &shape));
    let refused = |y: &Tensor, message| refuses("softmax", &[Given(&x_tensor), Given(y)], message);
    refused(&Tensor::of_host(&y, &other), "softmax: y has the shape [8, 3]; pass [3, 8]");
    refused(
        &Tensor::of_host(&integers, &shape),
        "softmax: y has elements of uint32; pass float32, bfloat16 or float16",
    );
    refused(
        &y_tensor.strided(&[1, 3]),
        "softmax: y has the strides [1, 3] for the shape [3, 8]; pass a contiguous tensor",
    );
    refused(&x_tensor, "softmax: y shares memory with x; pass a tensor of its own");
    let arguments = [Given(&x_tensor), Given(&y_tensor), Given(&y_tensor)];
    refuses(
        "cross_entropy",
        &arguments,
        "cross_entropy: loss shares memory with target; pass a tensor of its own",
    );
    let rows = Tensor::of_host(&y, &columns);
    let weight = [Given(&x_tensor), Given(&rows), Given(&y_tensor), Float(0.0), Integer(0)];
    refuses("rms_norm", &weight, "rms_norm: y shares memory with weight; pass a tensor of its own");
}

#[test]
fn an_address_that_is_not_aligned() {
    let (x, mut y) = (vec![0f32; 12], vec![0f32; 8]);
    let shape = [2, 4];
    let x = Tensor::of_host(&x[1..9], &shape);
    let error = call("softmax", &[Given(&x), Given(&Tensor::of_host_mut(&mut y, &shape))]);
    let message = error.expect_err("it is refused").to_string();
    let expected = format!(
        "softmax: x begins at the address {:#x}; pass a tensor that begins at a multiple of 16 bytes",
        x.address()
    );
    assert_eq!(message, expected);
}

#[test]
fn products_that_do_not_exist() {
    let (a, b, half) = (vec![bf16::ZERO; 32], vec![bf16::ZERO; 32], vec![f16::ZERO; 32]);
    let mut c = vec![0f32; 16];
    let (shape, wide, c_shape) = ([4, 8], [8, 4], [4, 4]);
    let c = Tensor::of_host_mut(&mut c, &c_shape);
    let a = Tensor::of_host(&a, &shape);
    let refused = |b: &Tensor, activation, message| {
        let tensors = [Given(&a), Given(b), Absent, Given(&c)];
        refuses("gemm", &[&tensors[..], &[Float(1.0), Float(0.0), Integer(activation)]].concat(), message);
    };
    refused(&Tensor::of_host(&b, &shape), 0, "gemm: b has 4 rows, and a has 8 columns; pass as many");
    refused(&Tensor::of_host(&b, &wide), 4, "gemm: activation is 4; it goes from 0 to 3");
    refused(
        &Tensor::of_host(&half, &wide),
        0,
        "gemm: b has elements of float16, and a of bfloat16; pass two of float16, two of bfloat16, or two 8-bit floats",
    );
    refused(&Tensor::of_host(&b[..26], &[26]).strided(&[1]), 0, "gemm: b has 1 axes; pass a tensor with 2");
    let gaps = Tensor::of_host(&b, &wide).strided(&[5, 1]);
    refused(
        &gaps,
        0,
        "gemm: b has the strides [5, 1] for the shape [8, 4]; pass contiguous matrices, or their transposes",
    );
}

#[test]
fn layers_that_do_not_fit() {
    let (x, weight) = (vec![bf16::ZERO; 48], vec![bf16::ZERO; 32]);
    let mut y = vec![0f32; 24];
    let (x_shape, shape, wide, y_shape) = ([2, 3, 8], [4, 8], [8, 4], [6, 4]);
    let [x, y] = [Tensor::of_host(&x, &x_shape), Tensor::of_host_mut(&mut y, &y_shape)];
    let refused = |weight: &Tensor, message| {
        refuses("linear", &[Given(&x), Given(weight), Absent, Given(&y), Integer(0)], message);
    };
    refused(
        &Tensor::of_host(&weight, &wide),
        "linear: weight has rows of 4 elements, and x of 8; pass as many",
    );
    refused(&Tensor::of_host(&weight, &shape), "linear: y has the shape [6, 4]; pass [2, 3, 4]");
}

#[test]
fn attention_of_windows_and_types() {
    let (q, mut o) = (vec![bf16::ZERO; 128], vec![bf16::ZERO; 128]);
    let f32s = vec![0f32; 128];
    let shape = [1, 2, 1, 64];
    let o = Tensor::of_host_mut(&mut o, &shape);
    let refused = |q: &Tensor, left, message| {
        let tensors = [Given(q), Given(q), Given(q), Given(&o), Absent, Absent, Absent];
        let numbers = [Float(0.0), Float(0.0), Integer(left), Integer(0)];
        refuses("attention", &[&tensors[..], &numbers].concat(), message);
    };
    let q = Tensor::of_host(&q, &shape);
    refused(&q, -2, "attention: window_left is -2; pass a number of keys, or -1 for no bound");
    refused(
        &Tensor::of_host(&f32s, &shape),
        0,
        "attention: q has elements of float32; pass bfloat16 or float16",
    );
}
