//! The tensor memory accelerator: bulk copies and boxes of tensors, by their bytes and the number in flight.

use anyhow::Result;
use warpwright_arch::tensor_map::{Description, ElementType, Swizzle};
use warpwright_runtime::{Argument, Function, Launch, TensorMap};

use super::session::{DYNAMIC_SHARED, Figure, Probe, Session, Time};
use super::transfer_kernels::Copy;

const FAMILY: &str = "TMA";

/// Bytes of the mbarriers before the boxes in shared memory.
const BARRIER_BYTES: u32 = 1024;
/// The most bytes of boxes in flight.
const FLIGHT_BYTES: u32 = 192 << 10;

/// A copy into shared memory.
const COPIES: &[Copy] = &[
    Copy::Bulk,
    Copy::Boxes { rank: 1, is_swizzled: false },
    Copy::Boxes { rank: 2, is_swizzled: false },
    Copy::Boxes { rank: 2, is_swizzled: true },
    Copy::Boxes { rank: 3, is_swizzled: false },
    Copy::Boxes { rank: 3, is_swizzled: true },
];

/// Bytes of a box.
const BOX_BYTES: [u32; 8] = [256, 512, 1 << 10, 2 << 10, 4 << 10, 8 << 10, 16 << 10, 32 << 10];
/// Boxes in flight.
const FLIGHTS: [u32; 4] = [1, 2, 4, 8];
/// Boxes of a round.
const BURSTS: [u32; 5] = [1, 2, 4, 8, 16];

/// Extents of the tensor that one SM copies, outermost first, and of its box, and the axis along which the
/// boxes follow one another.
fn geometry(rank: usize, bytes: u32) -> Option<(Vec<u64>, Vec<u32>)> {
    const REGION: u64 = 4 << 20;
    let rows = bytes / 128;
    match rank {
        // Elements of 8 bytes, of which a box has at most 256.
        1 => (bytes <= 2048).then(|| (vec![REGION / 8], vec![bytes / 8])),
        2 => Some((vec![REGION / 128, 16], vec![rows, 16])),
        _ => {
            let inner = rows.min(8);
            Some((vec![REGION / 128 / 8, 8, 16], vec![rows / inner, inner, 16]))
        }
    }
}

/// What the launches of a copy share.
struct Boxes {
    bytes: u32,
    map: TensorMap,
    step: u32,
    limit: u32,
}

impl Boxes {
    /// The boxes of a copy over `region` bytes; `None` where it has none of those bytes.
    fn of(copy: Copy, bytes: u32, region: u64, session: &mut Session) -> Result<Option<Self>> {
        let rank = match copy {
            Copy::Bulk => 2,
            Copy::Boxes { rank, .. } => rank,
        };
        let Some((mut extents, box_extents)) = geometry(rank, bytes) else { return Ok(None) };
        extents[0] = extents[0] * region / (4 << 20);
        let is_swizzled = copy == Copy::Boxes { rank, is_swizzled: true };
        let swizzle = if is_swizzled { Swizzle::Bytes128 } else { Swizzle::None };
        let description =
            Description { swizzle, ..Description::row_major(ElementType::U64, 0, &extents, &box_extents) };
        let map = TensorMap::new(&mut session.data, description)?;
        let (step, limit) = match copy {
            Copy::Bulk => (bytes, region as u32),
            _ => (box_extents[0], extents[0] as u32),
        };
        Ok(Some(Self { bytes, map, step, limit }))
    }

    /// Cycles and seconds of `count` boxes a CTA, each CTA in its part of the region.
    fn time(
        &self,
        session: &mut Session,
        entry: &Function,
        launch: Launch,
        [count, flight]: [u32; 2],
        parts: u32,
    ) -> Result<Time> {
        let part = self.limit / parts / self.step * self.step;
        let further = [
            Argument::scalar(self.bytes),
            Argument::scalar(flight),
            Argument::scalar(self.step),
            Argument::scalar(part),
            Argument::scalar(if parts == 1 { 0 } else { part }),
            Argument::tensor_map(&self.map),
        ];
        session.time(entry, launch, count, &further)
    }
}

