//! Inverses, null spaces, and common layouts.

use crate::coalesce::merged;
use crate::error::Illustration;
use crate::layout::FlatMode;
use crate::{Error, Int, Layout, Stride};

/// A mode with the stride of its coordinate in the layout's index.
struct Placed {
    extent: Int,
    stride: Int,
    place: Int,
}

impl Layout {
    /// The inverse of the longest run of consecutive offsets from 0.
    ///
    /// Post-condition: `L(R(i)) = i` for all `i < size(R)`.
    ///
    /// Each mode of the run has the stride at which the one before ends: a number, or the same
    /// product of device values. As in the reference implementation, a mode of stride 0, or one that
    /// repeats offsets, ends the run.
    ///
    /// ```
    /// use warpwright_layout::{Int, Layout};
    /// assert_eq!(Layout::new((4, 8), (8, 1))?.right_inverse()?.to_string(), "(8,4):(4,1)");
    /// let (m, n) = (Int::device(0, "m"), Int::device(1, "n"));
    /// assert_eq!(Layout::new((n, m.clone()), (m, 1))?.right_inverse()?.to_string(), "(m,n):(n,1)");
    /// # Ok::<(), warpwright_layout::Error>(())
    /// ```
    pub fn right_inverse(&self) -> Result<Layout, Error> {
        run_from_one(self.placed_modes()?)
    }

    /// [`right_inverse`](Layout::right_inverse) of the layout without its modes of stride 0.
    pub(crate) fn right_inverse_of_filtered(&self) -> Result<Layout, Error> {
        let mut modes = self.placed_modes()?;
        modes.retain(|mode| !mode.stride.is(0));
        run_from_one(modes)
    }

    /// A layout that maps each offset of this layout back to an index.
    ///
    /// Post-condition: `L(R(L(i))) = L(i)`, and `R(L(i)) = i` where `L` is injective.
    ///
    /// # Errors
    /// If the strides do not nest (each must divide the next larger one) and no run of the smaller
    /// ones has an inverse.
    ///
    /// ```
    /// use warpwright_layout::Layout;
    /// assert_eq!(Layout::new(4, 2)?.left_inverse()?.to_string(), "(2,4):(4,1)");
    /// # Ok::<(), warpwright_layout::Error>(())
    /// ```
    pub fn left_inverse(&self) -> Result<Layout, Error> {
        let mut modes = self.placed_modes()?;
        modes.retain(|mode| !mode.stride.is(0));
        if modes.len() > 1 {
            for mode in &modes {
                mode.stride.require("left_inverse", "it orders the modes by stride")?;
            }
        }
        modes.sort_by_key(|mode| (mode.stride.known(), mode.extent.known(), mode.place.known()));
        if fills_exactly(&modes)? {
            return Layout::of_modes([self.clone(), self.complement(1)?]).right_inverse_of_filtered();
        }
        self.digits_between_strides(&modes)
    }

    /// The left inverse that reads, for each mode, the digit between its stride and the next.
    fn digits_between_strides(&self, modes: &[Placed]) -> Result<Layout, Error> {
        let (mut result, mut below, mut place) = (Vec::new(), Int::ONE, Int::ZERO);
        for mode in modes {
            let nested = mode.stride.divisible_by(&below) == Some(true);
            let digit = mode.stride.divided_by(&below)?;
            let room = match result.len() {
                0 => true,
                _ => previous_fits(modes, result.len() - 1, &digit),
            };
            if !nested || !room {
                return match closed(result, modes, place) {
                    Ok(partial) if self.is_led_back_by(&partial) => Ok(partial),
                    _ => {
                        self.require_injective("left_inverse")?;
                        Err(self.strides_do_not_nest(&mode.stride, &below))
                    }
                };
            }
            result.push(FlatMode::new(digit, Stride::plain(place)));
            (below, place) = (mode.stride.clone(), mode.place.clone());
        }
        closed(result, modes, place)
    }

    /// Whether `back` maps every offset of this layout to one of its indices, and to the same index
    /// if it is injective.
    fn is_led_back_by(&self, back: &Layout) -> bool {
        let Ok(offsets) = self.offsets() else { return false };
        let injective = self.nullspace().is_ok_and(|kernel| kernel.size() == Ok(Int::ONE))
            && self.require_injective("left_inverse").is_ok();
        offsets.iter().enumerate().all(|(index, &offset)| match back.at(offset) {
            Ok(found) => (!injective || found == index as i64) && self.at(found) == Ok(offset),
            Err(_) => false,
        })
    }

