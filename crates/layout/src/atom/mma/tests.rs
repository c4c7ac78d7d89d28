//! The table walked, and the formulas of the PTX ISA.

use super::*;

/// Lists (row, column) of each (thread, value).
fn owners(atom: &MmaAtom, operand: Operand) -> Vec<Vec<(i64, i64)>> {
    let layout = atom.thread_values(operand).unwrap();
    let rows = atom.tile(operand).0;
    let threads = layout.mode(0).unwrap().known_size("test").unwrap();
    let values = layout.mode(1).unwrap().known_size("test").unwrap();
    let offsets = layout.offsets().unwrap();
    let place = |thread: i64, value: i64| {
        let offset = offsets[(thread + threads * value) as usize];
        (offset % rows, offset / rows)
    };
    (0..threads).map(|thread| (0..values).map(|value| place(thread, value)).collect()).collect()
}

/// `wmma` holds A and B of f16 several times over, to fill eight registers.
fn repeats(atom: &MmaAtom, operand: Operand) -> bool {
    atom.family == Family::Wmma && atom.a == F16 && matches!(operand, Operand::A | Operand::B)
}

#[test]
fn every_atom_covers_its_tiles_exactly_once() {
    let mut walked = std::collections::HashSet::new();
    for atom in MmaAtom::all() {
        // Types of one width are spread alike; without optimization the widths of wgmma are
        // sampled.
        let widths = [atom.a, atom.b, atom.c, atom.d].map(DataType::bits);
        let orders = (atom.a_k_major, atom.b_k_major, atom.a_from_shared);
        let wide = atom.family.is_warpgroup() && ![8, 24, 256].contains(&atom.shape.1);
        if cfg!(debug_assertions) && wide || !walked.insert((atom.family, atom.shape, widths, orders)) {
            continue;
        }
        for operand in Operand::ALL {
            let (rows, columns) = atom.tile(operand);
            let layout = atom.thread_values(operand).unwrap();
            let shared = layout.mode(0).unwrap().stride().leaves().iter().all(|stride| stride.is(0));
            let mut seen = vec![0; (rows * columns) as usize];
            let owners = owners(&atom, operand);
            for place in owners.iter().take(if shared { 1 } else { owners.len() }).flatten() {
                assert!(place.0 < rows && place.1 < columns, "{} {operand:?}", atom.name());
                seen[(place.0 + rows * place.1) as usize] += 1;
            }
            let held = if repeats(&atom, operand) { seen[0] } else { 1 };
            assert!(held > 0 && seen.iter().all(|&times| times == held), "{} {operand:?}", atom.name());
        }
    }
}

#[test]
fn names_are_unique_and_found_again() {
    let atoms = MmaAtom::all();
    let mut names: Vec<String> = atoms.iter().map(MmaAtom::name).collect();
    names.sort();
    names.windows(2).for_each(|pair| assert_ne!(pair[0], pair[1]));
    for atom in atoms.iter().step_by(17) {
        assert_eq!(&MmaAtom::named(&atom.name()).unwrap(), atom);
    }
    let error = MmaAtom::named("SM80_16x8x16_F32F16F16F32_NT").unwrap_err().to_string();
    assert!(error.contains("SM80_16x8x16_F32F16F16F32_TN"), "{error}");
}

/// The formulas of the PTX ISA for C of m16n8 and m8n8: row = lane/4 (+8 for the upper values),
/// column = 2*(lane%4) + (value & 1).
#[test]
fn accumulators_follow_the_isa() {
    for atom in MmaAtom::all().iter().filter(|atom| atom.family == Family::Warp) {
        for (lane, values) in owners(atom, Operand::C).iter().enumerate() {
            for (value, place) in values.iter().enumerate() {
                let row = lane / 4 + if value >= 2 { 8 } else { 0 };
                let column = 2 * (lane % 4) + (value & 1);
                assert_eq!(*place, (row as i64, column as i64), "{}", atom.name());
            }
        }
    }
}

/// The ISA's formulas for A of m16n8k16 .f16, m16n8k8 .tf32, m16n8k32 .s8, m16n8k64 .s4, m16n8k256
/// .b1 and m16n8k8 .f64: i is the value; `run` values share a register.
#[test]
fn a_fragments_follow_the_isa() {
    type Formula = fn(usize, usize) -> (usize, usize);
    let cases: [(&str, Formula); 6] = [
        ("SM80_16x8x16_F32F16F16F32_TN", |lane, i| {
            let row = lane / 4 + if matches!(i, 0 | 1 | 4 | 5) { 0 } else { 8 };
            (row, (lane % 4) * 2 + (i & 1) + if i < 4 { 0 } else { 8 })
        }),
        ("SM80_16x8x8_F32TF32TF32F32_TN", |lane, i| {
            (lane / 4 + if i == 0 || i == 2 { 0 } else { 8 }, lane % 4 + if i < 2 { 0 } else { 4 })
        }),
        ("SM80_16x8x32_S32S8S8S32_TN", |lane, i| {
            let row = lane / 4 + if i < 4 || (8..12).contains(&i) { 0 } else { 8 };
            (row, (lane % 4) * 4 + (i & 3) + if i < 8 { 0 } else { 16 })
        }),
        ("SM80_16x8x64_S32S4S4S32_TN", |lane, i| {
            let row = lane / 4 + if i < 8 || (16..24).contains(&i) { 0 } else { 8 };
            (row, (lane % 4) * 8 + (i & 7) + if i < 16 { 0 } else { 32 })
        }),
        ("SM80_16x8x256_S32U1U1S32_TN", |lane, i| {
            let row = lane / 4 + if (i / 32) % 2 == 0 { 0 } else { 8 };
            (row, (lane % 4) * 32 + (i & 31) + if i < 64 { 0 } else { 128 })
        }),
        ("SM90_16x8x8_F64F64F64F64_TN", |lane, i| {
            (lane / 4 + if i == 0 || i == 2 { 0 } else { 8 }, lane % 4 + if i < 2 { 0 } else { 4 })
        }),
    ];
    for (name, formula) in cases {
        let atom = MmaAtom::named(name).unwrap();
        for (lane, values) in owners(&atom, Operand::A).iter().enumerate() {
            for (value, place) in values.iter().enumerate() {
                let (row, column) = formula(lane, value);
                assert_eq!(*place, (row as i64, column as i64), "{name} lane {lane} value {value}");
            }
        }
    }
}

