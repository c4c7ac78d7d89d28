//! Runs what a launch file describes: loads its modules, sets their variables, makes its buffers,
//! enqueues its launches, and reads back what is to be saved.

use std::collections::HashMap;
use std::path::Path;
use std::sync::Arc;
use std::time::Instant;

use anyhow::{Context, Result};
use warpwright_runtime as runtime;
use warpwright_runtime::{Buffer, Device, Error, Event, Finding, Label, Module, Stream};

use super::data;
use super::description::{
    self, Argument, DEFAULT_STREAM, Description, Field, Init, Launch, Structure, TensorMap,
};
use super::parameters::unpassed;
use crate::dtype::Dtype;
use crate::emulation;
use crate::file;

/// What the launches did.
pub(crate) struct Done {
    pub(super) seconds: f64,
    /// Of each launch.
    pub(super) counts: Vec<runtime::LaunchCounts>,
    pub(super) saved: Vec<String>,
}

/// Whether buffers and variables are written to files.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Saving {
    Files,
    /// They are read back, since checks take part in that, and dropped.
    Nothing,
}

/// Runs the launches on a device. Paths are relative to `directory`.
pub(crate) fn run(
    description: &Description,
    directory: &Path,
    device: &Device,
    saving: Saving,
) -> Result<Done> {
    let modules = Modules::load(description, directory, device)?;
    device.check_memory(description.buffer_bytes()).context(buffers_of(description))?;
    let mut buffers = Vec::new();
    for placed in &description.buffers {
        buffers
            .push(make(&placed.buffer, directory, device).with_context(|| format!("{}.init", placed.path))?);
    }
    let variables = set_variables(description, directory, &modules)?;
    emulation::announce(device, description.threads());
    let mut queue = Queue { device, streams: HashMap::new(), events: HashMap::new(), findings: Vec::new() };
    let timer = Timer::start(description, &mut queue)?;
    let mut counts = Vec::new();
    for launch in &description.launches {
        let of_launch = queue.launch(launch, &modules, &buffers);
        counts.push(of_launch.map_err(|error| {
            if launch.path.is_empty() { error } else { error.context(launch.path.clone()) }
        })?);
    }
    let seconds = timer.stop(&mut queue)?;

    let mut saved = Vec::new();
    let of_buffers = description.buffers.iter().zip(&buffers);
    let of_buffers = of_buffers.map(|(placed, buffer)| {
        let described = &placed.buffer;
        (placed.path.clone(), described.dtype, &described.shape, described.save.as_ref(), buffer)
    });
    let of_symbols = description.symbols.iter().zip(&variables);
    let of_symbols = of_symbols.map(|(symbol, variable)| {
        let path = format!("symbols.{}", symbol.name);
        (path, symbol.dtype, &symbol.shape, symbol.save.as_ref(), variable)
    });
    for (path, dtype, shape, save, buffer) in of_buffers.chain(of_symbols) {
        let Some(file) = save else { continue };
        let read = buffer.to_bytes_of(dtype.name(), dtype.bytes() as u64);
        let Some(bytes) = queue.keep_findings(&path, read)? else { continue };
        if saving == Saving::Files {
            data::save(dtype, shape, bytes, &directory.join(file))?;
            saved.push(file.clone());
        }
    }
    if !queue.findings.is_empty() {
        return Err(Error::Findings { findings: queue.findings.into() }.into());
    }
    Ok(Done { seconds, counts, saved })
}

/// A buffer with its contents. On the emulator, new memory is poison: the checkers know that nothing has
/// written it.
fn make(described: &description::Buffer, directory: &Path, device: &Device) -> Result<Buffer<u8>> {
    if described.init == Init::Poison && device.properties().is_emulated {
        return Ok(device.uninitialized(described.bytes() as usize)?);
    }
    let bytes = data::initial(described.dtype, &described.shape, &described.init, directory)?;
    Ok(device.buffer_from(&bytes)?)
}

/// Where a file has its buffers.
fn buffers_of(description: &Description) -> &'static str {
    if description.is_single { "args" } else { "buffers" }
}

