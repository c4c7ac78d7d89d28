//! Row 16: responses of cluster launch control, which are asynchronous writes.

use warpwright::prelude::*;

use crate::faults::fault::{Twin, faults, input, run};

faults! {
    on "b200";
    response_replaced_while_it_is_read: [16], "race", run(6, 64, |i| 2 * input(i));
}

impl Twin {
    /// Doubles 64 numbers for each CTA of the grid; a CTA takes over the work of those that have not
    /// started.
    #[kernel]
    fn response_replaced_while_it_is_read(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let (response, arrived, thread) = (CancelResponses::new(1).at(0), Mbarrier::new(), thread_idx().x);
        if thread == 0 {
            arrived.init(1);
            fence_mbarrier_init();
        }
        sync_threads();
        let (mut work, mut parity, mut has_work) = (block_idx().x, constant(0u32), constant(true));
        while has_work {
            if thread == 0 {
                arrived.arrive_and_expect(CANCEL_RESPONSE_BYTES);
                response.try_cancel(arrived); // (1)
            }
            output[work * 64 + thread] = input[work * 64 + thread] * 2;
            arrived.wait_parity(parity);
            let cancellation = response.query(); // (2)
            has_work = cancellation.is_canceled();
            if has_work {
                work = cancellation.first_block_idx().x;
            }
            parity = parity ^ 1;
            fence_proxy_async_shared();
            if self.mended {
                sync_threads();
            }
        }
    }
}
