//! The post-conditions of every operation, by brute force over random nested layouts.
//!
//! Seeds are fixed. An optimized run makes 2,000 cases a property (26,000 in all); an unoptimized
//! one fewer.

use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::collections::HashSet;
use warpwright_layout::{
    All, ComposedLayout, Coordinate, Error, Int, IntTuple, Layout, Swizzle, Tiler, Tuple, coordinate_of,
    index_of,
};

const CASES: u32 = if cfg!(debug_assertions) { 100 } else { 2_000 };

fn check<S: Strategy>(strategy: S, property: impl Fn(S::Value) -> Result<(), TestCaseError>) {
    let config =
        Config { cases: CASES, failure_persistence: None, max_global_rejects: 1 << 20, ..Config::default() };
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &[7; 32]);
    TestRunner::new_with_rng(config, rng).run(&strategy, property).unwrap();
}

/// Shapes of up to three levels.
fn shape() -> impl Strategy<Value = IntTuple> {
    let extent =
        prop_oneof![Just(1i64), Just(2), Just(2), Just(3), Just(4), Just(4), Just(5), Just(6), Just(8)];
    let leaf = extent.prop_map(IntTuple::from);
    leaf.prop_recursive(3, 5, 3, |inner| prop::collection::vec(inner, 1..=3).prop_map(Tuple::Node))
        .prop_filter("small", |shape: &IntTuple| shape.product().unwrap().known().unwrap() <= 600)
}

fn with_strides(shape: IntTuple, strides: &[i64]) -> Layout {
    let mut next = strides.iter().cycle();
    let stride = shape.map(&mut |_: &Int| Int::from(*next.next().unwrap()));
    Layout::new(shape, stride).unwrap()
}

/// Any layout: strides with no order, repeats and zeros among them.
fn any_layout() -> impl Strategy<Value = Layout> {
    let stride =
        prop_oneof![Just(0i64), Just(1), Just(2), Just(3), Just(4), Just(6), Just(8), Just(12), Just(16)];
    (shape(), prop::collection::vec(stride, 9)).prop_map(|(shape, strides)| with_strides(shape, &strides))
}

/// Injective layouts: the modes in random order, with gaps.
fn injective_layout() -> impl Strategy<Value = Layout> {
    let gaps = prop::collection::vec(
        prop_oneof![4 => Just((1i64, 0i64)), 2 => Just((2, 0)), 1 => Just((3, 0)), 1 => Just((1, 1))],
        9,
    );
    (shape(), prop::collection::vec(any::<u32>(), 9), gaps).prop_map(|(shape, order, gaps)| {
        let extents: Vec<i64> = shape.leaves().iter().map(|extent| extent.known().unwrap()).collect();
        let mut modes: Vec<usize> = (0..extents.len()).collect();
        modes.sort_by_key(|&mode| order[mode % 9]);
        let mut strides = vec![0; extents.len()];
        let mut next = 1;
        for mode in modes {
            let (factor, more) = gaps[mode % 9];
            next = next * factor + more;
            strides[mode] = next;
            next *= extents[mode];
        }
        with_strides(shape, &strides)
    })
}

fn layout() -> impl Strategy<Value = Layout> {
    prop_oneof![injective_layout(), injective_layout(), any_layout()]
}

fn small_layout() -> impl Strategy<Value = Layout> {
    layout().prop_filter("small", |layout| size(layout) <= 48)
}

fn tiler() -> impl Strategy<Value = Tiler> {
    let one = prop_oneof![
        Just(Tiler::All),
        (1i64..=4).prop_map(Tiler::from),
        small_layout().prop_map(Tiler::from),
    ];
    prop_oneof![
        small_layout().prop_map(Tiler::from),
        prop::collection::vec(one, 1..=3).prop_map(Tiler::Modes),
    ]
}

fn size(layout: &Layout) -> i64 {
    layout.size().unwrap().known().unwrap()
}

fn offsets(layout: &Layout) -> Vec<i64> {
    layout.offsets().unwrap()
}

fn same_function(a: &Layout, b: &Layout) -> bool {
    size(a) == size(b) && offsets(a) == offsets(b)
}