impl Probe for Copy {
    fn family(&self) -> &'static str {
        FAMILY
    }

    fn name(&self) -> String {
        self.label()
    }

    fn ptx(&self) -> String {
        let multicast = if *self == Self::Bulk || matches!(self, Self::Boxes { rank: 2, .. }) {
            let words = [".multicast::cluster", ", %mask"];
            self.multicast("unicast", ["", ""]) + &self.multicast("multicast", words)
        } else {
            String::new()
        };
        format!(
            "{DYNAMIC_SHARED}{}{}{}{}{multicast}",
            self.load(),
            self.burst(),
            self.store(""),
            self.store(".read")
        )
    }

    fn measure(&self, session: &mut Session) -> Result<Vec<Figure>> {
        let module = session.load(&self.ptx())?;
        let [load, burst] = [module.function("load")?, module.function("burst")?];
        let [store, store_read] = [module.function("store")?, module.function("store_read")?];
        let rounds =
            module.function("unicast").and_then(|unicast| Ok((unicast, module.function("multicast")?))).ok();
        let mut figures = Vec::new();
        let figure = |name: &str, quantity, unit, value, bytes: u32| {
            Figure::new(FAMILY, format!("{} {name}", self.label()), quantity, unit, value).at("bytes", bytes)
        };
        let one = session.of(1u64 << 20, 1 << 18);
        for bytes in BOX_BYTES {
            let Some(boxes) = Boxes::of(*self, bytes, one, session)? else { continue };
            for flight in FLIGHTS.into_iter().filter(|flight| flight * bytes <= FLIGHT_BYTES) {
                let launch = Launch::new(1, 1).dynamic_shared(BARRIER_BYTES + flight * bytes);
                let count = session.of(256, 8);
                let time = boxes.time(session, &load, launch, [count, flight], 1)?;
                let cycles = time.cycles / f64::from(count);
                figures.push(figure("load", "interval", "cycles", cycles, bytes).at("in_flight", flight));
            }
            for boxes_of_round in BURSTS.into_iter().filter(|boxes| boxes * bytes <= FLIGHT_BYTES) {
                let launch = Launch::new(1, 1).dynamic_shared(BARRIER_BYTES + boxes_of_round * bytes);
                // All rounds stay in the region.
                let region_boxes = (one / u64::from(bytes)) as u32 / boxes_of_round;
                let count = session.of(64, 2).min(region_boxes.max(1));
                let time = boxes.time(session, &burst, launch, [count, boxes_of_round], 1)?;
                let cycles = time.cycles / f64::from(count);
                figures.push(figure("burst", "round", "cycles", cycles, bytes).at("boxes", boxes_of_round));
            }
            let launch = Launch::new(1, 1).dynamic_shared(BARRIER_BYTES + bytes);
            let count = session.of(256, 4);
            for (name, entry) in [("store, complete", &store), ("store, read", &store_read)] {
                let time = boxes.time(session, entry, launch, [count, 1], 1)?;
                let cycles = time.cycles / f64::from(count);
                figures.push(figure(name, "latency", "cycles", cycles, bytes));
            }
            let Some((unicast, multicast)) = &rounds else { continue };
            for cluster in [2u32, 4] {
                let cases = [
                    ("unicast in a cluster", unicast, 1),
                    ("multicast to one", multicast, 1),
                    ("multicast to all", multicast, (1 << cluster) - 1),
                ];
                for (name, entry, mask) in cases {
                    let launch =
                        Launch::new(cluster, 1).cluster(cluster).dynamic_shared(BARRIER_BYTES + bytes);
                    let time = boxes.time(session, entry, launch, [count, mask], 1)?;
                    let cycles = time.cycles / f64::from(count);
                    figures.push(figure(name, "round", "cycles", cycles, bytes).at("cluster", cluster));
                }
            }
        }
        figures.extend(whole(*self, session, &load)?);
        Ok(figures)
    }
}

/// The rate of all SMs, from L2 and from DRAM.
fn whole(copy: Copy, session: &mut Session, load: &Function) -> Result<Vec<Figure>> {
    let mut figures = Vec::new();
    for (site, region, total) in [("L2 of 16 MiB", 16u64 << 20, 256u64 << 20), ("DRAM", 1 << 30, 1 << 30)] {
        for bytes in [2 << 10, 8 << 10, 16 << 10, 32 << 10] {
            let region = session.of(region, 1 << 18);
            let Some(boxes) = Boxes::of(copy, bytes, region, session)? else { continue };
            for flight in [1u32, 2, 4, 8].into_iter().filter(|flight| flight * bytes <= FLIGHT_BYTES) {
                let ctas = session.sms();
                let launch = Launch::new(ctas, 1).dynamic_shared(BARRIER_BYTES + flight * bytes);
                let count = session.of((total / u64::from(bytes * ctas)) as u32, 2).max(flight);
                // On the emulator the region is too small to be divided.
                let parts = session.of(ctas, 1);
                let time = boxes.time(session, load, launch, [count, flight], parts)?;
                let moved = f64::from(ctas) * f64::from(count) * f64::from(bytes);
                let name = format!("{} load, {site}, all SMs", copy.label());
                figures.push(
                    Figure::new(FAMILY, name, "rate", "GB/s", moved / time.seconds / 1e9)
                        .at("bytes", bytes)
                        .at("in_flight", flight),
                );
            }
        }
    }
    Ok(figures)
}

/// All of them.
pub(super) fn probes() -> Vec<Box<dyn Probe>> {
    COPIES.iter().map(|copy| Box::new(*copy) as Box<dyn Probe>).collect()
}
