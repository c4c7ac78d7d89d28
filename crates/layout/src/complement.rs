//! The complement: how a layout repeats without overlap.

use crate::coalesce::merged;
use crate::error::Illustration;
use crate::layout::FlatMode;
use crate::{Error, Int, IntTuple, Layout, Stride};

impl Layout {
    /// The layout `R` of the offsets at which this layout repeats without overlap, up to `size`.
    /// Modes of stride 0 are ignored.
    ///
    /// `(A, R)` has every offset of `[0, size)` where each mode of `A` ends at a divisor of the next stride. Other
    /// gaps of `A` remain: the offset 2 belongs to no repetition of `(2,4):(1,3)`.
    ///
    /// Post-conditions: `R` is strictly increasing; `R(i)` is not an offset of `A` for any `i >=
    /// 1`; `cosize((A, R)) >= size`; `(A, R)` is injective.
    ///
    /// # Errors
    /// If `A` is not injective (its modes of stride 0 apart), or a stride is negative or not known.
    ///
    /// ```
    /// use warpwright_layout::Layout;
    /// assert_eq!(Layout::new((2, 2), (1, 6))?.complement(24)?.to_string(), "(3,2):(2,12)");
    /// let error = Layout::new((2, 2), (1, 1))?.complement(8).unwrap_err();
    /// assert!(error.to_string().contains("not injective"));
    /// # Ok::<(), warpwright_layout::Error>(())
    /// ```
    pub fn complement(&self, size: impl Into<IntTuple>) -> Result<Layout, Error> {
        self.complement_of(&size.into().product()?, true)
    }

    /// The complement. With `reach`, one more repetition covers `size` if a stride does not divide
    /// the gaps. Divisions do not need it: a tile with such gaps never covers its layout.
    pub(crate) fn complement_of(&self, size: &Int, reach: bool) -> Result<Layout, Error> {
        let modes = self.by_stride("complement")?;
        let mut gaps: Vec<FlatMode> = Vec::new();
        let mut covered = Int::ONE;
        for (position, mode) in modes.iter().enumerate() {
            let stride = &mode.stride.scale;
            let after = mode.extent.times(stride)?;
            match (stride.known(), covered.known()) {
                (Some(stride), Some(covered)) if stride < covered => return self.interleaved(size),
                (Some(_), Some(_)) => {}
                _ if *stride == covered || covered.is(1) => {}
                _ => return Err(self.undecided_order(position, &covered)),
            }
            gaps.push(FlatMode::new(stride.divided_by(&covered)?, Stride::plain(covered)));
            covered = after;
        }
        let rounds =
            if reach { rounds(self, &gaps, size, &covered)? } else { size.ceil_divided_by(&covered)? };
        gaps.push(FlatMode::new(rounds, Stride::plain(covered)));
        Layout::of_flat_modes(merged(gaps)?)
    }

    /// The modes of extent above 1 and stride other than 0, by rising stride.
    pub(crate) fn by_stride(&self, operation: &'static str) -> Result<Vec<FlatMode>, Error> {
        let mut modes: Vec<FlatMode> = self.flat_modes();
        modes.retain(|mode| !mode.extent.is(1) && !mode.stride.scale.is(0));
        if let Some(basis) = modes.iter().find(|mode| !mode.stride.is_plain()) {
            return Err(Error::IsCoordinate(format!("{self} (stride {})", basis.stride)));
        }
        if modes.len() > 1 {
            let reason = "it orders the modes by stride";
            for mode in &modes {
                mode.stride.scale.require(operation, reason)?;
            }
            modes.sort_by_key(|mode| (mode.stride.scale.known(), mode.extent.known()));
        }
        if let Some(negative) =
            modes.iter().find(|mode| mode.stride.scale.known().is_some_and(|stride| stride < 0))
        {
            return Err(Error::bad_argument(
                "a stride",
                &negative.stride,
                format!("positive for {operation}"),
            ));
        }
        Ok(modes)
    }

