//! `operations.multiply(&stream, product, &a, &b, &mut c)`: C = A·B by the kernel that suits the shape, the types and the device.

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use warpwright::arch::Capability;
use warpwright::prelude::*;
use warpwright::runtime::{self, Buffer, DeviceProperties, LaunchCounts, Storable, Stream};

use super::batched::Batch;
use super::cost;
use super::experts::Experts;
use super::experts_kernel;
use super::finish::{Finish, FusedEpilogue, Kinds};
use super::fused::Fused;
use super::hopper::HopperGemm;
use super::linear::{Linear, Parts};
use super::plan::{self, Configuration, Shape};
use super::readable::Readable;
use super::ready::Workspace;
use super::tuned;
use super::warps::Warps;
use super::{Gemm, GemmInput, GemmOutput, Order, WarpgroupInput};
use crate::operations::{OperationError, Operations, Result, expect_length};

/// What is multiplied: C (m, n) = A (m, k) · B (k, n), each without gaps.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Product {
    /// Rows of A and C.
    pub m: u32,
    /// Columns of B and C.
    pub n: u32,
    /// Columns of A, rows of B.
    pub k: u32,
    /// How A lies.
    pub a: Order,
    /// How B lies.
    pub b: Order,
}

impl Product {
    /// The product of row-major A (m, k) and column-major B (k, n): both have k contiguous, as tensor cores like it best.
    pub fn new(m: u32, n: u32, k: u32) -> Self {
        Self { m, n, k, a: Order::RowMajor, b: Order::ColumnMajor }
    }

    /// The product whose C is the transpose of this one's: Bᵀ·Aᵀ.
    pub(super) fn transposed(self) -> Self {
        Self { m: self.n, n: self.m, k: self.k, a: self.b.transposed(), b: self.a.transposed() }
    }

    pub(super) fn shape<T: Element, C: Element>(self) -> Shape {
        let Self { m, n, k, .. } = self;
        Shape { m, n, k, batch: 1, input_bytes: T::BYTES, output_bytes: C::BYTES }
    }

    /// The Hopper kernel of a configuration.
    pub(super) fn kernel<T: Element, C: Element>(self, configuration: Configuration) -> HopperGemm {
        plan::kernel(configuration, self.shape::<T, C>(), [self.a, self.b, Order::RowMajor])
    }

    /// Whether anything is to be multiplied.
    pub(super) fn has_work(self) -> bool {
        ![self.m, self.n, self.k].contains(&0)
    }

    /// Whether TMA can store C.
    pub(super) fn stores_boxes<C: Element>(self) -> bool {
        (u64::from(self.n) * u64::from(C::BYTES)).is_multiple_of(16)
    }
}

/// CTAs of a grid along its second and third axis. (CUDA Programming Guide, "Technical Specifications per Compute Capability".)
const MOST_ROWS_OF_GRID: u32 = 65_535;

/// The way a product is computed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Way {
    /// By `cp.async` and `mma.sync`, in those tiles: any GPU, any shape.
    Warps(Warps),
    /// By TMA and `wgmma`, on Hopper, in this configuration.
    Warpgroups(Configuration),
}

impl Way {
    /// Whether a kernel can be built and launched so for a shape on GPUs of that capability.
    pub(super) fn is_legal(self, shape: Shape, capability: &Capability) -> bool {
        match self {
            Self::Warps(warps) => shape.input_bytes == WARPS_INPUT_BYTES && warps.is_legal(capability),
            Self::Warpgroups(configuration) => {
                has_warpgroups(capability) && configuration.check(shape).is_ok()
            }
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Warps(warps) => warps.fmt(f),
            Self::Warpgroups(configuration) => {
                let Configuration { stages, raster, .. } = configuration;
                write!(f, "{configuration}, {stages} slots, raster {raster}")
            }
        }
    }
}

/// Bytes of the types that there are kernels by `mma.sync` for.
pub(super) const WARPS_INPUT_BYTES: u32 = 2;

/// Whether GPUs of that capability have warpgroups that multiply.
pub(crate) fn has_warpgroups(capability: &Capability) -> bool {
    capability.target == "sm_90a"
}

