//! Tensor maps: descriptors of a tensor in a buffer for TMA copies.

use std::sync::{Arc, LazyLock, Mutex, PoisonError};

use rustc_hash::FxHashMap;
use warpwright_arch::tensor_map::{
    Access, Description, ElementType, L2Promotion, Requirement, Swizzle, TENSOR_MAP_BYTES,
};
use warpwright_lang::element::Element;
use warpwright_lang::tensor::TmaTile;
use warpwright_lang::tensor_map_boxes::{self, element_format, is_of_bytes, map_swizzle};
use warpwright_layout::atom::{Major, TmaBox};
use warpwright_layout::{ComposedLayout, Layout};

use crate::allocation::Allocation;
use crate::buffer::{Buffer, Storable};
use crate::error::{Error, Result};

/// A tensor in a buffer and the box of one TMA copy, encoded for the buffer's device.
///
/// Pass it to a kernel by reference, for a by-value parameter of 128 bytes aligned to 64, or put
/// its [bytes](Self::as_bytes) into device memory for a kernel that takes its address. It keeps the
/// buffer alive.
///
/// ```
/// use warpwright_arch::tensor_map::Swizzle;
/// use warpwright_runtime::{Device, TensorMap};
///
/// # let device = Device::named("emu:h200")?;
/// let matrix = device.buffer_from(&vec![1.0f32; 256 * 512])?;
/// // 64 rows of 32 elements at a time, of a matrix of 256 rows.
/// let map = TensorMap::row_major(&matrix, &[256, 512], &[64, 32], Swizzle::Bytes128)?;
/// assert_eq!(map.description().transaction_bytes(), 64 * 32 * 4);
///
/// let refused = TensorMap::row_major(&matrix, &[256, 512], &[64, 64], Swizzle::Bytes128).unwrap_err();
/// assert!(refused.to_string().contains("holds rows of at most 128 bytes"));
/// # Ok::<(), warpwright_runtime::Error>(())
/// ```
///
/// A kernel may write through a map that was made from a `&mut Buffer`. After a failed launch the buffer
/// is then half-written, as one that was passed itself.
#[derive(Clone)]
pub struct TensorMap {
    encoding: Arc<Encoding>,
    allocation: Arc<Allocation>,
    is_writable: bool,
}

/// The buffer of a tensor map: `&Buffer` for a map that kernels only read through, `&mut Buffer` for one
/// that they may write through.
pub trait MappedBuffer<T> {
    /// Whether kernels may write to it.
    const IS_WRITABLE: bool;

    /// The buffer.
    fn mapped(&self) -> &Buffer<T>;
}

impl<T> MappedBuffer<T> for &Buffer<T> {
    const IS_WRITABLE: bool = false;

    fn mapped(&self) -> &Buffer<T> {
        self
    }
}

impl<T> MappedBuffer<T> for &mut Buffer<T> {
    const IS_WRITABLE: bool = true;

    fn mapped(&self) -> &Buffer<T> {
        self
    }
}

/// A tensor map as plain data, and its encoding for the device.
pub(crate) struct Encoding {
    bytes: [u8; TENSOR_MAP_BYTES],
    description: Description,
    boxes: Requirement,
    number: BoxesNumber,
}

impl Encoding {
    pub(crate) fn description(&self) -> &Description {
        &self.description
    }

    /// What copies may need of the map.
    pub(crate) fn boxes(&self) -> &Requirement {
        &self.boxes
    }

    /// The number of these boxes.
    pub(crate) fn number(&self) -> BoxesNumber {
        self.number
    }
}

/// A number for all equal requirements of the process: a launch compares it in place of the lists
/// of extents, which would take a hundredth of its time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct BoxesNumber(u32);

impl BoxesNumber {
    pub(crate) fn of(boxes: &Requirement) -> Self {
        static KNOWN: LazyLock<Mutex<FxHashMap<Requirement, u32>>> = LazyLock::new(Mutex::default);
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let next = known.len() as u32;
        Self(*known.entry(boxes.clone()).or_insert(next))
    }
}

impl TensorMap {
    /// Encodes a description whose address is an offset from the start of the buffer.
    ///
    /// # Errors
    /// A rule is broken, the tensor extends past the buffer, or the device has no tensor maps.
    pub fn new<T: Storable>(buffer: impl MappedBuffer<T>, description: Description) -> Result<Self> {
        Self::of_format(buffer, description, element_format::<T>())
    }

