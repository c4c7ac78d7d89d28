//! V of e4m3 transposed before the forward kernel, in the stream's workspace.

use std::sync::Arc;

use warpwright::lang::pointer::In;
use warpwright::lang::tensor_map::OutTensorMap;
use warpwright::layout::Error;
use warpwright::prelude::*;
use warpwright::runtime::{self, Buffer, Compiled, LaunchCounts, Stream, TileMaps};

use crate::attention::forward::{BLOCK, ForwardKernel, ValueTranspose};
use crate::attention::problem::{Attention, Shape};
use crate::operations::{OperationError, Operations, Result, Scratch, both};

/// What launches for one attention share.
struct TransposePlan {
    kernel: Arc<Compiled<(TensorMap, OutTensorMap, PassedBlocks)>>,
    /// The transposed matrix as the kernel stores it, and as the forward kernel loads it.
    stored: TileMaps<e4m3>,
    loaded: TileMaps<e4m3>,
    /// Blocks of a sequence, or of all packed ones.
    blocks: u32,
    grid: u32,
    elements: usize,
}

/// What `ValueBlocks` is at a launch.
type PassedBlocks = (u32, u32, u32, In<u32>);

/// A stream's V, transposed: (sequence, head, d, key), of packed sequences (head, d, key).
#[derive(Default)]
struct TransposedValues(Scratch<e4m3>);

impl Operations {
    /// Transposes V for the forward kernel `forward`, and does `launch` with the map of the result. `v` is V
    /// as [`ValueTranspose`] loads it, with the first key of each packed sequence.
    pub(super) fn with_values_transposed(
        &self,
        stream: &Stream,
        attention: &Attention,
        forward: ForwardKernel,
        (v, offsets): (&runtime::TensorMap, &Buffer<u32>),
        launch: impl FnOnce(&runtime::TensorMap) -> Result<LaunchCounts>,
    ) -> Result<LaunchCounts> {
        let Shape { batch, kv_heads, .. } = attention.shape;
        let key = (attention.shape, attention.packed, forward);
        let plan =
            self.remembered::<TransposePlan, _, _>(key, |_| self.transpose_plan(attention, forward))?;
        self.with_scratch(stream, |TransposedValues(values): &mut TransposedValues| {
            let values = values.at_least(self.device(), plan.elements)?;
            let mut stored = plan.stored.of(&mut *values)?;
            let shape = plan.kernel.shape(plan.grid).overlapping();
            let blocks = (kv_heads, plan.blocks, batch, offsets);
            let first = plan.kernel.launch(stream, shape, (v, &mut stored, blocks))?;
            Ok(both(first, launch(&plan.loaded.of(&*values)?)?))
        })
    }

    fn transpose_plan(&self, attention: &Attention, forward: ForwardKernel) -> Result<TransposePlan> {
        let Shape { batch, kv_heads, value_dim, .. } = attention.shape;
        let keys = attention.rows_of_maps()[1];
        // Without keys there is a block of zeros. A packed sequence leaves at most one block empty.
        let (sequences, blocks) = match attention.is_packed() {
            true => (1, keys / BLOCK + batch),
            false => (batch, keys.div_ceil(BLOCK).max(1)),
        };
        let pitch = u64::from(blocks) * u64::from(BLOCK);
        let head = pitch * u64::from(value_dim);
        let maps = |tile: Result<TmaTile, Error>| -> Result<TileMaps<e4m3>> {
            let refused =
                |error: Error| OperationError::Shape { what: "an attention", reason: error.to_string() };
            let maps = TileMaps::new((value_dim.into(), pitch), &tile.map_err(refused)?)?;
            let maps = maps.batched(kv_heads.into(), head);
            let of_sequence = head * u64::from(kv_heads);
            Ok(if attention.is_packed() { maps } else { maps.batched(sequences.into(), of_sequence) })
        };
        let transpose = forward.value_transpose();
        let [_, _, v_tile] = forward.tiles::<e4m3>();
        let ctas = u64::from(blocks) * u64::from(sequences) * u64::from(kv_heads);
        Ok(TransposePlan {
            kernel: self.kernel(transpose, ValueTranspose::run)?,
            stored: maps(transpose.transposed_tile())?,
            loaded: maps(v_tile)?,
            blocks,
            grid: self.grid("an attention", ctas)?,
            elements: (head as usize).saturating_mul(kv_heads as usize).saturating_mul(sequences as usize),
        })
    }
}
