//! The GEMM in NVFP4 as a workload.

use warpwright::arch::Capability;
use warpwright::lang::element::{bf16, e4m3};
use warpwright::lang::tensor::SCALE_BYTES;
use warpwright::layout::atom::scale_tile;
use warpwright::layout::{Error as LayoutError, Layout};
use warpwright::runtime::TensorMap;
use warpwright_harness::{
    Compared, HostNumber, Options, Prepared, Random, Refused, Result, Setup, Strided, Work, Workload,
    compare, product,
};

use super::TILE;
use super::nvfp4::{CHUNK, DEPTH, Nvfp4, ROWS};
use crate::elements;

/// Multiplies matrices in NVFP4, C = A·Bᵀ: elements of 4 bits, scales of blocks of 16, on Blackwell's tensor cores.
#[derive(Clone, Debug, Options)]
pub(crate) struct BlackwellNvfp4 {
    /// Rows of A and C.
    #[option(default = 256, min = 1, max = 1 << 30)]
    m: u32,
    /// Rows of B and columns of C, a multiple of 8.
    #[option(default = 256, min = 1, max = 1 << 30)]
    n: u32,
    /// Columns of A and B, a multiple of 32.
    #[option(default = 256, min = 1, max = 1 << 30)]
    k: u32,
}

/// Elements along k with one scale.
const BLOCK: u32 = 16;

/// The magnitudes of e2m1, by the lower three bits.
const MAGNITUDES: [f64; 8] = [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0];

/// A matrix in NVFP4, and what it is worth.
struct Quantized {
    /// Two elements a byte, the first in the lower half.
    codes: Vec<u8>,
    /// In the order in which the kernel copies them; those outside the matrix are 0.
    scales: Vec<u8>,
    values: Vec<f64>,
}

impl Quantized {
    /// A random matrix: any codes, scales from 1/4 to 4.
    fn random(random: &mut Random, rows: u32, k: u32) -> std::result::Result<Self, LayoutError> {
        let numbers = random.normal(rows as usize * k as usize);
        let code = |number: f32| ((number * 2.7).rem_euclid(16.0) as u8).min(15);
        let codes: Vec<u8> = numbers.into_iter().map(code).collect();
        let of_block: Vec<e4m3> = random
            .normal((rows * k.div_ceil(BLOCK)) as usize)
            .into_iter()
            .map(|number: f32| e4m3::nearest(f64::from(number.abs().clamp(0.25, 4.0))))
            .collect();
        let (tile, chunks) = (scale_tile(BLOCK.into())?, k.next_multiple_of(DEPTH) / CHUNK);
        let size = SCALE_BYTES as usize;
        let mut scales = vec![0; size * (rows.div_ceil(ROWS) * chunks) as usize];
        for (row, block) in (0..rows).flat_map(|row| (0..k / BLOCK).map(move |block| (row, block))) {
            let step = block * BLOCK;
            let number = row / ROWS * chunks + step / CHUNK;
            let at = position(&tile, row % ROWS, step % CHUNK)?;
            scales[number as usize * size + at] = of_block[(row * (k / BLOCK) + block) as usize].to_bits();
        }
        let value = |(at, code): (usize, &u8)| {
            let sign = if code & 8 == 0 { 1.0 } else { -1.0 };
            sign * MAGNITUDES[usize::from(code & 7)] * of_block[at / BLOCK as usize].exact()
        };
        let values = codes.iter().enumerate().map(value).collect();
        let codes = codes.chunks(2).map(|pair| pair[0] | pair[1] << 4).collect();
        Ok(Self { codes, scales, values })
    }
}

/// The byte of the scale of an element in the tile of 128 rows and four blocks.
fn position(tile: &Layout, row: u32, step: u32) -> std::result::Result<usize, LayoutError> {
    let index = tile.index(&(i64::from(row), i64::from(step)).into())?;
    Ok(index.known().unwrap_or(0) as usize)
}

impl BlackwellNvfp4 {
    /// A and B.
    fn inputs(&self, seed: u64) -> Result<[Quantized; 2]> {
        let mut random = Random::new(seed);
        Ok([Quantized::random(&mut random, self.m, self.k)?, Quantized::random(&mut random, self.n, self.k)?])
    }
}

impl Workload for BlackwellNvfp4 {
    const NAME: &'static str = "blackwell-nvfp4";

    fn supports(capability: &Capability) -> bool {
        ["sm_100a", "sm_103a"].contains(&capability.target)
    }

    /// A, B and their scales, and C are moved once.
    fn work(&self) -> Work {
        let [m, n, k] = [self.m, self.n, self.k].map(f64::from);
        let bytes_per_element = 0.5 + 1.0 / f64::from(BLOCK);
        Work { operations: 2.0 * m * n * k, bytes: bytes_per_element * (m + n) * k + 2.0 * m * n }
    }

    fn prepare(&self, setup: &Setup) -> Result<Box<dyn Prepared>> {
        let (m, n, k) = (self.m, self.n, self.k);
        for (option, extent, multiple) in [("n", n, 8), ("k", k, 32)] {
            if !extent.is_multiple_of(multiple) {
                let reason =
                    format!("rows of 16 bytes need --{option} to be a multiple of {multiple}, not {extent}");
                return Err(Refused::new(reason).into());
            }
        }
        for (rows, columns) in [(m, k), (n, k), (m, n)] {
            elements(rows, columns)?;
        }
        let compiled = setup.device().compile(&Nvfp4.run()?)?;
        let grid = m.div_ceil(TILE.0) * n.div_ceil(TILE.1);
        let own = self.clone();
        let buffers = setup.buffers(self.work(), |seed| {
            let [a, b] = self.inputs(seed)?;
            let columns = u64::from(k / 2);
            let map = |codes: &[u8], rows: u32, of_tile: u32| -> Result<TensorMap> {
                let buffer = setup.input(codes.len(), |_| codes.to_vec())?;
                Ok(TensorMap::of_tile(&buffer, (rows.into(), columns), &Nvfp4::tile(of_tile))?)
            };
            let maps = [map(&a.codes, m, TILE.0)?, map(&b.codes, n, TILE.1)?];
            let scales = [a.scales, b.scales];
            let [a_scales, b_scales] = scales.map(|scales| setup.input(scales.len(), |_| scales.clone()));
            Ok((seed, maps, a_scales?, b_scales?, setup.output::<bf16>((m * n) as usize)?))
        })?;
        Ok(buffers
            .launch(move |stream, (_, [a, b], a_scales, b_scales, c)| {
                Ok(compiled.launch(stream, grid, (&*a, &*b, &*a_scales, &*b_scales, c, m, n, k))?)
            })
            .verify(move |(seed, .., c)| {
                let [a, b] = own.inputs(*seed)?;
                let [m, n, k] = [m, n, k].map(|extent| extent as usize);
                let strided =
                    |values, row_stride, column_stride| Strided { values, row_stride, column_stride };
                let expected = product((m, n, k), strided(&a.values, k, 1), strided(&b.values, 1, k));
                // Products are exact in f32; sums of them are rounded once per instruction.
                let largest = 6.0 * 4.0 * 6.0 * 4.0 * k as f64;
                let found = c.to_vec()?;
                let compared = found.iter().zip(expected).map(|(found, expected)| Compared {
                    found: found.exact(),
                    expected,
                    tolerance: bf16::ROUNDING * expected.abs() * 1.01 + f32::ROUNDING * largest,
                });
                Ok(compare(compared, |index| vec![index as usize / n, index as usize % n])?)
            }))
    }
}
