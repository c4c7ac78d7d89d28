//! Tensor parallelism: an executor for each device, all of which run the same steps.
//!
//! ```text
//! caller's thread     rank 0    submit, wait    its outputs are the result
//! other threads       rank 1    the same steps; its outputs are those of rank 0
//! ```
//!
//! Ranks meet only in the all-reduce of their kernels. All of them compute the same residual stream, bit for
//! bit, so each samples the same tokens and reads them on its own device in the next step.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use warpwright::runtime::Device;
use warpwright_kernels::communicator::Communicator;
use warpwright_llm_step::{Capacity, Executor, ExecutorError, Output, Slot, Step, Token};

use super::drafting::Drafting;
use crate::error::{EngineError, Result};

/// The executors of all ranks.
pub(super) struct TensorParallel {
    first: Box<dyn Drafting>,
    others: Vec<Rank>,
}

/// A rank on a thread of its own.
struct Rank {
    /// `None` once it shall end.
    commands: Option<Sender<Command>>,
    submitted: Receiver<Result<(), ExecutorError>>,
    outputs: Receiver<Result<Vec<Output>, ExecutorError>>,
    thread: Option<JoinHandle<()>>,
}

enum Command {
    WarmUp,
    Submit(Step),
    Wait,
    Recover,
    Propose(Slot, Vec<Token>),
}

impl TensorParallel {
    /// Loads the part of each device, all at the same time.
    pub(super) fn load(
        devices: &[Device],
        load: impl Fn(&Device, Option<Communicator>) -> Result<Box<dyn Drafting>> + Sync,
    ) -> Result<Self> {
        let ranks = Communicator::of_devices(devices)?;
        let load = &load;
        let loaded: Vec<_> = thread::scope(|scope| {
            let start = |(device, communicator)| scope.spawn(move || load(device, Some(communicator)));
            let threads: Vec<_> = devices.iter().zip(ranks).map(start).collect();
            threads
                .into_iter()
                .map(|thread| thread.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic)))
                .collect()
        });
        let mut executors = loaded.into_iter().collect::<Result<Vec<_>>>()?;
        let first = executors.remove(0);
        Ok(Self { first, others: executors.into_iter().map(Rank::start).collect() })
    }

    /// The answers of all other ranks to a command, the first error of them.
    fn all_submitted(&self) -> Result<(), ExecutorError> {
        let answers: Vec<_> = self.others.iter().map(|rank| received(&rank.submitted)).collect();
        answers.into_iter().collect()
    }
}

impl Rank {
    fn start(mut executor: Box<dyn Drafting>) -> Self {
        let (commands, received) = channel();
        let (of_submit, submitted) = channel();
        let (of_wait, outputs) = channel();
        let run = move || {
            for command in received {
                // The caller is gone if nobody receives.
                let is_received = match command {
                    Command::WarmUp => of_submit.send(warm_up(&mut *executor)).is_ok(),
                    Command::Submit(step) => of_submit.send(submit(&mut *executor, step)).is_ok(),
                    Command::Recover => of_submit.send(executor.recover()).is_ok(),
                    Command::Wait => of_wait.send(executor.wait()).is_ok(),
                    // The next step reports a lost device.
                    Command::Propose(slot, tokens) => executor.propose(slot, &tokens).is_ok(),
                };
                if !is_received {
                    return;
                }
            }
        };
        Self { commands: Some(commands), submitted, outputs, thread: Some(thread::spawn(run)) }
    }

    fn send(&self, command: Command) {
        // A thread that has ended is found by what it does not answer.
        let _ = self.commands.as_ref().map(|commands| commands.send(command));
    }
}

/// Submits a step that is not refused. A rank that fails does not keep the others waiting.
fn submit(executor: &mut dyn Drafting, step: Step) -> Result<(), ExecutorError> {
    executor.submit(step).inspect_err(|_| executor.abort())
}

/// Warms up. A rank that fails does not keep the others waiting.
fn warm_up(executor: &mut dyn Drafting) -> Result<(), ExecutorError> {
    executor.warm_up().inspect_err(|_| executor.abort()).map_err(ExecutorError::new)
}

/// The answer of a rank.
fn received<V>(answers: &Receiver<Result<V, ExecutorError>>) -> Result<V, ExecutorError> {
    answers.recv().unwrap_or_else(|_| Err(ExecutorError::new("the thread of a rank has ended")))
}

