//! Composition of layouts.

use crate::coalesce::merged;
use crate::error::Illustration;
use crate::layout::FlatMode;
use crate::{Error, Int, Layout, Stride, Tiler, Tuple};

/// Compositions that digit arithmetic cannot decide are decided by enumeration, up to this many
/// elements.
const MOST_LISTED: i64 = 1 << 13;

impl Layout {
    /// `A o B`: `R(c) = A(B(c))`. Applies by mode if the tiler is a tuple.
    ///
    /// Post-condition: `B` is compatible with `R`, and `R(c) = A(B(c))` for every coordinate `c` of
    /// `B`. Past its end, `A` continues in its last mode.
    ///
    /// # Errors
    /// If no layout of the shape of `B` is that function: a mode of `B` and a mode of `A` do not
    /// divide each other, or the sum of two modes of `B` carries from one mode of `A` into the
    /// next.
    ///
    /// ```
    /// use warpwright_layout::{All, Layout};
    /// let a = Layout::new((6, 2), (8, 2))?;
    /// assert_eq!(a.compose(Layout::new((4, 3), (3, 1))?)?.to_string(), "((2,2),3):((24,2),8)");
    /// assert_eq!(a.compose((3, All))?.to_string(), "(3,2):(8,2)");
    ///
    /// let error = Layout::new((4, 6), (1, 100))?.compose(5).unwrap_err();
    /// assert_eq!(error.to_string(), "\
    /// composition is not a layout: a mode of B takes 5 elements at stride 1, and 4 does not divide that
    ///   A = (4,6):(1,100)
    ///        ^ extent 4
    ///   B = 5:1
    ///       ^ taken 4 at a time
    ///   the nearest legal mode is 4:1");
    /// # Ok::<(), warpwright_layout::Error>(())
    /// ```
    pub fn compose(&self, tiler: impl Into<Tiler>) -> Result<Layout, Error> {
        tiler.into().apply(self, &mut |a, b| compose_layouts(a, b))
    }
}

/// A run of `extent` steps of `step` within one mode of A.
struct Piece {
    mode: usize,
    extent: Int,
    step: Int,
}

/// Why a leaf of B cannot be composed with A.
enum Refusal {
    /// The step does not fit mode `mode` of A.
    Step { mode: usize },
    /// The extent is not a multiple of the `run` elements of mode `mode` of A.
    Extent { mode: usize, run: i64 },
    /// Undecidable, or overflow.
    Error(Error),
}

impl From<Error> for Refusal {
    fn from(error: Error) -> Refusal {
        Refusal::Error(error)
    }
}

fn compose_layouts(a: &Layout, b: &Layout) -> Result<Layout, Error> {
    if let Some(basis) = b.stride().leaves().into_iter().find(|stride| !stride.is_plain()) {
        return compose_basis(a, b, basis);
    }
    let past_the_end =
        matches!((a.size()?.known(), b.cosize()?.known()), (Some(size), Some(reach)) if reach > size);
    let composed = compose_modes(&modes_of(a, past_the_end)?, a, b);
    match composed {
        Err(Error::NotRepresentable(_)) if past_the_end => {
            compose_modes(&modes_of(a, false)?, a, b).or(composed)
        }
        _ => composed,
    }
}

fn compose_modes(modes: &[FlatMode], a: &Layout, b: &Layout) -> Result<Layout, Error> {
    let leaves = b.flat_modes();
    let mut taken = Vec::with_capacity(leaves.len());
    for (leaf, mode) in leaves.iter().enumerate() {
        match take(modes, &mode.extent, &mode.stride.scale) {
            Ok(pieces) => taken.push(pieces),
            Err(Refusal::Error(error)) => return Err(error),
            Err(refusal) => {
                return listed(a, b).unwrap_or_else(|| Err(refused(modes, b, leaf, refusal)));
            }
        }
    }
    if let Some(carry) = first_carry(modes, &taken)? {
        return listed(a, b).unwrap_or_else(|| Err(carries(modes, a, b, carry)));
    }
    let mut parts = Vec::with_capacity(leaves.len());
    for (pieces, leaf) in taken.iter().zip(&leaves) {
        parts.push(scaled(modes, pieces, leaf)?);
    }
    assemble(b, parts)
}

