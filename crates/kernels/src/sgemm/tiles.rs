//! Which part of C a CTA, a warp and a thread compute: the notes' parameters, and the rules that
//! make them legal.
//!
//! ```text
//! C          BM x BN a CTA         WM x WN a warp, in steps        TM x TN a thread and step
//! +---+---+  +---------+---------+  +--------+--------+  ^         lanes: (WM / steps / TM) x (WN / steps / TN) = 32
//! |   |   |  | warp 0  | warp 1  |  | step   | step   |  | WM
//! +---+---+  +---------+---------+  | (0, 0) | (0, 1) |  |
//! |   |   |  | warp 2  | warp 3  |  +--------+--------+  |
//! +---+---+  +---------+---------+  | (1, 0) | (1, 1) |  v
//!            <------- BN ------->  <------ WN ------>
//! ```

use warpwright::arch::limits::THREADS_PER_CTA;

use std::fmt;

/// The tiles of a product: rows and columns of C, and for a CTA how deep a slice of A and B it
/// holds at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tiles {
    /// BM, BN, BK: rows and columns of C that a CTA computes, and how many columns of A and rows of
    /// B it copies at a time.
    pub block: (u32, u32, u32),
    /// WM, WN: rows and columns of a warp.
    pub warp: (u32, u32),
    /// WSTEPM, WSTEPN: the subtiles that a warp's lanes cover one after the other, down and across.
    pub steps: (u32, u32),
    /// TM, TN: rows and columns of a thread in a subtile.
    pub thread: (u32, u32),
    /// Slices of A and B that shared memory holds: 1 is no overlap of copying and multiplying.
    pub stages: u32,
}

/// A rule that tiles break.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum TilesError {
    /// An extent that is nothing.
    #[error("{what} is 0; every extent of a tile is at least 1")]
    Nothing {
        /// Which.
        what: &'static str,
    },
    /// A tile that is not made of whole smaller ones.
    #[error("{outer_name} = {outer} is not a multiple of {inner_name} = {inner}")]
    NotWhole {
        /// The tile, by the notes' name.
        outer_name: &'static str,
        /// Its extent.
        outer: u32,
        /// What it should be made of.
        inner_name: &'static str,
        /// Its extent.
        inner: u32,
    },
    /// Lanes that are not a warp.
    #[error(
        "a warp's step has (WM / WSTEPM / TM) x (WN / WSTEPN / TN) = {down} x {across} lanes, and a warp has 32"
    )]
    Lanes {
        /// Lanes down.
        down: u32,
        /// Lanes across.
        across: u32,
    },
    /// A CTA of too many threads.
    #[error("BM / WM x BN / WN warps are {threads} threads, and a CTA has at most {THREADS_PER_CTA}")]
    Threads {
        /// How many.
        threads: u32,
    },
    /// A slice that the threads do not copy in whole rounds.
    #[error(
        "{slice} = {elements} elements are not copied in whole rounds by {threads} threads, {width} elements each"
    )]
    Copies {
        /// The slice, by the notes' names.
        slice: &'static str,
        /// Its elements.
        elements: u32,
        /// Threads of the CTA.
        threads: u32,
        /// Elements of one access.
        width: u32,
    },
    /// Lanes that do not lie as a kernel reads A.
    #[error(
        "this kernel reads transposed A four rows at a time by 4 x 8 lanes, two steps in 32 rows: TM must be 4, TN a multiple of 4, WM / \
         WSTEPM 16, WM a multiple of 32 and BK one of 8; these are TM = {tm}, TN = {tn}, WM = {wm}, WSTEPM = {wstepm}, BK = {bk}"
    )]
    Exchange {
        /// TM.
        tm: u32,
        /// TN.
        tn: u32,
        /// WM.
        wm: u32,
        /// WSTEPM.
        wstepm: u32,
        /// BK.
        bk: u32,
    },
    /// Warps that do not share the transposing evenly.
    #[error("each warp transposes 32 rows of 16 k: {warps} warps take BM = {} and BK = 16, not BM = {bm} and BK = {bk}", 32 * warps)]
    Transposition {
        /// Warps of the CTA.
        warps: u32,
        /// BM.
        bm: u32,
        /// BK.
        bk: u32,
    },
    /// A ring without room to copy ahead.
    #[error("{stages} stages leave nothing to copy ahead into; take at least {least}")]
    Stages {
        /// Stages asked for.
        stages: u32,
        /// The fewest.
        least: u32,
    },
    /// More than shared memory holds.
    #[error("these tiles take {bytes} bytes of shared memory, and a CTA has at most {limit}")]
    Shared {
        /// What they take.
        bytes: u32,
        /// What there is.
        limit: u32,
    },
}

