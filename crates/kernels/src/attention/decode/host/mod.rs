//! Launching the kernel, and its workload.

mod operations;
