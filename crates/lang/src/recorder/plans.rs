//! The indices of threads in a plan, compared with the number of threads that it has.

use warpwright_ir::{Location, Operand, Register};

use super::Recorder;
use super::state::PlanIndex;
use super::threads::Threads;

impl PlanIndex {
    /// What is wrong, if some thread that reaches it has an index that the plan does not have.
    fn mistake(&self, threads: &Threads<'_>) -> Option<String> {
        let indices = threads.value(self.index)?;
        let reaches = threads.holding_all(&self.conditions)?;
        let reaching = indices.iter().zip(reaches).filter_map(|(index, reaches)| reaches.then_some(*index));
        let most = reaching.max().filter(|most| *most >= self.threads)?;
        let Self { plan, threads, .. } = self;
        let shown = if most > i32::MAX as u32 {
            format!("{} (below zero)", most as i32)
        } else {
            format!("{most} here")
        };
        Some(format!(
            "`thread`: {plan} {threads} threads, and the index of a thread is {shown}: give an index from 0 to {}, such as \
             `role.thread()` or `thread % {threads}`, in a branch of the threads that take part",
            threads - 1
        ))
    }
}

impl Recorder {
    /// Notes a thread's index in a plan.
    pub(crate) fn note_plan_index(
        &mut self,
        plan: &'static str,
        threads: u32,
        index: Register,
        location: Location,
    ) {
        // After a jump that threads may have taken, it is unknown which of them are left.
        if let Some(conditions) = self.conditions() {
            self.notes.plans.push(PlanIndex { plan, threads, index, conditions, location });
        }
    }

    /// Refuses indices that a plan does not have, in a kernel that states its block. For another
    /// kernel, the launch compares the plans that all threads take part in.
    pub(super) fn check_plans(&mut self) {
        let plans = std::mem::take(&mut self.notes.plans);
        if plans.is_empty() {
            return;
        }
        let Some(threads) = Threads::of_block(&self.kernel) else {
            let of_all = plans.iter().filter(|plan| plan.conditions.is_empty() && self.is_thread(plan.index));
            let smallest = of_all.min_by_key(|plan| plan.threads);
            self.kernel.planned_threads = smallest.map(|plan| (plan.threads, plan.location));
            return;
        };
        let mistakes: Vec<_> =
            plans.iter().filter_map(|plan| Some((plan.location, plan.mistake(&threads)?))).collect();
        mistakes.into_iter().for_each(|(location, mistake)| self.error(location, mistake));
    }

    /// Whether a register holds `thread_idx().x`.
    fn is_thread(&self, register: Register) -> bool {
        let (mut reads, mut writes) = (false, 0);
        self.kernel.for_each_instruction(&mut |instruction| {
            if instruction.operands[..instruction.destinations].contains(&Operand::Register(register)) {
                writes += 1;
                reads |= instruction.operands.get(1) == Some(&Operand::Special("%tid.x".into()));
            }
        });
        reads && writes == 1
    }
}
