//! The layout algebra's MMA atoms against the emulator's fragments, which golden cases recorded on an H200 hold to the
//! hardware: the two tables were written apart, and must say the same of every lane and value.

use warpwright::emulator::tensor::fragment::Fragment;
use warpwright::layout::atom::{Family, MmaAtom, Operand};

/// The emulator's fragment of an operand.
fn fragment(atom: &MmaAtom, operand: Operand) -> Fragment {
    let (m, _, k) = atom.shape;
    let bits = atom.element(operand).bits() as u32;
    match operand {
        Operand::A => Fragment::left(m as usize, k as usize, bits),
        Operand::B => Fragment::right(k as usize, bits),
        Operand::C => Fragment::accumulator(m as usize, bits),
    }
}

#[test]
fn atoms_hold_what_the_hardware_holds() {
    let mut places = 0;
    for atom in MmaAtom::all().into_iter().filter(|atom| atom.family == Family::Warp) {
        for operand in [Operand::A, Operand::B, Operand::C] {
            let (rows, _) = atom.tile(operand);
            let layout = atom.thread_values(operand).expect("a table's atom has a layout");
            let fragment = fragment(&atom, operand);
            let values = layout.mode(1).and_then(|values| values.known_size("values")).expect("known");
            assert_eq!(values as usize, fragment.elements(), "{} {operand:?}", atom.name());
            for lane in 0..32 {
                for value in 0..values {
                    let index = layout.index(&(lane, value).into()).expect("in the layout");
                    let index = index.known().expect("atoms are known at build time");
                    let (row, column) = ((index % rows) as usize, (index / rows) as usize);
                    let held = fragment.place(lane as usize, value as usize);
                    // The hardware's B is (k, n), the algebra's (n, k).
                    let held = if operand == Operand::B { (held.1, held.0) } else { held };
                    assert_eq!(
                        held,
                        (row, column),
                        "{} {operand:?}, lane {lane}, value {value}",
                        atom.name()
                    );
                    places += 1;
                }
            }
        }
    }
    assert!(places > 10_000, "the whole table was walked");
}
