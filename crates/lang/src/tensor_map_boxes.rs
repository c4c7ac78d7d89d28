//! What the copies of a kernel need of its tensor maps. It becomes part of the kernel's
//! description, and a launch compares it with the maps passed.

use warpwright_arch::tensor_map::{Access, ElementType, Interleave, MOST_AXES, Requirement, Swizzle};
use warpwright_ir::{ParameterType, TensorMapNeeds};
use warpwright_layout::Error;
use warpwright_layout::atom::SharedSwizzle;

use crate::element::{Element, Kind};
use crate::operation::here;
use crate::recorder::{self, CopyAccess, Recorder, TensorMapOrigin};
use crate::tensor_map::TensorMap;
use crate::value::Reg;

/// What copies need of a tensor map: a [`Requirement`], or the tile that they fill.
pub trait Boxes {
    /// The requirement.
    ///
    /// # Errors
    /// The tile is illegal.
    fn requirement(&self) -> Result<Requirement, Error>;
}

impl Boxes for Requirement {
    fn requirement(&self) -> Result<Requirement, Error> {
        Ok(self.clone())
    }
}

impl<B: Boxes> Boxes for Result<B, Error> {
    fn requirement(&self) -> Result<Requirement, Error> {
        self.as_ref().map_err(Clone::clone)?.requirement()
    }
}

/// The tensor-map type of elements `T`, if there is one.
pub fn element_type<T: Element>() -> Option<ElementType> {
    match (T::NAME, T::KIND, T::BYTES) {
        ("tf32", ..) => Some(ElementType::Tf32),
        ("bf16", ..) => Some(ElementType::Bf16),
        (_, Kind::Float, 2) => Some(ElementType::F16),
        (_, Kind::Float, 4) => Some(ElementType::F32),
        (_, Kind::Float, 8) => Some(ElementType::F64),
        (_, Kind::Signed, 4) => Some(ElementType::S32),
        (_, Kind::Signed, 8) => Some(ElementType::S64),
        (_, _, 1) => Some(ElementType::U8),
        (_, _, 2) => Some(ElementType::U16),
        (_, _, 4) => Some(ElementType::U32),
        (_, _, 8) => Some(ElementType::U64),
        _ => None,
    }
}

/// Whether a buffer, or shared memory, of `given` holds elements of type `element` as bytes: those
/// that TMA unpacks.
pub fn is_of_bytes(element: ElementType, given: ElementType) -> bool {
    element.is_padded() && given == ElementType::U8
}

/// The name of elements `T` if they share the tensor-map type `u8` with others; bytes may be any.
pub fn element_format<T: Element>() -> Option<&'static str> {
    (element_type::<T>() == Some(ElementType::U8) && T::NAME != "u8").then_some(T::NAME)
}

/// The swizzle of a tensor map whose copies have this one in shared memory.
pub fn map_swizzle(swizzle: SharedSwizzle) -> Swizzle {
    match swizzle {
        SharedSwizzle::None => Swizzle::None,
        SharedSwizzle::Bytes32 => Swizzle::Bytes32,
        SharedSwizzle::Bytes64 => Swizzle::Bytes64,
        SharedSwizzle::Bytes128 => Swizzle::Bytes128,
    }
}

/// The swizzle that copies of these boxes apply to byte addresses; `None` for the modes that layouts
/// do not have.
pub(crate) fn swizzle_of_bytes(boxes: &Requirement) -> Option<warpwright_layout::Swizzle> {
    let shared = SharedSwizzle::ALL.into_iter().find(|shared| map_swizzle(*shared) == boxes.swizzle);
    shared.filter(|_| boxes.interleave == Interleave::None).map(SharedSwizzle::on_bytes)
}

/// The address of a tensor map of that origin.
#[track_caller]
pub(crate) fn remembered(address: Reg<u64>, origin: TensorMapOrigin) -> Reg<u64> {
    recorder::with(|recorder| recorder.remember_tensor_map(address.register(), origin));
    address
}

