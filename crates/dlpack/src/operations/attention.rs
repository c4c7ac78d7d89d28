//! Attention and its gradients: heads at any strides.

use warpwright::prelude::{bf16, f16};
use warpwright::runtime::{Buffer, Storable};
use warpwright_kernels::attention::{
    Attention, AttentionBuffers, AttentionElement, GradientBuffers, Mask, Shape, Strides,
};

use crate::call::{Call, Given};
use crate::error::Error;
use crate::tensor::{ElementType, HostElement};

/// A bound that no sequence reaches.
const UNBOUNDED: u32 = 1 << 30;

/// Evaluates an expression with `$T` as the element type of q.
macro_rules! with_half {
    ($given:expr, $T:ident => $body:expr) => {
        match $given.element()? {
            ElementType::Bf16 => {
                type $T = bf16;
                $body
            }
            ElementType::F16 => {
                type $T = f16;
                $body
            }
            _ => Err($given.not_among("bfloat16 or float16")),
        }
    };
}

/// The attention that the tensors and numbers of a call describe.
fn described(call: &Call<'_>) -> Result<Attention, Error> {
    let [q, k, v, o] = ["q", "k", "v", "o"].map(|name| call.tensor(name));
    let [batch, queries, heads, head_dim] = q.extents()?;
    let [_, keys, kv_heads, _] = k.extents()?;
    let [.., value_dim] = v.extents::<4>()?;
    k.expect_extents([batch, keys, kv_heads, head_dim])?;
    v.expect_extents([batch, keys, kv_heads, value_dim])?;
    o.expect_extents([batch, queries, heads, value_dim])?;
    let shape = Shape { batch, queries, keys, heads, kv_heads, head_dim, value_dim };
    let mut attention = Attention { shape, ..Attention::new(batch, queries, heads, head_dim) };
    if ![q, k, v, o].iter().all(|given| given.tensor.is_contiguous()) {
        attention = attention.strided([strides(q)?, strides(k)?, strides(v)?, strides(o)?]);
    }
    attention = attention.mask(mask(call)?);
    let (scale, softcap) = (call.float("scale"), call.float("softcap"));
    if scale != 0.0 {
        attention = attention.scale(scale);
    }
    if softcap != 0.0 {
        attention = attention.bounded(softcap);
    }
    Ok(attention)
}

fn strides(given: Given<'_>) -> Result<Strides, Error> {
    let strides = given.tensor.strides();
    let unsigned = |axis: usize| {
        let stride = if given.tensor.extents()[axis] <= 1 { 0 } else { strides[axis] };
        u64::try_from(stride).map_err(|_| given.refused("has a negative stride"))
    };
    let [sequence, row, head] = [unsigned(0)?, unsigned(1)?, unsigned(2)?];
    if strides[3] != 1 && given.tensor.extents()[3] > 1 {
        return Err(given.refused(format!(
            "has a last axis of stride {}; pass heads whose elements are neighbors",
            strides[3]
        )));
    }
    Ok(Strides { first: 0, sequence, row, head })
}

fn mask(call: &Call<'_>) -> Result<Mask, Error> {
    let bound = |name: &str| match call.integer(name) {
        -1 => Ok(None),
        bound => match u32::try_from(bound) {
            Ok(bound) => Ok(Some(bound)),
            Err(_) => {
                Err(call.refused(format!("{name} is {bound}; pass a number of keys, or -1 for no bound")))
            }
        },
    };
    Ok(match (bound("window_left")?, bound("window_right")?) {
        (None, None) => Mask::Full,
        (None, Some(0)) => Mask::Causal,
        (left, right) => Mask::Window { left: left.unwrap_or(UNBOUNDED), right: right.unwrap_or(UNBOUNDED) },
    })
}

/// A number for each head.
fn of_heads(given: Option<Given<'_>>, heads: u32) -> Result<Option<Buffer<f32>>, Error> {
    given
        .map(|given| {
            given.expect_extents([heads])?;
            given.buffer()
        })
        .transpose()
}

pub(crate) fn attention(call: &Call<'_>) -> Result<(), Error> {
    with_half!(call.tensor("q"), T => forward::<T>(call))
}

fn forward<T: AttentionElement + Storable + HostElement>(call: &Call<'_>) -> Result<(), Error> {
    let mut attention = described(call)?;
    let Shape { batch, queries, heads, .. } = attention.shape;
    let [slopes, sinks] = ["slopes", "sinks"].map(|name| of_heads(call.optional(name), heads));
    let (slopes, sinks) = (slopes?, sinks?);
    if slopes.is_some() {
        attention = attention.biased();
    }
    if sinks.is_some() {
        attention = attention.with_sinks();
    }
    let lse = call.optional("lse").map(|lse| {
        lse.expect_extents([batch, heads, queries])?;
        lse.buffer::<f32>()
    });
    let mut lse = lse.transpose()?;
    let [q, k, v, o] = ["q", "k", "v", "o"].map(|name| call.tensor(name).memory::<T>());
    let (q, k, v, mut o) = (q?, k?, v?, o?);
    let buffers = AttentionBuffers {
        lse: lse.as_mut(),
        slopes: slopes.as_ref(),
        sinks: sinks.as_ref(),
        ..AttentionBuffers::new(&q, &k, &v, &mut o)
    };
    call.operations().attention(call.stream(), &attention, buffers)?;
    Ok(())
}

pub(crate) fn gradients(call: &Call<'_>) -> Result<(), Error> {
    with_half!(call.tensor("q"), T => backward::<T>(call))
}

fn backward<T: AttentionElement + Storable + HostElement>(call: &Call<'_>) -> Result<(), Error> {
    let mut attention = described(call)?;
    let Shape { batch, queries, heads, .. } = attention.shape;
    for (name, of) in [("d_o", "o"), ("d_q", "q"), ("d_k", "k"), ("d_v", "v")] {
        let [gradient, tensor] = [name, of].map(|name| call.tensor(name));
        let same = |strides: fn(&Given<'_>) -> Vec<i64>| strides(&gradient) == strides(&tensor);
        if !same(|given| given.tensor.extents().to_vec()) || !same(|given| given.tensor.strides()) {
            return Err(
                gradient.refused(format!("has another shape or other strides than {of}; give it the same"))
            );
        }
    }
    let slopes = of_heads(call.optional("slopes"), heads)?;
    if slopes.is_some() {
        attention = attention.biased();
    }
    let lse = call.tensor("lse");
    lse.expect_extents([batch, heads, queries])?;
    let lse = lse.buffer()?;
    let memory = |name| call.tensor(name).memory::<T>();
    let (q, k, v, o, d_o) = (memory("q")?, memory("k")?, memory("v")?, memory("o")?, memory("d_o")?);
    let (mut d_q, mut d_k, mut d_v) = (memory("d_q")?, memory("d_k")?, memory("d_v")?);
    let buffers = GradientBuffers {
        slopes: slopes.as_ref(),
        ..GradientBuffers::new([&q, &k, &v], (&o, &lse), &d_o, [&mut d_q, &mut d_k, &mut d_v])
    };
    let operations = call.operations();
    match call.one_of("deterministic", &[false, true])? {
        false => operations.attention_gradients(call.stream(), &attention, buffers)?,
        true => operations.deterministic_attention_gradients(call.stream(), &attention, buffers)?,
    };
    Ok(())
}
