//! TMA tiles in shared memory: the operands of a pipeline, and the buffers of an epilogue.

use warpwright_arch::tensor_map::ElementType;
use warpwright_ir::Operand;
use warpwright_layout::atom::Major;
use warpwright_layout::{Error, Layout};

use super::legal::legal;
use super::tma_tile::TmaTile;
use super::view::Tensor;
use crate::DeviceValue;
use crate::bulk::CompletionBarrier;
use crate::cta_group::CtaGroup;
use crate::element::Element;
use crate::multicast::Multicast;
use crate::object;
use crate::operation::{here, refuse};
use crate::pointer::Shared;
use crate::recorder::{self, PipelineId, Stages};
use crate::shared::dynamic_shared_aligned;
use crate::space::SharedSpace;
use crate::tensor_map::TensorMap;
use crate::tensor_map_boxes::{self, element_type, is_of_bytes};
use crate::tma;
use crate::value::{Reg, Value, constant};

/// A matrix (mn, k) that a tensor map describes: all of it, a part of it, or one of the matrices
/// along its further axes.
#[derive(Clone, Copy, DeviceValue)]
pub struct MappedMatrix {
    map: TensorMap,
    /// The coordinate of its first element in the map's matrix.
    origin: Option<(Reg<u32>, Reg<u32>)>,
    /// Its index along the map's third axis, the fourth and the fifth.
    indices: [Option<Reg<u32>>; 3],
}

impl From<TensorMap> for MappedMatrix {
    fn from(map: TensorMap) -> Self {
        Self { map, origin: None, indices: [None; 3] }
    }
}

impl From<&TensorMap> for MappedMatrix {
    fn from(map: &TensorMap) -> Self {
        Self::from(*map)
    }
}

impl From<&mut TensorMap> for MappedMatrix {
    fn from(map: &mut TensorMap) -> Self {
        Self::from(*map)
    }
}

impl MappedMatrix {
    /// The part of the matrix that begins at `origin` (mn, k).
    pub fn offset_by(self, origin: (Reg<u32>, Reg<u32>)) -> Self {
        Self { origin: Some(origin), ..self }
    }

    /// Matrix `index` along the map's third axis. Of a map with more axes, a further call gives the
    /// index along the fourth, and another the one along the fifth.
    #[track_caller]
    pub fn batch(mut self, index: Reg<u32>) -> Self {
        match self.indices.iter_mut().find(|known| known.is_none()) {
            Some(free) => *free = Some(index),
            None => refuse("`batch`: a tensor map has at most five axes: two of the matrix, and three more"),
        }
        self
    }

    /// The coordinate in the map's matrix of (mn, k) of this one.
    #[track_caller]
    fn absolute(&self, (mn, k): (Reg<u32>, Reg<u32>)) -> (Reg<u32>, Reg<u32>) {
        match self.origin {
            Some(origin) => (origin.0 + mn, origin.1 + k),
            None => (mn, k),
        }
    }

    /// States what copies of `tile` need of the map.
    #[track_caller]
    fn need(&self, tile: &TmaTile) {
        let rank = 2 + self.indices.iter().flatten().count();
        tensor_map_boxes::need(self.map, &tile.requirement().of_rank(rank));
    }

    /// The coordinates of a box, along the contiguous axis and the other.
    fn coordinates(&self, inner: Reg<u32>, outer: Reg<u32>) -> Vec<Reg<u32>> {
        [inner, outer].into_iter().chain(self.indices.into_iter().flatten()).collect()
    }
}

/// Tiles in dynamic shared memory, one for each stage.
#[derive(Clone)]
struct StagedTile<T> {
    tile: TmaTile,
    tensor: Tensor<T, SharedSpace>,
    start: Shared<u8>,
}

impl<T: Element> StagedTile<T> {
    #[track_caller]
    fn new(tile: Result<TmaTile, Error>, stages: u32, pipeline: Option<PipelineId>) -> Self {
        let fallback = || TmaTile::new::<T>((8, 16), Major::K).expect("the smallest tile is legal");
        let tile = legal(tile, fallback);
        let holds = |element: ElementType| element == tile.element() || is_of_bytes(tile.element(), element);
        if !element_type::<T>().is_some_and(holds) {
            refuse(format!("a tile of {} cannot hold {}", tile.element().name(), T::NAME));
        }
        let (rows, columns) = tile.shape();
        let elements = rows * columns * stages;
        let pointer = dynamic_shared_aligned::<T>(elements, tile.alignment());
        let layout = legal(tile.layout(stages), || Layout::unit().into());
        object::tensor(pointer, &layout, true);
        let (base, _) = pointer.parts();
        recorder::with(|recorder| recorder.note_stages(base, Stages { count: stages, pipeline }));
        Self { tile, tensor: Tensor::new(pointer, layout), start: pointer.cast() }
    }
}

