//! Rows 8, 15 and 17 on tiles with layouts: the report says which element of which tile an address
//! is.

use warpwright::arch::tensor_map::Swizzle as MapSwizzle;
use warpwright::lang::pointer::Out;
use warpwright::lang::tensor_map::OutTensorMap;
use warpwright::prelude::*;
use warpwright::runtime::{Buffer, Device, Error, TensorMap as Map};

use crate::faults::fault::{Staged, Twin, faults, input, run};

faults! {
    swizzled_tile_without_a_barrier: [8], "race", run(1, 64, |i| input(8 * (i % 8) + i / 8));
    tile_in_the_place_of_another: [8], "race", run(1, 64, |i| input(63 - i));
    buffer_stored_without_a_proxy_fence: [17], "proxy-fence", run_on_a_map;
    tensor_read_before_the_store_is_over: [15], "in-flight", run_on_a_map_and_its_matrix;
}

impl Twin {
    /// Transposes 8 x 8 elements by way of a swizzled tile.
    #[kernel]
    fn swizzled_tile_without_a_barrier(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let tile =
            Tensor::swizzled(shared_array::<u32>(64), Layout::row_major((8, 8)), Swizzle::new(3, 0, 3));
        let thread = thread_idx().x;
        tile.set((thread / 8, thread % 8), input[thread]); // (2)
        if self.mended {
            sync_threads();
        }
        output[thread] = tile.get((thread % 8, thread / 8)); // (1)
    }

    /// Reverses 64 elements, the first half by one tile, the second by another one that has the
    /// same memory.
    #[kernel]
    fn tile_in_the_place_of_another(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let memory = dynamic_shared::<u32>(64);
        let wide = Tensor::with_layout(memory, Layout::row_major((2, 32)));
        let tall = Tensor::with_layout(memory, Layout::row_major((32, 2)));
        let thread = thread_idx().x;
        wide.set((thread / 32, thread % 32), input[thread]);
        sync_threads();
        let reversed = wide.get(((63 - thread) / 32, (63 - thread) % 32)); // (2)
        if self.mended {
            sync_threads();
        }
        tall.set((thread / 2, thread % 2), reversed); // (1)
        output[thread] = tall.get((thread / 2, thread % 2));
    }

    /// Fills a buffer, and stores it as one of the matrix's tiles.
    #[kernel]
    fn buffer_stored_without_a_proxy_fence(&self, matrix: &mut TensorMap) {
        let buffers = StoreBuffers::<u32>::new(TmaTile::new::<u32>((8, 32), Major::K), 2);
        let thread = thread_idx().x;
        for row in 0..4 {
            buffers.tensor().set((thread / 32 + 2 * row, thread % 32, 1), thread + 64 * row); // (2)
        }
        if self.mended {
            fence_proxy_async_shared();
        }
        sync_threads();
        if thread == 0 {
            buffers.store(matrix, (constant(0u32), constant(0u32)), 1); // (1)
            bulk_commit();
            bulk_wait(0);
        }
    }

    /// Stores a tile, and reads the matrix before the store is known to be over.
    #[kernel]
    fn tensor_read_before_the_store_is_over(&self, map: &mut TensorMap, matrix: &mut Global<u32>) {
        let buffers = StoreBuffers::<u32>::new(TmaTile::new::<u32>((8, 32), Major::K), 1);
        let thread = thread_idx().x;
        for row in 0..4 {
            buffers.tensor().set((thread / 32 + 2 * row, thread % 32, 0), thread + 64 * row);
        }
        fence_proxy_async_shared();
        sync_threads();
        if thread == 0 {
            buffers.store(map, (constant(0u32), constant(0u32)), 0); // (2)
            bulk_commit();
            if self.mended {
                bulk_wait(0);
            }
            matrix[255] = matrix[33] + 222; // (1)
            bulk_wait(0);
        }
    }
}

/// A matrix of 8 rows and 32 columns, and the map of all of it.
fn matrix(device: &Device) -> Result<(Buffer<u32>, Map), Error> {
    let mut buffer = device.zeros::<u32>(256)?;
    let map = Map::row_major(&mut buffer, &[8, 32], &[8, 32], MapSwizzle::Bytes128)?;
    Ok((buffer, map))
}

/// Runs a kernel that numbers the elements of a matrix by its map.
fn run_on_a_map(device: &Device, kernel: Staged<(OutTensorMap,)>) -> Result<(), Error> {
    let kernel = device.compile(&kernel.expect("it is staged"))?;
    let (numbers, mut map) = matrix(device)?;
    kernel.launch(&device.stream()?, kernel.shape(1).block(64), (&mut map,))?;
    assert_eq!(numbers.to_vec()?, (0..256).collect::<Vec<_>>());
    Ok(())
}

/// The same, for one that has the address of the matrix, too.
fn run_on_a_map_and_its_matrix(
    device: &Device,
    kernel: Staged<(OutTensorMap, Out<u32>)>,
) -> Result<(), Error> {
    let kernel = device.compile(&kernel.expect("it is staged"))?;
    let (mut numbers, mut map) = matrix(device)?;
    kernel.launch(&device.stream()?, kernel.shape(1).block(64), (&mut map, &mut numbers))?;
    assert_eq!(numbers.to_vec()?, (0..256).collect::<Vec<_>>());
    Ok(())
}
