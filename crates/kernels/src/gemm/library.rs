//! [`GemmWorkload`] for the registry of kernels.

use std::path::PathBuf;
use std::sync::LazyLock;

use warpwright::arch::Capability;
use warpwright::runtime::{Device, LaunchCounts, Stream};
use warpwright_harness::{self as harness, DynWorkload, Entry, Form, Setup};

use super::workload::GemmWorkload;
use crate::registry::{
    Candidate, LibraryKernel, OptionSpec, Options, Prepared, Result, Search, Verified, Work,
};

/// The GEMM for the registry.
pub(crate) struct Library;

/// The options of the workload, and the seed.
static OPTIONS: LazyLock<Vec<OptionSpec>> = LazyLock::new(|| {
    let leak = |words: Vec<&'static str>| -> &'static [&'static str] { words.leak() };
    let workload = Entry::of::<GemmWorkload>().workload();
    let option = |spec: harness::OptionSpec| match spec.form {
        Form::Integer => {
            let least = spec.range.0.unwrap_or(0.0);
            let default = spec.default.parse().unwrap_or(0);
            match least {
                0.0 => OptionSpec::number(spec.name, default, spec.help),
                _ => OptionSpec::extent(spec.name, default, spec.help),
            }
        }
        Form::Float => OptionSpec::choice(
            spec.name,
            if spec.default == "0" { &["0", "0.5"] } else { &["1", "0.5", "2"] },
            spec.help,
        ),
        Form::Choice(_) => {
            let default: &'static str = spec.default.clone().leak();
            let others = spec.choices().into_iter().filter(|word| *word != default);
            OptionSpec::choice(spec.name, leak([default].into_iter().chain(others).collect()), spec.help)
        }
        _ => OptionSpec::choice(spec.name, &["false", "true"], spec.help),
    };
    let seed = OptionSpec::number("seed", 1, "Seed of the inputs");
    workload.specs().into_iter().map(option).chain([seed]).collect()
});

/// The workload of those options.
fn workload(options: &Options) -> Result<Box<dyn DynWorkload>> {
    let mut workload = Entry::of::<GemmWorkload>().workload();
    for spec in OPTIONS.iter().filter(|spec| spec.name != "seed") {
        workload.set(spec.name, &options.text(spec.name).unwrap_or_default())?;
    }
    Ok(workload)
}

fn setup(device: &Device, options: &Options) -> Setup {
    Setup::with_seed(device, options.number("seed"))
}

struct Adapted {
    prepared: Box<dyn harness::Prepared>,
    work: Work,
}

fn adapted(workload: &dyn DynWorkload, prepared: Box<dyn harness::Prepared>) -> Box<dyn Prepared> {
    let harness::Work { operations, bytes } = workload.work();
    Box::new(Adapted { prepared, work: Work { operations, bytes } })
}

impl Prepared for Adapted {
    fn launch(&mut self, stream: &Stream) -> Result<LaunchCounts> {
        self.prepared.launch(stream)
    }

    fn verify(&mut self) -> Result<Verified> {
        let harness::Verified { elements, worst } = self.prepared.verify()?;
        Ok(Verified { elements, worst })
    }

    fn work(&self) -> Work {
        self.work
    }
}

struct AdaptedSearch {
    search: Box<dyn harness::Search>,
    workload: Box<dyn DynWorkload>,
}

impl AdaptedSearch {
    fn candidates(&self, candidates: Vec<harness::Candidate>) -> Vec<Candidate> {
        let candidate = |harness::Candidate { name, prepared }| Candidate {
            name,
            prepared: adapted(&*self.workload, prepared),
        };
        candidates.into_iter().map(candidate).collect()
    }
}

impl Search for AdaptedSearch {
    fn first(&mut self, most: usize) -> Vec<Candidate> {
        let candidates = self.search.first(most);
        self.candidates(candidates)
    }

    fn around(&mut self, fastest: usize) -> Vec<Candidate> {
        let candidates = self.search.around(fastest);
        self.candidates(candidates)
    }

    fn keep(&self, fastest: usize, seconds: f64) -> Result<PathBuf> {
        self.search.keep(fastest, seconds)?.ok_or_else(|| "the search keeps nothing".into())
    }
}

impl LibraryKernel for Library {
    fn name(&self) -> &'static str {
        "gemm"
    }

    fn summary(&self) -> &'static str {
        "C = A·B on tensor cores with an epilogue: single, batched or grouped, with or without scales"
    }

    fn options(&self) -> &'static [OptionSpec] {
        &OPTIONS
    }

    fn ptx(&self, target: &str, options: &Options) -> Result<String> {
        let capability =
            Capability::for_target(target).ok_or_else(|| format!("unknown architecture {target}"))?;
        let device = Device::dry_run(capability)?;
        workload(options)?.prepare(&setup(&device, options))?.launch(&device.stream()?)?;
        let launches = device.take_launches();
        Ok(launches.last().map(|launch| launch.ptx.to_string()).unwrap_or_default())
    }

    fn prepare(&self, device: &Device, options: &Options) -> Result<Box<dyn Prepared>> {
        let workload = workload(options)?;
        let prepared = workload.prepare(&setup(device, options))?;
        Ok(adapted(&*workload, prepared))
    }

    fn rival(&self, name: &str, device: &Device, options: &Options) -> Option<Result<Box<dyn Prepared>>> {
        let workload = match workload(options) {
            Ok(workload) => workload,
            Err(error) => return Some(Err(error)),
        };
        let prepared = workload.baseline(name, &setup(device, options))?;
        Some(prepared.map(|prepared| adapted(&*workload, prepared)))
    }

    fn search(&self, device: &Device, options: &Options) -> Option<Result<Box<dyn Search>>> {
        let search = || -> Result<Box<dyn Search>> {
            let workload = workload(options)?;
            let search = workload.search(&setup(device, options)).ok_or("no search")??;
            Ok(Box::new(AdaptedSearch { search, workload }))
        };
        Some(search())
    }

    fn explain(&self, device: &Device, options: &Options) -> Option<Result<String>> {
        let explain = || workload(options)?.explain(&setup(device, options)).ok_or("no heuristic")?;
        Some(explain())
    }
}
