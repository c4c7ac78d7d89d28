//! What operations refuse: buffers and shapes that do not go together, and configurations that a
//! kernel cannot have. Each error is a typed value whose sentence says what is wrong, where, and
//! what would be right; nothing is launched.

use std::collections::BTreeSet;
use std::path::Path;

use warpwright::prelude::*;
use warpwright::runtime::{Buffer, LaunchCounts, Stream};
use warpwright_kernels::attention::decode::{DecodeBuffers, DecodeOptions, DecodeShape, Heads};
use warpwright_kernels::attention::paged::{PagedAttention, PagedAttentionBuffers};
use warpwright_kernels::attention::score::{self, Pair};
use warpwright_kernels::attention::{
    Attention, AttentionBuffers, AttentionScales, Fp8AttentionBuffers, GradientBuffers, PagedCache, Pages,
    ScaleGranularity, Strides, TransposeV,
};
use warpwright_kernels::causal_conv::{CausalConv, ConvSequences};
use warpwright_kernels::columns::MatrixColumns;
use warpwright_kernels::delta_rule::decode::{
    Algorithm, DecodeBuffers as DecodeRuleBuffers, DecodeShape as DecodeRule, Sequences,
};
use warpwright_kernels::delta_rule::{self, DeltaRuleInputs, InitialState, Precision, Prefill};
use warpwright_kernels::gated_norm::GatedNorm;
use warpwright_kernels::gemv::{Epilogue, GemvShape, InputNorm};
use warpwright_kernels::group_quantize::QuantizedRows;
use warpwright_kernels::moe::{ExpertRows, Routing, Scoring};
use warpwright_kernels::monoid::Sum;
use warpwright_kernels::operations::{OperationError, Operations};
use warpwright_kernels::rope::{HeadRows, Pairing, RopeBuffers, RopeShape};
use warpwright_kernels::rows::Gain;
use warpwright_kernels::sampling::SamplingBuffers;
use warpwright_kernels::select::Predicate;
use warpwright_kernels::sort::Direction::{self, Ascending, Descending};
use warpwright_kernels::sort::radix::{self, Radix};
use warpwright_kernels::speculation::{self, Accepted, NextRows, Rows, SlotTokens, Speculation};
use warpwright_kernels::transpose::{BlockTranspose, Method, TileTranspose};
use warpwright_kernels::weight_only_gemv::{QuantizedWeights, WeightFormat};

use crate::refused::{Bench, Outcome, Refusal, expect_refusals, refusals, sorted_by};

/// No element.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
struct Never;

impl Predicate<f32> for Never {
    fn selects(&self, element: Reg<f32>) -> Reg<bool> {
        element.ne(element)
    }
}

/// 8 queries and keys of 4 heads of 64 elements.
const ATTENTION: Attention = Attention::new(1, 8, 4, 64);

/// Attention over matrices of [`ATTENTION`]; V lacks `missing` elements.
fn attend(bench: &Bench, attention: Attention, missing: usize) -> Outcome {
    let (q, v, mut o) = (bench.of::<bf16>(2048), bench.of(2048 - missing), bench.of(2048));
    bench.operations.attention(&bench.stream, &attention, AttentionBuffers::new(&q, &q, &v, &mut o))
}

/// Attention of e4m3 over matrices of [`ATTENTION`], with given numbers of scales of Q, K and V.
fn attend_fp8(
    bench: &Bench,
    attention: Attention,
    granularity: ScaleGranularity,
    [q, k, v]: [usize; 3],
) -> Outcome {
    let (matrix, mut o) = (bench.of::<e4m3>(2048), bench.of::<bf16>(2048));
    let [q, k, v] = [q, k, v].map(|count| bench.f32(count));
    let scales = AttentionScales { granularity, q: &q, k: &k, v: &v };
    let buffers = Fp8AttentionBuffers::new([&matrix; 3], scales, &mut o);
    bench.operations.attention_fp8(&bench.stream, &attention, buffers)
}

/// Attention of [`ATTENTION`]'s queries over a paged cache, of which a buffer has `missing` elements
/// less: the block table, the lengths or the offsets of queries.
fn attend_paged(bench: &Bench, cache: PagedCache, missing: [usize; 3]) -> Outcome {
    let pool = bench.of::<bf16>(CACHE.keys() * 4 * 64);
    let (q, mut o) = (bench.of(2048), bench.of(2048));
    let [table, lengths, offsets] =
        [(2, 0), (1, 1), (2, 2)].map(|(length, i)| bench.of::<u32>(length - missing[i]));
    let buffers = AttentionBuffers {
        offsets: Some([&offsets, &offsets]),
        pages: Some(Pages { table: &table, lengths: &lengths }),
        ..AttentionBuffers::new(&q, &pool, &pool, &mut o)
    };
    bench.operations.attention(&bench.stream, &ATTENTION.paged(8, cache), buffers)
}

/// The strides of [`ATTENTION`] without gaps.
const DENSE: Strides = Strides::in_rows(8, 256, 0, 64);

/// [`ATTENTION`] with these strides of K and of O.
fn strided(k: Strides, o: Strides) -> Attention {
    ATTENTION.strided([DENSE, k, DENSE, o])
}

/// The gradients of an attention over matrices of [`ATTENTION`].
fn differentiate(bench: &Bench, attention: Attention) -> Outcome {
    differentiate_by(bench, |operations, stream, buffers| {
        operations.attention_gradients(stream, &attention, buffers)
    })
}