/// Refusals are legal where a layout is not representable or not injective; anything else is a
/// failure.
fn unless_refused(result: Result<Layout, Error>) -> Result<Option<Layout>, TestCaseError> {
    match result {
        Ok(layout) => Ok(Some(layout)),
        Err(Error::NotRepresentable(_) | Error::NotInjective(_) | Error::RankTooSmall { .. }) => Ok(None),
        Err(error) => Err(TestCaseError::fail(error.to_string())),
    }
}

#[test]
fn coordinates_and_indices() {
    check(shape(), |shape| {
        for index in 0..shape.product().unwrap().known().unwrap() {
            let coordinate = coordinate_of(&index.into(), &shape).unwrap();
            prop_assert!(coordinate.congruent(&shape));
            prop_assert_eq!(index_of(&coordinate, &shape).unwrap(), index);
        }
        Ok(())
    });
}

#[test]
fn evaluation_agrees_in_every_form_of_coordinate() {
    check(layout(), |layout| {
        let listed = offsets(&layout);
        for (index, &offset) in listed.iter().enumerate() {
            let coordinate = coordinate_of(&index.into(), layout.shape()).unwrap();
            prop_assert_eq!(layout.index(&coordinate).unwrap(), offset);
            prop_assert_eq!(layout.at(index as i64).unwrap(), offset);
        }
        prop_assert_eq!(layout.cosize().unwrap(), listed.iter().max().unwrap() + 1);
        Ok(())
    });
}

#[test]
fn coalescing_and_filtering() {
    check(layout(), |layout| {
        let coalesced = layout.coalesce().unwrap();
        prop_assert!(coalesced.depth() <= 1 && same_function(&coalesced, &layout));
        prop_assert!(same_function(&layout.flatten(), &layout));
        let profile = Tuple::Node(vec![IntTuple::from(1); layout.rank()]);
        let by_mode = layout.coalesce_by(&profile).unwrap();
        prop_assert!(
            by_mode.rank() == layout.rank() && by_mode.depth() <= 2 && same_function(&by_mode, &layout)
        );
        let image = |layout: &Layout| offsets(layout).into_iter().collect::<HashSet<_>>();
        let filtered = layout.filter().unwrap();
        prop_assert_eq!(image(&filtered), image(&layout));
        prop_assert!(filtered.stride().leaves().iter().all(|stride| !stride.is(0)) || size(&filtered) == 1);
        Ok(())
    });
}

#[test]
fn composition() {
    check((layout(), small_layout()), |(a, b)| {
        let Some(result) = unless_refused(a.compose(&b))? else { return Ok(()) };
        prop_assert!(b.shape().compatible(result.shape()), "{} is not compatible with {}", b, result);
        let inside = b.cosize().unwrap().known().unwrap() <= size(&a);
        for (index, &through) in offsets(&b).iter().enumerate() {
            if inside || through < size(&a) {
                prop_assert_eq!(result.at(index as i64).unwrap(), a.at(through).unwrap(), "{} o {}", a, b);
            }
        }
        Ok(())
    });
}

/// What composition refuses is no layout: for one mode of B, no factorization of its extent gives
/// the offsets.
#[test]
fn composition_refuses_only_what_is_no_layout() {
    check((layout(), 2i64..=12, 1i64..=8), |(a, extent, stride)| {
        let b = Layout::new(extent, stride).unwrap();
        if a.compose(&b).is_ok() || (extent - 1) * stride >= size(&a) {
            return Ok(());
        }
        let wanted: Vec<i64> = (0..extent).map(|i| a.at(i * stride).unwrap()).collect();
        prop_assert!(!is_a_layout(&wanted), "{} o {} is a layout of {:?}", a, b, wanted);
        Ok(())
    });
}

/// Whether some flat layout lists these offsets: a search over all ordered factorizations.
fn is_a_layout(offsets: &[i64]) -> bool {
    if offsets.len() == 1 {
        return offsets[0] == 0;
    }
    (2..=offsets.len()).filter(|&run| offsets.len().is_multiple_of(run)).any(|run| {
        let first = (0..run).all(|i| offsets[i] == i as i64 * offsets[1]);
        let repeats = offsets.chunks(run).all(|chunk| (0..run).all(|i| chunk[i] - chunk[0] == offsets[i]));
        first && repeats && is_a_layout(&offsets.iter().step_by(run).copied().collect::<Vec<_>>())
    })
}

