//! The layout algebra's MMA atoms against the emulator's fragments, which golden cases recorded on
//! an H200 hold to the hardware: the two tables were written apart, and must say the same of every
//! lane and value.

use warpwright::arch::DataType;
use warpwright::emulator::tensor::fragment::Fragment;
use warpwright::emulator::tensor::sparse::Metadata;
use warpwright::emulator::tensor::tile::Tile;
use warpwright::emulator::tensor::{LANES, Order, Shape, warp_matrix};
use warpwright::layout::Layout;
use warpwright::layout::atom::{Family, MmaAtom, Operand};

fn shape(atom: &MmaAtom) -> Shape {
    let (m, n, k) = atom.shape;
    Shape::new(m as usize, n as usize, k as usize)
}

/// The emulator's fragment of an operand of a warp's `mma`, dense or sparse.
fn warp(atom: &MmaAtom, operand: Operand) -> Fragment {
    let (rows, columns) = atom.tile(operand);
    let bits = atom.element(operand).bits();
    match operand {
        Operand::A => Fragment::left(rows as usize, columns as usize, bits),
        Operand::B => Fragment::right(columns as usize, bits),
        Operand::C | Operand::D => Fragment::accumulator(rows as usize, bits),
    }
}

fn wmma(atom: &MmaAtom, operand: Operand) -> Fragment {
    let which = match operand {
        Operand::A => warp_matrix::Operand::A,
        Operand::B => warp_matrix::Operand::B,
        Operand::C | Operand::D => warp_matrix::Operand::Accumulator,
    };
    match operand {
        Operand::A | Operand::B => warp_matrix::fragment(shape(atom), which, atom.a),
        // Accumulators of both widths are spread alike.
        Operand::C | Operand::D => warp_matrix::fragment(shape(atom), which, atom.element(operand)),
    }
}

fn quadpair(atom: &MmaAtom, operand: Operand) -> Fragment {
    let order = |k_major: bool, yes, no| if k_major { yes } else { no };
    match operand {
        Operand::A => Fragment::quad_left(order(atom.a_k_major, Order::Row, Order::Column)),
        Operand::B => Fragment::quad_right(order(atom.b_k_major, Order::Column, Order::Row)),
        Operand::C | Operand::D => Fragment::quad_accumulator(atom.element(operand).bits()),
    }
}

/// The place in its tile of a thread's value.
fn place(layout: &Layout, thread: usize, value: usize) -> i64 {
    let index = layout.index(&(thread as i64, value as i64).into()).expect("in the layout");
    index.known().expect("atoms are known at build time")
}

fn extent(layout: &Layout, mode: usize) -> usize {
    layout.mode(mode).and_then(|mode| mode.known_size("an atom")).expect("known") as usize
}

/// Holds every atom of a family to the emulator's fragments; Returns how many places were
/// compared.
fn compare(family: Family, fragment: fn(&MmaAtom, Operand) -> Fragment) -> usize {
    let mut places = 0;
    for atom in MmaAtom::all().into_iter().filter(|atom| atom.family == family) {
        let lanes = atom.threads().expect("a table's atom has threads").offsets().expect("known");
        for operand in Operand::ALL {
            let (rows, _) = atom.tile(operand);
            let layout = atom.thread_values(operand).expect("a table's atom has a layout");
            let fragment = fragment(&atom, operand);
            // The emulator counts words of 32 bits as wmma's elements of b1.
            let run = if family == Family::Wmma && atom.element(operand) == DataType::B1 { 32 } else { 1 };
            let values = extent(&layout, 1);
            assert_eq!(values, run * fragment.elements(), "{} {operand:?}", atom.name());
            for (thread, &lane) in lanes.iter().enumerate() {
                for value in 0..values {
                    let index = place(&layout, thread, value);
                    let (row, column) = ((index % rows) as usize, (index / rows) as usize);
                    let (mut held_row, mut held_column) = fragment.place(lane as usize, value / run);
                    if operand == Operand::B {
                        // The hardware's B is (k, n), the algebra's (n, k).
                        (held_row, held_column) = (held_column, held_row);
                    }
                    assert_eq!(
                        (held_row, held_column * run + value % run),
                        (row, column),
                        "{} {operand:?}, lane {lane}, value {value}",
                        atom.name()
                    );
                    places += 1;
                }
            }
        }
    }
    places
}

