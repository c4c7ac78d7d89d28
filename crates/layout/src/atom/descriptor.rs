//! The shared-memory matrix descriptor of `wgmma`, derived from the layout of the operand.

use super::{Major, SharedSwizzle};
use crate::error::Illustration;
use crate::{ComposedLayout, Error, Layout};

/// The fields of a `wgmma` descriptor except the address (PTX ISA, "Matrix descriptor format" of
/// wgmma).
///
/// ```
/// use warpwright_layout::atom::{Major, SharedDescriptor, SharedSwizzle, SharedTile};
/// let tile = SharedTile { major: Major::K, swizzle: SharedSwizzle::Bytes128, element_bits: 16 }.fill((128, 64))?;
/// // One wgmma reads 64 rows of 16 f16.
/// let operand = tile.local_tile((64, 16), &(1, 2).into())?;
/// let descriptor = SharedDescriptor::of_operand(&operand, Major::K, 16)?;
/// assert_eq!((descriptor.swizzle, descriptor.stride_bytes), (SharedSwizzle::Bytes128, 1024));
/// assert_eq!(descriptor.start_bytes, 64 * 128 + 2 * 32);
/// # Ok::<(), warpwright_layout::Error>(())
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SharedDescriptor {
    /// Bytes from the start of the tile to the operand, before the swizzle.
    pub start_bytes: i64,
    /// The leading dimension byte offset. A swizzled k-major operand ignores it (16), unless it is
    /// deeper than the swizzle span: then it is the distance between spans along k. (Measured on
    /// H200.)
    pub leading_bytes: i64,
    /// The stride dimension byte offset.
    pub stride_bytes: i64,
    /// The swizzling mode.
    pub swizzle: SharedSwizzle,
}

impl SharedDescriptor {
    /// The descriptor of an (mn, k) operand of one MMA: 32 bytes along k, or 64 for B of a sparse
    /// one. A copy to tensor memory (`tcgen05.cp`) also has 16, and as few as four rows.
    ///
    /// # Errors
    /// If the layout is not canonical. The error shows both layouts.
    pub fn of_operand(
        operand: &ComposedLayout,
        major: Major,
        element_bits: i64,
    ) -> Result<SharedDescriptor, Error> {
        let swizzle = match operand.swizzle() {
            Some(swizzle) => SharedSwizzle::of(swizzle, element_bits)?,
            None => {
                return Err(Error::bad_argument(
                    "the operand of wgmma",
                    operand,
                    "a layout, swizzled at most",
                ));
            }
        };
        let start =
            operand.offset().linear()?.require("a matrix descriptor", "it holds the operand's start")?;
        let refuse = || not_canonical(operand, major, swizzle);
        // In units of 16 bytes, along the contiguous mode.
        let units = operand.inner().recast(element_bits, 128).map_err(|_| refuse())?;
        let span = swizzle.span_bytes() / 16;
        let (leading, stride) = match major {
            Major::K => k_major(&units, span),
            Major::Mn => mn_major(&units, span),
        }
        .ok_or_else(refuse)?;
        Ok(SharedDescriptor {
            start_bytes: start * element_bits / 8,
            leading_bytes: leading * 16,
            stride_bytes: stride * 16,
            swizzle,
        })
    }

    /// The bits above the address field, which holds the start address in 16-byte units: the
    /// leading offset in bits 16-29, the stride offset in 32-45, the swizzling mode in 62-63.
    pub fn bits(&self) -> u64 {
        let mode = match self.swizzle {
            SharedSwizzle::None => 0,
            SharedSwizzle::Bytes128 => 1,
            SharedSwizzle::Bytes64 => 2,
            SharedSwizzle::Bytes32 => 3,
        };
        self.offsets() | mode << 62
    }