/// The modules of a file, by their paths in it.
struct Modules(HashMap<String, Module>);

impl Modules {
    fn load(description: &Description, directory: &Path, device: &Device) -> Result<Self> {
        let mut modules = HashMap::new();
        for name in description.modules() {
            let path = directory.join(name);
            let module = device.load_ptx(&file::text(&path)?);
            let module = module.with_context(|| format!("{} cannot be loaded", path.display()))?;
            modules.insert(name.to_owned(), module);
        }
        Ok(Self(modules))
    }

    fn of(&self, ptx: &str) -> &Module {
        self.0.get(ptx).expect("the module of every launch is loaded")
    }
}

/// The variables that the file names, set to their initial values.
fn set_variables(description: &Description, directory: &Path, modules: &Modules) -> Result<Vec<Buffer<u8>>> {
    let mut variables = Vec::new();
    for symbol in &description.symbols {
        let place = || format!("symbols.{}", symbol.name);
        let mut variable = modules.of(&symbol.ptx).variable::<u8>(&symbol.name).with_context(place)?;
        let bytes = super::description::bytes(symbol.dtype, &symbol.shape);
        if variable.bytes() as u64 != bytes {
            anyhow::bail!(
                "{}: {:?} elements of {} are {bytes} bytes, and the variable has {}",
                place(),
                symbol.shape,
                symbol.dtype.name(),
                variable.bytes()
            );
        }
        if let Some(init) = &symbol.init {
            let bytes = data::initial(symbol.dtype, &symbol.shape, init, directory);
            variable.copy_from(&bytes.with_context(|| format!("{}.init", place()))?)?;
        }
        variables.push(variable);
    }
    Ok(variables)
}

/// The streams and events of a file, and what checkers found so far.
struct Queue<'d> {
    device: &'d Device,
    streams: HashMap<String, Arc<Stream>>,
    events: HashMap<String, Event>,
    findings: Vec<Finding>,
}

impl Queue<'_> {
    /// The stream of that name.
    fn stream(&mut self, name: &str) -> Result<Arc<Stream>> {
        if let Some(stream) = self.streams.get(name) {
            return Ok(stream.clone());
        }
        let stream = Arc::new(self.device.stream()?);
        self.streams.insert(name.to_owned(), stream.clone());
        Ok(stream)
    }

    /// Keeps findings of an operation whose result is complete, so that later ones are found as
    /// well. `None`: it had some. `path` is the operation's place in the file.
    fn keep_findings<T>(&mut self, path: &str, outcome: runtime::Result<T>) -> runtime::Result<Option<T>> {
        let in_file = |finding: &Finding| in_file(path, finding.clone());
        match outcome {
            Ok(value) => Ok(Some(value)),
            Err(Error::Findings { findings }) => {
                self.findings.extend(findings.iter().map(in_file));
                Ok(None)
            }
            // What was found in the launches before a fault is told with it.
            Err(Error::Fault { fault, findings }) => {
                let before = std::mem::take(&mut self.findings);
                let findings = before.into_iter().chain(findings.iter().map(in_file)).collect();
                Err(Error::Fault { fault, findings })
            }
            Err(error) => Err(error),
        }
    }

    /// Enqueues a launch behind the events that it waits for.
    fn launch(
        &mut self,
        launch: &Launch,
        modules: &Modules,
        buffers: &[Buffer<u8>],
    ) -> Result<runtime::LaunchCounts> {
        let stream = self.stream(&launch.stream)?;
        for event in &launch.wait {
            stream.wait(self.events.get(event).expect("a launch before this one records it"))?;
        }
        let function = modules.of(&launch.ptx).function(&launch.entry)?;
        let maps = tensor_maps(launch, buffers)?;
        let arguments = arguments(launch, &function, buffers, &maps)?;
        let mut shape = runtime::Launch::new(launch.grid, launch.block)
            .cluster(launch.cluster)
            .dynamic_shared(launch.dynamic_shared_bytes);
        if launch.cooperative {
            shape = shape.cooperative();
        }
        if launch.programmatic {
            shape = shape.overlapping();
        }
        let counts =
            self.keep_findings(&launch.path, function.launch(&stream, shape, arguments.as_slice()))?;
        if let Some(event) = &launch.record {
            self.events.insert(event.clone(), stream.record()?);
        }
        Ok(counts.unwrap_or_default())
    }
}

