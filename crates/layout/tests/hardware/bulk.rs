//! Canonical tiles that TMA filled, by the boxes that the algebra derives: every swizzle, both
//! major-nesses, elements of 8 to 64 bits.

use crate::hardware::Check;
use crate::hardware::case::{Case, TensorMap, copy};
use crate::hardware::elements::put;
use warpwright_layout::atom::{Major, SharedSwizzle, SharedTile, TmaBox};
use warpwright_layout::{ComposedLayout, Layout, Offset};

const THREADS: usize = 128;
/// The extent of a tile along the mode that is not contiguous.
const ACROSS: i64 = 32;

pub(crate) fn checks() -> Vec<Check> {
    let mut checks = Vec::new();
    for element_bits in [8, 16, 32, 64] {
        for swizzle in SharedSwizzle::ALL {
            for major in [Major::K, Major::Mn] {
                checks.push(check(SharedTile { major, swizzle, element_bits }));
            }
        }
    }
    checks
}

/// A tile two spans wide, the last of two by two in a matrix of numbered elements.
fn check(kind: SharedTile) -> Check {
    let SharedTile { major, swizzle, element_bits } = kind;
    let along = 2 * swizzle.span_bytes() * 8 / element_bits;
    let (rows, columns) = if major == Major::K { (ACROSS, along) } else { (along, ACROSS) };
    let tile = kind.fill((rows, columns)).expect("the block divides the tile");
    let bulk = TmaBox::of_tile(&tile, element_bits).expect("canonical tiles are boxes of TMA");

    let width = element_bits as usize;
    let number = |row: i64, column: i64| match major {
        Major::K => row * 2 * columns + column,
        Major::Mn => column * 2 * rows + row,
    };
    // Of 8-bit elements only a mixture of the number fits.
    let element = |number: i64| (number + 29 * (number >> 8)) as u64;
    let mut input = vec![0; (4 * rows * columns) as usize * width / 8];
    for at in 0..4 * rows * columns {
        put(&mut input, at as usize * width, width, element(at));
    }
    let mut expected = vec![0; (rows * columns) as usize * width / 8];
    for (index, offset) in tile.offsets().expect("known").into_iter().enumerate() {
        let (row, column) = (index as i64 % rows, index as i64 / rows);
        put(&mut expected, offset as usize * width, width, element(number(rows + row, columns + column)));
    }

    let contiguous = usize::from(major == Major::K);
    let axes = [contiguous, 1 - contiguous];
    let extents = axes.map(|axis| 2 * [rows, columns][axis]).to_vec();
    let box_extent =
        |axis: usize| bulk.modes.iter().position(|&mode| mode == axis).map_or(1, |at| bulk.extents[at]);
    let map = TensorMap {
        element_bits,
        extents,
        box_extents: axes.map(box_extent).to_vec(),
        swizzle: swizzle as usize,
    };
    let loads: String = boxes(&tile, &bulk)
        .into_iter()
        .map(|(offset, corner)| {
            let at = axes.map(|axis| [rows, columns][axis] + corner[axis]);
            format!(
                "@%first add.u32 %at, %shared, {};\n\
                 @%first cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes \
                 [%at], [%map, {{{}, {}}}], [barrier];\n",
                offset * element_bits / 8,
                at[0],
                at[1]
            )
        })
        .collect();
    let body = format!(
        ".shared .align 8 .b8 barrier[8];\n.reg .pred %first, %done;\n.reg .b32 %at;\n.reg .b64 %map;\n\
         mov.b64 %map, map;\ncvta.param.u64 %map, %map;\n\
         setp.eq.u32 %first, %thread, 0;\n\
         @%first mbarrier.init.shared.b64 [barrier], 1;\n\
         @%first fence.mbarrier_init.release.cluster;\nbar.sync 0;\n\
         @%first mbarrier.arrive.expect_tx.shared.b64 _, [barrier], {};\n{loads}\
         wait:\nmbarrier.try_wait.parity.shared.b64 %done, [barrier], 0;\n@!%done bra wait;\n{}",
        expected.len(),
        copy(false, THREADS, expected.len())
    );
    let name = format!("TMA {element_bits} bits {major:?} {swizzle:?}");
    let case = Case {
        name,
        threads: THREADS,
        shared_bytes: expected.len(),
        input,
        output_bytes: expected.len(),
        map: Some(map),
        body,
    };
    Check { case, expected }
}

/// Where each box begins in shared memory, in elements, and in the tile: both are the rest of the
/// tile cut into boxes.
fn boxes(tile: &ComposedLayout, bulk: &TmaBox) -> Vec<(i64, [i64; 2])> {
    let tiler = bulk.tiler(2);
    let starts =
        tile.inner().zipped_divide(tiler.clone()).and_then(|cut| cut.mode(1)).expect("boxes divide the tile");
    let shape = tile.shape().product_each().expect("known");
    let corners =
        Layout::identity(shape).and_then(|whole| whole.zipped_divide(tiler)).and_then(|cut| cut.mode(1));
    let corners = corners.expect("boxes divide the tile");
    let count = starts.known_size("boxes").expect("known");
    (0..count)
        .map(|at| {
            let start = starts.index(&at.into()).expect("in the layout").known().expect("known");
            let Offset::Coordinate(corner) = corners.evaluate(&at.into()).expect("in the layout") else {
                panic!("an identity layout gives coordinates");
            };
            let known = |mode: usize| corner.leaves().get(mode).map_or(0, |at| at.known().expect("known"));
            (start, [known(0), known(1)])
        })
        .collect()
}
