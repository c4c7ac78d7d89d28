//! Matrix-multiply atoms: `mma.sync`, `wgmma` and `wmma`.

use super::Element::{self, *};
use crate::{Error, IntTuple, Layout, Tuple};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::OnceLock;

/// One of the matrices of a multiplication D = A B + C. B is taken as (n, k), as CuTe does.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Operand {
    /// The (m, k) factor.
    A,
    /// The (n, k) factor.
    B,
    /// The (m, n) accumulator, going in or out.
    C,
}

/// How an instruction spreads its matrices over threads.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Family {
    /// `mma.sync.m8n8k4` of sm_70: quadpairs of 8 threads.
    Quadpair,
    /// `mma.sync` from sm_75 on: one warp, quads along a row.
    Warp,
    /// `wgmma.mma_async` of sm_90: four warps; A and B may be read from shared memory.
    Warpgroup,
}

/// A row of the table: one shape, and the element types (A, B, C) it comes in.
#[derive(Clone, Copy, Debug)]
pub struct MmaRow {
    /// The first architecture, as in `sm_80`.
    pub sm: u32,
    /// How the matrices are spread.
    pub family: Family,
    /// M, N, K. For `wgmma` N is the largest; every multiple of 8 below is one too (see [`MmaAtom::all`]).
    pub shape: (i64, i64, i64),
    /// Types of A, B and of C and D.
    pub types: &'static [(Element, Element, Element)],
}

const fn row(
    sm: u32,
    family: Family,
    shape: (i64, i64, i64),
    types: &'static [(Element, Element, Element)],
) -> MmaRow {
    MmaRow { sm, family, shape, types }
}

const F16_TYPES: &[(Element, Element, Element)] = &[(F16, F16, F16), (F16, F16, F32)];
const BF16_TYPES: &[(Element, Element, Element)] = &[(Bf16, Bf16, F32)];
const TF32_TYPES: &[(Element, Element, Element)] = &[(Tf32, Tf32, F32)];
const F64_TYPES: &[(Element, Element, Element)] = &[(F64, F64, F64)];
const BYTE_TYPES: &[(Element, Element, Element)] =
    &[(S8, S8, S32), (S8, U8, S32), (U8, S8, S32), (U8, U8, S32)];
const NIBBLE_TYPES: &[(Element, Element, Element)] =
    &[(S4, S4, S32), (S4, U4, S32), (U4, S4, S32), (U4, U4, S32)];
const BIT_TYPES: &[(Element, Element, Element)] = &[(B1, B1, S32)];
const FP8_TYPES: &[(Element, Element, Element)] = &[
    (E4m3, E4m3, F32),
    (E4m3, E5m2, F32),
    (E5m2, E4m3, F32),
    (E5m2, E5m2, F32),
    (E4m3, E4m3, F16),
    (E4m3, E5m2, F16),
    (E5m2, E4m3, F16),
    (E5m2, E5m2, F16),
];

