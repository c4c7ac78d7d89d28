//! Tensors on the device.
//!
//! A model is built twice by the same code: first on a device that holds nothing, where every tensor is
//! compared with what is expected, then on the real one. No memory is taken for a checkpoint that does
//! not fit.

use std::collections::BTreeMap;
use std::ops::Range;

use rayon::prelude::*;
use warpwright::arch::Capability;
use warpwright::runtime::{Buffer, Device, Storable};

use super::checkpoint::Checkpoint;
use super::part::Part;
use super::quantize::{Format, QuantizedNumbers};
use super::tensor::Tensor;
use crate::error::{EngineError, Result, WeightsError};
use crate::number::Number;
use crate::sharding::Sharding;

/// Makes buffers of a checkpoint's tensors.
pub(crate) struct Loader<'l> {
    checkpoint: &'l Checkpoint,
    device: Device,
    /// How matrices of products are quantized.
    pub(crate) format: Option<Format>,
    /// The part of a model of several ranks; `None`: the whole model.
    sharding: Option<Sharding>,
    found: Option<Found>,
}

/// What a check has seen.
#[derive(Default)]
struct Found {
    differences: WeightsError,
    /// The shapes of tensors that the model needs.
    used: BTreeMap<String, Vec<usize>>,
    /// Prefixes of tensors that the model does not need.
    ignored: Vec<String>,
    bytes: u64,
}

/// Bytes of a part that is copied at once.
const PART: usize = 64 << 20;

impl<'l> Loader<'l> {
    /// Compares tensors and takes no memory.
    pub(crate) fn checking(checkpoint: &'l Checkpoint, format: Option<Format>) -> Result<Self> {
        let capability = Capability::for_target("sm_90a").expect("a known target");
        Ok(Self::rehearsing(checkpoint, &Device::dry_run(capability)?, format))
    }

    /// Compares tensors, and makes buffers of a device that executes nothing.
    pub(crate) fn rehearsing(checkpoint: &'l Checkpoint, device: &Device, format: Option<Format>) -> Self {
        Self { checkpoint, device: device.clone(), format, sharding: None, found: Some(Found::default()) }
    }

    /// Loads tensors that were compared.
    pub(crate) fn loading(checkpoint: &'l Checkpoint, device: &Device, format: Option<Format>) -> Self {
        Self { checkpoint, device: device.clone(), format, sharding: None, found: None }
    }

    /// The same for a rank.
    pub(crate) fn sharded(self, sharding: Option<Sharding>) -> Self {
        Self { sharding, ..self }
    }

    /// The device of the buffers.
    pub(crate) fn device(&self) -> &Device {
        &self.device
    }

    /// The tensors that the model needs, after a check.
    pub(crate) fn shapes(&self) -> BTreeMap<String, Vec<usize>> {
        self.found.as_ref().map(|found| found.used.clone()).unwrap_or_default()
    }

    /// The bytes of all buffers, after a check.
    ///
    /// # Errors
    /// The checkpoint does not fit the model.
    pub(crate) fn finish(self) -> Result<u64> {
        let Some(Found { mut differences, used, ignored, bytes }) = self.found else { return Ok(0) };
        let is_ignored = |name: &str| ignored.iter().any(|prefix| name.starts_with(prefix));
        let extra = self.checkpoint.names().filter(|name| !used.contains_key(*name) && !is_ignored(name));
        differences.extra = extra.map(str::to_owned).collect();
        if differences.is_empty() { Ok(bytes) } else { Err(differences.into()) }
    }

    /// Accepts tensors that the model does not need, such as a stored copy of tied weights.
    pub(crate) fn ignore(&mut self, prefix: &str) {
        if let Some(found) = &mut self.found {
            found.ignored.push(prefix.to_owned());
        }
    }

    /// A tensor of that shape, which may be stored with axes of extent 1 more or less, or the rank's part of one;
    /// `None` in a check.
    fn tensor(&mut self, name: &str, shape: &[usize]) -> Result<Option<Tensor>> {
        let slice = self.sharding.as_ref().and_then(|sharding| sharding.slice(name, shape));
        let whole = slice.as_ref().map_or(shape.to_vec(), |slice| slice.whole(shape));
        let shape = &whole[..];
        let Some(found) = &mut self.found else {
            let tensor = self
                .checkpoint
                .load(name, shape)
                .ok_or_else(|| EngineError::Config(format!("{name} is missing")))?;
            return Ok(Some(match slice {
                Some(slice) => {
                    let (extent, stride) = slice.extent_and_stride(shape);
                    tensor.part(Part { pieces: slice.pieces, extent, stride })
                }
                None => tensor,
            }));
        };
        let significant =
            |shape: &[usize]| shape.iter().copied().filter(|extent| *extent != 1).collect::<Vec<_>>();
        match self.checkpoint.tensor(name, shape) {
            None => found.differences.missing.push(name.to_owned()),
            Some(tensor) if significant(&tensor.shape) != significant(shape) => {
                found.differences.misshapen.push((name.to_owned(), shape.to_vec(), tensor.shape));
            }
            Some(_) => {}
        }
        found.used.insert(name.to_owned(), shape.to_vec());
        Ok(None)
    }