/// The address of a map of an array that begins with the map at `first`; `None` if the device
/// selects it.
#[track_caller]
pub(crate) fn one_of(first: Reg<u64>, address: Reg<u64>, which: Option<usize>) -> Reg<u64> {
    recorder::with(|recorder| {
        let Some(TensorMapOrigin::Parameter { index, .. }) = recorder.tensor_map_in(first.register()) else {
            return;
        };
        let index = *index;
        let count = needs_of(recorder, index).len();
        let maps = which.map_or(0..count, |which| which.min(count - 1)..which.min(count - 1) + 1);
        recorder.remember_tensor_map(address.register(), TensorMapOrigin::Parameter { index, maps });
    });
    address
}

/// States that copies need `boxes` of a map.
#[track_caller]
pub(crate) fn need(map: TensorMap, boxes: &Requirement) {
    let location = here();
    for_each(map, &mut |recorder, name, needs| match &needs.boxes {
        None => needs.boxes = Some((boxes.clone(), location)),
        Some((known, there)) => {
            let Some(difference) = known.difference(boxes) else { return };
            let (property, needed, first) = (difference.property, difference.given, difference.required);
            recorder.error_with_notes(
                location,
                format!(
                    "two copies by tensor map `{name}` differ in the {property}: this one needs {needed}, and the \
                     other {first}; take a tensor map for each"
                ),
                vec![(*there, format!("the other needs {first}"))],
            );
        }
    });
}

/// Whether a kernel may write through a tensor map, as far as is known where it comes from.
#[track_caller]
pub(crate) fn is_writable(map: TensorMap) -> bool {
    let register = map.address().register();
    recorder::with(|recorder| match recorder.tensor_map_in(register).cloned() {
        None => true,
        Some(TensorMapOrigin::Untyped { writable }) => writable,
        Some(TensorMapOrigin::Parameter { index, .. }) => {
            matches!(recorder.kernel().parameters[index].ty, ParameterType::TensorMaps { writable: true, .. })
        }
    })
}

/// Refuses a write through a tensor map that the kernel may only read, and notes it for the launch.
#[track_caller]
pub(crate) fn demand_writable(map: TensorMap) {
    let (location, register) = (here(), map.address().register());
    recorder::with(|recorder| {
        let (what, written) = match recorder.tensor_map_in(register).cloned() {
            None | Some(TensorMapOrigin::Untyped { writable: true }) => return,
            Some(TensorMapOrigin::Untyped { writable: false }) => {
                ("a read-only tensor map".to_owned(), "`&mut UntypedTensorMap`, or `&mut TensorMap`,")
            }
            Some(TensorMapOrigin::Parameter { index, maps }) => {
                let parameter = &mut recorder.kernel().parameters[index];
                let ParameterType::TensorMaps { needs, writable } = &mut parameter.ty else { return };
                if *writable {
                    for needs in &mut needs[maps] {
                        needs.written.get_or_insert(location);
                    }
                    return;
                }
                let written = if needs.len() > 1 { "`&mut TensorMaps`" } else { "`&mut TensorMap`" };
                (format!("the read-only tensor map `{}`", parameter.name), written)
            }
        };
        let message =
            format!("this writes through {what}: take the parameter as {written} to write to its tensor");
        recorder.error(location, message);
    });
}

/// States an extent that the kernel assumes.
#[track_caller]
pub(crate) fn need_extent(map: TensorMap, axis: usize, extent: u64) {
    let location = here();
    for_each(map, &mut |recorder, name, needs| {
        if axis >= MOST_AXES {
            recorder.error(location, format!("a tensor map has axes 0 to {}, not {axis}", MOST_AXES - 1));
        }
        match needs.extents.iter().find(|(known, ..)| *known == axis) {
            None => needs.extents.push((axis, extent, location)),
            Some((_, known, there)) if *known != extent => recorder.error_with_notes(
                location,
                format!(
                    "the kernel assumes two extents of axis {axis} of tensor map `{name}`: {extent} and {known}"
                ),
                vec![(*there, "the other is assumed here".to_owned())],
            ),
            Some(_) => {}
        }
    });
}

