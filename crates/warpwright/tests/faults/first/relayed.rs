//! Points of three coordinates, padded to four in shared memory: one warp scales them, and another one stores them.

use warpwright::prelude::*;
use warpwright::runtime::Device;

use crate::faults::first::{Error, Mistaken};

const POINTS: u32 = 32;

impl Mistaken {
    #[kernel]
    fn relayed(&self, x: &Global<f32>, y: &mut Global<f32>) {
        launch::threads(2 * POINTS);
        let points = shared_array::<f32>(4 * POINTS);
        let scaled = shared_array::<f32>(4 * POINTS);
        let (warp, lane) = (thread_idx().x / 32, thread_idx().x % 32);
        if warp == 0 {
            let loaded = if self.is("half of the points loaded") { POINTS / 2 } else { POINTS };
            if lane < loaded {
                for axis in 0..3 {
                    points[4 * lane + axis] = x[3 * lane + axis];
                }
            }
            let point: [Reg<f32>; 4] = (points + 4 * lane).load_vector();
            (scaled + 4 * lane).store_vector(point.map(|coordinate| coordinate * 2.0));
        }
        sync_threads();
        if warp == 1 {
            let point: [Reg<f32>; 4] = (scaled + 4 * lane).load_vector();
            let sum = if self.is("the padding is added") {
                point[0] + point[1] + point[2] + point[3]
            } else {
                point[0] + point[1] + point[2]
            };
            if self.is("the padding decides") {
                if point[3] > 0.0 {
                    y[lane] = sum;
                }
            } else {
                y[lane] = sum;
            }
        }
    }
}

pub(super) fn run(device: &Device, mistaken: Mistaken) -> Result<(), Error> {
    let points: Vec<f32> = (0..3 * POINTS).map(|i| i as f32).collect();
    let kernel = device.compile(&mistaken.relayed()?)?;
    let x = device.buffer_from(&points)?;
    let mut y = device.zeros::<f32>(POINTS as usize)?;
    kernel.launch(&device.stream()?, 1, (&x, &mut y))?;
    let expected: Vec<f32> = points.chunks(3).map(|point| 2.0 * point.iter().sum::<f32>()).collect();
    assert_eq!(y.to_vec()?, expected, "{}", mistaken.name());
    Ok(())
}
