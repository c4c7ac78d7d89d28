//! What the operands of an operation must have in common, compared when the kernel is built.

use std::fmt::Display;

use warpwright_ir::Register;
use warpwright_layout::{
    ComposedLayout, Coordinate, Expression, Index, Int, IntTuple, Tuple, check_coordinate,
};

use super::address;
use crate::operation::{here, refuse};
use crate::recorder::{self, TileElement};

/// Refuses two values that an operation needs to be equal, and says what to do. Returns whether
/// they are.
///
/// `#` stands for the value: `("B has # columns", 16)` and `("the accumulators have #", 32)` read
/// "B has 16 columns, and the accumulators have 32".
#[track_caller]
pub(super) fn agree<T: PartialEq + Display>(
    operation: &str,
    first: (&str, T),
    second: (&str, T),
    advice: &str,
) -> bool {
    let agrees = first.1 == second.1;
    if !agrees {
        let filled = |(text, value): (&str, T)| text.replace('#', &value.to_string());
        refuse(format!("`{operation}`: {}, and {}: {advice}", filled(first), filled(second)));
    }
    agrees
}

/// The coordinate, if its known positions are inside the layout. Others are refused, and their first
/// position stands for them.
#[track_caller]
pub(super) fn inside(operation: &str, coordinate: Coordinate, layout: &ComposedLayout) -> Coordinate {
    match check_coordinate(&coordinate, layout.inner().shape()) {
        Ok(()) => coordinate,
        Err(error) => {
            refuse(format!("`{operation}`: {error}"));
            coordinate.map(&mut |index| match index {
                Index::At(_) => Index::At(Int::ZERO),
                Index::All => Index::All,
            })
        }
    }
}

/// Element `coordinate` of a layout, if it is given by its known index in a layout of several modes
/// and of known size.
pub(super) fn tile_element(coordinate: &IntTuple, layout: &ComposedLayout) -> Option<TileElement> {
    let index = coordinate.leaf()?.known()?;
    let size = layout.size().ok()?.known().filter(|_| layout.rank() > 1)?;
    Some(TileElement { shape: layout.inner().shape().to_string(), size, index })
}

/// Notes that a register holds an element of a tile.
pub(super) fn note_element(register: Register, coordinate: &IntTuple, layout: &ComposedLayout) {
    if let Some(element) = tile_element(coordinate, layout) {
        recorder::with(|recorder| recorder.note_element(register, element));
    }
}

/// Notes that an element of a tile is set to the value of a register.
#[track_caller]
pub(super) fn note_transfer(value: Register, coordinate: &IntTuple, layout: &ComposedLayout) {
    if let Some(element) = tile_element(coordinate, layout) {
        let location = here();
        recorder::with(|recorder| recorder.note_transfer("set", value, element, location));
    }
}

/// Refuses a stage of another ring than the memory at `base`: one that counts other stages than the
/// layout's last mode has, or that belongs to another pipeline.
#[track_caller]
pub(super) fn demand_stage(
    operation: &str,
    coordinate: &Coordinate,
    layout: &ComposedLayout,
    base: Register,
) {
    let Some(Tuple::Leaf(Index::At(Int::Device(last)))) = coordinate.modes().last() else { return };
    let Expression::Variable(variable) = &**last else { return };
    let (stage, memory) = recorder::with(|recorder| {
        (recorder.stages_of(address::register_of(variable)), recorder.stages_of(base))
    });
    let Some(stage) = stage else { return };
    let modes = layout.rank();
    if modes < 3 || coordinate.modes().len() != modes {
        return;
    }
    let extent = layout.inner().mode(modes - 1).and_then(|mode| mode.size());
    let Some(extent) = extent.ok().and_then(|extent| extent.known()) else { return };
    let advice = "use one number of stages for the barriers and the memory that they guard";
    let of_stage = ("the stage is one of #", i64::from(stage.count));
    let agrees = agree(operation, of_stage, ("the tensor has #", extent), advice);
    let pipelines = stage.pipeline.zip(memory.and_then(|memory| memory.pipeline));
    if agrees && pipelines.is_some_and(|(stage, memory)| stage != memory) {
        refuse(format!(
            "`{operation}`: the stage is of another pipeline than the operand: use the stages of the pipeline that allocated it"
        ));
    }
}

/// [`inside`] for a coordinate without `_`.
#[track_caller]
pub(super) fn element_inside(operation: &str, coordinate: &IntTuple, layout: &ComposedLayout) -> IntTuple {
    inside(operation, Coordinate::from(coordinate), layout).origin()
}