/// The layout of `b`'s structure with each leaf replaced by the layout of its part.
fn assemble(b: &Layout, parts: Vec<Vec<FlatMode>>) -> Result<Layout, Error> {
    fn place(tuple: &Tuple<Int>, parts: &mut impl Iterator<Item = Vec<FlatMode>>) -> Result<Layout, Error> {
        match tuple {
            Tuple::Leaf(_) => Layout::of_flat_modes(parts.next().unwrap_or_default()),
            Tuple::Node(modes) => {
                let modes = modes.iter().map(|mode| place(mode, parts)).collect::<Result<Vec<_>, _>>()?;
                Ok(Layout::of_modes(modes))
            }
        }
    }
    place(b.shape(), &mut parts.into_iter())
}

/// The coalesced modes of A. If B reaches past the end of A, the last mode is kept even with extent
/// 1, since A continues in it. If no layout does that, A continues in the last mode of extent above
/// 1.
fn modes_of(a: &Layout, past_the_end: bool) -> Result<Vec<FlatMode>, Error> {
    let mut flat = a.flat_modes();
    let last = if past_the_end { flat.pop() } else { None };
    let mut modes = merged(flat)?;
    if let Some(last) = last {
        match modes.last_mut() {
            Some(mode) if mode.stride.times(&mode.extent)? == last.stride => {
                mode.extent = mode.extent.times(&last.extent)?;
            }
            _ => modes.push(last),
        }
    }
    if modes.is_empty() {
        modes.push(FlatMode::new(Int::ONE, Stride::plain(0)));
    }
    Ok(modes)
}

/// Takes `extent` elements at stride `step` out of A's modes.
fn take(modes: &[FlatMode], extent: &Int, step: &Int) -> Result<Vec<Piece>, Refusal> {
    let mut pieces = Vec::new();
    if step.is(0) || modes.is_empty() {
        return Ok(pieces);
    }
    let (mut extent, mut step) = (extent.clone(), step.clone());
    let last = modes.len() - 1;
    for (position, mode) in modes[..last].iter().enumerate() {
        if extent.is(1) {
            break;
        }
        if step.known().is_some_and(|step| step < 0) {
            return Err(Refusal::Step { mode: position });
        }
        if step.divisible_by(&mode.extent) == Some(true) {
            step = step.divided_by(&mode.extent)?;
            continue;
        }
        if fits(&extent, &step, &mode.extent)? {
            pieces.push(Piece { mode: position, extent: extent.clone(), step: step.clone() });
            return Ok(pieces);
        }
        let run = match mode.extent.divisible_by(&step) {
            Some(true) => mode.extent.divided_by(&step)?,
            Some(false) => return Err(Refusal::Step { mode: position }),
            None => {
                return Err(undecided(&mode.extent, &step, "its mode of A must be divided by that").into());
            }
        };
        match (extent.divisible_by(&run), run.known()) {
            (Some(true), _) => {}
            (Some(false), Some(run)) => return Err(Refusal::Extent { mode: position, run }),
            _ => return Err(undecided(&extent, &run, "a mode of B must fill whole modes of A").into()),
        }
        extent = extent.divided_by(&run)?;
        pieces.push(Piece { mode: position, extent: run, step });
        step = Int::ONE;
    }
    if !extent.is(1) {
        pieces.push(Piece { mode: last, extent, step });
    }
    Ok(pieces)
}

/// Whether `extent` steps of `step` stay inside a mode.
fn fits(extent: &Int, step: &Int, mode: &Int) -> Result<bool, Error> {
    if let (Some(extent), Some(step), Some(mode)) = (extent.known(), step.known(), mode.known()) {
        return Ok(i128::from(extent - 1) * i128::from(step) < i128::from(mode));
    }
    Ok(extent.times(step)? == *mode)
}

fn undecided(value: &Int, divisor: &Int, reason: &str) -> Error {
    let leaf = if value.known().is_none() { value } else { divisor };
    Error::needs_known(
        "composition",
        leaf,
        &format!("it must decide whether {divisor} divides {value}; {reason}"),
    )
}