#[test]
fn complement() {
    check((layout(), 1i64..=300), |(a, room)| {
        let Some(rest) = unless_refused(a.complement(room))? else {
            let listed = offsets(&a.filter().unwrap());
            prop_assert!(listed.iter().collect::<HashSet<_>>().len() < listed.len(), "{} is injective", a);
            return Ok(());
        };
        let taken: HashSet<i64> = offsets(&a).into_iter().collect();
        let left = offsets(&rest);
        prop_assert!(left.windows(2).all(|pair| pair[0] < pair[1]), "complement({}, {}) = {}", a, room, rest);
        prop_assert!(
            left.iter().skip(1).all(|offset| !taken.contains(offset)),
            "complement({}) = {}",
            a,
            rest
        );
        let both = Layout::of_modes([a.filter().unwrap(), rest]);
        prop_assert!(both.cosize().unwrap().known().unwrap() >= room);
        let all = offsets(&both);
        let every: HashSet<i64> = all.iter().copied().collect();
        prop_assert_eq!(every.len(), all.len());
        if strides_nest(&a) {
            prop_assert!((0..room).all(|offset| every.contains(&offset)), "complement({}, {})", a, room);
        }
        Ok(())
    });
}

/// Whether each mode ends at a divisor of the next larger stride. Modes of stride 0 do not count.
fn strides_nest(layout: &Layout) -> bool {
    let numbers =
        |tuple: &IntTuple| tuple.leaves().iter().map(|leaf| leaf.known().unwrap()).collect::<Vec<_>>();
    let filtered = layout.filter().unwrap();
    let strides =
        filtered.stride().leaves().iter().map(|stride| stride.scale.known().unwrap()).collect::<Vec<_>>();
    let mut modes: Vec<(i64, i64)> = strides.into_iter().zip(numbers(filtered.shape())).collect();
    modes.retain(|(stride, extent)| *stride != 0 && *extent != 1);
    modes.sort_unstable();
    let ends = std::iter::once(1).chain(modes.iter().map(|(stride, extent)| stride * extent));
    modes.iter().zip(ends).all(|((stride, _), end)| stride % end == 0)
}

#[test]
fn divides() {
    check((layout(), tiler()), |(a, tiler)| {
        let Some(zipped) = unless_refused(a.zipped_divide(&tiler))? else { return Ok(()) };
        let tile = a.compose(&tiler).unwrap();
        prop_assert_eq!(zipped.rank(), 2);
        let mode_0 = zipped.mode(0).unwrap();
        // Past the end of A what runs on is up to the operation.
        let inside = matches!(&tiler, Tiler::Layout(b) if b.cosize().unwrap().known().unwrap() <= size(&a));
        if inside {
            prop_assert!(same_function(&mode_0, &tile), "{} by {}: {} is not {}", a, tiler, mode_0, tile);
        }
        let logical = a.logical_divide(&tiler).unwrap();
        prop_assert_eq!(size(&logical), size(&zipped));
        let tiled = a.tiled_divide(&tiler).unwrap();
        let flat = a.flat_divide(&tiler).unwrap();
        prop_assert!(same_function(&tiled, &zipped) && same_function(&flat, &zipped));
        prop_assert_eq!(flat.rank(), mode_0.rank() + zipped.mode(1).unwrap().rank());
        let mut sorted = (offsets(&logical), offsets(&zipped));
        sorted.0.sort();
        sorted.1.sort();
        prop_assert_eq!(sorted.0, sorted.1);
        Ok(())
    });
}

/// A tiler of integers that divide the extents visits every element once.
#[test]
fn dividing_tilers_cover_once() {
    check((injective_layout(), prop::collection::vec(0usize..8, 3)), |(a, picks)| {
        let modes = a.modes();
        let tilers = modes.iter().zip(&picks).map(|(mode, &pick)| {
            let divisors: Vec<i64> = (1..=size(mode)).filter(|divisor| size(mode) % divisor == 0).collect();
            Tiler::from(divisors[pick % divisors.len()])
        });
        let tiler = Tiler::Modes(tilers.collect());
        let Some(zipped) = unless_refused(a.zipped_divide(&tiler))? else { return Ok(()) };
        let (mut tiled, mut whole) = (offsets(&zipped), offsets(&a));
        tiled.sort();
        whole.sort();
        prop_assert_eq!(tiled, whole);
        let tensor = ComposedLayout::from(a.clone());
        let rest = zipped.mode(1).unwrap();
        let mut by_tile = Vec::new();
        for index in 0..size(&rest) {
            let coordinate = Coordinate::from(
                &coordinate_of(&index.into(), &rest.shape().product_each().unwrap()).unwrap(),
            );
            by_tile.extend(tensor.local_tile(&tiler, &coordinate).unwrap().offsets().unwrap());
        }
        by_tile.sort();
        prop_assert_eq!(
            by_tile,
            offsets(&a)
                .into_iter()
                .collect::<std::collections::BTreeSet<_>>()
                .into_iter()
                .collect::<Vec<_>>()
        );
        Ok(())
    });
}

