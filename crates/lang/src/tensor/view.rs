//! [`Tensor`]: memory read through a layout.

use std::rc::Rc;

use warpwright_ir::Operand;
use warpwright_layout::{
    ComposedLayout, Coordinate, Error, Int, IntTuple, Layout, Swizzle, TiledCopy, Tiler,
};

use super::address::{self, Addresses};
use super::agreement::{demand_stage, inside};
use super::legal::{legal, legal_in};
use crate::element::Element;
use crate::object;
use crate::operation::{here, refuse};
use crate::pointer::Pointer;
use crate::recorder::{self, View};
use crate::space::{SharedSpace, Space};
use crate::value::Reg;

impl<T: Element> From<Reg<T>> for Int {
    /// A device value as a leaf of layouts and coordinates.
    fn from(value: Reg<T>) -> Int {
        address::leaf(value, 1)
    }
}

/// A device value that is guaranteed to be a multiple of a number, as a leaf of layouts: for
/// example a leading dimension that keeps rows aligned.
///
/// The guarantee is not checked; the emulator reports the misaligned access that a wrong one
/// causes.
pub fn multiple_of<T: Element>(value: Reg<T>, factor: u32) -> Int {
    address::leaf(value, i64::from(factor))
}

/// The elements that a layout reaches, if they are known.
fn extent(layout: &ComposedLayout) -> Option<i64> {
    let reach = layout.inner().cosize().ok().and_then(|reach| reach.known());
    let first = layout.offset().linear().ok().and_then(Int::known);
    Some(reach? + first?)
}

/// Refuses a layout that reaches past the array that the pointer was allocated as.
#[track_caller]
fn demand_room<T: Element, S: Space>(pointer: Pointer<T, S>, extent: i64) {
    let (element_bytes, location) = (i64::from(T::BYTES), here());
    recorder::with(|recorder| recorder.check_reach(pointer.parts(), extent, element_bytes, location));
}

/// Whether memory is read or written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Direction {
    Read,
    Write,
}

/// Memory read through a layout.
pub struct Tensor<T, S: Space> {
    pub(super) pointer: Pointer<T, S>,
    pub(super) layout: ComposedLayout,
    pub(super) addresses: Rc<Addresses>,
    /// The elements that the tensor was made with, from the pointer on, if they are known.
    pub(super) extent: Option<i64>,
    /// The copy whose thread's part it is, if it is one.
    pub(super) part_of: Option<Rc<TiledCopy>>,
}

impl<T, S: Space> Clone for Tensor<T, S> {
    fn clone(&self) -> Self {
        Self {
            pointer: self.pointer,
            layout: self.layout.clone(),
            addresses: Rc::clone(&self.addresses),
            extent: self.extent,
            part_of: self.part_of.clone(),
        }
    }
}

impl<T: Element, S: Space> Tensor<T, S> {
    /// The memory at `pointer`, read through `layout`. Reports give its addresses as coordinates.
    #[track_caller]
    pub fn new(pointer: Pointer<T, S>, layout: impl Into<ComposedLayout>) -> Self {
        let layout = layout.into();
        let extent = extent(&layout);
        if let Some(extent) = extent {
            demand_room(pointer, extent);
        }
        object::tensor(pointer, &layout, false);
        Self { pointer, layout, addresses: Rc::new(Addresses::default()), extent, part_of: None }
    }

    /// The memory at `pointer`, read through a layout that may be an error, which is reported at
    /// the author's line.
    #[track_caller]
    pub fn with_layout(pointer: Pointer<T, S>, layout: Result<impl Into<ComposedLayout>, Error>) -> Self {
        Self::new(pointer, legal(layout.map(Into::into), || Layout::unit().into()))
    }

    /// The memory at `pointer`, read through a layout and then a swizzle.
    #[track_caller]
    pub fn swizzled(
        pointer: Pointer<T, S>,
        layout: Result<Layout, Error>,
        swizzle: Result<Swizzle, Error>,
    ) -> Self {
        let swizzle = legal(swizzle, || Swizzle::IDENTITY);
        Self::new(pointer, legal(layout, Layout::unit).swizzled(swizzle))
    }

    /// The layout, its offset included.
    pub fn layout(&self) -> &ComposedLayout {
        &self.layout
    }

    /// The same memory through another layout: for operations of the layout algebra that have no
    /// method here.
    #[track_caller]
    pub fn map(&self, f: impl FnOnce(&ComposedLayout) -> Result<ComposedLayout, Error>) -> Self {
        let layout = legal(f(&self.layout), || self.layout.clone());
        Self { layout, ..self.clone() }
    }

    /// The tile at `coordinate`, `All` keeping every tile along a mode: (tile.., kept modes..).
    #[track_caller]
    pub fn local_tile(&self, tiler: impl Into<Tiler>, coordinate: impl Into<Coordinate>) -> Self {
        let tile = self.layout.local_tile(tiler, &coordinate.into());
        let tile = legal_in("local_tile", tile, || self.layout.clone());
        self.map(|_| Ok(tile))
    }

    /// The modes where `coordinate` is `All`, at the position that it gives elsewhere.
    #[track_caller]
    pub fn slice(&self, coordinate: impl Into<Coordinate>) -> Self {
        let coordinate = inside("slice", coordinate.into(), &self.layout);
        demand_stage("slice", &coordinate, &self.layout, self.pointer.parts().0);
        self.map(|layout| layout.slice(&coordinate))
    }

    /// Notes that the memory is read or written through this tensor's swizzle.
    #[track_caller]
    pub(super) fn note_view(&self, direction: Direction) {
        self.note_view_by(direction, false);
    }

    /// Notes that the hardware reads the memory through this tensor's swizzle, which it applies to
    /// addresses.
    #[track_caller]
    pub(super) fn note_descriptor(&self) {
        self.note_view_by(Direction::Read, true);
    }

    #[track_caller]
    fn note_view_by(&self, direction: Direction, by_address: bool) {
        let Some(swizzle) = self.layout.swizzle().filter(|_| S::NAME == SharedSpace::NAME) else { return };
        let (width, location) = (i64::from(T::BYTES), here());
        let (base, first) = self.pointer.parts();
        let view = View {
            bytes: self.extent.map(|extent| first..first + extent * width),
            swizzle: legal(swizzle.downcast(width), || Swizzle::IDENTITY),
            by_address,
            is_write: direction == Direction::Write,
        };
        recorder::with(|recorder| recorder.note_view(base, view, location));
    }

    /// The memory operand of the element that `operation` accesses: one of the layout's.
    #[track_caller]
    pub(super) fn element(&self, operation: &str, direction: Direction, coordinate: &IntTuple) -> Operand {
        self.note_view(direction);
        let coordinate = Coordinate::from(coordinate);
        demand_stage(operation, &coordinate, &self.layout, self.pointer.parts().0);
        self.address(&inside(operation, coordinate, &self.layout).origin())
    }

    /// The memory operand of the element at `coordinate`.
    #[track_caller]
    pub(crate) fn address(&self, coordinate: &IntTuple) -> Operand {
        let offset = legal(self.layout.inner_offset(coordinate), || 0.into());
        let offset = legal(offset.linear().cloned(), || Int::ZERO);
        let swizzle = self.layout.swizzle();
        if swizzle.is_none() {
            refuse(format!(
                "the layout {} does not give an address: use a layout, or a layout and one swizzle",
                self.layout
            ));
        }
        self.addresses.of(self.pointer, &offset, swizzle.unwrap_or(Swizzle::IDENTITY))
    }
}
