//! Matrix-multiply atoms: `mma.sync`, dense and sparse, `wmma` and `wgmma`.

mod fragment;
mod metadata;

pub use metadata::Metadata;

use crate::{Error, Layout};
use fragment::{Order, pieces, quads, repeated, shared, warpgroup};
use std::cmp::Reverse;
use std::collections::HashMap;
use std::sync::OnceLock;
use warpwright_arch::DataType::{self, *};
use warpwright_arch::mma::{Family, MMA_TABLE, Operand, Shape, Types};

/// One MMA instruction: its shape, its data types, and the elements that each thread holds.
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
    /// The instruction family.
    pub family: Family,
    /// M, N, K.
    pub shape: (i64, i64, i64),
    /// The type of A.
    pub a: DataType,
    /// The type of B.
    pub b: DataType,
    /// The type of C.
    pub c: DataType,
    /// The type of D.
    pub d: DataType,
    /// Whether A is k-major ("T", row) rather than m-major ("N", col). Only `m8n8k4` of sm_70,
    /// `wmma` and `wgmma` have both.
    pub a_k_major: bool,
    /// Whether B is k-major ("N" of BLAS for a column-major B; CuTe's second "N" is n-major, "T"
    /// rows).
    pub b_k_major: bool,
    /// Whether `wgmma` reads A from shared memory.
    pub a_from_shared: bool,
}

impl MmaAtom {
    /// Every atom, with every N of `wgmma`.
    pub fn all() -> Vec<MmaAtom> {
        let mut atoms = Vec::new();
        for row in MMA_TABLE {
            for types in row.types() {
                for shape in row.shapes() {
                    Self::push_all(&mut atoms, Self::of(row.sm, row.family, shape, types));
                }
            }
        }
        atoms
    }

    /// The atom with A and B k-major, and A in registers.
    fn of(sm: u32, family: Family, shape: Shape, types: Types) -> MmaAtom {
        let Types { a, b, c, d } = types;
        let shape = (shape.m.into(), shape.n.into(), shape.k.into());
        MmaAtom { sm, family, shape, a, b, c, d, a_k_major: true, b_k_major: true, a_from_shared: false }
    }

    /// Appends the atom with every order, or every source, of its operands.
    fn push_all(atoms: &mut Vec<MmaAtom>, atom: MmaAtom) {
        match atom.family {
            Family::Warp | Family::SparseWarp => atoms.push(atom),
            // Elements narrower than a byte are loaded along k only.
            Family::Wmma if atom.a.bits() < 8 => atoms.push(atom),
            Family::Quadpair | Family::Wmma => {
                for (a_k_major, b_k_major) in [(true, true), (true, false), (false, true), (false, false)] {
                    atoms.push(MmaAtom { a_k_major, b_k_major, ..atom.clone() });
                }
            }
            Family::Warpgroup | Family::SparseWarpgroup => {
                atoms.extend([true, false].map(|a_from_shared| MmaAtom { a_from_shared, ..atom.clone() }));
            }
        }
    }

    /// The `wgmma` of 64 x `n`, with A and B in shared memory.
    ///
    /// ```
    /// use warpwright_arch::DataType::{Bf16, F32};
    /// use warpwright_layout::atom::{MmaAtom, Types};
    /// let atom = MmaAtom::wgmma(128, Types::new(Bf16, F32))?;
    /// assert_eq!(atom.name(), "SM90_64x128x16_F32BF16BF16_SS");
    /// # Ok::<(), warpwright_layout::Error>(())
    /// ```
    ///
    /// # Errors
    /// If PTX has no `wgmma` of these types, or none of that width.
    pub fn wgmma(n: u32, types: Types) -> Result<MmaAtom, Error> {
        let rows = MMA_TABLE.iter().filter(|row| row.family == Family::Warpgroup);
        let mut rows = rows.filter(|row| row.types().any(|own| own == types));
        let found = rows.next().and_then(|row| {
            let shape = row.shapes().find(|shape| shape.n == n)?;
            Some(MmaAtom { a_from_shared: true, ..Self::of(row.sm, row.family, shape, types) })
        });
        let Types { a, b, d, .. } = types;
        found.ok_or_else(|| {
            let given = format!("64 x {n} of {a} and {b} into {d}");
            Error::bad_argument(
                "the wgmma",
                given,
                "of types and a width that PTX has: 8 to 256 in steps of 8",
            )
        })
    }

