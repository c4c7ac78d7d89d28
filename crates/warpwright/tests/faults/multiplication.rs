//! Rows 17 to 19: `wgmma`, its operands in shared memory, and its registers.

use warpwright::lang::pointer::Out;
use warpwright::layout::Int;
use warpwright::prelude::*;
use warpwright::runtime::{Device, Error};

use crate::faults::fault::{Staged, Twin, faults};
use crate::faults::operands::{memory_of, tile_in, tile_of_ones, tile_written_by};

faults! {
    operands_written_without_a_proxy_fence: [17, 18], "proxy-fence", run;
    operands_written_without_a_barrier: [8, 18], "race", run;
    operand_overwritten_in_flight: [18, 16], "in-flight", run;
    operand_overwritten_behind_a_barrier: [19, 16], "in-flight", run;
    operand_refilled_behind_a_barrier: [18, 16], "in-flight", run;
    results_read_before_the_wait: [18], "in-flight", run;
    results_read_behind_a_barrier: [19], "in-flight", run;
    sums_cleared_in_flight: [18], "in-flight", run;
    wait_that_leaves_the_last_batch: [18, 20], "in-flight", run;
    batch_that_nobody_waits_for: [18], "leak", run;
    batch_without_a_fence: [18], "in-flight", run;
    sums_cleared_behind_the_fence: [18], "in-flight", run;
    batch_that_is_not_committed: [18, 20], "in-flight", run;
    operand_that_nothing_fills: [24], "uninitialized", run;
    operand_filled_by_half_a_warp: [24], "uninitialized", run;
    multiply_by_three_warps: [18, 26], "warpgroup", run;
    operand_past_its_array: [18, 23], "out-of-bounds", run;
    operand_of_every_other_lane: [18, 26], "warpgroup", run;
    operand_of_every_other_warp: [18, 26], "warpgroup", run;
}

/// The product of two tiles of ones, that a warpgroup makes.
struct Product {
    mma: TiledMma,
    a: MatrixOperand,
    b: MatrixOperand,
    sums: Fragment<f32>,
}

impl Product {
    fn new(a: &Tensor<bf16, SharedSpace>, b: &Tensor<bf16, SharedSpace>) -> Self {
        Self::of_share(a, (1, 0i64.into()), b)
    }

    /// The product of one of several shares of A's rows.
    fn of_share(
        a: &Tensor<bf16, SharedSpace>,
        (shares, share): (u32, Int),
        b: &Tensor<bf16, SharedSpace>,
    ) -> Self {
        let plan = |warpgroups| TiledMma::warpgroups("SM90_64x8x16_F32BF16BF16_SS", warpgroups);
        let (mma, whole) = (plan(1), || (All, All, 0i64));
        let (a, b) = (plan(shares).a_operand(a, share).slice(whole()), mma.b_operand(b).slice(whole()));
        let mut sums = mma.thread(thread_idx().x).c_fragment((64, 8));
        sums.clear();
        Self { mma, a, b, sums }
    }

    /// The product of 64 rows by 8, which all threads of the CTA have filled.
    #[track_caller]
    #[device]
    fn of_ones() -> Self {
        launch::threads(128);
        let (a, b) = (tile_of_ones(64), tile_of_ones(8));
        fence_proxy_async_shared();
        sync_threads();
        Self::new(&a, &b)
    }

    #[track_caller]
    fn multiply(&mut self) {
        multiply(&self.mma, &mut self.sums, &self.a, &self.b, Accumulate::No);
    }

    /// The `wgmma` alone, which add to the sums.
    #[track_caller]
    fn issue(&mut self) {
        issue_multiplications(&self.mma, &mut self.sums, &self.a, &self.b, Accumulate::Yes);
    }

    /// Stores the thread's sums.
    #[device]
    fn store(&self, output: &mut Global<f32>) {
        for i in 0..4 {
            output[thread_idx().x * 4 + i as u32] = self.sums.get(i);
        }
    }
}

impl Twin {
    /// Multiplies what threads have written, which the asynchronous proxy has not seen.
    #[kernel]
    fn operands_written_without_a_proxy_fence(&self, output: &mut Global<f32>) {
        launch::threads(128);
        let memory = memory_of(64);
        let (a, b) = (tile_in(memory, 64), tile_of_ones(8));
        fence_proxy_async_shared();
        for word in 0..16 {
            memory[thread_idx().x + word * 128] = constant(0x3f80_3f80u32); // (2)
        }
        if self.mended {
            fence_proxy_async_shared();
        }
        sync_threads();
        let mut product = Product::new(&a, &b);
        product.multiply(); // (1)
        wait_multiplications(0);
        product.store(output);
    }

