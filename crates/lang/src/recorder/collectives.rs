//! Operations that all lanes of a warp, or all threads of a block, execute together, in branches that some
//! of them do not take.

use warpwright_arch::limits::WARP_SIZE;
use warpwright_ir::{Instruction, Location, Operand};

use super::Recorder;
use super::jumps::leaves;
use super::state::{Collective, Departure, Group, StagingError};
use super::threads::Threads;

impl Group {
    fn of(Instruction { opcode, operands, destinations, .. }: &Instruction) -> Option<Self> {
        let of_warp = ["shfl.sync.", "vote.sync.", "match.", "redux.sync.", "bar.warp.sync", "elect.sync"];
        if of_warp.iter().any(|name| opcode.starts_with(name)) {
            return match operands.last()? {
                Operand::Integer(mask) => Some(Self::Lanes(*mask as u32)),
                Operand::Register(mask) => Some(Self::LanesOf(*mask)),
                _ => None,
            };
        }
        if opcode.starts_with("barrier.cluster.arrive") {
            return Some(Self::Cluster);
        }
        // A barrier of other numbers is a named one.
        let sources = &operands[*destinations..];
        let counted = match (opcode.as_ref(), sources) {
            ("bar.sync", [Operand::Integer(0)]) => None,
            ("bar.sync", [Operand::Integer(0), Operand::Integer(threads)]) => Some(*threads as u32),
            (name, [Operand::Integer(0), _]) if name.starts_with("bar.red.") => None,
            _ => return None,
        };
        Some(Self::Block(counted))
    }

    /// Whether all threads of a block of that many belong to it.
    fn is_of_block(self, threads: u32) -> bool {
        match self {
            Self::Block(counted) => counted.is_none_or(|counted| counted == threads),
            Self::Cluster => true,
            Self::Lanes(_) | Self::LanesOf(_) => false,
        }
    }
}

/// What is wrong where the lanes of a mask execute an operation together.
fn mistake_of_lanes(mask: u32, reaching: &[bool]) -> Option<String> {
    let lanes = |mask: u32| match mask.count_ones() {
        1 => "1 lane".to_owned(),
        count => format!("{count} lanes"),
    };
    for (warp, threads) in reaching.chunks(WARP_SIZE as usize).enumerate() {
        let of = |wanted: &dyn Fn(usize) -> bool| {
            (0..threads.len()).filter(|lane| wanted(*lane)).map(|lane| 1u32 << lane).sum::<u32>()
        };
        let (there, reach) = (of(&|_| true), of(&|lane| threads[lane]));
        let named = mask & there;
        if reach != 0 && reach & named != named {
            return Some(format!(
                "this waits for {} of a warp, and {} of them reach it in warp {warp}: move it out of the branch, or name the \
                 lanes that take the branch",
                lanes(named),
                lanes(reach & named)
            ));
        }
        if reach & !named != 0 {
            return Some(format!(
                "this names {} of a warp, and {} that it does not name execute it in warp {warp}: call it in a branch of the lanes \
                 that it names",
                lanes(named),
                lanes(reach & !named)
            ));
        }
    }
    None
}

impl Recorder {
    /// Notes an operation that a group executes together, where not all of the group may be.
    pub(super) fn note_collective(&mut self, instruction: &Instruction) {
        let Some(group) = Group::of(instruction).filter(|_| instruction.guard.is_none()) else { return };
        let in_branch = self.regions.len() > 1 || !self.notes.departures.is_empty();
        if !in_branch && matches!(group, Group::Block(_) | Group::Cluster | Group::Lanes(u32::MAX)) {
            return;
        }
        let (conditions, location) = (self.branch_conditions(), instruction.location);
        let departures = self.notes.departures.len();
        let is_known = |known: &Collective| {
            (known.location, known.group, known.departures) == (location, group, departures)
                && known.conditions == conditions
        };
        if !self.notes.collectives.last().is_some_and(is_known) {
            self.notes.collectives.push(Collective { group, conditions, departures, location });
        }
    }

