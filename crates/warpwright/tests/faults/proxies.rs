//! Rows 17 and 27: what threads wrote, and the asynchronous proxy does not see; tensor maps.

use warpwright::arch::tensor_map::Swizzle as MapSwizzle;
use warpwright::lang::pointer::{In, Out};
use warpwright::lang::tensor_map::OutTensorMap;
use warpwright::prelude::*;
use warpwright::runtime::{Buffer, Device, Error, TensorMap as Map};

use crate::faults::fault::{Staged, Twin, faults, input, run};

faults! {
    store_of_what_threads_wrote: [17], "proxy-fence", run(1, 64, |i| input(i) + 1);
    fence_before_the_write: [17], "proxy-fence", run(1, 64, |i| input(i) + 1);
    fence_by_one_thread: [17], "proxy-fence", run(1, 64, |i| input(i) + 1);
    memory_fence_for_a_proxy_fence: [17], "proxy-fence", run(1, 64, |i| input(i) + 1);
    load_of_what_threads_wrote: [17], "proxy-fence", run(1, 64, |i| input(63 - i));
    tensor_store_of_what_threads_wrote: [17], "proxy-fence", run_on_maps;
    tensor_map_used_unacquired: [27, 17], "proxy-fence", run_on_a_map_in_memory;
    tensor_map_changed_in_use: [27], "in-flight", run_on_a_map_in_memory;
    tensor_map_at_an_odd_address: [27, 23], "misaligned", run_on_a_map_in_memory;
    tensor_map_in_shared_memory: [27], "illegal-instruction", run_on_a_map_in_memory;
}

/// An mbarrier for one arrival that one thread has initialized, and all know.
#[device]
fn ready() -> Mbarrier {
    let barrier = Mbarrier::new();
    if thread_idx().x == 0 {
        barrier.init(1);
        fence_mbarrier_init();
    }
    sync_threads();
    barrier
}

impl Twin {
    /// Adds 1 to 64 elements and stores them by a bulk copy.
    #[kernel]
    fn store_of_what_threads_wrote(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let row = dynamic_shared_aligned::<u32>(64, 128);
        let thread = thread_idx().x;
        row[thread] = input[thread] + 1; // (2)
        if self.mended {
            fence_proxy_async_shared();
        }
        sync_threads();
        if thread == 0 {
            bulk::store(*output, 64, row); // (1)
            bulk_commit();
            bulk_wait(0);
        }
    }

    /// The same; the fence is there, and fences nothing.
    #[kernel]
    fn fence_before_the_write(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let row = dynamic_shared_aligned::<u32>(64, 128);
        let thread = thread_idx().x;
        if !self.mended {
            fence_proxy_async_shared();
        }
        row[thread] = input[thread] + 1; // (2)
        if self.mended {
            fence_proxy_async_shared();
        }
        sync_threads();
        if thread == 0 {
            bulk::store(*output, 64, row); // (1)
            bulk_commit();
            bulk_wait(0);
        }
    }

    /// The same; one thread fences before the barrier, which is for itself alone.
    #[kernel]
    fn fence_by_one_thread(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let row = dynamic_shared_aligned::<u32>(64, 128);
        let thread = thread_idx().x;
        row[thread] = input[thread] + 1; // (2)
        if self.mended {
            fence_proxy_async_shared();
        } else if thread == 0 {
            fence_proxy_async_shared();
        }
        sync_threads();
        if thread == 0 {
            bulk::store(*output, 64, row); // (1)
            bulk_commit();
            bulk_wait(0);
        }
    }

    /// The same; the fence is one that orders plain accesses only.
    #[kernel]
    fn memory_fence_for_a_proxy_fence(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let row = dynamic_shared_aligned::<u32>(64, 128);
        let thread = thread_idx().x;
        row[thread] = input[thread] + 1; // (2)
        if self.mended {
            fence_proxy_async_shared();
        } else {
            fence_block();
        }
        sync_threads();
        if thread == 0 {
            bulk::store(*output, 64, row); // (1)
            bulk_commit();
            bulk_wait(0);
        }
    }

    /// Writes 64 elements to global memory, and has a bulk copy bring them back.
    #[kernel]
    fn load_of_what_threads_wrote(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let (row, full) = (dynamic_shared_aligned::<u32>(64, 128), ready());
        let thread = thread_idx().x;
        output[thread] = input[thread]; // (2)
        if self.mended {
            fence_proxy_async_global();
        }
        sync_threads();
        if thread == 0 {
            full.arrive_and_expect(256);
            bulk::load(*output, 64, row, full); // (1)
        }
        full.wait_parity(0);
        output[thread] = row[63 - thread];
    }

    /// Adds 1 to a tile on its way from one tensor to another.
    #[kernel]
    fn tensor_store_of_what_threads_wrote(&self, source: &TensorMap, target: &mut TensorMap) {
        let (tile, full) = (dynamic_shared_aligned::<u32>(64, 128), ready());
        let thread = thread_idx().x;
        for map in [*source, *target] {
            map.boxes(TmaTile::dense::<u32>((4, 16), Major::K));
        }
        if thread == 0 {
            full.arrive_and_expect(256);
            tma::load(*source, [0, 0], tile, full);
        }
        full.wait_parity(0);
        tile[thread] += 1; // (2)
        if self.mended {
            fence_proxy_async_shared();
        }
        sync_threads();
        if thread == 0 {
            tma::store(*target, [0, 0], tile); // (1)
            bulk_commit();
            bulk_wait(0);
        }
    }

