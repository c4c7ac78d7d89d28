//! The driver's own copy between two buffers of the device: what memory can do, beside what a kernel did.

use std::cell::RefCell;
use std::rc::Rc;

use warpwright::runtime::{Device, LaunchCounts};

use crate::prepared::Ready;
use crate::reference::Random;
use crate::registry::{Mismatch, Prepared, Result, Verified, Work};

/// A copy that moves `work.bytes` bytes in all, half of them read and half written.
pub(crate) fn of_as_many_bytes(device: &Device, work: Work) -> Result<Box<dyn Prepared>> {
    let words = (work.bytes / 16.0).ceil() as usize;
    let mut random = Random::new(words as u64);
    let pattern: Vec<u64> = (0..words).map(|_| random.bits()).collect();
    let from = device.buffer_from(&pattern)?;
    let to = Rc::new(RefCell::new(device.uninitialized::<u64>(words)?));
    let copied = Rc::clone(&to);
    Ok(Box::new(Ready {
        launch: move |stream: &_| {
            warpwright::runtime::Stream::copy(stream, &mut to.borrow_mut(), &from)?;
            Ok(LaunchCounts::default())
        },
        verify: move || {
            let found = copied.borrow().to_vec()?;
            match found.iter().zip(&pattern).position(|(found, expected)| found != expected) {
                None => Ok(Verified { elements: words as u64, worst: 0.0 }),
                Some(at) => Err(Mismatch {
                    at: vec![at],
                    found: found[at] as f64,
                    expected: pattern[at] as f64,
                    tolerance: 0.0,
                    wrong: found.iter().zip(&pattern).filter(|(found, expected)| found != expected).count()
                        as u64,
                    elements: words as u64,
                }
                .into()),
            }
        },
        work,
    }))
}
