//! The bytes a buffer holds before the launch, and the file they are saved to after it.

use std::f64::consts::TAU;
use std::path::Path;

use anyhow::{Context, Result, bail};

use super::description::{Init, bytes};
use crate::dtype::{Dtype, NumpyKind};
use crate::file;
use crate::npy::Array;

/// Bytes of a NumPy file besides its elements: those of a header, with room to spare.
const MOST_HEADER_BYTES: u64 = 1 << 20;

/// The bytes of an array's initial elements. Paths are relative to `directory`.
pub(crate) fn initial(
    dtype: &'static Dtype,
    shape: &[usize],
    init: &Init,
    directory: &Path,
) -> Result<Vec<u8>> {
    let count = shape.iter().product::<usize>();
    match init {
        Init::Values(bytes) => Ok(bytes.clone()),
        Init::Zero => Ok(vec![0; count * dtype.bytes()]),
        Init::Poison => Ok(vec![0xff; count * dtype.bytes()]),
        Init::Iota => Ok((0..count as u64).flat_map(|index| dtype.nearest_to_integer(index)).collect()),
        Init::Normal { seed } => {
            Ok(Normal::new(*seed).take(count).flat_map(|number| dtype.nearest(number)).collect())
        }
        Init::Npy(path) => {
            let path = directory.join(path);
            let shown = path.display();
            let file = file::bytes(&path, bytes(dtype, shape).saturating_add(MOST_HEADER_BYTES))?;
            let array = Array::parse(&file).with_context(|| format!("{shown} is not an array of numbers"))?;
            elements(array, dtype, shape).with_context(|| format!("{shown} does not fit"))
        }
    }
}

/// The elements of an array that must fit: their shape and their bits, whatever the signs of
/// integers.
fn elements(array: Array, dtype: &Dtype, shape: &[usize]) -> Result<Vec<u8>> {
    let is_float = |kind| kind == NumpyKind::Float;
    // A 32-bit float is a tf32 number once its low bits are ignored, which is what the hardware
    // does.
    let is_wide_tf32 = dtype.name() == "tf32" && array.kind == NumpyKind::Float;
    if array.element_bytes != dtype.bytes()
        || (is_float(array.kind) != is_float(dtype.numpy) && !is_wide_tf32)
    {
        let given = format!("{:?} elements of {} bytes", array.kind, array.element_bytes).to_lowercase();
        bail!("it has {given}, and {} travels as {}", dtype.name(), travels_as(dtype));
    }
    if !is_same_order(&array.shape, shape) {
        bail!("its shape is {:?}, and the buffer's is {shape:?}", array.shape);
    }
    Ok(array.data)
}

/// Whether two arrays have the same elements in the same order: their extents are equal, or one of
/// them is flat and the other has as many elements. Extents of 1 do not count.
fn is_same_order(one: &[usize], other: &[usize]) -> bool {
    let extents = |shape: &[usize]| shape.iter().copied().filter(|&extent| extent != 1).collect::<Vec<_>>();
    let (one, other) = (extents(one), extents(other));
    let count = |shape: &[usize]| shape.iter().product::<usize>();
    one == other || ((one.len() <= 1 || other.len() <= 1) && count(&one) == count(&other))
}

fn travels_as(dtype: &Dtype) -> String {
    let kind = match dtype.numpy {
        NumpyKind::Boolean => "booleans",
        NumpyKind::Unsigned | NumpyKind::Signed => "integers",
        NumpyKind::Float => "floats",
    };
    format!("{kind} of {} bytes", dtype.bytes())
}

/// Writes an array's elements as a NumPy file.
pub(crate) fn save(dtype: &Dtype, shape: &[usize], data: Vec<u8>, path: &Path) -> Result<()> {
    let (kind, element_bytes) = (dtype.numpy, dtype.bytes());
    file::write(path, Array { kind, element_bytes, shape: shape.to_vec(), data }.to_bytes())
}

/// Standard normal numbers, the same on every machine: SplitMix64 through the Box-Muller transform.
struct Normal {
    state: u64,
    /// The second number of a pair.
    second: Option<f64>,
}

impl Normal {
    fn new(seed: u64) -> Self {
        Self { state: seed, second: None }
    }

