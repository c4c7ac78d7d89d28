//! One token of each sequence: the state is read once and written once.
//!
//! ```text
//! state (128 k, 128 v) of a head        a CTA: `columns` of v      a thread: `rows` of k, 16 bytes of v
//! +---+---+---+---+                     +--------+
//! |   |   |   |   |            ->       | group 0|  threads side by side along v
//! | 0 | 1 | 2 | 3 |  CTAs               | group 1|
//! |   |   |   |   |                     |   ..   |  groups along k
//! +---+---+---+---+                     +--------+
//! ```
//!
//! Columns of the state are independent of one another. Both products with the state are taken of
//! the state as it was, so that one reduction over k serves both:
//!
//! ```text
//! r = Sᵀ k, w = Sᵀ q, k·k, q·q, q·k     sums over k of what registers hold
//! δ = β (v - e^g r)
//! o = e^g w + δ (q·k)                   as S' = e^g S + k δᵀ
//! ```
//!
//! The norms of q and k are factors of these sums. A kernel is then a load, a reduction and a store.
//! With one sequence of 32 heads, 128 CTAs have 16 KiB of state each: a load in flight for the
//! whole of it on every SM. L2 fetches it while the previous kernel ends, whose SMs have room for one
//! CTA of this launch each. With many sequences, an SM has 96 KiB of state in flight.

use warpwright::prelude::*;
use warpwright::runtime::DeviceProperties;

use super::gates::GateInputs;
use crate::delta_rule::problem::{EPSILON, HEAD, Heads};
use crate::operations::{OperationError, Result};
use crate::rows::RowElement;
use crate::vector;

/// The decode kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Decode {
    /// The heads.
    pub heads: Heads,
    /// Columns of the state of a CTA: 32, 64 or 128.
    pub columns: u32,
    /// Rows of the state of a thread: 4, 8 or 16.
    pub rows: u32,
    /// Programmatic dependent launch: the grid is launched before its predecessor ends (sm_90).
    pub dependent_launch: bool,
    /// Whether CTAs fetch what they load into L2 before the predecessor ends: where all of them are
    /// resident by then.
    pub prefetch: bool,
    /// Whether what writes the states is complete when the kernel is launched, as where the layers of a
    /// step have states of their own, and steps end with a synchronization. It then loads them before
    /// its predecessor ends.
    pub settled_states: bool,
    /// Bytes of shared memory of a CTA that lets the next launch begin at once, so that an SM has room
    /// for its CTAs alone; 0 where it begins after this one's loads.
    pub room: u32,
}

/// Threads that an SM has registers for, 80 of them each.
const THREADS_PER_SM: u32 = 768;
/// Elements of q and k that are loaded at once, at most.
const KEY_LANES: u32 = 8;

impl Decode {
    /// The fastest shape on an H200, fitted to a device of those properties.
    pub fn new(heads: Heads, sequences: u32, device: &DeviceProperties) -> Self {
        let dependent_launch = device.capability.compute_capability >= (9, 0);
        let (prefetch, settled_states) = (false, false);
        let decode =
            Self { heads, columns: 64, rows: 8, dependent_launch, prefetch, settled_states, room: 0 };
        if decode.ctas(sequences) >= 2 * u64::from(device.sm_count) {
            return decode;
        }
        // Smaller CTAs, to occupy every SM.
        let few = Self { columns: 32, rows: 16, prefetch: dependent_launch, ..decode };
        let is_one_of_an_sm = dependent_launch && few.ctas(sequences) <= u64::from(device.sm_count);
        let room = if is_one_of_an_sm { device.capability.shared_bytes_per_sm / 3 } else { 0 };
        Self { room, ..few }
    }

    /// Refuses shapes that no CTA has.
    pub(crate) fn check(&self) -> Result<()> {
        let Self { columns, rows, .. } = *self;
        if matches!(columns, 32 | 64 | 128) && matches!(rows, 4 | 8 | 16) {
            return Ok(());
        }
        let reason = format!(
            "{columns} columns of a CTA and {rows} rows of a thread; pass 32, 64 or 128 columns and 4, 8 or 16 rows"
        );
        Err(OperationError::Shape { what: "a decode of the gated delta rule", reason })
    }

    /// Threads along the columns.
    fn threads_along_v<S: RowElement>(&self) -> u32 {
        self.columns / vector::width::<S>()
    }

    /// Threads of a CTA.
    pub fn threads<S: RowElement>(&self) -> u32 {
        self.threads_along_v::<S>() * (HEAD / self.rows)
    }

