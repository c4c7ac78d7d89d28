//! The tensor maps that a kernel takes, compared with those that a launch passes.

use warpwright_arch::tensor_map::{Description, Difference, Requirement};
use warpwright_ir::{self as ir, Location, ParameterType, TensorMapNeeds};

use crate::arguments::Argument;
use crate::error::{Error, Result, TensorMapMismatch};

/// A parameter of a kernel that takes tensor maps, and what the kernel needs of each.
#[derive(Debug)]
pub(crate) struct TensorMapParameter {
    /// Its index among the parameters.
    index: usize,
    pub(crate) name: String,
    pub(crate) needs: Vec<TensorMapNeeds>,
}

/// The parameters of a kernel that take tensor maps.
pub(crate) fn of_kernel(kernel: &ir::Kernel) -> Vec<TensorMapParameter> {
    let parameters = kernel.parameters.iter().enumerate();
    let maps = parameters.filter_map(|(index, parameter)| match &parameter.ty {
        ParameterType::TensorMaps { needs } => {
            Some(TensorMapParameter { index, name: parameter.name.clone(), needs: needs.clone() })
        }
        _ => None,
    });
    maps.collect()
}

/// Returns an error if a tensor map among the arguments is not what the kernel needs.
pub(crate) fn check(
    kernel: &str,
    parameters: &[TensorMapParameter],
    arguments: &[Argument<'_>],
) -> Result<()> {
    for parameter in parameters {
        let Some(argument) = arguments.get(parameter.index) else { continue };
        for (which, (needs, map)) in
            parameter.needs.iter().zip(argument.tensor_map_descriptions()).enumerate()
        {
            if !is_met(needs, map) {
                return parameter.refuse(kernel, which, map);
            }
        }
    }
    Ok(())
}

fn is_met(needs: &TensorMapNeeds, map: &Description) -> bool {
    needs.boxes.as_ref().is_none_or(|(boxes, _)| boxes.is_met_by(map))
        && needs.extents.iter().all(|(axis, extent, _)| map.extents.get(*axis) == Some(extent))
}

impl TensorMapParameter {
    /// What the copies need of the first map that they use.
    pub(crate) fn boxes(&self) -> Option<&Requirement> {
        self.needs.iter().find_map(|needs| needs.boxes.as_ref()).map(|(boxes, _)| boxes)
    }

    #[cold]
    fn refuse(&self, kernel: &str, which: usize, map: &Description) -> Result<()> {
        let needs = &self.needs[which];
        let Some((difference, location)) =
            box_difference(needs, map).or_else(|| extent_difference(needs, map))
        else {
            return Ok(());
        };
        let help = match needs.boxes.as_ref().is_none_or(|(boxes, _)| boxes.is_met_by(map)) {
            true => "pass the map of a tensor with that extent".to_owned(),
            false => {
                format!(
                    "build the map for the kernel: `kernel.tensor_map({:?}, &buffer, extents)`",
                    self.name
                )
            }
        };
        Err(Error::TensorMapMismatch(Box::new(TensorMapMismatch {
            kernel: kernel.to_owned(),
            parameter: self.name.clone(),
            index: (self.needs.len() > 1).then_some(which),
            difference,
            location,
            help,
        })))
    }
}

fn box_difference(needs: &TensorMapNeeds, map: &Description) -> Option<(Difference, Location)> {
    let (boxes, location) = needs.boxes.as_ref()?;
    Some((boxes.difference(&Requirement::of(map))?, *location))
}

fn extent_difference(needs: &TensorMapNeeds, map: &Description) -> Option<(Difference, Location)> {
    let differs = |(axis, extent, _): &&(usize, u64, Location)| map.extents.get(*axis) != Some(extent);
    let (axis, extent, location) = needs.extents.iter().find(differs)?;
    let property =
        ["extent of axis 0", "extent of axis 1", "extent of axis 2", "extent of axis 3", "extent of axis 4"];
    let given = map.extents.get(*axis).map_or("none".to_owned(), u64::to_string);
    let difference = Difference { property: property[*axis], required: extent.to_string(), given };
    Some((difference, *location))
}