/// Every `mma.sync` and `wgmma` shape of sm_70 to sm_90, dense. PTX ISA, "Matrix multiply-accumulate operation using mma
/// instruction" and "Asynchronous warpgroup level matrix multiply-accumulate instructions".
pub const MMA_TABLE: &[MmaRow] = &[
    row(70, Family::Quadpair, (8, 8, 4), F16_TYPES),
    row(75, Family::Warp, (16, 8, 8), F16_TYPES),
    row(75, Family::Warp, (8, 8, 16), BYTE_TYPES),
    row(75, Family::Warp, (8, 8, 32), NIBBLE_TYPES),
    row(75, Family::Warp, (8, 8, 128), BIT_TYPES),
    row(80, Family::Warp, (16, 8, 16), F16_TYPES),
    row(80, Family::Warp, (16, 8, 8), BF16_TYPES),
    row(80, Family::Warp, (16, 8, 16), BF16_TYPES),
    row(80, Family::Warp, (16, 8, 4), TF32_TYPES),
    row(80, Family::Warp, (16, 8, 8), TF32_TYPES),
    row(80, Family::Warp, (8, 8, 4), F64_TYPES),
    row(80, Family::Warp, (16, 8, 16), BYTE_TYPES),
    row(80, Family::Warp, (16, 8, 32), BYTE_TYPES),
    row(80, Family::Warp, (16, 8, 32), NIBBLE_TYPES),
    row(80, Family::Warp, (16, 8, 64), NIBBLE_TYPES),
    row(80, Family::Warp, (16, 8, 128), BIT_TYPES),
    row(80, Family::Warp, (16, 8, 256), BIT_TYPES),
    row(89, Family::Warp, (16, 8, 16), FP8_TYPES),
    row(89, Family::Warp, (16, 8, 32), FP8_TYPES),
    row(90, Family::Warp, (16, 8, 4), F64_TYPES),
    row(90, Family::Warp, (16, 8, 8), F64_TYPES),
    row(90, Family::Warp, (16, 8, 16), F64_TYPES),
    row(90, Family::Warpgroup, (64, 256, 16), F16_TYPES),
    row(90, Family::Warpgroup, (64, 256, 16), BF16_TYPES),
    row(90, Family::Warpgroup, (64, 256, 8), TF32_TYPES),
    row(90, Family::Warpgroup, (64, 256, 32), FP8_TYPES),
    row(90, Family::Warpgroup, (64, 256, 32), BYTE_TYPES),
    row(90, Family::Warpgroup, (64, 256, 256), BIT_TYPES),
];

/// A `wmma` shape. PTX leaves the distribution of its fragments over the lanes unspecified ("Matrix fragments for WMMA"),
/// so there is nothing to lay out: fragments are loaded, multiplied and stored whole.
#[derive(Clone, Copy, Debug)]
pub struct WmmaRow {
    /// The first architecture.
    pub sm: u32,
    /// M, N, K.
    pub shape: (i64, i64, i64),
    /// Types of A, B and of C and D.
    pub types: &'static [(Element, Element, Element)],
}

const fn wmma(sm: u32, shape: (i64, i64, i64), types: &'static [(Element, Element, Element)]) -> WmmaRow {
    WmmaRow { sm, shape, types }
}

/// Every `wmma` shape.
pub const WMMA_TABLE: &[WmmaRow] = &[
    wmma(70, (16, 16, 16), F16_TYPES),
    wmma(70, (32, 8, 16), F16_TYPES),
    wmma(70, (8, 32, 16), F16_TYPES),
    wmma(80, (16, 16, 16), BF16_TYPES),
    wmma(80, (32, 8, 16), BF16_TYPES),
    wmma(80, (8, 32, 16), BF16_TYPES),
    wmma(80, (16, 16, 8), TF32_TYPES),
    wmma(80, (8, 8, 4), F64_TYPES),
    wmma(72, (16, 16, 16), &[(S8, S8, S32), (U8, U8, S32)]),
    wmma(72, (32, 8, 16), &[(S8, S8, S32), (U8, U8, S32)]),
    wmma(72, (8, 32, 16), &[(S8, S8, S32), (U8, U8, S32)]),
    wmma(75, (8, 8, 32), &[(S4, S4, S32), (U4, U4, S32)]),
    wmma(75, (8, 8, 128), BIT_TYPES),
];

/// One matrix-multiply instruction: its shape, its types, and who holds which element.
///
/// ```
/// use warpwright_layout::atom::{MmaAtom, Operand};
/// let atom = MmaAtom::named("SM80_16x8x16_F32F16F16F32_TN")?;
/// assert_eq!(atom.instruction(), "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32");
/// let c = atom.thread_values(Operand::C)?;
/// assert_eq!(c.to_string(), "((4,8),(2,2)):((32,1),(16,8))");
/// // Lane 5, value 3: row 5/4 + 8 = 9, column 2*(5%4) + 1 = 3, of a 16 by 8 tile counted column-major.
/// assert_eq!(c.index(&(5, 3).into())?, 9 + 16 * 3);
/// # Ok::<(), warpwright_layout::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct MmaAtom {
    /// The first architecture.
    pub sm: u32,
    /// How the matrices are spread.
    pub family: Family,
    /// M, N, K.
    pub shape: (i64, i64, i64),
    /// The type of A.
    pub a: Element,
    /// The type of B.
    pub b: Element,
    /// The type of C and D.
    pub c: Element,
    /// Whether A is k-major ("T", row) rather than m-major ("N", col). Only `m8n8k4` of sm_70 and `wgmma` choose.
    pub a_k_major: bool,
    /// Whether B is k-major ("N" of BLAS for a column-major B; CuTe's second "N" is n-major, "T" rows).
    pub b_k_major: bool,
    /// Whether `wgmma` reads A from shared memory.
    pub a_from_shared: bool,
}

