//! Tiled copies and multiplications, against brute force: every element has its owner, and both
//! sides of a copy agree.

use std::collections::HashMap;
use warpwright_layout::atom::{COPY_TABLE, CopyAtom, Family, MmaAtom, Operand};
use warpwright_layout::{ComposedLayout, IntTuple, Layout, Swizzle, TiledCopy, TiledMma, Tiler};

fn layout(text: &str) -> Layout {
    text.parse().unwrap()
}

/// The tensor whose offsets are its own indices.
fn counting(shape: impl Into<IntTuple>) -> ComposedLayout {
    Layout::column_major(shape).unwrap().into()
}

fn counts(parts: impl Iterator<Item = ComposedLayout>) -> HashMap<i64, usize> {
    let mut counts = HashMap::new();
    for offset in parts.flat_map(|part| part.offsets().unwrap()) {
        *counts.entry(offset).or_insert(0) += 1;
    }
    counts
}

#[test]
fn the_tutorial_copy_owns_what_it_says() {
    // 32 threads as 4 by 8, four floats each down a column.
    let atom = CopyAtom::universal(128, 32).unwrap();
    let copy = TiledCopy::new(atom, &layout("(4,8):(1,4)"), &layout("(4,1):(1,0)")).unwrap();
    assert_eq!(copy.tile(), &IntTuple::from((16, 8)));
    let tile = counting((16, 8));
    for thread in 0..32 {
        let mine = copy.partition_target(&tile, thread).unwrap();
        let start = thread % 4 * 4 + thread / 4 * 16;
        assert_eq!(mine.offsets().unwrap(), [start, start + 1, start + 2, start + 3].map(i64::from));
    }
    let larger = copy.partition_source(&counting((32, 8)), 0).unwrap();
    assert_eq!(larger.shape().to_string(), "((4,1),2,1)");
}

#[test]
fn copies_cover_their_tensor_exactly_once() {
    for (bits, threads, values, shape) in [
        (128, "(32,4):(4,1)", "(1,8):(0,1)", (64, 64)),
        (64, "(16,8):(8,1)", "(2,4):(4,1)", (64, 64)),
        (16, "(8,4):(1,8)", "(1,1):(0,0)", (16, 8)),
        (128, "(128,1):(1,0)", "(1,32):(0,1)", (128, 32)),
    ] {
        let atom = CopyAtom::universal(bits, 16).unwrap();
        let copy = TiledCopy::new(atom, &layout(threads), &layout(values)).unwrap();
        let tensor = counting(shape);
        let number = copy.threads().unwrap();
        let counted = counts((0..number).map(|thread| copy.partition_source(&tensor, thread).unwrap()));
        assert_eq!(counted.len() as i32, shape.0 * shape.1, "{threads}");
        assert!(counted.values().all(|&times| times == 1), "{threads}");
    }
}

#[test]
fn a_swizzled_tensor_partitions_as_its_plain_one() {
    let atom = CopyAtom::universal(128, 16).unwrap();
    let copy = TiledCopy::new(atom, &layout("(32,4):(4,1)"), &layout("(1,8):(0,1)")).unwrap();
    let plain = layout("(64,64):(64,1)");
    let swizzle = Swizzle::new(3, 3, 3).unwrap();
    for thread in [0, 1, 17, 127] {
        let a = copy.partition_target(&plain.clone().into(), thread).unwrap();
        let b = copy.partition_target(&plain.swizzled(swizzle), thread).unwrap();
        let moved: Vec<i64> = a.offsets().unwrap().into_iter().map(|offset| swizzle.apply(offset)).collect();
        assert_eq!(b.offsets().unwrap(), moved);
    }
}

