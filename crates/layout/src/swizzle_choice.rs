//! Choosing the swizzle of a shared-memory tile: the smallest without bank conflicts in the write
//! and the read.

use crate::atom::SharedSwizzle;
use crate::{Access, Conflicts, Error, Layout, Swizzle};

/// The swizzles that the accesses of a tile support.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SwizzleUse {
    /// Threads compute addresses: any swizzle.
    Threads,
    /// TMA writes or `wgmma` reads the tile: a hardware mode.
    Hardware,
}

/// A swizzle with the costs of both accesses.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SwizzleChoice {
    /// The swizzle.
    pub swizzle: Swizzle,
    /// The cost of the write, summed over its instructions.
    pub write: Conflicts,
    /// The cost of the read, summed over its instructions.
    pub read: Conflicts,
}

impl SwizzleChoice {
    /// True if neither access has bank conflicts.
    pub fn is_free(&self) -> bool {
        self.write.extra() == 0 && self.read.extra() == 0
    }
}

/// Chooses the swizzle of `tile` with the fewest bank conflicts over all instructions of the write
/// and of the read; the one with the fewest bits if several have. Swizzles that split a vector of
/// either access, or exceed the tile, are not legal.
///
/// An empty list of instructions, such as for a TMA write, has no cost. [`SwizzleChoice::is_free`]
/// is false if every swizzle has conflicts.
///
/// ```
/// use warpwright_layout::{Access, Layout, SwizzleUse, choose_swizzle};
/// // A (128, 32) tile of halves: written 16 bytes a lane along rows, read by ldmatrix 8 rows at a time.
/// let tile = Layout::row_major((128, 32))?;
/// let write = Access::new(Layout::new(((4, 8), 8), ((1024, 1), 128))?, 16)?;
/// let read = Access::new(Layout::new((8, 8), (1, 128))?, 16)?;
/// let choice = choose_swizzle(&tile, &[write], &[read], SwizzleUse::Hardware)?;
/// assert_eq!(choice.swizzle.to_string(), "Swizzle<2,3,3>");
/// assert!(choice.is_free());
/// # Ok::<(), warpwright_layout::Error>(())
/// ```
///
/// # Errors
/// If not even the unswizzled tile is legal for the accesses.
pub fn choose_swizzle(
    tile: &Layout,
    write: &[Access],
    read: &[Access],
    usage: SwizzleUse,
) -> Result<SwizzleChoice, Error> {
    let bits = write.iter().chain(read).map(|access| access.element_bits).next().unwrap_or(16);
    let mut best = cost(tile, Swizzle::IDENTITY, write, read)?;
    for swizzle in candidates(tile, bits, usage)? {
        if best.is_free() {
            break;
        }
        if let Ok(choice) = cost(tile, swizzle, write, read)
            && choice.write.extra() + choice.read.extra() < best.write.extra() + best.read.extra()
        {
            best = choice;
        }
    }
    Ok(best)
}

/// The swizzles that fit the tile, by increasing number of bits.
fn candidates(tile: &Layout, element_bits: i64, usage: SwizzleUse) -> Result<Vec<Swizzle>, Error> {
    const WIDEST: u32 = 5;
    const FARTHEST: i32 = 8;
    let cosize = tile.cosize()?.require("choose_swizzle", "it compares offsets")?;
    let inside = |swizzle: &Swizzle| cosize % (swizzle.target_mask() + (1 << swizzle.base())) == 0;
    if usage == SwizzleUse::Hardware {
        let modes = SharedSwizzle::ALL[1..].iter().map(|mode| mode.on_elements(element_bits));
        return Ok(modes.collect::<Result<Vec<_>, _>>()?.into_iter().filter(inside).collect());
    }
    let mut candidates = Vec::new();
    for bits in 1..=WIDEST {
        // The largest base first: it keeps the longest vectors whole.
        for base in (0..=6).rev() {
            for shift in bits as i32..=FARTHEST {
                candidates.push(Swizzle::new(bits, base, shift)?);
            }
        }
    }
    candidates.retain(inside);
    Ok(candidates)
}

fn cost(tile: &Layout, swizzle: Swizzle, write: &[Access], read: &[Access]) -> Result<SwizzleChoice, Error> {
    let swizzled = tile.swizzled(swizzle);
    let total = |accesses: &[Access]| {
        accesses.iter().try_fold(Conflicts { wavefronts: 0, ideal: 0 }, |sum, access| {
            let one = access.conflicts(&swizzled)?;
            Ok::<_, Error>(Conflicts {
                wavefronts: sum.wavefronts + one.wavefronts,
                ideal: sum.ideal + one.ideal,
            })
        })
    };
    Ok(SwizzleChoice { swizzle, write: total(write)?, read: total(read)? })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_transpose_tile_of_floats_is_freed_both_ways() {
        let tile = Layout::row_major((32, 32)).unwrap();
        let rows: Vec<Access> = (0..32).map(|row| Access::row((32, 32), row, 32).unwrap()).collect();
        let columns: Vec<Access> =
            (0..32).map(|column| Access::column((32, 32), column, 32).unwrap()).collect();
        let choice = choose_swizzle(&tile, &rows, &columns, SwizzleUse::Threads).unwrap();
        assert!(choice.is_free());
        assert_eq!(choice.swizzle.to_string(), "Swizzle<5,0,5>");
    }

    #[test]
    fn a_tile_free_as_it_is_gets_no_swizzle() {
        let tile = Layout::row_major((8, 64)).unwrap();
        let rows = [Access::row((8, 64), 0, 32).unwrap()];
        let choice = choose_swizzle(&tile, &rows, &rows, SwizzleUse::Threads).unwrap();
        assert!(choice.swizzle.is_identity());
    }

    #[test]
    fn rows_of_128_bytes_take_the_whole_span() {
        let tile = Layout::row_major((128, 64)).unwrap();
        let read = [Access::new("(8,8):(1,128)".parse().unwrap(), 16).unwrap()];
        let choice = choose_swizzle(&tile, &[], &read, SwizzleUse::Hardware).unwrap();
        assert_eq!((choice.swizzle.to_string().as_str(), choice.is_free()), ("Swizzle<3,3,3>", true));
    }
}