impl MmaAtom {
    /// Every atom, `wgmma` for every N.
    pub fn all() -> Vec<MmaAtom> {
        let mut atoms = Vec::new();
        for row in MMA_TABLE {
            for &(a, b, c) in row.types {
                let atom = MmaAtom {
                    sm: row.sm,
                    family: row.family,
                    shape: row.shape,
                    a,
                    b,
                    c,
                    a_k_major: true,
                    b_k_major: true,
                    a_from_shared: false,
                };
                match row.family {
                    Family::Warp => atoms.push(atom),
                    Family::Quadpair => {
                        for (a_k_major, b_k_major) in
                            [(true, true), (true, false), (false, true), (false, false)]
                        {
                            atoms.push(MmaAtom { a_k_major, b_k_major, ..atom.clone() });
                        }
                    }
                    Family::Warpgroup => {
                        for n in (8..=row.shape.1).step_by(8).filter(|&n| warpgroup_width_is_legal(n, a)) {
                            for a_from_shared in [true, false] {
                                let shape = (row.shape.0, n, row.shape.2);
                                atoms.push(MmaAtom { shape, a_from_shared, ..atom.clone() });
                            }
                        }
                    }
                }
            }
        }
        atoms
    }

    /// The atom of CuTe's name, such as `SM80_16x8x16_F32F16F16F32_TN` or `SM90_64x128x16_F32F16F16_SS`.
    ///
    /// # Errors
    /// If there is none; the nearest name is suggested.
    pub fn named(name: &str) -> Result<MmaAtom, Error> {
        static BY_NAME: OnceLock<HashMap<String, MmaAtom>> = OnceLock::new();
        let by_name =
            BY_NAME.get_or_init(|| MmaAtom::all().into_iter().map(|atom| (atom.name(), atom)).collect());
        if let Some(atom) = by_name.get(name) {
            return Ok(atom.clone());
        }
        let shared = |other: &str| other.bytes().zip(name.bytes()).take_while(|(a, b)| a == b).count();
        let nearest = by_name.keys().max_by_key(|other| (shared(other), Reverse(other.as_str())));
        let nearest = nearest.map_or("", String::as_str);
        let given: String = name.chars().take(60).collect();
        Err(Error::bad_argument(
            "the MMA atom",
            given,
            format!("one of the table's; the nearest is {nearest}"),
        ))
    }

    /// CuTe's name.
    pub fn name(&self) -> String {
        let (m, n, k) = self.shape;
        let (a, b, c) = (self.a.cute(), self.b.cute(), self.c.cute());
        let shape = format!("SM{}_{m}x{n}x{k}", self.sm);
        let letter = |k_major: bool, yes: char, no: char| if k_major { yes } else { no };
        match self.family {
            Family::Warpgroup => {
                format!("{shape}_{c}{a}{b}_{}S", if self.a_from_shared { 'S' } else { 'R' })
            }
            _ => {
                let (a_letter, b_letter) =
                    (letter(self.a_k_major, 'T', 'N'), letter(self.b_k_major, 'N', 'T'));
                format!("{shape}_{c}{a}{b}{c}_{a_letter}{b_letter}")
            }
        }
    }

