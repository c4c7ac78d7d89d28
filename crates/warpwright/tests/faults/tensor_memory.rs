//! Rows 21, 22 and 24: Blackwell's tensor memory, what computes in it, and who may touch it when.

use warpwright::arch::DataType;
use warpwright::lang::pointer::Out;
use warpwright::lang::ptx;
use warpwright::prelude::*;
use warpwright::runtime::{Device, Error};

use crate::faults::fault::{Staged, Twin, faults};
use crate::faults::operands::{memory_of, tile_in, tile_of_ones};

faults! {
    on "b200";
    product_read_without_a_fence: [21], "tensor-fence", run;
    product_read_behind_a_barrier: [19, 21], "in-flight", run;
    product_that_is_not_committed: [21, 18], "in-flight", run;
    registers_used_before_their_load: [21], "in-flight", run;
    registers_used_behind_a_barrier: [21, 19], "in-flight", run;
    cells_read_before_their_store: [21], "in-flight", run;
    cells_multiplied_again_while_they_are_read: [21, 16], "tensor-fence", run;
    rows_of_another_warp: [21], "tensor-memory", run;
    columns_that_nobody_gives_back: [21], "leak", run;
    columns_given_back_in_use: [21, 23], "in-flight", run;
    columns_past_the_allocation: [21, 23], "out-of-bounds", run;
    columns_asked_for_after_the_permit: [21], "tensor-memory", run;
    multiply_that_every_lane_issues: [21], "tensor-memory", run;
    groups_of_one_cta_and_of_two: [22], "tensor-memory", run;
    accumulator_that_nothing_has_written: [24], "uninitialized", run;
    columns_loaded_past_the_product: [24, 21], "uninitialized", run;
    operands_the_tensor_core_does_not_see: [17, 21], "proxy-fence", run;
}

/// The columns that D of [`Product`] takes.
const COLUMNS: u32 = 32;
/// Each element of it.
const SUM: u32 = 64.0f32.to_bits();
const ALONE: CtaGroup = CtaGroup::One;

/// The product of two tiles of ones in tensor memory: 64 in each of 128 rows and 16 columns.
struct Product {
    mma: TensorCoreMma,
    a: MatrixOperand,
    b: MatrixOperand,
    columns: TensorMemory,
    done: Mbarrier,
}

impl Product {
    /// Columns for it, tiles, and an mbarrier; all threads know of them.
    #[device]
    fn prepared() -> Self {
        launch::threads(128);
        let (slot, done) = (shared_array::<u32>(1), Mbarrier::new());
        let types = TensorCoreTypes { a: DataType::Bf16, b: DataType::Bf16, d: DataType::F32 };
        let mma = TensorCoreMma::new(ALONE, types, 128, 16);
        let (a, b) = (tile_of_ones(128), tile_of_ones(16));
        let whole = || (All, All, 0i64);
        let (a, b) = (mma.a_operand(&a).slice(whole()), mma.b_operand(&b).slice(whole()));
        if thread_idx().x == 0 {
            done.init(1);
            fence_mbarrier_init();
        }
        if thread_idx().x < 32 {
            allocate_tensor_memory(ALONE, COLUMNS, slot);
        }
        fence_proxy_async_shared();
        tensor_fence_before_sync();
        sync_threads();
        tensor_fence_after_sync();
        Self { mma, a, b, columns: TensorMemory::at(slot), done }
    }

    /// One thread begins to multiply.
    #[track_caller]
    fn multiply(&self) {
        self.mma.issue(self.columns, &self.a, &self.b, Accumulate::No);
    }

    /// The columns, from the rows of the thread's warp on.
    #[device]
    fn own_rows(&self) -> TensorMemory {
        self.columns.row((thread_idx().x / 32) * 32)
    }

    /// Gives the columns back, when all threads are done with them.
    #[device]
    fn free(&self) {
        tensor_fence_before_sync();
        sync_threads();
        if thread_idx().x < 32 {
            self.columns.free(ALONE, COLUMNS);
        }
    }
}

impl Twin {
    /// Reads the product after the wait for it, which may come before that all the same.
    #[kernel]
    fn product_read_without_a_fence(&self, output: &mut Global<u32>) {
        let product = Product::prepared();
        if thread_idx().x == 0 {
            product.multiply(); // (2)
            commit_tensor_core(ALONE, product.done);
        }
        product.done.wait_parity(0);
        if self.mended {
            tensor_fence_after_sync();
        }
        let [sum] = product.own_rows().load(); // (1)
        wait_tensor_loads();
        output[thread_idx().x] = sum;
        product.free();
    }

    /// Reads the product behind a barrier of threads, which says that it was begun.
    #[kernel]
    fn product_read_behind_a_barrier(&self, output: &mut Global<u32>) {
        let product = Product::prepared();
        if thread_idx().x == 0 {
            product.multiply(); // (2)
            commit_tensor_core(ALONE, product.done);
        }
        sync_threads();
        if self.mended {
            product.done.wait_parity(0);
        }
        tensor_fence_after_sync();
        let [sum] = product.own_rows().load(); // (1)
        wait_tensor_loads();
        output[thread_idx().x] = sum;
        product.done.wait_parity(0);
        product.free();
    }

