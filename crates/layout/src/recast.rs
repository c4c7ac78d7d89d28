//! The same bytes as elements of another width.

use crate::layout::FlatMode;
use crate::{ComposedLayout, Error, Int, Layout, Offset, Stage, Stride, Tuple};

impl Layout {
    /// The layout of elements `factor` times as wide.
    ///
    /// Post-condition: `size(R) * factor = size(L)`; each element of `R` is `factor` adjacent
    /// elements of `L`.
    ///
    /// # Errors
    /// If the elements of `L` are not contiguous in runs of `factor`.
    ///
    /// ```
    /// use warpwright_layout::Layout;
    /// assert_eq!(Layout::row_major((4, 8))?.upcast(4)?.to_string(), "(4,2):(2,1)");
    /// # Ok::<(), warpwright_layout::Error>(())
    /// ```
    pub fn upcast(&self, factor: i64) -> Result<Layout, Error> {
        let factor = positive("the factor of upcast", factor)?;
        let mut strides = self.stride().leaves().into_iter();
        let mut scaled = Vec::new();
        let shape = self.shape().try_map(&mut |extent: &Int| {
            let stride = strides.next().cloned().unwrap_or(Stride::plain(0));
            let (extent, stride) = widen(self, extent, &stride, factor)?;
            scaled.push(stride);
            Ok(extent)
        })?;
        let mut scaled = scaled.into_iter();
        let stride = shape.map(&mut |_| scaled.next().unwrap_or(Stride::plain(0)));
        Layout::new(shape, stride)
    }

    /// The layout of elements a `factor`-th as wide.
    ///
    /// Post-condition: `size(R) = size(L) * factor`: each element of `L` is `factor` adjacent
    /// elements of `R`. If no mode of `L` is contiguous, the parts become a new mode inside the
    /// first.
    ///
    /// ```
    /// use warpwright_layout::Layout;
    /// assert_eq!(Layout::row_major((4, 2))?.downcast(4)?.to_string(), "(4,8):(8,1)");
    /// assert_eq!(Layout::new(4, 2)?.downcast(2)?.to_string(), "(2,4):(1,4)");
    /// # Ok::<(), warpwright_layout::Error>(())
    /// ```
    pub fn downcast(&self, factor: i64) -> Result<Layout, Error> {
        let factor = Int::Known(positive("the factor of downcast", factor)?);
        let contiguous = self.flat_modes().iter().position(|mode| mode.stride.is(1) && !mode.extent.is(1));
        let mut leaf = 0;
        let shape = self.shape().try_map(&mut |extent: &Int| {
            leaf += 1;
            if Some(leaf - 1) == contiguous { extent.times(&factor) } else { Ok(extent.clone()) }
        })?;
        leaf = 0;
        let stride = self.stride().try_map(&mut |stride: &Stride| {
            leaf += 1;
            if Some(leaf - 1) == contiguous { Ok(stride.clone()) } else { stride.times(&factor) }
        })?;
        let scaled = Layout::new(shape, stride)?;
        if contiguous.is_some() || factor.is(1) {
            return Ok(scaled);
        }
        let parts = Layout::contiguous(factor);
        match scaled.shape() {
            Tuple::Leaf(_) => Layout::of_flat_modes(crate::coalesce::merged(
                [FlatMode::new(parts.size()?, Stride::plain(1))]
                    .into_iter()
                    .chain(scaled.flat_modes())
                    .collect(),
            )?),
            Tuple::Node(modes) if modes.is_empty() => Ok(parts),
            Tuple::Node(_) => scaled.replace(0, Layout::of_modes([parts, scaled.mode(0)?])),
        }
    }

    /// The layout of elements of `to` bits over the same bytes as this layout of elements of `from`
    /// bits.
    ///
    /// Post-condition: `size(R) * to = size(L) * from`.
    ///
    /// ```
    /// use warpwright_layout::Layout;
    /// assert_eq!(Layout::row_major((4, 8))?.recast(16, 64)?.to_string(), "(4,2):(2,1)");
    /// # Ok::<(), warpwright_layout::Error>(())
    /// ```
    pub fn recast(&self, from: i64, to: i64) -> Result<Layout, Error> {
        let (down, up) = ratio(from, to)?;
        self.downcast(down)?.upcast(up)
    }
}

