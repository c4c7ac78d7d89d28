//! What an emulated device checks, counts, times, limits, interrupts and prints.

use std::io::Write;
use std::sync::atomic::Ordering;
use std::sync::{MutexGuard, PoisonError};

use warpwright_check::Finding;
use warpwright_count::Counters;
use warpwright_emulator::Limit;
use warpwright_time::{Assumption, Prediction};

use super::Machine;
use crate::backend::{Observation, Predecessor, Printer};

impl Observation for Machine {
    fn check_launches(&self, predecessor: Predecessor) {
        self.behind_writers.store(predecessor == Predecessor::WritesEverything, Ordering::Relaxed);
        self.checked.store(true, Ordering::Relaxed);
        self.write().track_initialization();
    }

    fn count_launches(&self) {
        self.counted.store(true, Ordering::Relaxed);
    }

    fn take_remarks(&self) -> Vec<Finding> {
        std::mem::take(&mut self.remarks())
    }

    fn print_to(&self, printer: Printer) {
        *self.printer() = Some(printer);
    }

    fn limit_launches(&self, limit: Limit) {
        *self.limit.lock().unwrap_or_else(PoisonError::into_inner) = Some(limit);
    }

    fn interrupt_launches(&self) {
        self.interrupt.stop();
    }

    fn take_counters(&self) -> Vec<Counters> {
        std::mem::take(&mut self.counters())
    }

    fn time_launches(&self, traced_ctas: u32) {
        self.traced_ctas.store(traced_ctas, Ordering::Relaxed);
        self.timed.store(true, Ordering::Relaxed);
    }

    fn assume(&self, assumptions: &[Assumption]) {
        assumptions.clone_into(&mut self.assumptions());
    }

    fn take_predictions(&self) -> Vec<Prediction> {
        std::mem::take(&mut self.predictions())
    }
}

impl Machine {
    pub(super) fn predictions(&self) -> MutexGuard<'_, Vec<Prediction>> {
        self.predictions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn assumptions(&self) -> MutexGuard<'_, Vec<Assumption>> {
        self.assumptions.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn counters(&self) -> MutexGuard<'_, Vec<Counters>> {
        self.counters.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Shows what a kernel has printed.
    pub(super) fn print(&self, text: &str) {
        if text.is_empty() {
            return;
        }
        match &mut *self.printer() {
            Some(Printer(print)) => print(text),
            None => {
                // A reader that is gone does not stop the kernel.
                let mut stdout = std::io::stdout().lock();
                let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
            }
        }
    }

    pub(super) fn remarks(&self) -> MutexGuard<'_, Vec<Finding>> {
        self.remarks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn printer(&self) -> MutexGuard<'_, Option<Printer>> {
        self.printer.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Stores the counters of a launch.
    pub(super) fn keep(&self, mut launch: Counters) {
        let mut counters = self.counters();
        for kept in counters.iter_mut() {
            match kept.absorb(launch) {
                Ok(()) => return,
                Err(other) => launch = *other,
            }
        }
        counters.push(launch);
    }
}