    fn strides_do_not_nest(&self, stride: &Int, below: &Int) -> Error {
        let leaf = self.stride().leaves().iter().position(|leaf| leaf.scale == *stride).unwrap_or(0);
        let summary =
            format!("left_inverse is not a layout: stride {stride} starts inside the mode of stride {below}");
        let picture = Illustration::new(summary).mark(
            "L",
            self,
            self.shape().columns_of_leaf(leaf),
            format!("stride {stride}"),
        );
        Error::NotRepresentable(Box::new(
            picture.suggest(format!(
                "the nearest legal stride is a multiple of {below} past the end of that mode"
            )),
        ))
    }

    /// The layout of the indices that this one maps to 0: its modes of stride 0.
    ///
    /// Post-condition: `L(R(i)) = 0` for all `i < size(R)`.
    ///
    /// ```
    /// use warpwright_layout::Layout;
    /// assert_eq!(Layout::new((4, 2, 8), (1, 0, 4))?.nullspace()?.to_string(), "2:4");
    /// # Ok::<(), warpwright_layout::Error>(())
    /// ```
    pub fn nullspace(&self) -> Result<Layout, Error> {
        let kernel = self.placed_modes()?.into_iter().filter(|mode| mode.stride.is(0));
        Layout::of_flat_modes(merged(
            kernel.map(|mode| FlatMode::new(mode.extent, Stride::plain(mode.place))).collect(),
        )?)
    }

    /// The longest layout over which both layouts have the offsets 0, 1, 2, ...
    ///
    /// Post-condition: `A(R(i)) = i = B(R(i))` for all `i < size(R)`.
    ///
    /// ```
    /// use warpwright_layout::Layout;
    /// let (a, b) = (Layout::new((4, 8), (1, 4))?, Layout::new((4, 8), (1, 8))?);
    /// assert_eq!(a.max_common_layout(&b)?.to_string(), "4:1");
    /// # Ok::<(), warpwright_layout::Error>(())
    /// ```
    pub fn max_common_layout(&self, other: &Layout) -> Result<Layout, Error> {
        let (a, b) = (self.coalesce()?.placed_modes()?, other.coalesce()?.placed_modes()?);
        let mut common = Vec::new();
        let mut next = Int::ONE;
        loop {
            let starts = |mode: &&Placed| mode.stride == next && mode.extent.known().is_some();
            let pairs = a.iter().filter(starts).flat_map(|a| b.iter().filter(starts).map(move |b| (a, b)));
            let same = pairs.filter(|(a, b)| a.place == b.place);
            let longest = same.max_by_key(|(a, b)| a.extent.known().min(b.extent.known()));
            let Some((a, b)) = longest else { break };
            let extent = a.extent.minimum(&b.extent);
            common.push(FlatMode::new(extent.clone(), Stride::plain(a.place.clone())));
            if a.extent != b.extent {
                break;
            }
            next = next.times(&extent)?;
        }
        Layout::of_flat_modes(merged(common)?)
    }

    /// The number of elements that are contiguous and in the same order in both layouts: the widest
    /// vector of a copy between them.
    ///
    /// Post-condition: the size of [`max_common_layout`](Layout::max_common_layout).
    ///
    /// ```
    /// use warpwright_layout::Layout;
    /// let (a, b) = (Layout::new((4, 8), (1, 4))?, Layout::new((4, 8), (1, 8))?);
    /// assert_eq!(a.max_common_vector(&b)?, 4);
    /// # Ok::<(), warpwright_layout::Error>(())
    /// ```
    pub fn max_common_vector(&self, other: &Layout) -> Result<i64, Error> {
        self.max_common_layout(other)?.known_size("max_common_vector")
    }

    fn placed_modes(&self) -> Result<Vec<Placed>, Error> {
        let mut place = Int::ONE;
        let mut placed = Vec::new();
        for mode in self.flat_modes() {
            let next = place.times(&mode.extent)?;
            if !mode.stride.is_plain() {
                return Err(Error::IsCoordinate(self.to_string()));
            }
            if !mode.extent.is(1) {
                placed.push(Placed { extent: mode.extent, stride: mode.stride.scale, place });
            }
            place = next;
        }
        Ok(placed)
    }
}