    /// The same, with elements of that name among those that share the type `u8`.
    pub(crate) fn of_format<T: Storable, B: MappedBuffer<T>>(
        buffer: B,
        mut description: Description,
        format: Option<&'static str>,
    ) -> Result<Self> {
        let buffer = buffer.mapped();
        let allocation = buffer.allocation.clone();
        let offset = description.address;
        description.address = allocation.address().saturating_add(offset);
        description.check()?;
        description.check_on(allocation.backend().properties.capability)?;
        let end = offset.saturating_add(tensor_bytes(&description));
        if end > buffer.bytes() as u64 {
            return Err(Error::TensorOutside { bytes: end, buffer_bytes: buffer.bytes() as u64 });
        }
        let bytes = allocation.backend().memory.encode_tensor_map(&description)?;
        let format = format.filter(|_| description.element == ElementType::U8);
        let boxes = Requirement::of(&description).named(format);
        let number = BoxesNumber::of(&boxes);
        let encoding = Arc::new(Encoding { bytes, description, boxes, number });
        Ok(Self { encoding, allocation, is_writable: B::IS_WRITABLE })
    }

    /// Boxes of a packed row-major tensor. Shapes are given outermost axis first: (rows, columns).
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn row_major<T: Storable>(
        buffer: impl MappedBuffer<T>,
        extents: &[u64],
        box_extents: &[u32],
        swizzle: Swizzle,
    ) -> Result<Self> {
        let element = element_type::<T>()?;
        Self::new(buffer, Description { swizzle, ..Description::row_major(element, 0, extents, box_extents) })
    }

    /// A packed row-major tensor, with the boxes that copies need. Extents are given outermost axis
    /// first.
    ///
    /// # Errors
    /// The buffer has elements of another type, or as [`new`](Self::new).
    pub(crate) fn of_boxes<T: Storable>(
        buffer: impl MappedBuffer<T>,
        extents: &[u64],
        boxes: &Requirement,
    ) -> Result<Self> {
        let boxes = Requirement { element: accepted::<T>(boxes)?, ..boxes.clone() };
        Self::new(buffer, boxes.row_major(0, extents))
    }

    /// The map of a packed matrix (mn, k) whose boxes a kernel loads or stores as `tile`. The
    /// tile's major mode is contiguous.
    ///
    /// # Errors
    /// As [`new`](Self::new).
    pub fn of_tile<T: Storable>(
        buffer: impl MappedBuffer<T>,
        (mn, k): (u64, u64),
        tile: &TmaTile,
    ) -> Result<Self> {
        Self::new(buffer, matrix_by_tiles::<T>((mn, k), tile)?)
    }

    /// The map of `count` packed matrices (mn, k), `stride` elements apart, whose boxes a kernel
    /// loads or stores as `tile`. The third axis is the index of the matrix.
    ///
    /// ```
    /// use warpwright_lang::tensor::TmaTile;
    /// use warpwright_layout::atom::Major;
    /// use warpwright_runtime::{Device, TensorMap};
    ///
    /// # let device = Device::named("emu:h200")?;
    /// // 3 matrices of 64 rows of 32, with 64 elements between them.
    /// let matrices = device.buffer_from(&vec![1.0f32; 3 * 64 * 32 + 2 * 64])?;
    /// let tile = TmaTile::new::<f32>((16, 32), Major::K)?;
    /// let map = TensorMap::of_tiles(&matrices, (64, 32), (3, 64 * 32 + 64), &tile)?;
    /// assert_eq!(map.description().extents, [32, 64, 3]);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`new`](Self::new); for instance, the stride is not a multiple of 16 bytes.
    pub fn of_tiles<T: Storable>(
        buffer: impl MappedBuffer<T>,
        matrix: (u64, u64),
        (count, stride): (u64, u64),
        tile: &TmaTile,
    ) -> Result<Self> {
        Self::new(buffer, matrices_by_tiles::<T>(matrix, (count, stride), tile)?)
    }

    /// An already encoded map, for a buffer at the same address.
    pub(crate) fn encoded_as<T, B: MappedBuffer<T>>(encoding: Arc<Encoding>, buffer: B) -> Self {
        let allocation = buffer.mapped().allocation.clone();
        Self { encoding, allocation, is_writable: B::IS_WRITABLE }
    }

