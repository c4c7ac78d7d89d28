//! Tiles of which bytes are not written, in words.

use warpwright_events::{TileOperand, TilePart};

/// The unwritten bytes of a tile that an instruction reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnwrittenTile {
    /// The first of them.
    pub(crate) part: TilePart,
    pub(crate) unwritten: u64,
    /// The bytes of the tile.
    pub(crate) bytes: u64,
    /// Whether rows are unwritten and the others are written, so that they may be padding.
    pub(crate) is_of_rows: bool,
}

impl UnwrittenTile {
    pub(crate) fn message(&self, location: &str) -> String {
        let reads = match self.part.operand {
            TileOperand::A => "an MMA reads A",
            TileOperand::B => "an MMA reads B",
            TileOperand::Accumulator => "an MMA adds to an accumulator",
            TileOperand::Scales => "an MMA reads scales",
            TileOperand::Metadata => "an MMA reads metadata of A",
            TileOperand::Cells => "a load reads cells",
            TileOperand::Source => "a copy to tensor memory reads a matrix",
        };
        let Self { unwritten, bytes, .. } = self;
        if unwritten == bytes {
            return format!("{reads} at {location}, and nothing has written any of its {bytes} bytes");
        }
        format!("{reads} of {bytes} bytes, and nothing has written {unwritten} of them, from {location} on")
    }

    /// The element of the tile that the first unwritten bytes are.
    fn element(&self) -> String {
        let TilePart { operand, row, position, .. } = self.part;
        match operand {
            TileOperand::A => format!("row {row}, k {position} of A"),
            TileOperand::B => format!("k {position}, column {row} of B"),
            TileOperand::Accumulator => format!("row {row} of the accumulator"),
            TileOperand::Scales => format!("row {row} of the scales"),
            TileOperand::Metadata => format!("row {row} of the metadata of A"),
            TileOperand::Cells => format!("row {row} of the load"),
            TileOperand::Source => format!("row {row} of the matrix"),
        }
    }

    /// The reason, and how to correct it.
    pub(crate) fn missing(&self) -> (String, String) {
        let element = self.element();
        let whole = self.unwritten == self.bytes;
        let help = match (self.part.operand, whole) {
            (TileOperand::Cells, _) => {
                "load only columns that a `tcgen05.mma`, `tcgen05.st` or `tcgen05.cp` has written, after the wait for it"
            }
            (_, true) => {
                "write the tile, or issue the copy that fills it and wait for it, before the MMA; and check the address in its descriptor"
            }
            (_, false) => {
                "write the rest of the tile, with zeros where the matrix ends; and check the tile's shape against the copy that fills it"
            }
        };
        let note = match (self.part.operand, whole) {
            (TileOperand::Cells, _) => {
                format!(
                    "the first are at {element}: tensor-memory columns are not zeroed when they are allocated"
                )
            }
            (_, true) => format!("the first byte is {element}: memory is not zeroed for a CTA"),
            (_, false) if self.is_of_rows => {
                format!(
                    "the first are at {element}. Memory is not zeroed for a CTA: results of these rows are undefined, and no tile that this instruction reads is written whole"
                )
            }
            (_, false) => format!(
                "the first are at {element}: rows are written in part, and the rest enters all of their results"
            ),
        };
        (note, help.to_owned())
    }
}
