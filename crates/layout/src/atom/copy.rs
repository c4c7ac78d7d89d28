//! Copy atoms: plain vectors, `cp.async`, `ldmatrix`, `movmatrix`, `stmatrix`, and TMA boxes.

use super::SharedSwizzle;
use crate::{ComposedLayout, Error, Layout, Swizzle, Tiler};
use warpwright_arch::tensor_map::MAX_BOX_EXTENT;

/// One instruction: a row of the table. The layouts map (thread, bit) to bits of the data moved.
#[derive(Clone, Copy, Debug)]
pub struct CopyRow {
    /// CuTe's name.
    pub name: &'static str,
    /// The PTX opcode, without the element type if any is legal.
    pub instruction: &'static str,
    /// The first architecture.
    pub sm: u32,
    /// (thread, bit) to bits of the source.
    pub source: &'static str,
    /// (thread, bit) to bits of the destination.
    pub target: &'static str,
}

const fn copy(
    name: &'static str,
    instruction: &'static str,
    sm: u32,
    source: &'static str,
    target: &'static str,
) -> CopyRow {
    CopyRow { name, instruction, sm, source, target }
}

/// Copies by single threads and by warps, sm_70 to sm_100. (PTX ISA: "ld", "st", "cp.async",
/// "ldmatrix", "movmatrix", "stmatrix", "tcgen05.ld", "tcgen05.st".) `cp.async.cg` takes 16 bytes only; `.ca` 4, 8 or 16.
pub const COPY_TABLE: &[CopyRow] = &[
    copy("UniversalCopy<8>", "ld/st.b8", 70, "(1,8):(0,1)", "(1,8):(0,1)"),
    copy("UniversalCopy<16>", "ld/st.b16", 70, "(1,16):(0,1)", "(1,16):(0,1)"),
    copy("UniversalCopy<32>", "ld/st.b32", 70, "(1,32):(0,1)", "(1,32):(0,1)"),
    copy("UniversalCopy<64>", "ld/st.b64", 70, "(1,64):(0,1)", "(1,64):(0,1)"),
    copy("UniversalCopy<128>", "ld/st.v4.b32", 70, "(1,128):(0,1)", "(1,128):(0,1)"),
    copy("SM80_CP_ASYNC_CACHEALWAYS<32>", "cp.async.ca.shared.global", 80, "(1,32):(0,1)", "(1,32):(0,1)"),
    copy("SM80_CP_ASYNC_CACHEALWAYS<64>", "cp.async.ca.shared.global", 80, "(1,64):(0,1)", "(1,64):(0,1)"),
    copy("SM80_CP_ASYNC_CACHEALWAYS<128>", "cp.async.ca.shared.global", 80, "(1,128):(0,1)", "(1,128):(0,1)"),
    copy("SM80_CP_ASYNC_CACHEGLOBAL<128>", "cp.async.cg.shared.global", 80, "(1,128):(0,1)", "(1,128):(0,1)"),
    copy(
        "SM75_U32x1_LDSM_N",
        "ldmatrix.sync.aligned.m8n8.x1.shared.b16",
        75,
        "((8,4),128):((128,0),1)",
        "(32,32):(32,1)",
    ),
    copy(
        "SM75_U32x2_LDSM_N",
        "ldmatrix.sync.aligned.m8n8.x2.shared.b16",
        75,
        "((16,2),128):((128,0),1)",
        "(32,(32,2)):(32,(1,1024))",
    ),
    copy(
        "SM75_U32x4_LDSM_N",
        "ldmatrix.sync.aligned.m8n8.x4.shared.b16",
        75,
        "(32,128):(128,1)",
        "(32,(32,4)):(32,(1,1024))",
    ),
    copy(
        "SM75_U16x2_LDSM_T",
        "ldmatrix.sync.aligned.m8n8.x1.trans.shared.b16",
        75,
        "((8,4),128):((128,0),1)",
        "((4,8),(16,2)):((256,16),(1,128))",
    ),
    copy(
        "SM75_U16x4_LDSM_T",
        "ldmatrix.sync.aligned.m8n8.x2.trans.shared.b16",
        75,
        "((16,2),128):((128,0),1)",
        "((4,8),(16,2,2)):((256,16),(1,128,1024))",
    ),
    copy(
        "SM75_U16x8_LDSM_T",
        "ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16",
        75,
        "(32,128):(128,1)",
        "((4,8),(16,2,4)):((256,16),(1,128,1024))",
    ),
    copy(
        "SM75_U32x1_MOVM_T",
        "movmatrix.sync.aligned.m8n8.trans.b16",
        75,
        "(32,32):(32,1)",
        "((4,8),(16,2)):((256,16),(1,128))",
    ),
    copy(
        "SM90_U32x1_STSM_N",
        "stmatrix.sync.aligned.m8n8.x1.shared.b16",
        90,
        "(32,32):(32,1)",
        "((8,4),128):((128,0),1)",
    ),
    copy(
        "SM90_U32x2_STSM_N",
        "stmatrix.sync.aligned.m8n8.x2.shared.b16",
        90,
        "(32,(32,2)):(32,(1,1024))",
        "((16,2),128):((128,0),1)",
    ),
    copy(
        "SM90_U32x4_STSM_N",
        "stmatrix.sync.aligned.m8n8.x4.shared.b16",
        90,
        "(32,(32,4)):(32,(1,1024))",
        "(32,128):(128,1)",
    ),
    copy(
        "SM90_U16x2_STSM_T",
        "stmatrix.sync.aligned.m8n8.x1.trans.shared.b16",
        90,
        "((4,8),(16,2)):((256,16),(1,128))",
        "((8,4),128):((128,0),1)",
    ),
    copy(
        "SM90_U16x4_STSM_T",
        "stmatrix.sync.aligned.m8n8.x2.trans.shared.b16",
        90,
        "((4,8),(16,2,2)):((256,16),(1,128,1024))",
        "((16,2),128):((128,0),1)",
    ),
    copy(
        "SM90_U16x8_STSM_T",
        "stmatrix.sync.aligned.m8n8.x4.trans.shared.b16",
        90,
        "((4,8),(16,2,4)):((256,16),(1,128,1024))",
        "(32,128):(128,1)",
    ),
    // Between registers and tensor memory, the rows of a warp one after another. (CUTLASS's
    // `copy_traits_sm100.hpp` has the same layouts.)
    copy(
        "SM100_TMEM_LOAD_32dp32b1x",
        "tcgen05.ld.sync.aligned.32x32b.x1.b32",
        100,
        "(32,1024):(0,1)",
        "(32,32):(32,1)",
    ),
    copy(
        "SM100_TMEM_LOAD_16dp64b1x",
        "tcgen05.ld.sync.aligned.16x64b.x1.b32",
        100,
        "(32,1024):(0,1)",
        "((2,2,8),32):((512,32,64),1)",
    ),
    copy(
        "SM100_TMEM_LOAD_16dp128b1x",
        "tcgen05.ld.sync.aligned.16x128b.x1.b32",
        100,
        "(32,2048):(0,1)",
        "((4,8),(32,2)):((32,128),(1,1024))",
    ),
    copy(
        "SM100_TMEM_LOAD_16dp256b1x",
        "tcgen05.ld.sync.aligned.16x256b.x1.b32",
        100,
        "(32,4096):(0,1)",
        "((4,8),(64,2)):((64,256),(1,2048))",
    ),
    copy(
        "SM100_TMEM_STORE_32dp32b1x",
        "tcgen05.st.sync.aligned.32x32b.x1.b32",
        100,
        "(32,32):(32,1)",
        "(32,1024):(0,1)",
    ),
    copy(
        "SM100_TMEM_STORE_16dp64b1x",
        "tcgen05.st.sync.aligned.16x64b.x1.b32",
        100,
        "((2,2,8),32):((512,32,64),1)",
        "(32,1024):(0,1)",
    ),
    copy(
        "SM100_TMEM_STORE_16dp128b1x",
        "tcgen05.st.sync.aligned.16x128b.x1.b32",
        100,
        "((4,8),(32,2)):((32,128),(1,1024))",
        "(32,2048):(0,1)",
    ),
    copy(
        "SM100_TMEM_STORE_16dp256b1x",
        "tcgen05.st.sync.aligned.16x256b.x1.b32",
        100,
        "((4,8),(64,2)):((64,256),(1,2048))",
        "(32,4096):(0,1)",
    ),
];