/// The ways to compute a product, or a batch, on a device, the cheapest first: on Hopper by warpgroups, unless A or B would have to be copied
/// for TMA to read it, and multiplying the few there are by `mma.sync` takes less time.
pub fn ways<T: WarpgroupInput, C: Element>(
    batch: impl Into<Batch>,
    capability: &Capability,
    sms: u32,
) -> Vec<Way> {
    let (batch, warps) = (batch.into(), Way::Warps(Warps::default()));
    if !has_warpgroups(capability) || batch.is_empty() {
        return vec![warps];
    }
    let costs = plan::costs(batch.shape::<T, C>(), sms);
    let warpgroups = costs.iter().map(|cost| Way::Warpgroups(cost.configuration));
    let readable = Readable::of::<T>(batch);
    let copied = costs[0].cycles + readable.cycles::<T>();
    let warps_are_faster =
        || cost::warps_cycles(&Gemm::for_batch(batch, Warps::default()), batch, sms) < copied;
    if T::BYTES == WARPS_INPUT_BYTES && !readable.as_it_is() && warps_are_faster() {
        return [warps].into_iter().chain(warpgroups).collect();
    }
    warpgroups.chain([warps]).collect()
}

/// The way that a search has found to be the fastest on a device and kept in `file`, or else the cheapest by the model.
///
/// A file that cannot be read counts as none: what it says makes a product faster, and nothing else, so no product fails for it.
/// `warpwright run gemm --explain` tells what is wrong with it.
fn fastest<A: WarpgroupInput, B: Element, C: Element>(
    batch: Batch,
    properties: &DeviceProperties,
    file: Option<&Path>,
) -> Way {
    let cheapest = || ways::<A, C>(batch, properties.capability, properties.sm_count)[0];
    let find = |file| tuned::find::<A, B, C>(file, properties, batch).ok().flatten();
    file.and_then(find).unwrap_or_else(cheapest)
}

/// Why warpgroups cannot compute a product.
pub(super) fn no_warpgroups<A: Element, B: Element>(product: Product) -> OperationError {
    let (Product { m, n, k, .. }, types) = (product, types::<A, B>());
    refused(format!("{types} of {m} x {n} x {k} by wgmma needs sm_90a, and something to multiply"))
}

/// The types of A and B: one name, where they have one.
pub(super) fn types<A: Element, B: Element>() -> String {
    if A::NAME == B::NAME { A::NAME.to_owned() } else { format!("{} x {}", A::NAME, B::NAME) }
}

/// A type that [`Operations::multiply`] multiplies with another, which is the same but for 8-bit floats: those multiply each other.
pub trait Factor<B = Self>: WarpgroupInput + Storable {
    /// Multiplies by `mma.sync`, where there is a kernel of it for this type.
    ///
    /// # Errors
    /// There is none; or the launch's.
    fn by_warps<C: GemmOutput + Storable, E: FusedEpilogue<C>>(
        operations: &Operations,
        stream: &Stream,
        way: (Batch, Warps),
        operands: Operands<'_, Self, B, C, E>,
    ) -> Result<LaunchCounts>;

    /// Multiplies groups of rows by `mma.sync`.
    ///
    /// # Errors
    /// As [`by_warps`](Self::by_warps).
    fn experts_by_warps<C: GemmOutput + Storable, E: FusedEpilogue<C>>(
        operations: &Operations,
        stream: &Stream,
        way: (&Experts<'_>, Warps),
        operands: Operands<'_, Self, B, C, E>,
    ) -> Result<LaunchCounts>;

    /// The kernel that multiplies by `mma.sync`, with those parts of an epilogue.
    ///
    /// # Errors
    /// There is none for this type.
    fn warps_ptx<C: GemmOutput>(
        way: (Batch, Warps),
        staged: (Parts, Kinds),
        capability: &'static Capability,
    ) -> Result<String>;

    /// The kernel that multiplies groups of rows by `mma.sync`, such a product on average.
    ///
    /// # Errors
    /// There is none for this type.
    fn experts_warps_ptx<C: GemmOutput>(average: Product, capability: &'static Capability) -> Result<String>;
}

/// The buffers of a product, and its epilogue.
pub struct Operands<'a, A, B, C, E> {
    pub(super) a: &'a Buffer<A>,
    pub(super) b: &'a Buffer<B>,
    pub(super) c: &'a mut Buffer<C>,
    /// What becomes of the sums.
    pub(super) finish: &'a Finish<'a, C, E>,
}

impl<'a, A, B, C, E> Operands<'a, A, B, C, E> {
    /// Those of the product whose C is the transpose of this one's.
    pub(super) fn transposed(self) -> Operands<'a, B, A, C, E> {
        let Self { a, b, c, finish } = self;
        Operands { a: b, b: a, c, finish }
    }
}

/// Why a product cannot be computed.
pub(super) fn refused(reason: String) -> OperationError {
    OperationError::Shape { what: "multiply", reason }
}