    /// 64 uniform bits.
    fn bits(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = self.state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A uniform number in (0, 1].
    fn uniform(&mut self) -> f64 {
        ((self.bits() >> 11) + 1) as f64 / (1u64 << 53) as f64
    }
}

impl Iterator for Normal {
    type Item = f64;

    fn next(&mut self) -> Option<f64> {
        if let Some(second) = self.second.take() {
            return Some(second);
        }
        let radius = (-2.0 * self.uniform().ln()).sqrt();
        let (sine, cosine) = (TAU * self.uniform()).sin_cos();
        self.second = Some(radius * sine);
        Some(radius * cosine)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(dtype: &str) -> &'static Dtype {
        Dtype::named(dtype).expect("in the table")
    }

    #[test]
    fn iota_counts_in_every_type() {
        let of = |dtype| initial(named(dtype), &[2, 2], &Init::Iota, Path::new("")).expect("no file is read");
        assert_eq!(of("u8"), [0, 1, 2, 3]);
        assert_eq!(of("bf16"), [0, 0, 0x80, 0x3f, 0, 0x40, 0x40, 0x40]);
        assert_eq!(of("e5m2"), [0, 0x3c, 0x40, 0x42]);
    }

    #[test]
    fn normal_numbers_have_mean_0_variance_1_and_a_seed() {
        let numbers: Vec<f64> = Normal::new(1).take(100_000).collect();
        let mean = numbers.iter().sum::<f64>() / numbers.len() as f64;
        let variance =
            numbers.iter().map(|number| (number - mean).powi(2)).sum::<f64>() / numbers.len() as f64;
        assert!(mean.abs() < 0.02 && (variance - 1.0).abs() < 0.02, "{mean} {variance}");
        assert!(numbers.iter().all(|number| number.is_finite()));
        assert!(Normal::new(1).take(10).eq(numbers[..10].iter().copied()));
        assert!(!Normal::new(2).take(10).eq(numbers[..10].iter().copied()));
    }

    #[test]
    fn arrays_must_fit() {
        let array = |kind, element_bytes, shape: &[usize]| Array {
            kind,
            element_bytes,
            shape: shape.to_vec(),
            data: vec![1; element_bytes * shape.iter().product::<usize>()],
        };
        let fits = |array, dtype, shape: &[usize]| {
            elements(array, named(dtype), shape).map_err(|error| error.to_string())
        };
        use NumpyKind::{Float, Signed, Unsigned};
        assert!(fits(array(Float, 4, &[2, 3]), "f32", &[2, 3]).is_ok());
        assert!(fits(array(Float, 4, &[6]), "f32", &[2, 3]).is_ok(), "the order of elements is the same");
        assert!(fits(array(Float, 4, &[2, 3]), "f32", &[6]).is_ok(), "the order of elements is the same");
        assert!(fits(array(Float, 4, &[1, 2, 3]), "f32", &[2, 1, 3]).is_ok());
        assert!(fits(array(Float, 4, &[]), "f32", &[1]).is_ok());
        for (given, needed) in [(&[2, 3][..], &[3, 2][..]), (&[6, 4], &[4, 6]), (&[2, 2, 6], &[4, 6])] {
            let refused = fits(array(Float, 4, given), "f32", needed).expect_err("the axes are others");
            assert!(refused.contains(&format!("{given:?}")) && refused.contains(&format!("{needed:?}")));
        }
        assert!(fits(array(Signed, 4, &[6]), "u32", &[6]).is_ok());
        assert!(fits(array(Unsigned, 2, &[6]), "bf16", &[6]).is_ok());
        assert!(fits(array(Float, 4, &[6]), "tf32", &[6]).is_ok());
        let refused = fits(array(Float, 2, &[6]), "bf16", &[6]).expect_err("f16 is not bf16");
        assert!(
            refused.contains("float elements of 2 bytes") && refused.contains("integers of 2"),
            "{refused}"
        );
        let refused = fits(array(Float, 8, &[6]), "f32", &[6]).expect_err("too wide");
        assert!(refused.contains("f32 travels as floats of 4 bytes"), "{refused}");
        let refused = fits(array(Float, 4, &[5]), "f32", &[6]).expect_err("too short");
        assert!(refused.contains("[5]") && refused.contains("[6]"), "{refused}");
    }
}