    /// The map whose copies fill `tile` in shared memory from a tensor. Box, axes and swizzle come
    /// from the tile, extents and strides from the tensor. The modes of the two correspond. A tile
    /// of more than one box takes several copies ([`TmaBox::boxes`]).
    ///
    /// # Errors
    /// No box fills the tile, a mode of the tensor has several strides or is dynamic, or as
    /// [`new`](Self::new).
    pub fn of_layout<T: Storable>(
        buffer: impl MappedBuffer<T>,
        tensor: &Layout,
        tile: &ComposedLayout,
    ) -> Result<Self> {
        let element = element_type::<T>()?;
        let bulk = TmaBox::of_tile(tile, i64::from(element.bits()))?;
        // The axes of the box come first, in its order, then the other axes of the tensor, along
        // which the box has extent 1.
        let others = (0..tensor.rank()).filter(|mode| !bulk.modes.contains(mode));
        let modes: Vec<usize> = bulk.modes.iter().copied().chain(others).collect();
        let mut description = Description::row_major(element, 0, &[], &[]);
        let mut box_extents = Vec::new();
        for (axis, &mode) in modes.iter().enumerate() {
            let run = tensor.mode(mode)?.coalesce()?;
            let extent = run.known_size("a tensor map")?;
            if run.depth() > 0 {
                let legal = "one extent and one stride: split it into a mode per stride";
                return Err(bad_mode(&run, legal));
            }
            let stride = if extent > 1 { run.at(1)? } else { 1 };
            if axis == 0 && stride != 1 {
                let legal = "contiguous, because it is innermost in the tile";
                return Err(bad_mode(&run, legal));
            }
            description.extents.push(extent as u64);
            if axis > 0 {
                let bytes = stride * i64::from(element.bits()) / 8;
                description.strides.push(if extent > 1 { bytes as u64 } else { 16 });
            }
            box_extents.push(bulk.extents.get(axis).map_or(1, |&extent| extent as u32));
        }
        description.element_strides = vec![1; modes.len()];
        description.access = Access::Tiled { box_extents };
        description.swizzle = map_swizzle(bulk.swizzle);
        description.l2_promotion = L2Promotion::Bytes128;
        Self::new(buffer, description)
    }

    /// The description. Its address is the device address of the tensor.
    pub fn description(&self) -> &Description {
        &self.encoding.description
    }

    /// The encoded map, for a copy in device memory. The copy must be aligned to 64 bytes, as the
    /// start of every buffer is.
    pub fn as_bytes(&self) -> &[u8; TENSOR_MAP_BYTES] {
        &self.encoding.bytes
    }

    /// Whether kernels may write through it: it was made from a `&mut Buffer`.
    pub fn is_writable(&self) -> bool {
        self.is_writable
    }

    pub(crate) fn encoding(&self) -> &Arc<Encoding> {
        &self.encoding
    }

    pub(crate) fn allocation(&self) -> &Arc<Allocation> {
        &self.allocation
    }
}

impl std::fmt::Debug for TensorMap {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_tuple("TensorMap").field(&self.encoding.description).finish()
    }
}

/// A packed matrix (mn, k), in boxes of a tile.
pub(crate) fn matrix_by_tiles<T: Element>((mn, k): (u64, u64), tile: &TmaTile) -> Result<Description> {
    let element = accepted::<T>(&tile.requirement())?;
    Ok(Requirement { element, ..tile.requirement() }.row_major(0, &rows_and_columns((mn, k), tile)))
}

/// `count` packed matrices (mn, k), `stride` elements apart, in boxes of a tile of one matrix.
pub(crate) fn matrices_by_tiles<T: Element>(
    matrix: (u64, u64),
    (count, stride): (u64, u64),
    tile: &TmaTile,
) -> Result<Description> {
    let element = accepted::<T>(&tile.requirement())?;
    let [rows, columns] = rows_and_columns(matrix, tile);
    let boxes = Requirement { element, ..tile.requirement() }.of_rank(3);
    let mut description = boxes.row_major(0, &[count, rows, columns]);
    description.strides[1] = stride.saturating_mul(u64::from(element.bits())) / 8;
    Ok(description)
}

/// Rows and columns of a matrix (mn, k) in memory order.
fn rows_and_columns((mn, k): (u64, u64), tile: &TmaTile) -> [u64; 2] {
    match tile.major() {
        Major::K => [mn, k],
        Major::Mn => [k, mn],
    }
}

/// The tensor-map type of a buffer's elements, for copies that need `boxes`.
fn accepted<T: Element>(boxes: &Requirement) -> Result<ElementType> {
    let element = element_type::<T>()?;
    if is_of_bytes(boxes.element, element) {
        return Ok(boxes.element);
    }
    let given = Requirement { element, ..boxes.clone() }.named(element_format::<T>());
    match boxes.accepts(&given) {
        true => Ok(element),
        false => {
            let tile = boxes.format.unwrap_or(boxes.element.name());
            Err(Error::TileElement { tile, buffer: T::NAME })
        }
    }
}

fn bad_mode(mode: &Layout, legal: &str) -> Error {
    let (what, given) = ("a mode of a tensor map", mode.to_string());
    warpwright_layout::Error::BadArgument { what, given, legal: legal.to_owned() }.into()
}

/// Bytes from the tensor's first element to the end of its last.
fn tensor_bytes(map: &Description) -> u64 {
    let row = map.extents[0].saturating_mul(u64::from(map.step_bits())).div_ceil(8);
    let outer = map.extents.iter().skip(1).zip(&map.strides);
    outer.fold(row, |bytes, (&extent, &stride)| bytes.saturating_add((extent - 1).saturating_mul(stride)))
}

/// The tensor-map type of a buffer's elements.
fn element_type<T: Element>() -> Result<ElementType> {
    tensor_map_boxes::element_type::<T>().ok_or(Error::NoTensorElement { element: T::NAME })
}