/// One copy instruction on elements of a given width.
///
/// ```
/// use warpwright_layout::atom::CopyAtom;
/// let atom = CopyAtom::named("SM75_U32x4_LDSM_N", 16)?;
/// assert_eq!(atom.source().to_string(), "(32,8):(8,1)");
/// assert_eq!(atom.target().to_string(), "(32,(2,4)):(2,(1,64))");
/// # Ok::<(), warpwright_layout::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CopyAtom {
    name: String,
    instruction: &'static str,
    sm: u32,
    element_bits: i64,
    source: Layout,
    target: Layout,
}

impl CopyAtom {
    /// The atom of CuTe's name on elements of `element_bits`.
    ///
    /// # Errors
    /// If the name is unknown (the error suggests the nearest one), or the elements do not fit the
    /// atom.
    pub fn named(name: &str, element_bits: i64) -> Result<CopyAtom, Error> {
        let Some(row) = COPY_TABLE.iter().find(|row| row.name == name) else {
            let shared =
                |row: &&CopyRow| row.name.bytes().zip(name.bytes()).take_while(|(a, b)| a == b).count();
            let nearest = COPY_TABLE.iter().max_by_key(shared).map_or("", |row| row.name);
            let given: String = name.chars().take(60).collect();
            return Err(Error::bad_argument(
                "the copy atom",
                given,
                format!("one of the table's; the nearest is {nearest}"),
            ));
        };
        if element_bits < 1 {
            return Err(Error::bad_argument("the element width", element_bits, "positive"));
        }
        let layout = |text: &str| text.parse::<Layout>()?.upcast(element_bits);
        Ok(CopyAtom {
            name: row.name.into(),
            instruction: row.instruction,
            sm: row.sm,
            element_bits,
            source: layout(row.source)?,
            target: layout(row.target)?,
        })
    }