/// An operand of a [`Pipeline`](crate::pipeline::Pipeline): a tile for each of its stages.
#[derive(Clone)]
pub struct StagedOperand<T> {
    staged: StagedTile<T>,
    pipeline: PipelineId,
}

impl<T: Element> StagedOperand<T> {
    #[track_caller]
    pub(crate) fn new(tile: Result<TmaTile, Error>, stages: u32, pipeline: PipelineId) -> Self {
        Self { staged: StagedTile::new(tile, stages, Some(pipeline)), pipeline }
    }

    /// The tiles as a tensor (mn, k, stages).
    pub fn tensor(&self) -> &Tensor<T, SharedSpace> {
        &self.staged.tensor
    }

    /// The memory of the tiles, one stage after another, swizzled: for instructions that take
    /// addresses.
    pub fn memory(&self) -> Shared<T> {
        self.staged.start.cast()
    }

    /// The load of the tile at (mn, k) of `matrix`, in elements; elements outside the tensor map's
    /// matrix become zeros.
    ///
    /// `multicast` is how the CTAs of a cluster share the load: see
    /// [`ClusterGrid`](crate::multicast::ClusterGrid).
    #[track_caller]
    pub fn load(
        &self,
        matrix: impl Into<MappedMatrix>,
        at: (Reg<u32>, Reg<u32>),
        multicast: Option<Multicast>,
    ) -> TileLoad {
        self.load_parts([(matrix.into(), at)], multicast)
    }

    /// The load of a [tile in parts](TmaTile::in_parts): part i is at the ith (mn, k) of the ith
    /// matrix. The matrices are of one tensor map.
    #[track_caller]
    pub fn load_parts(
        &self,
        parts: impl IntoIterator<Item = (MappedMatrix, (Reg<u32>, Reg<u32>))>,
        multicast: Option<Multicast>,
    ) -> TileLoad {
        let StagedTile { tile, start, .. } = self.staged;
        let mut placed = Vec::new();
        for (matrix, at) in parts {
            matrix.need(&tile);
            placed.push(TilePart { matrix, at: matrix.absolute(at) });
        }
        let (expected, given, extent) = (tile.parts(), placed.len(), tile.slice_extent());
        if expected as usize != given || !extent.is_multiple_of(expected) {
            refuse(format!(
                "a tile of {extent} rows has {expected} parts, and the load has the positions of {given}: pass a divisor of the rows to `TmaTile::in_parts`, and as many positions"
            ));
        }
        TileLoad { parts: placed, tile, start, multicast, policy: None, pipeline: self.pipeline }
    }
}

/// Tiles in shared memory that TMA stores to global memory: the buffers of an epilogue.
#[derive(Clone)]
pub struct StoreBuffers<T> {
    staged: StagedTile<T>,
}

impl<T: Element> StoreBuffers<T> {
    /// Dynamic shared memory for `count` tiles.
    #[track_caller]
    pub fn new(tile: Result<TmaTile, Error>, count: u32) -> Self {
        Self { staged: StagedTile::new(tile, count, None) }
    }

    /// The tiles as a tensor (mn, k, count).
    pub fn tensor(&self) -> &Tensor<T, SharedSpace> {
        &self.staged.tensor
    }

    /// Starts the store of tile `buffer` to (mn, k) of `matrix`; elements outside the tensor map's
    /// matrix are not written.
    ///
    /// One thread executes it, after the threads that wrote the tile have made it visible to the
    /// async proxy.
    #[track_caller]
    pub fn store(&self, matrix: impl Into<MappedMatrix>, at: (Reg<u32>, Reg<u32>), buffer: impl Value<u32>) {
        let matrix = matrix.into();
        let (mn, k) = matrix.absolute(at);
        let StagedTile { tile, start, .. } = self.staged;
        matrix.need(&tile);
        let stages = recorder::with(|recorder| recorder.stages_of(start.parts().0));
        if let (Operand::Integer(known), Some(stages)) = (buffer.operand(), stages)
            && !(0..stages.count.into()).contains(&known)
        {
            refuse(format!(
                "`store`: buffer {known} is out of range: the first of {} is buffer 0",
                stages.count
            ));
        }
        let source = start + buffer.reg() * tile.bytes();
        for origin in tile.boxes() {
            let (inner, outer) = match tile.major() {
                Major::K => (k, mn),
                Major::Mn => (mn, k),
            };
            let at = matrix.coordinates(inner + origin.inner, outer + origin.outer);
            tma::store(matrix.map, at, source.byte_offset(origin.bytes.into()));
        }
    }
}

