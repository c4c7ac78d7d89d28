//! Tensor copies: TMA moves a box of a tensor, which a [`TensorMap`] describes, between global and
//! shared memory asynchronously; one thread starts the copy. sm_90. PTX ISA, "Tensor copy".
//!
//! Coordinates are elements of the tensor, the contiguous dimension first, in the map's order of
//! dimensions. The box that starts there has the map's extents; elements outside the tensor are
//! filled when loaded and skipped when stored. [`TensorMap::boxes`] states the box before the first
//! copy, and a launch refuses a map with another; a map that is
//! [untyped](crate::tensor_map::UntypedTensorMap) may have any. The tile in shared memory is dense
//! or swizzled, and aligned to 128 bytes. Loads complete at an mbarrier, which counts the box's
//! bytes (including filled ones); stores and reductions complete in groups:
//! [`bulk_commit`](crate::bulk::bulk_commit) and the waits beside it.
//!
//! ```
//! use warpwright_lang::bulk::{bulk_commit, bulk_wait};
//! use warpwright_lang::fence::fence_mbarrier_init;
//! use warpwright_lang::mbarrier::Mbarrier;
//! use warpwright_lang::shared::dynamic_shared_aligned;
//! use warpwright_lang::tensor::TmaTile;
//! use warpwright_lang::tensor_map::TensorMap;
//! use warpwright_lang::{kernel, launch, special::block_idx, tma};
//! use warpwright_layout::atom::Major;
//!
//! /// Copies a matrix, 64 rows of 64 half-precision elements a CTA.
//! #[kernel]
//! fn copy(source: &TensorMap, target: &mut TensorMap) {
//!     launch::threads(1);
//!     for map in [*source, *target] {
//!         map.boxes(TmaTile::dense::<half::f16>((64, 64), Major::K));
//!     }
//!     let tile = dynamic_shared_aligned::<half::f16>(64 * 64, 128);
//!     let full = Mbarrier::new();
//!     let at = [block_idx().x * 64, block_idx().y * 64];
//!     full.init(1);
//!     fence_mbarrier_init();
//!     full.arrive_and_expect(64 * 64 * 2);
//!     tma::load(*source, at, tile, full);
//!     full.wait_parity(0);
//!     tma::store(*target, at, tile);
//!     bulk_commit();
//!     bulk_wait(0);
//! }
//! assert!(copy().is_ok());
//! ```

mod coordinates;

pub use self::coordinates::{BoxCoordinate, BoxCoordinates};

use warpwright_arch::tensor_map::ElementType;
use warpwright_ir::Operand;

use crate::bulk::{BulkReduction, CompletionBarrier, InCluster, add_options, refuse_multicast_prefetch};
use crate::cta_group::CtaGroup;
use crate::element::Element;
use crate::launch::demand_ranks;
use crate::operation::{here, on_behalf_of_author, record, refuse};
use crate::pointer::{Pointer, Shared};
use crate::recorder::CopyAccess;
use crate::recorder::{self, View};
use crate::requirement::{Feature, require};
use crate::space::{SharedSpace, Space};
use crate::tensor_map::TensorMap;
use crate::tensor_map_boxes::{CopyForm, demand_writable, element_type, swizzle_of_bytes};
use crate::tensor_memory::demand_one_group;
use crate::value::{Reg, Value};

/// Loads the box at `at` into shared memory; when it has arrived, `barrier` counts its bytes.
#[track_caller]
pub fn load<T: Element, S: InCluster>(
    map: TensorMap,
    at: impl BoxCoordinates,
    to: Pointer<T, S>,
    barrier: impl CompletionBarrier,
) {
    Load::new(map, at).start(to, barrier);
}

/// Stores the box at `at` from shared memory.
#[track_caller]
pub fn store<T: Element>(map: TensorMap, at: impl BoxCoordinates, from: Shared<T>) {
    Store::new(map, at).start(from);
}