    /// The atom of CuTe's name, such as `SM80_16x8x16_F32F16F16F32_TN` or
    /// `SM90_64x128x16_F32F16F16_SS`.
    ///
    /// # Errors
    /// If the name is unknown. The error suggests the nearest one.
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

    /// CuTe's name, or a similar name for atoms that CuTe does not have: `SM70_WMMA_...`,
    /// `SM80_SPARSE_...`, `SM90_SPARSE_...`.
    pub fn name(&self) -> String {
        let (m, n, k) = self.shape;
        let (a, b, c, d) = (cute(self.a), cute(self.b), cute(self.c), cute(self.d));
        let kind = match self.family {
            Family::SparseWarp | Family::SparseWarpgroup => "SPARSE_",
            Family::Wmma => "WMMA_",
            _ => "",
        };
        let shape = format!("SM{}_{kind}{m}x{n}x{k}", self.sm);
        if self.family.is_warpgroup() {
            return format!("{shape}_{d}{a}{b}_{}S", if self.a_from_shared { 'S' } else { 'R' });
        }
        let a_letter = if self.a_k_major { 'T' } else { 'N' };
        let b_letter = if self.b_k_major { 'N' } else { 'T' };
        format!("{shape}_{d}{a}{b}{c}_{a_letter}{b_letter}")
    }

    /// The PTX opcode. For one-bit types it ends in `.xor.popc` for sm_75 atoms and in `.and.popc`
    /// for later ones. The major modes of A and B are operands of `wgmma`, not part of its opcode.
    pub fn instruction(&self) -> String {
        let (m, n, k) = self.shape;
        let (a, b, c, d) = (self.a, self.b, self.c, self.d);
        let popc = match (a, self.sm) {
            (B1, 75) => ".xor.popc",
            (B1, _) => ".and.popc",
            _ => "",
        };
        let a_order = if self.a_k_major { "row" } else { "col" };
        let b_order = if self.b_k_major { "col" } else { "row" };
        let (orders, shape) = (format!("{a_order}.{b_order}"), format!("m{m}n{n}k{k}"));
        match self.family {
            Family::Quadpair | Family::Warp => {
                format!("mma.sync.aligned.{shape}.{orders}.{d}.{a}.{b}.{c}{popc}")
            }
            Family::SparseWarp => {
                format!("mma.sp::ordered_metadata.sync.aligned.{shape}.{orders}.{d}.{a}.{b}.{c}")
            }
            Family::Wmma if a == F16 => format!("wmma.mma.sync.aligned.{orders}.{shape}.{d}.{c}"),
            Family::Wmma => format!("wmma.mma{popc}.sync.aligned.{orders}.{shape}.{d}.{a}.{b}.{c}"),
            Family::Warpgroup => format!("wgmma.mma_async.sync.aligned.{shape}.{d}.{a}.{b}{popc}"),
            Family::SparseWarpgroup => format!("wgmma.mma_async.sp.sync.aligned.{shape}.{d}.{a}.{b}"),
        }
    }

    /// The atom's thread numbers within the warp or warpgroup: the quadpair's threads are 0-3 and
    /// 16-19.
    pub fn threads(&self) -> Result<Layout, Error> {
        match self.family {
            Family::Quadpair => Layout::new((4, 2), (1, 16)),
            Family::Warp | Family::SparseWarp | Family::Wmma => Layout::new(32, 1),
            Family::Warpgroup | Family::SparseWarpgroup => Layout::new(128, 1),
        }
    }

    /// The shape of an operand: (m, k), (n, k) or (m, n); (m, k / 2) for the stored half of a
    /// sparse A.
    pub fn tile(&self, operand: Operand) -> (i64, i64) {
        let (m, n, k) = self.shape;
        match operand {
            Operand::A if self.family.is_sparse() => (m, k / 2),
            Operand::A => (m, k),
            Operand::B => (n, k),
            Operand::C | Operand::D => (m, n),
        }
    }

