//! The choice of an algorithm, and what no kernel of a device computes.

use std::path::Path;

use warpwright::arch::Capability;
use warpwright::runtime::DeviceProperties;

use super::config::{Algorithm, TmaInstruction, mma_sync_computes};
use super::heuristic;
use super::launch;
use super::tune::{self, Key};
use crate::gemm::problem::batching::GemmProblem;
use crate::gemm::problem::error::GemmError;
use crate::operations::Result;

/// The caller's algorithm, or the tuned one, or the heuristic's.
///
/// A cache that cannot be read counts as empty: it only makes a GEMM faster. `warpwright run gemm
/// --explain` reports what is wrong with it.
pub(crate) fn choose(
    problem: &GemmProblem,
    algorithm: Option<Algorithm>,
    properties: &DeviceProperties,
    file: Option<&Path>,
) -> Result<Algorithm> {
    let capability = properties.capability;
    expect_kernel(problem, capability)?;
    if let Some(algorithm) = algorithm {
        algorithm.check(problem, capability)?;
        return Ok(algorithm);
    }
    let tuned = |file| tuned(problem, properties, file).ok().flatten();
    let ranked = || heuristic::algorithms(problem, capability, properties.sm_count)[0];
    Ok(file.and_then(tuned).unwrap_or_else(ranked))
}

/// Refuses types and scales that no kernel of the device computes.
pub fn expect_kernel(problem: &GemmProblem, capability: &Capability) -> Result<(), GemmError> {
    let target = capability.target;
    let by_tma = TmaInstruction::of(capability).is_some_and(|instruction| instruction.scales(problem));
    match by_tma || mma_sync_computes(problem, capability) {
        true => Ok(()),
        false if problem.types.scaling.factors().is_some() => Err(GemmError::NoBlockScaled { target }),
        false if problem.types.scaling.granularities().is_some() => {
            Err(GemmError::NoBlockwiseScales { target })
        }
        false => Err(GemmError::NoTmaInstruction { types: problem.types.inputs(), target }),
    }
}

/// The tuned algorithm of a file, if its kernel is the one that was timed. An emulator has none.
pub fn tuned(
    problem: &GemmProblem,
    properties: &DeviceProperties,
    file: &Path,
) -> Result<Option<Algorithm>, tune::TuneError> {
    if properties.is_emulated || problem.along_m {
        return Ok(None);
    }
    let capability = properties.capability;
    tune::find(file, &Key::of(&properties.product, problem), |algorithm, hash| {
        let is_legal = algorithm.check(problem, capability).is_ok();
        is_legal && launch::ptx_hash(problem, algorithm, capability).is_ok_and(|own| own == hash)
    })
}

#[cfg(test)]
mod tests {
    use std::fs;

    use warpwright::arch::DataType::{Bf16, E4m3, E5m2, F32};
    use warpwright::runtime::Device;

    use super::*;
    use crate::gemm::device::mainloop::mma_sync::MmaSyncConfiguration;
    use crate::gemm::problem::batching::{Batch, Problem};
    use crate::gemm::problem::scales::Granularity::{Block, Row};
    use crate::gemm::problem::scales::Scaling;
    use crate::gemm::problem::types::{GemmTypes, MatrixLayout};

    const BF16: GemmTypes = GemmTypes::new(Bf16, Bf16, F32);

    fn keep(file: &Path, problem: &GemmProblem, properties: &DeviceProperties, algorithm: Algorithm) {
        let hash = launch::ptx_hash(problem, algorithm, properties.capability).expect("a kernel");
        tune::keep(file, &Key::of("a GPU", problem), algorithm, hash, 1.0).expect("kept");
    }

    /// An emulated H200, and the GPU.
    fn devices() -> [DeviceProperties; 2] {
        let emulator = Device::named("emu:h200").expect("an emulator").properties().clone();
        let product = "a GPU".to_owned();
        [emulator.clone(), DeviceProperties { is_emulated: false, product, ..emulator }]
    }