    /// Waits for an mbarrier to which only the first of two multiplies is committed.
    #[kernel]
    fn product_that_is_not_committed(&self, output: &mut Global<u32>) {
        let product = Product::prepared();
        if thread_idx().x == 0 {
            if !self.mended {
                commit_tensor_core(ALONE, product.done);
            }
            product.multiply(); // (2)
            if self.mended {
                commit_tensor_core(ALONE, product.done);
            }
        }
        product.done.wait_parity(0);
        tensor_fence_after_sync();
        let [sum] = product.own_rows().load(); // (1)
        wait_tensor_loads();
        output[thread_idx().x] = sum;
        product.free();
    }

    /// Stores what a load has not brought yet.
    #[kernel]
    fn registers_used_before_their_load(&self, output: &mut Global<u32>) {
        let product = Product::prepared();
        if thread_idx().x == 0 {
            product.multiply();
            commit_tensor_core(ALONE, product.done);
        }
        product.done.wait_parity(0);
        tensor_fence_after_sync();
        let [sum] = product.own_rows().load(); // (2)
        if self.mended {
            wait_tensor_loads();
        }
        output[thread_idx().x] = sum; // (1)
        wait_tensor_loads();
        product.free();
    }

    /// The same behind a barrier: threads have synchronized, and loads are in flight.
    #[kernel]
    fn registers_used_behind_a_barrier(&self, output: &mut Global<u32>) {
        let product = Product::prepared();
        if thread_idx().x == 0 {
            product.multiply();
            commit_tensor_core(ALONE, product.done);
        }
        product.done.wait_parity(0);
        tensor_fence_after_sync();
        let [sum] = product.own_rows().load(); // (2)
        if self.mended {
            wait_tensor_loads();
        }
        sync_threads();
        output[thread_idx().x] = sum; // (1)
        wait_tensor_loads();
        product.free();
    }

    /// Loads cells that the warp has just stored, without waiting for the store.
    #[kernel]
    fn cells_read_before_their_store(&self, output: &mut Global<u32>) {
        let product = Product::prepared();
        product.own_rows().store([constant(SUM)]); // (2)
        if self.mended {
            wait_tensor_stores();
        }
        let [sum] = product.own_rows().load(); // (1)
        wait_tensor_loads();
        wait_tensor_stores();
        output[thread_idx().x] = sum;
        product.free();
    }

    /// Begins the next product when all have read the last one, which the tensor core may do before
    /// that.
    #[kernel]
    fn cells_multiplied_again_while_they_are_read(&self, output: &mut Global<u32>) {
        let product = Product::prepared();
        let again = Mbarrier::new();
        if thread_idx().x == 0 {
            again.init(1);
            product.multiply();
            commit_tensor_core(ALONE, product.done);
        }
        product.done.wait_parity(0);
        tensor_fence_after_sync();
        let [sum] = product.own_rows().load(); // (2)
        wait_tensor_loads();
        output[thread_idx().x] = sum;
        tensor_fence_before_sync();
        sync_threads();
        if thread_idx().x == 0 {
            if self.mended {
                tensor_fence_after_sync();
            }
            product.multiply(); // (1)
            commit_tensor_core(ALONE, again);
        }
        again.wait_parity(0);
        product.free();
    }

    /// All four warps reach for the first rows.
    #[kernel]
    fn rows_of_another_warp(&self, output: &mut Global<u32>) {
        let product = Product::prepared();
        if thread_idx().x == 0 {
            product.multiply();
            commit_tensor_core(ALONE, product.done);
        }
        product.done.wait_parity(0);
        tensor_fence_after_sync();
        let rows = if self.mended { product.own_rows() } else { product.columns };
        let [sum] = rows.load(); // (1)
        wait_tensor_loads();
        output[thread_idx().x] = sum;
        product.free();
    }

    /// Keeps its columns.
    #[kernel]
    fn columns_that_nobody_gives_back(&self, output: &mut Global<u32>) {
        let product = Product::prepared();
        let second = shared_array::<u32>(1);
        if thread_idx().x < 32 {
            allocate_tensor_memory(ALONE, 64, second); // (1)
        }
        if thread_idx().x == 0 {
            product.multiply();
            commit_tensor_core(ALONE, product.done);
        }
        product.done.wait_parity(0);
        tensor_fence_after_sync();
        let [sum] = product.own_rows().load();
        wait_tensor_loads();
        output[thread_idx().x] = sum;
        product.free();
        if self.mended {
            if thread_idx().x < 32 {
                TensorMemory::at(second).free(ALONE, 64);
            }
        }
    }

    /// One warp gives the columns back while others read them.
    #[kernel]
    fn columns_given_back_in_use(&self, output: &mut Global<u32>) {
        let product = Product::prepared();
        if thread_idx().x == 96 {
            product.multiply(); // (2)
            commit_tensor_core(ALONE, product.done);
        }
        if self.mended {
            product.done.wait_parity(0);
        }
        sync_threads();
        output[thread_idx().x] = constant(SUM);
        if thread_idx().x < 32 {
            product.columns.free(ALONE, COLUMNS); // (1)
        }
        product.done.wait_parity(0);
    }

