//! Lanes of a warp, and masks of them.

/// Lanes in a warp.
pub const LANES: usize = warpwright_arch::limits::WARP_SIZE as usize;

/// The mask of a whole warp.
pub const FULL: u32 = u32::MAX;

/// Runs of lanes that [`lane_list`] names one by one.
const MOST_RUNS: usize = 5;

/// The lanes of a mask, lowest first.
#[inline]
pub fn lanes(mask: u32) -> impl Iterator<Item = usize> {
    let mut left = mask;
    std::iter::from_fn(move || {
        (left != 0).then(|| {
            let lane = left.trailing_zeros() as usize;
            left &= left - 1;
            lane
        })
    })
}

/// `lane 3`, `lanes 0-7`, `lanes 1, 4-5`.
pub fn lane_list(mask: u32) -> String {
    let mut runs: Vec<(usize, usize)> = Vec::new();
    for lane in lanes(mask) {
        match runs.last_mut() {
            Some((_, last)) if *last + 1 == lane => *last = lane,
            _ => runs.push((lane, lane)),
        }
    }
    let word = if mask.count_ones() == 1 { "lane" } else { "lanes" };
    let left: usize = runs.iter().skip(MOST_RUNS).map(|(first, last)| last - first + 1).sum();
    runs.truncate(MOST_RUNS);
    let runs: Vec<String> = runs
        .into_iter()
        .map(|(first, last)| if first == last { first.to_string() } else { format!("{first}-{last}") })
        .collect();
    let rest = if left > 0 { format!(" and {left} more") } else { String::new() };
    format!("{word} {}{rest}", runs.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lanes_read_as_runs() {
        assert_eq!(lane_list(1 << 3), "lane 3");
        assert_eq!(lane_list(0xff), "lanes 0-7");
        assert_eq!(lane_list(0b11_0010), "lanes 1, 4-5");
    }
}