#[test]
fn multiplications_cover_every_operand() {
    let arrangements = ["(1,1,1):(0,0,0)", "(2,2,1):(1,2,0)", "(1,4,1):(0,1,0)", "(4,1,1):(1,0,0)"];
    let by_warp = |atom: &MmaAtom| matches!(atom.family, Family::Warp | Family::SparseWarp | Family::Wmma);
    for atom in MmaAtom::all().into_iter().filter(by_warp).step_by(7) {
        for arrangement in arrangements {
            let mma = TiledMma::new(atom.clone(), &layout(arrangement)).unwrap();
            for operand in Operand::ALL {
                let tile = mma.tile(operand).unwrap();
                let extents = tile.leaves();
                let shape = (extents[0].known().unwrap() * 2, extents[1].known().unwrap() * 2);
                let tensor = counting(shape);
                let threads = mma.threads().unwrap();
                let counted =
                    counts((0..threads).map(|thread| mma.partition(operand, &tensor, thread).unwrap()));
                let (m, n) = (mma.thread_layout().mode(1).unwrap(), mma.thread_layout().mode(2).unwrap());
                let sharing = match operand {
                    Operand::A => n.size().unwrap(),
                    Operand::B => m.size().unwrap(),
                    Operand::C | Operand::D => 1.into(),
                };
                let held = mma.atom().thread_values(operand).unwrap();
                let held = held.size().unwrap().known().unwrap() / held.cosize().unwrap().known().unwrap();
                let sharing = (sharing.known().unwrap() * held) as usize;
                assert_eq!(counted.len() as i64, shape.0 * shape.1, "{} {operand:?}", atom.name());
                assert!(counted.values().all(|&times| times == sharing), "{} {operand:?}", atom.name());
            }
        }
    }
}

#[test]
fn warpgroups_partition_accumulators() {
    let atom = MmaAtom::named("SM90_64x128x16_F32F16F16_SS").unwrap();
    let mma = TiledMma::new(atom, &layout("(2,1,1):(1,0,0)")).unwrap();
    assert_eq!(mma.threads().unwrap(), 256);
    let tensor = counting((128, 256));
    let counted = counts((0..256).map(|thread| mma.partition(Operand::C, &tensor, thread).unwrap()));
    assert_eq!(counted.len(), 128 * 256);
    // A in shared memory is every thread's whole.
    let a = mma.partition(Operand::A, &counting((128, 64)), 0).unwrap();
    assert_eq!(a.size().unwrap(), 64 * 64);
}

#[test]
fn quadpairs_partition_accumulators() {
    let atom = MmaAtom::named("SM70_8x8x4_F32F16F16F32_TN").unwrap();
    let mma = TiledMma::new(atom, &layout("(2,2,1):(1,2,0)")).unwrap();
    let tensor = counting((16, 16));
    let counted = counts((0..32).map(|thread| mma.partition(Operand::C, &tensor, thread).unwrap()));
    assert_eq!(counted.len(), 256);
    assert!(counted.values().all(|&times| times == 1));
}

#[test]
fn a_permutation_makes_neighbors_of_one_threads_values() {
    let atom = MmaAtom::named("SM80_16x8x16_F32F16F16F32_TN").unwrap();
    let permutation = [Tiler::All, Tiler::from(layout("(2,4,2):(1,4,2)")), Tiler::All];
    let mma = TiledMma::permuted(atom, &layout("(1,1,1)"), permutation).unwrap();
    let tensor = counting((16, 16));
    let counted = counts((0..32).map(|thread| mma.partition(Operand::C, &tensor, thread).unwrap()));
    assert_eq!(counted.len(), 256);
    let columns = |thread: i32| {
        let mine = mma.partition(Operand::C, &tensor, thread).unwrap().offsets().unwrap();
        let mut columns: Vec<i64> =
            mine.into_iter().filter(|offset| offset % 16 == 0).map(|offset| offset / 16).collect();
        columns.sort();
        columns
    };
    assert_eq!(columns(0), [0, 1, 2, 3]);
    assert_eq!(columns(1), [4, 5, 6, 7]);
}