/// The first mode of A, other than its last, in which the leaves of B together run past the end.
/// Returns nothing when every sum of B's modes stays within its digit, so that A is additive over
/// them.
fn first_carry(modes: &[FlatMode], taken: &[Vec<Piece>]) -> Result<Option<usize>, Error> {
    for (position, mode) in modes[..modes.len() - 1].iter().enumerate() {
        let mut contributors = 0;
        let mut reach = Int::ZERO;
        for pieces in taken {
            let mut here = pieces.iter().filter(|piece| piece.mode == position).peekable();
            contributors += usize::from(here.peek().is_some());
            for piece in here {
                reach = reach.plus(&piece.extent.minus(&Int::ONE)?.times(&piece.step)?)?;
            }
        }
        if contributors < 2 {
            continue;
        }
        let reason = "two modes of B share a mode of A, and together must stay inside it";
        if reach.require("composition", reason)? >= mode.extent.require("composition", reason)? {
            return Ok(Some(position));
        }
    }
    Ok(None)
}

fn scaled(modes: &[FlatMode], pieces: &[Piece], leaf: &FlatMode) -> Result<Vec<FlatMode>, Error> {
    if pieces.is_empty() {
        return Ok(vec![FlatMode::new(leaf.extent.clone(), Stride::plain(0))]);
    }
    let scale =
        |piece: &Piece| Ok(FlatMode::new(piece.extent.clone(), modes[piece.mode].stride.times(&piece.step)?));
    pieces.iter().map(scale).collect()
}

/// Composition on the left of a layout that returns coordinates: A must be one too, or apply to
/// whole modes.
fn compose_basis(a: &Layout, b: &Layout, basis: &Stride) -> Result<Layout, Error> {
    let stride = b.stride().try_map(&mut |stride: &Stride| {
        if stride.is(0) {
            return Ok(stride.clone());
        }
        let mode = a.mode_at(&stride.basis)?;
        match (mode.shape(), mode.stride()) {
            (Tuple::Leaf(_), Tuple::Leaf(inner)) if !stride.is_plain() => inner.times(&stride.scale),
            _ => Err(Error::MixedStrides(basis.to_string(), mode.to_string())),
        }
    })?;
    Layout::new(b.shape().clone(), stride)
}

/// Decides a composition by enumeration; `None` if it is too large, has dynamic leaves, or is not a
/// layout.
fn listed(a: &Layout, b: &Layout) -> Option<Result<Layout, Error>> {
    let size = b.known_size("composition").ok()?;
    if size > MOST_LISTED || a.known_size("composition").is_err() {
        return None;
    }
    let mut parts = Vec::new();
    for leaf in b.flat_modes() {
        let (extent, step) = (leaf.extent.known()?, leaf.stride.scale.known()?);
        let offsets: Option<Vec<i64>> = (0..extent).map(|i| a.at(i.checked_mul(step)?).ok()).collect();
        parts.push(layout_of_offsets(&offsets?)?);
    }
    let result = assemble(b, parts).ok()?;
    let through = b.offsets().ok()?;
    let composed = result.offsets().ok()?;
    let agrees = through.iter().zip(&composed).all(|(&inner, &offset)| a.at(inner).ok() == Some(offset));
    agrees.then_some(Ok(result))
}

/// The coalesced layout with exactly these offsets, if there is one.
fn layout_of_offsets(offsets: &[i64]) -> Option<Vec<FlatMode>> {
    let mut modes = Vec::new();
    let mut every = 1;
    while every < offsets.len() {
        let stride = offsets[every];
        let linear = |count: usize| i64::try_from(count).ok()?.checked_mul(stride);
        let rest = offsets.len() / every;
        let run = (1..rest).find(|&count| Some(offsets[count * every]) != linear(count)).unwrap_or(rest);
        if !offsets.len().is_multiple_of(every * run) {
            return None;
        }
        modes.push(FlatMode::new(run.into(), Stride::plain(stride)));
        every *= run;
    }
    if modes.is_empty() {
        modes.push(FlatMode::new(Int::ONE, Stride::plain(0)));
    }
    let agrees = Layout::of_flat_modes(modes.clone()).ok()?.offsets().ok()? == offsets;
    agrees.then_some(modes)
}

