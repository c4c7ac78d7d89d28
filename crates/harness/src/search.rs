//! The search for the fastest configuration of a workload.

use std::path::PathBuf;

use crate::error::Result;
use crate::options::Options;
use crate::prepared::Prepared;
use crate::setup::Setup;
use crate::workload::Workload;

/// A configuration to be timed.
pub struct Candidate {
    /// The configuration in a line.
    pub name: String,
    /// The workload with it.
    pub prepared: Box<dyn Prepared>,
}

/// A search for the fastest configuration. Candidates are numbered from 0 in the order in which
/// they are returned.
pub trait Search {
    /// At most `limit` candidates to begin with, the most promising first. All of them can be
    /// launched.
    fn first(&mut self, limit: usize) -> Vec<Candidate>;

    /// Candidates similar to the fastest so far.
    fn around(&mut self, fastest: usize) -> Vec<Candidate>;

    /// Keeps the fastest for later launches with the same options on such a device. Returns the
    /// file it is kept in; `None` if the search keeps nothing.
    ///
    /// # Errors
    /// The file cannot be read or written.
    fn keep(&self, fastest: usize, seconds: f64) -> Result<Option<PathBuf>>;
}

/// A search through the values that the options list.
pub(crate) struct GridSearch<W> {
    base: W,
    /// The values of each searched option.
    space: Vec<(&'static str, Vec<String>)>,
    setup: Setup,
    /// Indices into the values of each option, a row per candidate that was returned.
    tried: Vec<Vec<usize>>,
}

impl<W: Workload> GridSearch<W> {
    /// The search; `None` if no option lists values.
    pub(crate) fn new(workload: &W, setup: &Setup) -> Option<Self> {
        let searched = W::specs().into_iter().filter(|spec| !spec.search.is_empty());
        let space: Vec<_> = searched.map(|spec| (spec.name, spec.search)).collect();
        let (base, setup) = (workload.clone(), setup.clone());
        (!space.is_empty()).then_some(Self { base, space, setup, tried: Vec::new() })
    }

    /// The workload with the values at `indices`; `None` if the options contradict each other, or the
    /// device refuses the launch.
    fn candidate(&self, indices: &[usize]) -> Option<Candidate> {
        let mut workload = self.base.clone();
        let mut name = Vec::new();
        for ((option, values), index) in self.space.iter().zip(indices) {
            Options::set(&mut workload, option, &values[*index]).ok()?;
            name.push(format!("--{option} {}", values[*index]));
        }
        let mut prepared = Workload::prepare(&workload, &self.setup).ok()?;
        prepared.launch(&self.setup.device().stream().ok()?).ok()?;
        Some(Candidate { name: name.join(" "), prepared })
    }

    /// Adds the candidates at `choices` that were not tried, up to `limit` of them.
    fn add(&mut self, choices: impl Iterator<Item = Vec<usize>>, limit: usize) -> Vec<Candidate> {
        let mut candidates = Vec::new();
        for indices in choices {
            if candidates.len() == limit {
                break;
            }
            if self.tried.contains(&indices) {
                continue;
            }
            if let Some(candidate) = self.candidate(&indices) {
                candidates.push(candidate);
                self.tried.push(indices);
            }
        }
        candidates
    }
}

impl<W: Workload> Search for GridSearch<W> {
    /// Points spread evenly over the grid.
    fn first(&mut self, limit: usize) -> Vec<Candidate> {
        let extents: Vec<usize> = self.space.iter().map(|(_, values)| values.len()).collect();
        let points: usize = extents.iter().product();
        let stride = points.div_ceil(limit.max(1)).max(1);
        let choices = (0..points).step_by(stride).map(move |mut point| {
            let digit = |extent: &usize| {
                let digit = point % extent;
                point /= extent;
                digit
            };
            extents.iter().map(digit).collect()
        });
        self.add(choices, limit)
    }

    /// Points that differ from the fastest in one option by one value.
    fn around(&mut self, fastest: usize) -> Vec<Candidate> {
        let center = self.tried[fastest].clone();
        let mut choices = Vec::new();
        for (option, (_, values)) in self.space.iter().enumerate() {
            for index in [center[option].wrapping_sub(1), center[option] + 1] {
                if index < values.len() {
                    let mut choice = center.clone();
                    choice[option] = index;
                    choices.push(choice);
                }
            }
        }
        self.add(choices.into_iter(), usize::MAX)
    }

    fn keep(&self, _fastest: usize, _seconds: f64) -> Result<Option<PathBuf>> {
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use warpwright::runtime::{Device, LaunchCounts, Stream};

    use super::*;
    use crate::work::Work;
    use crate::{Result, Verified};

    /// Refuses a tile of 4 with 2 stages, and to launch a tile of 2 with 1 stage.
    #[derive(Clone, Debug, warpwright_harness_macros::Options)]
    struct Tiled {
        /// Tile.
        #[option(search = [1, 2, 4])]
        tile: Option<u32>,
        /// Stages.
        #[option(default = 1, search = [1, 2])]
        stages: u32,
    }

    impl Workload for Tiled {
        const NAME: &'static str = "tiled";

        fn work(&self) -> Work {
            Work::default()
        }

        fn prepare(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
            if (self.tile, self.stages) == (Some(4), 2) {
                return Err("the stages exceed shared memory".into());
            }
            let buffers = setup.buffers(self.work(), |_| Ok(()))?;
            let is_refused = (self.tile, self.stages) == (Some(2), 1);
            let launch = move |_: &Stream, (): &mut ()| match is_refused {
                true => Err("the registers exceed those of an SM".into()),
                false => Ok(LaunchCounts::default()),
            };
            Ok(buffers.launch(launch).verify(|()| Ok(Verified::default())))
        }
    }

    #[test]
    fn the_grid_is_searched_without_what_cannot_be_prepared_or_launched() {
        let setup = Setup::new(&Device::named("emu:h200").unwrap());
        let mut search = GridSearch::new(&Tiled::default(), &setup).expect("two options list values");
        let names = |candidates: Vec<Candidate>| -> Vec<_> {
            candidates.into_iter().map(|candidate| candidate.name).collect()
        };
        assert_eq!(
            names(search.first(3)),
            ["--tile 1 --stages 1", "--tile 4 --stages 1", "--tile 2 --stages 2"]
        );
        assert_eq!(names(search.around(0)), ["--tile 1 --stages 2"]);
        assert!(names(search.around(1)).is_empty());
        assert_eq!(search.keep(0, 1.0).unwrap(), None);
    }
}