    /// The copy of `bits` by one thread.
    ///
    /// # Errors
    /// If no load has that width, or the elements do not divide it.
    pub fn universal(bits: i64, element_bits: i64) -> Result<CopyAtom, Error> {
        if element_bits < 1 || bits % element_bits != 0 {
            return Err(Error::bad_argument(
                "the width of a copy",
                bits,
                format!("a multiple of {element_bits} bits"),
            ));
        }
        CopyAtom::named(&format!("UniversalCopy<{bits}>"), element_bits)
    }

    /// CuTe's name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The PTX opcode.
    pub fn instruction(&self) -> &'static str {
        self.instruction
    }

    /// The name of the atom that moves the same matrices transposed, if there is one for the elements:
    /// those of 16 bits.
    pub fn transposing(&self) -> Option<&'static str> {
        let twin = match self.instruction.contains(".trans") {
            true => self.instruction.replace(".trans", ""),
            false => self.instruction.replace(".shared", ".trans.shared"),
        };
        let row = COPY_TABLE.iter().find(|row| row.instruction == twin)?;
        (self.element_bits == 16).then_some(row.name)
    }

    /// The first architecture.
    pub fn sm(&self) -> u32 {
        self.sm
    }

    /// The width of an element in bits.
    pub fn element_bits(&self) -> i64 {
        self.element_bits
    }

    /// (thread, value) to the element it addresses in the source.
    pub fn source(&self) -> &Layout {
        &self.source
    }

    /// (thread, value) to the element it addresses in the destination.
    pub fn target(&self) -> &Layout {
        &self.target
    }

    /// The side that is in registers, on which each thread holds its own elements. Tilings follow
    /// it.
    pub fn reference(&self) -> &Layout {
        let broadcast = |layout: &Layout| {
            layout.mode(0).is_ok_and(|threads| threads.stride().leaves().iter().any(|s| s.is(0)))
        };
        match self.instruction.starts_with("stmatrix") {
            true => &self.source,
            false if broadcast(&self.target) && !broadcast(&self.source) => &self.source,
            false => &self.target,
        }
    }

    /// The number of threads that execute the instruction together.
    pub fn threads(&self) -> Result<i64, Error> {
        self.source.mode(0)?.known_size("a copy atom")
    }

    /// The number of elements that each thread holds.
    pub fn values(&self) -> Result<i64, Error> {
        self.reference().mode(1)?.known_size("a copy atom")
    }
}

/// The box of a tensor map, derived from the shared-memory tile that it fills.
///
/// ```
/// use warpwright_layout::{Layout, Swizzle, atom::TmaBox};
/// let tile = Layout::row_major((8, 64))?.tile_to_shape((128, 64), None)?.swizzled(Swizzle::new(3, 3, 3)?);
/// let bulk = TmaBox::of_tile(&tile, 16)?;
/// assert_eq!((bulk.extents.as_slice(), bulk.bytes()), (&[64, 128][..], 16384));
/// # Ok::<(), warpwright_layout::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TmaBox {
    /// The extent along each tensor mode, the contiguous one first.
    pub extents: Vec<i64>,
    /// The mode of the tile that each extent is along.
    pub modes: Vec<usize>,
    /// The swizzle of the tensor map.
    pub swizzle: SharedSwizzle,
    /// The width of an element in bits.
    pub element_bits: i64,
}

