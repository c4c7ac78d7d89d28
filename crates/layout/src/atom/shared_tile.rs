//! The shared-memory tiles that TMA writes and `wgmma` reads.

use crate::{ComposedLayout, Error, IntTuple, Layout, Swizzle};

/// Which mode of an operand is contiguous.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Major {
    /// K is contiguous.
    K,
    /// M (or N) is contiguous.
    Mn,
}

/// The hardware's swizzling modes, by span.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum SharedSwizzle {
    /// No swizzle: interleaved 16-byte pieces.
    None,
    /// A 32-byte span.
    Bytes32,
    /// A 64-byte span.
    Bytes64,
    /// A 128-byte span.
    Bytes128,
}

impl SharedSwizzle {
    /// All modes, by increasing span.
    pub const ALL: [SharedSwizzle; 4] = [Self::None, Self::Bytes32, Self::Bytes64, Self::Bytes128];

    /// The span in bytes within which 16-byte pieces are permuted.
    pub fn span_bytes(self) -> i64 {
        match self {
            SharedSwizzle::None => 16,
            SharedSwizzle::Bytes32 => 32,
            SharedSwizzle::Bytes64 => 64,
            SharedSwizzle::Bytes128 => 128,
        }
    }

    /// The swizzle of byte addresses: bits 4 and up by bits 7 and up. (PTX ISA, "Swizzling modes".)
    pub fn on_bytes(self) -> Swizzle {
        let bits = (self.span_bytes() / 16).trailing_zeros();
        Swizzle::new(bits, 4, 3).unwrap_or(Swizzle::IDENTITY)
    }

    /// The swizzle of elements of `bits` each.
    pub fn on_elements(self, bits: i64) -> Result<Swizzle, Error> {
        self.on_bytes().downcast(8)?.upcast(bits)
    }

    /// The mode equal to `swizzle` on elements of `bits`.
    ///
    /// # Errors
    /// If the hardware does not have the mode.
    pub fn of(swizzle: Swizzle, bits: i64) -> Result<SharedSwizzle, Error> {
        if swizzle.is_identity() {
            return Ok(SharedSwizzle::None);
        }
        for mode in SharedSwizzle::ALL {
            if mode.on_elements(bits)? == swizzle {
                return Ok(mode);
            }
        }
        let legal = SharedSwizzle::ALL[1..].iter().map(|mode| mode.on_elements(bits).map(|s| s.to_string()));
        let legal = legal.collect::<Result<Vec<_>, _>>()?.join(", ");
        Err(Error::bad_argument(
            "the swizzle of a TMA or MMA tile",
            swizzle,
            format!("one of the hardware's on {bits}-bit elements: {legal}"),
        ))
    }
}

/// A canonical tile of `wgmma`: the smallest block, in elements, of a swizzle and a major mode.
///
/// ```
/// use warpwright_layout::atom::{Major, SharedSwizzle, SharedTile};
/// let atom = SharedTile { major: Major::K, swizzle: SharedSwizzle::Bytes128, element_bits: 16 };
/// assert_eq!(atom.layout()?.to_string(), "Swizzle<3,3,3> o 0 o (8,64):(64,1)");
/// assert_eq!(atom.fill((128, 64))?.inner().to_string(), "(128,64):(64,1)");
/// # Ok::<(), warpwright_layout::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct SharedTile {
    /// The contiguous mode.
    pub major: Major,
    /// The swizzle.
    pub swizzle: SharedSwizzle,
    /// The width of an element.
    pub element_bits: i64,
}

impl SharedTile {
    /// The block as a layout (mn, k): 8 rows of one span. (PTX ISA, "Shared Memory Matrix Layout"
    /// of wgmma.)
    pub fn layout(&self) -> Result<ComposedLayout, Error> {
        let run = self.swizzle.span_bytes() * 8 / self.element_bits;
        let block = match self.major {
            Major::K => Layout::new((8, run), (run, 1))?,
            Major::Mn => Layout::new((run, 8), (1, run))?,
        };
        Ok(block.swizzled(self.swizzle.on_elements(self.element_bits)?))
    }

    /// The block repeated over an (mn, k) tile, along the block's rows first.
    ///
    /// # Errors
    /// If the block does not divide the tile.
    pub fn fill(&self, tile: impl Into<IntTuple>) -> Result<ComposedLayout, Error> {
        let order = match self.major {
            Major::K => (0, 1),
            Major::Mn => (1, 0),
        };
        self.layout()?.map_inner(|block| block.tile_to_shape(tile, Some(order.into())))
    }

    /// The widest swizzle whose block divides an (mn, k) tile: the one with the fewest bank
    /// conflicts and the widest TMA box.
    pub fn widest(major: Major, element_bits: i64, tile: (i64, i64)) -> Result<SharedTile, Error> {
        let contiguous = match major {
            Major::K => tile.1,
            Major::Mn => tile.0,
        };
        let fits = |mode: &&SharedSwizzle| contiguous * element_bits % (mode.span_bytes() * 8) == 0;
        match SharedSwizzle::ALL.iter().rev().find(fits) {
            Some(&swizzle) => Ok(SharedTile { major, swizzle, element_bits }),
            None => Err(Error::bad_argument(
                "the contiguous extent of a tile",
                contiguous,
                format!("a multiple of {} elements (16 bytes)", 128 / element_bits),
            )),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn canonical_blocks_are_permutations_of_their_span() {
        for swizzle in SharedSwizzle::ALL {
            for element_bits in [8, 16, 32] {
                for major in [Major::K, Major::Mn] {
                    let block = SharedTile { major, swizzle, element_bits }.layout().unwrap();
                    let mut offsets = block.offsets().unwrap();
                    let size = offsets.len() as i64;
                    assert_eq!(size * element_bits / 8, 8 * swizzle.span_bytes());
                    offsets.sort_unstable();
                    assert!(offsets.into_iter().eq(0..size));
                    assert_eq!(SharedSwizzle::of(block.swizzle().unwrap(), element_bits).unwrap(), swizzle);
                }
            }
        }
    }

    /// 128-byte mode: 16-byte piece j of row i of 128 bytes lands at piece j ^ (i % 8).
    #[test]
    fn swizzled_pieces_follow_the_isa() {
        for (mode, rows_per_step) in
            [(SharedSwizzle::Bytes128, 1), (SharedSwizzle::Bytes64, 2), (SharedSwizzle::Bytes32, 4)]
        {
            let pieces = mode.span_bytes() / 16;
            let swizzle = mode.on_bytes();
            for row in 0..64 {
                for piece in 0..pieces {
                    let moved = swizzle.apply(row * mode.span_bytes() + piece * 16);
                    let expected = piece ^ ((row / rows_per_step) % pieces);
                    assert_eq!(moved, row * mode.span_bytes() + expected * 16);
                }
            }
        }
    }

    #[test]
    fn the_widest_swizzle_is_taken() {
        assert_eq!(SharedTile::widest(Major::K, 16, (128, 64)).unwrap().swizzle, SharedSwizzle::Bytes128);
        assert_eq!(SharedTile::widest(Major::K, 16, (128, 32)).unwrap().swizzle, SharedSwizzle::Bytes64);
        assert!(SharedTile::widest(Major::K, 16, (128, 4)).is_err());
    }
}