impl Drop for Rank {
    fn drop(&mut self) {
        self.commands = None;
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Executor for TensorParallel {
    fn capacity(&self) -> Capacity {
        self.first.capacity()
    }

    fn submit(&mut self, step: Step) -> Result<(), ExecutorError> {
        self.expect_step(&step).map_err(ExecutorError::new)?;
        self.others.iter().for_each(|rank| rank.send(Command::Submit(step.clone())));
        let first = submit(&mut *self.first, step);
        first.and(self.all_submitted())
    }

    fn wait(&mut self) -> Result<Vec<Output>, ExecutorError> {
        self.others.iter().for_each(|rank| rank.send(Command::Wait));
        let first = self.first.wait();
        let others: Vec<_> = self.others.iter().map(|rank| received(&rank.outputs)).collect();
        let outputs = first?;
        for others in others {
            let tokens = |outputs: &[Output]| -> Vec<Token> {
                outputs.iter().flat_map(|output| &output.sampled).map(|sampled| sampled.token).collect()
            };
            if tokens(&others?) != tokens(&outputs) {
                return Err(ExecutorError::new("the devices of a model sampled different tokens"));
            }
        }
        Ok(outputs)
    }

    /// The waits of all ranks have ended: those that failed have aborted.
    fn recover(&mut self) -> Result<(), ExecutorError> {
        self.others.iter().for_each(|rank| rank.send(Command::Recover));
        self.first.recover().and(self.all_submitted())?;
        self.rejoin().map_err(ExecutorError::new)
    }
}

impl Drafting for TensorParallel {
    fn warm_up(&mut self) -> Result<()> {
        self.others.iter().for_each(|rank| rank.send(Command::WarmUp));
        let first = warm_up(&mut *self.first);
        first.and(self.all_submitted()).map_err(|error| EngineError::Step(error.to_string()))
    }

    fn expect_step(&self, step: &Step) -> Result<()> {
        self.first.expect_step(step)
    }

    fn abort(&self) {
        self.first.abort();
    }

    fn rejoin(&self) -> Result<()> {
        self.first.rejoin()
    }

    fn drafted(&self, slot: Slot) -> Result<Vec<Token>> {
        self.first.drafted(slot)
    }

    fn propose(&mut self, slot: Slot, tokens: &[Token]) -> Result<()> {
        self.others.iter().for_each(|rank| rank.send(Command::Propose(slot, tokens.to_vec())));
        self.first.propose(slot, tokens)
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, Ordering};

    use warpwright_llm_step::{Chunk, Page, Sampling, Tokens};

    use super::*;
    use crate::config::Config;
    use crate::data_type::DataType;
    use crate::executor::options::Limits;
    use crate::weights::Checkpoint;

    /// A rank whose next step fails when it is told to.
    struct Failing {
        executor: Box<dyn Drafting>,
        fails: Arc<AtomicBool>,
    }

    impl Executor for Failing {
        fn capacity(&self) -> Capacity {
            self.executor.capacity()
        }

        fn submit(&mut self, step: Step) -> Result<(), ExecutorError> {
            match self.fails.swap(false, Ordering::Relaxed) {
                true => Err(ExecutorError::new("no memory")),
                false => self.executor.submit(step),
            }
        }

        fn wait(&mut self) -> Result<Vec<Output>, ExecutorError> {
            self.executor.wait()
        }

        fn recover(&mut self) -> Result<(), ExecutorError> {
            self.executor.recover()
        }
    }

    impl Drafting for Failing {
        fn warm_up(&mut self) -> Result<()> {
            self.executor.warm_up()
        }

        fn expect_step(&self, step: &Step) -> Result<()> {
            self.executor.expect_step(step)
        }

        fn abort(&self) {
            self.executor.abort();
        }

        fn rejoin(&self) -> Result<()> {
            self.executor.rejoin()
        }

        fn drafted(&self, slot: Slot) -> Result<Vec<Token>> {
            self.executor.drafted(slot)
        }

        fn propose(&mut self, slot: Slot, tokens: &[Token]) -> Result<()> {
            self.executor.propose(slot, tokens)
        }
    }

    /// The token after a prompt, and the one after it.
    fn tokens(executor: &mut TensorParallel) -> Result<Vec<Token>, ExecutorError> {
        let mut sampled = vec![];
        for (position, tokens) in [(0, Tokens::Known(vec![3, 1, 2])), (3, Tokens::Last)] {
            let chunk = Chunk {
                slot: Slot(0),
                position,
                tokens,
                pages: vec![Page(0)],
                sampling: Some(Sampling::greedy()),
                draft: 0,
                score: None,
            };
            executor.submit(Step { copies: vec![], chunks: vec![chunk] })?;
            sampled.extend(executor.wait()?[0].sampled.iter().map(|sampled| sampled.token));
        }
        Ok(sampled)
    }

    #[test]
    fn ranks_go_on_after_a_step_that_failed_on_one_of_them() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixtures/qwen3");
        let checkpoint = Checkpoint::random(folder, 1).expect("a checkpoint");
        let config = Config::read(&checkpoint.config).expect("a configuration");
        let devices = Device::peers("emu:h200", 2).expect("emulators");
        let fails = [0, 1].map(|_| Arc::new(AtomicBool::new(false)));
        let load = |device: &Device, communicator: Option<Communicator>| {
            let fails = fails[communicator.as_ref().map_or(0, Communicator::rank) as usize].clone();
            let on = (device, communicator);
            let executor =
                crate::executor::load(&checkpoint, &config, on, (DataType::F32, Limits::default()), None)?;
            Ok(Box::new(Failing { executor, fails }) as Box<dyn Drafting>)
        };
        let mut executor = TensorParallel::load(&devices, load).expect("an executor");
        let expected = tokens(&mut executor).expect("tokens");
        for fails in &fails {
            fails.store(true, Ordering::Relaxed);
            assert_eq!(tokens(&mut executor).expect_err("a failure").to_string(), "no memory");
            executor.recover().expect("the devices are there");
            assert_eq!(tokens(&mut executor).expect("tokens"), expected);
        }
    }
}