    #[test]
    fn a_tuned_algorithm_precedes_the_heuristic() {
        let (file, _directory) = tune::temporary_file("launch");
        let [emulator, gpu] = devices();
        let ampere = Capability::for_target("sm_80").expect("it is known");
        let older = DeviceProperties { capability: ampere, ..gpu.clone() };
        let ranked = |problem: &GemmProblem| heuristic::algorithms(problem, gpu.capability, gpu.sm_count);
        let chosen_from = |problem: &GemmProblem, properties, file| {
            choose(problem, None, properties, file).expect("an algorithm")
        };
        let problem = Problem::new(600, 520, 200);
        for batch in [Batch::from(problem), Batch::new(problem, 3), Batch::new(problem, 3).sharing_b()] {
            let problem = GemmProblem::new(batch, BF16);
            let (all, chosen) =
                (ranked(&problem), |properties| chosen_from(&problem, properties, Some(&file)));
            assert_eq!(chosen(&gpu), all[0], "nothing is kept for it yet");
            let mma_sync = Algorithm::MmaSync(MmaSyncConfiguration { tile: (64, 128), stages: 3, raster: 4 });
            for kept in [all[4], mma_sync] {
                keep(&file, &problem, &gpu, kept);
                assert_eq!(chosen(&gpu), kept);
            }
            keep(&file, &problem, &older, mma_sync);
            assert_eq!(chosen(&older), mma_sync, "an older GPU finds algorithms by mma.sync");
            keep(&file, &problem, &gpu, all[4]);
            let default = Algorithm::MmaSync(MmaSyncConfiguration::default());
            assert_eq!(chosen(&older), default, "what it cannot launch counts as nothing");
            assert_eq!(chosen(&emulator), all[0], "a GPU's time says nothing about its emulator");
            tune::keep(&file, &Key::of("a GPU", &problem), all[4], 1, 1.0).expect("kept");
            assert_eq!(chosen(&gpu), all[0], "another kernel was timed");
            assert_eq!(chosen_from(&problem, &gpu, None), all[0]);
        }
        fs::write(&file, "not what tune writes").expect("writable");
        let problem = GemmProblem::new(problem, BF16);
        assert_eq!(chosen_from(&problem, &gpu, Some(&file)), ranked(&problem)[0], "the file is no good");
    }

    #[test]
    fn blockwise_scales_have_tuned_algorithms_of_their_own() {
        let (file, _directory) = tune::temporary_file("launch-scaled");
        let [emulator, gpu] = devices();
        let types = GemmTypes { scaling: Scaling::Blockwise(Row, Block), ..GemmTypes::new(E4m3, E5m2, Bf16) };
        let problem = GemmProblem::new(Problem::new(700, 900, 1000), types);
        let all = heuristic::algorithms(&problem, gpu.capability, gpu.sm_count);
        let chosen = |problem: &GemmProblem, properties| {
            choose(problem, None, properties, Some(&file)).expect("an algorithm")
        };
        assert_eq!(chosen(&problem, &gpu), all[0], "there is no file yet");
        keep(&file, &problem, &gpu, all[5]);
        assert_eq!(chosen(&problem, &gpu), all[5]);
        assert_eq!(chosen(&problem, &emulator), all[0], "a GPU's time says nothing about its emulator");
        let other = GemmProblem { types: GemmTypes { b: E4m3, ..types }, ..problem };
        assert_eq!(chosen(&other, &gpu), all[0], "another type of B");
    }

    #[test]
    fn operands_are_copied_if_that_is_faster() {
        let device = Device::named("emu:h200").expect("an emulator");
        let (capability, sms) = (device.properties().capability, device.properties().sm_count);
        let uses_wgmma = |problem: Problem, a, c| {
            let problem = GemmProblem::new(problem, GemmTypes::new(a, a, c));
            heuristic::algorithms(&problem, capability, sms)[0].is_wgmma()
        };
        assert!(uses_wgmma(Problem::new(4096, 4096, 4097), Bf16, Bf16));
        let columns = Problem { a: MatrixLayout::ColumnMajor, ..Problem::new(8191, 8192, 8192) };
        assert!(uses_wgmma(columns, Bf16, Bf16));
        assert!(!uses_wgmma(Problem::new(131, 67, 37), Bf16, Bf16));
        assert!(uses_wgmma(Problem::new(3, 3, 3), E4m3, Bf16), "mma.sync has no 8-bit floats here");
    }
}