    /// As [`bits`](Self::bits), for `tcgen05` (sm_100a): the swizzling mode in bits 61-63, and 1 in
    /// bits 46-48. PTX ISA, "Shared memory descriptor" of tcgen05.
    pub fn tensor_core_bits(&self) -> u64 {
        let mode = match self.swizzle {
            SharedSwizzle::None => 0,
            SharedSwizzle::Bytes128 => 2,
            SharedSwizzle::Bytes64 => 4,
            SharedSwizzle::Bytes32 => 6,
        };
        self.offsets() | 1 << 46 | mode << 61
    }

    fn offsets(&self) -> u64 {
        let field = |bytes: i64| (bytes as u64 >> 4) & 0x3fff;
        field(self.leading_bytes) << 16 | field(self.stride_bytes) << 32
    }
}

/// Splits a mode into runs of `inner`: (stride of the run, repeats, stride of the repeats).
fn split(mode: &Layout, inner: i64) -> Option<(i64, i64, i64)> {
    let halves = mode.logical_divide(inner).ok()?;
    let leaf = |position: usize| {
        let half = halves.mode(position).ok()?.coalesce().ok()?;
        let (extent, stride) = (half.shape().leaf()?.known()?, half.stride().leaf()?.scale.known()?);
        Some((extent, stride))
    };
    let ((_, step), (repeats, stride)) = (leaf(0)?, leaf(1)?);
    Some((step, repeats, stride))
}

/// `((8, n), (span, d)) : ((span, SBO), (1, LBO))`, where d is 1 except for B of a sparse MMA;
/// without swizzle `((8, n), d) : ((1, SBO), LBO)`.
fn k_major(units: &Layout, span: i64) -> Option<(i64, i64)> {
    let rows = units.mode(0).ok()?;
    let (row, groups, stride) = split(&rows, rows.size().ok()?.known()?.min(8))?;
    let depth = units.mode(1).ok()?.size().ok()?.known()?;
    let run = span.min(depth);
    let (step, spans, leading) = split(&units.mode(1).ok()?, run)?;
    let stride = if groups == 1 { row * 8 } else { stride };
    let canonical = matches!(depth, 1 | 2 | 4) && row == span && (run == 1 || step == 1);
    canonical.then_some((if spans == 1 { 1 } else { leading }, stride))
}

/// `((span, n), (8, k)) : ((1, LBO), (span, SBO))`, or without swizzle `((1, n), (8, k)) : ((_,
/// SBO), (1, LBO))`.
fn mn_major(units: &Layout, span: i64) -> Option<(i64, i64)> {
    let (run, columns, along_mn) = split(&units.mode(0).ok()?, span)?;
    let (row, groups, along_k) = split(&units.mode(1).ok()?, 8)?;
    let block = span * 8;
    let along_mn = if columns == 1 { block } else { along_mn };
    let along_k = if groups == 1 { block } else { along_k };
    // Rows of which each holds 16 bytes along k are none of a matrix that is contiguous along mn.
    let whole = units.mode(1).ok()?.size().ok()?.known()? % 8 == 0;
    let canonical = whole && row == span && (span == 1 || run == 1);
    canonical.then_some(if span == 1 { (along_k, along_mn) } else { (along_mn, along_k) })
}

fn not_canonical(operand: &ComposedLayout, major: Major, swizzle: SharedSwizzle) -> Error {
    let summary =
        format!("the operand of wgmma is not in a canonical layout of {swizzle:?}, {major:?} contiguous");
    let picture = Illustration::new(summary).show("operand", operand);
    Error::NotRepresentable(Box::new(
        picture
            .suggest("the nearest legal choice is a tile swizzled for wgmma: the layout of a TmaTile, or of SharedTile::fill, cut by local_tile"),
    ))
}

#[cfg(test)]
mod tests {
    use super::super::SharedTile;
    use super::*;

