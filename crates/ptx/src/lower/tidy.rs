//! Removes branches and labels that linear order makes redundant.

use std::collections::{HashMap, HashSet};

use super::flow::{Step, Target};

/// Applies every simplification until none applies. The steps keep their meaning.
pub(super) fn tidy(steps: &mut Vec<Step<'_>>) {
    loop {
        let before = steps.len();
        follow_chains(steps);
        remove_unreachable(steps);
        invert_over_jumps(steps);
        remove_jumps_to_next(steps);
        remove_unused_targets(steps);
        if steps.len() == before {
            return;
        }
    }
}

/// Retargets a branch to a branch.
fn follow_chains(steps: &mut [Step<'_>]) {
    let mut forwarded: HashMap<Target, Target> = HashMap::new();
    for (index, step) in steps.iter().enumerate() {
        let Step::Target(from) = step else { continue };
        let first = steps[index..].iter().find(|step| !matches!(step, Step::Target(_)));
        if let Some(Step::Branch(None, to, _)) = first {
            forwarded.insert(*from, *to);
        }
    }
    for step in steps {
        let Step::Branch(_, target, _) = step else { continue };
        let mut seen = HashSet::from([*target]);
        while let Some(next) = forwarded.get(target) {
            if !seen.insert(*next) {
                break; // an empty endless loop
            }
            *target = *next;
        }
    }
}

fn remove_unreachable(steps: &mut Vec<Step<'_>>) {
    let mut reachable = true;
    steps.retain(|step| {
        reachable |= matches!(step, Step::Target(_));
        let keep = reachable;
        reachable &= !matches!(step, Step::Branch(None, ..) | Step::Return(None, _));
        keep
    });
}

/// `if c goto A; goto B; A:` is `if !c goto B; A:`.
fn invert_over_jumps(steps: &mut Vec<Step<'_>>) {
    let mut index = 0;
    while index + 2 < steps.len() {
        if let [Step::Branch(Some((condition, value)), over, _), leave, following @ ..] = &steps[index..]
            && following.iter().map_while(as_target).any(|target| target == *over)
        {
            let inverted = Some((*condition, !value));
            let replacement = match leave {
                Step::Branch(None, target, location) => Some(Step::Branch(inverted, *target, *location)),
                Step::Return(None, location) => Some(Step::Return(inverted, *location)),
                _ => None,
            };
            if let Some(replacement) = replacement {
                steps[index] = replacement;
                steps.remove(index + 1);
            }
        }
        index += 1;
    }
}

fn as_target(step: &Step<'_>) -> Option<Target> {
    match step {
        Step::Target(target) => Some(*target),
        _ => None,
    }
}

fn remove_jumps_to_next(steps: &mut Vec<Step<'_>>) {
    for index in (0..steps.len()).rev() {
        if let Step::Branch(_, to, _) = &steps[index]
            && steps[index + 1..].iter().map_while(as_target).any(|target| target == *to)
        {
            steps.remove(index);
        }
    }
}

fn remove_unused_targets(steps: &mut Vec<Step<'_>>) {
    let used: HashSet<Target> = (steps.iter())
        .filter_map(|step| match step {
            Step::Branch(_, target, _) => Some(*target),
            _ => None,
        })
        .collect();
    steps.retain(|step| as_target(step).is_none_or(|target| used.contains(&target)));
}
