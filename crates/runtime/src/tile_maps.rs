//! The tensor maps of a kernel's operand, encoded once per buffer.

use std::marker::PhantomData;
use std::sync::{Arc, Mutex, PoisonError};

use rustc_hash::FxHashMap;
use warpwright_arch::tensor_map::{Access, Description};
use warpwright_lang::tensor::TmaTile;
use warpwright_lang::tensor_map_boxes::element_format;

use crate::buffer::Storable;
use crate::error::Result;
use crate::tensor_map::{Encoding, MappedBuffer, TensorMap, matrix_by_tiles};

/// Number of cached maps, several hundred bytes each: enough for the layers of a large model.
const MOST: usize = 4096;

/// The tensor maps of matrices (mn, k) that differ only in their address, whose boxes a kernel
/// loads or stores as one tile.
///
/// Describing, checking and encoding three maps takes the host longer than a launch, so maps are
/// cached by address. The cache does not keep the buffer alive: a new buffer at the same address
/// has the same map.
///
/// ```
/// use warpwright_lang::tensor::TmaTile;
/// use warpwright_layout::atom::Major;
/// use warpwright_runtime::{Device, TileMaps};
///
/// let device = Device::named("emu:h200")?;
/// let maps = TileMaps::<f32>::new((256, 512), &TmaTile::new::<f32>((64, 32), Major::K)?)?;
/// let matrix = device.zeros::<f32>(256 * 512)?;
/// assert_eq!(maps.of(&matrix)?.description().extents, [512, 256]);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct TileMaps<T> {
    /// The maps of matrices at the start of a buffer.
    description: Description,
    format: Option<&'static str>,
    /// By address and size of the buffer.
    known: Mutex<FxHashMap<(u64, usize), Arc<Encoding>>>,
    element: PhantomData<fn(T)>,
}

impl<T: Storable> TileMaps<T> {
    /// Maps of packed matrices (mn, k). The tile's major mode is contiguous.
    ///
    /// # Errors
    /// Tensor maps do not support the element type.
    pub fn new(matrix: (u64, u64), tile: &TmaTile) -> Result<Self> {
        Ok(Self::of_description(matrix_by_tiles::<T>(matrix, tile)?))
    }

    /// Maps of `count` times as many matrices, `stride` elements apart: they have one more axis.
    #[must_use]
    pub fn batched(mut self, count: u64, stride: u64) -> Self {
        let stride = self.elements_in_bytes(stride);
        let description = &mut self.description;
        description.extents.push(count);
        description.strides.push(stride);
        description.element_strides.push(1);
        if let Access::Tiled { box_extents } = &mut description.access {
            box_extents.push(1);
        }
        self
    }

    /// The same for matrices that begin at element `first` of their buffer.
    #[must_use]
    pub fn starting_at(mut self, first: u64) -> Self {
        self.description.address = self.elements_in_bytes(first);
        self
    }

    fn of_description(description: Description) -> Self {
        Self { description, format: element_format::<T>(), known: Mutex::default(), element: PhantomData }
    }

    /// Sets the pitch: the distance, in elements, between runs along the contiguous mode.
    #[must_use]
    pub fn pitched(mut self, pitch: u64) -> Self {
        self.description.strides[0] = self.elements_in_bytes(pitch);
        self
    }

    /// Bytes of that many elements in global memory.
    fn elements_in_bytes(&self, count: u64) -> u64 {
        count.saturating_mul(u64::from(self.description.element.bits())) / 8
    }

    /// The same maps, for buffers that are passed as bytes: [`Buffer::cast`](crate::Buffer::cast).
    #[must_use]
    pub fn bytes(self) -> TileMaps<u8> {
        TileMaps {
            description: self.description,
            format: self.format,
            known: self.known,
            element: PhantomData,
        }
    }

    /// The map of a buffer.
    ///
    /// # Errors
    /// As [`TensorMap::new`].
    pub fn of(&self, buffer: impl MappedBuffer<T>) -> Result<TensorMap> {
        let key = (buffer.mapped().allocation.address(), buffer.mapped().bytes());
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(encoding) = known.get(&key) {
            return Ok(TensorMap::encoded_as(encoding.clone(), buffer));
        }
        let map = TensorMap::of_format(buffer, self.description.clone(), self.format)?;
        if known.len() == MOST {
            known.clear();
        }
        known.insert(key, map.encoding().clone());
        Ok(map)
    }
}

#[cfg(test)]
mod tests {
    use warpwright_layout::atom::Major;

    use super::*;
    use crate::device::Device;

    #[test]
    fn a_map_is_encoded_once_for_each_buffer() {
        let device = Device::named("emu:h200").unwrap();
        let tile = TmaTile::new::<f32>((8, 32), Major::K).unwrap();
        let maps = TileMaps::<f32>::new((8, 60), &tile).unwrap().pitched(64);
        let [one, other] = [0, 1].map(|_| device.zeros::<f32>(8 * 64).unwrap());
        let first = maps.of(&one).unwrap();
        assert_eq!(
            (&*first.description().extents, &*first.description().strides),
            (&[60, 8][..], &[256][..])
        );
        assert!(std::ptr::eq(first.as_bytes(), maps.of(&one).unwrap().as_bytes()));
        assert_ne!(first.as_bytes(), maps.of(&other).unwrap().as_bytes());
        let fresh = TensorMap::new(&other, maps.description.clone()).unwrap();
        assert_eq!(fresh.as_bytes(), maps.of(&other).unwrap().as_bytes());
    }

    /// A cached map keeps no buffer alive, and a shorter buffer at the same address is refused.
    #[test]
    fn a_buffer_at_the_address_of_another_is_checked() {
        let device = Device::named("emu:h200").unwrap();
        let tile = TmaTile::new::<f32>((8, 32), Major::K).unwrap();
        let maps = TileMaps::<f32>::new((8, 64), &tile).unwrap();
        for length in [8 * 64, 8 * 64 - 1, 8 * 64] {
            let buffer = device.zeros::<f32>(length).unwrap();
            assert_eq!(maps.of(&buffer).is_ok(), length == 8 * 64);
        }
    }
}
