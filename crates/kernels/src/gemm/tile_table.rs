//! Which product a tile belongs to, where products have different numbers of tiles.
//!
//! ```text
//! tiles of each product:   3  0  5  1           the first tile of each:   0  3  3  8 | 9
//! tile 4: the last product whose first tile is at or before it, number 2, and there it is tile 4 - 3 = 1
//! ```

use warpwright::prelude::*;

/// The first tile of each product in shared memory, and behind them the number of all tiles.
#[derive(Clone, Copy, DeviceValue)]
pub(super) struct TileTable {
    firsts: Shared<u32>,
    products: Reg<u32>,
}

/// Lanes of a warp.
const WARP: u32 = 32;

#[device]
impl TileTable {
    /// Room for `most` products, of which there are `products`.
    pub(super) fn new(most: u32, products: Reg<u32>) -> Self {
        Self { firsts: shared_array::<u32>(most + 1), products }
    }

    /// Fills it: all threads of the CTA do this, with the function that tells how many tiles a product has.
    pub(super) fn fill(&self, tiles_of: impl Fn(Reg<u32>) -> Reg<u32>) {
        let lane = thread_idx().x;
        if lane < WARP {
            let mut before = constant(0u32);
            for first in (0..self.products).step_by(WARP) {
                let product = first + lane;
                let is_one = product.lt(self.products);
                let tiles = tiles_of(is_one.select(product, first));
                let mut sum = is_one.select(tiles, 0u32);
                for distance in [1, 2, 4, 8, 16] {
                    let other = sum.shuffle_up(distance);
                    sum = lane.ge(distance).select(sum + other, sum);
                }
                if is_one {
                    self.firsts.at(product + 1u32).store(before + sum);
                }
                before += sum.shuffle(WARP - 1);
            }
            if lane == 0 {
                self.firsts.store(0u32);
            }
        }
        sync_threads();
    }

    /// How many tiles there are.
    pub(super) fn tiles(&self) -> Reg<u32> {
        self.firsts.at(self.products).load()
    }

    /// The product of a tile, and the tile's number there. Past the last, some product.
    pub(super) fn find(&self, tile: Reg<u32>) -> (Reg<u32>, Reg<u32>) {
        let mut product = constant(0u32);
        let mut after = self.products;
        while after - product > 1 {
            let middle = (product + after) / 2u32;
            let begins_before = self.firsts.at(middle).load().le(tile);
            product = begins_before.select(middle, product);
            after = begins_before.select(after, middle);
        }
        (product, tile - self.firsts.at(product).load())
    }
}