/// What `ldmatrix` puts in a lane's registers is what the MMA wants there: the copy's destination,
/// retiled from the MMA's fragment, names for each value the element that the copy's source side
/// sends there.
#[test]
fn matrix_loads_fill_the_fragments_of_the_mma() {
    for (operand, name) in [
        (Operand::A, "SM75_U32x4_LDSM_N"),
        (Operand::A, "SM75_U32x2_LDSM_N"),
        (Operand::A, "SM75_U32x1_LDSM_N"),
        (Operand::B, "SM75_U32x2_LDSM_N"),
        (Operand::B, "SM75_U32x1_LDSM_N"),
    ] {
        let atom = MmaAtom::named("SM80_16x8x16_F32F16F16F32_TN").unwrap();
        let mma = TiledMma::new(atom, &layout("(2,2,1):(1,2,0)")).unwrap();
        let copy = TiledCopy::for_operand(CopyAtom::named(name, 16).unwrap(), &mma, operand).unwrap();
        let shape = match operand {
            Operand::A => (128, 32),
            _ => (64, 32),
        };
        let tensor = counting(shape);
        for thread in [0, 5, 31, 32, 77, 127] {
            let fragment = mma.partition(operand, &tensor, thread).unwrap();
            let retiled = copy.retile(&fragment).unwrap();
            let wanted = copy.partition_target(&tensor, thread).unwrap();
            assert_eq!(retiled.offsets().unwrap(), wanted.offsets().unwrap(), "{name} {operand:?} {thread}");
            assert_eq!(retiled.size().unwrap(), fragment.size().unwrap());
        }
    }
}

#[test]
fn each_side_of_a_matrix_load_covers_the_tile() {
    for row in COPY_TABLE.iter().filter(|row| row.name.contains("LDSM") || row.name.contains("STSM")) {
        let atom = CopyAtom::named(row.name, 16).unwrap();
        let values = atom.values().unwrap();
        let copy = TiledCopy::of_thread_values(atom.clone(), atom.reference().clone(), (32 * values).into())
            .unwrap();
        let tensor = counting(32 * values);
        let sources = (0..32).map(|thread| copy.partition_source(&tensor, thread).unwrap());
        assert_eq!(counts(sources).len() as i64, 32 * values, "{}", row.name);
        let targets = (0..32).map(|thread| copy.partition_target(&tensor, thread).unwrap());
        assert_eq!(counts(targets).len() as i64, 32 * values, "{}", row.name);
    }
}

#[test]
fn copies_that_do_not_fit_are_refused() {
    let atom = CopyAtom::universal(128, 16).unwrap();
    let error = TiledCopy::new(atom.clone(), &layout("(32,1)"), &layout("(1,4)")).unwrap_err();
    assert!(error.to_string().contains("multiple of the 8"), "{error}");
    let error = TiledCopy::new(atom, &layout("(4,8):(1,1)"), &layout("(1,8)")).unwrap_err();
    assert!(!error.to_string().is_empty());
    assert!(CopyAtom::universal(96, 16).is_err());
}

/// A (10, 6) tensor by (4, 4) tiles: the identity tensor, cut and partitioned as the tensor is,
/// says which elements of the overhanging tiles exist; those are all elements, once.
#[test]
fn identity_tensors_predicate_the_remainder() {
    let (m, n) = (10, 6);
    let threads = layout("(2,2):(1,2)");
    let tensor = counting((m, n));
    let identity = ComposedLayout::from(Layout::identity((m, n)).unwrap());
    let mut seen = HashMap::new();
    for (row, column) in (0..3).flat_map(|row| (0..2).map(move |column| (row, column))) {
        let cut = |tensor: &ComposedLayout, thread: i32| {
            let tile = tensor.local_tile((4, 4), &(row, column).into()).unwrap();
            tile.local_partition(&threads, thread).unwrap()
        };
        for thread in 0..4 {
            let (mine, places) = (cut(&tensor, thread), cut(&identity, thread));
            assert_eq!(mine.shape(), places.shape());
            for index in 0..mine.size().unwrap().known().unwrap() {
                let place = places.evaluate(&index.into()).unwrap().to_string();
                let place: IntTuple = place.parse().unwrap();
                let (i, j) = (place.leaves()[0].known().unwrap(), place.leaves()[1].known().unwrap());
                if i < m && j < n {
                    assert_eq!(mine.at(index).unwrap(), i + j * m);
                    *seen.entry((i, j)).or_insert(0) += 1;
                }
            }
        }
    }
    assert_eq!(seen.len() as i64, m * n);
    assert!(seen.values().all(|&times| times == 1));
}