/// Where a part of a tile is: its matrix, and its coordinate in the map's matrix.
#[derive(Clone, Copy)]
struct TilePart {
    matrix: MappedMatrix,
    at: (Reg<u32>, Reg<u32>),
}

/// The load of a tile into a stage of a [`Pipeline`](crate::pipeline::Pipeline).
#[derive(Clone)]
pub struct TileLoad {
    parts: Vec<TilePart>,
    tile: TmaTile,
    start: Shared<u8>,
    multicast: Option<Multicast>,
    policy: Option<Reg<u64>>,
    pipeline: PipelineId,
}

impl TileLoad {
    /// The load with an L2 cache policy.
    pub fn with_policy(self, policy: Reg<u64>) -> Self {
        Self { policy: Some(policy), ..self }
    }

    /// The pipeline of the operand.
    pub(crate) fn pipeline(&self) -> PipelineId {
        self.pipeline
    }

    /// Whether both loads fill the same memory.
    pub(crate) fn is_of_the_same_operand(&self, other: &Self) -> bool {
        self.start.parts() == other.start.parts()
    }

    /// The bytes that each receiving CTA's mbarrier counts, from all CTAs that load slices of the
    /// tile.
    pub(crate) fn copied_bytes(&self) -> u32 {
        self.tile.copied_bytes()
    }

    /// Starts this CTA's copies into a stage; they complete on `full`, in every CTA that receives
    /// them, or with a group of CTAs, in its first.
    #[track_caller]
    pub(crate) fn start(&self, stage: Reg<u32>, full: impl CompletionBarrier, group: Option<CtaGroup>) {
        let slices = self.tile.slices();
        let ctas = self.multicast.map_or(1, |multicast| multicast.ctas);
        if ctas != slices {
            refuse(format!(
                "the tile's slices are {slices}, and the CTAs that share its load are {ctas}: pass the number of CTAs to \
                 `TmaTile::sliced`"
            ));
        }
        if let Some(multicast) = self.multicast {
            let location = here();
            let of_part = |part: &TilePart| {
                let (mn, k) = part.at;
                [mn, k].into_iter().chain(part.matrix.indices.into_iter().flatten()).map(Reg::register)
            };
            let coordinates = self.parts.iter().flat_map(of_part).collect();
            let receivers = multicast.receivers.register();
            recorder::with(|recorder| recorder.note_shared_tile(coordinates, receivers, location));
        }
        let outer = self.tile.slice_extent();
        let row_bytes = self.tile.swizzle().span_bytes() as u32;
        let slice = self.multicast.map_or(constant(0u32), |multicast| multicast.slice);
        let target = self.start + stage * self.tile.bytes() + slice * (outer * row_bytes);
        let mut parts = Vec::new();
        for TilePart { matrix, at: (mn, k) } in &self.parts {
            parts.push(match self.tile.major() {
                Major::K => (matrix, *k, *mn + slice * outer),
                Major::Mn => (matrix, *mn, *k + slice * outer),
            });
        }
        for origin in self.tile.boxes() {
            let (part, outer) =
                (origin.outer / self.tile.part_extent(), origin.outer % self.tile.part_extent());
            // A load with the wrong number of parts was refused.
            let Some((matrix, inner_at, outer_at)) = parts.get(part as usize) else { return };
            let at = matrix.coordinates(*inner_at + origin.inner, *outer_at + outer);
            let mut load = tma::Load::new(matrix.map, at);
            if let Some(multicast) = self.multicast {
                load = load.multicast(multicast.receivers);
            }
            if let Some(group) = group {
                load = load.group(group);
            }
            if let Some(policy) = self.policy {
                load = load.with_policy(policy);
            }
            load.start(target.byte_offset(origin.bytes.into()), full);
        }
    }
}
