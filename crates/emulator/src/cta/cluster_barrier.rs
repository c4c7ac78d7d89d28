//! The barrier of a cluster (PTX ISA, "barrier.cluster").

use warpwright_events::FaultKind;

use crate::launch::failure::Failure;

/// A CTA's part in the barrier of its cluster (PTX ISA, "barrier.cluster").
#[derive(Clone, Debug)]
pub(crate) struct ClusterBarrier {
    /// Lanes that have arrived in the phase that is open, by warp.
    arrived: Vec<u32>,
    /// Lanes that have arrived and not waited since, by warp.
    unwaited: Vec<u32>,
}

impl ClusterBarrier {
    pub(crate) fn new(warps: usize) -> Self {
        Self { arrived: vec![0; warps], unwaited: vec![0; warps] }
    }

    pub(crate) fn reset(&mut self) {
        self.arrived.fill(0);
        self.unwaited.fill(0);
    }

    pub(crate) fn any_arrived(&self) -> bool {
        self.arrived.iter().any(|&lanes| lanes != 0)
    }

    pub(crate) fn all_arrived(&self, alive: &[u32]) -> bool {
        self.arrived.iter().zip(alive).all(|(arrived, alive)| alive & !arrived == 0)
    }

    pub(crate) fn complete(&mut self) {
        self.arrived.fill(0);
    }

    /// Lanes of a warp that have yet to arrive in the open phase.
    pub(crate) fn missing(&self, alive: &[u32]) -> u32 {
        self.arrived.iter().zip(alive).map(|(arrived, alive)| (alive & !arrived).count_ones()).sum()
    }

    /// Lanes of a warp arrive.
    pub(crate) fn arrive(&mut self, warp: u32, lanes: u32) -> Result<(), Box<Failure>> {
        let warp = warp as usize;
        let twice = self.unwaited[warp] & lanes;
        if twice != 0 {
            return Err(Failure::new(
                FaultKind::Barrier,
                twice,
                "These lanes arrive at the barrier of the cluster a second time without a wait in between.",
            ));
        }
        self.arrived[warp] |= lanes;
        self.unwaited[warp] |= lanes;
        Ok(())
    }

    /// Lanes of a warp begin to wait. Returns whether the phase they arrived in has completed
    /// already.
    pub(crate) fn wait(&mut self, warp: u32, lanes: u32) -> Result<bool, Box<Failure>> {
        let warp = warp as usize;
        let strangers = lanes & !self.unwaited[warp];
        if strangers != 0 {
            return Err(Failure::new(
                FaultKind::Barrier,
                strangers,
                "These lanes wait at the barrier of the cluster without having arrived at it.",
            ));
        }
        self.unwaited[warp] &= !lanes;
        Ok(!self.holds(warp as u32, lanes))
    }

    /// Whether the phase that lanes of a warp arrived in is still open.
    pub(crate) fn holds(&self, warp: u32, lanes: u32) -> bool {
        self.arrived[warp as usize] & lanes != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_barrier_holds_a_lane_until_its_phase_completes() {
        let mut barrier = ClusterBarrier::new(2);
        let alive = [u32::MAX, 0xffff];
        assert!(barrier.wait(0, 1).is_err(), "no arrival before");
        barrier.arrive(0, u32::MAX).unwrap();
        assert!(barrier.arrive(0, 1).is_err(), "no wait between");
        assert!(!barrier.all_arrived(&alive));
        assert!(!barrier.wait(0, u32::MAX).unwrap());
        barrier.arrive(1, 0xffff).unwrap();
        assert!(barrier.all_arrived(&alive) && barrier.missing(&alive) == 0);
        barrier.complete();
        assert!(!barrier.holds(0, u32::MAX));
        assert!(barrier.wait(1, 0xffff).unwrap(), "its phase is over already");
        barrier.arrive(0, u32::MAX).unwrap();
        assert_eq!(barrier.missing(&alive), 16);
    }
}