    /// The address that the descriptor gives each 16-byte unit (PTX ISA, "Strides" of wgmma) equals
    /// that of the layout.
    #[test]
    fn the_descriptor_finds_every_unit() {
        for (major, swizzle) in
            [Major::K, Major::Mn].into_iter().flat_map(|m| SharedSwizzle::ALL.map(|s| (m, s)))
        {
            let shape = (128, 128);
            let tile = SharedTile { major, swizzle, element_bits: 16 }.fill(shape).unwrap();
            for (at_mn, at_k) in [(0, 0), (1, 0), (1, 5)] {
                let operand = tile.local_tile((64, 16), &(at_mn, at_k).into()).unwrap();
                let descriptor = SharedDescriptor::of_operand(&operand, major, 16).unwrap();
                let (lbo, sbo, span) =
                    (descriptor.leading_bytes, descriptor.stride_bytes, swizzle.span_bytes());
                for (mn, k) in (0..64).flat_map(|mn| (0..16).map(move |k| (mn, k))) {
                    let expected = match (major, swizzle) {
                        (Major::K, SharedSwizzle::None) => {
                            mn % 8 * 16 + mn / 8 * sbo + k / 8 * lbo + k % 8 * 2
                        }
                        (Major::K, _) => mn % 8 * span + mn / 8 * sbo + k * 2,
                        (Major::Mn, SharedSwizzle::None) => {
                            mn % 8 * 2 + mn / 8 * sbo + k % 8 * 16 + k / 8 * lbo
                        }
                        (Major::Mn, _) => {
                            let run = span / 2;
                            mn % run * 2 + mn / run * lbo + k % 8 * span + k / 8 * sbo
                        }
                    };
                    let before = operand.inner_offset(&(mn, k).into()).unwrap();
                    let before = before.linear().unwrap().known().unwrap() * 2 - descriptor.start_bytes;
                    assert_eq!(before, expected, "{major:?} {swizzle:?} at {mn},{k}: {descriptor:?}");
                }
            }
        }
    }

    /// B of a sparse MMA is twice as deep: past one row of the pattern, the leading offset applies.
    /// (Measured on H200.)
    #[test]
    fn the_descriptor_of_64_bytes_finds_every_unit() {
        for swizzle in SharedSwizzle::ALL {
            let tile = SharedTile { major: Major::K, swizzle, element_bits: 16 }.fill((64, 128)).unwrap();
            for at_k in 0..4 {
                let operand = tile.local_tile((16, 32), &(1, at_k).into()).unwrap();
                let descriptor = SharedDescriptor::of_operand(&operand, Major::K, 16).unwrap();
                let span = swizzle.span_bytes();
                for (n, unit) in (0..16).flat_map(|n| (0..4).map(move |unit| (n, unit))) {
                    let beyond = 16 * unit / span * descriptor.leading_bytes + 16 * unit % span;
                    let expected = n % 8 * span + n / 8 * descriptor.stride_bytes + beyond;
                    let before = operand.inner_offset(&(n, 8 * unit).into()).unwrap();
                    let before = before.linear().unwrap().known().unwrap() * 2 - descriptor.start_bytes;
                    assert_eq!(before, expected, "{swizzle:?} at {n}, {unit}: {descriptor:?}");
                }
            }
        }
    }

    #[test]
    fn plain_rows_are_no_operand() {
        let rows = ComposedLayout::from(Layout::row_major((64, 16)).unwrap());
        let columns = ComposedLayout::from(Layout::column_major((64, 16)).unwrap());
        for operand in [rows, columns] {
            for major in [Major::K, Major::Mn] {
                assert!(SharedDescriptor::of_operand(&operand, major, 16).is_err(), "{operand} {major:?}");
            }
        }
    }

    #[test]
    fn fields_stand_where_the_isa_puts_them() {
        let descriptor = SharedDescriptor {
            start_bytes: 0,
            leading_bytes: 16,
            stride_bytes: 1024,
            swizzle: SharedSwizzle::Bytes128,
        };
        assert_eq!(descriptor.bits(), 1 << 16 | 64 << 32 | 1 << 62);
    }

    #[test]
    fn other_layouts_are_refused() {
        let plain = ComposedLayout::from(Layout::row_major((64, 16)).unwrap());
        let error = SharedDescriptor::of_operand(&plain, Major::K, 16).unwrap_err();
        assert!(error.to_string().contains("canonical"), "{error}");
    }
}
