//! Structs that no kernel takes.
use warpwright_lang::KernelParameter;

#[derive(KernelParameter)]
struct OfBuildTime {
    tile: u32,
}

#[derive(KernelParameter)]
enum NoStruct {
    Left,
}

fn main() {}
