//! Row 23: indices past the end of a shared array that land in another array of the same CTA, and
//! of a local one that land in another array of the same thread.

use warpwright::prelude::*;

use crate::faults::fault::{Twin, faults, input, run};

faults! {
    write_into_the_next_array: [23], "out-of-bounds", run(1, 64, |i| if i < 32 { input(i) } else { 5 });
    read_of_the_next_array: [23], "out-of-bounds", run(1, 64, |i| input((i + 1) % 64));
    write_into_padding: [23], "out-of-bounds", run(1, 64, input);
    index_before_the_start: [23], "out-of-bounds", run(1, 64, |i| if i > 0 { input(i - 1) } else { 7 });
    dynamic_array_into_the_next: [23], "out-of-bounds", run(1, 64, |i| input(i) + 3);
    static_array_behind_dynamic_memory: [23], "out-of-bounds", run(1, 64, |i| input(i) + 3);
    copy_into_the_next_array: [23], "out-of-bounds", run(1, 64, |i| if i < 32 { input(i) } else { 5 });
    local_array_into_the_next: [23], "out-of-bounds", run(1, 64, |i| input(i) + 7);
    pointer_that_steps_too_far: [23], "out-of-bounds", run(1, 32, |i| 4 * input(i) + 6);
}

impl Twin {
    /// Keeps 32 elements, and has 64 threads write them.
    #[kernel]
    fn write_into_the_next_array(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let first = shared_array::<u32>(32);
        let second = shared_array::<u32>(64);
        let thread = thread_idx().x;
        second[thread] = constant(5u32);
        sync_threads();
        if thread < self.number(64, 32) {
            first[thread] = input[thread]; // (1)
        }
        sync_threads();
        if thread < 32 {
            output[thread] = first[thread];
        } else {
            output[thread] = second[thread];
        }
    }

    /// Reads the right neighbor; the last thread's is in no array of its own.
    #[kernel]
    fn read_of_the_next_array(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let row = shared_array::<u32>(64);
        let edge = shared_array::<u32>(4);
        let thread = thread_idx().x;
        row[thread] = input[thread];
        if thread < 4 {
            edge[thread] = input[0];
        }
        sync_threads();
        let next = if self.mended { (thread + 1) % 64 } else { thread + 1 };
        output[thread] = row[next]; // (1)
    }

    /// Has room for all threads but one.
    #[kernel]
    fn write_into_padding(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let row = shared_array::<u32>(self.number(63, 64));
        let last = shared_array::<u32>(4);
        let thread = thread_idx().x;
        row[thread] = input[thread]; // (1)
        last[thread % 4] = constant(0u32);
        sync_threads();
        output[thread] = row[thread];
    }

    /// Reads the left neighbor; the first thread has none.
    #[kernel]
    fn index_before_the_start(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let edge = shared_array::<u32>(4);
        let row = shared_array::<u32>(64);
        let thread = thread_idx().x;
        if thread < 4 {
            edge[thread] = constant(7u32);
        }
        row[thread] = input[thread];
        sync_threads();
        if self.mended {
            output[thread] = if thread > 0 { row[thread - 1] } else { edge[3] };
        } else {
            output[thread] = row[thread - 1]; // (1)
        }
    }

    /// Writes more of an array of the dynamic memory than it has.
    #[kernel]
    fn dynamic_array_into_the_next(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let row = dynamic_shared::<u32>(self.number(32, 64));
        let threes = dynamic_shared::<u32>(64);
        let thread = thread_idx().x;
        row[thread] = input[thread]; // (1)
        sync_threads();
        threes[thread] = constant(3u32);
        sync_threads();
        let at = thread % self.number(32, 64);
        output[thread] = row[at] + threes[thread];
    }

    /// Writes more of a static array than it has, in a kernel with dynamic memory.
    #[kernel]
    fn static_array_behind_dynamic_memory(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let row = shared_array::<u32>(self.number(32, 64));
        let threes = shared_array::<u32>(64);
        let rest = dynamic_shared::<u32>(64);
        let thread = thread_idx().x;
        rest[thread] = input[thread];
        row[thread] = rest[thread]; // (1)
        sync_threads();
        threes[thread] = constant(3u32);
        sync_threads();
        let at = thread % self.number(32, 64);
        output[thread] = row[at] + threes[thread];
    }

    /// Copies 64 elements into room for 32.
    #[kernel]
    fn copy_into_the_next_array(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let first = dynamic_shared::<u32>(32);
        let second = dynamic_shared::<u32>(64);
        let thread = thread_idx().x;
        second[thread] = constant(5u32);
        sync_threads();
        if thread * 4 < self.number(64, 32) {
            copy_async(first + thread * 4, *input + thread * 4, 4); // (1)
        }
        wait_all_async_copies();
        sync_threads();
        if thread < 32 {
            output[thread] = first[thread];
        } else {
            output[thread] = second[thread];
        }
    }

    /// Writes five elements of an array of its own that has four.
    #[kernel]
    fn local_array_into_the_next(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let own = local_array::<u32>(self.number(4, 8));
        let seven = local_array::<u32>(4);
        let thread = thread_idx().x;
        seven[thread % 4] = constant(7u32);
        for i in 0..constant(5u32) {
            own[i] = input[thread]; // (1)
        }
        output[thread] = own[thread % 4] + seven[thread % 4];
    }

    /// Adds four rows of three, by a pointer that steps from row to row.
    #[kernel]
    fn pointer_that_steps_too_far(&self, input: &Global<u32>, output: &mut Global<u32>) {
        let rows = shared_array::<u32>(self.number(96, 128));
        let ones = shared_array::<u32>(32);
        let lane = thread_idx().x;
        ones[lane] = constant(1u32);
        let mut row = rows + lane;
        for i in 0..constant(4u32) {
            row[0] = input[lane] + i; // (1)
            row += 32;
        }
        sync_threads();
        let mut sum = constant(0u32);
        for i in 0..constant(self.number(3, 4)) {
            sum += rows[i * 32 + lane];
        }
        output[lane] = sum;
    }
}
