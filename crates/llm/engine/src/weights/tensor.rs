//! A tensor of a file: its shape, and its numbers in any type.

use std::borrow::Cow;
use std::ops::Range;
use std::sync::Arc;

use half::{bf16, f16};
use memmap2::Mmap;

use super::blocks;
use super::kind::Kind;
use super::part::Part;
use super::random::Generator;
use crate::number::Number;

/// A tensor, row-major.
#[derive(Clone, Debug)]
pub struct Tensor {
    /// That of the whole tensor.
    pub(crate) shape: Vec<usize>,
    pub(crate) numbers: Numbers,
    /// The part that is read; `None`: the whole.
    part: Option<Part>,
}

/// Where the numbers are.
#[derive(Clone, Debug)]
pub(crate) enum Numbers {
    Stored {
        file: Arc<Mmap>,
        range: Range<usize>,
        kind: Kind,
    },
    /// Computed from other numbers of the file.
    Made(Arc<[f32]>),
    /// Rows of the one tensor and then as many of the other, in turns of this number.
    InTurns(Arc<[Tensor; 2]>, usize),
    Random(Generator),
}

impl Tensor {
    pub(super) fn new(shape: Vec<usize>, numbers: Numbers) -> Self {
        Self { shape, numbers, part: None }
    }

    /// A part of the tensor, which may be a part of another along the same axis.
    pub(super) fn part(self, part: Part) -> Self {
        let part = match self.part {
            Some(whole) => whole.part(&part),
            None => part,
        };
        Self { part: Some(part), ..self }
    }

    /// Rows of the tensor or its part.
    pub(crate) fn row_count(&self) -> usize {
        let elements = |shape: &[usize]| shape.iter().product::<usize>();
        match &self.part {
            Some(part) => elements(&self.shape) / part.extent.max(1) * part.len() / self.columns().max(1),
            None => elements(&self.shape) / self.columns().max(1),
        }
    }

    /// Elements of a row: of the last axis.
    pub(crate) fn columns(&self) -> usize {
        match &self.part {
            Some(part) if part.stride == 1 => part.len(),
            _ => self.whole_columns(),
        }
    }

    /// The numbers of consecutive rows. Without a copy where they are stored as `T`.
    pub(crate) fn rows<T: Number>(&self, rows: Range<usize>) -> Cow<'_, [T]> {
        match &self.part {
            Some(part) => Cow::Owned(part.rows(self, rows)),
            None => self.whole_rows(rows),
        }
    }

    pub(super) fn whole_columns(&self) -> usize {
        self.shape.last().copied().unwrap_or(1)
    }

    /// Rows of the whole tensor.
    pub(super) fn whole_rows<T: Number>(&self, rows: Range<usize>) -> Cow<'_, [T]> {
        let columns = self.whole_columns();
        let elements = rows.start * columns..rows.end * columns;
        match &self.numbers {
            Numbers::Random(generator) => Cow::Owned(generator.numbers(elements)),
            Numbers::Made(numbers) => numbers[elements].iter().map(|number| T::nearest(*number)).collect(),
            Numbers::InTurns(tensors, turn) => Cow::Owned(in_turns(tensors, *turn, rows)),
            Numbers::Stored { file, range, kind } => {
                let (block, bytes) = kind.block();
                let part =
                    &file[range.start + elements.start / block * bytes..][..elements.len() / block * bytes];
                let is_same = matches!((kind, T::NAME), (Kind::F32, "f32") | (Kind::Bf16, "bf16"));
                match bytemuck::try_cast_slice::<u8, T>(part) {
                    Ok(numbers) if is_same => Cow::Borrowed(numbers),
                    _ => Cow::Owned(numbers(*kind, part)),
                }
            }
        }
    }
}

/// The numbers of consecutive rows of two tensors in turns.
fn in_turns<T: Number>(tensors: &[Tensor; 2], turn: usize, mut rows: Range<usize>) -> Vec<T> {
    let mut numbers = vec![];
    while !rows.is_empty() {
        let (of_turn, within) = (rows.start / turn, rows.start % turn);
        let run = (turn - within).min(rows.len());
        let first = of_turn / 2 * turn + within;
        numbers.extend_from_slice(&tensors[of_turn % 2].whole_rows::<T>(first..first + run));
        rows.start += run;
    }
    numbers
}

/// The numbers of stored bytes.
fn numbers<T: Number>(kind: Kind, bytes: &[u8]) -> Vec<T> {
    let each = |size: usize, number: fn(&[u8]) -> f32| {
        bytes.chunks_exact(size).map(|bytes| T::nearest(number(bytes))).collect()
    };
    match kind {
        Kind::F32 => each(4, |b| f32::from_le_bytes([b[0], b[1], b[2], b[3]])),
        Kind::F16 => each(2, |b| f16::from_le_bytes([b[0], b[1]]).to_f32()),
        Kind::Bf16 => each(2, |b| bf16::from_le_bytes([b[0], b[1]]).to_f32()),
        _ => {
            let (elements, size) = kind.block();
            let mut values = vec![0.0; elements];
            let mut all = Vec::with_capacity(bytes.len() / size * elements);
            for block in bytes.chunks_exact(size) {
                blocks::dequantize(kind, block, &mut values);
                all.extend(values.iter().map(|value| T::nearest(*value)));
            }
            all
        }
    }
}
