//! Coalescing, filtering, and other operations that change the form of a layout.

use crate::layout::FlatMode;
use crate::{Error, Int, IntTuple, Layout, Stride, Tuple};

impl Layout {
    /// The same function with the fewest modes: adjacent modes `s:d, t:s*d` merge into `s*t:d`, and
    /// modes of size 1 are removed.
    ///
    /// Post-condition: the size and depth <= 1; `R(i) = L(i)` for all `i < size`.
    ///
    /// ```
    /// use warpwright_layout::Layout;
    /// assert_eq!(Layout::new((2, (1, 6)), (1, (6, 2)))?.coalesce()?.to_string(), "12:1");
    /// # Ok::<(), warpwright_layout::Error>(())
    /// ```
    pub fn coalesce(&self) -> Result<Layout, Error> {
        Layout::of_flat_modes(merged(self.flat_modes())?)
    }

    /// Coalesces each mode at which the profile has a leaf. The tuple structure of the profile is
    /// kept, and so are the modes past its end. The values of the profile's leaves are ignored.
    ///
    /// Post-condition: by mode, that of [`coalesce`](Layout::coalesce).
    ///
    /// ```
    /// use warpwright_layout::Layout;
    /// let layout = Layout::new((2, (1, 6)), (1, (6, 2)))?;
    /// assert_eq!(layout.coalesce_by(&(1, 1).into())?.to_string(), "(2,6):(1,2)");
    /// # Ok::<(), warpwright_layout::Error>(())
    /// ```
    pub fn coalesce_by(&self, profile: &IntTuple) -> Result<Layout, Error> {
        self.by_profile(profile, &mut |mode| mode.coalesce())
    }

    /// The layout whose modes of stride 0 have extent 1.
    ///
    /// Post-condition: the same image; congruent with `L`.
    ///
    /// ```
    /// use warpwright_layout::Layout;
    /// assert_eq!(Layout::new((4, 8), (0, 1))?.filter_zeros().to_string(), "(1,8):(0,1)");
    /// # Ok::<(), warpwright_layout::Error>(())
    /// ```
    pub fn filter_zeros(&self) -> Layout {
        let mut strides = self.stride().leaves().into_iter();
        let shape = self.shape().map(&mut |extent: &Int| match strides.next() {
            Some(stride) if stride.is(0) => Int::ONE,
            _ => extent.clone(),
        });
        Layout::from_parts(shape, self.stride().clone())
    }

    /// The layout without its modes of stride 0 and size 1, coalesced.
    ///
    /// Post-condition: the same image; injective if only stride-0 modes made `L` not so.
    ///
    /// ```
    /// use warpwright_layout::Layout;
    /// assert_eq!(Layout::new((4, 8), (0, 1))?.filter()?.to_string(), "8:1");
    /// # Ok::<(), warpwright_layout::Error>(())
    /// ```
    pub fn filter(&self) -> Result<Layout, Error> {
        self.filter_zeros().coalesce()
    }

    /// Filters each mode at which the profile has a leaf, as [`coalesce_by`](Layout::coalesce_by)
    /// does.
    pub fn filter_by(&self, profile: &IntTuple) -> Result<Layout, Error> {
        self.by_profile(profile, &mut |mode| mode.filter())
    }

    /// The same function over a tuple of leaves.
    ///
    /// Post-condition: depth <= 1; `R(i) = L(i)`.
    ///
    /// ```
    /// use warpwright_layout::Layout;
    /// assert_eq!(Layout::column_major((2, (4, (2, 2))))?.flatten().to_string(), "(2,4,2,2):(1,2,8,16)");
    /// # Ok::<(), warpwright_layout::Error>(())
    /// ```
    pub fn flatten(&self) -> Layout {
        match self.shape() {
            Tuple::Leaf(_) => self.clone(),
            Tuple::Node(_) => Layout::of_modes(
                self.flat_modes().into_iter().map(|mode| Layout::leaf(mode.extent, mode.stride)),
            ),
        }
    }

    /// Groups modes `from..to` into one mode.
    ///
    /// Post-condition: `R(i) = L(i)`; rank lower by `to - from - 1`.
    ///
    /// ```
    /// use warpwright_layout::Layout;
    /// assert_eq!(Layout::column_major((2, 3, 4))?.group(0, 2)?.to_string(), "((2,3),4):((1,2),6)");
    /// # Ok::<(), warpwright_layout::Error>(())
    /// ```
    pub fn group(&self, from: usize, to: usize) -> Result<Layout, Error> {
        let mut modes = self.modes();
        if from > to || to > modes.len() {
            let (layout, rank) = (self.to_string(), self.rank());
            return Err(Error::NoSuchMode { layout, mode: to.max(from).saturating_sub(1), rank });
        }
        let grouped = Layout::of_modes(modes.drain(from..to));
        modes.insert(from, grouped);
        Ok(Layout::of_modes(modes))
    }

    /// Modes `from..to`.
    ///
    /// ```
    /// use warpwright_layout::Layout;
    /// assert_eq!(Layout::column_major((2, 3, 4))?.take(1, 3)?.to_string(), "(3,4):(2,6)");
    /// # Ok::<(), warpwright_layout::Error>(())
    /// ```
    pub fn take(&self, from: usize, to: usize) -> Result<Layout, Error> {
        let modes = self.modes();
        match modes.get(from..to) {
            Some(taken) => Ok(Layout::of_modes(taken.iter().cloned())),
            None => {
                let mode = to.max(from).saturating_sub(1);
                Err(Error::NoSuchMode { layout: self.to_string(), mode, rank: modes.len() })
            }
        }
    }

