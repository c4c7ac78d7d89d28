//! Launches and occupancy.

use std::ffi::c_int;

use warpwright_runtime::Launch;

use super::guard;
use super::structures::{LaunchConfig, launch_attributes};
use crate::context::current;
use crate::edge::{HostFunction, In, Out, functions};
use crate::function::{FUNCTIONS, Function};
use crate::handles::Handle;
use crate::launch::{KernelLaunch, parameters};
use crate::status::{Result, Status};
use crate::stream::Stream;
use crate::work::Work;

fn launch(
    function: Handle<Function>,
    launch: Launch,
    stream: Handle<Stream>,
    (pointers, extra): (In<usize>, In<usize>),
) -> Result<()> {
    let stream = Stream::of(stream)?;
    let function = FUNCTIONS.get(function)?;
    let parameters = parameters(&function, pointers, extra)?;
    stream.enqueue(Work::Launch(KernelLaunch::new(function, launch, parameters)?))
}

/// Dynamic shared memory of a block size, which the program computes: `CUoccupancyB2DSize`.
type SharedOfBlock = Option<extern "C" fn(c_int) -> usize>;

fn best_block(
    grid: Out<c_int>,
    block: Out<c_int>,
    function: Handle<Function>,
    (of_block, shared): (SharedOfBlock, usize),
    limit: c_int,
) -> Result<()> {
    current()?;
    let shared_of = |threads: u32| of_block.map_or(shared, |of_block| of_block(threads as c_int)) as u32;
    let (threads, ctas) = FUNCTIONS.get(function)?.best_block(&shared_of, limit.max(0) as u32)?;
    grid.set(ctas as c_int)?;
    block.set(threads as c_int)
}

fn resident(count: Out<c_int>, function: Handle<Function>, threads: c_int, shared: usize) -> Result<()> {
    current()?;
    let threads = u32::try_from(threads).ok().filter(|threads| *threads > 0).ok_or(Status::INVALID_VALUE)?;
    let shared = u32::try_from(shared).unwrap_or(u32::MAX);
    count.set(FUNCTIONS.get(function)?.ctas_per_sm(threads, shared) as c_int)
}

fn clusters(count: Out<c_int>, function: Handle<Function>, config: In<LaunchConfig>) -> Result<()> {
    current()?;
    let (config, function) = (config.get()?, FUNCTIONS.get(function)?);
    let launch = Launch::new(config.grid, config.block).dynamic_shared(config.shared_bytes);
    let launch = launch_attributes(launch, config.attributes, config.attribute_count)?;
    if launch.cluster.0.contains(&0) {
        return Err(Status::INVALID_CLUSTER_SIZE);
    }
    count.set(function.loaded.resident_clusters(&launch).unwrap_or(0) as c_int)
}

functions! { guard; TABLE:
    4000 cuLaunchKernel | cuLaunchKernel_ptsz: (
        function: Handle<Function>, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32,
        shared: u32, stream: Handle<Stream>, pointers: In<usize>, extra: In<usize>,
    ) {
        let shape = Launch::new([grid_x, grid_y, grid_z], [block_x, block_y, block_z]).dynamic_shared(shared);
        launch(function, shape, stream, (pointers, extra))
    }
    11060 cuLaunchKernelEx | cuLaunchKernelEx_ptsz: (
        config: In<LaunchConfig>, function: Handle<Function>, pointers: In<usize>, extra: In<usize>,
    ) {
        let config = config.get()?;
        let shape = Launch::new(config.grid, config.block).dynamic_shared(config.shared_bytes);
        let shape = launch_attributes(shape, config.attributes, config.attribute_count)?;
        launch(function, shape, Handle::new(config.stream), (pointers, extra))
    }
    9000 cuLaunchCooperativeKernel | cuLaunchCooperativeKernel_ptsz: (
        function: Handle<Function>, grid_x: u32, grid_y: u32, grid_z: u32, block_x: u32, block_y: u32, block_z: u32,
        shared: u32, stream: Handle<Stream>, pointers: In<usize>,
    ) {
        let shape = Launch::new([grid_x, grid_y, grid_z], [block_x, block_y, block_z]).dynamic_shared(shared);
        launch(function, shape.cooperative(), stream, (pointers, In::at_address(0)))
    }
    10000 cuLaunchHostFunc | cuLaunchHostFunc_ptsz: (stream: Handle<Stream>, function: HostFunction, argument: usize) {
        if function.is_none() { return Err(Status::INVALID_VALUE) }
        Stream::of(stream)?.enqueue(Work::Host(function, argument))
    }
    6050 cuOccupancyMaxActiveBlocksPerMultiprocessor: (
        count: Out<c_int>, function: Handle<Function>, threads: c_int, shared: usize,
    ) {
        resident(count, function, threads, shared)
    }
    7000 cuOccupancyMaxActiveBlocksPerMultiprocessorWithFlags: (
        count: Out<c_int>, function: Handle<Function>, threads: c_int, shared: usize, flags: u32,
    ) {
        if flags > 1 { return Err(Status::INVALID_VALUE) }
        resident(count, function, threads, shared)
    }
    6050 cuOccupancyMaxPotentialBlockSize: (
        grid: Out<c_int>, block: Out<c_int>, function: Handle<Function>, of_block: SharedOfBlock, shared: usize,
        limit: c_int,
    ) {
        best_block(grid, block, function, (of_block, shared), limit)
    }
    7000 cuOccupancyMaxPotentialBlockSizeWithFlags: (
        grid: Out<c_int>, block: Out<c_int>, function: Handle<Function>, of_block: SharedOfBlock, shared: usize,
        limit: c_int, flags: u32,
    ) {
        if flags > 1 { return Err(Status::INVALID_VALUE) }
        best_block(grid, block, function, (of_block, shared), limit)
    }
    11000 cuOccupancyAvailableDynamicSMemPerBlock: (
        bytes: Out<usize>, function: Handle<Function>, ctas: c_int, threads: c_int,
    ) {
        current()?;
        let function = FUNCTIONS.get(function)?;
        if ctas <= 0 || threads <= 0 { return Err(Status::INVALID_VALUE) }
        let fits = |bytes: u32| function.ctas_per_sm(threads as u32, bytes) >= ctas as u32;
        let most = crate::function::capability()?.shared_bytes_per_cta_opt_in;
        let largest = (0..=most / 128).rev().map(|units| units * 128).find(|bytes| fits(*bytes));
        bytes.set(largest.unwrap_or(0) as usize)
    }
    11070 cuOccupancyMaxPotentialClusterSize: (size: Out<c_int>, function: Handle<Function>, config: In<LaunchConfig>) {
        current()?;
        config.get()?;
        let (opts_in, capability) = (FUNCTIONS.get(function)?.attribute(14)? != 0, crate::function::capability()?);
        size.set(if opts_in { capability.ctas_per_cluster_opt_in } else { capability.ctas_per_cluster } as c_int)
    }
    11070 cuOccupancyMaxActiveClusters: (count: Out<c_int>, function: Handle<Function>, config: In<LaunchConfig>) {
        clusters(count, function, config)
    }
}
