//! Modules, kernels and launches of an emulated device.

use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use warpwright_check::LaunchChecks;
use warpwright_count::LaunchCounting;
use warpwright_emulator::{self as emulator, Fault, LaunchObserver, Program};
use warpwright_ptx::syntax;
use warpwright_time::LaunchTiming;

use super::{Machine, expect_none, source};
use crate::attributes::{KernelAttributes, LaunchCounts};
use crate::backend::{Call, Handle, LoadedKernel, LoadedModule, Loader, Packed};
use crate::error::{Error, Result};
use crate::launch::Launch;

impl Loader for Machine {
    fn load(self: Arc<Self>, _ptx: &str, parsed: Option<&syntax::Module>) -> Result<Arc<dyn LoadedModule>> {
        let parsed = parsed.expect("text that does not parse is refused for emulated devices");
        let program = self.write().load(parsed)?;
        Ok(Arc::new(EmulatedModule { machine: self, program }))
    }
}

/// A module that the emulator has decoded.
struct EmulatedModule {
    machine: Arc<Machine>,
    program: Program,
}

impl LoadedModule for EmulatedModule {
    fn kernel(self: Arc<Self>, name: &str) -> Result<Option<Arc<dyn LoadedKernel>>> {
        let device_limit = self.machine.read().arch().capability.threads_per_cta;
        let Some(kernel) = self.program.kernel(name) else { return Ok(None) };
        let attributes = KernelAttributes {
            registers_per_thread: 0,
            shared_bytes: kernel.static_shared_bytes(),
            local_bytes: 0,
            threads_per_cta: kernel.bounds().most_threads.unwrap_or(device_limit),
        };
        Ok(Some(Arc::new(EmulatedKernel { name: name.to_owned(), attributes, module: self })))
    }

    fn variable(&self, name: &str) -> Result<Option<(u64, usize)>> {
        Ok(self.program.variable(name).map(|variable| (variable.address, variable.size as usize)))
    }
}

/// A kernel of a decoded module.
struct EmulatedKernel {
    module: Arc<EmulatedModule>,
    name: String,
    attributes: KernelAttributes,
}

impl LoadedKernel for EmulatedKernel {
    fn attributes(&self) -> &KernelAttributes {
        &self.attributes
    }

    fn launch(
        &self,
        stream: Handle,
        launch: &Launch,
        arguments: &[Packed<'_>],
        call: Call,
    ) -> Result<LaunchCounts> {
        let EmulatedModule { machine, program } = &*self.module;
        let parameters = parameter_bank(arguments);
        let overlaps = launch.overlaps;
        let launch = emulator::Launch {
            grid: launch.grid.0,
            block: launch.block.0,
            cluster: launch.cluster.0,
            dynamic_shared_bytes: launch.dynamic_shared_bytes,
            parameters: &parameters,
            schedule: machine.schedule,
            limit: *machine.limit.lock().unwrap_or_else(PoisonError::into_inner),
            observers: &[],
        };
        let launched = machine.previous().remove(&stream.0);
        let previous = overlaps.then(|| launched.or_else(|| machine.assumed_predecessor())).flatten();
        let emulator = machine.read();
        let refused =
            |fault: Box<Fault>| Error::BadLaunch { kernel: self.name.clone(), reason: fault.message };
        let info = emulator.describe(program, &self.name, &launch).map_err(refused)?;
        let checks = machine.host_checks().map(|host| {
            let on_stream = host.launch(stream.0, source(call), &info, &parameters);
            LaunchChecks::on_stream(&info, previous, on_stream)
        });
        let counting = machine.counted.load(Ordering::Relaxed).then(|| LaunchCounting::new(&info));
        let checks_observe = checks.as_ref().map(|checks| checks as &dyn LaunchObserver);
        let counting_observes = counting.as_ref().map(|counting| counting as &dyn LaunchObserver);
        let timing = machine.timed.load(Ordering::Relaxed).then(|| {
            LaunchTiming::new(&info, emulator.arch())
                .tracing(machine.traced_ctas.load(Ordering::Relaxed))
                .assuming(&machine.assumptions())
        });
        let timing_observes = timing.as_ref().map(|timing| timing as &dyn LaunchObserver);
        let observers: Vec<_> =
            [checks_observe, counting_observes, timing_observes].into_iter().flatten().collect();
        let launch = emulator::Launch { observers: &observers, ..launch };
        let report = emulator.launch(program, &self.name, &launch);
        drop(emulator);
        let findings: Arc<[_]> = checks.as_ref().map_or(&[][..], LaunchChecks::findings).into();
        let output = report.as_ref().map_or_else(|fault| &fault.output, |report| &report.output);
        machine.print(output);
        let report =
            report.map_err(|fault| Error::Fault { fault: fault.into(), findings: findings.clone() })?;
        if let Some(done) = checks.and_then(|checks| checks.done()) {
            machine.previous().insert(stream.0, done);
        }
        if let Some(counting) = counting {
            machine.keep(counting.counters());
        }
        if let Some(timing) = timing {
            let prediction = timing.prediction();
            machine.clocks().advance(stream, prediction.microseconds);
            machine.predictions().push(prediction);
        }
        expect_none(findings)?;
        Ok(LaunchCounts {
            warp_instructions: report.warp_instructions,
            lane_operations: report.lane_operations,
            mma_multiply_adds: report.mma_multiply_adds,
        })
    }
}

/// The arguments in order, each at the alignment of its parameter.
fn parameter_bank(arguments: &[Packed<'_>]) -> Vec<u8> {
    let mut bank = Vec::new();
    for argument in arguments {
        bank.resize(bank.len().next_multiple_of(argument.align.max(1)), 0);
        bank.extend_from_slice(argument.bytes);
    }
    bank
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_parameter_bank_keeps_alignments() {
        let packed = |bytes, align| Packed { bytes, align };
        let bank =
            parameter_bank(&[packed(&[1], 1), packed(&[2; 8], 8), packed(&[3; 4], 4), packed(&[4; 6], 2)]);
        assert_eq!(bank, [1, 0, 0, 0, 0, 0, 0, 0, 2, 2, 2, 2, 2, 2, 2, 2, 3, 3, 3, 3, 4, 4, 4, 4, 4, 4]);
        assert!(parameter_bank(&[]).is_empty());
    }
}
