//! The forward kernel's configuration for a problem.

use strum::{EnumMessage, IntoStaticStr, VariantArray};

use crate::attention::forward::{BLOCK, ForwardKernel};
use crate::attention::problem::{Attention, Mask, Shape};
use crate::operations::{OperationError, Result};

/// Where V of e4m3 is transposed: the tensor cores read it with keys contiguous.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, EnumMessage, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "kebab-case")]
pub enum TransposeV {
    /// In the stream's workspace, of about V's size, by a kernel before the forward kernel: once for all tiles
    /// of queries. Not of a paged cache.
    Before,
    /// In shared memory, by the forward kernel: by every tile of queries again.
    #[default]
    Inside,
}

/// What may be chosen of the forward kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Configuration {
    /// Consumer warpgroups of a CTA, of 64 queries each.
    pub consumers: u32,
    /// Keys of a block.
    pub block: u32,
    /// Tiles of Q in shared memory.
    pub q_stages: u32,
    /// Blocks of K, and of V, in shared memory.
    pub stages: u32,
    /// CTAs of a cluster: neighboring tiles of a head, which share K and V.
    pub cluster: u32,
    /// Heads whose K and V are read at the same time.
    pub section: u32,
    /// Where V is transposed. The kernel for 16-bit types reads V as it is.
    pub transpose_v: TransposeV,
}

/// What transposing V before the kernel costs for each block of V, and for each launch: in blocks that a tile
/// of queries would have transposed.
///
/// From three shapes on an H200 (d 128, 16 heads, `docs/results/2026-11-23-attention-fp8.md`): 16,384 queries take
/// 73 us less with V transposed before, four sequences of 2,048 take 2.9 us more, and one 5.2 us more.
const BLOCK_COST: u64 = 5;
const LAUNCH_COST: u64 = 12_600;

/// Bytes of L2 that the K and V of a section may take, of 50 MB.
const SECTION_BYTES: u64 = 16 << 20;

impl Configuration {
    /// The fastest configuration known.
    ///
    /// The accumulators of S (block / 2 registers per thread), P (block / 4) and O (value_dim / 2)
    /// fit 240 registers of two consumers, or 160 of three; Q, two blocks of K and two of V fit
    /// into 227 KB of shared memory.
    pub fn of(attention: &Attention) -> Self {
        let Shape { queries, keys, heads, kv_heads, head_dim, value_dim, .. } = attention.shape;
        let full = attention.mask == Mask::Full;
        let (consumers, block) = match head_dim.max(value_dim) {
            0..=64 => (3, 128),
            65..=96 => (2, 144),
            97..=128 => (2, 128),
            129..=192 => (2, 96),
            // Of 64 keys, pages are whole parts: 1.02 of the speed with 80.
            _ if attention.cache.is_some() => (2, 64),
            _ => (2, 80),
        };
        // Causal tiles that are neighbors have unlike lengths; packed sequences too.
        let cluster = if full && !attention.is_packed() && queries >= 16 * 64 * consumers { 2 } else { 1 };
        let group = heads / kv_heads.max(1);
        let kv_bytes = 2 * u64::from(keys) * (u64::from(head_dim) + u64::from(value_dim));
        let resident = u32::try_from(SECTION_BYTES / kv_bytes.max(1)).unwrap_or(u32::MAX).clamp(1, 1 << 16);
        let section = group.saturating_mul(resident);
        let q_stages = if head_dim <= 128 { 2 } else { 1 };
        let transpose_v = TransposeV::default();
        Self { consumers, block, q_stages, stages: 2, cluster, section, transpose_v }
    }

    /// The fastest configuration known for e4m3.
    ///
    /// Q, K and V take half the shared memory of 16-bit types. Blocks have as many keys as the
    /// squares in which V is transposed.
    pub fn of_fp8(attention: &Attention) -> Self {
        let Shape { head_dim, value_dim, .. } = attention.shape;
        // S, P and O of 128 columns fit 160 registers of three consumers.
        let (consumers, stages) = if head_dim.max(value_dim) <= 128 { (3, 4) } else { (2, 2) };
        let transpose_v = transpose_v(attention, 64 * consumers);
        Self { consumers, block: BLOCK, q_stages: 2, stages, transpose_v, ..Self::of(attention) }
    }

    /// Refuses what no kernel for e4m3 does.
    pub(crate) fn check_fp8(&self, attention: &Attention) -> Result<()> {
        let reason = if self.block != BLOCK {
            format!("its blocks have {} keys; those of e4m3 have {BLOCK}", self.block)
        } else if self.transpose_v == TransposeV::Before && attention.cache.is_some() {
            "V in the pages of a cache is not transposed before the kernel; pass `TransposeV::Inside`"
                .to_owned()
        } else {
            return self.check();
        };
        Err(OperationError::Shape { what: "an attention", reason })
    }

    /// Refuses numbers that no kernel has.
    pub(crate) fn check(&self) -> Result<()> {
        let Self { consumers, block, q_stages, stages, cluster, section, .. } = *self;
        let reason = if !(1..=3).contains(&consumers) {
            format!("its CTAs have {consumers} consumer warpgroups; use 1 to 3")
        } else if !block.is_multiple_of(16) || !(16..=256).contains(&block) {
            format!("its blocks have {block} keys; use a multiple of 16 up to 256")
        } else if !(1..=8).contains(&q_stages) || !(1..=8).contains(&stages) {
            format!("it has {q_stages} tiles of Q and {stages} blocks in shared memory; use 1 to 8")
        } else if !(1..=2).contains(&cluster) || section == 0 {
            format!(
                "its clusters have {cluster} CTAs and its sections {section} heads; use 1 or 2, and 1 or more"
            )
        } else {
            return Ok(());
        };
        Err(OperationError::Shape { what: "an attention", reason })
    }

    /// The kernel of the configuration.
    pub(crate) fn kernel(self, attention: &Attention) -> ForwardKernel {
        let Shape { head_dim, value_dim, .. } = attention.shape;
        let Self { consumers, block, q_stages, stages, cluster, .. } = self;
        ForwardKernel {
            head_dim,
            value_dim,
            consumers,
            block,
            q_stages,
            stages,
            cluster: if attention.is_packed() { 1 } else { cluster },
            mask: attention.mask.bounds(),
            packed: attention.is_packed(),
            page_size: attention.cache.map(|cache| cache.page_size),
            capped: attention.bound.is_some(),
            biased: attention.biased,
            sinks: attention.sinks,
            fp8: None,
        }
    }
}

/// Where it takes less time to transpose V for tiles of `rows` queries.
fn transpose_v(attention: &Attention, rows: u32) -> TransposeV {
    let Shape { batch, heads, kv_heads, .. } = attention.shape;
    let [queries, keys] = attention.rows();
    // Those of a sequence that see a key, in the mean.
    let queries = (queries / batch.max(1) as usize) as u32;
    let seeing = match attention.mask {
        Mask::Full => queries,
        // Of as many keys as queries; of more keys, more see them.
        Mask::Causal => queries / 2,
        Mask::Window { left, right } => queries.min(left.saturating_add(right).saturating_add(1)),
    };
    let tiles = u64::from(seeing.div_ceil(rows)) * u64::from(heads / kv_heads.max(1));
    let blocks = (keys / BLOCK as usize) as u64 * u64::from(kv_heads);
    let saved = blocks.saturating_mul(tiles.saturating_sub(BLOCK_COST));
    if attention.cache.is_none() && saved >= LAUNCH_COST { TransposeV::Before } else { TransposeV::Inside }
}
