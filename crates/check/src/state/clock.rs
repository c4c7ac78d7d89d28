//! Vector clocks over the agents of a launch, for the happens-before relation.
//!
//! An agent has a program order of its own: the 32 lanes of a warp, its copies in flight, an
//! mbarrier. Lanes mostly synchronize together, so a clock holds one time for all lanes of an
//! agent, and rows of 32 times only where they differ.

use std::sync::Arc;

use warpwright_events::{FULL, LANES, lanes};

/// An event of one agent, by its time.
pub(crate) type Time = u32;

/// An agent of a CTA. Warps are numbered first, then the asynchronous work of each warp, then
/// mbarriers as they appear.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Agent(pub(crate) u16);

/// For a set of agents, the time up to which their events happened before.
#[derive(Clone, Debug, Default)]
pub(crate) struct Clock {
    /// By the linear index of the CTA, in order.
    parts: Vec<(u32, Arc<Part>)>,
}

/// Times of the agents of one CTA.
#[derive(Clone, Debug, Default)]
struct Part {
    /// By agent: everything that any of its lanes did up to this time.
    whole: Vec<Time>,
    /// Agents whose lanes have different times, in order.
    rows: Vec<(Agent, [Time; LANES])>,
}

impl Part {
    fn whole(&self, agent: Agent) -> Time {
        self.whole.get(usize::from(agent.0)).copied().unwrap_or(0)
    }

    fn row(&self, agent: Agent) -> Option<&[Time; LANES]> {
        let index = self.rows.binary_search_by_key(&agent, |(found, _)| *found).ok()?;
        Some(&self.rows[index].1)
    }

    fn raise_whole(&mut self, agent: Agent, time: Time) {
        let index = usize::from(agent.0);
        if self.whole.len() <= index {
            self.whole.resize(index + 1, 0);
        }
        self.whole[index] = self.whole[index].max(time);
        let floor = self.whole[index];
        self.rows.retain_mut(|(found, row)| {
            *found != agent || {
                row.iter_mut().for_each(|time| *time = floor.max(*time));
                row.iter().any(|time| *time > floor)
            }
        });
    }

    fn raise_lanes(&mut self, agent: Agent, mask: u32, time: Time) {
        let floor = self.whole(agent);
        if time <= floor {
            return;
        }
        let index = match self.rows.binary_search_by_key(&agent, |(found, _)| *found) {
            Ok(index) => index,
            Err(index) => {
                self.rows.insert(index, (agent, [floor; LANES]));
                index
            }
        };
        let row = &mut self.rows[index].1;
        lanes(mask).for_each(|lane| row[lane] = row[lane].max(time));
        let least = row.iter().copied().min().unwrap_or(0);
        if least > floor {
            self.raise_whole(agent, least);
        }
    }

    fn join(&mut self, other: &Part) {
        if self.whole.len() < other.whole.len() {
            self.whole.resize(other.whole.len(), 0);
        }
        for (time, other) in self.whole.iter_mut().zip(&other.whole) {
            *time = (*time).max(*other);
        }
        if self.rows.is_empty() && other.rows.is_empty() {
            return;
        }
        for (agent, row) in &other.rows {
            match self.rows.binary_search_by_key(agent, |(found, _)| *found) {
                Ok(index) => {
                    let own = &mut self.rows[index].1;
                    own.iter_mut().zip(row).for_each(|(own, other)| *own = (*own).max(*other));
                }
                Err(index) => self.rows.insert(index, (*agent, *row)),
            }
        }
        let agents: Vec<Agent> = self.rows.iter().map(|(agent, _)| *agent).collect();
        for agent in agents {
            self.raise_whole(agent, 0);
            let least = self.row(agent).and_then(|row| row.iter().copied().min()).unwrap_or(0);
            self.raise_whole(agent, least);
        }
    }
}

impl Clock {
    /// Whether no event happened before.
    pub(crate) fn is_empty(&self) -> bool {
        self.parts.is_empty()
    }

    fn part(&self, cta: u32) -> Option<&Part> {
        match self.parts.as_slice() {
            [(only, part)] if *only == cta => Some(part),
            parts => {
                let index = parts.binary_search_by_key(&cta, |(found, _)| *found).ok()?;
                Some(&parts[index].1)
            }
        }
    }

    fn part_mut(&mut self, cta: u32) -> &mut Part {
        let index = match self.parts.binary_search_by_key(&cta, |(found, _)| *found) {
            Ok(index) => index,
            Err(index) => {
                self.parts.insert(index, (cta, Arc::default()));
                index
            }
        };
        Arc::make_mut(&mut self.parts[index].1)
    }