    /// Copies a tensor map into memory of its own, and loads by it.
    #[kernel]
    fn tensor_map_used_unacquired(&self, maps: &Global<u8>, copy: &mut Global<u8>, output: &mut Global<u32>) {
        let (tile, full) = (dynamic_shared_aligned::<u32>(64, 128), ready());
        let thread = thread_idx().x;
        let map = TensorMap::in_global(*copy);
        if thread < 32 {
            copy.cast::<u32>()[thread] = maps.cast::<u32>()[thread]; // (2)
            if self.mended {
                fence_tensor_map_release(Scope::Block);
            }
        }
        sync_threads();
        if thread == 0 {
            if self.mended {
                fence_tensor_map_acquire(map, Scope::Block);
            }
            full.arrive_and_expect(256);
            tma::load(map, [0, 0], tile, full); // (1)
        }
        full.wait_parity(0);
        output[thread] = tile[thread];
    }

    /// Overwrites a tensor map when a load by it has been issued.
    #[kernel]
    fn tensor_map_changed_in_use(&self, maps: &Global<u8>, copy: &mut Global<u8>, output: &mut Global<u32>) {
        let (tile, full) = (dynamic_shared_aligned::<u32>(64, 128), ready());
        let thread = thread_idx().x;
        let map = TensorMap::in_global(*copy);
        if thread < 32 {
            copy.cast::<u32>()[thread] = maps.cast::<u32>()[thread];
            fence_tensor_map_release(Scope::Block);
        }
        sync_threads();
        if thread == 0 {
            fence_tensor_map_acquire(map, Scope::Block);
            full.arrive_and_expect(256);
            tma::load(map, [0, 0], tile, full); // (2)
            if self.mended {
                full.wait_parity(0);
            }
            copy.cast::<u32>()[0] = constant(0u32); // (1)
        }
        full.wait_parity(0);
        output[thread] = tile[thread];
    }

    /// Takes a tensor map that does not begin at a multiple of 64 bytes.
    #[kernel]
    fn tensor_map_at_an_odd_address(
        &self,
        maps: &Global<u8>,
        copy: &mut Global<u8>,
        output: &mut Global<u32>,
    ) {
        let (tile, full) = (dynamic_shared_aligned::<u32>(64, 128), ready());
        let thread = thread_idx().x;
        let start = copy.cast::<u32>() + self.number(8, 0);
        if thread < 32 {
            start[thread] = maps.cast::<u32>()[thread];
            fence_tensor_map_release(Scope::Block);
        }
        sync_threads();
        if thread == 0 {
            let map = TensorMap::in_global(start.cast::<u8>());
            fence_tensor_map_acquire(map, Scope::Block);
            full.arrive_and_expect(256);
            tma::load(map, [0, 0], tile, full); // (1)
        }
        full.wait_parity(0);
        output[thread] = tile[thread];
    }

    /// Copies a tensor map into shared memory, where no copy can use it.
    #[kernel]
    fn tensor_map_in_shared_memory(
        &self,
        maps: &Global<u8>,
        copy: &mut Global<u8>,
        output: &mut Global<u32>,
    ) {
        let (tile, full) = (dynamic_shared_aligned::<u32>(64, 128), ready());
        let near = dynamic_shared_aligned::<u32>(32, 128);
        let thread = thread_idx().x;
        if thread < 32 {
            near[thread] = maps.cast::<u32>()[thread];
            copy.cast::<u32>()[thread] = maps.cast::<u32>()[thread];
            fence_tensor_map_release(Scope::Block);
        }
        sync_threads();
        if thread == 0 {
            let place = if self.mended { *copy } else { near.generic().cast::<u8>().to_global() };
            let map = TensorMap::in_global(place);
            if self.mended {
                fence_tensor_map_acquire(map, Scope::Block);
            }
            full.arrive_and_expect(256);
            tma::load(map, [0, 0], tile, full); // (1)
        }
        full.wait_parity(0);
        output[thread] = tile[thread];
    }
}

/// A matrix of 4 rows and 16 columns, and the map of all of it.
fn matrix(device: &Device, element: impl Fn(u32) -> u32) -> Result<(Buffer<u32>, Map), Error> {
    let mut buffer = device.buffer_from(&(0..64).map(element).collect::<Vec<_>>())?;
    let map = Map::row_major(&mut buffer, &[4, 16], &[4, 16], MapSwizzle::None)?;
    Ok((buffer, map))
}

/// Runs a kernel that adds 1 to a matrix, by maps that are its parameters.
fn run_on_maps(device: &Device, kernel: Staged<(TensorMap, OutTensorMap)>) -> Result<(), Error> {
    let kernel = device.compile(&kernel.expect("it is staged"))?;
    let (_, source) = matrix(device, input)?;
    let (output, mut target) = matrix(device, |_| 0)?;
    kernel.launch(&device.stream()?, kernel.shape(1).block(64), (&source, &mut target))?;
    assert_eq!(output.to_vec()?, (0..64).map(|i| input(i) + 1).collect::<Vec<_>>());
    Ok(())
}

/// Runs a kernel that copies a matrix by a map in global memory, and has room for a copy of the
/// map.
fn run_on_a_map_in_memory(device: &Device, kernel: Staged<(In<u8>, Out<u8>, Out<u32>)>) -> Result<(), Error> {
    let kernel = device.compile(&kernel.expect("it is staged"))?;
    let (_, map) = matrix(device, input)?;
    let maps = device.buffer_from(&map.as_bytes()[..])?;
    let mut copy = device.zeros::<u8>(256)?;
    let mut output = device.zeros::<u32>(64)?;
    kernel.launch(&device.stream()?, kernel.shape(1).block(64), (&maps, &mut copy, &mut output))?;
    assert_eq!(output.to_vec()?, (0..64).map(input).collect::<Vec<_>>());
    Ok(())
}