impl Tiles {
    /// Warps down and across a CTA.
    pub fn warps(&self) -> (u32, u32) {
        (self.block.0 / self.warp.0, self.block.1 / self.warp.1)
    }

    /// Threads of a CTA.
    pub fn threads(&self) -> u32 {
        32 * self.warps().0 * self.warps().1
    }

    /// Lanes down and across a warp's step.
    pub fn lanes(&self) -> (u32, u32) {
        (self.warp.0 / self.steps.0 / self.thread.0, self.warp.1 / self.steps.1 / self.thread.1)
    }

    /// Rows and columns of a thread, all steps together.
    pub fn sums(&self) -> (u32, u32) {
        (self.steps.0 * self.thread.0, self.steps.1 * self.thread.1)
    }

    /// Bytes of a slice of A and one of B.
    pub fn stage_bytes(&self) -> u32 {
        4 * (self.block.0 + self.block.1) * self.block.2
    }

    /// CTAs for an (m, n) matrix C.
    pub fn ctas(&self, m: u32, n: u32) -> u64 {
        u64::from(m.div_ceil(self.block.0)) * u64::from(n.div_ceil(self.block.1))
    }
}

impl Tiles {
    /// Refuses tiles that break a rule which every kernel keeps.
    ///
    /// # Errors
    /// The first rule broken.
    pub fn check(&self) -> Result<(), TilesError> {
        let Self { block, warp, steps, thread, stages } = *self;
        let extents = [
            ("BM", block.0),
            ("BN", block.1),
            ("BK", block.2),
            ("WM", warp.0),
            ("WN", warp.1),
            ("WSTEPM", steps.0),
            ("WSTEPN", steps.1),
            ("TM", thread.0),
            ("TN", thread.1),
            ("stages", stages),
        ];
        if let Some((what, _)) = extents.into_iter().find(|(_, extent)| *extent == 0) {
            return Err(TilesError::Nothing { what });
        }
        let whole = [
            ("BM", block.0, "WM", warp.0),
            ("BN", block.1, "WN", warp.1),
            ("WM", warp.0, "WSTEPM x TM", steps.0 * thread.0),
            ("WN", warp.1, "WSTEPN x TN", steps.1 * thread.1),
        ];
        for (outer_name, outer, inner_name, inner) in whole {
            if !outer.is_multiple_of(inner) {
                return Err(TilesError::NotWhole { outer_name, outer, inner_name, inner });
            }
        }
        let (down, across) = self.lanes();
        if down * across != 32 {
            return Err(TilesError::Lanes { down, across });
        }
        let threads = self.threads();
        if threads > THREADS_PER_CTA {
            return Err(TilesError::Threads { threads });
        }
        Ok(())
    }

    /// Refuses slices that the threads do not copy in whole rounds: of A `widths.0` elements an
    /// access, of B `widths.1`.
    pub fn check_copies(&self, widths: (u32, u32)) -> Result<(), TilesError> {
        let (bm, bn, bk) = self.block;
        let threads = self.threads();
        for (slice, elements, width) in [("BM x BK", bm * bk, widths.0), ("BK x BN", bk * bn, widths.1)] {
            if !elements.is_multiple_of(threads * width) {
                return Err(TilesError::Copies { slice, elements, threads, width });
            }
        }
        Ok(())
    }

