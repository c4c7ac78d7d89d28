//! Where the elements of Q, K, V and O are.

use super::problem::Attention;
use crate::operations::{OperationError, Result};

/// The elements between neighbors in a matrix of heads. Elements of a head are neighbors.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Strides {
    /// The element of the buffer at which the matrix begins.
    pub first: u64,
    /// Between sequences; between pages of a paged cache. Packed sequences have none.
    pub sequence: u64,
    /// Between queries or keys of a sequence.
    pub row: u64,
    /// Between heads.
    pub head: u64,
}

impl Strides {
    /// Heads that are neighbors in rows of `columns` elements, from column `first` on; `rows` of a
    /// sequence. (batch, rows, heads, d) has `columns = heads * d` and `first = 0`; K in (batch, rows,
    /// 3, heads, d) has three times the columns, and a third of them as `first`.
    pub const fn in_rows(rows: u32, columns: u32, first: u32, d: u32) -> Self {
        let row = columns as u64;
        Self { first: first as u64, sequence: rows as u64 * row, row, head: d as u64 }
    }

    /// Heads one after another, each with its rows: (batch, heads, rows, d).
    pub const fn by_heads(rows: u32, heads: u32, d: u32) -> Self {
        let head = rows as u64 * d as u64;
        Self { first: 0, sequence: heads as u64 * head, row: d as u64, head }
    }
}

impl Strides {
    /// What launches pass: the first element, then the strides of sequences, rows and heads.
    pub(crate) fn passed(self) -> [u64; 4] {
        [self.first, self.sequence, self.row, self.head]
    }
}

/// Q, K, V or O, or one of their gradients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct HeadMatrix {
    /// Sequences, or pages; `None` of packed sequences.
    pub(crate) sequences: Option<u32>,
    /// Rows of a sequence, of a page, or of all packed sequences.
    pub rows: u32,
    /// Heads of a row.
    pub heads: u32,
    /// Elements of a head.
    pub d: u32,
    pub(crate) strides: Strides,
}

/// A stride of a tensor map is less than 2^40 bytes.
const MOST_BYTES: u64 = 1 << 40;

impl HeadMatrix {
    /// A matrix without gaps: (sequences, rows, heads, d).
    pub(crate) fn dense(sequences: Option<u32>, (rows, heads, d): (u32, u32, u32)) -> Self {
        Self { sequences, rows, heads, d, strides: Strides::in_rows(rows, heads * d, 0, d) }
    }

    /// The strides and the extents of sequences, rows, heads and elements.
    fn axes(&self) -> [(u64, u64); 4] {
        let Strides { sequence, row, head, .. } = self.strides;
        let (rows, heads, d) = (self.rows.into(), self.heads.into(), self.d.into());
        [(sequence, self.sequences.unwrap_or(1).into()), (row, rows), (head, heads), (1, d)]
    }

    /// The elements from the start of the buffer to the last one.
    pub fn reach(&self) -> u64 {
        if self.axes().iter().any(|(_, extent)| *extent == 0) {
            return 0;
        }
        let step = |(stride, extent): &(u64, u64)| stride.saturating_mul(extent - 1);
        self.axes().iter().map(step).fold(self.strides.first, u64::saturating_add).saturating_add(1)
    }

    /// The same; of a matrix without rows, one with a row, which its sequences and heads share in part.
    pub(crate) fn with_a_row(self) -> Self {
        if self.rows > 0 {
            return self;
        }
        let d = u64::from(self.d);
        Self { rows: 1, strides: Strides { first: 0, sequence: d, row: d, head: d }, ..self }
    }

    /// The elements without gaps.
    pub fn elements(&self) -> usize {
        self.axes().iter().map(|(_, extent)| *extent as usize).product()
    }

    /// Every element's index in the buffer, in the order (sequence, row, head, element).
    pub fn indices(self) -> impl Iterator<Item = usize> {
        let [sequences, rows, heads, elements] = self.axes();
        let along = |(stride, extent): (u64, u64)| (0..extent).map(move |index| stride * index);
        let sequences = along(sequences).map(move |offset| self.strides.first + offset);
        let rows = sequences.flat_map(move |start| along(rows).map(move |offset| start + offset));
        let heads = rows.flat_map(move |start| along(heads).map(move |offset| start + offset));
        heads.flat_map(move |start| along(elements).map(move |offset| (start + offset) as usize))
    }

    /// Refuses strides of elements of `bytes` bytes that tensor copies cannot read.
    pub(crate) fn check(&self, what: &'static str, bytes: u32) -> Result<()> {
        let Strides { first, sequence, row, head } = self.strides;
        let (vector, most) = (16 / u64::from(bytes), MOST_BYTES / u64::from(bytes));
        let named = [("sequences", sequence), ("rows", row), ("heads", head)];
        let reason = if !first.is_multiple_of(vector) {
            format!(
                "it begins at element {first} of its buffer; use a multiple of {vector}, which is 16 bytes"
            )
        } else if let Some((of, stride)) = named.iter().find(|(_, stride)| !stride.is_multiple_of(vector)) {
            format!("its {of} are {stride} elements apart; use a multiple of {vector}, which is 16 bytes")
        } else if let Some((of, stride)) = named.iter().find(|(_, stride)| *stride >= most) {
            format!("its {of} are {stride} elements apart; use less than 2^40 bytes")
        } else {
            return Ok(());
        };
        Err(OperationError::Shape { what, reason })
    }

    /// Refuses strides by which two elements are one.
    pub(crate) fn expect_distinct(&self, what: &'static str) -> Result<()> {
        let mut axes = self.axes();
        if axes.iter().any(|(_, extent)| *extent == 0) {
            return Ok(());
        }
        axes.sort_unstable();
        let mut reach = 1;
        for (stride, extent) in axes.into_iter().filter(|(_, extent)| *extent > 1) {
            if stride < reach {
                let Strides { sequence, row, head, .. } = self.strides;
                let reason = format!(
                    "its sequences are {sequence} elements apart, its rows {row} and its heads {head}, so that some overlap; \
                     use strides that keep them apart"
                );
                return Err(OperationError::Shape { what, reason });
            }
            reach = stride.saturating_mul(extent - 1).saturating_add(reach);
        }
        Ok(())
    }
}

impl Attention {
    /// Q, K, V and O.
    pub fn matrices(&self) -> [HeadMatrix; 4] {
        let shape = self.shape;
        let [queries, keys] = self.rows_of_maps();
        let sequences = (!self.is_packed()).then_some(shape.batch);
        let (of_q, of_k) = match self.cache {
            Some(cache) => ((sequences, queries), (Some(cache.pages), cache.page_size)),
            None => ((sequences, queries), (sequences, keys)),
        };
        let dense = |(sequences, rows), heads, d| HeadMatrix::dense(sequences, (rows, heads, d));
        let matrices = [
            dense(of_q, shape.heads, shape.head_dim),
            dense(of_k, shape.kv_heads, shape.head_dim),
            dense(of_k, shape.kv_heads, shape.value_dim),
            dense(of_q, shape.heads, shape.value_dim),
        ];
        match self.strides {
            Some(strides) => std::array::from_fn(|i| HeadMatrix { strides: strides[i], ..matrices[i] }),
            None => matrices,
        }
    }
}
