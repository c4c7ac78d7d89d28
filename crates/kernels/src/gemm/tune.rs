//! The search for the fastest configuration of a product on a device: what is tried, and what it is tried on.
//!
//! ```text
//! all legal points -> the model's cheapest -> timed in turns -> the fastest -> those around it -> timed in turns -> kept
//! ```

use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;

use warpwright::arch::Capability;
use warpwright::prelude::*;
use warpwright::runtime::{Device, LaunchCounts, Stream};

use super::batched::Batch;
use super::cost;
use super::hopper::Consumers;
use super::multiply::Way;
use super::plan::{Configuration, Cost, Shape};
use super::readable::Readable;
use super::warps::Warps;
use super::{Gemm, WarpgroupInput};
use crate::registry::{Candidate, Prepared, Result, Search, Verified, Work};
use crate::rotation;

/// Rows of tiles that are tried.
const ROWS: [u32; 3] = [64, 128, 256];

/// Columns of tiles that are tried. C is stored in pieces of 64, 32, 16 or 8 columns, whatever divides the tile's; 8 only where there are no more.
const COLUMNS: [u32; 15] = [8, 16, 32, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 256];

/// Clusters that are tried.
const CLUSTERS: [(u32, u32); 3] = [(1, 1), (2, 1), (1, 2)];

/// Spans of a slot that are tried, and the columns of tiles up to which more than one is: reading the other matrix decides their time.
const SPANS: [u32; 3] = [1, 2, 4];
const NARROW: u32 = 64;

/// Rows of clusters' tiles walked together that are tried around the fastest.
const RASTERS: [u32; 4] = [4, 8, 16, 32];

/// All legal configurations for a shape on a device of `sms` SMs, the model's cheapest first.
pub fn legal(shape: Shape, sms: u32) -> Vec<Cost> {
    let mut costs = Vec::new();
    for tile in ROWS.into_iter().flat_map(|rows| COLUMNS.map(|columns| (rows, columns))) {
        for consumers in [Consumers::Alternate, Consumers::Cooperate] {
            for cluster in CLUSTERS {
                for (split, transposed) in [(false, false), (true, false), (false, true), (true, true)] {
                    for &spans in if tile.1 <= NARROW { &SPANS[..] } else { &SPANS[..1] } {
                        let stages = Configuration::most_stages(tile, spans, shape);
                        let raster = 8;
                        let configuration = Configuration {
                            tile,
                            consumers,
                            cluster,
                            spans,
                            split,
                            transposed,
                            stages,
                            raster,
                        };
                        if configuration.check(shape).is_ok() {
                            costs.push(Cost::of(configuration, shape, sms));
                        }
                    }
                }
            }
        }
    }
    costs.sort_by(|one, other| one.cycles.total_cmp(&other.cycles));
    costs
}

/// The configurations that differ from one in its slots or its raster alone.
pub(super) fn neighbours(configuration: Configuration) -> impl Iterator<Item = Configuration> {
    let rasters = RASTERS.map(|raster| Configuration { raster, ..configuration });
    let fewer = Configuration { stages: configuration.stages - 1, ..configuration };
    rasters.into_iter().chain([fewer]).filter(move |other| *other != configuration)
}

/// The legal ones of those.
pub fn around(configuration: Configuration, shape: Shape) -> Vec<Configuration> {
    neighbours(configuration).filter(|other| other.check(shape).is_ok()).collect()
}

/// All legal ways to compute a batch: the cheapest of each instruction, then all others, the model's cheapest first. For the model compares the ways of one
/// instruction with one another better than with those of another.
pub(super) fn legal_ways<T: WarpgroupInput, C: Element>(
    batch: Batch,
    capability: &Capability,
    sms: u32,
) -> Vec<Way> {
    let shape = batch.shape::<T, C>();
    let copied = Readable::of::<T>(batch).cycles::<T>();
    let warpgroups = legal(shape, sms).into_iter();
    let warpgroups = warpgroups.map(|cost| (cost.cycles + copied, Way::Warpgroups(cost.configuration)));
    let warps = Warps::all(capability)
        .into_iter()
        .map(|warps| (cost::warps_cycles(&Gemm::for_batch(batch, warps), batch, sms), Way::Warps(warps)));
    let mut all: Vec<_> =
        warpgroups.chain(warps).filter(|(_, way)| way.is_legal(shape, capability)).collect();
    all.sort_by(|(one, _), (other, _)| one.total_cmp(other));
    let first_of = |is_by_warps: bool| {
        all.iter().find(|(_, way)| matches!(way, Way::Warps(_)) == is_by_warps).map(|(_, way)| *way)
    };
    let first: Vec<_> = [false, true].into_iter().filter_map(first_of).collect();
    let others = all.iter().map(|(_, way)| *way).filter(|way| !first.contains(way));
    first.iter().copied().chain(others).collect()
}

/// The legal ones like a way.
pub(super) fn ways_around(way: Way, shape: Shape, capability: &Capability) -> Vec<Way> {
    match way {
        Way::Warps(warps) => warps.around(capability).into_iter().map(Way::Warps).collect(),
        Way::Warpgroups(configuration) => {
            around(configuration, shape).into_iter().map(Way::Warpgroups).collect()
        }
    }
}