#[test]
fn atoms_hold_what_the_hardware_holds() {
    assert!(compare(Family::Warp, warp) > 10_000);
}

#[test]
fn sparse_atoms_hold_what_the_hardware_holds() {
    assert!(compare(Family::SparseWarp, warp) > 10_000);
}

#[test]
fn wmma_atoms_hold_what_the_hardware_holds() {
    assert!(compare(Family::Wmma, wmma) > 10_000);
}

#[test]
fn quadpairs_hold_what_the_hardware_holds() {
    assert!(compare(Family::Quadpair, quadpair) > 1_000);
}

/// Rows of A of one warp of every sparse multiply.
const ROWS: usize = 16;

/// A sparse A expanded by the emulator has each stored element where the atom's metadata says, for
/// every selector.
#[test]
fn metadata_places_what_the_hardware_places() {
    let mut placed = 0;
    for atom in MmaAtom::all() {
        let Some(metadata) = atom.metadata() else { continue };
        let layout = metadata.thread_values().expect("a table's atom has metadata");
        let (rows, stored) = atom.tile(Operand::A);
        let mut values = Tile::zeros(rows as usize, stored as usize);
        for row in 0..rows as usize {
            for column in 0..stored as usize {
                values.set(row, column, 1 + (row * stored as usize + column) as u32);
            }
        }
        let threads = extent(&layout, 0);
        let words: Vec<u32> = (0..threads).map(|thread| legal_metadata(atom.a, thread as u32)).collect();
        for selector in 0..metadata.selectors() as usize {
            let mut entries = vec![0; (rows * metadata.entries) as usize];
            let chosen = 4 / metadata.selectors() as usize;
            for thread in (0..threads).filter(|thread| thread % 4 / chosen == selector) {
                for value in 0..extent(&layout, 1) {
                    let bits = metadata.entry_bits as u32;
                    let entry = words[thread] >> (bits * value as u32) & ((1 << bits) - 1);
                    entries[place(&layout, thread, value) as usize] = i64::from(entry);
                }
            }
            // Each warp of a warpgroup has 16 rows of A, and metadata of its own.
            for (warp, words) in words.chunks_exact(LANES).enumerate() {
                let words: &[u32; LANES] = words.try_into().expect("whole warps");
                let mut mine = Tile::zeros(ROWS, stored as usize);
                for (row, column) in (0..ROWS).flat_map(|row| (0..stored as usize).map(move |c| (row, c))) {
                    mine.set(row, column, values.get(warp * ROWS + row, column));
                }
                let shape = Shape { m: ROWS, ..shape(&atom) };
                let full = Metadata::new(shape, atom.a, selector).expand(&mine, words);
                for row in 0..ROWS {
                    for column in 0..stored {
                        let index = (warp * ROWS + row) as i64 + rows * metadata.entry_of(column);
                        let at = metadata.column(column, entries[index as usize]);
                        let value = mine.get(row, column as usize);
                        assert_eq!(full.get(row, at as usize), value, "{} {row},{column}", atom.name());
                        placed += 1;
                    }
                }
            }
        }
    }
    assert!(placed > 10_000, "the whole table was walked");
}

/// A register of metadata in which every entry is legal: two different places of four, rising, or
/// one of two.
fn legal_metadata(element: DataType, lane: u32) -> u32 {
    const PAIRS: [u32; 6] = [0b0100, 0b1000, 0b1100, 0b1001, 0b1101, 0b1110];
    let mixed = |at: u32| (lane * 8 + at).wrapping_mul(2_654_435_761) >> 16;
    (0..8).fold(0, |word, at| {
        let entry = match element {
            DataType::Tf32 => [0b0100, 0b1110][(mixed(at) % 2) as usize],
            _ => PAIRS[(mixed(at) % 6) as usize],
        };
        word | entry << (4 * at)
    })
}
