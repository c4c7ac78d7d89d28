//! `warpwright exec`: runs a kernel of any PTX file as a launch file says.

mod data;
mod description;
mod json;
mod tensor_map;

use std::path::{Path, PathBuf};

use anyhow::{Context, Result};
use clap::Args;
use serde_json::json;
use warpwright_arch::tensor_map::TENSOR_MAP_BYTES;
use warpwright_runtime as runtime;
use warpwright_runtime::{Device, Launch};

use crate::file;
use crate::output::Output;
use crate::target::DeviceOptions;
pub(crate) use description::Description;
use description::{Argument, Field, Structure, TensorMap};

/// Run a kernel of any PTX file, as a launch file describes it.
#[derive(Debug, Args)]
pub(crate) struct Exec {
    /// Launch file: JSON with `ptx`, `entry`, `grid`, `block`, `cluster`, `cooperative`,
    /// `dynamic_shared_bytes` and `args`. Paths are relative to the launch file.
    launch: PathBuf,
    #[command(flatten)]
    device: DeviceOptions,
}

/// A buffer among the arguments: its place in the list, and where it lives.
struct Placed<'a> {
    index: usize,
    description: &'a description::Buffer,
    buffer: runtime::Buffer<u8>,
}

impl Exec {
    /// Reads the launch file, launches, and saves what is to be saved.
    pub(crate) fn run(&self, output: Output) -> Result<()> {
        let description = read(&self.launch)?;
        let directory = self.launch.parent().unwrap_or(Path::new(""));
        let device = self.device.open_for(&self.launch)?;
        let done = launch(&description, directory, &device)?;
        output.json(|| {
            json!({
                "status": "ok",
                "device": device.name(),
                "entry": description.entry,
                "seconds": done.seconds,
                "warp_instructions": done.counts.warp_instructions,
                "lane_operations": done.counts.lane_operations,
                "mma_multiply_adds": done.counts.mma_multiply_adds,
                "saved": done.saved,
            })
        });
        output.text(|| {
            let saved: String = done.saved.iter().map(|path| format!("\nsaved {path}")).collect();
            format!("{} ran on {} in {:.6} s{saved}", description.entry, device.name(), done.seconds)
        });
        Ok(())
    }
}

fn read(path: &Path) -> Result<Description> {
    let shown = path.display();
    let text = file::text(path)?;
    let value = serde_json::from_str(&text).with_context(|| format!("{shown} is not JSON"))?;
    Description::parse(&value).with_context(|| format!("{shown} is not a launch file"))
}

/// Launches what a launch file describes on a device, and saves nothing.
pub(crate) fn check(path: &Path, device: &Device) -> Result<()> {
    let mut description = read(path)?;
    description.save_nothing();
    launch(&description, path.parent().unwrap_or(Path::new("")), device).map(|_| ())
}

/// The PTX that a launch file names.
pub(crate) fn ptx(path: &Path) -> Result<String> {
    let path = path.parent().unwrap_or(Path::new("")).join(read(path)?.ptx);
    file::text(&path)
}

/// What a launch did.
pub(crate) struct Done {
    seconds: f64,
    counts: runtime::LaunchCounts,
    saved: Vec<String>,
}

/// The buffers that only tensor maps and structures refer to: a kernel that reaches memory through
/// those takes no pointer to it, so it has fewer parameters than the launch has arguments.
fn unpassed(arguments: &[Argument], parameters: Option<&[runtime::Parameter]>) -> Vec<usize> {
    let Some(parameters) = parameters else { return Vec::new() };
    let is_referred_to = |index: &usize| arguments.iter().any(|other| other.referred().contains(index));
    let candidates: Vec<usize> = (0..arguments.len()).filter(is_referred_to).collect();
    let excess = arguments.len().saturating_sub(parameters.len());
    let fits = |left_out: &[usize]| {
        let passed = arguments.iter().enumerate().filter(|(index, _)| !left_out.contains(index));
        passed.zip(parameters).all(|((_, argument), parameter)| match argument {
            Argument::Buffer(_) => parameter.bytes == 8,
            Argument::Scalar { bytes, .. } | Argument::Bytes(bytes) => parameter.bytes == bytes.len(),
            Argument::TensorMap(_) => parameter.bytes == TENSOR_MAP_BYTES,
            Argument::Structure(structure) => parameter.bytes == structure.bytes,
        })
    };
    if excess == 0 || excess > candidates.len() || candidates.len() > 16 {
        return Vec::new();
    }
    // The first choice of `excess` candidates that leaves arguments as the kernel takes them.
    let choices = (0u32..1 << candidates.len()).filter(|choice| choice.count_ones() as usize == excess);
    let chosen = |choice: u32| {
        let bits = candidates.iter().enumerate().filter(move |(bit, _)| choice >> bit & 1 != 0);
        bits.map(|(_, &index)| index).collect::<Vec<_>>()
    };
    choices.map(chosen).find(|chosen| fits(chosen)).unwrap_or_default()
}