    /// Multiplies while other warps still write.
    #[kernel]
    fn operands_written_without_a_barrier(&self, output: &mut Global<f32>) {
        launch::threads(128);
        let memory = memory_of(64);
        let (a, b) = (tile_in(memory, 64), tile_of_ones(8));
        fence_proxy_async_shared();
        sync_threads();
        for word in 0..16 {
            memory[thread_idx().x + word * 128] = constant(0x3f80_3f80u32); // (2)
        }
        fence_proxy_async_shared();
        if self.mended {
            sync_threads();
        }
        let mut product = Product::new(&a, &b);
        product.multiply(); // (1)
        wait_multiplications(0);
        product.store(output);
    }

    /// Fills A again while it is multiplied.
    #[kernel]
    fn operand_overwritten_in_flight(&self, output: &mut Global<f32>) {
        launch::threads(128);
        let (a, b) = (tile_of_ones(64), tile_of_ones(8));
        fence_proxy_async_shared();
        sync_threads();
        let mut product = Product::new(&a, &b);
        product.multiply(); // (2)
        if self.mended {
            wait_multiplications(0);
            sync_threads();
        }
        a.set((thread_idx().x % 64, 0i64, 0i64), bf16::from_f32(2.0)); // (1)
        wait_multiplications(0);
        product.store(output);
    }

    /// The same; all threads have issued the multiply, which does not mean that it is done.
    #[kernel]
    fn operand_overwritten_behind_a_barrier(&self, output: &mut Global<f32>) {
        launch::threads(128);
        let (a, b) = (tile_of_ones(64), tile_of_ones(8));
        fence_proxy_async_shared();
        sync_threads();
        let mut product = Product::new(&a, &b);
        product.multiply(); // (2)
        if self.mended {
            wait_multiplications(0);
        }
        sync_threads();
        a.set((thread_idx().x % 64, 0i64, 0i64), bf16::from_f32(2.0)); // (1)
        wait_multiplications(0);
        product.store(output);
    }

    /// A copy fills A again while it is multiplied: the barrier comes before the wait.
    #[kernel]
    fn operand_refilled_behind_a_barrier(&self, output: &mut Global<f32>) {
        launch::threads(128);
        let (memory, full) = (memory_of(64), Mbarrier::new());
        let (a, b) = (tile_in(memory, 64), tile_of_ones(8));
        for word in 0..16 {
            memory[thread_idx().x + word * 128] = constant(0x3f80_3f80u32);
        }
        if thread_idx().x == 0 {
            full.init(1);
            fence_mbarrier_init();
        }
        fence_proxy_async_shared();
        sync_threads();
        let mut product = Product::new(&a, &b);
        product.multiply(); // (2)
        if self.mended {
            wait_multiplications(0);
        }
        sync_threads();
        if thread_idx().x == 0 {
            full.arrive_and_expect(2048);
            bulk::load(output.cast::<u32>(), 512, memory, full); // (1)
        }
        wait_multiplications(0);
        full.wait_parity(0);
        product.store(output);
    }

    /// Stores sums that are still being made.
    #[kernel]
    fn results_read_before_the_wait(&self, output: &mut Global<f32>) {
        let mut product = Product::of_ones();
        product.multiply(); // (2)
        if self.mended {
            wait_multiplications(0);
        }
        for i in 0..4 {
            output[thread_idx().x * 4 + i as u32] = product.sums.get(i); // (1)
        }
        wait_multiplications(0);
    }

    /// The same, behind a barrier of threads.
    #[kernel]
    fn results_read_behind_a_barrier(&self, output: &mut Global<f32>) {
        let mut product = Product::of_ones();
        product.multiply(); // (2)
        if self.mended {
            wait_multiplications(0);
        }
        sync_threads();
        for i in 0..4 {
            output[thread_idx().x * 4 + i as u32] = product.sums.get(i); // (1)
        }
        wait_multiplications(0);
    }

    /// Zeroes the accumulators while the multiply that writes them is in flight.
    #[kernel]
    fn sums_cleared_in_flight(&self, output: &mut Global<f32>) {
        let mut product = Product::of_ones();
        if self.mended {
            product.sums.clear();
            product.multiply();
        } else {
            product.multiply(); // (2)
            product.sums.clear(); // (1)
        }
        wait_multiplications(0);
        product.store(output);
    }

    /// Waits for all batches but one, where there is one.
    #[kernel]
    fn wait_that_leaves_the_last_batch(&self, output: &mut Global<f32>) {
        let mut product = Product::of_ones();
        product.multiply(); // (2)
        wait_multiplications(self.number(1, 0));
        for i in 0..4 {
            output[thread_idx().x * 4 + i as u32] = product.sums.get(i); // (1)
        }
        wait_multiplications(0);
    }

    /// Exits with a batch in flight whose accumulators nothing reads.
    #[kernel]
    fn batch_that_nobody_waits_for(&self, output: &mut Global<f32>) {
        launch::threads(128);
        let (a, b) = (tile_of_ones(64), tile_of_ones(8));
        fence_proxy_async_shared();
        sync_threads();
        let mut product = Product::new(&a, &b);
        product.multiply();
        wait_multiplications(0);
        product.store(output);
        let mut more = Product::new(&a, &b);
        more.multiply(); // (1)
        if self.mended {
            wait_multiplications(0);
        }
    }

