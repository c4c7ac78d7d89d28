//! Shape:stride layout algebra: what a tensor's coordinates mean in memory.
