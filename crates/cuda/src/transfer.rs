//! Copies and fills: rows of bytes between places.

use std::ptr::NonNull;
use std::sync::Arc;

use warpwright_runtime::{RawDevice, RawStream};

use crate::space::{self, Place};
use crate::status::{Result, Status};

/// Rows and slices of bytes. One row of one slice is a plain copy.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Shape {
    /// Bytes of a row.
    pub(crate) width: u64,
    /// Rows of a slice.
    pub(crate) height: u64,
    /// Slices.
    pub(crate) depth: u64,
}

impl Shape {
    /// Bytes without gaps.
    pub(crate) fn plain(bytes: usize) -> Self {
        Self { width: bytes as u64, height: 1, depth: 1 }
    }
}

/// One side of a copy: where its first byte is, and how far rows and slices are apart.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Side {
    pub(crate) start: u64,
    pub(crate) pitch: u64,
    pub(crate) slice: u64,
}

impl Side {
    /// Bytes without gaps.
    pub(crate) fn plain(start: u64) -> Self {
        Self { start, pitch: 0, slice: 0 }
    }

    /// The bytes from the first to the last.
    fn span(&self, shape: &Shape) -> Option<u64> {
        let rows = shape.height.checked_sub(1)?.checked_mul(self.pitch)?;
        let slices = shape.depth.checked_sub(1)?.checked_mul(self.slice)?;
        slices.checked_add(rows)?.checked_add(shape.width)
    }

    fn place(&self, shape: &Shape) -> Result<Place> {
        Place::of(self.start, self.span(shape).ok_or(Status::INVALID_VALUE)?)
    }
}

/// A copy whose places are known.
#[derive(Clone, Debug)]
pub(crate) struct Copy {
    to: (Place, Side),
    from: (Place, Side),
    shape: Shape,
    /// The bytes of the source, kept because the program may change them; they replace `from`.
    kept: Option<Arc<[u8]>>,
}

/// What the call says of a side.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    Any,
    Host,
    Device,
}

/// The copy between two sides; `None` if it has no bytes.
pub(crate) fn prepare(
    (to, to_is): (Side, Expected),
    (from, from_is): (Side, Expected),
    shape: Shape,
) -> Result<Option<Copy>> {
    if shape.width == 0 || shape.height == 0 || shape.depth == 0 {
        return Ok(None);
    }
    if shape.height > 1 && (to.pitch < shape.width || from.pitch < shape.width) {
        return Err(Status::INVALID_PITCH);
    }
    let placed = |side: Side, is: Expected| {
        // Memory of the host is where the call says, whether the device knows it or not.
        let place = match is {
            Expected::Host if space::find(side.start).is_none() => Place::Pageable(side.start),
            _ => side.place(&shape)?,
        };
        let is_refused = side.start == 0 || (is == Expected::Device && place.is_pageable());
        if is_refused { Err(Status::INVALID_VALUE) } else { Ok((place, side)) }
    };
    Ok(Some(Copy { to: placed(to, to_is)?, from: placed(from, from_is)?, shape, kept: None }))
}

