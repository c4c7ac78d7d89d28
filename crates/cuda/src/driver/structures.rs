//! Structures of the driver API, as C lays them out.

use warpwright_runtime::Launch;

use crate::edge::In;
use crate::enqueue;
use crate::function::FUNCTIONS;
use crate::handles::Handle;
use crate::launch::{self, KernelLaunch};
use crate::report;
use crate::status::{Result, Status};
use crate::stream::Stream;
use crate::transfer::{self, Expected, Fill, Shape, Side};
use crate::work::Work;

/// One side of `CUDA_MEMCPY2D`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Side2D {
    x: usize,
    y: usize,
    memory: u32,
    host: u64,
    device: u64,
    array: usize,
    pitch: usize,
}

/// `CUDA_MEMCPY2D`
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Copy2D {
    from: Side2D,
    to: Side2D,
    width: usize,
    height: usize,
}

/// One side of `CUDA_MEMCPY3D`.
#[repr(C)]
#[derive(Clone, Copy)]
struct Side3D {
    x: usize,
    y: usize,
    z: usize,
    level: usize,
    memory: u32,
    host: u64,
    device: u64,
    array: usize,
    reserved: usize,
    pitch: usize,
    height: usize,
}

/// `CUDA_MEMCPY3D`
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Copy3D {
    from: Side3D,
    to: Side3D,
    width: usize,
    height: usize,
    depth: usize,
}

/// The memory types of `CUmemorytype`: host, device, array, unified.
fn start(memory: u32, host: u64, device: u64) -> Result<(u64, Expected)> {
    match memory {
        1 => Ok((host, Expected::Host)),
        2 => Ok((device, Expected::Device)),
        4 => Ok((device, Expected::Any)),
        3 => {
            report::once("the program copies to or from an array, which warpwright does not have");
            Err(Status::NOT_SUPPORTED)
        }
        _ => Err(Status::INVALID_VALUE),
    }
}

impl Side3D {
    fn placed(&self, shape: &Shape) -> Result<(Side, Expected)> {
        let (base, expected) = start(self.memory, self.host, self.device)?;
        let pitch = if self.pitch == 0 { shape.width } else { self.pitch as u64 };
        let rows = if self.height == 0 { shape.height } else { self.height as u64 };
        let slice = pitch.checked_mul(rows).ok_or(Status::INVALID_VALUE)?;
        let offset = slice
            .checked_mul(self.z as u64)
            .and_then(|z| z.checked_add(pitch.checked_mul(self.y as u64)?)?.checked_add(self.x as u64));
        let start = base.checked_add(offset.ok_or(Status::INVALID_VALUE)?).ok_or(Status::INVALID_VALUE)?;
        Ok((Side { start, pitch, slice }, expected))
    }
}

impl Copy3D {
    fn shape(&self) -> Shape {
        Shape { width: self.width as u64, height: self.height as u64, depth: self.depth as u64 }
    }

    /// Adds the copy to a stream.
    pub(crate) fn add(&self, stream: &Stream, waits: bool) -> Result<()> {
        let shape = self.shape();
        enqueue::copy(stream, self.to.placed(&shape)?, self.from.placed(&shape)?, shape, waits)
    }

    /// The copy as a node of a graph.
    pub(crate) fn work(&self) -> Result<Work> {
        let shape = self.shape();
        let copy = transfer::prepare(self.to.placed(&shape)?, self.from.placed(&shape)?, shape)?;
        Ok(copy.map_or(Work::Empty, Work::Copy))
    }
}

impl Side2D {
    fn of_3d(self) -> Side3D {
        let Self { x, y, memory, host, device, array, pitch } = self;
        Side3D { x, y, z: 0, level: 0, memory, host, device, array, reserved: 0, pitch, height: 0 }
    }
}

impl Copy2D {
    /// Adds the copy to a stream.
    pub(crate) fn add(&self, stream: &Stream, waits: bool) -> Result<()> {
        let Self { from, to, width, height } = *self;
        Copy3D { from: from.of_3d(), to: to.of_3d(), width, height, depth: 1 }.add(stream, waits)
    }
}

/// `CUlaunchConfig`
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct LaunchConfig {
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared_bytes: u32,
    pub(crate) stream: usize,
    pub(crate) attributes: In<LaunchAttribute>,
    pub(crate) attribute_count: u32,
}

/// `CUlaunchAttribute`, and `cudaLaunchAttribute`: a number, and a value of 64 bytes.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct LaunchAttribute {
    pub(crate) id: u32,
    padding: u32,
    pub(crate) value: [u32; 16],
}

/// A launch with its attributes: clusters, cooperation, overlap with its predecessor. The others are hints.
pub(crate) fn launch_attributes(
    mut launch: Launch,
    attributes: In<LaunchAttribute>,
    count: u32,
) -> Result<Launch> {
    for attribute in attributes.array(count as usize)? {
        let [first, second, third, ..] = attribute.value;
        match attribute.id {
            2 if first != 0 => launch = launch.cooperative(),
            4 => launch = launch.cluster([first, second, third]),
            6 if first != 0 => launch = launch.overlapping(),
            0..=18 => {}
            _ => return Err(Status::INVALID_VALUE),
        }
    }
    Ok(launch)
}

/// `CUDA_KERNEL_NODE_PARAMS`
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct KernelNode {
    pub(crate) function: usize,
    pub(crate) grid: [u32; 3],
    pub(crate) block: [u32; 3],
    pub(crate) shared_bytes: u32,
    pub(crate) parameters: In<usize>,
    pub(crate) extra: In<usize>,
}

/// `CUDA_KERNEL_NODE_PARAMS_v2`
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct KernelNode2 {
    pub(crate) node: KernelNode,
    pub(crate) kernel: usize,
    pub(crate) context: usize,
}

/// `CUDA_MEMSET_NODE_PARAMS`
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct FillNode {
    pub(crate) to: u64,
    pub(crate) pitch: usize,
    pub(crate) value: u32,
    pub(crate) element_bytes: u32,
    pub(crate) width: usize,
    pub(crate) height: usize,
}

impl FillNode {
    /// The fill as a node of a graph.
    pub(crate) fn work(&self) -> Result<Work> {
        let side = Side { start: self.to, pitch: self.pitch as u64, slice: 0 };
        let element = self.value.to_le_bytes();
        let element = match self.element_bytes {
            bytes @ (1 | 2 | 4) => &element[..bytes as usize],
            _ => return Err(Status::INVALID_VALUE),
        };
        let fill = Fill::new(side, (self.width as u64, self.height as u64), element)?;
        Ok(fill.map_or(Work::Empty, Work::Fill))
    }
}

impl KernelNode {
    /// The launch as a node of a graph. `kernel` is launched if the node names no function.
    pub(crate) fn work(&self, kernel: usize) -> Result<Work> {
        let function = if self.function == 0 { kernel } else { self.function };
        let function = FUNCTIONS.get(Handle::new(function))?;
        let launch = Launch::new(self.grid, self.block).dynamic_shared(self.shared_bytes);
        let parameters = launch::parameters(&function, self.parameters, self.extra)?;
        Ok(Work::Launch(KernelLaunch::new(function, launch, parameters)?))
    }
}

/// `CUDA_HOST_NODE_PARAMS`
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct HostNode {
    pub(crate) function: crate::edge::HostFunction,
    pub(crate) argument: usize,
}
