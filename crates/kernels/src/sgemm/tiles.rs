//! The parts of C that a CTA, a warp and a thread compute, with the notes' names, and the rules
//! that make them legal.
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

use std::fmt;

use warpwright::arch::Capability;
use warpwright::arch::limits::THREADS_PER_CTA;

use crate::operations::{OperationError, Result};

/// The tiles of a problem: rows and columns of C, and the depth of a CTA's k-blocks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Tiles {
    /// BM, BN, BK: the CTA tile, rows and columns of C and the depth of a k-block.
    pub block: (u32, u32, u32),
    /// WM, WN: rows and columns of a warp.
    pub warp: (u32, u32),
    /// WSTEPM, WSTEPN: the subtiles that a warp's lanes cover one after the other, down and across.
    pub steps: (u32, u32),
    /// TM, TN: rows and columns of a thread in a subtile.
    pub thread: (u32, u32),
    /// Stages of the pipeline in shared memory: with 1, copies and multiplications do not overlap.
    pub stages: u32,
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
    pub fn accumulators(&self) -> (u32, u32) {
        (self.steps.0 * self.thread.0, self.steps.1 * self.thread.1)
    }

    /// Bytes of a k-block of A and one of B.
    pub fn stage_bytes(&self) -> u32 {
        4 * (self.block.0 + self.block.1) * self.block.2
    }

    /// CTAs for an (m, n) matrix C.
    pub fn ctas(&self, m: u32, n: u32) -> u64 {
        u64::from(m.div_ceil(self.block.0)) * u64::from(n.div_ceil(self.block.1))
    }
}

/// Refuses tiles that break a rule.
pub(super) fn refuse<T>(reason: String) -> Result<T> {
    Err(OperationError::Shape { what: "sgemm", reason })
}

impl Tiles {
    /// Refuses tiles that break a rule of every kernel.
    ///
    /// # Errors
    /// The first rule broken.
    pub fn check(&self) -> Result<()> {
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
            return refuse(format!("{what} is 0; every extent of a tile is at least 1"));
        }
        let whole = [
            ("BM", block.0, "WM", warp.0),
            ("BN", block.1, "WN", warp.1),
            ("WM", warp.0, "WSTEPM x TM", steps.0 * thread.0),
            ("WN", warp.1, "WSTEPN x TN", steps.1 * thread.1),
        ];
        for (outer_name, outer, inner_name, inner) in whole {
            if !outer.is_multiple_of(inner) {
                return refuse(format!("{outer_name} = {outer} is not a multiple of {inner_name} = {inner}"));
            }
        }
        let (down, across) = self.lanes();
        if down * across != 32 {
            return refuse(format!(
                "a warp's step has (WM / WSTEPM / TM) x (WN / WSTEPN / TN) = {down} x {across} lanes, and a warp has 32"
            ));
        }
        let threads = self.threads();
        if threads > THREADS_PER_CTA {
            return refuse(format!(
                "BM / WM x BN / WN warps are {threads} threads, and a CTA has at most {THREADS_PER_CTA}"
            ));
        }
        Ok(())
    }

    /// Refuses k-blocks that the threads do not copy in whole rounds: of A `widths.0` elements an
    /// access, of B `widths.1`.
    ///
    /// # Errors
    /// A k-block is not copied in whole rounds.
    pub fn check_copies(&self, widths: (u32, u32)) -> Result<()> {
        let (bm, bn, bk) = self.block;
        let threads = self.threads();
        for (block, elements, width) in [("BM x BK", bm * bk, widths.0), ("BK x BN", bk * bn, widths.1)] {
            if !elements.is_multiple_of(threads * width) {
                return refuse(format!(
                    "{block} = {elements} elements are not copied in whole rounds by {threads} threads, {width} elements each"
                ));
            }
        }
        Ok(())
    }

    /// Refuses tiles for kernels that read A transposed and exchanged.
    ///
    /// # Errors
    /// The lanes do not lie as such a kernel reads A.
    pub fn check_exchange(&self) -> Result<()> {
        let ((tm, tn), (wm, _), bk, wstepm) = (self.thread, self.warp, self.block.2, self.steps.0);
        let lies = tm == 4 && tn.is_multiple_of(4) && wm == 16 * wstepm && wm.is_multiple_of(32);
        if lies && bk.is_multiple_of(8) {
            return Ok(());
        }
        refuse(format!(
            "this kernel reads transposed A four rows at a time by 4 x 8 lanes, two steps in 32 rows: TM must be 4, TN a multiple of 4, \
             WM / WSTEPM 16, WM a multiple of 32 and BK one of 8; these are TM = {tm}, TN = {tn}, WM = {wm}, WSTEPM = {wstepm}, BK = {bk}"
        ))
    }

    /// Refuses a pipeline that cannot copy ahead, or whose `bytes` shared memory does not hold.
    pub(super) fn check_pipeline(&self, bytes: u32, capability: &Capability) -> Result<()> {
        let (stages, limit) = (self.stages, capability.shared_bytes_per_cta_opt_in);
        if stages < 2 {
            return refuse(format!("{stages} stages leave nothing to copy ahead into; take at least 2"));
        }
        if bytes > limit {
            return refuse(format!(
                "these tiles take {bytes} bytes of shared memory, and a CTA has at most {limit}"
            ));
        }
        Ok(())
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
        NOTES.check().expect("it is legal");
        assert_eq!((NOTES.threads(), NOTES.lanes(), NOTES.accumulators()), (128, (4, 8), (16, 8)));
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
            "sgemm: BK x BN = 64 elements are not copied in whole rounds by 32 threads, 4 elements each"
        );
        let exchange = NOTES.check_exchange().expect_err("TM is 8");
        assert!(
            exchange.to_string().contains("these are TM = 8, TN = 4, WM = 64, WSTEPM = 2, BK = 16"),
            "{exchange}"
        );
        let h200 = Capability::for_target("sm_90a").expect("it is in the table");
        let refused = |stages, bytes| {
            let tiles = Tiles { stages, ..NOTES };
            tiles.check_pipeline(bytes, h200).expect_err("it breaks a rule").to_string()
        };
        assert_eq!(
            refused(2, 300 << 10),
            "sgemm: these tiles take 307200 bytes of shared memory, and a CTA has at most 232448"
        );
        assert!(refused(1, 1).ends_with("take at least 2"));
    }
}