impl ComposedLayout {
    /// [`Layout::recast`] of a swizzled layout: the swizzle's bits move with the width.
    ///
    /// ```
    /// use warpwright_layout::{Layout, Swizzle};
    /// let bytes = Layout::row_major((8, 128))?.swizzled(Swizzle::new(3, 4, 3)?);
    /// assert_eq!(bytes.recast(8, 16)?.to_string(), "Swizzle<3,3,3> o 0 o (8,64):(64,1)");
    /// # Ok::<(), warpwright_layout::Error>(())
    /// ```
    pub fn recast(&self, from: i64, to: i64) -> Result<ComposedLayout, Error> {
        let (down, up) = ratio(from, to)?;
        let offset = self.offset().linear()?.times(&down.into())?;
        if offset.divisible_by(&up.into()) != Some(true) {
            return Err(Error::bad_argument(
                "the offset of a recast layout",
                offset,
                format!("a multiple of {up}"),
            ));
        }
        let stages = self.outer().iter().map(|stage| match stage {
            Stage::Swizzle(swizzle) => Ok(Stage::Swizzle(swizzle.downcast(down)?.upcast(up)?)),
            Stage::Layout(layout) => Ok(Stage::Layout(layout.recast(from, to)?)),
            Stage::Shift(by) => Ok(Stage::Shift(by.times(&down.into())?.divided_by(&up.into())?)),
        });
        let stages = stages.collect::<Result<Vec<_>, Error>>()?;
        let offset = Offset::Linear(offset.divided_by(&up.into())?);
        Ok(ComposedLayout::of_stages(stages, offset, self.inner().recast(from, to)?))
    }
}

/// The factors of downcast and upcast, in lowest terms.
fn ratio(from: i64, to: i64) -> Result<(i64, i64), Error> {
    let (from, to) = (positive("the old width", from)?, positive("the new width", to)?);
    let common = crate::int::gcd(from, to);
    Ok((from / common, to / common))
}

fn positive(what: &'static str, value: i64) -> Result<i64, Error> {
    if value > 0 { Ok(value) } else { Err(Error::bad_argument(what, value, "positive")) }
}

/// One mode in elements `factor` times as wide.
fn widen(layout: &Layout, extent: &Int, stride: &Stride, factor: i64) -> Result<(Int, Stride), Error> {
    if extent.is(1) || stride.scale.is(0) || !stride.is_plain() {
        return Ok((extent.clone(), stride.clone()));
    }
    let whole = Int::Known(factor);
    if stride.scale.divisible_by(&whole) == Some(true) {
        return Ok((extent.clone(), Stride::plain(stride.scale.divided_by(&whole)?)));
    }
    let refuse = || {
        let legal =
            format!("a multiple or, in a run that fills the wider element, a divisor of {factor}: {layout}");
        Error::bad_argument("a stride of an upcast layout", stride, legal)
    };
    let step = stride.scale.require("upcast", "it must divide the width ratio, or be divided by it")?;
    let (size, sign) = (step.abs(), step.signum());
    if factor % size != 0 {
        return Err(refuse());
    }
    let run = Int::Known(factor / size);
    match (extent.divisible_by(&run), extent.known()) {
        (Some(true), _) => Ok((extent.divided_by(&run)?, Stride::plain(sign))),
        (_, Some(extent)) if factor / size % extent == 0 => Ok((Int::ONE, Stride::plain(sign))),
        (_, Some(_)) => Err(refuse()),
        (_, None) => Err(Error::needs_known("upcast", extent, "whole wider elements must fill it")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn upcast_takes_adjacent_elements() {
        for text in ["(4,8):(8,1)", "(8,4):(1,8)", "((2,4),4):((1,8),2)"] {
            let narrow: Layout = text.parse().unwrap();
            let wide = narrow.upcast(2).unwrap();
            let mut starts: Vec<i64> =
                narrow.offsets().unwrap().into_iter().filter(|o| o % 2 == 0).map(|o| o / 2).collect();
            let mut offsets = wide.offsets().unwrap();
            starts.sort();
            offsets.sort();
            assert_eq!(starts, offsets, "{text}");
        }
    }

    #[test]
    fn upcast_refuses_scattered_elements() {
        assert!("(3,8):(8,3)".parse::<Layout>().unwrap().upcast(2).is_err());
    }

    #[test]
    fn downcast_lists_the_parts_of_each_element() {
        for text in ["(4,8):(8,1)", "4:2", "(2,3):(5,10)"] {
            let wide: Layout = text.parse().unwrap();
            let mut parts: Vec<i64> =
                wide.offsets().unwrap().iter().flat_map(|o| [o * 2, o * 2 + 1]).collect();
            let mut offsets = wide.downcast(2).unwrap().offsets().unwrap();
            parts.sort();
            offsets.sort();
            assert_eq!(parts, offsets, "{text}");
        }
    }
}
