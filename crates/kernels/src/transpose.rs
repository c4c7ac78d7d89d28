//! B = Aᵀ through a tile of shared memory, so that both global accesses are along rows.
//!
//! A warp writes a row of the tile and later reads a column. In a plain 32 x 32 tile of f32 a column lies in one bank: 32
//! conflicts. Two cures:
//!
//! ```text
//! padded    row stride 33: element (r, c) is in bank (33r + c) % 32 = (r + c) % 32
//! swizzled  element (r, c) is in bank c ^ r: no memory is lost, and the tile stays a power of two
//! ```

use std::rc::Rc;

use warpwright::prelude::*;
use warpwright::runtime::Device;

use crate::prepared::{Ready, ptx};
use crate::reference::Random;
use crate::registry::{Element, LibraryKernel, OptionSpec, Options, Prepared, Result, Work, compare};

/// How the tile avoids bank conflicts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cure {
    /// A column more.
    Padded,
    /// Banks exchanged by row.
    Swizzled,
}

/// B = Aᵀ; A is (m, n), B is (n, m), both row-major f32.
pub struct Transpose {
    /// How the tile avoids bank conflicts.
    pub cure: Cure,
}

/// The tile's side: a warp is a row of it.
const SIDE: u32 = 32;
/// Rows that a CTA copies at a time: each thread copies `SIDE / ROWS` elements.
const ROWS: u32 = 8;

impl Transpose {
    /// One CTA a tile.
    #[kernel]
    pub fn run(&self, a: &Global<f32>, b: &mut Global<f32>, m: u32, n: u32) {
        launch::required_block(SIDE, ROWS, 1);
        let tile = self.tile();
        let (x, y) = (thread_idx().x, thread_idx().y);

        let (row, column) = (block_idx().y * SIDE + y, block_idx().x * SIDE + x);
        for step in (0..SIDE).step_by(ROWS as usize) {
            if row + step < m && column < n {
                tile.set((y + step, x), a[(row + step) * n + column]);
            }
        }
        sync_threads();

        let (row, column) = (block_idx().x * SIDE + y, block_idx().y * SIDE + x);
        for step in (0..SIDE).step_by(ROWS as usize) {
            if row + step < n && column < m {
                b[(row + step) * m + column] = tile.get((x, y + step));
            }
        }
    }

    /// The tile (row, column) in shared memory.
    fn tile(&self) -> Tensor<f32, SharedSpace> {
        match self.cure {
            Cure::Padded => {
                let memory = shared_array::<f32>((SIDE * (SIDE + 1)) as usize);
                Tensor::with_layout(memory, Layout::new((SIDE, SIDE), (SIDE + 1, 1)))
            }
            Cure::Swizzled => {
                let memory = shared_array::<f32>((SIDE * SIDE) as usize);
                Tensor::swizzled(memory, Layout::row_major((SIDE, SIDE)), Swizzle::new(5, 0, 5))
            }
        }
    }
}

/// [`Transpose`] for the command line.
pub(crate) struct Library;

impl Library {
    fn kernel(options: &Options) -> Transpose {
        let cure = if options.choice("cure") == "padded" { Cure::Padded } else { Cure::Swizzled };
        Transpose { cure }
    }
}

const OPTIONS: &[OptionSpec] = &[
    OptionSpec::extent("m", 1000, "rows of A"),
    OptionSpec::extent("n", 777, "columns of A"),
    OptionSpec::choice("cure", &["swizzled", "padded"], "how bank conflicts are avoided"),
    OptionSpec::number("seed", 1, "of the input"),
];

impl LibraryKernel for Library {
    fn name(&self) -> &'static str {
        "transpose"
    }

    fn summary(&self) -> &'static str {
        "B = Aᵀ, f32, through a padded or swizzled tile of shared memory"
    }

    fn options(&self) -> &'static [OptionSpec] {
        OPTIONS
    }

    fn ptx(&self, target: &str, options: &Options) -> Result<String> {
        ptx(Self::kernel(options).run()?, target)
    }

    fn prepare(&self, device: &Device, options: &Options) -> Result<Box<dyn Prepared>> {
        let (m, n) = (u32::try_from(options.number("m"))?, u32::try_from(options.number("n"))?);
        let count = u32::try_from(u64::from(m) * u64::from(n))? as usize;
        let a = Random::new(options.number("seed")).normal(count);
        let a_there = device.buffer_from(&a)?;
        let b_there = Rc::new(device.uninitialized::<f32>(count)?);
        let kernel = device.compile(&Self::kernel(options).run()?)?;
        let result = Rc::clone(&b_there);
        Ok(Box::new(Ready {
            launch: move |stream: &_| {
                let launch = kernel.shape([n.div_ceil(SIDE), m.div_ceil(SIDE), 1], [SIDE, ROWS, 1]);
                Ok(kernel.function().launch(stream, launch, (&a_there, &*b_there, m, n))?)
            },
            verify: move || {
                let found = result.to_vec()?;
                let place = |index: usize| (index / m as usize, index % m as usize);
                let elements = found.iter().enumerate().map(|(index, found)| {
                    let (row, column) = place(index);
                    let expected = a[column * n as usize + row];
                    Element { found: f64::from(*found), expected: f64::from(expected), tolerance: 0.0 }
                });
                Ok(compare(elements, |index| vec![place(index as usize).0, place(index as usize).1])?)
            },
            work: Work { operations: 0.0, bytes: 8.0 * count as f64 },
        }))
    }
}