    /// The complement of a layout with a mode that starts inside the range of the earlier ones: if
    /// it is injective, its repetition as a whole.
    fn interleaved(&self, size: &Int) -> Result<Layout, Error> {
        self.require_injective("complement")?;
        let cosize = self.cosize()?;
        Ok(Layout::leaf(size.ceil_divided_by(&cosize)?, Stride::plain(cosize)))
    }

    /// Refuses a layout that maps two coordinates to one offset, its modes of stride 0 apart.
    pub(crate) fn require_injective(&self, operation: &'static str) -> Result<(), Error> {
        let filtered = self.filter()?;
        let mut offsets = filtered.offsets()?;
        offsets.sort_unstable();
        match offsets.windows(2).find(|pair| pair[0] == pair[1]) {
            None => Ok(()),
            Some(pair) => Err(self.not_injective(operation, pair[0])),
        }
    }

    fn not_injective(&self, operation: &'static str, offset: i64) -> Error {
        let modes = self.flat_modes();
        let shared = |leaf: &usize| {
            let scale = &modes[*leaf].stride.scale;
            modes.iter().enumerate().any(|(other, mode)| {
                let scales = (scale.known(), mode.stride.scale.known());
                let extent = mode.extent.known().unwrap_or(1);
                other != *leaf
                    && matches!(scales, (Some(a), Some(b)) if b > 0 && a % b == 0 && a / b < extent)
            })
        };
        let leaf = (0..modes.len()).find(shared).unwrap_or(0);
        let summary =
            format!("{operation} of a layout that is not injective: two coordinates share offset {offset}");
        let note = format!("stride {} lands on offsets of another mode", modes[leaf].stride);
        let picture = Illustration::new(summary).mark("A", self, self.shape().columns_of_leaf(leaf), note);
        Error::NotInjective(Box::new(
            picture.suggest("give every mode a stride at least the extent times stride of the mode below it"),
        ))
    }

    fn undecided_order(&self, position: usize, covered: &Int) -> Error {
        let modes = self.flat_modes();
        let leaf = modes.get(position).map_or(covered, |mode| &mode.stride.scale);
        let leaf = if leaf.known().is_none() { leaf } else { covered };
        Error::needs_known("complement", leaf, "it must know which offsets the modes below cover")
    }
}

/// The repetitions of the range `[0, covered)` needed to cover `size`. If a stride does not divide
/// the gaps, one more repetition is needed.
fn rounds(layout: &Layout, gaps: &[FlatMode], size: &Int, covered: &Int) -> Result<Int, Error> {
    let rounds = size.ceil_divided_by(covered)?;
    let (Some(known_rounds), Some(covered), Some(size)) = (rounds.known(), covered.known(), size.known())
    else {
        return Ok(rounds);
    };
    let mut reach = i128::from(layout.filter()?.cosize()?.require("complement", "it compares sizes")?);
    for gap in gaps {
        let (extent, stride) = (gap.extent.known().unwrap_or(1), gap.stride.scale.known().unwrap_or(0));
        reach += i128::from(extent - 1) * i128::from(stride);
    }
    let total = reach + i128::from(known_rounds - 1) * i128::from(covered);
    Ok(if total < i128::from(size) { Int::Known(known_rounds + 1) } else { rounds })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gaps_that_no_stride_divides_still_reach_the_size() {
        let a: Layout = "(2,2):(1,5)".parse().unwrap();
        let rest = a.complement(10).unwrap();
        assert!(Layout::of_modes([a, rest]).cosize().unwrap().known().unwrap() >= 10);
    }

    #[test]
    fn interleaved_but_injective_layouts_have_a_complement() {
        let a: Layout = "(3,2):(2,3)".parse().unwrap();
        assert_eq!(a.complement(16).unwrap().to_string(), "2:8");
    }

    #[test]
    fn device_sizes_round_up() {
        let rest = Layout::contiguous(128).complement(Int::device(0, "m")).unwrap();
        assert_eq!(rest.to_string(), "(m+127)/128:128");
    }

    #[test]
    fn device_strides_are_named() {
        let k = Int::device(0, "k");
        let error = Layout::new((2, 4), (k, 1)).unwrap().complement(64).unwrap_err();
        assert!(error.to_string().starts_with("complement needs to know `k`"), "{error}");
    }
}
