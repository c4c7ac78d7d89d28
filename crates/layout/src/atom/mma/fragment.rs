//! The distribution of fragments over threads.
//!
//! Almost all fragments consist of pieces of 8 rows of four runs; lane `t` holds run `t % 4` of row
//! `t / 4`. Instructions differ in the elements of a run, and in the order of the pieces in a
//! lane's registers.

use crate::{Error, IntTuple, Layout, Tuple};

/// The order of the pieces in the registers.
#[derive(Clone, Copy)]
pub(super) enum Order {
    /// For every 16 rows, column by column: the upper piece, then the lower.
    Stacked,
    /// For every 8 rows, from left to right.
    Rows,
}

/// An axis of a matrix: its extent, and the stride of its elements in the tile.
pub(super) type Axis = (i64, i64);

/// One warp's fragment: eight lane groups along `outer`, four lanes of `run` elements each along
/// `inner`.
pub(super) fn pieces(outer: Axis, inner: Axis, run: i64, order: Order) -> Result<Layout, Error> {
    let along = (inner.0 / (4 * run), 4 * run * inner.1);
    let values = match order {
        Order::Stacked => {
            let (pair, below) = ((2.min(outer.0 / 8), 8 * outer.1), (outer.0 / 16, 16 * outer.1));
            vec![(run, inner.1), pair, along, below]
        }
        Order::Rows => vec![(run, inner.1), along, (outer.0 / 8, 8 * outer.1)],
    };
    fragment(&[(4, run * inner.1), (8, outer.1)], &values)
}

/// One warp of `mma`. (PTX ISA, the fragment figures of every shape from m8n8k16 to m16n8k256.)
pub(super) fn quads(rows: i64, columns: i64, run: i64) -> Result<Layout, Error> {
    pieces((rows, 1), (columns, rows), run, Order::Stacked)
}

/// One warpgroup: each warp holds 16 rows as [`quads`] does. (PTX ISA, "Register fragments" of
/// wgmma.)
pub(super) fn warpgroup(rows: i64, columns: i64, run: i64) -> Result<Layout, Error> {
    let values = [(run, rows), (2, 8), (columns / (4 * run), 4 * run * rows)];
    fragment(&[(4, run * rows), (8, 1), (4, 16)], &values)
}

/// A matrix in shared memory: every thread maps to all of it.
pub(super) fn shared((rows, columns): (i64, i64)) -> Result<Layout, Error> {
    Layout::new((128, (rows, columns)), (0, (1, rows)))
}

/// `layout` with every value repeated `times` times.
pub(super) fn repeated(layout: &Layout, times: i64) -> Result<Layout, Error> {
    if times <= 1 {
        return Ok(layout.clone());
    }
    let (threads, values) = (layout.mode(0)?, layout.mode(1)?);
    Ok(Layout::of_modes([threads, values.append(&Layout::new(times, 0)?)]))
}

/// A layout of (threads, values), each of modes (extent, stride); values of extent 1 are left out.
pub(super) fn fragment(threads: &[Axis], values: &[Axis]) -> Result<Layout, Error> {
    let mut values: Vec<Axis> = values.iter().copied().filter(|mode| mode.0 > 1).collect();
    if values.is_empty() {
        values.push((1, 0));
    }
    let tuple = |modes: &[Axis], pick: fn(&Axis) -> i64| -> IntTuple {
        match modes {
            [mode] => pick(mode).into(),
            _ => Tuple::Node(modes.iter().map(|mode| pick(mode).into()).collect()),
        }
    };
    let extents = vec![tuple(threads, |mode| mode.0), tuple(&values, |mode| mode.0)];
    let strides = vec![tuple(threads, |mode| mode.1), tuple(&values, |mode| mode.1)];
    Layout::new(Tuple::Node(extents), Tuple::Node(strides))
}