    /// Reads columns that another kernel may have.
    #[kernel]
    fn columns_past_the_allocation(&self, output: &mut Global<u32>) {
        let product = Product::prepared();
        product.own_rows().store([constant(SUM)]);
        wait_tensor_stores();
        let [sum] = product.own_rows().column(constant(self.number(32, 0))).load(); // (1)
        wait_tensor_loads();
        output[thread_idx().x] = sum;
        product.free();
    }

    /// Asks for more columns when the CTA has said that it will not.
    #[kernel]
    fn columns_asked_for_after_the_permit(&self, output: &mut Global<u32>) {
        let product = Product::prepared();
        let second = shared_array::<u32>(1);
        if thread_idx().x < 32 {
            if !self.mended {
                relinquish_tensor_memory(ALONE); // (1)
            }
            allocate_tensor_memory(ALONE, 64, second); // (2)
            relinquish_tensor_memory(ALONE);
            TensorMemory::at(second).free(ALONE, 64);
        }
        output[thread_idx().x] = constant(SUM);
        product.free();
    }

    /// A whole warp issues the multiply, which one thread should: the tensor core would add 32
    /// products.
    #[kernel]
    fn multiply_that_every_lane_issues(&self, output: &mut Global<u32>) {
        let product = Product::prepared();
        // How many threads that are is not known when the kernel is built.
        let issuing = block_dim().x / self.number(4, 128);
        if thread_idx().x < issuing {
            product.multiply(); // (1)
            commit_tensor_core(ALONE, product.done);
        }
        product.done.wait_parity(0);
        output[thread_idx().x] = constant(SUM);
        product.free();
    }

    /// Commits for a pair of CTAs what it has multiplied alone.
    #[kernel]
    fn groups_of_one_cta_and_of_two(&self, output: &mut Global<u32>) {
        let slot = shared_array::<u32>(1);
        if thread_idx().x < 32 {
            allocate_tensor_memory(CtaGroup::One, 32, slot); // (2)
            if self.mended {
                TensorMemory::at(slot).free(CtaGroup::One, 32);
            } else {
                let columns = slot.load();
                ptx!("tcgen05.dealloc.cta_group::2.sync.aligned.b32 {columns}, 32;", columns = columns); // (1)
            }
        }
        output[thread_idx().x] = constant(SUM);
    }

    /// Adds to what nothing has written.
    #[kernel]
    fn accumulator_that_nothing_has_written(&self, output: &mut Global<u32>) {
        let product = Product::prepared();
        let accumulate = if self.mended { Accumulate::No } else { Accumulate::Yes };
        if thread_idx().x == 0 {
            product.mma.issue(product.columns, &product.a, &product.b, accumulate); // (1)
            commit_tensor_core(ALONE, product.done);
        }
        product.done.wait_parity(0);
        tensor_fence_after_sync();
        let [sum] = product.own_rows().load();
        wait_tensor_loads();
        output[thread_idx().x] = sum;
        product.free();
    }

    /// Loads a column past the 16 that the product takes.
    #[kernel]
    fn columns_loaded_past_the_product(&self, output: &mut Global<u32>) {
        let product = Product::prepared();
        if thread_idx().x == 0 {
            product.multiply();
            commit_tensor_core(ALONE, product.done);
        }
        product.done.wait_parity(0);
        tensor_fence_after_sync();
        let [sum, _] = product.own_rows().column(self.number(15, 14)).load(); // (1)
        wait_tensor_loads();
        output[thread_idx().x] = sum;
        product.free();
    }

    /// Multiplies what threads have written, which the asynchronous proxy has not seen.
    #[kernel]
    fn operands_the_tensor_core_does_not_see(&self, output: &mut Global<u32>) {
        let product = Product::prepared();
        let memory = memory_of(128);
        let a = tile_in(memory, 128);
        for word in 0..32 {
            memory[thread_idx().x + word * 128] = constant(0x3f80_3f80u32); // (2)
        }
        if self.mended {
            fence_proxy_async_shared();
        }
        sync_threads();
        if thread_idx().x == 0 {
            let a = product.mma.a_operand(&a).slice((All, All, 0i64));
            product.mma.issue(product.columns, &a, &product.b, Accumulate::No); // (1)
            commit_tensor_core(ALONE, product.done);
        }
        product.done.wait_parity(0);
        tensor_fence_after_sync();
        let [sum] = product.own_rows().load();
        wait_tensor_loads();
        output[thread_idx().x] = sum;
        product.free();
    }
}

/// Runs a kernel whose product is 64 in every element, of which each thread writes one.
fn run(device: &Device, kernel: Staged<(Out<u32>,)>) -> Result<(), Error> {
    let kernel = device.compile(&kernel.expect("it is staged"))?;
    let mut output = device.zeros::<u32>(128)?;
    kernel.launch(&device.stream()?, kernel.shape(1).block(128), (&mut output,))?;
    assert_eq!(output.to_vec()?, [SUM; 128]);
    Ok(())
}
