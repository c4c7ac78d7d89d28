//! How partial results of a row are merged.

use warpwright::prelude::*;

/// Merges partial results of `K` values each over neighboring lanes.
pub(super) trait Merge<const K: usize> {
    /// The result of no elements.
    const NEUTRAL: [f32; K];

    /// Merges the partial results of `lanes` neighboring lanes; every lane gets the result. A lane
    /// holds one partial result or more: its i-th is of the source with the lane's index plus i
    /// times `lanes`.
    fn over_lanes(&self, partials: &[[Reg<f32>; K]], lanes: u32, source: Source) -> [Reg<f32>; K];
}

/// What a lane's partial result covers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Source {
    /// The elements of the lane.
    Lane,
    /// The elements of the warp with the lane's index.
    Warp,
    /// The elements of the CTA with the lane's index.
    Cta,
}

/// The sum.
pub(super) struct Sum;

impl Merge<1> for Sum {
    const NEUTRAL: [f32; 1] = [0.0];

    #[track_caller]
    fn over_lanes(&self, partials: &[[Reg<f32>; 1]], lanes: u32, _: Source) -> [Reg<f32>; 1] {
        let own: Vec<_> = partials.iter().map(|[value]| *value).collect();
        [butterfly(pairwise(&own, |a, b| a + b), lanes, |a, b| a + b)]
    }
}

/// The neutral values in registers.
#[track_caller]
pub(super) fn neutral<M: Merge<K>, const K: usize>(_: &M) -> [Reg<f32>; K] {
    M::NEUTRAL.map(|value| constant(value).duplicate())
}

/// Merges one value per lane over `lanes` neighboring lanes; every lane gets the result.
#[track_caller]
pub(super) fn butterfly(
    mut value: Reg<f32>,
    lanes: u32,
    merge: impl Fn(Reg<f32>, Reg<f32>) -> Reg<f32>,
) -> Reg<f32> {
    let mut distance = lanes / 2;
    while distance > 0 {
        value = merge(value, value.shuffle_xor(distance));
        distance /= 2;
    }
    value
}

/// Merges values as a balanced tree, which has the shortest dependency chain.
#[track_caller]
pub(super) fn pairwise(
    values: &[Reg<f32>],
    merge: impl Fn(Reg<f32>, Reg<f32>) -> Reg<f32> + Copy,
) -> Reg<f32> {
    match values {
        [value] => *value,
        _ => {
            let (one, other) = values.split_at(values.len() / 2);
            merge(pairwise(one, merge), pairwise(other, merge))
        }
    }
}
