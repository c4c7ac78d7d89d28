//! The `warpwright-llm` command.

fn main() {}