fn refused(modes: &[FlatMode], b: &Layout, leaf: usize, refusal: Refusal) -> Error {
    let taken = &b.flat_modes()[leaf];
    let (extent, step) = (&taken.extent, &taken.stride.scale);
    let (mode, reason, note) = match refusal {
        Refusal::Error(error) => return error,
        Refusal::Extent { mode, run } => {
            let reason = format!(
                "a mode of B takes {extent} elements at stride {step}, and {run} does not divide that"
            );
            (mode, reason, format!("taken {run} at a time"))
        }
        Refusal::Step { mode } => {
            let bound = &modes[mode].extent;
            let reason =
                format!("a mode of B steps by {step}, which neither divides nor is a multiple of {bound}");
            (mode, reason, format!("steps by {step}"))
        }
    };
    let Ok(shown) = Layout::of_flat_modes(modes.to_vec()) else { return Error::Overflow };
    let picture = Illustration::new(format!("composition is not a layout: {reason}"))
        .mark("A", &shown, shown.shape().columns_of_leaf(mode), format!("extent {}", modes[mode].extent))
        .mark("B", b, b.shape().columns_of_leaf(leaf), note);
    Error::NotRepresentable(Box::new(match nearest_legal(modes, extent, step) {
        Some(nearest) => picture.suggest(format!("the nearest legal mode is {nearest}")),
        None => picture,
    }))
}

/// The legal mode nearest to `extent:step`, trying extents first.
fn nearest_legal(modes: &[FlatMode], extent: &Int, step: &Int) -> Option<String> {
    const FARTHEST: i64 = 256;
    let (extent, step) = (extent.known()?, step.known()?);
    let legal =
        |extent: i64, step: i64| extent > 1 && step > 0 && take(modes, &extent.into(), &step.into()).is_ok();
    let extents = (1..FARTHEST)
        .flat_map(|by| [extent.saturating_sub(by), extent.saturating_add(by)])
        .find(|&near| legal(near, step));
    if let Some(near) = extents {
        return Some(format!("{near}:{step}"));
    }
    let near = (1..FARTHEST)
        .flat_map(|by| [step.saturating_sub(by), step.saturating_add(by)])
        .find(|&near| legal(extent, near))?;
    Some(format!("{extent}:{near}"))
}

fn carries(modes: &[FlatMode], a: &Layout, b: &Layout, mode: usize) -> Error {
    let extent = &modes[mode].extent;
    let Ok(shown) = Layout::of_flat_modes(modes.to_vec()) else { return Error::Overflow };
    let summary = format!(
        "composition is not a layout: modes of B add up past the {extent} elements of a mode of A, so that A(B(c)) is no \
         sum over the modes"
    );
    let picture = Illustration::new(summary)
        .mark("A", &shown, shown.shape().columns_of_leaf(mode), format!("extent {extent}"))
        .show("B", b);
    let picture = if shown.shape() == a.shape() { picture } else { picture.show("A as given", a) };
    Error::NotRepresentable(Box::new(
        picture.suggest(format!("let at most one mode of B run within {extent}")),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn layout(text: &str) -> Layout {
        text.parse().unwrap()
    }

    #[test]
    fn shape_that_runs_past_a_mode_is_refused() {
        assert!(matches!(layout("(4,3):(1,100)").compose(6), Err(Error::NotRepresentable(_))));
    }

    #[test]
    fn carry_between_modes_of_b_is_refused() {
        let error = layout("(4,6):(1,100)").compose(layout("(2,2):(1,3)")).unwrap_err();
        assert!(error.to_string().contains("add up past the 4 elements"), "{error}");
    }

    #[test]
    fn what_fits_inside_a_mode_needs_no_division() {
        assert_eq!(layout("(4,6):(1,100)").compose(layout("2:3")).unwrap(), layout("2:3"));
        assert_eq!(layout("(5,4):(1,100)").compose(layout("4:3")).unwrap(), layout("(2,2):(3,101)"));
    }

    #[test]
    fn past_the_end_the_last_mode_runs_on() {
        assert_eq!(layout("10:2").compose(layout("(4,3):(1,4)")).unwrap(), layout("(4,3):(2,8)"));
        assert_eq!(layout("(4,1):(1,99)").compose(8).unwrap(), layout("(4,2):(1,99)"));
    }

    #[test]
    fn device_extents_compose_where_nothing_needs_them() {
        let (m, k) = (Int::device(0, "m"), Int::device(1, "k"));
        let a = Layout::new((m.clone(), k.clone()), (k, 1)).unwrap();
        assert_eq!(a.compose((128, 32)).unwrap().to_string(), "(128,32):(k,1)");
        let error = Layout::new((m, 4), (1, 1000)).unwrap().compose(8).unwrap_err();
        assert!(matches!(&error, Error::NeedsKnown { leaf, .. } if leaf == "m"), "{error}");
    }
}
