//! The largest error of each function, over all 2^32 arguments or a part of them.

use std::time::Instant;

use anyhow::{Result, bail};
use clap::Args;
use serde_json::{Value, json};
use warpwright::prelude::*;
use warpwright::runtime::Device;
use warpwright_lang::math::table::Function;
use warpwright_testing::math::{Reference, reference, ulp_error_f32};

/// Compare each function with f64 on the host, for all 2^32 arguments, and print the largest
/// errors.
#[derive(Debug, Args)]
pub(crate) struct Errors {
    /// Only every Nth argument.
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    one_in: u32,
}

/// Arguments of one launch.
const CHUNK: u64 = 1 << 26;
const THREADS: u32 = 256;

/// Evaluates a function at arguments whose bits are equally spaced.
struct Evaluation {
    function: fn(Reg<f32>) -> Reg<f32>,
}

impl Evaluation {
    #[kernel]
    fn run(&self, first: u32, step: u32, results: &mut Global<f32>) {
        launch::threads(THREADS);
        let i = block_idx().x * THREADS + thread_idx().x;
        let x = (first + i * step).bit_cast::<f32>();
        results[i] = (self.function)(x);
    }
}

/// The largest error so far, and its argument.
#[derive(Clone, Copy)]
struct Worst {
    error: f64,
    argument: u32,
    found: f32,
}

impl Worst {
    fn larger(self, other: Self) -> Self {
        if other.error > self.error { other } else { self }
    }
}

impl Errors {
    pub(crate) fn run(&self, device: &Device, functions: &[&Function<f32>]) -> Result<Value> {
        let count = (1u64 << 32) / u64::from(self.one_in);
        println!("{count} arguments of each function");
        println!("{:<16} {:>9} {:>7} {:>6}  at", "function", "ulp", "bound", "CUDA");
        let (mut rows, mut over) = (Vec::new(), Vec::new());
        for function in functions {
            let begin = Instant::now();
            let worst = self.worst(device, function, count)?;
            let x = f32::from_bits(worst.argument);
            let exact = reference(function.name)(f64::from(x));
            let cuda = function.cuda.map_or("-".to_owned(), |bound| bound.to_string());
            println!(
                "{:<16} {:>9.4} {:>7} {cuda:>6}  {x:e} (0x{:08x}): {:e}, exact {exact:e}; {:.1} s",
                function.name,
                worst.error,
                function.ulp,
                worst.argument,
                worst.found,
                begin.elapsed().as_secs_f64(),
            );
            if worst.error > function.ulp {
                over.push(function.name);
            }
            rows.push(json!({
                "function": function.name, "ulp": worst.error, "bound": function.ulp, "cuda": function.cuda,
                "argument": worst.argument, "found": worst.found.to_bits(),
            }));
        }
        if !over.is_empty() {
            println!("over their bounds: {}", over.join(", "));
        }
        Ok(json!({ "device": device.name(), "arguments": count, "functions": rows, "over": over }))
    }

    fn worst(&self, device: &Device, function: &Function<f32>, count: u64) -> Result<Worst> {
        let kernel = device.compile(&Evaluation { function: function.record }.run()?)?;
        let stream = device.stream()?;
        let chunk = count.next_multiple_of(u64::from(THREADS)).min(CHUNK);
        let mut results = device.uninitialized::<f32>(chunk as usize)?;
        let mut host = device.host_buffer::<f32>(chunk as usize)?;
        let exact = reference(function.name);
        let mut worst = Worst { error: -1.0, argument: 0, found: 0.0 };
        let mut done = 0;
        while done < count {
            let first = (done * u64::from(self.one_in)) as u32;
            kernel.launch(
                &stream,
                (chunk / u64::from(THREADS)) as u32,
                (first, self.one_in, &mut results),
            )?;
            stream.copy_to_host(&mut host, &results)?;
            let part = host.as_slice()?;
            if part.len() as u64 != chunk {
                bail!("the device returned {} results of {chunk}", part.len());
            }
            worst = worst.larger(worst_of(part, first, self.one_in, exact));
            done += chunk;
        }
        Ok(worst)
    }
}

/// The worst of `found`, on all cores.
fn worst_of(found: &[f32], first: u32, step: u32, exact: Reference) -> Worst {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let share = found.len().div_ceil(cores);
    let of_share = |(core, found): (usize, &[f32])| {
        let begin = first.wrapping_add((core * share) as u32 * step);
        found
            .iter()
            .enumerate()
            .map(|(i, found)| {
                let argument = begin.wrapping_add((i as u32).wrapping_mul(step));
                let error = ulp_error_f32(*found, exact(f64::from(f32::from_bits(argument))));
                Worst { error, argument, found: *found }
            })
            .reduce(Worst::larger)
    };
    std::thread::scope(|scope| {
        let workers: Vec<_> =
            found.chunks(share).enumerate().map(|part| scope.spawn(move || of_share(part))).collect();
        workers
            .into_iter()
            .filter_map(|worker| worker.join().expect("no worker panics"))
            .reduce(Worst::larger)
            .expect("there are results")
    })
}
