//! Clusters: CTAs that are co-scheduled, synchronize, and access each other's shared memory. sm_90.
//! PTX ISA, "Cluster of Cooperative Thread Arrays".
//!
//! [`launch::cluster`](crate::launch::cluster) states a kernel's cluster. [`Shared::map_to_block`]
//! maps a pointer to the same offset in another CTA's shared memory. The result is a
//! [`ClusterShared`] pointer, with loads, stores, vectors and atomic operations, and the
//! asynchronous operations below.
//!
//! ```
//! use warpwright_lang::cluster::{cluster_rank, cluster_sync};
//! use warpwright_lang::pointer::Global;
//! use warpwright_lang::shared::shared_array;
//! use warpwright_lang::{kernel, launch, special::{block_idx, thread_idx}};
//!
//! /// Each CTA of a pair writes what the other one read.
//! #[kernel]
//! fn swap(input: &Global<f32>, output: &mut Global<f32>) {
//!     launch::threads(32);
//!     launch::cluster(2, 1, 1);
//!     let mine = shared_array::<f32>(32);
//!     let (thread, at) = (thread_idx().x, block_idx().x * 32 + thread_idx().x);
//!     mine[thread] = input[at];
//!     cluster_sync();
//!     output[at] = mine.map_to_block(cluster_rank() ^ 1)[thread];
//!     cluster_sync(); // no CTA ends while its memory is read
//! }
//! assert!(swap().is_ok());
//! ```

use warpwright_ir::Operand;

use crate::element::Element;
use crate::launch::demand_ranks;
use crate::mbarrier::RemoteMbarrier;
use crate::operation::{compute, perform, record, refuse};
use crate::pointer::{ClusterShared, Shared};
use crate::requirement::{Feature, require};
use crate::value::{Reg, Value};

pub use crate::special::{
    block_idx_in_cluster, cluster_dim, cluster_grid_dim, cluster_idx, cluster_rank, cluster_size,
};

/// Waits until all threads of the cluster arrive. What they wrote before is then visible to all of
/// them. All threads of a warp execute it together; otherwise use [`cluster_sync_diverged`].
#[track_caller]
pub fn cluster_sync() {
    cluster_arrive();
    cluster_wait();
}

/// The first half of [`cluster_sync`]: this thread arrives, and releases what it wrote.
#[track_caller]
pub fn cluster_arrive() {
    cluster_barrier("arrive");
}

/// [`cluster_arrive`] without a release.
#[track_caller]
pub fn cluster_arrive_relaxed() {
    cluster_barrier("arrive.relaxed");
}

/// The second half of [`cluster_sync`]: waits until all threads have arrived.
#[track_caller]
pub fn cluster_wait() {
    cluster_barrier("wait");
}

/// [`cluster_sync`] for threads of a warp that have diverged, if the other threads execute one in
/// their branch.
#[track_caller]
pub fn cluster_sync_diverged() {
    cluster_arrive_diverged();
    cluster_wait_diverged();
}

/// [`cluster_arrive`] for threads that may have diverged from their warp.
#[track_caller]
pub fn cluster_arrive_diverged() {
    perform_half("arrive");
}

/// [`cluster_arrive_relaxed`] for threads that may have diverged from their warp.
#[track_caller]
pub fn cluster_arrive_relaxed_diverged() {
    perform_half("arrive.relaxed");
}

/// [`cluster_wait`] for threads that may have diverged from their warp.
#[track_caller]
pub fn cluster_wait_diverged() {
    perform_half("wait");
}

/// A half that all threads of a warp execute together.
#[track_caller]
fn cluster_barrier(half: &str) {
    perform_half(&format!("{half}.aligned"));
}

#[track_caller]
fn perform_half(half: &str) {
    require(Feature::Clusters);
    perform(format!("barrier.cluster.{half}"), []);
}

impl<T: Element> Shared<T> {
    /// The same offset in the shared memory of CTA `rank` of the cluster: `mapa`.
    #[track_caller]
    pub fn map_to_block(self, rank: impl Value<u32>) -> ClusterShared<T> {
        require(Feature::Clusters);
        demand_ranks("map_to_block", rank.operand(), false);
        let base = compute("mapa.shared::cluster.u32", [self.address().operand(), rank.operand()]);
        self.moved(base)
    }
}

impl<T: Element> ClusterShared<T> {
    /// The rank of the CTA whose shared memory this points to: `getctarank`.
    #[track_caller]
    pub fn rank(self) -> Reg<u32> {
        require(Feature::Clusters);
        compute("getctarank.shared::cluster.u32", [self.address().operand()])
    }