    /// Issues a batch with no fence after the sums were set.
    #[kernel]
    fn batch_without_a_fence(&self, output: &mut Global<f32>) {
        let mut product = Product::of_ones();
        product.sums.clear(); // (2)
        if self.mended {
            fence_multiplications();
        }
        product.issue(); // (1)
        commit_multiplications();
        wait_multiplications(0);
        product.store(output);
    }

    /// Fences, and only then sets the sums.
    #[kernel]
    fn sums_cleared_behind_the_fence(&self, output: &mut Global<f32>) {
        let mut product = Product::of_ones();
        fence_multiplications();
        product.sums.clear(); // (2)
        if self.mended {
            fence_multiplications();
        }
        product.issue(); // (1)
        commit_multiplications();
        wait_multiplications(0);
        product.store(output);
    }

    /// Waits for all batches, of which the product is none yet.
    #[kernel]
    fn batch_that_is_not_committed(&self, output: &mut Global<f32>) {
        let mut product = Product::of_ones();
        fence_multiplications();
        product.issue(); // (2)
        if self.mended {
            commit_multiplications();
        }
        wait_multiplications(0);
        for i in 0..4 {
            output[thread_idx().x * 4 + i as u32] = product.sums.get(i); // (1)
        }
        commit_multiplications();
        wait_multiplications(0);
    }

    /// Multiplies by a B that nothing has filled.
    #[kernel]
    fn operand_that_nothing_fills(&self, output: &mut Global<f32>) {
        launch::threads(128);
        let (a, b) = (tile_of_ones(64), tile_written_by(8, self.number(0, 32)));
        fence_proxy_async_shared();
        sync_threads();
        let mut product = Product::new(&a, &b);
        product.multiply(); // (1)
        wait_multiplications(0);
        product.store(output);
    }

    /// Multiplies an A of which half of each row is filled.
    #[kernel]
    fn operand_filled_by_half_a_warp(&self, output: &mut Global<f32>) {
        launch::threads(128);
        let (a, b) = (tile_written_by(64, self.number(16, 32)), tile_of_ones(8));
        fence_proxy_async_shared();
        sync_threads();
        let mut product = Product::new(&a, &b);
        product.multiply(); // (1)
        wait_multiplications(0);
        product.store(output);
    }

    /// One warp of the warpgroup has left before it multiplies.
    #[kernel]
    fn multiply_by_three_warps(&self, output: &mut Global<f32>) {
        let mut product = Product::of_ones();
        let lane_that_leaves = self.number(3, 999);
        if thread_idx().x.eq(lane_that_leaves) {
            return;
        }
        product.multiply(); // (1)
        wait_multiplications(0);
        product.store(output);
    }

    /// Multiplies the third share of A, which has two; other tiles are behind it.
    #[kernel]
    fn operand_past_its_array(&self, output: &mut Global<f32>) {
        launch::threads(128);
        let (a, b) = (tile_of_ones(128), tile_of_ones(8));
        tile_of_ones(64);
        fence_proxy_async_shared();
        sync_threads();
        let share = warp::broadcast(thread_idx().x / 128, 0) + self.number(2, 1);
        let mut product = Product::of_share(&a, (2, share.into()), &b);
        product.multiply(); // (1)
        wait_multiplications(0);
        for i in 0..4 {
            output[thread_idx().x * 4 + i as u32] = product.sums.get(i);
        }
    }

    /// Each lane of a warp names the rows of A by itself.
    #[kernel]
    fn operand_of_every_other_lane(&self, output: &mut Global<f32>) {
        launch::threads(128);
        let (a, b) = (tile_of_ones(128), tile_of_ones(8));
        fence_proxy_async_shared();
        sync_threads();
        let half = thread_idx().x % self.number(2, 1);
        let mut product = Product::of_share(&a, (2, half.into()), &b);
        product.multiply(); // (1)
        wait_multiplications(0);
        product.store(output);
    }

    /// Each warp of the warpgroup names the rows of A by itself.
    #[kernel]
    fn operand_of_every_other_warp(&self, output: &mut Global<f32>) {
        launch::threads(128);
        let (a, b) = (tile_of_ones(128), tile_of_ones(8));
        fence_proxy_async_shared();
        sync_threads();
        let half = thread_idx().x / 32 % self.number(2, 1);
        let mut product = Product::of_share(&a, (2, half.into()), &b);
        product.multiply(); // (1)
        wait_multiplications(0);
        product.store(output);
    }
}

/// Runs a kernel whose product is 64 in every element.
fn run(device: &Device, kernel: Staged<(Out<f32>,)>) -> Result<(), Error> {
    let kernel = device.compile(&kernel.expect("it is staged"))?;
    let mut output = device.zeros::<f32>(512)?;
    kernel.launch(&device.stream()?, kernel.shape(1).block(128), (&mut output,))?;
    assert_eq!(output.to_vec()?, [64.0; 512]);
    Ok(())
}
