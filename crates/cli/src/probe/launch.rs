//! The cost of a launch: empty kernels one after another on a stream, also in a graph and overlapping.

use anyhow::Result;
use warpwright_runtime::{Function, Launch, Stream};

use super::session::{Figure, Probe, Session};

const FAMILY: &str = "launch";

struct Launches;

const KERNELS: &str = "
.visible .entry empty() { ret; }
.visible .entry dependent()
{
    griddepcontrol.launch_dependents;
    griddepcontrol.wait;
    ret;
}
";

/// A name, the kernel, and whether it may begin before its predecessor ends.
const CASES: &[(&str, &str, bool)] = &[
    ("empty kernel", "empty", false),
    ("kernel that lets the next begin and waits", "dependent", false),
    ("overlapping kernel that lets the next begin and waits", "dependent", true),
];

fn launch_all(stream: &Stream, entry: &Function, launch: Launch, count: u32) -> Result<()> {
    for _ in 0..count {
        entry.launch(stream, launch, ())?;
    }
    Ok(())
}

impl Probe for Launches {
    fn family(&self) -> &'static str {
        FAMILY
    }

    fn name(&self) -> String {
        "launches".to_owned()
    }

    fn ptx(&self) -> String {
        KERNELS.to_owned()
    }

    fn measure(&self, session: &mut Session) -> Result<Vec<Figure>> {
        let module = session.load(&self.ptx())?;
        let count = session.of(500, 2);
        let stream = &session.stream;
        let mut figures = Vec::new();
        for &(name, kernel, overlaps) in CASES {
            let entry = module.function(kernel)?;
            for ctas in [1, session.sms()] {
                let launch = Launch::new(ctas, 128);
                let launch = if overlaps { launch.overlapping() } else { launch };
                let graph = stream.capture(|stream| launch_all(stream, &entry, launch, count))?;
                for is_graph in [false, true] {
                    let mut seconds = f64::INFINITY;
                    for _ in 0..session.of(3, 1) {
                        let start = stream.record()?;
                        if is_graph {
                            graph.launch(stream)?;
                        } else {
                            launch_all(stream, &entry, launch, count)?;
                        }
                        let stop = stream.record()?;
                        stop.synchronize()?;
                        seconds = seconds.min(stop.since(&start)?.as_secs_f64());
                    }
                    let microseconds = seconds * 1e6 / f64::from(count);
                    figures.push(
                        Figure::new(FAMILY, name, "interval", "us", microseconds)
                            .at("ctas", ctas)
                            .at("graph", is_graph),
                    );
                }
            }
        }
        Ok(figures)
    }
}

/// All of them.
pub(super) fn probes() -> Vec<Box<dyn Probe>> {
    vec![Box::new(Launches)]
}