    /// The type of an operand.
    pub fn element(&self, operand: Operand) -> DataType {
        match operand {
            Operand::A => self.a,
            Operand::B => self.b,
            Operand::C => self.c,
            Operand::D => self.d,
        }
    }

    /// The bits of an operand's elements.
    pub fn bits(&self, operand: Operand) -> i64 {
        self.element(operand).bits().into()
    }

    /// The metadata of a sparse A.
    pub fn metadata(&self) -> Option<Metadata> {
        Metadata::of(self)
    }

    /// The thread-value layout of an operand: (thread, value) to an element of its tile,
    /// column-major. For a matrix that `wgmma` reads from shared memory, the threads have stride 0.
    ///
    /// Post-condition: every element of the tile has exactly one (thread, value), or one value for
    /// all threads. The f16 operands of `wmma` are held several times: their values have a mode of
    /// stride 0.
    pub fn thread_values(&self, operand: Operand) -> Result<Layout, Error> {
        let (rows, columns) = self.tile(operand);
        let run = match operand {
            Operand::C | Operand::D => 2,
            Operand::A | Operand::B => (32 / self.bits(operand)).max(1),
        };
        match (self.family, operand) {
            (Family::Quadpair, _) => self.quadpair(operand),
            (Family::Warp | Family::SparseWarp, _) => quads(rows, columns, run),
            (Family::Wmma, _) => self.wmma(operand, run),
            (Family::Warpgroup | Family::SparseWarpgroup, Operand::A) if self.a_from_shared => {
                shared((rows, columns))
            }
            (Family::Warpgroup | Family::SparseWarpgroup, Operand::B) => shared((rows, columns)),
            (Family::Warpgroup | Family::SparseWarpgroup, _) => warpgroup(rows, columns, run),
        }
    }

    /// `mma.sync.m8n8k4` (PTX ISA, "Matrix Fragments for mma.m8n8k4 with .f16 floating point
    /// type").
    fn quadpair(&self, operand: Operand) -> Result<Layout, Error> {
        let k_major = match operand {
            Operand::A => self.a_k_major,
            Operand::B => self.b_k_major,
            Operand::C | Operand::D if self.element(operand) == F32 => {
                return Layout::new(((2, 2, 2), (2, 2, 2)), ((1, 16, 4), (8, 2, 32)));
            }
            Operand::C | Operand::D => return Layout::new((8, 8), (1, 8)),
        };
        match k_major {
            true => Layout::new((8, 4), (1, 8)),
            false => Layout::new(((4, 2), 4), ((8, 4), 1)),
        }
    }

    /// `wmma`, as measured on an H200; PTX does not specify it. m8n32 is m32n8 transposed: its B is
    /// distributed as the other's A, its accumulators by columns. f16 A and B fill eight registers
    /// for every shape, by repetition.
    fn wmma(&self, operand: Operand, run: i64) -> Result<Layout, Error> {
        const F16_REGISTERS: i64 = 8;
        let (rows, columns) = self.tile(operand);
        let turned = self.shape.1 == 32;
        let layout = match operand {
            Operand::B if !turned => pieces((rows, 1), (columns, rows), run, Order::Rows)?,
            Operand::C | Operand::D if turned => pieces((columns, rows), (rows, 1), run, Order::Stacked)?,
            _ => pieces((rows, 1), (columns, rows), run, Order::Stacked)?,
        };
        match (operand, self.element(operand)) {
            (Operand::A | Operand::B, F16) => repeated(&layout, F16_REGISTERS * 64 / (rows * columns)),
            _ => Ok(layout),
        }
    }

    /// The number of 32-bit registers of an operand's fragment.
    pub fn registers(&self, operand: Operand) -> Result<i64, Error> {
        let values = self.thread_values(operand)?.mode(1)?.known_size("registers")?;
        Ok((values * self.bits(operand) + 31) / 32)
    }
}

/// CuTe's name of a data type in atom names: the PTX name in capitals, but `U1` for one bit.
fn cute(data_type: DataType) -> String {
    if data_type == B1 { "U1".into() } else { data_type.ptx().to_uppercase() }
}

#[cfg(test)]
mod tests;
