//! The driver's own copy between two buffers of the device: what memory can do, beside what a kernel did.

use warpwright::runtime::{Device, LaunchCounts};

use crate::number::Values;
use crate::registry::{Mismatch, Prepared, Result, Verified, Work};
use crate::rotation::rotating;

/// The rival of a kernel that does so much: a copy of as many bytes, if it is the one that `name` asks for.
pub fn rival(
    name: &str,
    device: &Device,
    work: impl FnOnce() -> Result<Work>,
) -> Option<Result<Box<dyn Prepared>>> {
    (name == "copy").then(|| of_as_many_bytes(device, work()?))
}

/// A copy that moves `work.bytes` bytes in all, half of them read and half written.
fn of_as_many_bytes(device: &Device, work: Work) -> Result<Box<dyn Prepared>> {
    let words = (work.bytes / 8.0).ceil() as usize;
    rotating(
        device,
        words as u64,
        work,
        |seed| {
            let from = device.buffer_from(&Values::Normal.numbers::<u32>(seed, words))?;
            Ok((from, device.uninitialized::<u32>(words)?))
        },
        |stream, (from, to)| {
            stream.copy(to, from)?;
            Ok(LaunchCounts::default())
        },
        |(from, to)| {
            let (expected, found) = (from.to_vec()?, to.to_vec()?);
            let differs = |at: &usize| found[*at] != expected[*at];
            let elements = found.len() as u64;
            match (0..found.len()).find(differs) {
                None => Ok(Verified { elements, worst: 0.0 }),
                Some(at) => Err(Mismatch {
                    at: vec![at],
                    found: found[at].into(),
                    expected: expected[at].into(),
                    tolerance: 0.0,
                    wrong: (0..found.len()).filter(differs).count() as u64,
                    elements,
                }
                .into()),
            }
        },
    )
}