/// The kind of a copy, as far as its instruction gives it.
#[derive(Clone, Copy)]
pub(crate) struct CopyForm {
    /// The number of the tensor's dimensions.
    pub(crate) rank: usize,
    /// The elements.
    pub(crate) access: CopyAccess,
    /// The type of the elements in shared memory; `None` for bytes, and without shared memory.
    pub(crate) element: Option<ElementType>,
}

impl CopyForm {
    /// Refuses the copy if the boxes of its map are unknown, or if it is not a copy of them.
    #[track_caller]
    pub(crate) fn check(self, map: TensorMap) {
        let location = here();
        for_each(map, &mut |recorder, name, needs| {
            let Some((boxes, there)) = &needs.boxes else {
                recorder.error(
                    location,
                    format!(
                        "the boxes of tensor map `{name}` are unknown, so that a launch cannot check the map: \
                         state them first by `{name}.boxes(tile)`, or declare the parameter as `{name}: &UntypedTensorMap`"
                    ),
                );
                return;
            };
            if let Some(reason) = self.misfit(boxes) {
                let stated = (*there, "its boxes are stated here".to_owned());
                recorder.error_with_notes(
                    location,
                    format!("the copy does not fit the boxes of tensor map `{name}`: {reason}"),
                    vec![stated],
                );
            }
        });
    }

    fn misfit(self, boxes: &Requirement) -> Option<String> {
        let mode = |is_im2col| if is_im2col { "im2col" } else { "tiled" };
        let is_im2col = matches!(boxes.access, Access::Im2col { .. });
        let copies_im2col = self.access == CopyAccess::Im2col;
        if copies_im2col != is_im2col {
            return Some(format!("it is {}, and the boxes are {}", mode(copies_im2col), mode(is_im2col)));
        }
        if self.rank != boxes.rank() {
            let (rank, axes) = (self.rank, boxes.rank());
            return Some(format!(
                "it has {rank} coordinates, and the boxes have {axes} axes; add axes with `Requirement::of_rank`"
            ));
        }
        if let (CopyAccess::FourRows, Access::Tiled { box_extents }) = (self.access, &boxes.access)
            && box_extents[1] != 1
        {
            return Some(format!(
                "it copies four single rows, and the boxes have {} rows; state the boxes by `tile.single_rows()`",
                box_extents[1]
            ));
        }
        let element = self.element.filter(|element| !boxes.element.accepts(*element))?;
        let (stored, boxed) = (element.name(), boxes.element.name());
        Some(format!("its elements in shared memory are {stored}, and those of the boxes are {boxed}"))
    }
}

/// Calls `visit` on the needs of each map that `map` may be, with the parameter's name. An untyped
/// map has none.
#[track_caller]
fn for_each(map: TensorMap, visit: &mut dyn FnMut(&mut Recorder, &str, &mut TensorMapNeeds)) {
    let (location, register) = (here(), map.address().register());
    recorder::with(|recorder| match recorder.tensor_map_in(register).cloned() {
        Some(TensorMapOrigin::Untyped { .. }) => {}
        Some(TensorMapOrigin::Parameter { index, maps }) => {
            let name = recorder.kernel().parameters[index].name.clone();
            for map in maps {
                // Taken out while it is visited: `visit` may record a mistake.
                let mut needs = std::mem::take(&mut needs_of(recorder, index)[map]);
                visit(recorder, &name, &mut needs);
                needs_of(recorder, index)[map] = needs;
            }
        }
        None => recorder.error(
            location,
            "the parameter that this tensor map comes from is unknown here, because a device-time branch or \
             assignment selects it: take the maps as `&TensorMaps<N>` and select one with `at`, or copy by \
             `map.untyped()`",
        ),
    });
}

fn needs_of(recorder: &mut Recorder, parameter: usize) -> &mut Vec<TensorMapNeeds> {
    match &mut recorder.kernel().parameters[parameter].ty {
        ParameterType::TensorMaps { needs, .. } => needs,
        other => unreachable!("a tensor map comes from a parameter of type {other:?}"),
    }
}
