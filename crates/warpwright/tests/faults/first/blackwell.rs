//! Blackwell's tensor memory.

use warpwright::arch::DataType;
use warpwright::lang::pointer::Out;
use warpwright::prelude::*;
use warpwright::runtime::Device;

use crate::faults::first::{Error, Mistaken};
use crate::faults::operands::tile_of_ones;

const COLUMNS: u32 = 32;

impl Mistaken {
    /// The product of tiles of ones, twice accumulated.
    #[kernel]
    fn product(&self, y: &mut Global<u32>) {
        launch::threads(128);
        let group = CtaGroup::One;
        let (slot, done) = (shared_array::<u32>(1), Mbarrier::new());
        let types = TensorCoreTypes { a: DataType::Bf16, b: DataType::Bf16, d: DataType::F32 };
        let mma = TensorCoreMma::new(group, types, 128, 16);
        let (a, b) = (tile_of_ones(128), tile_of_ones(16));
        let whole = || (All, All, 0i64);
        let (a, b) = (mma.a_operand(&a).slice(whole()), mma.b_operand(&b).slice(whole()));
        let thread = thread_idx().x;
        if thread == 0 {
            done.init(1);
            fence_mbarrier_init();
        }
        if self.is("one thread allocates") {
            if thread == 0 {
                allocate_tensor_memory(group, COLUMNS, slot);
            }
        } else if thread < 32 {
            allocate_tensor_memory(group, COLUMNS, slot);
        }
        if !self.is("no fence of the operands") {
            fence_proxy_async_shared();
        }
        tensor_fence_before_sync();
        sync_threads();
        tensor_fence_after_sync();
        let columns = TensorMemory::at(slot);
        if thread == 0 || self.is("every thread multiplies") {
            let first = if self.is("first adds") { Accumulate::Yes } else { Accumulate::No };
            mma.issue(columns, &a, &b, first);
            mma.issue(columns, &a, &b, Accumulate::Yes);
            if !self.is("no tcgen05 commit") {
                commit_tensor_core(group, done);
            }
        }
        if !self.is("no wait for the product") {
            done.wait_parity(0);
        }
        if !self.is("no fence after the wait") {
            tensor_fence_after_sync();
        }
        let [sum] = columns.row((thread / 32) * 32).load();
        if !self.is("no wait for the load") {
            wait_tensor_loads();
        }
        y[thread] = sum;
        tensor_fence_before_sync();
        sync_threads();
        if !self.is("never freed") && thread < 32 {
            columns.free(group, COLUMNS);
        }
    }
}

type Staged = Result<Kernel<(Out<u32>,)>, StagingErrors>;

pub(super) fn product(device: &Device, mistaken: Mistaken) -> Result<(), Error> {
    let kernel: Staged = mistaken.product();
    let kernel = device.compile(&kernel?)?;
    let mut y = device.zeros::<u32>(128)?;
    kernel.launch(&device.stream()?, 1, (&mut y,))?;
    y.to_vec()?;
    Ok(())
}
