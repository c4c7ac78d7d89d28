//! Launches, attributes of kernels, and occupancy.

use std::cell::RefCell;
use std::ffi::c_int;

use warpwright_runtime::Launch;

use super::registry::function;
use crate::driver::structures::{LaunchAttribute, LaunchConfig, launch_attributes};
use crate::edge::{HostFunction, In, Out, functions};
use crate::handles::Handle;
use crate::launch::{KernelLaunch, parameters};
use crate::status::{Result, Status};
use crate::stream::Stream;
use crate::work::Work;

/// `dim3`, which C passes in two registers.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Dim3 {
    x: u32,
    y: u32,
    z: u32,
}

impl Dim3 {
    fn extents(self) -> [u32; 3] {
        [self.x, self.y, self.z]
    }
}

/// The shape of the next launch of `<<<>>>`.
#[derive(Clone, Copy)]
struct Configuration {
    grid: Dim3,
    block: Dim3,
    shared: usize,
    stream: usize,
}

thread_local! {
    static PUSHED: RefCell<Vec<Configuration>> = const { RefCell::new(Vec::new()) };
}

fn launch(address: usize, launch: Launch, stream: usize, pointers: In<usize>) -> Result<()> {
    let stream = Stream::of(Handle::new(stream))?;
    let function = function(address)?;
    let parameters = parameters(&function, pointers, In::at_address(0))?;
    // What the driver calls an invalid value of a shape is an invalid configuration here.
    let kernel = KernelLaunch::new(function, launch, parameters).map_err(|status| match status {
        Status::INVALID_VALUE => Status::INVALID_CONFIGURATION,
        status => status,
    });
    stream.enqueue(Work::Launch(kernel?))
}

fn shape(grid: Dim3, block: Dim3, shared: usize) -> Result<Launch> {
    let shared = u32::try_from(shared).map_err(|_| Status::INVALID_CONFIGURATION)?;
    Ok(Launch::new(grid.extents(), block.extents()).dynamic_shared(shared))
}

/// `cudaLaunchConfig_t`
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Config {
    grid: Dim3,
    block: Dim3,
    shared: usize,
    stream: usize,
    attributes: In<LaunchAttribute>,
    count: u32,
}

impl Config {
    fn launch(&self) -> Result<Launch> {
        launch_attributes(shape(self.grid, self.block, self.shared)?, self.attributes, self.count)
    }

    fn of_driver(self) -> LaunchConfig {
        LaunchConfig {
            grid: self.grid.extents(),
            block: self.block.extents(),
            shared_bytes: self.shared as u32,
            stream: self.stream,
            attributes: self.attributes,
            attribute_count: self.count,
        }
    }
}

/// `cudaFuncAttributes`
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct FunctionAttributes {
    shared: usize,
    constant: usize,
    local: usize,
    /// Threads, registers, PTX version, binary version, cache mode, dynamic shared memory, carveout, then the clusters'.
    others: [c_int; 13],
    reserved: [c_int; 15],
}

/// Keeps the shape of the next launch. Returns whether it cannot be launched.
#[unsafe(no_mangle)]
extern "C" fn __cudaPushCallConfiguration(grid: Dim3, block: Dim3, shared: usize, stream: usize) -> u32 {
    PUSHED.with_borrow_mut(|pushed| pushed.push(Configuration { grid, block, shared, stream }));
    0
}