/// A finding that names places in the file. The host's program is this one, whose lines say nothing to a
/// reader.
fn in_file(path: &str, mut finding: Finding) -> Finding {
    let is_own = |label: &&mut Label| label.source.as_ref().is_some_and(|source| source.file == file!());
    let own = finding.labels.iter_mut().chain(&mut finding.memory).filter(is_own);
    for (index, label) in own.enumerate() {
        label.source = None;
        if index == 0 && !path.is_empty() {
            label.text = format!("{path}: {}", label.text);
        }
    }
    finding
}

/// The tensor maps of each argument, in order.
fn tensor_maps(launch: &Launch, buffers: &[Buffer<u8>]) -> Result<Vec<Vec<runtime::TensorMap>>> {
    let encoded = |map: &TensorMap| runtime::TensorMap::new(&buffers[map.buffer], map.description.clone());
    let of_argument = |(index, argument): (usize, &Argument)| {
        let maps: runtime::Result<Vec<_>> = argument.tensor_maps().into_iter().map(encoded).collect();
        maps.with_context(|| format!("args[{index}].{}", argument.kind()))
    };
    launch.arguments.iter().enumerate().map(of_argument).collect()
}

/// The arguments that the kernel takes.
fn arguments<'a>(
    launch: &'a Launch,
    function: &runtime::Function,
    buffers: &'a [Buffer<u8>],
    maps: &'a [Vec<runtime::TensorMap>],
) -> Result<Vec<runtime::Argument<'a>>> {
    let mut arguments = Vec::new();
    let unpassed = unpassed(&launch.arguments, function.parameters());
    for (index, argument) in launch.arguments.iter().enumerate().filter(|(index, _)| !unpassed[*index]) {
        let mut maps = maps[index].iter();
        let mut next_map = || runtime::Argument::tensor_map(maps.next().expect("one for each"));
        arguments.push(match argument {
            Argument::Bytes(bytes) => runtime::Argument::bytes(bytes),
            Argument::Scalar { dtype, bytes } => Dtype::as_argument(dtype, bytes),
            Argument::Buffer(buffer) => runtime::Argument::buffer(&buffers[*buffer]),
            Argument::TensorMap(_) => next_map(),
            Argument::Structure(Structure { bytes, fields }) => {
                let passed = |(offset, value): &'a (usize, Field)| {
                    let value = match value {
                        Field::Bytes(bytes) => runtime::Argument::bytes(bytes),
                        Field::Pointer(buffer) => runtime::Argument::buffer(&buffers[*buffer]),
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
    Ok(arguments)
}

/// The time of all launches: by the events of the device if they are on one stream, and by the host's
/// clock otherwise. Events between launches would end the overlap of programmatic ones.
enum Timer {
    Stream(Arc<Stream>, Event),
    Host(Instant),
}

impl Timer {
    fn start(description: &Description, queue: &mut Queue<'_>) -> Result<Self> {
        let mut streams = description.launches.iter().map(|launch| launch.stream.as_str());
        let first = streams.next().unwrap_or(DEFAULT_STREAM);
        if streams.all(|stream| stream == first) {
            let stream = queue.stream(first)?;
            let start = stream.record()?;
            return Ok(Self::Stream(stream, start));
        }
        Ok(Self::Host(Instant::now()))
    }

    /// The seconds until all work on the device is complete.
    fn stop(self, queue: &mut Queue<'_>) -> Result<f64> {
        Ok(match self {
            Self::Stream(stream, start) => {
                let end = stream.record()?;
                queue.device.synchronize()?;
                end.since(&start)?.as_secs_f64()
            }
            Self::Host(start) => {
                queue.device.synchronize()?;
                start.elapsed().as_secs_f64()
            }
        })
    }
}