fn differentiate_by(
    bench: &Bench,
    gradients: impl Fn(&Operations, &Stream, GradientBuffers<'_, bf16>) -> Outcome,
) -> Outcome {
    let (q, lse) = (bench.of::<bf16>(2048), bench.f32(32));
    let [mut d_q, mut d_k, mut d_v] = [(); 3].map(|()| bench.of(2048));
    let buffers = GradientBuffers::new([&q; 3], (&q, &lse), &q, [&mut d_q, &mut d_k, &mut d_v]);
    gradients(&bench.operations, &bench.stream, buffers)
}

/// Samples 2 rows of logits.
fn sample(bench: &Bench, vocabulary: u32, logits: usize, tokens: usize) -> Outcome {
    let (logits, parameters, mut tokens) = (bench.f32(logits), bench.of(2 * 12), bench.of(tokens));
    let (logits, parameters, tokens) = (&logits, &parameters, &mut tokens);
    let buffers = SamplingBuffers { logits, parameters, history: None, tokens, log_probabilities: None };
    bench.operations.sample(&bench.stream, (2, vocabulary), buffers)
}

/// Rotates 2 heads of Q and one of K of 3 tokens, with rotations for 4 positions.
fn rotate(bench: &Bench, head_dim: u32, rotary_dim: u32, slots: usize, output: usize) -> Outcome {
    let (q, k) = (bench.f32(3 * 2 * head_dim as usize), bench.f32(3 * head_dim as usize));
    let (rotations, positions) = (bench.f32(4 * rotary_dim as usize), bench.of(3));
    let (slots, mut output) = (bench.of(slots), bench.f32(output));
    let [mut key_cache, mut value_cache] = [(); 2].map(|()| bench.f32(8 * head_dim as usize));
    let shape = RopeShape { query_heads: 2, key_heads: 1, head_dim, rotary_dim, pairing: Pairing::default() };
    let buffers = RopeBuffers {
        queries: HeadRows::dense(&q, 2, head_dim),
        keys: HeadRows::dense(&k, 1, head_dim),
        values: HeadRows::dense(&k, 1, head_dim),
        norm: None,
        rotations: &rotations,
        positions: &positions,
        slots: &slots,
        output: &mut output,
        key_cache: &mut key_cache,
        value_cache: &mut value_cache,
    };
    bench.operations.rope(&bench.stream, &shape, buffers)
}

/// Gates of 2 tokens of 2 heads of 3 elements, by the elements of x, the projection [head | gate] and y.
fn gate_heads(bench: &Bench, [x, projection, y]: [usize; 3]) -> Outcome {
    let (x, projection) = (bench.f32(x), bench.f32(projection));
    let gates = HeadRows { buffer: &projection, offset: 3, token_stride: 12, head_stride: 6 };
    bench.operations.gate_heads(&bench.stream, (2, 2, 3), &x, gates, &mut bench.f32(y))
}

/// The sum of experts of 3 rows of 5 columns, by the elements of the routed ones, the shared one, gates and y.
fn add_shared_expert(bench: &Bench, [routed, shared, gates, y]: [usize; 4]) -> Outcome {
    let (routed, shared, gates) = (bench.f32(routed), bench.f32(shared), bench.f32(gates));
    let from = (&routed, &shared, &gates);
    bench.operations.add_shared_expert(&bench.stream, (3, 5), from, &mut bench.f32(y))
}

/// A GEMV of 2 rows of 3 elements with 5 results, by the elements of the weights, x, the gains and y.
fn gemv(bench: &Bench, epilogue: Epilogue, [weights, x, gains, y]: [usize; 4]) -> Outcome {
    let (weights, x, gains) = (bench.f32(weights), bench.f32(x), bench.f32(gains));
    let norm = InputNorm { gains: &gains, gain: Gain::Weight, epsilon: 1e-6 };
    let shape = GemvShape { rows: 2, n: 5, k: 3 };
    bench.operations.gemv(
        &bench.stream,
        shape,
        (&weights, true),
        (&x, Some(norm)),
        (&mut bench.f32(y), epilogue),
    )
}

/// The same of experts, by the choices, and the elements of the weights, x, the experts and y.
fn expert_gemv(bench: &Bench, choices: u32, [weights, x, experts, y]: [usize; 4]) -> Outcome {
    let (shape, from) = ((GemvShape { rows: 2, n: 5, k: 3 }, choices), (&bench.f32(x), &bench.of(experts)));
    bench.operations.expert_gemv(&bench.stream, shape, &bench.f32(weights), from, &mut bench.f32(y))
}

/// Weights (6, 32) in a group of 32 each.
fn quantized(
    bench: &Bench,
    format: WeightFormat,
    call: impl FnOnce(&Bench, QuantizedWeights<'_, bf16>) -> Outcome,
) -> Outcome {
    let bytes = if format == WeightFormat::Int4 { 96 } else { 192 };
    let (weights, scales, zeros) = (bench.of(bytes), bench.of(6), bench.of(6));
    let (weights, scales, zero_points) = (&weights, &scales, Some(&zeros));
    let (n, k, group) = (6, 32, 32);
    call(bench, QuantizedWeights { n, k, format, weights, group, scales, zero_points, constant: true })
}

/// By the rows of an expert and the choices of a vector, and the elements of x, the experts and y.
fn expert_weight_only_gemv(bench: &Bench, (n, choices): (u32, u32), [x, experts, y]: [usize; 3]) -> Outcome {
    quantized(bench, WeightFormat::Int4, |bench, weights| {
        let from = (&bench.of(x), &bench.of(experts), choices);
        bench.operations.expert_weight_only_gemv(&bench.stream, (weights, n), from, &mut bench.of(y))
    })
}

fn weight_only_gemm(bench: &Bench, format: WeightFormat, x: usize, y: usize) -> Outcome {
    quantized(bench, format, |bench, weights| {
        bench.operations.weight_only_gemm(&bench.stream, weights, &bench.of(x), (&mut bench.f32(y), false))
    })
}

/// By the elements of x and the gains, and those of the quantized values.
fn quantize_normalized(bench: &Bench, x: usize, gains: usize, values: usize) -> Outcome {
    let gains = bench.of(gains);
    let norm = InputNorm { gains: &gains, gain: Gain::Weight, epsilon: 1e-6 };
    let to = QuantizedRows { values: &mut bench.of(values), scales: &mut bench.f32(4) };
    bench.operations.quantize_normalized(&bench.stream, &bench.of(x), norm, to, &mut bench.of(0))
}

/// Two tokens of a sequence, by the query and key heads and their elements, and the elements of the queries, the pool of
/// keys, the sequences and the table.
fn paged_attention(
    bench: &Bench,
    (query_heads, key_heads): (u32, u32),
    head_dim: u32,
    [queries, keys, sequences, table]: [usize; 4],
) -> Outcome {
    let (queries, keys, values) = (bench.f32(queries), bench.f32(keys), bench.f32(keys));
    let mut output = bench.f32(32);
    let buffers = PagedAttentionBuffers {
        queries: &queries,
        keys: &keys,
        values: &values,
        positions: &bench.of(2),
        sequences: &bench.of(sequences),
        table: &bench.of(table),
        entries: 2,
        output: &mut output,
    };
    let attention = PagedAttention { query_heads, key_heads, head_dim, page_size: 4 };
    bench.operations.paged_attention(&bench.stream, attention, buffers)
}

/// Three slots with a draft each.
fn slot_tokens(bench: &Bench, slots: usize) -> SlotTokens {
    SlotTokens { last: bench.of(slots), positions: bench.of(slots), drafts: bench.of(slots) }
}

/// What verifies drafts of two sequences, with a block table of that many entries.
fn speculate(
    bench: &Bench,
    table: usize,
    call: impl FnOnce(&Bench, &speculation::Sequences<'_>) -> Outcome,
) -> Outcome {
    let sequences = speculation::Sequences {
        given: &bench.of(2),
        positions: &bench.of(2),
        limits: &bench.of(2),
        slots: &bench.of(2),
        table: &bench.of(table),
        parameters: &bench.of(24),
    };
    call(bench, &sequences)
}

/// By the rows of a sequence, and the elements of tokens, lengths and the table.
fn prepare_drafts(bench: &Bench, each: u32, [tokens, lengths, table]: [usize; 3]) -> Outcome {
    speculate(bench, table, |bench, sequences| {
        let rows = Rows {
            tokens: &mut bench.of(tokens),
            positions: &mut bench.of(4),
            keys: &mut bench.of(4),
            lengths: &mut bench.of(lengths),
            parameters: &mut bench.of(48),
        };
        let speculation = Speculation { each, page_size: 4 };
        bench.operations.prepare_drafts(&bench.stream, speculation, sequences, &slot_tokens(bench, 3), rows)
    })
}

/// By the elements of sampled tokens, counts and next tokens.
fn accept_drafts(bench: &Bench, [sampled, counts, next]: [usize; 3]) -> Outcome {
    speculate(bench, 4, |bench, sequences| {
        let accepted = Accepted {
            counts: &mut bench.of(counts),
            ends: &mut bench.of(2),
            last_rows: &mut bench.of(2),
            next: &mut bench.of(next),
        };
        let rows = (&bench.of(4), &bench.of(4), &bench.of(sampled));
        let (speculation, slots) = (Speculation { each: 2, page_size: 4 }, &mut slot_tokens(bench, 3));
        bench.operations.accept_drafts(&bench.stream, speculation, sequences, rows, slots, accepted)
    })
}

/// By the number of the draft, and the elements of drafted and next tokens.
fn keep_drafts(bench: &Bench, number: u32, [drafted, next]: [usize; 2]) -> Outcome {
    let rows = NextRows {
        next: &mut bench.of(next),
        positions: &mut bench.of(2),
        keys: &mut bench.of(2),
        lengths: &mut bench.of(2),
    };
    let (drafted, of) = ((&bench.of(drafted), number, 10), (&bench.of(2), &bench.of(2), &bench.of(4)));
    let (speculation, slots) = (Speculation { each: 2, page_size: 4 }, &mut slot_tokens(bench, 3));
    bench.operations.keep_drafts(&bench.stream, speculation, drafted, of, slots, rows)
}

/// SwiGLU of 3 rows of 5 columns.
fn swiglu(bench: &Bench, gates: usize, offset: u32, y: usize) -> Outcome {
    let (gates, mut y) = (bench.f32(gates), bench.f32(y));
    let gates = MatrixColumns { buffer: &gates, offset: 0, stride: 10 };
    let values = MatrixColumns { offset, ..gates };
    bench.operations.swiglu(&bench.stream, (3, 5), gates, values, &mut y)
}

/// 3 rows of 5 columns of a table.
fn gather(bench: &Bench, table: usize, y: usize) -> Outcome {
    let (table, mut y) = (bench.f32(table), bench.f32(y));
    bench.operations.gather_rows(&bench.stream, (&table, 5), (&bench.of(3), 0), &mut y)
}

/// The gated norm of 2 heads of 3 tokens.
fn gated_norm(bench: &Bench, head_dim: u32, offset: u32, weights: usize, y: usize) -> Outcome {
    let (x, weights, mut y) = (bench.f32(6 * head_dim as usize), bench.f32(weights), bench.f32(y));
    let x = MatrixColumns::all(&x, 2 * head_dim);
    let (gain, epsilon) = (Gain::Weight, 1e-6);
    let norm = GatedNorm { tokens: 3, heads: 2, head_dim, weights: &weights, gain, epsilon };
    let z = MatrixColumns { offset, ..x };
    bench.operations.gated_rms_norm(&bench.stream, norm, x, z, &mut y)
}

/// A causal convolution of 5 channels and 4 tokens, by the elements of x, the starts, the initial
/// and the last states, and y.
fn conv(bench: &Bench, lengths: [usize; 5]) -> Outcome {
    conv_of(bench, 4, [20, 5], lengths)
}

/// The same by the width, and the elements of the weights and the bias.
fn conv_of(
    bench: &Bench,
    width: u32,
    filter: [usize; 2],
    [x, starts, initial, last, y]: [usize; 5],
) -> Outcome {
    let [x, initial, mut last, mut y] = [x, initial, last, y].map(|length| bench.f32(length));
    let [weights, bias] = filter.map(|length| bench.f32(length));
    let conv = CausalConv { channels: 5, width, weights: &weights, bias: Some(&bias) };
    let sequences = ConvSequences { starts: &bench.of(starts), initial: Some(&initial), last: &mut last };
    let x = (MatrixColumns::all(&x, 5), 4);
    bench.operations.causal_conv(&bench.stream, conv, x, sequences, &mut y)
}

/// The routing of 3 tokens, by the elements of the experts and the weights.
fn route(bench: &Bench, (experts, choices): (u32, u32), logits: usize, to: [usize; 2]) -> Outcome {
    let (logits, mut chosen, mut weights) = (bench.f32(logits), bench.of(to[0]), bench.f32(to[1]));
    let scoring = Scoring::Softmax;
    let routing = Routing { experts, choices, scoring, renormalizes: true, scale: 1.0 };
    bench.operations.route_tokens(&bench.stream, routing, &logits, (&mut chosen, &mut weights))
}

/// The permutation of 2 of 4 experts of each token, by the elements of the choices and the results.
fn permute(bench: &Bench, [chosen, offsets, tokens, rows]: [usize; 4]) -> Outcome {
    let (mut offsets, mut tokens, mut rows) = (bench.of(offsets), bench.of(tokens), bench.of(rows));
    let to = ExpertRows { offsets: &mut offsets, tokens: &mut tokens, rows: &mut rows };
    bench.operations.permute_by_expert(&bench.stream, &bench.of(chosen), (4, 2), to)
}

/// The combination of rows of 5 columns for 3 tokens.
fn combine(bench: &Bench, [x, rows, weights, y]: [usize; 4]) -> Outcome {
    let (x, rows, weights, mut y) = (bench.f32(x), bench.of(rows), bench.f32(weights), bench.f32(y));
    bench.operations.combine_rows(&bench.stream, &x, (&rows, &weights), (3, 5), &mut y)
}

/// A GEMV of weights (3, 64) in groups of 32, by what is changed of them, and the elements of x and
/// y.
fn weight_only_gemv(
    bench: &Bench,
    change: fn(&mut QuantizedWeights<'_, f32>),
    lengths: [usize; 5],
) -> Outcome {
    gemv_by(bench, Operations::weight_only_gemv, change, lengths)
}

/// A product of quantized weights.
type GemvOf = fn(
    &Operations,
    &Stream,
    QuantizedWeights<'_, f32>,
    &Buffer<bf16>,
    &mut Buffer<f32>,
) -> Result<LaunchCounts, OperationError>;

fn gemv_by(
    bench: &Bench,
    product: GemvOf,
    change: fn(&mut QuantizedWeights<'_, f32>),
    [weights, scales, zeros, x, y]: [usize; 5],
) -> Outcome {
    let (weights, scales, zeros) = (bench.of(weights), bench.f32(scales), bench.of(zeros));
    let format = WeightFormat::Int4;
    let zero_points = Some(&zeros);
    let (weights, scales) = (&weights, &scales);
    let mut weights =
        QuantizedWeights { n: 3, k: 64, format, weights, group: 32, scales, zero_points, constant: true };
    change(&mut weights);
    product(&bench.operations, &bench.stream, weights, &bench.of(x), &mut bench.f32(y))
}

/// What is no launch, as one.
fn launched<T>(outcome: Result<T, OperationError>) -> Outcome {
    outcome.map(|_| LaunchCounts::default())
}

fn select_if(bench: &Bench, output: usize, count: usize) -> Outcome {
    let (mut output, mut count) = (bench.f32(output), bench.of(count));
    bench.operations.select_if(&bench.stream, &bench.f32(10), &mut output, &mut count, Never)
}

fn select_flagged(bench: &Bench, flags: usize, output: usize, count: usize) -> Outcome {
    let (flags, mut output, mut count) = (bench.of(flags), bench.f32(output), bench.of(count));
    bench.operations.select_flagged(&bench.stream, &bench.f32(10), &flags, &mut output, &mut count)
}

fn unique(bench: &Bench, output: usize, count: usize) -> Outcome {
    let (mut output, mut count) = (bench.f32(output), bench.of(count));
    bench.operations.unique(&bench.stream, &bench.f32(10), &mut output, &mut count)
}

fn sort_pairs(bench: &Bench, values: usize, sorted: usize, carried: usize) -> Outcome {
    let (values, mut sorted, mut carried) = (bench.of::<u64>(values), bench.f32(sorted), bench.of(carried));
    let output = (&mut sorted, &mut carried);
    bench.operations.sort_pairs(&bench.stream, (&bench.f32(10), &values), output, Descending)
}

fn histogram_even(bench: &Bench, bounds: (f64, f64), bins: usize) -> Outcome {
    bench.operations.histogram_even(&bench.stream, &bench.f32(10), bounds, &mut bench.of(bins))
}

fn transpose_by(bench: &Bench, method: Method, shape: (u32, u32)) -> Outcome {
    let elements = (shape.0 * shape.1) as usize;
    let mut b = bench.f32(elements);
    bench.operations.transpose_by(method, &bench.stream, &bench.f32(elements), shape, &mut b)
}

fn blocks(bench: &Bench, blocks: BlockTranspose) -> Outcome {
    transpose_by(bench, Method::Blocks(blocks), (8, 8))
}

fn rms_norm(bench: &Bench, x: usize, weights: usize, y: usize) -> Outcome {
    let (x, weights, mut y) = (bench.f32(x), bench.f32(weights), bench.f32(y));
    bench.operations.rms_norm(&bench.stream, (&x, (3, 5)), (&weights, Gain::Weight), 1e-6, &mut y)
}

/// The lengths of qkv, a, b, a_log and dt_bias of two tokens of 1 key head and 2 value heads.
const DELTA_RULE: [usize; 5] = [1024, 4, 4, 2, 2];

/// By the heads, the lengths of the inputs, and those of the states and of o.
fn delta_rule_of(
    bench: &Bench,
    heads: delta_rule::Heads,
    [qkv, a, b, a_log, dt_bias]: [usize; 5],
    [states, o]: [usize; 2],
    call: impl FnOnce(&Bench, DeltaRuleInputs<'_>, &mut Buffer<f32>, &mut Buffer<bf16>) -> Outcome,
) -> Outcome {
    let (qkv, a, b) = (bench.of(qkv), bench.of(a), bench.of(b));
    let (a_log, dt_bias) = (bench.f32(a_log), bench.f32(dt_bias));
    let [a, b] = [&a, &b].map(|gates| MatrixColumns::all(gates, heads.values));
    let inputs = DeltaRuleInputs { heads, qkv: &qkv, a, b, a_log: &a_log, dt_bias: &dt_bias };
    call(bench, inputs, &mut bench.f32(states), &mut bench.of(o))
}

/// A decode of 2 sequences of a token each with 1 key head and 2 value heads of 4 elements, with `change`, and buffers
/// with an element more where `grown` says so.
fn delta_rule_decode(
    bench: &Bench,
    change: fn(&mut DecodeRule),
    grown: usize,
    algorithm: Option<Algorithm>,
) -> Outcome {
    let mut shape = DecodeRule { key_heads: 1, value_heads: 2, key_dim: 4, value_dim: 4, width: 2 };
    change(&mut shape);
    let of = |index: usize, length: usize| length + usize::from(grown == index);
    let [x, weights, norm] = [2 * 32, 32, 4].map(|length| bench.f32(length));
    let [a_log, dt_bias] = [(0, 2), (1, 2)].map(|(index, length)| bench.f32(of(index, length)));
    let [mut conv_states, mut y] =
        [(2, 3 * 16), (3, 2 * 8)].map(|(index, length)| bench.f32(of(index, length)));
    let mut states = bench.f32(of(4, 3 * 32));
    let (starts, ends, slots) = (bench.of(of(5, 3)), bench.of(of(6, 2)), bench.of(2));
    let initial = bench.of(of(7, 2));
    let buffers = DecodeRuleBuffers {
        x: &x,
        stride: 32,
        conv_weights: &weights,
        z: MatrixColumns { buffer: &x, offset: if grown == 8 { 40 } else { 16 }, stride: 32 },
        gates: &x,
        gate_columns: [24, if grown == 9 { 40 } else { 26 }, 32],
        a_log: &a_log,
        dt_bias: &dt_bias,
        norm: &norm,
        epsilon: 1e-6,
        conv_states: &mut conv_states,
        states: &mut states,
        y: &mut y,
    };
    let (starts, ends, initial, slots) = (&starts, &ends, &initial, &slots);
    let sequences = Sequences { starts, ends, initial, slots, one_token: true, settled: true };
    bench.operations.delta_rule_decode_by(algorithm, &bench.stream, &shape, sequences, buffers)
}

fn prefill_of_zeros(
    bench: &Bench,
    inputs: DeltaRuleInputs<'_>,
    states: &mut Buffer<f32>,
    o: &mut Buffer<bf16>,
) -> Outcome {
    bench.operations.delta_rule(&bench.stream, inputs, &bench.of(3), (states, InitialState::Zero), o)
}

fn delta_rule(bench: &Bench, starts: usize, to: [usize; 2]) -> Outcome {
    delta_rule_of(
        bench,
        delta_rule::Heads { keys: 1, values: 2 },
        DELTA_RULE,
        to,
        |bench, inputs, states, o| {
            let states = (states, InitialState::Zero);
            bench.operations.delta_rule(&bench.stream, inputs, &bench.of(starts), states, o)
        },
    )
}

/// By the elements of x, residual, weights, sum and y.
fn add_rms_norm(bench: &Bench, elements: [usize; 5]) -> Outcome {
    let [x, residual, weights, mut sum, mut y] = elements.map(|elements| bench.f32(elements));
    let (input, gain) = ((&x, &residual, (3, 5)), (&weights, Gain::ZeroCentred));
    bench.operations.add_rms_norm(&bench.stream, input, gain, 1e-6, (&mut sum, &mut y))
}

/// By the elements of x, weights, biases and y.
fn layer_norm(bench: &Bench, elements: [usize; 4]) -> Outcome {
    let [x, weights, biases, mut y] = elements.map(|elements| bench.f32(elements));
    bench.operations.layer_norm(&bench.stream, (&x, (3, 5)), (&weights, &biases), 1e-5, &mut y)
}

fn cross_entropy(bench: &Bench, (x, shape): (usize, (u32, u32)), targets: usize, losses: usize) -> Outcome {
    let (x, targets, mut losses) = (bench.f32(x), bench.of(targets), bench.f32(losses));
    bench.operations.cross_entropy(&bench.stream, (&x, shape), &targets, &mut losses)
}

/// A cache of five pages.
const CACHE: PagedCache = PagedCache { page_size: 16, pages: 5, pages_per_sequence: 2 };

/// Decode attention of a legal shape but for `change`, with buffers of that shape but for `grown`,
/// which have an element more.
fn decode(
    bench: &Bench,
    change: fn(&mut DecodeShape),
    options: DecodeOptions<'_>,
    grown: Option<usize>,
) -> Outcome {
    let heads = Heads { query_heads: 4, key_heads: 2, head_dim: 64 };
    let mut shape = DecodeShape { heads, batch: 2, queries: 3, cache: CACHE };
    change(&mut shape);
    let more = |index: usize| usize::from(grown == Some(index));
    let of = |index: usize, elements: usize| bench.of::<bf16>(elements + more(index));
    let (queries, keys, values) =
        (of(0, shape.query_elements()), of(1, shape.pool_elements()), of(2, shape.pool_elements()));
    let table = bench.of(shape.table_entries() + more(3));
    let lengths = bench.of(shape.batch as usize + more(4));
    let mut output = of(5, shape.query_elements());
    let mut lse = bench.f32(shape.query_rows() + more(6));
    let gates = of(8, shape.query_elements());
    let buffers = DecodeBuffers {
        queries: &queries,
        keys: &keys,
        values: &values,
        table: &table,
        lengths: &lengths,
        gates: (grown == Some(7)).then(|| HeadRows::dense(&gates, heads.query_heads, 2 * heads.head_dim)),
        output: &mut output,
        lse: &mut lse,
    };
    bench.operations.decode_attention(&bench.stream, &shape, options, buffers)
}

fn decode_of(bench: &Bench, change: fn(&mut DecodeShape)) -> Outcome {
    decode(bench, change, DecodeOptions::default(), None)
}

fn decode_grown(bench: &Bench, grown: usize) -> Outcome {
    decode(bench, |_| (), DecodeOptions::default(), Some(grown))
}

fn decode_with(bench: &Bench, options: DecodeOptions<'_>) -> Outcome {
    decode(bench, |_| (), options, None)
}

const REFUSALS: &[Refusal] = refusals! {
    copy, |b| b.operations.copy(&b.stream, &b.f32(10), &mut b.f32(9))
        => "the target of a copy: expected a length of 10, found 9";
    map, |b| b.operations.map(&b.stream, &b.f32(10), &mut b.f32(11), |x| x)
        => "the result of a map: expected a length of 10, found 11";
    zip, |b| b.operations.zip(&b.stream, &b.f32(10), &b.f32(0), &mut b.f32(10), |x, _| x)
        => "the second operand: expected a length of 10, found 0";
    zip, |b| b.operations.zip(&b.stream, &b.f32(10), &b.f32(10), &mut b.f32(9), |x, _| x)
        => "the result: expected a length of 10, found 9";

    delta_rule_decode, |b| delta_rule_decode(b, |rule| rule.key_heads = 3, 99, None)
        => "a decode of the gated delta rule: 2 value heads cannot share 3 key heads equally; pass 1 to 1024 value heads, a multiple of the key heads";
    delta_rule_decode_by, |b| delta_rule_decode(b, |rule| rule.key_dim = 129, 99, None)
        => "a decode of the gated delta rule: keys of 129 elements and values of 4; pass 1 to 128 and 1 to 1024";
    delta_rule_decode_by, |b| delta_rule_decode(b, |rule| rule.width = 1, 99, None)
        => "a decode of the gated delta rule: a convolution of 1 tokens; pass 2 or more";
    delta_rule_decode_by, |b| delta_rule_decode(b, |rule| rule.width = 3, 99, None)
        => "the filters of the convolution: expected a length of 48, found 32";
    delta_rule_decode_by, |b| delta_rule_decode(b, |_| (), 99, Some(Algorithm::Bulk))
        => "a decode of the gated delta rule: Bulk needs sm_90, one token of each sequence, and heads of 32, 64 or 128 elements: pass no algorithm";
    delta_rule_decode_by, |b| delta_rule_decode(b, |_| (), 0, None)
        => "a_log of the gated delta rule: expected a length of 2, found 3";
    delta_rule_decode_by, |b| delta_rule_decode(b, |_| (), 1, None)
        => "dt_bias of the gated delta rule: expected a length of 2, found 3";
    delta_rule_decode_by, |b| delta_rule_decode(b, |_| (), 2, None)
        => "the states of the convolution: expected a length of 48, found 49";
    delta_rule_decode_by, |b| delta_rule_decode(b, |_| (), 3, None)
        => "the output of a decode of the gated delta rule: expected a length of 16, found 17";
    delta_rule_decode_by, |b| delta_rule_decode(b, |_| (), 4, None)
        => "the states of the gated delta rule: expected a length of 96, found 97";
    delta_rule_decode_by, |b| delta_rule_decode(b, |_| (), 5, None)
        => "the starts of sequences: expected a length of 3, found 4";
    delta_rule_decode_by, |b| delta_rule_decode(b, |_| (), 6, None)
        => "the ends of sequences: expected a length of 2, found 3";
    delta_rule_decode_by, |b| delta_rule_decode(b, |_| (), 7, None)
        => "the initial slots of sequences: expected a length of 2, found 3";
    delta_rule_decode_by, |b| delta_rule_decode(b, |_| (), 8, None)
        => "z of the gated delta rule: the last row ends at element 80, and the buffer has 64";
    delta_rule_decode_by, |b| delta_rule_decode(b, |_| (), 9, None)
        => "a of the gated delta rule: the last row ends at element 74, and the buffer has 64";
    delta_rule, |b| delta_rule_of(b, delta_rule::Heads { keys: 2, values: 3 }, DELTA_RULE, [65536, 512], prefill_of_zeros)
        => "the gated delta rule: 3 value heads cannot share 2 key heads equally; pass 1 to 1024 value heads, a multiple of the key heads";
    delta_rule, |b| delta_rule_of(b, delta_rule::Heads { keys: 1, values: 2 }, [1023, 4, 4, 2, 2], [65536, 512], prefill_of_zeros)
        => "qkv of the gated delta rule: expected a length of 512, found 1023";
    delta_rule, |b| delta_rule_of(b, delta_rule::Heads { keys: 1, values: 2 }, [1024, 3, 4, 2, 2], [65536, 512], prefill_of_zeros)
        => "a of the gated delta rule: the last row ends at element 4, and the buffer has 3";
    delta_rule, |b| delta_rule_of(b, delta_rule::Heads { keys: 1, values: 2 }, [1024, 4, 3, 2, 2], [65536, 512], prefill_of_zeros)
        => "b of the gated delta rule: the last row ends at element 4, and the buffer has 3";
    delta_rule, |b| delta_rule_of(b, delta_rule::Heads { keys: 1, values: 2 }, [1024, 4, 4, 1, 2], [65536, 512], prefill_of_zeros)
        => "a_log of the gated delta rule: expected a length of 2, found 1";
    delta_rule, |b| delta_rule_of(b, delta_rule::Heads { keys: 1, values: 2 }, [1024, 4, 4, 2, 0], [65536, 512], prefill_of_zeros)
        => "dt_bias of the gated delta rule: expected a length of 2, found 0";
    delta_rule, |b| delta_rule(b, 3, [32768, 512])
        => "the states of the gated delta rule: expected a length of 65536, found 32768";
    delta_rule, |b| delta_rule(b, 2, [32768, 0])
        => "the output of the gated delta rule: expected a length of 512, found 0";
    delta_rule, |b| delta_rule(b, 1, [0, 512])
        => "the gated delta rule: 2 tokens are of no sequence; pass where sequences start and end";
    delta_rule_by, |b| delta_rule_of(b, delta_rule::Heads { keys: 1, values: 2 }, DELTA_RULE, [32768, 512], |b, inputs, states, o| {
        let states = (states, InitialState::Zero);
        let prefill = Prefill { precision: Precision::F32, consumers: 3 };
        b.operations.delta_rule_by(prefill, &b.stream, inputs, &b.of(2), states, o)
    }) => "the gated delta rule: 3 warpgroups of a CTA; pass 1 or 2";

    transpose, |b| b.operations.transpose(&b.stream, &b.f32(14), (3, 5), &mut b.f32(15))
        => "the matrix to transpose: expected a length of 15, found 14";
    transpose, |b| b.operations.transpose(&b.stream, &b.f32(15), (3, 5), &mut b.f32(16))
        => "the transposed matrix: expected a length of 15, found 16";
    transpose_by, |b| {
        let tile = Method::Tile(TileTranspose);
        b.operations.transpose_by(tile, &b.stream, &b.f32(15), (5, 5), &mut b.f32(15))
    } => "the matrix to transpose: expected a length of 25, found 15";
    transpose_by, |b| transpose_by(b, Method::Blocks(BlockTranspose::FASTEST), (8, 6))
        => "transpose in blocks: 8 and 6 are not both multiples of 4, the elements of a 16-byte vector of f32; the method tile takes any shape";
    transpose_by, |b| blocks(b, BlockTranspose { side: 12, ..BlockTranspose::FASTEST })
        => "transpose in blocks: a tile has 8, 16, 32 or 64 blocks a side, not 12";
    transpose_by, |b| blocks(b, BlockTranspose { blocks: 0, ..BlockTranspose::FASTEST })
        => "transpose in blocks: 0 blocks a thread do not divide 256 among 32 to 1024 threads";
    transpose_by, |b| blocks(b, BlockTranspose { raster: 0, ..BlockTranspose::FASTEST })
        => "transpose in blocks: a raster of 0 rows is not possible; use 1 to 64";

    reduce_into, |b| b.operations.reduce_into(&b.stream, &b.f32(10), &mut b.f32(2), Sum)
        => "the result of a reduction: expected a length of 1, found 2";
    argmax, |b| launched(b.operations.argmax(&b.stream, &b.f32(0)))
        => "the index of the largest of no elements does not exist; pass at least one";
    argmin, |b| launched(b.operations.argmin(&b.stream, &b.f32(0)))
        => "the index of the smallest of no elements does not exist; pass at least one";
    inclusive_scan, |b| b.operations.inclusive_scan(&b.stream, &b.f32(10), &mut b.f32(9), Sum)
        => "the output of a scan: expected a length of 10, found 9";
    exclusive_scan, |b| b.operations.exclusive_scan(&b.stream, &b.f32(10), &mut b.f32(11), Sum)
        => "the output of a scan: expected a length of 10, found 11";

    sort, |b| b.operations.sort(&b.stream, &b.f32(10), &mut b.f32(9), Ascending)
        => "the output of a sort: expected a length of 10, found 9";
    sort_pairs, |b| sort_pairs(b, 9, 10, 10) => "the buffer of values to sort: expected a length of 10, found 9";
    sort_pairs, |b| sort_pairs(b, 10, 9, 10) => "the buffer of sorted keys: expected a length of 10, found 9";
    sort_pairs, |b| sort_pairs(b, 10, 10, 9) => "the buffer of sorted values: expected a length of 10, found 9";

    select_if, |b| select_if(b, 9, 1) => "the output of a selection: expected a length of 10, found 9";
    select_if, |b| select_if(b, 10, 0) => "the count of a selection: expected a length of 1, found 0";
    select_flagged, |b| select_flagged(b, 9, 10, 1)
        => "the buffer of a selection's flags: expected a length of 10, found 9";
    select_flagged, |b| select_flagged(b, 10, 9, 1)
        => "the output of a selection: expected a length of 10, found 9";
    select_flagged, |b| select_flagged(b, 10, 10, 2)
        => "the count of a selection: expected a length of 1, found 2";
    unique, |b| unique(b, 9, 1) => "the output of a selection: expected a length of 10, found 9";
    unique, |b| unique(b, 10, 2) => "the count of a selection: expected a length of 1, found 2";

    histogram_even, |b| histogram_even(b, (0.0, 1.0), 0) => "a histogram: it has 0 bins; give 1 to 2^32 - 1";
    histogram_even, |b| histogram_even(b, (1.0, 1.0), 4)
        => "a histogram: the bins lie between 1 and 1; give a lower and a higher finite bound";
    histogram_even, |b| histogram_even(b, (f64::NAN, 1.0), 4)
        => "a histogram: the bins lie between NaN and 1; give a lower and a higher finite bound";
    histogram_even, |b| histogram_even(b, (0.0, f64::INFINITY), 4)
        => "a histogram: the bins lie between 0 and inf; give a lower and a higher finite bound";
    histogram_even, |b| histogram_even(b, (-1e308, 1e308), 4)
        => "a histogram: 4 bins from -1e308 to 1e308 are wider than f64 can compute with; give bounds that are nearer to each other";
    histogram_even, |b| histogram_even(b, (0.0, 5e-324), 4)
        => "a histogram: 4 bins from 0.0 to 5e-324 are narrower than f64 can compute with; give fewer bins, or bounds that are farther apart";
    histogram_ranges, |b| b.operations.histogram_ranges(&b.stream, &b.f32(10), &b.f32(4), &mut b.of(4))
        => "the buffer of a histogram's edges: expected a length of 5, found 4";
    histogram_ranges, |b| b.operations.histogram_ranges(&b.stream, &b.f32(10), &b.f32(1), &mut b.of(0))
        => "a histogram: it has 0 bins; give 1 to 2^32 - 1";

    softmax, |b| b.operations.softmax(&b.stream, &b.f32(14), (3, 5), &mut b.f32(15))
        => "the input of a softmax: expected a length of 15, found 14";
    softmax, |b| b.operations.softmax(&b.stream, &b.f32(15), (3, 5), &mut b.f32(16))
        => "the output of a softmax: expected a length of 15, found 16";
    softmax, |b| b.operations.softmax(&b.stream, &b.f32(0), (0, 1 << 30), &mut b.f32(0))
        => "an operation on rows: a row of 1073741824 columns is too long; it has 536870912 at most";
    log_softmax, |b| b.operations.log_softmax(&b.stream, &b.f32(0), (3, 5), &mut b.f32(15))
        => "the input of a softmax: expected a length of 15, found 0";
    log_softmax, |b| b.operations.log_softmax(&b.stream, &b.f32(15), (3, 5), &mut b.f32(5))
        => "the output of a softmax: expected a length of 15, found 5";
    rms_norm, |b| rms_norm(b, 14, 5, 15) => "the input of RMSNorm: expected a length of 15, found 14";
    rms_norm, |b| rms_norm(b, 15, 3, 15) => "the buffer of RMSNorm's weights: expected a length of 5, found 3";
    rms_norm, |b| rms_norm(b, 15, 5, 14) => "the output of RMSNorm: expected a length of 15, found 14";
    add_rms_norm, |b| add_rms_norm(b, [14, 15, 5, 15, 15])
        => "the input of RMSNorm: expected a length of 15, found 14";
    add_rms_norm, |b| add_rms_norm(b, [15, 14, 5, 15, 15])
        => "the residual of RMSNorm: expected a length of 15, found 14";
    add_rms_norm, |b| add_rms_norm(b, [15, 15, 6, 15, 15])
        => "the buffer of RMSNorm's weights: expected a length of 5, found 6";
    add_rms_norm, |b| add_rms_norm(b, [15, 15, 5, 14, 15])
        => "the sum of RMSNorm: expected a length of 15, found 14";
    add_rms_norm, |b| add_rms_norm(b, [15, 15, 5, 15, 14])
        => "the output of RMSNorm: expected a length of 15, found 14";
    layer_norm, |b| layer_norm(b, [14, 5, 5, 15]) => "the input of LayerNorm: expected a length of 15, found 14";
    layer_norm, |b| layer_norm(b, [15, 4, 5, 15]) => "the buffer of LayerNorm's weights: expected a length of 5, found 4";
    layer_norm, |b| layer_norm(b, [15, 5, 4, 15]) => "the buffer of LayerNorm's biases: expected a length of 5, found 4";
    layer_norm, |b| layer_norm(b, [15, 5, 5, 14]) => "the output of LayerNorm: expected a length of 15, found 14";
    cross_entropy, |b| cross_entropy(b, (14, (3, 5)), 3, 3)
        => "the input of cross-entropy: expected a length of 15, found 14";
    cross_entropy, |b| cross_entropy(b, (15, (3, 5)), 2, 3)
        => "the buffer of cross-entropy's targets: expected a length of 3, found 2";
    cross_entropy, |b| cross_entropy(b, (15, (3, 5)), 3, 4)
        => "the buffer of cross-entropy's losses: expected a length of 3, found 4";
    cross_entropy, |b| cross_entropy(b, (0, (3, 0)), 3, 3)
        => "the cross-entropy of a row of no elements does not exist; pass at least one";

    attention, |b| attend(b, ATTENTION.kv_heads(3), 0)
        => "an attention: 4 heads of Q are not a multiple of 3 heads of K and V";
    attention, |b| attend(b, ATTENTION.kv_heads(0), 0)
        => "an attention: 4 heads of Q are not a multiple of 0 heads of K and V";
    attention, |b| attend(b, Attention::new(1, 8, 4, 72), 0)
        => "an attention: heads have 72 and 72 elements; use multiples of 16 up to 256";
    attention, |b| attend(b, ATTENTION.value_dim(512), 0)
        => "an attention: heads have 64 and 512 elements; use multiples of 16 up to 256";
    attention, |b| attend(b, Attention::new(u32::MAX, u32::MAX, u32::MAX, 64), 0)
        => "an attention: 4294967295 sequences of 4294967295 queries and 4294967295 keys are too many; do the work in parts";
    attention, |b| attend_paged(b, PagedCache { pages: 0, ..CACHE }, [0; 3])
        => "an attention: a cache without pages; give 1 or more";
    attention, |b| attend_paged(b, PagedCache { page_size: 24, ..CACHE }, [0; 3])
        => "an attention: pages of 24 keys; give one of [16, 32, 64, 128, 256]";
    attention, |b| attend_paged(b, PagedCache { pages_per_sequence: 1 << 27, ..CACHE }, [0; 3])
        => "an attention: a sequence's entries of the block table hold 2147483648 keys; use at most 2^30";
    attention, |b| attend_paged(b, PagedCache { pages: 6, ..CACHE }, [0; 3])
        => "K of an attention: expected a length of 24576, found 20480";
    attention, |b| attend_paged(b, CACHE, [1, 0, 0])
        => "the block table of an attention: expected a length of 2, found 1";
    attention, |b| attend_paged(b, CACHE, [0, 1, 0])
        => "the keys of each sequence of an attention: expected a length of 1, found 0";
    attention, |b| attend_paged(b, CACHE, [0, 0, 1])
        => "the offsets of packed queries: expected a length of 2, found 1";
    attention, |b| attend(b, strided(Strides::in_rows(8, 260, 0, 64), DENSE), 0)
        => "K of an attention: expected a length of 2076, found 2048";
    attention, |b| attend(b, strided(Strides::in_rows(8, 252, 0, 64), DENSE), 0)
        => "K of an attention: its rows are 252 elements apart; use a multiple of 8, which is 16 bytes";
    attention, |b| attend(b, strided(DENSE, Strides { head: 56, ..DENSE }), 0)
        => "O of an attention: its sequences are 2048 elements apart, its rows 256 and its heads 56, so that some overlap; \
            use strides that keep them apart";
    attention, |b| attend(b, ATTENTION.scale(0.0), 0)
        => "an attention: the scale of the scores is 0; use a positive one";
    attention, |b| attend(b, ATTENTION.scale(f32::NAN), 0)
        => "an attention: the scale of the scores is NaN; use a positive one";
    attention, |b| attend(b, ATTENTION.bounded(-1.0), 0)
        => "an attention: the bound of the scores is -1; use a positive one";
    attention, |b| attend(b, ATTENTION.bounded(1e5), 0)
        => "an attention: the bound of the scores is 100000, and they are off by 2^-23 of it; use at most 4096, or none";
    attention, |b| attend(b, Attention::new(1 << 20, 1 << 20, 1 << 10, 64), 0)
        => "an attention: 1048576 sequences of 1048576 queries and 1048576 keys are too many; do the work in parts";
    attention, |b| attend(b, ATTENTION, 1) => "V of an attention: expected a length of 2048, found 2047";
    attention, |b| attend(b, ATTENTION.packed(8, 8), 0)
        => "the offsets of packed queries: expected a length of 2, found 0";
    attention, |b| attend(b, ATTENTION.biased(), 0)
        => "the slopes of an attention: expected a length of 4, found 0";
    attention, |b| attend(b, ATTENTION.with_sinks(), 0)
        => "the sinks of an attention: expected a length of 4, found 0";
    attention_with, |b| {
        let (q, mut o) = (b.of::<bf16>(2048), b.of(2048));
        let parity = |score: Reg<f32>, pair: Pair| score + (pair.key % 2).convert::<f32>();
        let buffers = AttentionBuffers::new(&q, &q, &q, &mut o);
        b.operations.attention_with(&b.stream, &ATTENTION.bounded(2.0), parity, buffers)
    } => "an attention: it has a bound or a bias; put them into the function of the scores";
    attention_fp8_with, |b| {
        let (q, scale, mut o) = (b.of::<e4m3>(2048), b.f32(4), b.of::<bf16>(2048));
        let scales = AttentionScales { granularity: ScaleGranularity::Head, q: &scale, k: &scale, v: &scale };
        let buffers = Fp8AttentionBuffers::new([&q; 3], scales, &mut o);
        let same = |score: Reg<f32>, _: Pair| score;
        b.operations.attention_fp8_with(&b.stream, &ATTENTION.bounded(2.0), same, buffers)
    } => "an attention: it has a bound or a bias; put them into the function of the scores";
    attention_fp8, |b| attend_fp8(b, ATTENTION.kv_heads(3), ScaleGranularity::Head, [4, 3, 3])
        => "an attention: 4 heads of Q are not a multiple of 3 heads of K and V";
    attention_fp8, |b| attend_fp8(b, ATTENTION.with_sinks(), ScaleGranularity::Head, [4; 3])
        => "the sinks of an attention: expected a length of 4, found 0";
    attention_fp8, |b| attend_fp8(b, ATTENTION, ScaleGranularity::Head, [1, 4, 4])
        => "the scales of Q of an attention: expected a length of 4, found 1";
    attention_fp8, |b| attend_fp8(b, ATTENTION, ScaleGranularity::Block, [4, 8, 4])
        => "the scales of K of an attention: expected a length of 4, found 8";
    attention_fp8, |b| attend_fp8(b, ATTENTION, ScaleGranularity::Block, [4, 4, 0])
        => "the scales of V of an attention: expected a length of 4, found 0";
    attention_fp8_by, |b| {
        let (q, scale, mut o) = (b.of::<e4m3>(2048), b.f32(4), b.of::<bf16>(2048));
        let scales = AttentionScales { granularity: ScaleGranularity::Head, q: &scale, k: &scale, v: &scale };
        let buffers = Fp8AttentionBuffers::new([&q; 3], scales, &mut o);
        let attention = ATTENTION.paged(8, PagedCache { page_size: 16, pages: 1, pages_per_sequence: 1 });
        b.operations.attention_fp8_by(&b.stream, &attention, TransposeV::Before, buffers)
    } => "an attention: V in the pages of a cache is not transposed before the kernel; pass `TransposeV::Inside`";
    attention_gradients, |b| differentiate(b, ATTENTION.packed(8, 8))
        => "the offsets of packed queries: expected a length of 2, found 0";
    attention_gradients, |b| differentiate(b, ATTENTION.paged(8, PagedCache { page_size: 16, pages: 1, pages_per_sequence: 1 }))
        => "an attention's gradients: there are no gradients of a paged cache; pass K and V of packed sequences";
    attention_gradients, |b| differentiate(b, ATTENTION.with_sinks())
        => "the sinks of an attention: expected a length of 4, found 0";
    deterministic_attention_gradients, |b| differentiate_by(b, |operations, stream, buffers| {
        operations.deterministic_attention_gradients(stream, &ATTENTION.biased(), buffers)
    }) => "the slopes of an attention: expected a length of 4, found 0";
    attention_gradients_with, |b| differentiate_by(b, |operations, stream, buffers| {
        let twice = score::differentiable(|score: Reg<f32>, _: Pair| (score + score, constant(2.0)));
        operations.attention_gradients_with(stream, &ATTENTION.bounded(2.0), twice, buffers)
    }) => "an attention: it has a bound or a bias; put them into the function of the scores";
    attention_gradients, |b| differentiate(b, strided(DENSE, DENSE).keys(0))
        => "an attention's gradients: there are no queries or no keys, and the matrices have strides; fill the gradients with zeros";
    attention_gradients, |b| differentiate(b, strided(Strides { head: 0, ..DENSE }, DENSE))
        => "the gradient of K: its sequences are 2048 elements apart, its rows 256 and its heads 0, so that some overlap; \
            use strides that keep them apart";
    attention_gradients, |b| differentiate(b, ATTENTION.keys(9))
        => "K of an attention: expected a length of 2304, found 2048";
    sample, |b| sample(b, 0, 0, 2) => "sampling: a vocabulary of 0 tokens; give 1 to 4194304";
    sample, |b| sample(b, 5, 9, 2) => "the logits of sampling: expected a length of 10, found 9";
    sample, |b| sample(b, 5, 10, 1) => "the tokens of sampling: expected a length of 2, found 1";
    rope, |b| rotate(b, 5000, 8, 3, 30_000)
        => "the rotary embedding: heads of 5000 elements; give 1 to 4096";
    rope, |b| rotate(b, 20, 7, 3, 120)
        => "the rotary embedding: 7 rotated columns of 20; give an even number up to the head";
    rope, |b| rotate(b, 64, 64, 2, 384) => "the slots of the rotary embedding: expected a length of 3, found 2";
    rope, |b| rotate(b, 64, 64, 3, 383) => "the output of the rotary embedding: expected a length of 384, found 383";

    scatter_rows, |b| b.operations.scatter_rows(&b.stream, &b.f32(6), &b.of(2), (&mut b.f32(10), 3))
        => "a scatter of rows: a table of 10 elements has no whole rows of 3";
    scatter_rows, |b| b.operations.scatter_rows(&b.stream, &b.f32(7), &b.of(2), (&mut b.f32(9), 3))
        => "the rows of a scatter: expected a length of 6, found 7";
    scatter_rows, |b| b.operations.scatter_rows(&b.stream, &b.f32(65_536), &b.of(65_536), (&mut b.f32(9), 1))
        => "a scatter of rows: 65536 rows are 65,536 or more; do the work in parts";
    copy_row, |b| b.operations.copy_row(&b.stream, (&mut b.f32(9), 3), (0, 3))
        => "a copy of a row: rows 0 and 3 of 3; give rows of the table";
    copy_row, |b| b.operations.copy_row(&b.stream, (&mut b.f32(9), 0), (0, 1))
        => "a copy of a row: a table of 9 elements has no whole rows of 0";
    concatenate_rows, |b| b.operations.concatenate_rows(&b.stream, ([&b.f32(9), &b.f32(6)], 3), &mut b.f32(18))
        => "the second rows of a concatenation: expected a length of 9, found 6";
    concatenate_rows, |b| b.operations.concatenate_rows(&b.stream, ([&b.f32(9), &b.f32(9)], 3), &mut b.f32(17))
        => "the concatenated rows: expected a length of 18, found 17";
    concatenate_rows, |b| b.operations.concatenate_rows(&b.stream, ([&b.f32(9), &b.f32(9)], 2), &mut b.f32(18))
        => "a concatenation of rows: a table of 9 elements has no whole rows of 2";
    gate_heads, |b| gate_heads(b, [12, 24, 13])
        => "the gated heads: expected a length of 12, found 13";
    gate_heads, |b| gate_heads(b, [11, 24, 12])
        => "the heads to gate: expected a length of 12, found 11";
    gate_heads, |b| gate_heads(b, [12, 23, 12])
        => "the gates of heads: the last head ends at element 24, and the buffer has 23";
    add_shared_expert, |b| add_shared_expert(b, [14, 15, 3, 15])
        => "the rows of routed experts: expected a length of 15, found 14";
    add_shared_expert, |b| add_shared_expert(b, [15, 14, 3, 15])
        => "the rows of the shared expert: expected a length of 15, found 14";
    add_shared_expert, |b| add_shared_expert(b, [15, 15, 4, 15])
        => "the gates of the shared expert: expected a length of 3, found 4";
    add_shared_expert, |b| add_shared_expert(b, [15, 15, 3, 16])
        => "the rows that experts are added to: expected a length of 15, found 16";

    gemv, |b| gemv(b, Epilogue::Store, [14, 6, 3, 10]) => "the weights of a GEMV: expected a length of 15, found 14";
    gemv, |b| gemv(b, Epilogue::Store, [15, 7, 3, 10]) => "the input of a GEMV: expected a length of 6, found 7";
    gemv, |b| gemv(b, Epilogue::Store, [15, 6, 4, 10]) => "the gains of a GEMV: expected a length of 3, found 4";
    gemv, |b| gemv(b, Epilogue::Add, [15, 6, 3, 11]) => "the output of a GEMV: expected a length of 10, found 11";
    gemv, |b| gemv(b, Epilogue::Swiglu, [30, 6, 3, 10])
        => "a GEMV: 5 gates and values, in turns of 8; give whole turns";
    expert_gemv, |b| expert_gemv(b, 3, [30, 6, 2, 10])
        => "a GEMV of experts: 2 rows of 3 choices each; give a multiple";
    expert_gemv, |b| expert_gemv(b, 1, [29, 6, 2, 10]) => "the weights of experts: expected a length of 15, found 29";
    expert_gemv, |b| expert_gemv(b, 2, [30, 4, 2, 10]) => "the input of experts: expected a length of 3, found 4";
    expert_gemv, |b| expert_gemv(b, 2, [30, 3, 3, 10]) => "the experts of rows: expected a length of 2, found 3";
    expert_weight_only_gemv, |b| expert_weight_only_gemv(b, (4, 2), [128, 2, 24])
        => "a weight-only GEMV of experts: 6 rows of weights are no whole experts of 4";
    expert_weight_only_gemv, |b| expert_weight_only_gemv(b, (3, 4), [128, 2, 24])
        => "a weight-only GEMV of experts: 2 rows of 4 choices each; give a multiple";
    expert_weight_only_gemv, |b| expert_weight_only_gemv(b, (3, 1), [63, 2, 6])
        => "the input of experts: expected a length of 64, found 63";
    expert_weight_only_gemv, |b| expert_weight_only_gemv(b, (3, 1), [64, 2, 5])
        => "the output of experts: expected a length of 6, found 5";
    dequantize_weights, |b| {
        quantized(b, WeightFormat::Int8, |b, weights| {
            b.operations.dequantize_weights(&b.stream, weights, &mut b.of(191))
        })
    } => "dequantized weights: expected a length of 192, found 191";
    weight_only_gemm, |b| weight_only_gemm(b, WeightFormat::Int8, 32, 6)
        => "a weight-only GEMM: weights of Int8 in groups of 32; give int4 with zero points in groups of 32";
    weight_only_gemm, |b| weight_only_gemm(b, WeightFormat::Int4, 32, 6)
        => "a weight-only GEMM: 1 rows of 32 elements; it needs sm_90a, 128 rows at most, and a multiple of 128";
    weight_only_gemm, |b| weight_only_gemm(b, WeightFormat::Int4, 33, 6)
        => "the input of a weight-only GEMM: expected a length of 32, found 33";
    weight_only_gemm, |b| weight_only_gemm(b, WeightFormat::Int4, 32, 7)
        => "the output of a weight-only GEMM: expected a length of 6, found 7";
    quantize_rows, |b| {
        let to = QuantizedRows { values: &mut b.of(12), scales: &mut b.f32(4) };
        b.operations.quantize_rows(&b.stream, (&b.of(12), 6), to)
    } => "quantized rows: rows of 6 elements; give a multiple of 4";
    quantize_rows, |b| {
        let to = QuantizedRows { values: &mut b.of(16), scales: &mut b.f32(5) };
        b.operations.quantize_rows(&b.stream, (&b.of(16), 8), to)
    } => "the scales of rows: expected a length of 4, found 5";
    quantize_rows, |b| {
        let to = QuantizedRows { values: &mut b.of(16), scales: &mut b.f32(4) };
        b.operations.quantize_rows(&b.stream, (&b.of(17), 8), to)
    } => "the rows to quantize: expected a length of 16, found 17";
    quantize_swiglu, |b| {
        let to = QuantizedRows { values: &mut b.of(16), scales: &mut b.f32(4) };
        b.operations.quantize_swiglu(&b.stream, (&b.of(24), 12, 8), to)
    } => "the quantized rows of SwiGLU: rows of 12 elements for 8 gates and values; give a multiple of 4";
    quantize_normalized, |b| quantize_normalized(b, 17, 8, 16)
        => "the rows to normalize: expected a length of 16, found 17";
    quantize_normalized, |b| quantize_normalized(b, 16, 8, 17) => "quantized rows: expected a length of 16, found 17";
    quantize_normalized, |b| quantize_normalized(b, 16, 0, 16)
        => "quantized rows of RMSNorm: rows of 0 elements; give 1 to 65536";
    paged_attention, |b| paged_attention(b, (3, 2), 8, [24, 24, 2, 2])
        => "paged attention: 3 query heads cannot share 2 key heads equally; give a multiple of the key heads";
    paged_attention, |b| paged_attention(b, (2, 1), 0, [16, 24, 2, 2])
        => "paged attention: heads of 0 elements and pages of 4 keys; give 1 to 4096, and at least 1";
    paged_attention, |b| paged_attention(b, (2, 1), 8, [33, 64, 2, 2])
        => "the queries of paged attention: expected a length of 32, found 33";
    paged_attention, |b| paged_attention(b, (2, 1), 8, [32, 65, 2, 2])
        => "the pool of keys: expected a length of 64, found 65";
    paged_attention, |b| paged_attention(b, (2, 1), 8, [32, 64, 3, 2])
        => "the sequences of tokens: expected a length of 2, found 3";
    paged_attention, |b| paged_attention(b, (2, 1), 8, [32, 64, 2, 3])
        => "the pages of sequences: expected a length of 2, found 3";
    resolve_tokens, |b| b.operations.resolve_tokens(&b.stream, &b.of(2), (&b.of(3), &b.of(1)), &b.of(1), &mut b.of(2))
        => "the sequences of tokens: expected a length of 2, found 3";
    resolve_tokens, |b| b.operations.resolve_tokens(&b.stream, &b.of(2), (&b.of(2), &b.of(1)), &b.of(1), &mut b.of(1))
        => "the resolved tokens: expected a length of 2, found 1";
    follow_tokens, |b| {
        let packed = (&b.of(2), &b.of(3), &b.of(1));
        b.operations.follow_tokens(&b.stream, &b.of(2), packed, &b.of(1), &mut b.of(2))
    } => "the starts of sequences: expected a length of 2, found 3";
    follow_tokens, |b| {
        let packed = (&b.of(2), &b.of(2), &b.of(1));
        b.operations.follow_tokens(&b.stream, &b.of(2), packed, &b.of(1), &mut b.of(1))
    } => "the next tokens: expected a length of 2, found 1";
    remember_tokens, |b| b.operations.remember_tokens(&b.stream, &b.of(2), (&b.of(3), &b.of(2)), &mut slot_tokens(b, 3))
        => "the slots of sampled tokens: expected a length of 2, found 3";
    remember_tokens, |b| b.operations.remember_tokens(&b.stream, &b.of(2), (&b.of(2), &b.of(1)), &mut slot_tokens(b, 3))
        => "the positions of sampled tokens: expected a length of 2, found 1";
    prepare_drafts, |b| prepare_drafts(b, 0, [4, 1, 4]) => "speculative decoding: 0 rows of a sequence and pages of 4 tokens; give 1 or more";
    prepare_drafts, |b| prepare_drafts(b, 3, [4, 1, 4]) => "the drafts of slots: expected a length of 6, found 3";
    prepare_drafts, |b| prepare_drafts(b, 2, [5, 2, 4]) => "the tokens of drafts: expected a length of 4, found 5";
    prepare_drafts, |b| prepare_drafts(b, 2, [4, 3, 4]) => "the keys of sequences: expected a length of 2, found 3";
    prepare_drafts, |b| prepare_drafts(b, 2, [4, 2, 5]) => "the pages of sequences: expected a length of 4, found 5";
    accept_drafts, |b| accept_drafts(b, [5, 2, 4]) => "the sampled tokens: expected a length of 4, found 5";
    accept_drafts, |b| accept_drafts(b, [4, 3, 4]) => "the counts of accepted tokens: expected a length of 2, found 3";
    accept_drafts, |b| accept_drafts(b, [4, 2, 3]) => "the next tokens: expected a length of 4, found 3";
    keep_drafts, |b| keep_drafts(b, 0, [3, 2]) => "the drafted tokens: expected a length of 2, found 3";
    keep_drafts, |b| keep_drafts(b, 0, [2, 3]) => "the next tokens: expected a length of 2, found 3";
    keep_drafts, |b| keep_drafts(b, 1, [2, 2]) => "the drafts of a sequence: expected a length of 2, found 1";

    swiglu, |b| swiglu(b, 24, 5, 15) => "the gates of SwiGLU: the last row ends at element 25, and the buffer has 24";
    swiglu, |b| swiglu(b, 30, 6, 15) => "the values of SwiGLU: the last row ends at element 31, and the buffer has 30";
    swiglu, |b| swiglu(b, 30, 5, 16) => "the output of SwiGLU: expected a length of 15, found 16";
    gather_rows, |b| gather(b, 0, 15) => "a gather of rows: a table of 0 elements has no whole rows of 5";
    gather_rows, |b| gather(b, 9, 15) => "a gather of rows: a table of 9 elements has no whole rows of 5";
    gather_rows, |b| gather(b, 10, 14) => "the output of a gather of rows: expected a length of 15, found 14";
    gated_rms_norm, |b| gated_norm(b, 96, 0, 96, 576)
        => "gated RMSNorm: heads of 96 elements; give a power of two from 8 to 256";
    gated_rms_norm, |b| gated_norm(b, 64, 4, 64, 384)
        => "gated RMSNorm: an offset or a stride of 4 elements; give multiples of 8";
    gated_rms_norm, |b| gated_norm(b, 64, 8, 64, 384)
        => "z of gated RMSNorm: the last row ends at element 392, and the buffer has 384";
    gated_rms_norm, |b| gated_norm(b, 64, 0, 63, 384)
        => "the weights of gated RMSNorm: expected a length of 64, found 63";
    gated_rms_norm, |b| gated_norm(b, 64, 0, 64, 385)
        => "the output of gated RMSNorm: expected a length of 384, found 385";
    causal_conv, |b| conv_of(b, 3, [15, 5], [20, 2, 10, 10, 20])
        => "a causal convolution: filters of width 3; give 2 or 4";
    causal_conv, |b| conv_of(b, 4, [19, 5], [20, 2, 15, 15, 20])
        => "the weights of a causal convolution: expected a length of 20, found 19";
    causal_conv, |b| conv_of(b, 4, [20, 4], [20, 2, 15, 15, 20])
        => "the bias of a causal convolution: expected a length of 5, found 4";
    causal_conv, |b| conv(b, [19, 2, 15, 15, 20])
        => "x of a causal convolution: the last row ends at element 20, and the buffer has 19";
    causal_conv, |b| conv(b, [20, 1, 0, 0, 20])
        => "a causal convolution: 4 tokens are of no sequence; pass where sequences start and end";
    causal_conv, |b| conv(b, [20, 2, 14, 15, 20])
        => "the initial states of a causal convolution: expected a length of 15, found 14";
    causal_conv, |b| conv(b, [20, 2, 15, 14, 20])
        => "the last states of a causal convolution: expected a length of 15, found 14";
    causal_conv, |b| conv(b, [20, 2, 15, 15, 21])
        => "the output of a causal convolution: expected a length of 20, found 21";
    route_tokens, |b| route(b, (513, 2), 0, [0, 0]) => "the routing of tokens: 513 experts; give 1 to 512";
    route_tokens, |b| route(b, (8, 9), 24, [27, 27])
        => "the routing of tokens: 9 of 8 experts for a token; give 1 to 8";
    route_tokens, |b| route(b, (8, 2), 24, [4, 6]) => "the experts of tokens: expected a length of 6, found 4";
    route_tokens, |b| route(b, (8, 2), 25, [6, 6]) => "the router's logits: expected a length of 24, found 25";
    route_tokens, |b| route(b, (8, 2), 24, [6, 5]) => "the weights of experts: expected a length of 6, found 5";
    permute_by_expert, |b| permute(b, [7, 5, 6, 6]) => "the experts of tokens: expected a length of 6, found 7";
    permute_by_expert, |b| permute(b, [6, 4, 6, 6]) => "the offsets of experts: expected a length of 5, found 4";
    permute_by_expert, |b| permute(b, [6, 5, 5, 6]) => "the tokens of rows: expected a length of 6, found 5";
    permute_by_expert, |b| permute(b, [6, 5, 6, 7]) => "the rows of choices: expected a length of 6, found 7";
    combine_rows, |b| combine(b, [30, 6, 6, 14])
        => "the output of the combination of rows: expected a length of 15, found 14";
    combine_rows, |b| combine(b, [30, 2, 2, 15])
        => "the combination of rows: 0 of 512 experts for a token; give 1 to 32";
    combine_rows, |b| combine(b, [30, 7, 6, 15]) => "the rows of choices: expected a length of 6, found 7";
    combine_rows, |b| combine(b, [30, 6, 5, 15]) => "the weights of experts: expected a length of 6, found 5";
    combine_rows, |b| combine(b, [29, 6, 6, 15]) => "the rows to combine: expected a length of 30, found 29";
    weight_only_gemv, |b| weight_only_gemv(b, |w| w.group = 16, [96, 6, 6, 64, 3])
        => "a weight-only GEMV: groups of 16 weights; give 32, 64 or 128";
    weight_only_gemv, |b| weight_only_gemv(b, |w| w.k = 80, [96, 6, 6, 64, 3])
        => "a weight-only GEMV: rows of 80 weights; give a multiple of the group, 32, up to 2^20";
    weight_only_gemv, |b| weight_only_gemv(b, |w| w.format = WeightFormat::E4m3, [192, 6, 6, 64, 3])
        => "a weight-only GEMV: weights of e4m3 have no zero points";
    weight_only_gemv, |b| weight_only_gemv(b, |_| (), [95, 6, 6, 64, 3]) => "quantized weights: expected a length of 96, found 95";
    weight_only_gemv, |b| weight_only_gemv(b, |_| (), [96, 7, 6, 64, 3])
        => "the scales of weights: expected a length of 6, found 7";
    weight_only_gemv, |b| weight_only_gemv(b, |_| (), [96, 6, 5, 64, 3])
        => "the zero points of weights: expected a length of 6, found 5";
    weight_only_gemv, |b| weight_only_gemv(b, |_| (), [96, 6, 6, 64, 4])
        => "the results of a weight-only GEMV: expected a length of 3, found 4";
    weight_only_gemv, |b| weight_only_gemv(b, |_| (), [96, 6, 6, 65, 3])
        => "the vectors of a weight-only GEMV: expected a length of 64, found 65";
    add_weight_only_gemv, |b| gemv_by(b, Operations::add_weight_only_gemv, |_| (), [96, 6, 6, 64, 4])
        => "the results of a weight-only GEMV: expected a length of 3, found 4";

    decode_attention, |b| decode_of(b, |shape| shape.heads.head_dim = 80)
        => "decode attention: a head dimension of 80; give one of [64, 96, 128, 192, 256]";
    decode_attention, |b| decode_of(b, |shape| shape.heads.key_heads = 3)
        => "decode attention: 4 query heads and 3 key heads; give a multiple of the key heads, 1 or more of each";
    decode_attention, |b| decode_of(b, |shape| shape.cache.page_size = 24)
        => "decode attention: pages of 24 keys; give one of [16, 32, 64, 128, 256]";
    decode_attention, |b| decode_of(b, |shape| shape.queries = 65)
        => "decode attention: 65 queries of 2 query heads per key head; give 1 to 64 queries";
    decode_attention, |b| decode_of(b, |shape| shape.cache.pages_per_sequence = 0)
        => "decode attention: a block table without entries; give 1 page per sequence or more";
    decode_attention, |b| decode_of(b, |shape| (shape.batch, shape.cache.pages_per_sequence) = (0, 1 << 28))
        => "decode attention: 0 sequences of up to 4294967296 keys and 2 key heads are more than 2^31 keys of a sequence, or 2^35 keys of all heads; do the work in parts";
    decode_attention, |b| decode_with(b, DecodeOptions { window: Some(0), ..DecodeOptions::default() })
        => "decode attention: a window of 0 keys; give 1 or more, or `None` for all";
    decode_attention, |b| decode_with(b, DecodeOptions { softcap: Some(-1.0), ..DecodeOptions::default() })
        => "decode attention: a softcap of -1; give a positive number, or `None` for none";
    decode_attention, |b| decode_with(b, DecodeOptions { softcap: Some(1e30), ..DecodeOptions::default() })
        => "decode attention: a softcap of 1000000000000000000000000000000; scores are off by 2^-23 of it: give at most 4096, or `None` for none";
    decode_attention, |b| decode_with(b, DecodeOptions { sink: Some(&b.f32(2)), ..DecodeOptions::default() })
        => "the sink of decode attention: expected a length of 4, found 2";
    decode_attention, |b| decode_grown(b, 0) => "Q of decode attention: expected a length of 1536, found 1537";
    decode_attention, |b| decode_grown(b, 1) => "the pool of K: expected a length of 10240, found 10241";
    decode_attention, |b| decode_grown(b, 2) => "the pool of V: expected a length of 10240, found 10241";
    decode_attention, |b| decode_grown(b, 3) => "the block table: expected a length of 4, found 5";
    decode_attention, |b| decode_grown(b, 4) => "the lengths of sequences: expected a length of 2, found 3";
    decode_attention, |b| decode_grown(b, 5)
        => "the output of decode attention: expected a length of 1536, found 1537";
    decode_attention, |b| decode_grown(b, 6)
        => "the LSE of decode attention: expected a length of 24, found 25";
    decode_attention, |b| decode_grown(b, 7)
        => "the gates of decode attention: the last head ends at element 3008, and the buffer has 1536";
};

#[test]
fn every_operation_refuses_what_does_not_fit() {
    expect_refusals(REFUSALS);
}

/// Operations that take any shape: what they are given has one buffer at most, and that of any
/// length.
const TAKE_ANYTHING: &[&str] =
    &["reduce", "reduce_rounding_steps", "scan_rounding_steps", "takes_weight_only_gemm"];

/// The table above has every operation: it is read off the sources of all families but the
/// products'.
#[test]
fn no_operation_is_left_out() {
    let mut operations = BTreeSet::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).expect("the sources") {
            let path = entry.expect("the sources").path();
            if path.is_dir() {
                folders.extend((!path.ends_with("gemm") && !path.ends_with("sgemm")).then_some(path));
                continue;
            }
            let source = std::fs::read_to_string(&path).expect("the source");
            // What operations have in common is in the file of their name.
            let families = if path.ends_with("src/operations.rs") { 0 } else { usize::MAX };
            for methods in source.split("\nimpl Operations {\n").skip(1).take(families) {
                let methods = methods.split("\n}\n").next().expect("the first of some");
                let names = methods.lines().filter_map(|line| line.strip_prefix("    pub fn "));
                operations
                    .extend(names.map(|name| name.split(['<', '(']).next().expect("a name").to_owned()));
            }
        }
    }
    // An operation with a configuration refuses what the operation itself does.
    let all = operations.clone();
    operations.retain(|name| {
        let bases = [name.strip_suffix("_as"), name.strip_suffix("_by"), name.strip_prefix("tuned_")];
        !bases.into_iter().flatten().any(|base| all.contains(base))
    });
    let refused = REFUSALS.iter().map(|(operation, ..)| *operation);
    let known: BTreeSet<String> = refused.chain(TAKE_ANYTHING.iter().copied()).map(str::to_owned).collect();
    let unknown: Vec<_> = operations.difference(&known).collect();
    assert!(unknown.is_empty(), "no refusal: {unknown:?}");
    let gone: Vec<_> = known.difference(&all).collect();
    assert!(gone.is_empty(), "no operation: {gone:?}");
}

fn by_radix(bench: &Bench, change: fn(&mut Radix)) -> Outcome {
    let mut sort = Radix::for_keys::<u32>(Ascending);
    change(&mut sort);
    sorted_by(bench, |b, keys, sorted| radix::keys(&b.operations, &b.stream, keys, sorted, sort))
}

/// What kernels are configured by, and the lengths of buffers that they are given without
/// [`Operations`].
const CONFIGURATIONS: &[Refusal] = refusals! {
    radix, |b| {
        let sort = Radix::for_keys::<f32>(Ascending);
        radix::keys(&b.operations, &b.stream, &b.f32(10), &mut b.f32(9), sort)
    } => "the output of a sort: expected a length of 10, found 9";
    radix, |b| {
        let (input, mut output) = ((b.f32(10), b.f32(10)), (b.f32(9), b.f32(10)));
        let output = (&mut output.0, &mut output.1);
        let sort = Radix::for_pairs::<f32, f32>(Ascending);
        radix::pairs(&b.operations, &b.stream, (&input.0, &input.1), output, sort)
    } => "the buffer of sorted keys: expected a length of 10, found 9";
    radix, |b| by_radix(b, |sort| sort.sweep.threads = 128)
        => "a radix sort: its CTAs have 128 threads; give them a multiple of 32 from 256 to 1024";
    radix, |b| by_radix(b, |sort| sort.histogram.threads = 33)
        => "the counting of a radix sort: its CTAs have 33 threads; give them a multiple of 32 from 32 to 1024";
    radix, |b| by_radix(b, |sort| sort.histogram.direction = Direction::Descending)
        => "a radix sort: its digits are counted in one direction and sorted in the other; give both the same";
    radix, |b| by_radix(b, |sort| sort.sweep.items = 0)
        => "a radix sort: it has 0 keys a thread; give it 1 to 512";
    radix, |b| by_radix(b, |sort| sort.most_of_a_launch = 1 << 32)
        => "a radix sort: it has 4294967296 keys a launch; give it 1 to 2147483648";
    radix, |b| by_radix(b, |sort| sort.histogram.copies = 0)
        => "a radix sort: it has 0 copies of a counter; give it 1 to 32";
    radix, |b| by_radix(b, |sort| sort.sweep.items = 400)
        => "a radix sort: its CTAs take 628784 bytes of shared memory, and have 232448; give them fewer threads, keys or copies";
};

#[test]
fn every_configuration_refuses_what_its_kernel_cannot_do() {
    expect_refusals(CONFIGURATIONS);
}