    /// CTAs for that many sequences.
    pub fn ctas(&self, sequences: u32) -> u64 {
        u64::from(sequences) * u64::from(self.heads.values * (HEAD / self.columns))
    }

    /// `qkv` is (sequences, [`Heads::columns`]); `a` and `b` are (sequences, value heads); `a_log`
    /// and `dt_bias` are (value heads); `state` is (sequences, value heads, 128 k, 128 v), and `o`
    /// (sequences, value heads, 128).
    #[kernel]
    pub fn run<S: RowElement>(
        &self,
        qkv: &Global<bf16>,
        a: &Global<bf16>,
        b: &Global<bf16>,
        a_log: &Global<f32>,
        dt_bias: &Global<f32>,
        state: &mut Global<S>,
        o: &mut Global<bf16>,
    ) {
        launch::threads(self.threads::<S>());
        if self.rows * vector::width::<S>() <= 32 {
            // At most 80 registers per thread: an SM has 96 KiB of state in flight.
            launch::blocks_per_sm((THREADS_PER_SM / self.threads::<S>()).max(1));
        }
        let (lanes, along_v) = (vector::width::<S>(), self.threads_along_v::<S>());
        let (thread, splits) = (thread_idx().x, HEAD / self.columns);
        let head_of_all = block_idx().x / splits;
        let (sequence, head) = (head_of_all / self.heads.values, head_of_all % self.heads.values);
        let column = block_idx().x % splits * self.columns + thread % along_v * lanes;
        let row = thread / along_v * self.rows;

        let first = head_of_all.convert::<u64>() * u64::from(HEAD * HEAD);
        let state = state.at(first).at(row * HEAD + column);
        let token = qkv.at(sequence.convert::<u64>() * u64::from(self.heads.columns()));
        let key_head = head / self.heads.values_per_key();
        let (q, k) = (token.at(key_head * HEAD + row), token.at((key_head + self.heads.keys) * HEAD + row));
        let v = token.at((head + 2 * self.heads.keys) * HEAD + column);
        let load_state = || -> Vec<Vec<Reg<u32>>> {
            let row = |i: u32| vector::load_lanes(state.at(i * HEAD).cast::<u32>(), 4, Access::new());
            (0..self.rows).map(row).collect()
        };
        if self.room > 0 {
            dynamic_shared::<u8>(self.room);
            launch::grid_dependency_launch();
        }
        let mut before = vec![];
        if self.settled_states {
            before = load_state();
        }
        if self.dependent_launch {
            // A prefetch reads nothing, so it need not wait for what the predecessor writes.
            if self.prefetch {
                if !self.settled_states {
                    for i in 0..self.rows {
                        state.at(i * HEAD).prefetch_l2();
                    }
                }
                for vector in [q, k, v] {
                    vector.prefetch_l2();
                }
            }
            launch::grid_dependency_wait();
        }

        // Everything that is loaded, at once.
        if !self.settled_states {
            before = load_state();
        }
        let (q, k) = (self.vector(q), self.vector(k));
        let v = vector::load_lanes(v.cast::<u32>(), lanes / 2, Access::new());
        let v = widen::<bf16>(v);
        let at = (sequence, head, self.heads.values);
        let gates = GateInputs::load((*a, *b), (*a_log, *dt_bias), at);
        if self.dependent_launch && self.room == 0 {
            // After the loads are issued: CTAs of later launches that start before them delay this
            // one's (H200, one sequence in a graph: 2.9 us a launch in place of 4.1).
            launch::grid_dependency_launch();
        }
        let gates = gates.gates();
        let decay = gates.log_decay.exp();

        // This thread's part of the sums: recalled, read, then the three dot products.
        let before: Vec<Vec<Reg<f32>>> = before.into_iter().map(|words| widen::<S>(words)).collect();
        let mut columns = vec![constant(0f32); 2 * lanes as usize];
        let mut dots = vec![constant(0f32); 3];
        for (i, s) in before.iter().enumerate() {
            for lane in 0..lanes as usize {
                columns[lane] = k[i].mul_add(s[lane], columns[lane]);
                columns[lane + lanes as usize] = q[i].mul_add(s[lane], columns[lane + lanes as usize]);
            }
            for (dot, (x, y)) in dots.iter_mut().zip([(k[i], k[i]), (q[i], q[i]), (q[i], k[i])]) {
                *dot = x.mul_add(y, *dot);
            }
        }
        let (columns, dots) = self.reduce(columns, dots, along_v);

        let key_norm = (dots[0] + EPSILON).rsqrt();
        let query_norm = (dots[1] + EPSILON).rsqrt() * (1.0 / (HEAD as f32).sqrt());
        let (recall, read) = (decay * key_norm, decay * query_norm);
        let overlap = dots[2] * (key_norm * query_norm);
        let delta: Vec<Reg<f32>> =
            v.iter().zip(&columns).map(|(v, recalled)| gates.beta * (*v - recall * *recalled)).collect();
        for (i, s) in before.iter().enumerate() {
            let key = k[i] * key_norm;
            let after: Vec<Reg<f32>> =
                s.iter().zip(&delta).map(|(s, delta)| key.mul_add(*delta, decay * *s)).collect();
            let words: Vec<Reg<u32>> =
                after.chunks(4 / S::BYTES as usize).map(|values| S::narrow(values)).collect();
            vector::store_lanes(state.at(i as u32 * HEAD).cast::<u32>(), &words, Access::new());
        }
        if thread < along_v {
            let read: Vec<Reg<f32>> = delta
                .iter()
                .zip(&columns[lanes as usize..])
                .map(|(delta, old)| delta.mul_add(overlap, read * *old))
                .collect();
            let words: Vec<Reg<u32>> = read.chunks(2).map(|values| bf16::narrow(values)).collect();
            let o = o.at(head_of_all.convert::<u64>() * u64::from(HEAD)).at(column);
            vector::store_lanes(o.cast::<u32>(), &words, Access::new());
        }
    }

