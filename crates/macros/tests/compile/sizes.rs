//! Sizes that are `usize` or device values where the device takes `u32`.
use warpwright_lang::kernel;
use warpwright_lang::launch;
use warpwright_lang::pointer::Global;
use warpwright_lang::shared::{local_array, shared_array};
use warpwright_lang::special::thread_idx;

struct Tiled {
    tile: usize,
}

impl Tiled {
    #[kernel]
    fn run(&self, x: &Global<f32>, n: u32) {
        launch::threads(self.tile);
        let tile = shared_array::<f32>(self.tile);
        let i = thread_idx().x * self.tile;
        if i < self.tile {
            let y = x[i];
        }
        for j in i..self.tile {}
    }
}

#[kernel]
fn allocates(n: u32) {
    let tile = shared_array::<f32>(n);
    let row = local_array::<f32>(n * 2);
}

fn main() {}
