//! The search for the fastest configuration of a product on a device: what is tried, and what it is tried on.
//!
//! ```text
//! all legal points -> the model's cheapest -> timed in turns -> the fastest -> those around it -> timed in turns -> kept
//! ```

use std::cell::{Cell, RefCell};
use std::path::PathBuf;
use std::rc::Rc;

use warpwright::runtime::{Device, LaunchCounts, Storable, Stream};

use super::GemmOutput;
use super::hopper::Consumers;
use super::library::Buffers;
use super::multiply::{Factor, Product, Way};
use super::plan::{Configuration, Cost, Shape};
use super::tuned::{self, Key};
use super::verify::verify;
use crate::operations::Operations;
use crate::reference::Rounded;
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

/// The legal configurations that differ from one in its slots or its raster alone.
pub fn around(configuration: Configuration, shape: Shape) -> Vec<Configuration> {
    let rasters = RASTERS.map(|raster| Configuration { raster, ..configuration });
    let fewer = Configuration { stages: configuration.stages - 1, ..configuration };
    let others = rasters.into_iter().chain([fewer]);
    others.filter(|other| *other != configuration && other.check(shape).is_ok()).collect()
}

/// The buffers that all configurations work on, in turn: no launch finds in a cache what the one before it touched.
struct Bench<T, C> {
    operations: Operations,
    product: Product,
    sets: RefCell<Vec<Buffers<T, C>>>,
    launches: Cell<usize>,
    work: Work,
}

impl<T, C> Bench<T, C> {
    /// The set that launch number `launches` works on.
    fn turn(&self, launches: usize) -> usize {
        launches % self.sets.borrow().len()
    }
}

/// One configuration on them.
struct Point<T, C> {
    bench: Rc<Bench<T, C>>,
    configuration: Configuration,
}

impl<T, C> Prepared for Point<T, C>
where
    T: Factor + Rounded,
    C: GemmOutput + Storable + Rounded,
{
    fn launch(&mut self, stream: &Stream) -> Result<LaunchCounts> {
        let Bench { operations, product, sets, launches, .. } = &*self.bench;
        let way = Way::Warpgroups(self.configuration);
        let turn = self.bench.turn(launches.get());
        launches.set(launches.get() + 1);
        let Buffers { a, b, c } = &mut sets.borrow_mut()[turn];
        Ok(operations.multiply_by(stream, *product, way, a, b, c)?)
    }

    /// Holds what the last launch left to the reference.
    fn verify(&mut self) -> Result<Verified> {
        let turn = self.bench.turn(self.bench.launches.get() - 1);
        verify(self.bench.product.into(), &self.bench.sets.borrow()[turn])
    }

    fn work(&self) -> Work {
        self.bench.work
    }
}

/// The search for a product's configuration.
pub(super) struct GemmSearch<T, C> {
    bench: Rc<Bench<T, C>>,
    shape: Shape,
    sms: u32,
    key: Key,
    tried: Vec<Configuration>,
}

impl<T, C> GemmSearch<T, C>
where
    T: Factor + Rounded,
    C: GemmOutput + Storable + Rounded,
{
    /// Of a product on a device, on buffers that `make` makes, the first of that seed.
    pub(super) fn new(
        device: &Device,
        product: Product,
        (seed, make): (u64, impl Fn(u64) -> Result<Buffers<T, C>>),
        work: Work,
    ) -> Result<Self> {
        let properties = device.properties();
        let seeds = (0..rotation::sets(device, work.bytes as u64)).map(|set| seed.wrapping_add(set << 32));
        let bench = Bench {
            operations: Operations::new(device),
            product,
            sets: RefCell::new(seeds.map(make).collect::<Result<_>>()?),
            launches: Cell::new(0),
            work,
        };
        Ok(Self {
            bench: Rc::new(bench),
            shape: product.shape::<T, C>(),
            sms: properties.sm_count,
            key: Key::of::<T, C>(&properties.product, product),
            tried: Vec::new(),
        })
    }

    fn candidates(&mut self, configurations: Vec<Configuration>) -> Vec<Candidate> {
        let candidates = configurations.iter().map(|&configuration| Candidate {
            name: format!("{configuration}, {} slots, raster {}", configuration.stages, configuration.raster),
            prepared: Box::new(Point { bench: Rc::clone(&self.bench), configuration }),
        });
        let candidates = candidates.collect();
        self.tried.extend(configurations);
        candidates
    }
}

impl<T, C> Search for GemmSearch<T, C>
where
    T: Factor + Rounded,
    C: GemmOutput + Storable + Rounded,
{
    fn first(&mut self, most: usize) -> Vec<Candidate> {
        let costs = legal(self.shape, self.sms);
        self.candidates(costs.into_iter().take(most).map(|cost| cost.configuration).collect())
    }

    fn around(&mut self, fastest: usize) -> Vec<Candidate> {
        self.candidates(around(self.tried[fastest], self.shape))
    }

    fn keep(&self, fastest: usize, seconds: f64) -> Result<PathBuf> {
        Ok(tuned::keep(&self.key, self.tried[fastest], seconds)?)
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