    /// The elements of q or k of this thread's rows.
    #[track_caller]
    fn vector(&self, from: Global<bf16>) -> Vec<Reg<f32>> {
        let lanes = self.rows.min(KEY_LANES);
        let load = |i| vector::load_lanes(from.at(i).cast::<u32>(), lanes / 2, Access::new());
        widen::<bf16>((0..self.rows).step_by(lanes as usize).flat_map(load).collect())
    }
}

/// The elements of words.
#[track_caller]
fn widen<T: RowElement>(words: Vec<Reg<u32>>) -> Vec<Reg<f32>> {
    let mut values = vec![];
    for word in words {
        values.extend(T::widen(word));
    }
    values
}

#[device]
impl Decode {
    /// The sums over the CTA's threads of `dots`, and over those with the same columns of
    /// `columns`: shuffles within a warp, then one exchange through shared memory.
    fn reduce(
        &self,
        columns: Vec<Reg<f32>>,
        dots: Vec<Reg<f32>>,
        along_v: u32,
    ) -> (Vec<Reg<f32>>, Vec<Reg<f32>>) {
        let mut sums: Vec<Reg<f32>> = columns.into_iter().chain(dots).collect();
        let mut distance = along_v;
        while distance < 32 {
            sums = sums.iter().map(|sum| *sum + sum.shuffle_xor(distance)).collect::<Vec<_>>();
            distance *= 2;
        }
        // A row of shared memory for each warp: the sums of each thread along v, and the dots.
        let count = sums.len() as u32 - 3;
        let warps = along_v * (HEAD / self.rows) / 32;
        let stride = along_v * count + 4;
        let exchanged = shared_array::<f32>(warps * stride);
        let (warp, lane) = (thread_idx().x / 32, thread_idx().x % 32);
        if lane < along_v {
            for i in (0..count).step_by(4) {
                let piece = &sums[i as usize..][..4];
                vector::store_lanes(exchanged.at(warp * stride + lane * count + i), piece, Access::new());
            }
        }
        if lane == 0 {
            let dots = [sums[count as usize], sums[count as usize + 1], sums[count as usize + 2]];
            exchanged.at(warp * stride + along_v * count).store_vector([dots[0], dots[1], dots[2], dots[2]]);
        }
        sync_threads();
        let mut totals = vec![constant(0f32); count as usize + 4];
        for warp in 0..warps {
            for i in (0..count).step_by(4) {
                let at = exchanged.at(thread_idx().x % along_v * count + (warp * stride + i));
                for (lane, sum) in at.load_vector::<4>().into_iter().enumerate() {
                    totals[i as usize + lane] = totals[i as usize + lane] + sum;
                }
            }
            let dots = exchanged.at(warp * stride + along_v * count).load_vector::<4>();
            for (lane, sum) in dots.into_iter().enumerate() {
                totals[count as usize + lane] = totals[count as usize + lane] + sum;
            }
        }
        let dots = totals[count as usize..][..3].to_vec();
        totals.truncate(count as usize);
        (totals, dots)
    }
}
