//! A part of a tensor: pieces of one of its axes.

use std::ops::Range;

use super::tensor::Tensor;
use crate::number::Number;

/// Pieces of an axis of a tensor, for each index of the axes before it.
#[derive(Clone, Debug)]
pub(super) struct Part {
    pub(super) pieces: Vec<Range<usize>>,
    /// The whole axis.
    pub(super) extent: usize,
    /// Elements from one index of the axis to the next; 1 where it is the last one.
    pub(super) stride: usize,
}

impl Part {
    /// Indices of the axis in the part.
    pub(super) fn len(&self) -> usize {
        self.pieces.iter().map(Range::len).sum()
    }

    /// A part of this part, along the same axis.
    pub(super) fn part(&self, part: &Self) -> Self {
        let pieces = part.pieces.iter().flat_map(|piece| self.pieces_of(piece.clone())).collect();
        Self { pieces, ..*self }
    }

    /// The pieces of the whole axis that consecutive indices of the part are.
    fn pieces_of(&self, mut indices: Range<usize>) -> Vec<Range<usize>> {
        let (mut all, mut first) = (vec![], 0);
        for piece in &self.pieces {
            let last = first + piece.len();
            if indices.start < last && !indices.is_empty() {
                let end = indices.end.min(last);
                all.push(piece.start + indices.start - first..piece.start + end - first);
                indices.start = end;
            }
            first = last;
        }
        all
    }

    /// The numbers of consecutive rows of the part.
    pub(super) fn rows<T: Number>(&self, tensor: &Tensor, rows: Range<usize>) -> Vec<T> {
        if self.stride == 1 {
            let whole = tensor.whole_rows::<T>(rows);
            let row = |row: &[T]| {
                self.pieces.iter().flat_map(|piece| row[piece.clone()].to_vec()).collect::<Vec<_>>()
            };
            return whole.chunks(self.extent).flat_map(row).collect();
        }
        let mut numbers = vec![];
        let mut run = 0..0;
        for row in rows {
            let row = self.whole_row(row, self.stride / tensor.whole_columns());
            if row != run.end {
                numbers.extend_from_slice(&tensor.whole_rows::<T>(run));
                run = row..row;
            }
            run.end += 1;
        }
        numbers.extend_from_slice(&tensor.whole_rows::<T>(run));
        numbers
    }

    /// The row of the tensor that is `row` of the part. An index along the divided axis has `rows` rows.
    fn whole_row(&self, row: usize, rows: usize) -> usize {
        let (index, within) = (row / rows, row % rows);
        let (outer, mut index) = (index / self.len(), index % self.len());
        for piece in &self.pieces {
            if index < piece.len() {
                return (outer * self.extent + piece.start + index) * rows + within;
            }
            index -= piece.len();
        }
        unreachable!("the index is less than the length of all pieces")
    }
}
