/* The operations of warpwright's kernel library on DLPack tensors. Made from the table of crates/dlpack; do not edit.
 *
 * Each function enqueues its work in `stream`, a cudaStream_t (null is the default stream), and returns 0, or 1 with
 * warpwright_error(). Tensors of a GPU are used where they are. On tensors of the host, an emulated GPU computes, and the
 * work is done when the call returns. Memory stays allocated until the work is complete. Tensors begin at a multiple of
 * 16 bytes, and outputs share no memory with other tensors. A tensor that may be null is marked.
 */
#ifndef WARPWRIGHT_H
#define WARPWRIGHT_H

#include <stdint.h>

#include <dlpack/dlpack.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Why the last call of this thread that did not return 0 failed. The text lives until the next one. */
const char *warpwright_error(void);

/* C = activation(alpha * A.B + bias) + beta * C, accumulated in float32.
 * a (m, k) or (batch, m, k), b (k, n) or (batch, k, n): float16, bfloat16, float8_e4m3fn or float8_e5m2, contiguous
 * or transposed (the strides say which). bias (n), float32. c (m, n) or (batch, m, n): float32, bfloat16 or
 * float16, contiguous. activation: 0 none, 1 ReLU, 2 GELU (its tanh approximation), 3 SiLU. */
int warpwright_gemm(const DLTensor *a, const DLTensor *b, const DLTensor *bias /* or null */, const DLTensor *c /* written */, double alpha, double beta, int64_t activation, void *stream);

/* y = activation(x.weight^T + bias): a layer of a network. x (.., k) and y (.., n), rows along the last axis, and weight
 * (n, k) are contiguous; types, bias and activation are gemm's. */
int warpwright_linear(const DLTensor *x, const DLTensor *weight, const DLTensor *bias /* or null */, const DLTensor *y /* written */, int64_t activation, void *stream);

/* y = the softmax of each row of x. Rows are the last axis; float32, bfloat16 or float16, contiguous. */
int warpwright_softmax(const DLTensor *x, const DLTensor *y /* written */, void *stream);

/* y = the natural logarithm of the softmax of each row of x. As softmax. */
int warpwright_log_softmax(const DLTensor *x, const DLTensor *y /* written */, void *stream);

/* y = x / sqrt(mean(x^2) + epsilon) * weight of each row. Rows are the last axis; float32, bfloat16 or float16,
 * contiguous. weight (columns) has x's type. If zero_centred is 1, the factor is 1 + weight. */
int warpwright_rms_norm(const DLTensor *x, const DLTensor *weight, const DLTensor *y /* written */, double epsilon, int64_t zero_centred, void *stream);

/* sum = x + residual, and y = rms_norm of each row of sum. All have one type and shape. */
int warpwright_add_rms_norm(const DLTensor *x, const DLTensor *residual, const DLTensor *weight, const DLTensor *sum /* written */, const DLTensor *y /* written */, double epsilon, int64_t zero_centred, void *stream);

/* y = (x - mean) / sqrt(variance + epsilon) * weight + bias of each row. As rms_norm; bias (columns) has x's type. */
int warpwright_layer_norm(const DLTensor *x, const DLTensor *weight, const DLTensor *bias, const DLTensor *y /* written */, double epsilon, void *stream);

/* loss = -log(softmax(x)[target]) of each row of x (rows, columns): float32, bfloat16 or float16, contiguous.
 * target (rows), int64; the loss of target -100 is 0. loss (rows), float32. */
int warpwright_cross_entropy(const DLTensor *x, const DLTensor *target, const DLTensor *loss /* written */, void *stream);

/* y = silu(gate) * value, elementwise; float32, bfloat16 or float16, contiguous, of one shape. */
int warpwright_swiglu(const DLTensor *gate, const DLTensor *value, const DLTensor *y /* written */, void *stream);

/* o = softmax(scale * q.k^T).v of each head. q (batch, queries, heads, d), k (batch, keys, kv_heads, d),
 * v (batch, keys, kv_heads, value_d), o (batch, queries, heads, value_d): bfloat16 or float16, at any strides with
 * the last axis contiguous. lse (batch, heads, queries), float32: the logarithm of each query's sum. A query at
 * position i sees the keys from i - window_left to i + window_right; -1 is no bound, so that (-1, 0) is causal, and
 * the last query is at the last key. scale 0 is 1 / sqrt(d); softcap 0 is none. slopes (heads) of ALiBi and sinks
 * (heads): float32. */
int warpwright_attention(const DLTensor *q, const DLTensor *k, const DLTensor *v, const DLTensor *o /* written */, const DLTensor *lse /* written, or null */, const DLTensor *slopes /* or null */, const DLTensor *sinks /* or null */, double scale, double softcap, int64_t window_left, int64_t window_right, void *stream);

/* The gradients of attention for q, k and v from d_o. A gradient has the shape, the type and the strides of its
 * tensor; o and lse are attention's. If deterministic is 1, two calls give the same bits. */
int warpwright_attention_gradients(const DLTensor *q, const DLTensor *k, const DLTensor *v, const DLTensor *o, const DLTensor *lse, const DLTensor *d_o, const DLTensor *d_q /* written */, const DLTensor *d_k /* written */, const DLTensor *d_v /* written */, const DLTensor *slopes /* or null */, double scale, double softcap, int64_t window_left, int64_t window_right, int64_t deterministic, void *stream);

#ifdef __cplusplus
}
#endif

#endif