    /// Notes that threads leave the kernel.
    pub(crate) fn note_departure(&mut self, location: Location) {
        self.notes.departures.push(Departure { conditions: self.branch_conditions(), location });
    }

    /// Refuses operations that count all threads of the block, where some of them have returned before.
    fn check_departures(&mut self, collectives: &[Collective]) {
        let Some(threads) = Threads::of_block(&self.kernel) else { return };
        let all = threads.count();
        let counts_all = |it: &&Collective| it.group == Group::Block(Some(all)) && it.departures > 0;
        let mistake = |it: &Collective| {
            let mut left = vec![false; all as usize];
            for departure in &self.notes.departures[..it.departures] {
                let leaving = threads.holding_all(&departure.conditions)?;
                left.iter_mut().zip(leaving).for_each(|(left, leaving)| *left |= leaving);
            }
            let gone =
                threads.holding_all(&it.conditions)?.iter().zip(&left).filter(|(a, b)| **a && **b).count();
            let departure = self.notes.departures[..it.departures].last()?;
            (gone > 0 && gone < all as usize).then(|| StagingError {
                location: it.location,
                message: format!(
                    "this needs all {all} threads of the block, and {gone} of them have returned before: let all threads stay, \
                     with a value that changes nothing for those that have none"
                ),
                notes: vec![(departure.location, "threads return here".to_owned())],
            })
        };
        let mistakes: Vec<_> = collectives.iter().filter(counts_all).filter_map(mistake).collect();
        mistakes.into_iter().for_each(|mistake| self.report(mistake));
    }

    /// Refuses operations that only a part of their group reaches, in a kernel that states its block.
    pub(super) fn check_collectives(&mut self) {
        let collectives = std::mem::take(&mut self.notes.collectives);
        if collectives.is_empty() {
            return;
        }
        self.check_departures(&collectives);
        // Nobody waits for threads that have returned.
        let threads = Threads::of_block(&self.kernel);
        let Some(threads) = threads.filter(|_| !leaves(&self.kernel.body, &mut Vec::new())) else { return };
        let reached: Vec<_> =
            collectives.iter().filter_map(|it| Some((it, threads.holding_all(&it.conditions)?))).collect();
        // Threads may meet at barriers in different branches.
        let meets_elsewhere = |of: Group, reaching: &[bool]| {
            let is_disjoint = |other: &[bool]| other.iter().zip(reaching).all(|(a, b)| !(*a && *b));
            reached.iter().any(|(it, other)| it.group == of && is_disjoint(other))
        };
        let mistake = |(it, reaching): &(&Collective, Vec<bool>)| match it.group {
            Group::Lanes(mask) => mistake_of_lanes(mask, reaching),
            Group::LanesOf(mask) => {
                let masks = threads.value(mask)?;
                let all_have_one = masks.iter().all(|mask| *mask == masks[0]);
                mistake_of_lanes(*masks.first().filter(|_| all_have_one)?, reaching)
            }
            of => {
                let (all, reach) = (reaching.len(), reaching.iter().filter(|reaches| **reaches).count());
                let is_part = of.is_of_block(all as u32) && (1..all).contains(&reach);
                let (what, instead) = match of {
                    Group::Cluster => ("of each CTA", "let the other threads arrive, too, in their branch"),
                    _ => ("of the block", "wait for these threads by a `NamedBarrier`"),
                };
                (is_part && !meets_elsewhere(of, reaching)).then(|| {
                    format!(
                        "this waits for all {all} threads {what}, and {reach} of them reach it: move it out of the branch, or \
                         {instead}"
                    )
                })
            }
        };
        let mistakes: Vec<_> =
            reached.iter().filter_map(|reached| Some((reached.0.location, mistake(reached)?))).collect();
        mistakes.into_iter().for_each(|(location, mistake)| self.error(location, mistake));
    }
}