#[test]
fn products() {
    check((layout(), small_layout()), |(a, b)| {
        let Some(product) = unless_refused(a.logical_product(&b))? else { return Ok(()) };
        prop_assert_eq!(product.rank(), 2);
        prop_assert_eq!(&product.mode(0).unwrap(), &a);
        prop_assert!(b.shape().compatible(product.mode(1).unwrap().shape()), "{} x {} = {}", a, b, product);
        let mut plain = offsets(&product);
        plain.sort();
        for regrouped in [a.blocked_product(&b), a.raked_product(&b)] {
            let mut listed = offsets(&regrouped.unwrap());
            listed.sort();
            prop_assert_eq!(&listed, &plain);
        }
        Ok(())
    });
}

#[test]
fn inverses() {
    check(layout(), |a| {
        let right = a.right_inverse().unwrap();
        for index in 0..size(&right) {
            prop_assert_eq!(a.at(right.at(index).unwrap()).unwrap(), index);
        }
        let kernel = a.nullspace().unwrap();
        prop_assert!(offsets(&kernel).into_iter().all(|index| a.at(index).unwrap() == 0));
        let Some(left) = unless_refused(a.left_inverse())? else { return Ok(()) };
        let listed = offsets(&a);
        let injective = listed.iter().collect::<HashSet<_>>().len() == listed.len();
        for (index, &offset) in listed.iter().enumerate() {
            let back = left.at(offset).unwrap();
            prop_assert_eq!(a.at(back).unwrap(), offset, "left_inverse({}) = {}", a, left);
            prop_assert!(!injective || back == index as i64);
        }
        Ok(())
    });
}

#[test]
fn common_layouts() {
    check((injective_layout(), injective_layout()), |(a, b)| {
        for (a, b) in [(&a, &b), (&a, &a)] {
            let common = a.max_common_layout(b).unwrap();
            for index in 0..size(&common) {
                let place = common.at(index).unwrap();
                prop_assert_eq!(a.at(place).unwrap(), index);
                prop_assert_eq!(b.at(place).unwrap(), index);
            }
            prop_assert_eq!(a.max_common_vector(b).unwrap(), size(&common));
        }
        let itself = a.max_common_layout(&a).unwrap();
        prop_assert_eq!(size(&itself), size(&a.right_inverse().unwrap()));
        Ok(())
    });
}

#[test]
fn slices_dices_and_groups() {
    check((layout(), any::<u64>()), |(layout, choice)| {
        let mut leaf = 0;
        let position =
            coordinate_of(&((choice % size(&layout) as u64) as i64).into(), layout.shape()).unwrap();
        let coordinate: Coordinate = position.map(&mut |at: &Int| {
            leaf += 1;
            match (choice >> (32 + leaf)) & 1 {
                0 => warpwright_layout::Index::All,
                _ => warpwright_layout::Index::At(at.clone()),
            }
        });
        let (slice, offset) = layout.slice(&coordinate).unwrap();
        let offset = offset.linear().unwrap().known().unwrap();
        let sliced: HashSet<i64> = offsets(&slice).into_iter().map(|kept| kept + offset).collect();
        let all: HashSet<i64> = offsets(&layout).into_iter().collect();
        prop_assert!(sliced.is_subset(&all));
        let diced = layout.dice(&coordinate).unwrap();
        prop_assert_eq!(size(&slice) * size(&diced), size(&layout));
        let grouped = layout.group(0, layout.rank()).unwrap();
        prop_assert!(same_function(&grouped, &layout));
        Ok(())
    });
}