    /// Stores the element asynchronously. When it has arrived, `barrier`, in the same CTA as the
    /// element, counts its bytes as copied. `st.async`: elements of 32 and 64 bits.
    #[track_caller]
    pub fn store_async(self, value: impl Value<T>, barrier: RemoteMbarrier) {
        self.store_vector_async([value.reg()], barrier);
    }

    /// [`store_async`](Self::store_async) of 1, 2 or 4 consecutive elements, at most 16 bytes; the
    /// address is a multiple of their total size.
    #[track_caller]
    pub fn store_vector_async<const N: usize>(self, values: [Reg<T>; N], barrier: RemoteMbarrier) {
        require(Feature::Clusters);
        self.demand_writable();
        if !matches!(T::BYTES, 4 | 8) || !matches!(N, 1 | 2 | 4) || N as u32 * T::BYTES > 16 {
            return refuse(format!(
                "an asynchronous store moves 1, 2 or 4 elements of 4 bytes, or 1 or 2 of 8; this moves {N} of {} ({} bytes each)",
                T::NAME,
                T::BYTES
            ));
        }
        let vector = if N == 1 { String::new() } else { format!(".v{N}") };
        let opcode =
            format!("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes{vector}.b{}", 8 * T::BYTES);
        let mut values = values.map(Reg::operand).to_vec();
        let value = if N == 1 { values.remove(0) } else { Operand::Vector(values) };
        record(opcode, 0, vec![self.operand(), value, barrier.object().operand()]);
    }
}

/// A type with asynchronous reductions in the cluster's shared memory.
pub trait AsyncReduced: Element {
    /// Whether it has minimum and maximum.
    const HAS_ORDER: bool;
}

impl AsyncReduced for u32 {
    const HAS_ORDER: bool = true;
}

impl AsyncReduced for i32 {
    const HAS_ORDER: bool = true;
}

impl AsyncReduced for u64 {
    const HAS_ORDER: bool = false;
}

/// The operation of an asynchronous reduction on the element in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AsyncReduction {
    /// Adds the value.
    Add,
    /// Takes the minimum.
    Min,
    /// Takes the maximum.
    Max,
    /// Increments up to the value, then restarts from 0; u32.
    Increment,
    /// Decrements; from 0 and from above the value, restarts at it; u32.
    Decrement,
    /// Bitwise and; 32 bits.
    And,
    /// Bitwise or; 32 bits.
    Or,
    /// Bitwise exclusive or; 32 bits.
    Xor,
}

impl AsyncReduction {
    /// The operation and its type, if it exists for the type.
    fn words<T: AsyncReduced>(self) -> Option<String> {
        let word = match self {
            AsyncReduction::Add => "add",
            AsyncReduction::Min => "min",
            AsyncReduction::Max => "max",
            AsyncReduction::Increment => "inc",
            AsyncReduction::Decrement => "dec",
            AsyncReduction::And => "and",
            AsyncReduction::Or => "or",
            AsyncReduction::Xor => "xor",
        };
        match self {
            AsyncReduction::Add => Some(format!("{word}.{}", T::PTX)),
            AsyncReduction::Min | AsyncReduction::Max => T::HAS_ORDER.then(|| format!("{word}.{}", T::PTX)),
            AsyncReduction::Increment | AsyncReduction::Decrement => {
                (T::PTX == "u32").then(|| format!("{word}.u32"))
            }
            AsyncReduction::And | AsyncReduction::Or | AsyncReduction::Xor => {
                (T::BYTES == 4).then(|| format!("{word}.b32"))
            }
        }
    }
}

impl<T: AsyncReduced> ClusterShared<T> {
    /// Reduces `value` into the element asynchronously. When that is done, `barrier`, in the same
    /// CTA as the element, counts its bytes as copied. `red.async`.
    #[track_caller]
    pub fn reduce_async(self, reduction: AsyncReduction, value: impl Value<T>, barrier: RemoteMbarrier) {
        require(Feature::Clusters);
        self.demand_writable();
        let Some(words) = reduction.words::<T>() else {
            return refuse(format!(
                "no asynchronous reduction of {} by {reduction:?} exists: Add reduces u32, i32 and u64; Min and Max reduce u32 and \
                 i32; Increment and Decrement reduce u32; And, Or and Xor reduce u32 and i32",
                T::NAME
            ));
        };
        let opcode =
            format!("red.async.relaxed.cluster.shared::cluster.mbarrier::complete_tx::bytes.{words}");
        perform(opcode, [self.operand(), value.operand(), barrier.object().operand()]);
    }
}