impl<T: GemmInput + WarpgroupInput + Storable> Factor<T> for T {
    fn by_warps<C: GemmOutput + Storable, E: FusedEpilogue<C>>(
        operations: &Operations,
        stream: &Stream,
        (batch, warps): (Batch, Warps),
        operands: Operands<'_, T, T, C, E>,
    ) -> Result<LaunchCounts> {
        let Product { m, n, k, .. } = batch.product;
        let kernel = Gemm::for_batch(batch, warps);
        let Operands { a, b, c, finish } = operands;
        let fused = finish.fused(kernel, false);
        let (tiles, numbers, nothing) = (kernel.grid(m, n), finish.numbers, no_matrix(operations)?);
        let matrix = finish.matrix.unwrap_or(&nothing);
        operations.with_scratch(stream, |workspace: &mut Workspace| {
            let [rows, columns, more] = finish.vectors(workspace.nothing(operations)?);
            if batch.count == 1 {
                let compiled = operations.kernel(fused, Fused::<Gemm, E>::run::<T, C>)?;
                let arguments = (a, b, c, matrix, numbers, rows, columns, more, m, n, k);
                return Ok(compiled.launch(stream, tiles, arguments)?);
            }
            let compiled = operations.kernel(fused, Fused::<Gemm, E>::run_batch::<T, C>)?;
            let strides = [batch.a_stride, batch.b_stride, batch.c_stride];
            let arguments = (a, b, c, matrix, numbers, rows, columns, more, m, n, k, strides, batch.count);
            // The products fill the grid's second axis, and where they are too many, the third.
            let layers = batch.count.div_ceil(MOST_ROWS_OF_GRID);
            Ok(compiled.launch(stream, [tiles, batch.count.div_ceil(layers), layers], arguments)?)
        })
    }