/// Loads elements of four rows of a matrix, from `column` on, into four consecutive rows of shared
/// memory; when they have arrived, `barrier` counts their bytes. sm_100a.
///
/// The boxes of the map are single rows ([`TmaTile::single_rows`](crate::tensor::TmaTile::single_rows)).
/// A row outside the matrix is filled.
///
/// ```
/// use warpwright_lang::fence::fence_mbarrier_init;
/// use warpwright_lang::mbarrier::Mbarrier;
/// use warpwright_lang::pointer::Global;
/// use warpwright_lang::shared::dynamic_shared_aligned;
/// use warpwright_lang::tensor::TmaTile;
/// use warpwright_lang::tensor_map::TensorMap;
/// use warpwright_lang::{kernel, launch, special::block_idx, tma};
/// use warpwright_layout::atom::Major;
///
/// /// Gathers four rows of 64 half-precision elements a CTA.
/// #[kernel]
/// fn gather(matrix: &TensorMap, rows: &Global<u32>) {
///     launch::threads(1);
///     matrix.boxes(TmaTile::dense::<half::f16>((4, 64), Major::K).map(|tile| tile.single_rows()));
///     let tile = dynamic_shared_aligned::<half::f16>(4 * 64, 128);
///     let full = Mbarrier::new();
///     full.init(1);
///     fence_mbarrier_init();
///     full.arrive_and_expect(4 * 64 * 2);
///     let rows = rows.at(block_idx().x * 4).load_vector::<4>();
///     tma::gather4(*matrix, 0, rows, tile, full);
///     full.wait_parity(0);
/// }
/// assert!(gather().is_ok());
/// ```
#[track_caller]
pub fn gather4<T: Element, S: InCluster>(
    map: TensorMap,
    column: impl BoxCoordinate,
    rows: [impl BoxCoordinate; 4],
    to: Pointer<T, S>,
    barrier: impl CompletionBarrier,
) {
    Load::gather4(map, column, rows).start(to, barrier);
}

/// Stores four consecutive rows of shared memory to four rows of a matrix, from `column` on: the
/// reverse of [`gather4`]. A row past the end of the matrix is skipped.
#[track_caller]
pub fn scatter4<T: Element>(
    map: TensorMap,
    column: impl BoxCoordinate,
    rows: [impl BoxCoordinate; 4],
    from: Shared<T>,
) {
    Store::scatter4(map, column, rows).start(from);
}

/// Reduces shared memory into the box at `at`, each element atomically.
#[track_caller]
pub fn reduce<T: Element>(
    reduction: BulkReduction,
    map: TensorMap,
    at: impl BoxCoordinates,
    from: Shared<T>,
) {
    Store::new(map, at).start_reducing(reduction, from);
}

/// Fetches the box at `at` into L2.
#[track_caller]
pub fn prefetch(map: TensorMap, at: impl BoxCoordinates) {
    Load::new(map, at).prefetch();
}

/// The box that a copy moves.
#[derive(Clone)]
struct MappedBox {
    map: TensorMap,
    at: Vec<Operand>,
    access: CopyAccess,
}

impl MappedBox {
    #[track_caller]
    fn new(map: TensorMap, at: impl BoxCoordinates) -> Self {
        let mut at = at.operands();
        if !(1..=5).contains(&at.len()) {
            refuse(format!("a tensor copy has 1 to 5 coordinates, not {}", at.len()));
            at.resize(1, Operand::Integer(0));
        }
        Self { map, at, access: CopyAccess::Tile }
    }

    /// Four rows of a matrix.
    #[track_caller]
    fn of_rows(map: TensorMap, column: impl BoxCoordinate, rows: [impl BoxCoordinate; 4]) -> Self {
        require(Feature::TensorRows);
        let mut at = vec![column.operand()];
        at.extend(rows.operands());
        Self { map, at, access: CopyAccess::FourRows }
    }

    /// Refuses a copy that the map's boxes do not fit. `element` is the type in shared memory.
    #[track_caller]
    fn check(&self, element: Option<ElementType>) {
        CopyForm { rank: self.rank(), access: self.access, element }.check(self.map);
    }

    /// The number of the map's dimensions.
    fn rank(&self) -> usize {
        if self.access == CopyAccess::FourRows { 2 } else { self.at.len() }
    }

    /// The shared memory that the copy reads or writes, by the swizzle of the map's boxes.
    #[track_caller]
    fn shared<T: Element, S: Space>(&self, memory: Pointer<T, S>, is_write: bool) -> Operand {
        let location = here();
        let boxes = recorder::with(|recorder| recorder.boxes(self.map.address().register()).cloned());
        let swizzle = boxes.as_ref().and_then(swizzle_of_bytes).filter(|_| S::NAME == SharedSpace::NAME);
        let Some((boxes, swizzle)) = boxes.zip(swizzle) else { return memory.operand() };
        let (base, first) = memory.parts();
        let bytes = self.access.boxes() * boxes.row_major(0, &vec![1; boxes.rank()]).shared_bytes() as i64;
        let view = View { bytes: Some(first..first + bytes), swizzle, by_address: true, is_write };
        recorder::with(|recorder| recorder.note_view(base, view, location));
        memory.operand_of_view()
    }

    fn operand(&self) -> Operand {
        let map = Box::new(self.map.address().operand());
        Operand::Address { base: map, offset: 0, rest: vec![Operand::Vector(self.at.clone())] }
    }
}