pub(crate) fn launch(description: &Description, directory: &Path, device: &Device) -> Result<Done> {
    let path = directory.join(&description.ptx);
    let ptx = file::text(&path)?;
    let module = device.load_ptx(&ptx).with_context(|| format!("{} cannot be loaded", path.display()))?;
    let function = module.function(&description.entry)?;

    device.check_memory(description.buffer_bytes()).context("args")?;
    let mut placed = Vec::new();
    for (index, argument) in description.arguments.iter().enumerate() {
        if let Argument::Buffer(description) = argument {
            let bytes = data::initial(description, directory)
                .with_context(|| format!("args[{index}].buffer.init"))?;
            placed.push(Placed { index, description, buffer: device.buffer_from(&bytes)? });
        }
    }
    let buffer_at = |index| {
        let found = placed.iter().find(|placed| placed.index == index);
        &found.expect("the launch file was held to name buffers").buffer
    };
    let mut maps = Vec::new();
    for (index, argument) in description.arguments.iter().enumerate() {
        let encoded =
            |map: &TensorMap| runtime::TensorMap::new(buffer_at(map.buffer), map.description.clone());
        let of_argument: runtime::Result<Vec<_>> = argument.tensor_maps().into_iter().map(encoded).collect();
        maps.push(of_argument.with_context(|| format!("args[{index}].{}", argument.kind()))?);
    }
    let mut arguments = Vec::new();
    let unpassed = unpassed(&description.arguments, function.parameters());
    for (index, argument) in description.arguments.iter().enumerate() {
        if unpassed.contains(&index) {
            continue;
        }
        let mut maps = maps[index].iter();
        let mut next_map = || runtime::Argument::tensor_map(maps.next().expect("one for each"));
        arguments.push(match argument {
            Argument::Bytes(bytes) => runtime::Argument::bytes(bytes),
            Argument::Scalar { dtype, bytes } => dtype.as_argument(bytes),
            Argument::Buffer(_) => runtime::Argument::buffer(buffer_at(index)),
            Argument::TensorMap(_) => next_map(),
            Argument::Structure(Structure { bytes, fields }) => {
                let passed = |(offset, value): &(usize, Field)| {
                    let value = match value {
                        Field::Bytes(bytes) => runtime::Argument::bytes(bytes),
                        Field::Pointer(buffer) => runtime::Argument::buffer(buffer_at(*buffer)),
                        Field::TensorMap(_) => next_map(),
                    };
                    (*offset, value)
                };
                let fields: Vec<_> = fields.iter().map(passed).collect();
                let structure = runtime::Argument::structure(*bytes, &fields);
                structure.with_context(|| format!("args[{index}].{}", argument.kind()))?
            }
        });
    }

    let mut shape = Launch::new(description.grid, description.block)
        .cluster(description.cluster)
        .dynamic_shared(description.dynamic_shared_bytes);
    if description.cooperative {
        shape = shape.cooperative();
    }
    let stream = device.stream()?;
    let start = stream.record()?;
    let counts = function.launch(&stream, shape, arguments.as_slice())?;
    let end = stream.record()?;
    device.synchronize()?;

    let mut saved = Vec::new();
    for Placed { description, buffer, .. } in &placed {
        if let Some(path) = &description.save {
            data::save(description, buffer.to_vec()?, &directory.join(path))?;
            saved.push(path.clone());
        }
    }
    Ok(Done { seconds: end.since(&start)?.as_secs_f64(), counts, saved })
}