    /// The time up to which everything that an agent did happened before.
    #[inline]
    pub(crate) fn whole(&self, cta: u32, agent: Agent) -> Time {
        self.part(cta).map_or(0, |part| part.whole(agent))
    }

    /// Whether everything that these lanes did at a time happened before.
    #[inline]
    pub(crate) fn covers(&self, cta: u32, agent: Agent, mask: u32, time: Time) -> bool {
        self.uncovered(cta, agent, mask, time) == 0
    }

    /// The lanes of an agent whose events at a time did not happen before.
    #[inline]
    pub(crate) fn uncovered(&self, cta: u32, agent: Agent, mask: u32, time: Time) -> u32 {
        let Some(part) = self.part(cta) else { return mask };
        if part.whole(agent) >= time {
            return 0;
        }
        match part.row(agent) {
            Some(row) => lanes(mask).filter(|&lane| row[lane] < time).fold(0, |bits, lane| bits | 1 << lane),
            None => mask,
        }
    }

    /// The same clock, with the maximum over a warp's lanes for each lane of a CTA's warps.
    pub(crate) fn of_whole_warps(&self, cta: u32) -> Clock {
        let mut rounded = self.clone();
        for (agent, row) in self.part(cta).into_iter().flat_map(|part| &part.rows) {
            rounded.raise(cta, *agent, FULL, row.iter().copied().max().unwrap_or(0));
        }
        rounded
    }

    /// Adds what these lanes of an agent did up to a time.
    pub(crate) fn raise(&mut self, cta: u32, agent: Agent, mask: u32, time: Time) {
        if self.whole(cta, agent) >= time {
            return;
        }
        let part = self.part_mut(cta);
        if mask == FULL {
            part.raise_whole(agent, time);
        } else {
            part.raise_lanes(agent, mask, time);
        }
    }

    /// Adds everything in another clock.
    pub(crate) fn join(&mut self, other: &Clock) {
        if self.parts.is_empty() {
            self.parts.clone_from(&other.parts);
            return;
        }
        for (cta, part) in &other.parts {
            match self.parts.binary_search_by_key(cta, |(found, _)| *found) {
                Ok(index) if Arc::ptr_eq(&self.parts[index].1, part) => {}
                Ok(index) => Arc::make_mut(&mut self.parts[index].1).join(part),
                Err(index) => self.parts.insert(index, (*cta, part.clone())),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WARP: Agent = Agent(3);

    #[test]
    fn lanes_are_told_apart_until_all_are_known() {
        let mut clock = Clock::default();
        clock.raise(0, WARP, 0x0000_ffff, 5);
        assert_eq!(clock.uncovered(0, WARP, FULL, 5), 0xffff_0000);
        assert!(clock.covers(0, WARP, 0b1, 5) && !clock.covers(0, WARP, 0b1, 6));
        assert_eq!(clock.whole(0, WARP), 0);
        clock.raise(0, WARP, 0xffff_0000, 4);
        assert_eq!(clock.whole(0, WARP), 4);
        assert_eq!(clock.uncovered(0, WARP, FULL, 5), 0xffff_0000);
        clock.raise(0, WARP, FULL, 7);
        assert!(clock.covers(0, WARP, FULL, 7));
    }

    #[test]
    fn a_joined_clock_covers_what_either_covers_and_nothing_else() {
        let mut generator = 0x9e37_79b9_7f4a_7c15u64;
        let mut draw = |below: u64| {
            generator ^= generator << 13;
            generator ^= generator >> 7;
            generator ^= generator << 17;
            generator % below
        };
        for _ in 0..200 {
            let mut clocks = [Clock::default(), Clock::default()];
            for clock in &mut clocks {
                for _ in 0..draw(6) {
                    let mask = if draw(3) == 0 { FULL } else { draw(1 << 32) as u32 };
                    clock.raise(draw(2) as u32, Agent(draw(3) as u16), mask, draw(5) as u32);
                }
            }
            let mut joined = clocks[0].clone();
            joined.join(&clocks[1]);
            for cta in 0..2 {
                for agent in (0..3).map(Agent) {
                    for (lane, time) in (0..32).flat_map(|lane| (0..6).map(move |time| (lane, time))) {
                        let covers = |clock: &Clock| clock.covers(cta, agent, 1 << lane, time);
                        // Time 0 has no events.
                        assert!(
                            time == 0 || covers(&joined) == (covers(&clocks[0]) || covers(&clocks[1])),
                            "{joined:?} of {clocks:?}"
                        );
                    }
                }
            }
        }
    }
}