functions! { super::guard; TABLE:
    9020 __cudaPopCallConfiguration: (grid: Out<Dim3>, block: Out<Dim3>, shared: Out<usize>, stream: Out<usize>) {
        let popped = PUSHED.with_borrow_mut(|pushed| pushed.pop()).ok_or(Status::MISSING_CONFIGURATION)?;
        grid.set(popped.grid)?;
        block.set(popped.block)?;
        shared.set(popped.shared)?;
        stream.set(popped.stream)
    }
    7000 cudaLaunchKernel | cudaLaunchKernel_ptsz: (
        address: usize, grid: Dim3, block: Dim3, pointers: In<usize>, shared: usize, stream: usize,
    ) {
        launch(address, shape(grid, block, shared)?, stream, pointers)
    }
    12000 __cudaLaunchKernel | __cudaLaunchKernel_ptsz: (
        address: usize, grid: Dim3, block: Dim3, pointers: In<usize>, shared: usize, stream: usize,
    ) {
        launch(address, shape(grid, block, shared)?, stream, pointers)
    }
    9000 cudaLaunchCooperativeKernel | cudaLaunchCooperativeKernel_ptsz: (
        address: usize, grid: Dim3, block: Dim3, pointers: In<usize>, shared: usize, stream: usize,
    ) {
        launch(address, shape(grid, block, shared)?.cooperative(), stream, pointers)
    }
    11060 cudaLaunchKernelExC | cudaLaunchKernelExC_ptsz: (config: In<Config>, address: usize, pointers: In<usize>) {
        let config = config.get()?;
        launch(address, config.launch()?, config.stream, pointers)
    }
    10000 cudaLaunchHostFunc | cudaLaunchHostFunc_ptsz: (stream: usize, function: HostFunction, argument: usize) {
        crate::driver::launch::cuLaunchHostFunc(Handle::new(stream), function, argument).ok()
    }
    2000 cudaFuncGetAttributes: (attributes: Out<FunctionAttributes>, address: usize) {
        let function = function(address)?;
        let attribute = |number| function.attribute(number);
        let numbers = [0, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 15, 14];
        let mut others = [0; 13];
        for (value, number) in others.iter_mut().zip(numbers) {
            *value = attribute(number)?;
        }
        attributes.set(FunctionAttributes {
            shared: attribute(1)? as usize,
            constant: attribute(2)? as usize,
            local: attribute(3)? as usize,
            others,
            reserved: [0; 15],
        })
    }
    9000 cudaFuncSetAttribute: (address: usize, attribute: c_int, value: c_int) {
        function(address)?.set_attribute(attribute, value)
    }
    3000 cudaFuncSetCacheConfig: (address: usize, _config: c_int) { function(address).map(|_| ()) }
    4020 cudaFuncSetSharedMemConfig: (address: usize, _config: c_int) { function(address).map(|_| ()) }
    12040 cudaFuncGetParamInfo: (address: usize, index: usize, offset: Out<usize>, bytes: Out<usize>) {
        let function = function(address)?;
        let (start, size) = *function.parameters.get(index).ok_or(Status::INVALID_VALUE)?;
        offset.set(start)?;
        bytes.set_if_wanted(size);
        Ok(())
    }
    12030 cudaFuncGetName: (name: Out<*const std::ffi::c_char>, address: usize) {
        name.set(crate::driver::leaked(function(address)?.loaded.name()))
    }
    6050 cudaOccupancyMaxActiveBlocksPerMultiprocessor: (
        count: Out<c_int>, address: usize, threads: c_int, shared: usize,
    ) {
        let function = Handle::new(function(address)?.number);
        crate::driver::launch::cuOccupancyMaxActiveBlocksPerMultiprocessor(count, function, threads, shared).ok()
    }
    7000 cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags: (
        count: Out<c_int>, address: usize, threads: c_int, shared: usize, flags: u32,
    ) {
        if flags > 1 { return Err(Status::INVALID_VALUE) }
        let function = Handle::new(function(address)?.number);
        crate::driver::launch::cuOccupancyMaxActiveBlocksPerMultiprocessor(count, function, threads, shared).ok()
    }
    11000 cudaOccupancyAvailableDynamicSMemPerBlock: (
        bytes: Out<usize>, address: usize, ctas: c_int, threads: c_int,
    ) {
        let function = Handle::new(function(address)?.number);
        crate::driver::launch::cuOccupancyAvailableDynamicSMemPerBlock(bytes, function, ctas, threads).ok()
    }
    11070 cudaOccupancyMaxPotentialClusterSize: (size: Out<c_int>, address: usize, config: In<Config>) {
        config.get()?;
        let (function, capability) = (function(address)?, crate::function::capability()?);
        let opts_in = function.attribute(14)? != 0;
        size.set(if opts_in { capability.ctas_per_cluster_opt_in } else { capability.ctas_per_cluster } as c_int)
    }
    11070 cudaOccupancyMaxActiveClusters: (count: Out<c_int>, address: usize, config: In<Config>) {
        let config = config.get()?.of_driver();
        let function = Handle::new(function(address)?.number);
        let config = In::at_address((&raw const config).expose_provenance());
        crate::driver::launch::cuOccupancyMaxActiveClusters(count, function, config).ok()
    }
}
