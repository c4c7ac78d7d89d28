//! Tutorial 11, Online softmax and the delta rule: the arithmetic of the library's attention and of
//! its gated delta rule, at sizes that can be printed. The chapter is
//! `book/src/models/online_softmax_and_delta_rule.md`.

use std::array::from_fn;
use std::error::Error;
use std::f32::consts::{LN_2, LOG2_E};
use std::io::Write;

use warpwright::compare::{Tolerance, compare};
use warpwright::prelude::*;
use warpwright::runtime::Device;

/// Keys of a row, and of a block.
const KEYS: u32 = 16;
const BLOCK: u32 = 4;

/// The softmax of a row. The maximum rises only for a score that exceeds it by more than `slack`
/// powers of two.
struct Row {
    slack: f32,
}

impl Row {
    /// `steps` is (block, 4): m, the factor, l and o after each block.
    #[kernel]
    fn run(&self, scores: &Global<f32>, values: &Global<f32>, steps: &mut Global<f32>) {
        launch::threads(1);
        let (mut m, mut l, mut o) = (constant(f32::NEG_INFINITY), constant(0.0f32), constant(0.0f32));
        for block in 0..KEYS / BLOCK {
            let keys = [0, 1, 2, 3].map(|i| block * BLOCK + i);
            let powers = keys.map(|key| scores[key] * LOG2_E);
            let highest = powers[0].max(powers[1]).max(powers[2].max(powers[3]));
            let raised = (highest - m).gt(self.slack).select(highest, m);
            let factor = fast::exp2(m - raised);
            m = raised;
            (l, o) = (l * factor, o * factor);
            for i in 0..BLOCK as usize {
                let weight = fast::exp2(powers[i] - m);
                l += weight;
                o += weight * values[keys[i]];
            }
            for (i, value) in (0u32..).zip([m, factor, l, o]) {
                steps[block * 4 + i] = value;
            }
        }
    }
}

/// S of one warpgroup: 64 rows, 8 columns.
const ATOM: &str = "SM90_64x8x16_F32BF16BF16_SS";

/// Every thread writes its index and the number of the register to its elements of the accumulator.
#[kernel]
fn stamp(owners: &mut Global<u32>) {
    launch::threads(128);
    let thread = thread_idx().x;
    let tile = Tensor::with_layout(*owners, Layout::row_major((64, 8)));
    let mine = TiledMma::warpgroups(ATOM, 1).thread(thread).c(&tile);
    for register in 0..4 {
        mine.set(register, thread * 10 + register);
    }
}

/// Elements of a key and of a value; tokens, and those of a chunk.
const D: usize = 4;
const TOKENS: usize = 8;
const CHUNK: usize = 4;

/// q, k or v of a token, and a matrix of rows.
type Vector = [Reg<f32>; D];
type Matrix = [Vector; D];

fn dot(a: Vector, b: Vector) -> Reg<f32> {
    (1..D).fold(a[0] * b[0], |sum, i| sum + a[i] * b[i])
}

/// Mᵀ x: a sum of the rows of a matrix.
fn sum_of_rows(matrix: &Matrix, x: Vector) -> Vector {
    from_fn(|j| dot(from_fn(|i| matrix[i][j]), x))
}

fn zeros() -> Matrix {
    [[constant(0.0f32); D]; D]
}

/// Token `i`: q, k and v, its log-decay and its beta.
fn token(tokens: Global<f32>, i: usize) -> ([Vector; 3], [Reg<f32>; 2]) {
    let first = (i * (3 * D + 2)) as u32;
    let number = |j: usize| tokens.at(first + j as u32).load();
    (from_fn(|part| from_fn(|j| number(part * D + j))), [number(3 * D), number(3 * D + 1)])
}

/// Stores a matrix.
fn store(matrix: &Matrix, target: Global<f32>) {
    for (i, value) in (0u32..).zip(matrix.iter().flatten()) {
        target.at(i).store(*value);
    }
}