    fn experts_by_warps<C: GemmOutput + Storable, E: FusedEpilogue<C>>(
        operations: &Operations,
        stream: &Stream,
        way: (&Experts<'_>, Warps),
        operands: Operands<'_, T, T, C, E>,
    ) -> Result<LaunchCounts> {
        experts_kernel::by_warps(operations, stream, way, operands)
    }

    fn experts_warps_ptx<C: GemmOutput>(average: Product, capability: &'static Capability) -> Result<String> {
        experts_kernel::warps_ptx::<T, C>(average, capability)
    }

    fn warps_ptx<C: GemmOutput>(
        (batch, warps): (Batch, Warps),
        (epilogue, kinds): (Parts, Kinds),
        capability: &'static Capability,
    ) -> Result<String> {
        let fused = Fused { gemm: Gemm::for_batch(batch, warps), epilogue, kinds, transposed: false };
        Ok(match batch.count {
            1 => runtime::ptx(&Fused::<Gemm, _>::run::<T, C>(&fused)?, capability)?,
            _ => runtime::ptx(&fused.run_batch::<T, C>()?, capability)?,
        })
    }
}

/// Pairs of types that only warpgroups multiply.
macro_rules! warpgroups_only {
    ($($a:ident $b:ident,)*) => {
        $(impl Factor<$b> for $a {
            fn by_warps<C: GemmOutput + Storable, E: FusedEpilogue<C>>(
                _: &Operations,
                _: &Stream,
                (batch, _): (Batch, Warps),
                _: Operands<'_, Self, $b, C, E>,
            ) -> Result<LaunchCounts> {
                Err(no_warpgroups::<Self, $b>(batch.product))
            }

            fn experts_by_warps<C: GemmOutput + Storable, E: FusedEpilogue<C>>(
                _: &Operations,
                _: &Stream,
                (experts, _): (&Experts<'_>, Warps),
                operands: Operands<'_, Self, $b, C, E>,
            ) -> Result<LaunchCounts> {
                Err(no_warpgroups::<Self, $b>(experts.product(experts.rows(operands.a))))
            }

            fn warps_ptx<C: GemmOutput>(
                (batch, _): (Batch, Warps),
                _: (Parts, Kinds),
                _: &'static Capability,
            ) -> Result<String> {
                Err(no_warpgroups::<Self, $b>(batch.product))
            }

            fn experts_warps_ptx<C: GemmOutput>(
                average: Product,
                _: &'static Capability,
            ) -> Result<String> {
                Err(no_warpgroups::<Self, $b>(average))
            }
        })*
    };
}

warpgroups_only! { tf32 tf32, e4m3 e4m3, e4m3 e5m2, e5m2 e4m3, e5m2 e5m2, }

impl Operations {
    /// C = A·B, accumulated in f32; C is row-major. A and B are of one type, or of two of 8-bit floats.
    ///
    /// # Errors
    /// A buffer has another length than the product asks for; the device has no kernel for the types; or it failed.
    pub fn multiply<A: Factor<B>, B: Factor<A>, C: GemmOutput + Storable>(
        &self,
        stream: &Stream,
        product: Product,
        a: &Buffer<A>,
        b: &Buffer<B>,
        c: &mut Buffer<C>,
    ) -> Result<LaunchCounts> {
        let way = self.way::<A, B, C>(product.into())?;
        self.multiply_by(stream, product, way, a, b, c)
    }

    /// The way to compute a batch: as `warpwright tune` has found, or else the cheapest by the model. It is looked up once for each batch.
    pub(super) fn way<A: WarpgroupInput, B: Element, C: Element>(&self, batch: Batch) -> Result<Way> {
        let way = self.remembered::<(A, B, C), _, _>(batch, |&batch| {
            Ok(fastest::<A, B, C>(batch, self.device().properties(), tuned::default_file().ok().as_deref()))
        })?;
        Ok(*way)
    }

    /// C = A·B in that way.
    ///
    /// # Errors
    /// As [`multiply`](Self::multiply); and if the way does not suit the product.
    pub fn multiply_by<A: Factor<B>, B: Factor<A>, C: GemmOutput + Storable>(
        &self,
        stream: &Stream,
        product: Product,
        way: Way,
        a: &Buffer<A>,
        b: &Buffer<B>,
        c: &mut Buffer<C>,
    ) -> Result<LaunchCounts> {
        if product.k == 0 {
            expect_length("C", product.m as usize * product.n as usize, c.len())?;
            stream.fill_zero(c)?;
            return Ok(LaunchCounts::default());
        }
        self.compute(stream, product.into(), way, Operands { a, b, c, finish: &Linear::default().finish() })
    }
}

/// What stands for a matrix that an epilogue is not given.
pub(super) fn no_matrix<C: Storable>(operations: &Operations) -> Result<Arc<Buffer<C>>> {
    operations.remembered::<NoMatrix, _, _>((), |()| Ok(operations.device().uninitialized(1)?))
}

/// What [`no_matrix`]'s are remembered as.
struct NoMatrix;

/// A tile, or why there is none.
pub(super) fn legal(tile: Result<TmaTile, warpwright::layout::Error>) -> Result<TmaTile> {
    tile.map_err(|error| refused(error.to_string()))
}

/// The extents of a matrix, as a tensor map counts them.
pub(super) fn extents(mn: u32, k: u32) -> (u64, u64) {
    (mn.into(), k.into())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use warpwright::runtime::Device;

    use super::super::tuned::{Key, keep_in, temporary_file};
    use super::*;

    #[test]
    fn what_a_search_has_kept_goes_before_the_model() {
        let (file, _folder) = temporary_file("multiply");
        let emulator = Device::named("emu:h200").expect("an emulator").properties().clone();
        let gpu = DeviceProperties { is_emulated: false, product: "a GPU".to_owned(), ..emulator.clone() };
        let product = Product::new(600, 520, 200);
        for batch in [Batch::from(product), Batch::new(product, 3), Batch::new(product, 3).sharing_b()] {
            let chosen = |properties| fastest::<bf16, bf16, f32>(batch, properties, Some(&file));
            let all = ways::<bf16, f32>(batch, gpu.capability, gpu.sm_count);
            assert_eq!(chosen(&gpu), all[0], "nothing is kept for it yet");
            let key = Key::of::<bf16, bf16, f32>("a GPU", batch);
            let by_warps = Way::Warps(Warps { tile: (64, 128), stages: 3, raster: 4 });
            for kept in [all[4], by_warps] {
                keep_in(&file, &key, kept, 1.0).expect("kept");
                assert_eq!(chosen(&gpu), kept);
            }
            let ampere = Capability::for_target("sm_80").expect("it is known");
            let older = DeviceProperties { capability: ampere, ..gpu.clone() };
            assert_eq!(chosen(&older), by_warps, "an older GPU's search finds ways by mma.sync");
            keep_in(&file, &key, all[4], 1.0).expect("kept");
            assert_eq!(
                chosen(&older),
                Way::Warps(Warps::default()),
                "what it cannot launch counts as nothing"
            );
            assert_eq!(chosen(&emulator), all[0], "a GPU's time says nothing about its emulator");
            assert_eq!(fastest::<bf16, bf16, f32>(batch, &gpu, None), all[0]);
        }
        fs::write(&file, "not what tune writes").expect("writable");
        let all = ways::<bf16, f32>(product, gpu.capability, gpu.sm_count);
        assert_eq!(
            fastest::<bf16, bf16, f32>(product.into(), &gpu, Some(&file)),
            all[0],
            "the file is no good"
        );
    }
}