/// What a search is of: a product, the ways to compute it, and what each does.
pub(super) trait Searched {
    /// The matrices of the product.
    type Set;
    /// A way.
    type Way: Copy + PartialEq;

    /// All legal ways, the model's cheapest first.
    fn ways(&self) -> Vec<Self::Way>;
    /// The legal ones like one.
    fn around(&self, way: Self::Way) -> Vec<Self::Way>;
    /// A way in a line.
    fn name(&self, way: Self::Way) -> String;
    /// What any of them does at the least.
    fn work(&self) -> Work;
    fn launch(&self, stream: &Stream, way: Self::Way, set: &mut Self::Set) -> Result<LaunchCounts>;
    /// Holds what a launch left to the reference.
    fn verify(&self, set: &Self::Set) -> Result<Verified>;
    /// Keeps the fastest; returns the file it is in.
    fn keep(&self, way: Self::Way, seconds: f64) -> Result<PathBuf>;
}

/// The sets of matrices that all ways work on, in turn: no launch finds in a cache what the one before it touched.
struct Bench<S: Searched> {
    searched: S,
    sets: RefCell<Vec<S::Set>>,
    launches: Cell<usize>,
}

impl<S: Searched> Bench<S> {
    /// The set that launch number `launches` works on.
    fn turn(&self, launches: usize) -> usize {
        launches % self.sets.borrow().len()
    }
}

/// One way on them.
struct Point<S: Searched> {
    bench: Rc<Bench<S>>,
    way: S::Way,
}

impl<S: Searched> Prepared for Point<S> {
    fn launch(&mut self, stream: &Stream) -> Result<LaunchCounts> {
        let Bench { searched, sets, launches } = &*self.bench;
        let turn = self.bench.turn(launches.get());
        launches.set(launches.get() + 1);
        searched.launch(stream, self.way, &mut sets.borrow_mut()[turn])
    }

    /// Holds what the last launch left to the reference.
    fn verify(&mut self) -> Result<Verified> {
        let turn = self.bench.turn(self.bench.launches.get() - 1);
        self.bench.searched.verify(&self.bench.sets.borrow()[turn])
    }

    fn work(&self) -> Work {
        self.bench.searched.work()
    }
}

/// The search for the fastest way to compute a product.
pub(super) struct WaySearch<S: Searched> {
    bench: Rc<Bench<S>>,
    tried: Vec<S::Way>,
}

impl<S: Searched + 'static> WaySearch<S> {
    /// On sets of matrices that `make` makes, the first of that seed.
    pub(super) fn new(
        device: &Device,
        searched: S,
        (seed, make): (u64, impl Fn(u64) -> Result<S::Set>),
    ) -> Result<Self> {
        let count = rotation::sets(device, searched.work().bytes as u64);
        let seeds = (0..count).map(|set| seed.wrapping_add(set << 32));
        let sets = RefCell::new(seeds.map(make).collect::<Result<_>>()?);
        let bench = Rc::new(Bench { searched, sets, launches: Cell::new(0) });
        Ok(Self { bench, tried: Vec::new() })
    }

    fn candidates(&mut self, ways: Vec<S::Way>) -> Vec<Candidate> {
        let candidates = ways.iter().map(|&way| Candidate {
            name: self.bench.searched.name(way),
            prepared: Box::new(Point { bench: Rc::clone(&self.bench), way }),
        });
        let candidates = candidates.collect();
        self.tried.extend(ways);
        candidates
    }
}

impl<S: Searched + 'static> Search for WaySearch<S> {
    fn first(&mut self, most: usize) -> Vec<Candidate> {
        let ways = self.bench.searched.ways().into_iter().take(most).collect();
        self.candidates(ways)
    }

    fn around(&mut self, fastest: usize) -> Vec<Candidate> {
        let mut ways = self.bench.searched.around(self.tried[fastest]);
        ways.retain(|way| !self.tried.contains(way));
        self.candidates(ways)
    }

    fn keep(&self, fastest: usize, seconds: f64) -> Result<PathBuf> {
        self.bench.searched.keep(self.tried[fastest], seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape { m: 8192, n: 8192, k: 8192, batch: 1, input_bytes: 2, output_bytes: 2 };

    #[test]
    fn only_legal_points_are_tried_and_none_twice() {
        for shape in [
            SHAPE,
            Shape { m: 1, ..SHAPE },
            Shape { output_bytes: 4, ..SHAPE },
            Shape { k: 1 << 21, ..SHAPE },
        ] {
            let costs = legal(shape, 132);
            assert!(costs.len() > 100, "{} for {shape:?}", costs.len());
            for (index, cost) in costs.iter().enumerate() {
                let configuration = cost.configuration;
                assert_eq!(configuration.check(shape), Ok(()), "{configuration}");
                assert!(costs[..index].iter().all(|other| other.configuration != configuration));
                for other in around(configuration, shape) {
                    assert_eq!(other.check(shape), Ok(()), "{other}");
                    assert_ne!(other, configuration);
                }
            }
            assert!(costs.is_sorted_by(|one, other| one.cycles <= other.cycles));
        }
    }

    #[test]
    fn the_plan_s_choice_is_among_them() {
        let planned = super::super::plan::costs(SHAPE, 132)[0].configuration;
        assert!(legal(SHAPE, 132).iter().any(|cost| cost.configuration == planned));
    }
}
