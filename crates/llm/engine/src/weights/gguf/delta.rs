//! The gated delta rule's tensors, which llama.cpp's converter changes.
//!
//! ```text
//! value heads    of key head k, the v-th is head v · key heads + k, not k · values of a key head + v
//! ssm_a          -exp(A_log)
//! ```
//!
//! The weights of norms hold their gain, one more than in the checkpoint: the configuration says that.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use serde_json::Value;

use super::super::part::Part;
use super::super::tensor::{Numbers, Tensor};

/// The value heads' axis of a tensor, and what else is on it.
enum Axis {
    /// Rows of a head, behind the rows of Q and K.
    QueriesKeysValues,
    /// Rows or elements of `value_dim` for each head.
    Rows,
    /// Rows or elements, one for each head.
    Heads,
    Columns,
}

const TENSORS: [(&str, Axis); 8] = [
    ("in_proj_qkv.weight", Axis::QueriesKeysValues),
    ("conv1d.weight", Axis::QueriesKeysValues),
    ("in_proj_z.weight", Axis::Rows),
    ("in_proj_b.weight", Axis::Heads),
    ("in_proj_a.weight", Axis::Heads),
    ("A_log", Axis::Heads),
    ("dt_bias", Axis::Heads),
    ("out_proj.weight", Axis::Columns),
];

/// Gives tensors of all layers the numbers and the order of the checkpoint.
pub(super) fn restore(tensors: &mut BTreeMap<String, Tensor>, config: &Value) -> Result<(), String> {
    let number = |name: &str| config[name].as_u64().and_then(|number| usize::try_from(number).ok());
    let heads =
        ["linear_num_key_heads", "linear_num_value_heads", "linear_key_head_dim", "linear_value_head_dim"];
    // What is missing here is refused with the configuration.
    let [Some(keys), Some(values), Some(key_dim), Some(value_dim)] = heads.map(number) else { return Ok(()) };
    for (name, tensor) in tensors {
        let Some((_, part)) = name.split_once(".linear_attn.") else { continue };
        let Some((_, axis)) = TENSORS.iter().find(|(name, _)| *name == part) else { continue };
        if keys == 0 || !values.is_multiple_of(keys) {
            continue;
        }
        let of_keys = keys.saturating_mul(key_dim).saturating_mul(2);
        let behind = if matches!(axis, Axis::QueriesKeysValues) { of_keys } else { 0 };
        let of_head = if matches!(axis, Axis::Heads) { 1 } else { value_dim };
        let extent = values.checked_mul(of_head).and_then(|own| own.checked_add(behind));
        let axis = if matches!(axis, Axis::Columns) { tensor.shape.len().saturating_sub(1) } else { 0 };
        // Another extent is refused with the other shapes.
        if extent.is_none() || extent != tensor.shape.get(axis).copied() {
            continue;
        }
        if part == "A_log" {
            *tensor = logarithms(name, tensor)?;
        }
        let stride = tensor.shape[axis + 1..].iter().product();
        let pieces = pieces((keys, values), of_head, behind);
        *tensor = tensor.clone().part(Part { pieces, extent: tensor.shape[axis], stride });
    }
    Ok(())
}

/// Where the heads are, in the order of the checkpoint, after the rows of Q and K.
fn pieces((keys, values): (usize, usize), of_head: usize, behind: usize) -> Vec<Range<usize>> {
    let of_key = values / keys;
    let stored = (0..values).map(|head| head % of_key * keys + head / of_key);
    let of_heads = stored.map(|head| behind + head * of_head..behind + (head + 1) * of_head);
    std::iter::once(0..behind).filter(|piece| !piece.is_empty()).chain(of_heads).collect()
}

/// `A_log` of the stored -exp(A_log).
fn logarithms(name: &str, tensor: &Tensor) -> Result<Tensor, String> {
    let stored = tensor.rows::<f32>(0..tensor.row_count());
    if stored.iter().any(|number| *number >= 0.0 || number.is_nan()) {
        return Err(format!("{name}: a decay of it is not negative"));
    }
    let numbers: Arc<[f32]> = stored.iter().map(|number| f64::from(-number).ln() as f32).collect();
    Ok(Tensor::new(tensor.shape.clone(), Numbers::Made(numbers)))
}