/// Token by token. `o` is (token, v); `state` is S, (k, v).
#[kernel]
fn recurrence(tokens: &Global<f32>, o: &mut Global<f32>, state: &mut Global<f32>) {
    launch::threads(1);
    let mut s = zeros();
    for i in 0..TOKENS {
        let ([q, k, v], [log_decay, beta]) = token(*tokens, i);
        let decay = fast::exp2(log_decay * LOG2_E);
        let decayed: Matrix = s.map(|row| row.map(|value| value * decay));
        let recalled = sum_of_rows(&decayed, k);
        let delta: Vector = from_fn(|j| beta * (v[j] - recalled[j]));
        s = from_fn(|row| from_fn(|j| decayed[row][j] + k[row] * delta[j]));
        for (j, value) in (0u32..).zip(sum_of_rows(&s, q)) {
            o[(i * D) as u32 + j] = value;
        }
    }
    store(&s, *state);
}

/// Chunk by chunk. `inverses` is (chunk, 2, i, j): A and T.
#[kernel]
fn chunks(tokens: &Global<f32>, o: &mut Global<f32>, state: &mut Global<f32>, inverses: &mut Global<f32>) {
    launch::threads(1);
    let mut s = zeros();
    for chunk in 0..TOKENS / CHUNK {
        let of_chunk: [_; CHUNK] = from_fn(|i| token(*tokens, chunk * CHUNK + i));
        let mut sums = [constant(0.0f32); CHUNK];
        for i in 0..CHUNK {
            let [log_decay, _] = of_chunk[i].1;
            sums[i] = if i == 0 { log_decay } else { sums[i - 1] + log_decay };
        }
        // e^(G_i - G_j), and e^G_i.
        let between = |i: usize, j: usize| fast::exp2((sums[i] - sums[j]) * LOG2_E);
        let from_start = |i: usize| fast::exp2(sums[i] * LOG2_E);

        let (mut a, mut t, mut p) = (zeros(), zeros(), zeros());
        let mut replacements = zeros();
        for i in 0..CHUNK {
            let ([q, k, v], [_, beta]) = of_chunk[i];
            t[i][i] = constant(1.0f32);
            for j in 0..=i {
                let [_, other, _] = of_chunk[j].0;
                p[i][j] = dot(q, other) * between(i, j);
                if j < i {
                    a[i][j] = beta * dot(k, other) * between(i, j);
                    t[i] = from_fn(|column| t[i][column] - a[i][j] * t[j][column]);
                }
            }
            let recalled = sum_of_rows(&s, k);
            replacements[i] = from_fn(|j| beta * (v[j] - from_start(i) * recalled[j]));
        }
        // Δ = T X.
        let delta: Matrix = from_fn(|i| sum_of_rows(&replacements, t[i]));
        for i in 0..CHUNK {
            let [q, _, _] = of_chunk[i].0;
            let (read, added) = (sum_of_rows(&s, q), sum_of_rows(&delta, p[i]));
            for j in 0..D {
                o[((chunk * CHUNK + i) * D + j) as u32] = from_start(i) * read[j] + added[j];
            }
        }
        let last = CHUNK - 1;
        let kept: [Vector; CHUNK] = from_fn(|i| of_chunk[i].0[1].map(|k| k * between(last, i)));
        s = from_fn(|row| {
            let added = sum_of_rows(&delta, from_fn(|i| kept[i][row]));
            from_fn(|j| from_start(last) * s[row][j] + added[j])
        });
        let target = inverses.at((chunk * 2 * D * D) as u32);
        store(&a, target);
        store(&t, target.at((D * D) as u32));
    }
    store(&s, *state);
}

