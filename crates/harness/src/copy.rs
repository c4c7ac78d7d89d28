//! The driver's copy between two buffers, the baseline of every workload that memory limits.

use warpwright::runtime::LaunchCounts;

use crate::compare::exactly;
use crate::error::Result;
use crate::number::Values;
use crate::prepared::Prepared;
use crate::setup::Setup;
use crate::work::Work;

/// A copy that reads half of `work.bytes` and writes the other half.
pub(crate) fn prepare(setup: &Setup, work: Work) -> Result<Box<dyn Prepared>> {
    let words = (work.bytes / 8.0).ceil() as usize;
    let buffers = setup.buffers(work, |seed| {
        Ok((setup.values::<u32>(Values::Normal, seed, words)?, setup.output::<u32>(words)?))
    })?;
    Ok(buffers
        .launch(|stream, (from, to)| {
            stream.copy(to, from)?;
            Ok(LaunchCounts::default())
        })
        .verify(|(from, to)| {
            let from = from.to_vec()?;
            exactly(&to.to_vec()?, |index| f64::from(from[index]))
        }))
}