/// B of m16n8k16 .f16 is (k, n): row = (lane%4)*2 + (i&1) (+8 for i >= 2), column = lane/4.
#[test]
fn b_fragments_follow_the_isa() {
    let atom = MmaAtom::named("SM80_16x8x16_F32F16F16F32_TN").unwrap();
    for (lane, values) in owners(&atom, Operand::B).iter().enumerate() {
        for (i, place) in values.iter().enumerate() {
            let k = (lane % 4) * 2 + (i & 1) + if i < 2 { 0 } else { 8 };
            assert_eq!(*place, ((lane / 4) as i64, k as i64));
        }
    }
}

/// m8n8k4 of sm_70, .f32 accumulators: row = X + (i & 2), column = (i & 4) + (lane & 2) + (i & 1),
/// X the low bit of the lane, plus 4 in the upper half of the quadpair.
#[test]
fn quadpair_accumulators_follow_the_isa() {
    let atom = MmaAtom::named("SM70_8x8x4_F32F16F16F32_TN").unwrap();
    for (thread, values) in owners(&atom, Operand::C).iter().enumerate() {
        for (i, place) in values.iter().enumerate() {
            let row = (thread & 1) + (i & 2) + if thread < 4 { 0 } else { 4 };
            let column = (i & 4) + (thread & 2) + (i & 1);
            assert_eq!(*place, (row as i64, column as i64));
        }
    }
}

/// D of wgmma: row = 16*warp + lane/4 (+8), column = 8*(i/4) + 2*(lane%4) + (i & 1).
#[test]
fn warpgroup_accumulators_follow_the_isa() {
    let atom = MmaAtom::named("SM90_64x128x16_F32F16F16_SS").unwrap();
    for (thread, values) in owners(&atom, Operand::C).iter().enumerate() {
        let (warp, lane) = (thread / 32, thread % 32);
        for (i, place) in values.iter().enumerate() {
            let row = 16 * warp + lane / 4 + 8 * ((i / 2) % 2);
            let column = 8 * (i / 4) + 2 * (lane % 4) + (i & 1);
            assert_eq!(*place, (row as i64, column as i64));
        }
    }
}

#[test]
fn register_counts() {
    let atom = MmaAtom::named("SM80_16x8x16_F32F16F16F32_TN").unwrap();
    let counts = [Operand::A, Operand::B, Operand::C].map(|operand| atom.registers(operand).unwrap());
    assert_eq!(counts, [4, 2, 4]);
    // The registers that `wmma.load` gives (PTX ISA, "Matrix fragments for WMMA").
    for (name, counted) in [
        ("SM70_WMMA_16x16x16_F32F16F16F32_TN", [8, 8, 8]),
        ("SM70_WMMA_8x32x16_F16F16F16F16_TN", [8, 8, 4]),
        ("SM80_WMMA_32x8x16_F32BF16BF16F32_TN", [8, 2, 8]),
        ("SM80_WMMA_8x32x16_F32BF16BF16F32_TN", [2, 8, 8]),
        ("SM80_WMMA_16x16x8_F32TF32TF32F32_TN", [4, 4, 8]),
        ("SM72_WMMA_16x16x16_S32S8S8S32_TN", [2, 2, 8]),
        ("SM72_WMMA_32x8x16_S32U8U8S32_TN", [4, 1, 8]),
        ("SM75_WMMA_8x8x32_S32S4S4S32_TN", [1, 1, 2]),
        ("SM75_WMMA_8x8x128_S32U1U1S32_TN", [1, 1, 2]),
        ("SM80_WMMA_8x8x4_F64F64F64F64_TN", [2, 2, 4]),
    ] {
        let atom = MmaAtom::named(name).unwrap();
        let counts = [Operand::A, Operand::B, Operand::C].map(|operand| atom.registers(operand).unwrap());
        assert_eq!(counts, counted, "{name}");
    }
}

/// Every entry of the metadata is held by as many lanes as there are selectors, and a selector
/// chooses one of them.
#[test]
fn metadata_covers_every_stored_element() {
    let sparse: Vec<MmaAtom> = MmaAtom::all().into_iter().filter(|atom| atom.metadata().is_some()).collect();
    // 28 of a warp; of a warpgroup, by registers and shared memory, 32 widths of 12 floats and 18
    // of 4 integers.
    assert_eq!(sparse.len(), 28 + 2 * (32 * 12 + 18 * 4));
    for atom in sparse {
        let metadata = atom.metadata().unwrap();
        let (rows, entries) = metadata.tile();
        let mut held = vec![0; (rows * entries) as usize];
        for place in metadata.thread_values().unwrap().offsets().unwrap() {
            held[place as usize] += 1;
        }
        assert!(held.iter().all(|&times| times == metadata.selectors()), "{}", atom.name());
        let stored = atom.tile(Operand::A).1;
        let columns = (0..stored).map(|stored| metadata.column(stored, 0)).max().unwrap();
        assert!((0..stored).all(|stored| metadata.entry_of(stored) < entries) && columns < atom.shape.2);
    }
}