/// Prints the steps of both, and compares them with the softmax and with the recurrence.
pub(crate) fn lesson(device: &Device, out: &mut dyn Write) -> Result<(), Box<dyn Error>> {
    let stream = device.stream()?;
    let scores = [0.5f32, 1.0, -1.0, 2.0, 1.5, 3.0, 0.0, -2.0, 2.5, 2.0, 4.0, 1.0, -1.0, 0.5, 3.5, 2.0];
    let values: Vec<f32> = (0..KEYS).map(|key| key as f32 / 4.0).collect();
    let weights = scores.map(f32::exp);
    let total: f32 = weights.iter().sum();
    let expected = weights.iter().zip(&values).map(|(weight, value)| weight * value).sum::<f32>() / total;
    let (scores, values) = (device.buffer_from(&scores)?, device.buffer_from(&values)?);
    for slack in [0.0, 8.0] {
        let mut steps = device.uninitialized::<f32>((KEYS / BLOCK * 4) as usize)?;
        let kernel = device.compile(&Row { slack }.run()?)?;
        kernel.launch(&stream, 1, (&scores, &values, &mut steps))?;
        writeln!(out, "slack {slack}   block      m  factor       l       o     o/l")?;
        for (block, step) in steps.to_vec()?.chunks(4).enumerate() {
            let [m, factor, l, o] = [step[0] * LN_2, step[1], step[2], step[3]];
            writeln!(out, "{block:15} {m:6.2} {factor:7.3} {l:7.3} {o:7.3} {:7.3}", o / l)?;
            if block == 3 {
                compare(&[o / l], &[expected], Tolerance::absolute(1e-5))?;
            }
        }
    }
    writeln!(out, "at once: {expected:.3}\n")?;

    let mut owners = device.uninitialized::<u32>(64 * 8)?;
    device.compile(&stamp()?)?.launch(&stream, 1, (&mut owners,))?;
    let owners = owners.to_vec()?;
    for row in [0, 1, 7, 8, 9, 15, 16, 63] {
        let named = owners[row * 8..][..8].iter().map(|owner| format!("{:>4}.{}", owner / 10, owner % 10));
        writeln!(out, "row {row:2}: {}", named.collect::<String>())?;
    }
    writeln!(out)?;

    let hash = |i: usize| (i as u32).wrapping_mul(2_654_435_761) >> 20;
    let of_token = |i: usize| -> Vec<f32> {
        let numbers = |part: usize| (0..D).map(move |j| hash(i * 12 + part * 4 + j) as f32 / 2048.0 - 1.0);
        let unit = |part: usize| {
            let length = numbers(part).map(|x| x * x).sum::<f32>().sqrt();
            numbers(part).map(move |x| x / length)
        };
        unit(0).chain(unit(1)).chain(numbers(2)).chain([-0.1, 0.5]).collect()
    };
    let tokens: Vec<f32> = (0..TOKENS).flat_map(of_token).collect();
    let tokens = device.buffer_from(&tokens)?;
    let results = || -> Result<_, Box<dyn Error>> {
        Ok((device.uninitialized::<f32>(TOKENS * D)?, device.uninitialized::<f32>(D * D)?))
    };
    let ((mut o, mut state), (mut chunk_o, mut chunk_state)) = (results()?, results()?);
    let mut inverses = device.uninitialized::<f32>(TOKENS / CHUNK * 2 * D * D)?;
    device.compile(&recurrence()?)?.launch(&stream, 1, (&tokens, &mut o, &mut state))?;
    let arguments = (&tokens, &mut chunk_o, &mut chunk_state, &mut inverses);
    device.compile(&chunks()?)?.launch(&stream, 1, arguments)?;
    let inverses = inverses.to_vec()?;
    writeln!(out, "A{:32}T = (I + A)⁻¹", "")?;
    for i in 0..D {
        let row = |from: usize| inverses[from + i * D..][..D].iter().map(|x| format!("{x:7.3}"));
        writeln!(out, "{}     {}", row(0).collect::<String>(), row(D * D).collect::<String>())?;
    }
    for (by_chunks, by_tokens) in [(chunk_o, o), (chunk_state, state)] {
        compare(&by_chunks.to_vec()?, &by_tokens.to_vec()?, Tolerance::absolute(1e-6))?;
    }
    writeln!(out, "o and S of {TOKENS} tokens: the same to 1e-6")?;
    Ok(())
}

fn main() -> Result<(), Box<dyn Error>> {
    lesson(&Device::default()?, &mut std::io::stdout())
}
