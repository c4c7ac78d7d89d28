//! The search for the fastest algorithm.

use std::path::PathBuf;
use std::sync::Arc;

use warpwright::runtime::Stream;
use warpwright_harness::{Candidate, Result, Search, Setup, SharedRotation, Workload};

use super::inputs::Set;
use super::{GemmWorkload, Grouping};
use warpwright_kernels::gemm::host::config::Algorithm;
use warpwright_kernels::gemm::host::tune::{self, Key};
use warpwright_kernels::gemm::host::{heuristic, launch};
use warpwright_kernels::gemm::problem::batching::GemmProblem;
use warpwright_kernels::operations::Operations;

/// A search for the fastest algorithm. All candidates use the same buffers.
struct AlgorithmSearch {
    options: Arc<GemmWorkload>,
    problem: GemmProblem,
    setup: Setup,
    operations: Arc<Operations>,
    sets: SharedRotation<Vec<Set>>,
    tried: Vec<Algorithm>,
}

impl GemmWorkload {
    pub(super) fn algorithm_search(&self, setup: &Setup) -> Result<Box<dyn Search>> {
        Self { gate: None, ..self.clone() }.expect_identity("a search")?;
        if matches!(self.grouping, Grouping::AlongM | Grouping::Unlike) {
            return Err(
                "groups take the heuristic's algorithm: search with --grouping none or batched".into()
            );
        }
        if self.instruction.is_some() {
            return Err("a search times every instruction: remove --instruction".into());
        }
        let cases = self.cases(setup.seed());
        self.algorithm(&cases, setup)?;
        let problem = self.described(&cases[0], self.types()?);
        let sets = setup.buffers(self.work(), |seed| self.sets(setup, &cases, seed))?;
        Ok(Box::new(AlgorithmSearch {
            options: Arc::new(self.clone()),
            problem,
            setup: setup.clone(),
            operations: Arc::new(Operations::new(setup.device())),
            sets: sets.shared(),
            tried: Vec::new(),
        }))
    }
}

impl AlgorithmSearch {
    fn candidates(&mut self, algorithms: Vec<Algorithm>) -> Vec<Candidate> {
        let candidate = |&algorithm: &Algorithm| {
            let (launched, operations) = (self.options.clone(), self.operations.clone());
            let launch = move |stream: &Stream, sets: &mut Vec<Set>| {
                launched.launch(&operations, stream, algorithm, sets)
            };
            let verified = self.options.clone();
            let prepared = self.sets.prepare(launch, move |sets: &Vec<Set>| verified.verify(sets));
            Candidate { name: algorithm.to_string(), prepared }
        };
        let candidates = algorithms.iter().map(candidate).collect();
        self.tried.extend(algorithms);
        candidates
    }
}

impl Search for AlgorithmSearch {
    fn first(&mut self, limit: usize) -> Vec<Candidate> {
        let mut algorithms =
            heuristic::searched(&self.problem, self.setup.capability(), self.setup.sm_count());
        algorithms.truncate(limit);
        self.candidates(algorithms)
    }

    fn around(&mut self, fastest: usize) -> Vec<Candidate> {
        let mut algorithms = heuristic::around(self.tried[fastest], &self.problem, self.setup.capability());
        algorithms.retain(|algorithm| !self.tried.contains(algorithm));
        self.candidates(algorithms)
    }

    fn keep(&self, fastest: usize, seconds: f64) -> Result<Option<PathBuf>> {
        let (algorithm, file) = (self.tried[fastest], tune::default_file()?);
        let hash = launch::ptx_hash(&self.problem, algorithm, self.setup.capability())?;
        let key = Key::of(&self.setup.device().properties().product, &self.problem);
        tune::keep(&file, &key, algorithm, hash, seconds)?;
        Ok(Some(file))
    }
}
