//! What a configuration of the Hopper GEMM must keep to, rule by rule: the hardware's limits, and the kernel's own.

use super::hopper::Consumers;
use super::plan::{Configuration, MOST_SPLIT_DEPTH, Shape};

/// A rule that a configuration breaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum IllegalConfiguration {
    /// A warpgroup multiplies 64 rows at a time. (PTX ISA, "wgmma.mma_async".)
    #[error(
        "a tile of {rows} rows: its consumers take {multiple} rows at a time, so it must be a multiple of that"
    )]
    TileRows {
        /// Rows of the tile.
        rows: u32,
        /// 64 for each consumer that shares the tile.
        multiple: u32,
    },
    /// `wgmma` has 8 to 256 columns, in steps of 8. (PTX ISA, "wgmma.mma_async".)
    #[error("a tile of {columns} columns: wgmma multiplies 8 to 256 of them, a multiple of 8")]
    TileColumns {
        /// Columns of the tile.
        columns: u32,
    },
    /// The sums stay in registers.
    #[error("{sums} sums a thread: a consumer's 232 registers hold {most} beside everything else")]
    Sums {
        /// Sums of a thread.
        sums: u32,
        /// As many as there may be.
        most: u32,
    },
    /// Clusters of 8 CTAs run on every GPU that has clusters. (CUDA Programming Guide, "Thread Block Clusters".)
    #[error("a cluster of {ctas} CTAs: every GPU with clusters takes 1 to {most}")]
    Cluster {
        /// CTAs of the cluster.
        ctas: u32,
        /// As many as there may be.
        most: u32,
    },
    /// Each CTA of a cluster loads as many rows of a tile that they share.
    #[error("{rows} rows of {matrix} cannot be loaded by {ctas} CTAs in equal parts")]
    Slices {
        /// A or B.
        matrix: &'static str,
        /// Rows of its tile.
        rows: u32,
        /// CTAs that share it.
        ctas: u32,
    },
    /// What a CTA's shared memory holds.
    #[error(
        "{stages} slots: {least} at least, so that one is filled while another is read, and {most} fit into shared memory"
    )]
    Slots {
        /// Slots of the ring.
        stages: u32,
        /// As few as make a pipeline.
        least: u32,
        /// As many as fit.
        most: u32,
    },
    /// The order of the tiles walks a row of clusters at least.
    #[error("a raster of 0 rows: tiles are walked 1 row at a time or more")]
    Raster,
    /// The schedule of split tiles counts steps in 32 bits.
    #[error("k of {k} is too long to be split: {most} at most")]
    SplitDepth {
        /// Columns of A.
        k: u32,
        /// As many as there may be.
        most: u64,
    },
}

/// Sums a thread of a consumer may have: 192 leave 40 of its registers for addresses and loops, and nothing spills (ptxas 13).
const MOST_SUMS: u32 = 192;

/// CTAs of a cluster that every GPU with clusters runs.
const MOST_CTAS: u32 = 8;

/// Slots that make a pipeline.
const LEAST_STAGES: u32 = 2;