impl TmaBox {
    /// The largest box that one instruction can write into `tile`: the modes whose elements are
    /// contiguous in shared memory. Larger tiles take several [`boxes`](TmaBox::boxes).
    ///
    /// # Errors
    /// If the innermost run is not a multiple of 16 bytes or exceeds the swizzle span, if an extent
    /// exceeds [`MAX_BOX_EXTENT`], or if the hardware does not have the swizzle (PTX ISA, "Tensor
    /// dimensions" and "Swizzling modes").
    pub fn of_tile(tile: &ComposedLayout, element_bits: i64) -> Result<TmaBox, Error> {
        let swizzle = match tile.swizzle() {
            Some(swizzle) => SharedSwizzle::of(swizzle, element_bits)?,
            None => {
                return Err(Error::bad_argument("the tile of a TMA box", tile, "a layout, swizzled at most"));
            }
        };
        let mut runs: Vec<(i64, usize, i64)> = Vec::new();
        for (position, mode) in tile.inner().modes().iter().enumerate() {
            for leaf in mode.flat_modes() {
                let extent = leaf.extent.require("a TMA box", "the box is part of the tensor map")?;
                let stride = leaf.stride.scale.require("a TMA box", "the box is part of the tensor map")?;
                if extent > 1 {
                    runs.push((stride, position, extent));
                }
            }
        }
        runs.sort_unstable();
        let (mut extents, mut modes, mut next): (Vec<i64>, Vec<usize>, i64) = (Vec::new(), Vec::new(), 1);
        for (stride, mode, extent) in runs {
            if stride != next {
                break;
            }
            match modes.last() {
                Some(&last) if last == mode => *extents.last_mut().unwrap_or(&mut 1) *= extent,
                _ if modes.contains(&mode) => break,
                _ => {
                    modes.push(mode);
                    extents.push(extent);
                }
            }
            next = stride * extent;
        }
        let bulk = TmaBox { extents, modes, swizzle, element_bits };
        bulk.check()?;
        Ok(bulk)
    }

    fn check(&self) -> Result<(), Error> {
        let inner = self.extents.first().copied().unwrap_or(1) * self.element_bits;
        if inner % 128 != 0 {
            let legal = "a multiple of 16: TMA moves whole 16-byte pieces";
            return Err(Error::bad_argument("the innermost run of a TMA box, in bytes,", inner / 8, legal));
        }
        let span = self.swizzle.span_bytes() * 8;
        if self.swizzle != SharedSwizzle::None && inner > span {
            let legal = format!("at most the swizzle's span of {} bytes", span / 8);
            return Err(Error::bad_argument("the innermost run of a TMA box, in bytes,", inner / 8, legal));
        }
        match self.extents.iter().find(|&&extent| extent > MAX_BOX_EXTENT.into()) {
            Some(extent) => Err(Error::bad_argument(
                "an extent of a TMA box",
                extent,
                format!("at most {MAX_BOX_EXTENT}"),
            )),
            None if self.extents.len() > 5 => {
                Err(Error::bad_argument("the rank of a TMA box", self.extents.len(), "at most 5"))
            }
            None => Ok(()),
        }
    }

    /// The transaction bytes of one instruction.
    pub fn bytes(&self) -> i64 {
        self.extents.iter().product::<i64>() * self.element_bits / 8
    }

    /// The number of instructions that fill `tile`.
    pub fn boxes(&self, tile: &ComposedLayout) -> Result<i64, Error> {
        Ok(tile.inner().known_size("a TMA box")? / self.extents.iter().product::<i64>())
    }

    /// The tiler that splits a tensor into boxes: the extent of the box along each mode of the
    /// tensor.
    pub fn tiler(&self, rank: usize) -> Tiler {
        let extent =
            |mode: usize| self.modes.iter().position(|&it| it == mode).map_or(1, |at| self.extents[at]);
        Tiler::Modes((0..rank).map(|mode| Tiler::from(extent(mode))).collect())
    }
}

