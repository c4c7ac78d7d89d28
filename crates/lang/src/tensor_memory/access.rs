//! The shapes of loads and stores of tensor memory. PTX ISA, "tcgen05.ld", "tcgen05.st", "Matrix
//! fragments".

/// How the cells that a warp loads or stores are distributed to its lanes and registers.
///
/// The warp reaches 32 rows. A shape of 16 rows begins at the first of them or at the 17th. The
/// layouts are CuTe's copy atoms: `warpwright layout "tv(copy SM100_TMEM_LOAD_16dp256b1x target 32)"`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TensorMemoryShape {
    /// `.32x32b`: 32 rows, one per lane, and a column per register.
    Rows32x32b,
    /// `.16x64b`: 16 rows, two columns per register.
    Rows16x64b,
    /// `.16x128b`: 16 rows, four columns per two registers.
    Rows16x128b,
    /// `.16x256b`: 16 rows, eight columns per four registers, as the accumulator of `mma.sync`.
    Rows16x256b,
    /// `.16x32bx2`: 16 rows and a column per register; the upper 16 lanes access the same rows,
    /// `apart` columns further on.
    Rows16x32bx2 {
        /// From the columns of the lower lanes to those of the upper ones.
        apart: u32,
    },
}

impl TensorMemoryShape {
    /// The modifier.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Rows32x32b => "32x32b",
            Self::Rows16x64b => "16x64b",
            Self::Rows16x128b => "16x128b",
            Self::Rows16x256b => "16x256b",
            Self::Rows16x32bx2 { .. } => "16x32bx2",
        }
    }

    /// The fewest registers per lane.
    pub(super) fn least_registers(self) -> usize {
        match self {
            Self::Rows16x128b => 2,
            Self::Rows16x256b => 4,
            _ => 1,
        }
    }

    /// Columns of 32 bits that `registers` registers per lane cover.
    fn columns(self, registers: u32) -> u32 {
        match self {
            Self::Rows32x32b => registers,
            Self::Rows16x32bx2 { apart } => apart + registers,
            // Half of the rows, so twice as many columns.
            _ => 2 * registers,
        }
    }
}

/// How a load or store accesses tensor memory: its shape, and whether registers hold two halves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TensorMemoryAccess {
    pub(super) shape: TensorMemoryShape,
    pub(super) packed: bool,
}

impl TensorMemoryAccess {
    /// The access of a shape.
    pub fn new(shape: TensorMemoryShape) -> Self {
        Self { shape, packed: false }
    }

    /// A register holds the lower halves of two neighboring columns: `.pack::16b`, `.unpack::16b`.
    pub fn packed(self) -> Self {
        Self { packed: true, ..self }
    }

    /// Columns that `registers` registers per lane cover.
    pub(super) fn columns(self, registers: u32) -> u32 {
        self.shape.columns(if self.packed { 2 * registers } else { registers })
    }
}