    /// The PTX opcode. One-bit types end in their combining operation: `.xor.popc` on sm_75, which has no other, and
    /// `.and.popc` from sm_80 on.
    pub fn instruction(&self) -> String {
        let (m, n, k) = self.shape;
        let (a, b, c) = (self.a, self.b, self.c);
        let popc = match (a, self.sm) {
            (B1, 75) => ".xor.popc",
            (B1, _) => ".and.popc",
            _ => "",
        };
        match self.family {
            Family::Warpgroup => format!("wgmma.mma_async.sync.aligned.m{m}n{n}k{k}.{c}.{a}.{b}{popc}"),
            _ => {
                let a_order = if self.a_k_major { "row" } else { "col" };
                let b_order = if self.b_k_major { "col" } else { "row" };
                format!("mma.sync.aligned.m{m}n{n}k{k}.{a_order}.{b_order}.{c}.{a}.{b}.{c}{popc}")
            }
        }
    }

    /// The atom's thread numbers within the warp or warpgroup: the quadpair's threads are 0-3 and 16-19.
    pub fn threads(&self) -> Result<Layout, Error> {
        match self.family {
            Family::Quadpair => Layout::new((4, 2), (1, 16)),
            Family::Warp => Layout::new(32, 1),
            Family::Warpgroup => Layout::new(128, 1),
        }
    }

    /// The shape of an operand: (m, k), (n, k) or (m, n).
    pub fn tile(&self, operand: Operand) -> (i64, i64) {
        let (m, n, k) = self.shape;
        match operand {
            Operand::A => (m, k),
            Operand::B => (n, k),
            Operand::C => (m, n),
        }
    }

    /// The type of an operand.
    pub fn element(&self, operand: Operand) -> Element {
        match operand {
            Operand::A => self.a,
            Operand::B => self.b,
            Operand::C => self.c,
        }
    }

    /// The thread-value layout of an operand: (thread, value) to an element of its tile, column-major. A matrix that
    /// `wgmma` reads from shared memory is every thread's: its threads have stride 0.
    ///
    /// Post-condition: every element of the tile has exactly one (thread, value), or one value for all threads.
    pub fn thread_values(&self, operand: Operand) -> Result<Layout, Error> {
        let (rows, columns) = self.tile(operand);
        match (self.family, operand) {
            (Family::Quadpair, _) => self.quadpair(operand),
            (Family::Warp, Operand::C) => quads(rows, columns, 2),
            (Family::Warp, _) => quads(rows, columns, (32 / self.element(operand).bits()).max(1)),
            (Family::Warpgroup, Operand::C) => warpgroup(rows, columns, 2),
            (Family::Warpgroup, Operand::A) if !self.a_from_shared => {
                warpgroup(rows, columns, 32 / self.a.bits())
            }
            (Family::Warpgroup, _) => Layout::new((128, (rows, columns)), (0, (1, rows))),
        }
    }

    /// `mma.sync.m8n8k4` (PTX ISA, "Matrix Fragments for mma.m8n8k4 with .f16 floating point type").
    fn quadpair(&self, operand: Operand) -> Result<Layout, Error> {
        let k_major = match operand {
            Operand::A => self.a_k_major,
            Operand::B => self.b_k_major,
            Operand::C if self.c == F32 => {
                return Layout::new(((2, 2, 2), (2, 2, 2)), ((1, 16, 4), (8, 2, 32)));
            }
            Operand::C => return Layout::new((8, 8), (1, 8)),
        };
        match k_major {
            true => Layout::new((8, 4), (1, 8)),
            false => Layout::new(((4, 2), 4), ((8, 4), 1)),
        }
    }

    /// The number of 32-bit registers of an operand's fragment.
    pub fn registers(&self, operand: Operand) -> Result<i64, Error> {
        let values = self.thread_values(operand)?.mode(1)?.known_size("registers")?;
        Ok((values * self.element(operand).bits() + 31) / 32)
    }
}

/// `wgmma` takes N in steps of 8; integers and bits beyond 32 only in steps of 16 (PTX ISA, "Matrix shape" of wgmma).
fn warpgroup_width_is_legal(n: i64, a: Element) -> bool {
    !matches!(a, S8 | U8 | B1) || n <= 32 || n % 16 == 0
}