    /// Appends `other` as the last mode.
    ///
    /// ```
    /// use warpwright_layout::Layout;
    /// assert_eq!(Layout::new((2, 3), (1, 2))?.append(&Layout::unit()).to_string(), "(2,3,1):(1,2,0)");
    /// # Ok::<(), warpwright_layout::Error>(())
    /// ```
    pub fn append(&self, other: &Layout) -> Layout {
        Layout::of_modes(self.modes().into_iter().chain([other.clone()]))
    }

    /// Prepends `other` as the first mode.
    ///
    /// ```
    /// use warpwright_layout::Layout;
    /// assert_eq!(Layout::new((2, 3), (1, 2))?.prepend(&Layout::unit()).to_string(), "(1,2,3):(0,1,2)");
    /// # Ok::<(), warpwright_layout::Error>(())
    /// ```
    pub fn prepend(&self, other: &Layout) -> Layout {
        Layout::of_modes([other.clone()].into_iter().chain(self.modes()))
    }

    /// The layout with `1:0` appended until it has `rank` modes; unchanged if it has as many.
    pub fn append_to_rank(&self, rank: usize) -> Layout {
        match self.rank() < rank {
            true => self.append(&Layout::unit()).append_to_rank(rank),
            false => self.clone(),
        }
    }

    /// The layout with mode `position` replaced.
    pub fn replace(&self, position: usize, mode: Layout) -> Result<Layout, Error> {
        self.mode(position)?;
        let mut modes = self.modes();
        modes[position] = mode;
        Ok(Layout::of_modes(modes))
    }

    /// The layout whose mode `i` is mode `order[i]` of this one.
    ///
    /// ```
    /// use warpwright_layout::Layout;
    /// assert_eq!(Layout::column_major((2, 3, 4))?.select(&[2, 0])?.to_string(), "(4,2):(6,1)");
    /// # Ok::<(), warpwright_layout::Error>(())
    /// ```
    pub fn select(&self, order: &[usize]) -> Result<Layout, Error> {
        Ok(Layout::of_modes(
            order.iter().map(|&position| self.mode(position)).collect::<Result<Vec<_>, _>>()?,
        ))
    }

    /// Transposes a layout of layouts: `((a,b),(c,d))` becomes `((a,c),(b,d))`.
    ///
    /// # Errors
    /// If the modes differ in rank.
    ///
    /// ```
    /// use warpwright_layout::Layout;
    /// let layout = Layout::new(((1, 2), (3, 4)), ((5, 6), (7, 8)))?;
    /// assert_eq!(layout.zip()?.to_string(), "((1,3),(2,4)):((5,7),(6,8))");
    /// # Ok::<(), warpwright_layout::Error>(())
    /// ```
    pub fn zip(&self) -> Result<Layout, Error> {
        let modes: Vec<Vec<Layout>> = self.modes().iter().map(Layout::modes).collect();
        let rank = modes.first().map_or(0, Vec::len);
        if let Some(short) = modes.iter().position(|mode| mode.len() != rank) {
            let layout = self.mode(short)?;
            return Err(Error::NoSuchMode {
                mode: rank.max(1) - 1,
                rank: layout.rank(),
                layout: layout.to_string(),
            });
        }
        let column = |position: usize| Layout::of_modes(modes.iter().map(|mode| mode[position].clone()));
        Ok(Layout::of_modes((0..rank).map(column)))
    }

    fn by_profile(
        &self,
        profile: &IntTuple,
        operation: &mut impl FnMut(&Layout) -> Result<Layout, Error>,
    ) -> Result<Layout, Error> {
        let Tuple::Node(profiles) = profile else { return operation(self) };
        let mut modes = self.modes();
        if modes.len() < profiles.len() {
            let (layout, given) = (self.to_string(), profile.to_string());
            return Err(Error::RankTooSmall { layout, rank: modes.len(), given, wanted: profiles.len() });
        }
        for (mode, profile) in modes.iter_mut().zip(profiles) {
            *mode = mode.by_profile(profile, operation)?;
        }
        Ok(Layout::of_modes(modes))
    }

    /// The layout `extent:stride`.
    pub(crate) fn leaf(extent: Int, stride: Stride) -> Layout {
        Layout::from_parts(Tuple::Leaf(extent), Tuple::Leaf(stride))
    }

    /// The layout `extent:1`.
    pub(crate) fn contiguous(extent: impl Into<Int>) -> Layout {
        Layout::leaf(extent.into(), Stride::plain(1))
    }
}

/// Merges adjacent modes that continue each other and removes those of extent 1. Modes for which
/// this cannot be decided are not merged.
pub(crate) fn merged(modes: Vec<FlatMode>) -> Result<Vec<FlatMode>, Error> {
    let mut result: Vec<FlatMode> = Vec::with_capacity(modes.len());
    for mode in modes {
        if mode.extent.is(1) {
            continue;
        }
        match result.last_mut() {
            Some(last) if continues(last, &mode)? => last.extent = last.extent.times(&mode.extent)?,
            _ => result.push(mode),
        }
    }
    Ok(result)
}

/// Whether `next` continues where `mode` ends.
fn continues(mode: &FlatMode, next: &FlatMode) -> Result<bool, Error> {
    Ok(mode.stride.times(&mode.extent)? == next.stride)
}
