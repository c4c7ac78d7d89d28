//! The placement of clusters on SMs.

use warpwright_arch::limits;

use super::sm::Warp;
use super::{Cluster, MomentState, Simulation};
use crate::stall::Stall;
use crate::trace::{ClusterTrace, WarpTrace};

impl Simulation<'_> {
    /// Starts pending clusters while there is room.
    pub(super) fn place(&mut self, at: u64) {
        while self.is_pending {
            let Some(sms) = self.room(self.shape.ctas as usize) else { return };
            match self.source.start() {
                Some((number, trace)) => self.start(number, trace, sms, at),
                None => self.is_pending = false,
            }
        }
    }

    /// SMs for the CTAs of a cluster: of the SMs of one GPC, those with the most room.
    fn room(&self, ctas: usize) -> Option<Vec<u32>> {
        if ctas == 1 {
            let most = self.sms.iter().enumerate().max_by_key(|(index, sm)| (sm.room, usize::MAX - index));
            return most.filter(|(_, sm)| sm.room > 0).map(|(index, _)| vec![index as u32]);
        }
        let gpcs = self.sms.len().div_ceil(limits::SMS_PER_GPC as usize).max(1);
        // GPCs differ in their SMs by pairs, the two SMs of a TPC.
        let size = (self.sms.len() / gpcs).max(2) & !1;
        let mut best: Option<(u32, Vec<u32>)> = None;
        let mut first = 0;
        for gpc in 0..gpcs {
            let extra = if (self.sms.len() - size * gpcs) / 2 > gpc { 2 } else { 0 };
            let end = (first + size + extra).min(self.sms.len());
            let mut rooms: Vec<(u32, u32)> =
                (first..end).map(|sm| (self.sms[sm].room, sm as u32)).filter(|(room, _)| *room > 0).collect();
            first = end;
            rooms.sort_by_key(|&(room, sm)| (std::cmp::Reverse(room), sm));
            let total: u32 = rooms.iter().map(|(room, _)| room).sum();
            if (total as usize) < ctas || best.as_ref().is_some_and(|(most, _)| *most >= total) {
                continue;
            }
            let mut sms: Vec<u32> = Vec::with_capacity(ctas);
            while sms.len() < ctas {
                let taken = |sm: u32| sms.iter().filter(|&&other| other == sm).count() as u32;
                let next = rooms
                    .iter()
                    .max_by_key(|&&(room, sm)| (room - taken(sm).min(room), std::cmp::Reverse(sm)));
                sms.push(next.expect("there is room").1);
            }
            best = Some((total, sms));
        }
        best.map(|(_, sms)| sms)
    }

    /// Starts a cluster on these SMs.
    fn start(&mut self, number: usize, trace: ClusterTrace, sms: Vec<u32>, at: u64) {
        let per_cta = self.shape.warps_per_cta;
        let slot = self.clusters.iter().position(Option::is_none).unwrap_or_else(|| {
            self.clusters.push(None);
            self.clusters.len() - 1
        });
        let moments =
            trace.arrivals.iter().map(|&left| MomentState { arrivals: left, left, ..MomentState::default() });
        self.clusters[slot] = Some(Cluster {
            number,
            first_cta: trace.first_cta,
            moments: moments.collect(),
            left: vec![per_cta; sms.len()],
            sms: sms.clone(),
            parked: Vec::new(),
        });
        self.outcome.simulated_ctas += sms.len() as u64;
        let mut traces = trace.warps.into_iter();
        let partitions = self.gpu.partitions();
        for (rank, &sm) in sms.iter().enumerate() {
            self.sms[sm as usize].room -= 1;
            let at = at.max(self.sms[sm as usize].starts_at);
            self.sms[sm as usize].starts_at = at + self.gpu.timing.cta_interval.value as u64;
            for index in 0..per_cta {
                let trace = traces.next().unwrap_or_default();
                // Warps are on the partitions in turn; `wgmma` needs four of a CTA on all four.
                let local = (self.sms[sm as usize].placed + index) % partitions;
                let partition = sm * partitions + local;
                let warp = self.spare.pop().unwrap_or_else(|| {
                    self.warps.push(Warp::default());
                    self.warps.len() as u32 - 1
                });
                let mut registers = std::mem::take(&mut self.warps[warp as usize].registers);
                registers.clear();
                registers.resize(self.program.register_count, (0, Stall::Wait));
                self.warps[warp as usize] = Warp {
                    cluster: slot as u32,
                    rank: rank as u32,
                    partition,
                    number: rank as u32 * per_cta + index,
                    trace,
                    not_before: (at, Stall::Selected),
                    since: at,
                    registers,
                    ..Warp::default()
                };
                self.partitions[partition as usize].warps.push(warp);
                if !self.advance(warp) {
                    self.end(warp, at);
                }
            }
            self.sms[sm as usize].placed += per_cta;
        }
    }

    /// A warp has ended.
    pub(super) fn end(&mut self, warp: u32, at: u64) {
        self.outcome.cycles = self.outcome.cycles.max(at);
        let Warp { cluster: slot, rank, partition, .. } = self.warps[warp as usize];
        let sm = self.sm_of(warp);
        self.partitions[partition as usize].warps.retain(|&other| other != warp);
        self.spare.push(warp);
        self.warps[warp as usize].trace = WarpTrace::default();
        let cluster = self.clusters[slot as usize].as_mut().expect("it runs");
        cluster.left[rank as usize] -= 1;
        if cluster.left[rank as usize] > 0 {
            return;
        }
        self.sms[sm].room += 1;
        self.cta_ended = true;
        if cluster.left.iter().all(|left| *left == 0) {
            self.clusters[slot as usize] = None;
        }
    }
}