    /// Memory for `elements`, which holds anything.
    pub(crate) fn buffer<T: Storable>(&mut self, elements: usize) -> Result<Buffer<T>> {
        if let Some(found) = &mut self.found {
            let bytes = (elements as u64).saturating_mul(size_of::<T>() as u64);
            found.bytes = found.bytes.saturating_add(bytes);
        }
        Ok(self.device.uninitialized(elements)?)
    }

    /// The numbers of a tensor.
    pub(crate) fn vector<T: Number>(&mut self, name: &str, length: usize) -> Result<Buffer<T>> {
        self.matrix(&[(name, length)], 1, length)
    }

    /// The rows of several tensors of `columns` columns, one after another, and then rows of zeros up to
    /// `rows`.
    pub(crate) fn matrix<T: Number>(
        &mut self,
        parts: &[(&str, usize)],
        columns: usize,
        rows: usize,
    ) -> Result<Buffer<T>> {
        let mut buffer = self.buffer::<T>(rows * columns)?;
        let mut start = 0;
        for (name, part) in parts {
            let shape = if columns == 1 { vec![*part] } else { vec![*part, columns] };
            self.copy(name, &shape, &mut buffer, start)?;
            start += part * columns;
        }
        if self.found.is_none() && start < buffer.len() {
            buffer.write_at(start, &vec![T::nearest(0.0); rows * columns - start])?;
        }
        Ok(buffer)
    }

    /// The rows of two tensors (rows, columns), `turn` of the one and then as many of the other.
    pub(crate) fn in_turns<T: Number>(
        &mut self,
        names: [&str; 2],
        (rows, columns): (usize, usize),
        turn: usize,
    ) -> Result<Buffer<T>> {
        let mut buffer = self.buffer::<T>(2 * rows * columns)?;
        let tensors = [self.tensor(names[0], &[rows, columns])?, self.tensor(names[1], &[rows, columns])?];
        let [Some(one), Some(other)] = tensors else { return Ok(buffer) };
        let length = turn * columns;
        let at_once = (PART / size_of::<T>() / columns).max(1).next_multiple_of(turn).min(rows);
        let mut part = vec![T::nearest(0.0); 2 * at_once * columns];
        for first in (0..rows).step_by(at_once) {
            let last = rows.min(first + at_once);
            let (one, other) = (one.rows::<T>(first..last), other.rows::<T>(first..last));
            let part = &mut part[..2 * one.len()];
            let turns = one.par_chunks(length).zip(other.par_chunks(length));
            part.par_chunks_mut(2 * length).zip(turns).for_each(|(both, (one, other))| {
                both[..length].copy_from_slice(one);
                both[length..].copy_from_slice(other);
            });
            buffer.write_at(2 * first * columns, part)?;
        }
        Ok(buffer)
    }

    /// The rows of several tensors and then rows of zeros, as [`matrix`](Self::matrix), quantized; `None` in a
    /// check. The tensors are (experts, rows of an expert, k).
    pub(crate) fn quantized(
        &mut self,
        format: Format,
        experts: usize,
        parts: &[(&str, usize)],
        (n, k): (usize, usize),
    ) -> Result<Option<QuantizedNumbers>> {
        let mut tensors = vec![];
        let mut start = 0;
        for (name, rows) in parts {
            let shape = if experts > 1 { vec![experts, rows / experts, k] } else { vec![*rows, k] };
            if let Some(tensor) = self.tensor(name, &shape)? {
                tensors.push((start..start + rows, tensor));
            }
            start += rows;
        }
        if self.found.is_some() {
            return Ok(None);
        }
        let panel = |rows: Range<usize>| {
            let mut numbers = vec![0.0; rows.len() * k];
            for (of_tensor, tensor) in &tensors {
                let (first, last) = (rows.start.max(of_tensor.start), rows.end.min(of_tensor.end));
                if first < last {
                    let part = tensor.rows::<f32>(first - of_tensor.start..last - of_tensor.start);
                    numbers[(first - rows.start) * k..(last - rows.start) * k].copy_from_slice(&part);
                }
            }
            numbers
        };
        Ok(Some(format.quantize((n, k), panel)))
    }

    /// A tensor of any shape.
    pub(crate) fn all<T: Number>(&mut self, name: &str, shape: &[usize]) -> Result<Buffer<T>> {
        let mut buffer = self.buffer::<T>(shape.iter().product())?;
        self.copy(name, shape, &mut buffer, 0)?;
        Ok(buffer)
    }

    /// Copies a tensor to `buffer` from element `start` on.
    fn copy<T: Number>(
        &mut self,
        name: &str,
        shape: &[usize],
        buffer: &mut Buffer<T>,
        start: usize,
    ) -> Result<()> {
        let Some(tensor) = self.tensor(name, shape)? else { return Ok(()) };
        let elements: usize = shape.iter().product();
        let columns = tensor.columns().max(1);
        let (rows, at_once) = (elements / columns, (PART / size_of::<T>() / columns).max(1));
        for first in (0..rows).step_by(at_once) {
            let last = rows.min(first + at_once);
            buffer.write_at(start + first * columns, &tensor.rows::<T>(first..last))?;
        }
        Ok(())
    }
}