/// The layout of the modes whose strides continue each other from 1.
fn run_from_one(mut modes: Vec<Placed>) -> Result<Layout, Error> {
    let mut run = Vec::new();
    let mut next = Int::ONE;
    loop {
        let repeats =
            |mode: &Placed| mode.stride.known().zip(next.known()).is_some_and(|(stride, next)| stride < next);
        let mut starting = (0..modes.len()).filter(|position| modes[*position].stride == next);
        let shortest = starting.by_ref().min_by_key(|position| modes[*position].extent.known());
        let Some(position) = shortest.filter(|_| !modes.iter().any(repeats)) else { break };
        let mode = modes.remove(position);
        next = next.times(&mode.extent)?;
        run.push(FlatMode::new(mode.extent, Stride::plain(mode.place)));
    }
    Layout::of_flat_modes(merged(run)?)
}

/// The digits read so far, and above them the extent of the mode whose digit comes next.
fn closed(mut digits: Vec<FlatMode>, modes: &[Placed], place: Int) -> Result<Layout, Error> {
    let top = match digits.len() {
        0 => Int::ONE,
        count => modes[count - 1].extent.clone(),
    };
    digits.push(FlatMode::new(top, Stride::plain(place)));
    digits.retain(|digit| !digit.extent.is(1));
    Layout::of_flat_modes(merged(digits)?)
}

/// Whether each mode ends at a divisor of the next stride, so that the gaps between them are
/// multiples.
fn fills_exactly(modes: &[Placed]) -> Result<bool, Error> {
    let mut end = Int::ONE;
    for mode in modes {
        if mode.stride.divisible_by(&end) != Some(true) {
            return Ok(false);
        }
        end = mode.stride.times(&mode.extent)?;
    }
    Ok(true)
}

/// Whether mode `position` ends within `digit` steps of its stride.
fn previous_fits(modes: &[Placed], position: usize, digit: &Int) -> bool {
    match (modes[position].extent.known(), digit.known()) {
        (Some(extent), Some(digit)) => extent <= digit,
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(text: &str) -> Layout {
        text.parse().unwrap()
    }

    #[test]
    fn left_inverse_holds_where_gaps_are_not_whole() {
        let l = layout("(2,2):(1,5)");
        let inverse = l.left_inverse().unwrap();
        for i in 0..4 {
            assert_eq!(inverse.at(l.at(i).unwrap()).unwrap(), i);
        }
    }

    #[test]
    fn left_inverse_of_a_broadcast_leads_back_to_the_same_offset() {
        let l = layout("(2,4):(0,1)");
        let inverse = l.left_inverse().unwrap();
        for i in 0..8 {
            let offset = l.at(i).unwrap();
            assert_eq!(l.at(inverse.at(offset).unwrap()).unwrap(), offset);
        }
    }

    #[test]
    fn left_inverse_refuses_what_repeats() {
        assert!(matches!(layout("(2,2):(1,1)").left_inverse(), Err(Error::NotInjective(_))));
    }

    #[test]
    fn right_inverse_follows_strides_of_device_values() {
        let (m, n) = (Int::device(0, "m"), Int::device(1, "n"));
        let inverse = |shape: [&Int; 2], stride: [&Int; 2]| {
            let layout =
                Layout::new((shape[0].clone(), shape[1].clone()), (stride[0].clone(), stride[1].clone()));
            layout.unwrap().right_inverse().unwrap().to_string()
        };
        let (one, four) = (Int::ONE, Int::from(4));
        assert_eq!(inverse([&m, &n], [&one, &m]), "m*n:1");
        assert_eq!(inverse([&n, &m], [&m, &one]), "(m,n):(n,1)");
        assert_eq!(inverse([&four, &n], [&one, &four]), "4*n:1");
        // Whether 4 elements end at stride m is not known.
        assert_eq!(inverse([&four, &n], [&one, &m]), "4:1");
        assert_eq!(inverse([&m, &n], [&m, &one]), "n:m");
    }

    #[test]
    fn common_vector_of_a_transpose_is_one() {
        assert_eq!(layout("(4,8):(1,4)").max_common_vector(&layout("(4,8):(8,1)")).unwrap(), 1);
    }
}
