//! The stages that a round of a consumer's loop waits for and releases.

use warpwright_ir::Location;

use super::Recorder;
use super::state::{PipelineId, RegionId, RegionKind, Scope, StageStep, StageUse, StagingError};

impl StageStep {
    /// The loop whose rounds each execute it once, if it is in one without a condition around it.
    fn innermost_loop(&self) -> Option<RegionId> {
        self.around.last().filter(|(_, is_loop)| *is_loop).map(|(region, _)| *region)
    }

    fn is_in(&self, of: RegionId) -> bool {
        self.around.iter().any(|(region, _)| *region == of)
    }
}

/// What is wrong with the steps of a pipeline in a loop. One that only waits, or only releases, may be one
/// of two; and steps under conditions are not counted.
fn mistake_of_round(steps: &[&StageStep], of: RegionId) -> Option<StagingError> {
    let at = |used: StageUse| -> Vec<Location> {
        steps.iter().filter(|step| step.used == used).map(|step| step.location).collect()
    };
    let (waits, releases) = (at(StageUse::Wait), at(StageUse::Release));
    let surplus = if waits.len() > releases.len() { &waits } else { &releases };
    let are_told = steps.iter().all(|step| step.innermost_loop() == Some(of));
    if !are_told || waits.is_empty() || releases.is_empty() || waits.len() == releases.len() {
        return None;
    }
    let ([first, ..], [.., last]) = (surplus.as_slice(), surplus.as_slice()) else { return None };
    let stages = if waits.len() == 1 { "stage" } else { "stages" };
    Some(StagingError {
        location: *last,
        message: format!(
            "each round of the loop waits for {} {stages} of the pipeline and releases {}: wait once for all operands of a stage, and \
             release it once, after its last read",
            waits.len(),
            releases.len()
        ),
        notes: vec![(*first, "and here".to_owned())],
    })
}

impl Recorder {
    /// Notes a wait of a consumer, or a release.
    pub(crate) fn note_stage_use(&mut self, pipeline: PipelineId, used: StageUse, location: Location) {
        let is_loop = |kind: &RegionKind| matches!(kind, RegionKind::Loop { .. });
        let around = self.regions.iter().map(|region| (region.id, is_loop(&region.kind))).collect();
        self.notes.stage_steps.push(StageStep { pipeline, used, around, location });
    }

    /// Refuses loops whose rounds wait for another number of stages than they release.
    pub(super) fn check_rounds(&mut self) {
        let mut steps = std::mem::take(&mut self.notes.stage_steps);
        for step in &mut steps {
            step.around
                .retain(|&(region, _)| self.surviving(Scope { region, otherwise: false }).region == region);
        }
        let mut loops: Vec<_> =
            steps.iter().filter_map(|step| Some((step.pipeline, step.innermost_loop()?))).collect();
        loops.dedup();
        for (pipeline, of) in loops {
            let of_loop = |step: &&StageStep| step.pipeline == pipeline && step.is_in(of);
            let steps: Vec<_> = steps.iter().filter(of_loop).collect();
            if let Some(mistake) = mistake_of_round(&steps, of) {
                self.report(mistake);
            }
        }
    }
}