impl Copy {
    /// Each row: its offset in the kept bytes, and its places.
    fn rows(&self) -> impl Iterator<Item = (u64, Place, Place)> + '_ {
        let Shape { width, height, depth } = self.shape;
        (0..depth).flat_map(move |z| (0..height).map(move |y| (z, y))).map(move |(z, y)| {
            let at = |(place, side): &(Place, Side)| place.after(z * side.slice + y * side.pitch);
            ((z * height + y) * width, at(&self.to), at(&self.from))
        })
    }

    /// Whether the host has its target, or its source, where the device does not access it.
    pub(crate) fn is_pageable(&self) -> (bool, bool) {
        (self.to.0.is_pageable(), self.from.0.is_pageable())
    }

    /// Keeps the bytes of the source, which the program may change.
    pub(crate) fn keep(&mut self) -> Result<()> {
        let Shape { width, height, depth } = self.shape;
        let mut kept = Vec::with_capacity((width * height * depth) as usize);
        for (_, _, from) in self.rows() {
            let Place::Pageable(address) = from else { return Ok(()) };
            kept.extend(crate::edge::In::<u8>::at_address(address as usize).bytes(width as usize)?);
        }
        self.kept = Some(kept.into());
        Ok(())
    }

    /// Copies.
    pub(crate) fn run(&self, raw: &RawDevice, stream: RawStream) -> warpwright_runtime::Result<()> {
        let plain = |side: &Side| self.shape.height == 1 || side.pitch == self.shape.width;
        if self.shape.depth == 1 && plain(&self.to.1) && plain(&self.from.1) {
            return self.row(raw, stream, (0, self.to.0, self.from.0), self.shape.width * self.shape.height);
        }
        self.rows().try_for_each(|row| self.row(raw, stream, row, self.shape.width))
    }

    fn row(
        &self,
        raw: &RawDevice,
        stream: RawStream,
        (offset, to, from): (u64, Place, Place),
        bytes: u64,
    ) -> warpwright_runtime::Result<()> {
        let kept = self.kept.as_ref().map(|kept| NonNull::from(&kept[offset as usize]));
        match (to, from) {
            (Place::Device(to), Place::Device(from)) => raw.copy(stream, to, from, bytes),
            (Place::Device(to), Place::Pageable(from)) => match kept.or(space::pointer(from)) {
                // SAFETY: the bytes are kept, or the call waits and the program has them, by the contract of the API.
                Some(from) => unsafe { raw.write(stream, to, from, bytes) },
                None => Ok(()),
            },
            (Place::Pageable(to), Place::Device(from)) => match space::pointer(to) {
                // SAFETY: the call waits, and the program has the bytes there, by the contract of the API.
                Some(to) => unsafe { raw.read(stream, to, from, bytes) },
                None => Ok(()),
            },
            (Place::Pageable(to), Place::Pageable(from)) => {
                if let (Some(to), Some(from)) = (space::pointer(to), kept.or(space::pointer(from))) {
                    // SAFETY: both ranges are the program's, by the contract of the API; they may overlap.
                    unsafe { std::ptr::copy(from.as_ptr(), to.as_ptr(), bytes as usize) };
                }
                Ok(())
            }
        }
    }
}

/// A fill of rows with an element of 1, 2 or 4 bytes.
#[derive(Clone, Debug)]
pub(crate) struct Fill {
    side: Side,
    shape: Shape,
    element: Vec<u8>,
}

impl Fill {
    /// A fill of rows; `None` if it has no bytes. `width` counts elements.
    pub(crate) fn new(side: Side, (width, height): (u64, u64), element: &[u8]) -> Result<Option<Self>> {
        let width = width.checked_mul(element.len() as u64).ok_or(Status::INVALID_VALUE)?;
        if width == 0 || height == 0 {
            return Ok(None);
        }
        let shape = Shape { width, height, depth: 1 };
        let is_aligned = side.start.is_multiple_of(element.len() as u64);
        if !is_aligned || (height > 1 && side.pitch < width) || side.place(&shape)?.is_pageable() {
            return Err(Status::INVALID_VALUE);
        }
        Ok(Some(Self { side, shape, element: element.to_vec() }))
    }
}

impl Fill {
    /// Fills.
    pub(crate) fn run(&self, raw: &RawDevice, stream: RawStream) -> warpwright_runtime::Result<()> {
        let Shape { width, height, .. } = self.shape;
        let (width, height) = if self.side.pitch == width { (width * height, 1) } else { (width, height) };
        let is_uniform = self.element.iter().all(|byte| *byte == self.element[0]);
        let row =
            if is_uniform { Vec::new() } else { self.element.repeat(width as usize / self.element.len()) };
        (0..height).try_for_each(|y| {
            let to = self.side.start + y * self.side.pitch;
            match row.first() {
                None => raw.fill(stream, to, self.element[0], width),
                // SAFETY: the row is alive and unwritten during the call, which completes the copy on the emulator.
                Some(first) => unsafe { raw.write(stream, to, NonNull::from(first), width) },
            }
        })
    }
}