    /// Refuses tiles for kernels that read A transposed and exchanged.
    pub fn check_exchange(&self) -> Result<(), TilesError> {
        let ((tm, tn), (wm, _), bk, wstepm) = (self.thread, self.warp, self.block.2, self.steps.0);
        let lies = tm == 4 && tn.is_multiple_of(4) && wm == 16 * wstepm && wm.is_multiple_of(32);
        if lies && bk.is_multiple_of(8) {
            Ok(())
        } else {
            Err(TilesError::Exchange { tm, tn, wm, wstepm, bk })
        }
    }

    /// Refuses what does not fit shared memory.
    pub fn check_shared(bytes: u32, limit: u32) -> Result<(), TilesError> {
        if bytes <= limit { Ok(()) } else { Err(TilesError::Shared { bytes, limit }) }
    }
}

impl fmt::Display for Tiles {
    /// `128x128x16 / 32x64 / 8x2 x 1x4 / 4`: block, warp, steps of thread tiles, stages.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { block, warp, steps, thread, stages } = self;
        write!(f, "{}x{}x{} / {}x{}", block.0, block.1, block.2, warp.0, warp.1)?;
        write!(f, " / {}x{} x {}x{} / {stages}", steps.0, steps.1, thread.0, thread.1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The notes' example of warp tiles.
    const NOTES: Tiles =
        Tiles { block: (128, 128, 16), warp: (64, 64), steps: (2, 2), thread: (8, 4), stages: 1 };

    #[test]
    fn the_notes_example_is_legal_and_counts_as_they_do() {
        assert_eq!(NOTES.check(), Ok(()));
        assert_eq!((NOTES.threads(), NOTES.lanes(), NOTES.sums()), (128, (4, 8), (16, 8)));
        assert_eq!(NOTES.ctas(129, 128), 2);
        assert_eq!(NOTES.to_string(), "128x128x16 / 64x64 / 2x2 x 8x4 / 1");
    }

    #[test]
    fn every_broken_rule_is_named() {
        let broken = [
            (Tiles { block: (128, 128, 0), ..NOTES }, "BK is 0"),
            (Tiles { stages: 0, ..NOTES }, "stages is 0"),
            (Tiles { block: (100, 128, 16), ..NOTES }, "BM = 100 is not a multiple of WM = 64"),
            (Tiles { warp: (64, 48), ..NOTES }, "BN = 128 is not a multiple of WN = 48"),
            (Tiles { thread: (5, 4), ..NOTES }, "WM = 64 is not a multiple of WSTEPM x TM = 10"),
            (Tiles { thread: (8, 8), ..NOTES }, "= 4 x 4 lanes, and a warp has 32"),
            (Tiles { block: (1024, 512, 16), ..NOTES }, "4096 threads, and a CTA has at most 1024"),
        ];
        for (tiles, words) in broken {
            let message = tiles.check().expect_err("it breaks a rule").to_string();
            assert!(message.contains(words), "{message}");
        }
        let copies =
            Tiles { block: (64, 64, 1), ..NOTES }.check_copies((1, 4)).expect_err("32 threads copy 64 x 4");
        assert_eq!(
            copies.to_string(),
            "BK x BN = 64 elements are not copied in whole rounds by 32 threads, 4 elements each"
        );
        let exchange = NOTES.check_exchange().expect_err("TM is 8");
        assert!(
            exchange.to_string().contains("these are TM = 8, TN = 4, WM = 64, WSTEPM = 2, BK = 16"),
            "{exchange}"
        );
        let shared = Tiles::check_shared(300 << 10, 227 << 10).expect_err("too much");
        assert!(
            shared.to_string().contains("307200 bytes of shared memory, and a CTA has at most 232448"),
            "{shared}"
        );
    }
}
