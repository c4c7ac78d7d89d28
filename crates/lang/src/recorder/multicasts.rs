//! The tiles that the CTAs of a cluster load together: each loads a slice for all of them, so that all of
//! them must mean one tile.

use warpwright_ir::{Location, Register};

use super::Recorder;
use super::state::SharedTile;
use super::threads::Threads;

/// Numbers that values are assumed by. CTAs that differ by all of them differ.
const ASSUMED: [u32; 4] = [0, 1, 2, 3];

impl SharedTile {
    /// Whether some CTA receives a slice of another tile than its own.
    fn is_divided(&self, threads: &Threads<'_>) -> bool {
        let Some(receivers) = threads.value(self.receivers) else { return false };
        self.coordinates.iter().filter_map(|coordinate| threads.value(*coordinate)).any(|coordinate| {
            let differs =
                |from: usize, to: usize| receivers[from] >> to & 1 == 1 && coordinate[from] != coordinate[to];
            (0..receivers.len()).any(|from| (0..receivers.len()).any(|to| differs(from, to)))
        })
    }
}

impl Recorder {
    /// Notes a tile whose slices CTAs load for each other.
    pub(crate) fn note_shared_tile(
        &mut self,
        coordinates: Vec<Register>,
        receivers: Register,
        location: Location,
    ) {
        self.notes.shared_tiles.push(SharedTile { coordinates, receivers, location });
    }

    /// Refuses tiles of which the CTAs that share them have different coordinates.
    pub(super) fn check_shared_tiles(&mut self) {
        let tiles = std::mem::take(&mut self.notes.shared_tiles);
        if tiles.is_empty() {
            return;
        }
        let assumed = ASSUMED.map(|number| Threads::assuming(&self.kernel, number));
        let divided: Vec<Location> = tiles
            .iter()
            .filter(|tile| assumed.iter().all(|threads| tile.is_divided(threads)))
            .map(|tile| tile.location)
            .collect();
        for location in divided {
            self.error(
                location,
                "`load`: the CTAs that share this load have different coordinates of the tile, and each would get slices of the \
                 others' tiles: share a tile of A by `multicast_a`, and a tile of B by `multicast_b`",
            );
        }
    }
}