/// One warp: four neighbouring lanes share a row, each holding `run` neighbouring elements of it; rows repeat every 8,
/// columns every 4 runs. (PTX ISA, the fragment figures of every `mma` shape from m8n8k16 to m16n8k256.)
fn quads(rows: i64, columns: i64, run: i64) -> Result<Layout, Error> {
    let values = fragment_values(&[(run, rows), (rows / 8, 8), (columns / (4 * run), 4 * run * rows)]);
    fragment(vec![(4, run * rows), (8, 1)], values)
}

/// One warpgroup: each warp as [`quads`] on 16 rows, the warps below one another. (PTX ISA, "Register fragments" of wgmma.)
fn warpgroup(rows: i64, columns: i64, run: i64) -> Result<Layout, Error> {
    let values = fragment_values(&[(run, rows), (2, 8), (columns / (4 * run), 4 * run * rows)]);
    fragment(vec![(4, run * rows), (8, 1), (4, 16)], values)
}

/// The modes of more than one value.
fn fragment_values(modes: &[(i64, i64)]) -> Vec<(i64, i64)> {
    let mut kept: Vec<(i64, i64)> = modes.iter().copied().filter(|mode| mode.0 > 1).collect();
    if kept.is_empty() {
        kept.push((1, 0));
    }
    kept
}

fn fragment(threads: Vec<(i64, i64)>, values: Vec<(i64, i64)>) -> Result<Layout, Error> {
    let tuple = |modes: &[(i64, i64)], pick: fn(&(i64, i64)) -> i64| -> IntTuple {
        match modes {
            [mode] => pick(mode).into(),
            _ => Tuple::Node(modes.iter().map(|mode| pick(mode).into()).collect()),
        }
    };
    let extents = (tuple(&threads, |mode| mode.0), tuple(&values, |mode| mode.0));
    let strides = (tuple(&threads, |mode| mode.1), tuple(&values, |mode| mode.1));
    Layout::new(Tuple::Node(vec![extents.0, extents.1]), Tuple::Node(vec![strides.0, strides.1]))
}

#[cfg(test)]
mod tests {
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

    #[test]
    fn every_atom_covers_its_tiles_exactly_once() {
        let mut walked = std::collections::HashSet::new();
        for atom in MmaAtom::all() {
            // Types of one width are spread alike; without optimisation the widths of wgmma are sampled.
            let widths = (atom.a.bits(), atom.b.bits(), atom.c.bits());
            let orders = (atom.a_k_major, atom.b_k_major, atom.a_from_shared);
            let wide = atom.family == Family::Warpgroup && ![8, 24, 256].contains(&atom.shape.1);
            if cfg!(debug_assertions) && wide || !walked.insert((atom.family, atom.shape, widths, orders)) {
                continue;
            }
            for operand in [Operand::A, Operand::B, Operand::C] {
                let (rows, columns) = atom.tile(operand);
                let layout = atom.thread_values(operand).unwrap();
                let shared = layout.mode(0).unwrap().stride().leaves().iter().all(|stride| stride.is(0));
                let mut seen = vec![0; (rows * columns) as usize];
                let owners = owners(&atom, operand);
                for place in owners.iter().take(if shared { 1 } else { owners.len() }).flatten() {
                    assert!(place.0 < rows && place.1 < columns, "{} {operand:?}", atom.name());
                    seen[(place.0 + rows * place.1) as usize] += 1;
                }
                assert!(seen.iter().all(|&times| times == 1), "{} {operand:?}", atom.name());
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

    /// The formulas of the PTX ISA for C of m16n8 and m8n8: row = lane/4 (+8 for the upper values), column =
    /// 2*(lane%4) + (value & 1).
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

    /// The ISA's formulas for A of m16n8k16 .f16, m16n8k8 .tf32, m16n8k32 .s8, m16n8k64 .s4, m16n8k256 .b1 and
    /// m16n8k8 .f64: i is the value; `run` values share a register.
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

    /// m8n8k4 of sm_70, .f32 accumulators: row = X + (i & 2), column = (i & 4) + (lane & 2) + (i & 1), X the low bit of
    /// the lane, plus 4 in the upper half of the quadpair.
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
        assert!(WMMA_TABLE.iter().all(|row| row.sm >= 70 && !row.types.is_empty()));
    }
}
