//! The numbers of a CTA's agents.

use warpwright_events::{AsyncKind, Awaited};

use crate::state::clock::Agent;

/// Maximum number of warps per CTA (1024 threads).
const WARPS: u16 = 32;
/// The number of the first mbarrier.
const MBARRIERS: u16 = WARPS * (ISSUERS + 1);
/// The agents that represent the issue of work to tensor cores.
const ISSUERS: u16 = 1 + 2 * AsyncKind::ALL.len() as u16;

/// What an agent represents.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Role {
    /// The lanes of a warp.
    Warp(u32),
    /// Work of a warp's lanes that completes with a group: the reads of its sources, or all of it.
    Group(u32, AsyncKind, Awaited),
    /// The issue of work to the tensor core by a warp's lanes. The core executes its work in order.
    Issuer(u32),
    /// Work that completes at an mbarrier, by the mbarrier's number in its CTA.
    Mbarrier(u32),
}

impl Role {
    /// The agent of work that a warp issues. An MMA belongs to its whole warpgroup: each warp that
    /// waits for it observes its completion.
    pub(crate) fn of_work(warp: u32, kind: AsyncKind, awaited: Awaited) -> Self {
        Role::Group(if kind == AsyncKind::Multiply { warp & !3 } else { warp }, kind, awaited)
    }

    pub(crate) fn agent(self) -> Agent {
        Agent(match self {
            Role::Warp(warp) => warp as u16,
            Role::Group(warp, kind, awaited) => {
                let row = 1 + 2 * kind as u16 + u16::from(awaited == Awaited::Sources);
                row * WARPS + warp as u16
            }
            Role::Issuer(warp) => ISSUERS * WARPS + warp as u16,
            Role::Mbarrier(index) => MBARRIERS + index as u16,
        })
    }

    pub(crate) fn of(agent: Agent) -> Self {
        let (row, warp) = (agent.0 / WARPS, u32::from(agent.0 % WARPS));
        match row {
            0 => Role::Warp(warp),
            ISSUERS => Role::Issuer(warp),
            1..ISSUERS => {
                let kind = AsyncKind::ALL[usize::from((row - 1) / 2)];
                let awaited = if row % 2 == 0 { Awaited::Sources } else { Awaited::Everything };
                Role::Group(warp, kind, awaited)
            }
            _ => Role::Mbarrier(u32::from(agent.0 - MBARRIERS)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_role_has_a_number_of_its_own() {
        let mut roles: Vec<Role> = (0..32).map(Role::Warp).collect();
        for kind in AsyncKind::ALL {
            for awaited in [Awaited::Everything, Awaited::Sources] {
                roles.extend((0..32).map(|warp| Role::Group(warp, kind, awaited)));
            }
        }
        roles.extend((0..32).map(Role::Issuer));
        roles.extend((0..5).map(Role::Mbarrier));
        for role in &roles {
            assert_eq!(Role::of(role.agent()), *role);
        }
        let mut agents: Vec<Agent> = roles.iter().map(|role| role.agent()).collect();
        agents.sort();
        agents.dedup();
        assert_eq!(agents.len(), roles.len());
    }
}
