//! The tensor maps that a kernel takes, compared with those that a launch passes.

use warpwright_arch::tensor_map::{Difference, Requirement};
use warpwright_ir::{self as ir, Location, ParameterType, TensorMapNeeds};

use crate::arguments::Argument;
use crate::error::{Error, Result, TensorMapMismatch};
use crate::tensor_map::{BoxesNumber, Encoding};

/// A parameter of a kernel that takes tensor maps, and what the kernel needs of each.
#[derive(Debug)]
pub(crate) struct TensorMapParameter {
    /// Its index among the parameters.
    index: usize,
    name: String,
    needs: Vec<NumberedNeeds>,
}

/// What a kernel needs of a map, and the number of what its copies need.
#[derive(Debug)]
struct NumberedNeeds {
    needs: TensorMapNeeds,
    boxes: Option<BoxesNumber>,
}

/// The parameters of a kernel that take tensor maps.
pub(crate) fn of_kernel(kernel: &ir::Kernel) -> Vec<TensorMapParameter> {
    let parameters = kernel.parameters.iter().enumerate();
    let maps = parameters.filter_map(|(index, parameter)| match &parameter.ty {
        ParameterType::TensorMaps { needs, .. } => {
            let numbered = |needs: &TensorMapNeeds| NumberedNeeds {
                needs: needs.clone(),
                boxes: needs.boxes.as_ref().map(|(boxes, _)| BoxesNumber::of(boxes)),
            };
            let (name, needs) = (parameter.name.clone(), needs.iter().map(numbered).collect());
            Some(TensorMapParameter { index, name, needs })
        }
        _ => None,
    });
    maps.collect()
}

/// What the copies of a kernel need of the map for the parameter `name`.
pub(crate) fn boxes<'p>(
    kernel: &str,
    parameters: &'p [TensorMapParameter],
    name: &str,
) -> Result<&'p Requirement> {
    let stated = parameters.iter().filter_map(|parameter| Some((&parameter.name, parameter.boxes()?)));
    stated.clone().find(|(known, _)| *known == name).map(|(_, boxes)| boxes).ok_or_else(|| {
        let known = stated.clone().map(|(known, _)| known.clone()).collect();
        Error::NoTensorMapParameter { kernel: kernel.to_owned(), name: name.to_owned(), known }
    })
}

/// Returns an error if a tensor map among the arguments is not what the kernel needs.
pub(crate) fn check(
    kernel: &str,
    parameters: &[TensorMapParameter],
    arguments: &[Argument<'_>],
) -> Result<()> {
    for parameter in parameters {
        let Some(argument) = arguments.get(parameter.index) else { continue };
        for (which, (needs, map)) in parameter.needs.iter().zip(argument.maps()).enumerate() {
            if let Some(location) = needs.needs.written.filter(|_| !map.is_writable()) {
                return parameter.refuse_to_write(kernel, which, location);
            }
            let map = map.encoding();
            let is_met =
                needs.boxes.is_none_or(|boxes| boxes == map.number()) && needs.needs.extents.is_empty();
            if !is_met && !meets(map, &needs.needs) {
                return parameter.refuse(kernel, which, map);
            }
        }
    }
    Ok(())
}

/// The comparison in full: some types are accepted as others.
fn meets(map: &Encoding, needs: &TensorMapNeeds) -> bool {
    needs.boxes.as_ref().is_none_or(|(boxes, _)| boxes.accepts(map.boxes()))
        && needs.extents.iter().all(|(axis, extent, _)| map.description().extents.get(*axis) == Some(extent))
}

impl TensorMapParameter {
    /// What the copies need of the first map that they use.
    fn boxes(&self) -> Option<&Requirement> {
        self.needs.iter().find_map(|it| it.needs.boxes.as_ref()).map(|(boxes, _)| boxes)
    }

    #[cold]
    fn refuse_to_write(&self, kernel: &str, which: usize, at: Location) -> Result<()> {
        let Location { file, line, column } = at;
        let index = if self.needs.len() > 1 { format!("[{which}]") } else { String::new() };
        let reason = format!(
            "it writes through tensor map `{0}{index}` ({file}:{line}:{column}), and the map passed was made from a `&Buffer`: make it \
             from a `&mut Buffer`, as `kernel.tensor_map({0:?}, &mut buffer, extents)`",
            self.name
        );
        Err(Error::BadLaunch { kernel: kernel.to_owned(), reason })
    }

    #[cold]
    fn refuse(&self, kernel: &str, which: usize, map: &Encoding) -> Result<()> {
        let needs = &self.needs[which].needs;
        let Some((difference, location)) =
            box_difference(needs, map).or_else(|| extent_difference(needs, map))
        else {
            return Ok(());
        };
        let help = match needs.boxes.as_ref().is_none_or(|(boxes, _)| boxes.accepts(map.boxes())) {
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

fn box_difference(needs: &TensorMapNeeds, map: &Encoding) -> Option<(Difference, Location)> {
    let (boxes, location) = needs.boxes.as_ref()?;
    Some((boxes.difference(map.boxes())?, *location))
}

fn extent_difference(needs: &TensorMapNeeds, map: &Encoding) -> Option<(Difference, Location)> {
    let differs =
        |(axis, extent, _): &&(usize, u64, Location)| map.description().extents.get(*axis) != Some(extent);
    let (axis, extent, location) = needs.extents.iter().find(differs)?;
    let property =
        ["extent of axis 0", "extent of axis 1", "extent of axis 2", "extent of axis 3", "extent of axis 4"];
    let given = map.description().extents.get(*axis).map_or("none".to_owned(), u64::to_string);
    let difference = Difference { property: property[*axis], required: extent.to_string(), given };
    Some((difference, *location))
}
