//! The table of operations.

use std::ffi::{c_int, c_void};

use crate::c::answered;
use crate::call::{Argument, Kind, Operation, Parameter};
use crate::operations::{attention, gemm, rows};
use crate::tensor::Tensor;
use crate::tvm::{self, Any};

/// The type of an argument in C.
macro_rules! c_type {
    (Input) => { *const Tensor };
    (OptionalInput) => { *const Tensor };
    (Output) => { *const Tensor };
    (OptionalOutput) => { *const Tensor };
    (Integer) => { i64 };
    (Float) => { f64 };
}

/// An argument from C.
trait Passed {
    /// # Safety
    /// A pointer is null or points to a tensor that outlives `'c`.
    unsafe fn argument<'c>(self) -> Argument<'c>;
}

impl Passed for *const Tensor {
    unsafe fn argument<'c>(self) -> Argument<'c> {
        // SAFETY: the caller passes null or a tensor.
        unsafe { self.as_ref() }.map_or(Argument::None, Argument::Tensor)
    }
}

impl Passed for i64 {
    unsafe fn argument<'c>(self) -> Argument<'c> {
        Argument::Integer(self)
    }
}

impl Passed for f64 {
    unsafe fn argument<'c>(self) -> Argument<'c> {
        Argument::Float(self)
    }
}

/// Declares each operation three times: as a row, as a function of C, and as a function of tvm-ffi.
macro_rules! operations {
    ($(
        $(#[doc = $doc:literal])*
        $name:ident, $of_c:ident, $of_tvm:ident: $run:path, ($($parameter:ident: $kind:ident),* $(,)?);
    )*) => {
        /// All operations.
        pub static OPERATIONS: &[Operation] = &[$(Operation {
            name: stringify!($name),
            documentation: concat!($($doc, "\n"),*),
            parameters: &[$(Parameter { name: stringify!($parameter), kind: Kind::$kind }),*],
            run: $run,
        }),*];

        /// The index of each row.
        #[allow(non_camel_case_types)]
        enum Row { $($name),* }

        $(
            #[unsafe(no_mangle)]
            unsafe extern "C" fn $of_c($($parameter: c_type!($kind),)* stream: *mut c_void) -> c_int {
                // SAFETY: a caller from C passes null or tensors, which outlive the call.
                let arguments = unsafe { [$($parameter.argument()),*] };
                // SAFETY: the contract of the operation is the header's.
                answered(unsafe { OPERATIONS[Row::$name as usize].call(&arguments, stream) })
            }

            #[unsafe(no_mangle)]
            unsafe extern "C" fn $of_tvm(
                _self: *mut c_void,
                arguments: *const Any,
                count: i32,
                result: *mut Any,
            ) -> c_int {
                // SAFETY: tvm-ffi passes as many arguments, and a place for the result.
                unsafe { tvm::call(&OPERATIONS[Row::$name as usize], arguments, count, result) }
            }
        )*
    };
}

operations! {
    /// C = activation(alpha * A.B + bias) + beta * C, accumulated in float32.
    /// a (m, k) or (batch, m, k), b (k, n) or (batch, k, n): float16, bfloat16, float8_e4m3fn or float8_e5m2, contiguous
    /// or transposed (the strides say which). bias (n), float32. c (m, n) or (batch, m, n): float32, bfloat16 or
    /// float16, contiguous. activation: 0 none, 1 ReLU, 2 GELU (its tanh approximation), 3 SiLU.
    gemm, warpwright_gemm, __tvm_ffi_gemm: gemm::gemm,
        (a: Input, b: Input, bias: OptionalInput, c: Output, alpha: Float, beta: Float, activation: Integer);

    /// y = activation(x.weight^T + bias): a layer of a network. x (.., k) and y (.., n), rows along the last axis, and weight
    /// (n, k) are contiguous; types, bias and activation are gemm's.
    linear, warpwright_linear, __tvm_ffi_linear: gemm::linear,
        (x: Input, weight: Input, bias: OptionalInput, y: Output, activation: Integer);

    /// y = the softmax of each row of x. Rows are the last axis; float32, bfloat16 or float16, contiguous.
    softmax, warpwright_softmax, __tvm_ffi_softmax: rows::softmax, (x: Input, y: Output);

    /// y = the natural logarithm of the softmax of each row of x. As softmax.
    log_softmax, warpwright_log_softmax, __tvm_ffi_log_softmax: rows::log_softmax, (x: Input, y: Output);

    /// y = x / sqrt(mean(x^2) + epsilon) * weight of each row. Rows are the last axis; float32, bfloat16 or float16,
    /// contiguous. weight (columns) has x's type. If zero_centred is 1, the factor is 1 + weight.
    rms_norm, warpwright_rms_norm, __tvm_ffi_rms_norm: rows::rms_norm,
        (x: Input, weight: Input, y: Output, epsilon: Float, zero_centred: Integer);

    /// sum = x + residual, and y = rms_norm of each row of sum. All have one type and shape.
    add_rms_norm, warpwright_add_rms_norm, __tvm_ffi_add_rms_norm: rows::add_rms_norm,
        (x: Input, residual: Input, weight: Input, sum: Output, y: Output, epsilon: Float, zero_centred: Integer);

    /// y = (x - mean) / sqrt(variance + epsilon) * weight + bias of each row. As rms_norm; bias (columns) has x's type.
    layer_norm, warpwright_layer_norm, __tvm_ffi_layer_norm: rows::layer_norm,
        (x: Input, weight: Input, bias: Input, y: Output, epsilon: Float);

    /// loss = -log(softmax(x)[target]) of each row of x (rows, columns): float32, bfloat16 or float16, contiguous.
    /// target (rows), int64; the loss of target -100 is 0. loss (rows), float32.
    cross_entropy, warpwright_dlpackross_entropy, __tvm_ffi_cross_entropy: rows::cross_entropy,
        (x: Input, target: Input, loss: Output);

    /// y = silu(gate) * value, elementwise; float32, bfloat16 or float16, contiguous, of one shape.
    swiglu, warpwright_swiglu, __tvm_ffi_swiglu: rows::swiglu, (gate: Input, value: Input, y: Output);

    /// o = softmax(scale * q.k^T).v of each head. q (batch, queries, heads, d), k (batch, keys, kv_heads, d),
    /// v (batch, keys, kv_heads, value_d), o (batch, queries, heads, value_d): bfloat16 or float16, at any strides with
    /// the last axis contiguous. lse (batch, heads, queries), float32: the logarithm of each query's sum. A query at
    /// position i sees the keys from i - window_left to i + window_right; -1 is no bound, so that (-1, 0) is causal, and
    /// the last query is at the last key. scale 0 is 1 / sqrt(d); softcap 0 is none. slopes (heads) of ALiBi and sinks
    /// (heads): float32.
    attention, warpwright_attention, __tvm_ffi_attention: attention::attention,
        (q: Input, k: Input, v: Input, o: Output, lse: OptionalOutput, slopes: OptionalInput, sinks: OptionalInput,
         scale: Float, softcap: Float, window_left: Integer, window_right: Integer);

    /// The gradients of attention for q, k and v from d_o. A gradient has the shape, the type and the strides of its
    /// tensor; o and lse are attention's. If deterministic is 1, two calls give the same bits.
    attention_gradients, warpwright_attention_gradients, __tvm_ffi_attention_gradients: attention::gradients,
        (q: Input, k: Input, v: Input, o: Input, lse: Input, d_o: Input, d_q: Output, d_k: Output, d_v: Output,
         slopes: OptionalInput, scale: Float, softcap: Float, window_left: Integer, window_right: Integer,
         deterministic: Integer);
}