/// The type of elements in shared memory that a copy's boxes must have; `u8` may be bytes of any.
fn shared_element<T: Element>() -> Option<ElementType> {
    element_type::<T>().filter(|element| *element != ElementType::U8)
}

/// Refuses tensors that im2col does not support; returns false for them.
#[track_caller]
fn check_im2col_rank(rank: usize) -> bool {
    if rank < 3 {
        refuse(format!("an im2col load has 3 to 5 coordinates, not {rank}"));
    }
    rank >= 3
}

/// A load of a box.
#[derive(Clone)]
pub struct Load {
    source: MappedBox,
    /// The offsets of an im2col load.
    offsets: Vec<Operand>,
    multicast: Option<Reg<u16>>,
    group: Option<CtaGroup>,
    policy: Option<Reg<u64>>,
}

impl Load {
    /// The box at `at`.
    #[track_caller]
    pub fn new(map: TensorMap, at: impl BoxCoordinates) -> Self {
        Self::of_box(MappedBox::new(map, at))
    }

    /// Four rows of a matrix, from `column` on: see [`gather4`].
    #[track_caller]
    pub fn gather4(map: TensorMap, column: impl BoxCoordinate, rows: [impl BoxCoordinate; 4]) -> Self {
        Self::of_box(MappedBox::of_rows(map, column, rows))
    }

    fn of_box(source: MappedBox) -> Self {
        Self { source, offsets: Vec::new(), multicast: None, group: None, policy: None }
    }

    /// With a map for im2col: the offsets of the filter's tap in the pixel dimensions (all but the
    /// first, the channels, and the last, the images), W before H before D. PTX ISA, "Tensor,
    /// im2col mode".
    #[track_caller]
    pub fn im2col<const N: usize>(mut self, offsets: [impl Value<u16>; N]) -> Self {
        let rank = self.source.rank();
        if !check_im2col_rank(rank) {
            return self;
        }
        if N + 2 != rank {
            refuse(format!(
                "an im2col load of {rank} coordinates takes {} offsets, one for each but the first and \
                 the last, not {N}",
                rank - 2
            ));
            return self;
        }
        self.source.access = CopyAccess::Im2col;
        let offsets = on_behalf_of_author(|| offsets.map(|offset| offset.reg().operand()).to_vec());
        Self { offsets, ..self }
    }

    /// To every CTA of the cluster whose rank's bit is set in `mask`, at the same shared-memory
    /// offset as in this CTA. Each receiving CTA's own barrier counts the bytes.
    #[track_caller]
    pub fn multicast(self, mask: impl Value<u16>) -> Self {
        demand_ranks("multicast", mask.operand(), true);
        Self { multicast: Some(mask.reg()), ..self }
    }

    /// For the tensor cores of `group`. With [`CtaGroup::Two`] the mbarrier may be that of the other
    /// CTA of the pair: the one whose thread issues the MMAs waits for the loads of both. sm_100a.
    ///
    /// ```
    /// use warpwright_lang::cluster::{cluster_rank, cluster_sync};
    /// use warpwright_lang::fence::fence_mbarrier_init;
    /// use warpwright_lang::mbarrier::Mbarrier;
    /// use warpwright_lang::shared::dynamic_shared_aligned;
    /// use warpwright_lang::tensor::TmaTile;
    /// use warpwright_lang::tensor_map::TensorMap;
    /// use warpwright_lang::tensor_memory::CtaGroup;
    /// use warpwright_lang::value::constant;
    /// use warpwright_lang::{kernel, launch, tma};
    /// use warpwright_layout::atom::Major;
    ///
    /// /// Both CTAs of a pair load their rows, and the first waits for all of them.
    /// #[kernel]
    /// fn load(matrix: &TensorMap) {
    ///     launch::threads(1);
    ///     launch::cluster(2, 1, 1);
    ///     matrix.boxes(TmaTile::new::<half::f16>((64, 64), Major::K));
    ///     let (tile, full) = (dynamic_shared_aligned::<half::f16>(64 * 64, 1024), Mbarrier::new());
    ///     full.init(2);
    ///     fence_mbarrier_init();
    ///     cluster_sync();
    ///     let first = full.at_rank(0);
    ///     first.arrive_and_expect(64 * 64 * 2);
    ///     let at = [constant(0u32), cluster_rank() * 64];
    ///     tma::Load::new(*matrix, at).group(CtaGroup::Two).start(tile, first);
    ///     if cluster_rank() == 0 {
    ///         full.wait_parity(0);
    ///     }
    ///     cluster_sync();
    /// }
    /// assert!(load().is_ok());
    /// ```
    #[track_caller]
    pub fn group(self, group: CtaGroup) -> Self {
        require(Feature::TensorMemory);
        demand_one_group(group);
        Self { group: Some(group), ..self }
    }