#[test]
fn tiling_to_a_shape() {
    let block = injective_layout().prop_filter("small", |block| size(block) <= 64);
    check((block, prop::collection::vec(1i64..=3, 3)), |(block, repeats)| {
        let extents: Vec<IntTuple> =
            block.modes().iter().zip(&repeats).map(|(mode, by)| IntTuple::from(size(mode) * by)).collect();
        let shape = Tuple::Node(extents);
        let order = Tuple::Node((0..block.rank()).rev().map(IntTuple::from).collect());
        for order in [None, Some(order)] {
            let Some(tiled) = unless_refused(block.tile_to_shape(shape.clone(), order))? else { continue };
            prop_assert!(shape.compatible(tiled.shape()), "{} to {} is {}", block, shape, tiled);
            let first = tiled.compose(Tiler::from(&block.shape().product_each().unwrap()));
            if let (Ok(first), true) = (first, block.depth() > 0) {
                prop_assert_eq!(offsets(&first), offsets(&block));
            }
        }
        Ok(())
    });
}

#[test]
fn recasting_keeps_the_bytes() {
    check((layout(), 0u32..3), |(layout, log)| {
        let factor = 1i64 << log;
        let narrow = layout.downcast(factor).unwrap();
        prop_assert_eq!(size(&narrow), size(&layout) * factor);
        let parts: HashSet<i64> =
            offsets(&layout).iter().flat_map(|o| (0..factor).map(move |i| o * factor + i)).collect();
        prop_assert_eq!(offsets(&narrow).into_iter().collect::<HashSet<_>>(), parts);
        if let Ok(wide) = narrow.upcast(factor) {
            let image = |layout: &Layout| offsets(layout).into_iter().collect::<HashSet<_>>();
            prop_assert_eq!(image(&wide), image(&layout), "{} -> {} -> {}", layout, narrow, wide);
        }
        Ok(())
    });
}

#[test]
fn composed_layouts_and_their_inverses() {
    let swizzle = (0u32..=3, 0u32..=3, 3i32..=4)
        .prop_map(|(bits, base, shift)| Swizzle::new(bits, base, shift).unwrap());
    check((swizzle, 0i64..64, injective_layout()), |(swizzle, offset, inner)| {
        let composed = ComposedLayout::new(swizzle, offset, inner.clone());
        for index in 0..size(&inner) {
            prop_assert_eq!(composed.at(index).unwrap(), swizzle.apply(offset + inner.at(index).unwrap()));
        }
        if let Ok(back) = composed.left_inverse() {
            for index in 0..size(&inner) {
                prop_assert_eq!(back.at(composed.at(index).unwrap()).unwrap(), index);
            }
        }
        let sliced = composed.slice(&padded(&inner)).unwrap();
        prop_assert!(sliced.size().unwrap().known().unwrap() <= size(&inner));
        Ok(())
    });
}

fn padded(layout: &Layout) -> Coordinate {
    match layout.depth() {
        0 => All.into(),
        _ => Tuple::Node(
            (0..layout.rank()).map(|mode| if mode == 0 { All.into() } else { Coordinate::from(0) }).collect(),
        ),
    }
}

/// A layout of device leaves computes, once its variables have values, what the known layout does.
#[test]
fn device_leaves_compute_what_known_ones_do() {
    check((1i64..=40, 1i64..=40, 1i64..=8, 1i64..=8, 0i64..4, 0i64..4), |(m, k, tile_m, tile_k, bx, at)| {
        let bx = bx % ((m + tile_m - 1) / tile_m);
        let value = |variable: &warpwright_layout::Variable| Some([m, k, bx][variable.id as usize]);
        let (device_m, device_k, block) = (Int::device(0, "m"), Int::device(1, "k"), Int::device(2, "bx"));
        let device = ComposedLayout::from(Layout::new((device_m, device_k.clone()), (device_k, 1)).unwrap());
        let known = ComposedLayout::from(Layout::new((m, k), (k, 1)).unwrap());
        let tiled = device.local_tile((tile_m, tile_k), &(block, All).into()).unwrap();
        let expected = known.local_tile((tile_m, tile_k), &(bx, All).into()).unwrap();
        let coordinate = IntTuple::from((at % tile_m, at % tile_k, 0));
        let offset = tiled.index(&coordinate).unwrap();
        prop_assert_eq!(offset.evaluate(&mut { value }), expected.index(&coordinate).unwrap().known());
        let sizes = (tiled.size().unwrap().evaluate(&mut { value }), expected.size().unwrap().known());
        prop_assert_eq!(sizes.0, sizes.1);
        Ok(())
    });
}
