//! The operations: tensors become the buffers and shapes of the kernel library.

pub(crate) mod attention;
pub(crate) mod gemm;
pub(crate) mod rows;

/// Evaluates an expression with `$T` as the element type of a tensor that is a float of 16 or 32 bits.
macro_rules! with_float {
    ($given:expr, $T:ident => $body:expr) => {
        match $given.element()? {
            $crate::tensor::ElementType::F32 => {
                type $T = f32;
                $body
            }
            $crate::tensor::ElementType::Bf16 => {
                type $T = warpwright::prelude::bf16;
                $body
            }
            $crate::tensor::ElementType::F16 => {
                type $T = warpwright::prelude::f16;
                $body
            }
            _ => Err($given.not_among("float32, bfloat16 or float16")),
        }
    };
}

pub(crate) use with_float;