    /// With an L2 cache policy.
    pub fn with_policy(self, policy: Reg<u64>) -> Self {
        Self { policy: Some(policy), ..self }
    }

    /// Starts it, into shared memory; when the box has arrived, `barrier` counts its bytes.
    #[track_caller]
    pub fn start<T: Element, S: InCluster>(&self, to: Pointer<T, S>, barrier: impl CompletionBarrier) {
        require(Feature::TensorCopies);
        self.source.check(shared_element::<T>());
        to.demand_writable();
        let mut words = vec!["shared::cluster.global", self.mode(), "mbarrier::complete_tx::bytes"];
        let mut operands = vec![self.source.shared(to, true), self.source.operand(), barrier.address()];
        operands.extend(self.offsets_operand());
        add_options(&mut words, &mut operands, (self.multicast, self.group), self.policy);
        record(format!("cp.async.bulk.tensor.{}d.{}", self.source.rank(), words.join(".")), 0, operands);
    }

    /// Starts it, into L2 alone.
    #[track_caller]
    pub fn prefetch(&self) {
        require(Feature::TensorCopies);
        self.source.check(None);
        refuse_multicast_prefetch(self.multicast);
        let mut words = vec!["L2.global", self.mode()];
        let mut operands = vec![self.source.operand()];
        operands.extend(self.offsets_operand());
        add_options(&mut words, &mut operands, (None, None), self.policy);
        let opcode = format!("cp.async.bulk.prefetch.tensor.{}d.{}", self.source.rank(), words.join("."));
        record(opcode, 0, operands);
    }

    fn mode(&self) -> &'static str {
        match self.source.access {
            CopyAccess::Tile => "tile",
            CopyAccess::Im2col => "im2col",
            CopyAccess::FourRows => "tile::gather4",
        }
    }

    fn offsets_operand(&self) -> Option<Operand> {
        (!self.offsets.is_empty()).then(|| Operand::Vector(self.offsets.clone()))
    }
}

/// A store to a box, or a reduction into it.
#[derive(Clone)]
pub struct Store {
    target: MappedBox,
    policy: Option<Reg<u64>>,
}

impl Store {
    /// The box at `at`.
    #[track_caller]
    pub fn new(map: TensorMap, at: impl BoxCoordinates) -> Self {
        Self { target: MappedBox::new(map, at), policy: None }
    }

    /// Four rows of a matrix, from `column` on: see [`scatter4`].
    #[track_caller]
    pub fn scatter4(map: TensorMap, column: impl BoxCoordinate, rows: [impl BoxCoordinate; 4]) -> Self {
        Self { target: MappedBox::of_rows(map, column, rows), policy: None }
    }

    /// With a map for im2col, whose tensors have 3 to 5 dimensions.
    #[track_caller]
    pub fn im2col(mut self) -> Self {
        if check_im2col_rank(self.target.rank()) {
            self.target.access = CopyAccess::Im2col;
        }
        self
    }

    /// With an L2 cache policy.
    pub fn with_policy(self, policy: Reg<u64>) -> Self {
        Self { policy: Some(policy), ..self }
    }

    /// Starts it, from shared memory.
    #[track_caller]
    pub fn start<T: Element>(&self, from: Shared<T>) {
        self.record("cp.async.bulk", "", from);
    }

    /// Starts it, from shared memory: each element is reduced into the element in the tensor,
    /// atomically. The map's element type determines which reductions exist.
    #[track_caller]
    pub fn start_reducing<T: Element>(&self, reduction: BulkReduction, from: Shared<T>) {
        if self.target.access == CopyAccess::FourRows {
            refuse("`scatter4` stores and does not reduce: reduce boxes by `tma::reduce`");
        }
        self.record("cp.reduce.async.bulk", &format!(".{}", reduction.word()), from);
    }

    #[track_caller]
    fn record<T: Element>(&self, instruction: &str, operation: &str, from: Shared<T>) {
        require(Feature::TensorCopies);
        self.target.check(shared_element::<T>());
        demand_writable(self.target.map);
        let mode = match self.target.access {
            CopyAccess::Tile => "tile",
            CopyAccess::Im2col => "im2col_no_offs",
            CopyAccess::FourRows => "tile::scatter4",
        };
        let mut words = vec!["bulk_group"];
        let mut operands = vec![self.target.operand(), self.target.shared(from, false)];
        add_options(&mut words, &mut operands, (None, None), self.policy);
        let opcode = format!(
            "{instruction}.tensor.{}d.global.shared::cta{operation}.{mode}.{}",
            self.target.rank(),
            words.join(".")
        );
        record(opcode, 0, operands);
    }
}