impl Configuration {
    /// Whether the kernel can be built and launched so.
    ///
    /// # Errors
    /// The first rule that it breaks.
    pub fn check(self, shape: Shape) -> Result<(), IllegalConfiguration> {
        use IllegalConfiguration::{Cluster, Raster, Slices, Slots, SplitDepth, Sums, TileColumns, TileRows};
        let Self { tile: (rows, columns), consumers, cluster: (along_m, along_n), split, stages, .. } = self;
        let together = if consumers == Consumers::Cooperate { 2 } else { 1 };
        let multiple = 64 * together;
        if rows == 0 || !rows.is_multiple_of(multiple) {
            return Err(TileRows { rows, multiple });
        }
        if !(8..=256).contains(&columns) || !columns.is_multiple_of(8) {
            return Err(TileColumns { columns });
        }
        let sums = rows * columns / (128 * together);
        if sums > MOST_SUMS {
            return Err(Sums { sums, most: MOST_SUMS });
        }
        let ctas = along_m * along_n;
        if !(1..=MOST_CTAS).contains(&ctas) {
            return Err(Cluster { ctas, most: MOST_CTAS });
        }
        for (matrix, rows, ctas) in [("A", rows, along_n), ("B", columns, along_m)] {
            if !rows.is_multiple_of(ctas) {
                return Err(Slices { matrix, rows, ctas });
            }
        }
        let most = Self::most_stages(self.tile, self.spans, shape);
        if !(LEAST_STAGES..=most).contains(&stages) {
            return Err(Slots { stages, least: LEAST_STAGES, most });
        }
        if self.raster == 0 {
            return Err(Raster);
        }
        if split && u64::from(shape.k) > MOST_SPLIT_DEPTH {
            return Err(SplitDepth { k: shape.k, most: MOST_SPLIT_DEPTH });
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape { m: 4096, n: 4096, k: 4096, batch: 1, input_bytes: 2, output_bytes: 2 };
    const LEGAL: Configuration = Configuration {
        tile: (128, 192),
        consumers: Consumers::Alternate,
        cluster: (2, 1),
        spans: 1,
        split: false,
        transposed: false,
        stages: 4,
        raster: 8,
    };

    #[test]
    fn what_the_plan_takes_is_legal() {
        assert_eq!(LEGAL.check(SHAPE), Ok(()));
        for (m, n, k) in
            [(1, 1, 1), (1, 12288, 4096), (2048, 2048, 2048), (8192, 8192, 8192), (64, 64, 1 << 21)]
        {
            for (input_bytes, output_bytes) in [(1, 2), (2, 2), (2, 4), (4, 4)] {
                let shape = Shape { m, n, k, batch: 1, input_bytes, output_bytes };
                for configuration in Configuration::all(shape) {
                    assert_eq!(configuration.check(shape), Ok(()), "{configuration} for {shape:?}");
                }
            }
        }
    }

    #[test]
    fn each_rule_has_a_name() {
        use IllegalConfiguration::*;
        let check = |configuration: Configuration| configuration.check(SHAPE).expect_err("illegal");
        let cooperate = Consumers::Cooperate;
        assert_eq!(check(Configuration { tile: (96, 64), ..LEGAL }), TileRows { rows: 96, multiple: 64 });
        assert_eq!(
            check(Configuration { tile: (64, 64), consumers: cooperate, ..LEGAL }),
            TileRows { rows: 64, multiple: 128 }
        );
        assert_eq!(check(Configuration { tile: (64, 264), ..LEGAL }), TileColumns { columns: 264 });
        assert_eq!(check(Configuration { tile: (64, 100), ..LEGAL }), TileColumns { columns: 100 });
        assert_eq!(check(Configuration { tile: (128, 256), ..LEGAL }), Sums { sums: 256, most: 192 });
        assert_eq!(check(Configuration { cluster: (4, 4), ..LEGAL }), Cluster { ctas: 16, most: 8 });
        assert_eq!(check(Configuration { cluster: (0, 1), ..LEGAL }), Cluster { ctas: 0, most: 8 });
        assert_eq!(
            check(Configuration { tile: (128, 8), cluster: (3, 1), ..LEGAL }),
            Slices { matrix: "B", rows: 8, ctas: 3 }
        );
        assert_eq!(check(Configuration { stages: 5, ..LEGAL }), Slots { stages: 5, least: 2, most: 4 });
        assert_eq!(check(Configuration { stages: 1, ..LEGAL }), Slots { stages: 1, least: 2, most: 4 });
        assert_eq!(check(Configuration { raster: 0, ..LEGAL }), Raster);
        let long = Shape { k: 1 << 21, ..SHAPE };
        assert_eq!(
            Configuration { split: true, ..LEGAL }.check(long),
            Err(SplitDepth { k: 1 << 21, most: 1 << 20 })
        );
        assert!(Sums { sums: 256, most: 192 }.to_string().contains("256 sums a thread"));
    }
}
