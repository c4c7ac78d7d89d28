//! One factor of a multiplication as a CTA sees it: its strip of global memory, its ring of shared memory, and the copy
//! from one to the other.

use warpwright::prelude::*;

/// A type that the tensor cores multiply 16 deep and accumulate in `f32`.
pub trait GemmInput: Element {
    /// The MMA atom, by CuTe's name.
    const ATOM: &'static str;
}

impl GemmInput for f16 {
    const ATOM: &'static str = "SM80_16x8x16_F32F16F16F32_TN";
}

impl GemmInput for bf16 {
    const ATOM: &'static str = "SM80_16x8x16_F32BF16BF16F32_TN";
}

/// A type that warpgroups multiply and accumulate in `f32`.
pub trait WarpgroupInput: Element {
    /// What the atoms' names call it.
    const ATOM_TYPE: &'static str;
    /// How deep one instruction multiplies.
    const DEPTH: i64 = 32 / Self::BYTES as i64;
}

impl WarpgroupInput for bf16 {
    const ATOM_TYPE: &'static str = "BF16";
}

impl WarpgroupInput for f16 {
    const ATOM_TYPE: &'static str = "F16";
}

impl WarpgroupInput for tf32 {
    const ATOM_TYPE: &'static str = "TF32";
}

impl WarpgroupInput for e4m3 {
    const ATOM_TYPE: &'static str = "E4M3";
}

impl WarpgroupInput for e5m2 {
    const ATOM_TYPE: &'static str = "E5M2";
}

/// The name of the atom that multiplies 64 rows of A by so many columns of B from shared memory; both have as many bits.
pub(super) fn warpgroup_atom<A: WarpgroupInput, B: WarpgroupInput>(columns: u32) -> String {
    format!("SM90_64x{columns}x{}_F32{}{}_SS", A::DEPTH, A::ATOM_TYPE, B::ATOM_TYPE)
}

/// A factor's strip of tiles along k: rows of A, or columns of B, which are called rows here.
pub(super) struct Strip<T> {
    /// (tile's rows, tile's k, tiles along k).
    tiles: Tensor<T, GlobalSpace>,
    /// The tile's (rows, k).
    tile: (u32, u32),
    k_contiguous: bool,
    vector: u32,
}

impl<T: GemmInput> Strip<T> {
    /// The tiles at `position` of a factor of `rows` by `k`, whose contiguous extent is a multiple of `vector`.
    pub(super) fn new(
        pointer: &Global<T>,
        k_contiguous: bool,
        (rows, k): (Reg<u32>, Reg<u32>),
        vector: u32,
        tile: (u32, u32),
        position: Reg<u32>,
    ) -> Self {
        let matrix = match k_contiguous {
            true => Layout::new((rows, k), (multiple_of(k, vector), 1)),
            false => Layout::new((rows, k), (1, multiple_of(rows, vector))),
        };
        let tiles = Tensor::with_layout(*pointer, matrix).local_tile(tile, (position, All));
        Self { tiles, tile, k_contiguous, vector }
    }

    /// Shared memory for `stages` tiles: (rows, k, stage).
    ///
    /// A row of the tile is 64 bytes when k is contiguous, and eight rows apart by 64 bytes fall on every other bank group
    /// twice: the chunk is exchanged by the row's bits 1 and 2. Columns are 256 bytes: the chunk, by the column's low bits.
    pub(super) fn ring(&self, stages: u32) -> Tensor<T, SharedSpace> {
        let (rows, k) = self.tile;
        let elements = rows * k;
        let (strides, swizzle) = match self.k_contiguous {
            true => ((k, 1, elements), Swizzle::new(2, 3, 3)),
            false => ((1, rows, elements), Swizzle::new(3, 3, 4)),
        };
        let memory = dynamic_shared_aligned::<T>(elements * stages, 128);
        Tensor::swizzled(memory, Layout::new((rows, k, stages), strides), swizzle)
    }

    /// The copy atom that fills MMA registers from the ring: `ldmatrix`, transposing where k is not contiguous.
    pub(super) fn matrix_load(&self) -> &'static str {
        if self.k_contiguous { "SM75_U32x4_LDSM_N" } else { "SM75_U16x8_LDSM_T" }
    }

    /// This thread's copies of the strip's tiles to the ring. `rows_left` of the strip are inside the matrix; `exact`: all are, and all of
    /// every tile's k.
    pub(super) fn copies(
        &self,
        ring: &Tensor<T, SharedSpace>,
        thread: Reg<u32>,
        rows_left: Reg<u32>,
        exact: bool,
    ) -> StripCopy<T> {
        let (rows, k) = self.tile;
        let vector = self.vector;
        let atom = match self.vector {
            8 => "SM80_CP_ASYNC_CACHEGLOBAL<128>",
            4 => "SM80_CP_ASYNC_CACHEALWAYS<64>",
            2 => "SM80_CP_ASYNC_CACHEALWAYS<32>",
            _ => "UniversalCopy<16>",
        };
        let threads = super::THREADS;
        let copy = match self.k_contiguous {
            true => TiledCopy::new::<T>(
                atom,
                Layout::row_major((threads * vector / k, k / vector)),
                Layout::row_major((1, vector)),
            ),
            false => TiledCopy::new::<T>(
                atom,
                Layout::column_major((rows / vector, threads * vector / rows)),
                Layout::column_major((vector, 1)),
            ),
        };
        // A row of this tile is half of a 128-byte line, whose other half the next tile reads.
        let copy = copy.thread(thread).prefetching(L2Prefetch::Bytes128);
        let places = copy.coordinates(self.tile);
        let row_is_inside = (0..places.len()).map(|part| places.row(part).lt(rows_left)).collect();
        StripCopy {
            from: copy.source(&self.tiles).hoisted(),
            to: copy.target(ring).hoisted(),
            copy,
            places,
            row_is_inside,
            exact,
            vector: self.vector,
            depth: k,
        }
    }
}

/// One thread's copies from a strip to its ring.
pub(super) struct StripCopy<T> {
    copy: ThreadCopy,
    from: Tensor<T, GlobalSpace>,
    to: Tensor<T, SharedSpace>,
    places: Coordinates,
    row_is_inside: Vec<Reg<bool>>,
    exact: bool,
    vector: u32,
    depth: u32,
}

impl<T: GemmInput> StripCopy<T> {
    /// Copies the tile numbered `tile` along k to `stage` of the ring; what lies outside the matrix becomes zero.
    pub(super) fn copy(&self, stage: Reg<u32>, tile: Reg<u32>, k: Reg<u32>) {
        let to = self.to.slice((All, All, All, stage));
        let from = self.from.slice((All, All, All, tile));
        let k_left = k - tile * self.depth;
        let inside = |part: u32| self.row_is_inside[part as usize] & self.places.column(part).lt(k_left);
        if self.vector == 1 {
            self.copy.copy_elements(&to, &from, |part| (!self.exact).then(|| inside(part)));
        } else {
            let bytes = self.vector * T::BYTES;
            self.copy.copy_async(&to, &from, |part| (!self.exact).then(|| inside(part).select(bytes, 0u32)));
        }
    }
}