impl From<SharedSwizzle> for Swizzle {
    fn from(mode: SharedSwizzle) -> Swizzle {
        mode.on_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_copy_atom_moves_each_bit_once() {
        for row in COPY_TABLE {
            let (source, target): (Layout, Layout) =
                (row.source.parse().unwrap(), row.target.parse().unwrap());
            for layout in [&source, &target] {
                let mut seen = layout.filter().unwrap().offsets().unwrap();
                seen.sort_unstable();
                assert!(seen.iter().enumerate().all(|(at, &offset)| at as i64 == offset), "{}", row.name);
            }
            assert_eq!(source.cosize().unwrap(), target.cosize().unwrap(), "{}", row.name);
            assert_eq!(source.mode(0).unwrap().size().unwrap(), target.mode(0).unwrap().size().unwrap());
        }
    }

    /// ldmatrix: lane l names row l of 8 rows of 16 bytes; lane l receives row l/4, elements
    /// 2*(l%4) and the next; with .trans it receives elements (row 2*(l%4) and the next, column
    /// l/4). (PTX ISA, "ldmatrix" figures.)
    #[test]
    fn ldmatrix_follows_the_isa() {
        for (name, matrices) in [("SM75_U32x1_LDSM_N", 1), ("SM75_U32x2_LDSM_N", 2), ("SM75_U32x4_LDSM_N", 4)]
        {
            let atom = CopyAtom::named(name, 16).unwrap();
            for lane in 0..32 {
                for matrix in 0..matrices {
                    for half in 0..2 {
                        let expected = matrix * 64 + (lane / 4) * 8 + 2 * (lane % 4) + half;
                        let value = half + 2 * matrix;
                        assert_eq!(atom.target().index(&(lane, value).into()).unwrap(), expected);
                    }
                }
                for element in 0..8 {
                    let row = lane % (8 * matrices);
                    assert_eq!(atom.source().index(&(lane, element).into()).unwrap(), row * 8 + element);
                }
            }
        }
        for (name, matrices) in [("SM75_U16x2_LDSM_T", 1), ("SM75_U16x4_LDSM_T", 2), ("SM75_U16x8_LDSM_T", 4)]
        {
            let atom = CopyAtom::named(name, 16).unwrap();
            for (lane, matrix, half) in
                (0..32).flat_map(|l| (0..matrices).flat_map(move |m| (0..2).map(move |h| (l, m, h))))
            {
                let expected = matrix * 64 + (2 * (lane % 4) + half) * 8 + lane / 4;
                assert_eq!(
                    atom.target().index(&(lane, half + 2 * matrix).into()).unwrap(),
                    expected,
                    "{name}"
                );
            }
        }
    }

    #[test]
    fn stores_mirror_loads() {
        for (load, store) in [
            ("SM75_U32x1_LDSM_N", "SM90_U32x1_STSM_N"),
            ("SM75_U32x2_LDSM_N", "SM90_U32x2_STSM_N"),
            ("SM75_U32x4_LDSM_N", "SM90_U32x4_STSM_N"),
            ("SM75_U16x2_LDSM_T", "SM90_U16x2_STSM_T"),
            ("SM75_U16x4_LDSM_T", "SM90_U16x4_STSM_T"),
            ("SM75_U16x8_LDSM_T", "SM90_U16x8_STSM_T"),
        ] {
            let (load, store) = (CopyAtom::named(load, 16).unwrap(), CopyAtom::named(store, 16).unwrap());
            assert_eq!((load.source(), load.target()), (store.target(), store.source()));
            assert_eq!(load.reference(), store.reference());
        }
    }

    #[test]
    fn boxes_the_hardware_refuses_are_refused() {
        let narrow = ComposedLayout::from(Layout::row_major((64, 4)).unwrap());
        assert!(TmaBox::of_tile(&narrow, 16).unwrap_err().to_string().contains("multiple of 16"));
        let wide = Layout::row_major((64, 128)).unwrap().swizzled(Swizzle::new(3, 3, 3).unwrap());
        assert!(TmaBox::of_tile(&wide, 16).unwrap_err().to_string().contains("span of 128 bytes"));
        let two = Layout::row_major((8, 64)).unwrap().tile_to_shape((128, 128), None).unwrap();
        let two = two.swizzled(Swizzle::new(3, 3, 3).unwrap());
        let bulk = TmaBox::of_tile(&two, 16).unwrap();
        assert_eq!((bulk.extents.clone(), bulk.boxes(&two).unwrap()), (vec![64, 128], 2));
        assert_eq!(bulk.tiler(2).to_string(), "<128:1,64:1>");
    }
}
