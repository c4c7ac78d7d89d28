//! `chat`: a conversation in the terminal.

mod answer;
mod command;
mod input;
mod keyboard;

use std::io::Write;
use std::pin::pin;

use anyhow::{anyhow, bail};
use clap::Args;
use nix::sys::signal::Signal;
use serde_json::{Value, json};
use tokio::runtime::Builder;
use tokio::signal::unix::{SignalKind, signal};
use warpwright_llm_serving::model::Model as Texts;
use warpwright_llm_serving::scheduler::{Draw, Request};
use warpwright_llm_serving::service::{Failed, Service, SubmitError};
use warpwright_llm_serving::template::{Conversation, TemplateError};
use warpwright_llm_serving::text::{Parser, ParserOptions};

use warpwright_llm_step::Executor;

use crate::model::Model;
use crate::sampling::Sampling;
use answer::Answer;
use command::{COMMANDS, Entry, KEYS};
use input::{Input, Line};
use keyboard::Keyboard;

/// Talks to a model. `/help` lists commands; Ctrl-C stops an answer, Ctrl-D leaves. Each line of a pipe is a
/// message.
#[derive(Debug, Args)]
pub struct Chat {
    #[command(flatten)]
    model: Model,
    /// A system message.
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    /// Tokens of an answer at most. [default: as the model's files recommend, else 1024, or what is left of
    /// the context for a model that thinks]
    #[arg(short = 'n', long, value_parser = clap::value_parser!(u32).range(1..))]
    tokens: Option<u32>,
    #[command(flatten)]
    sampling: Sampling,
    /// Whether the model thinks before it answers, if it can. [default: the template's choice]
    #[arg(long)]
    think: Option<bool>,
}

impl Chat {
    /// Runs the verb.
    pub(crate) fn run(self) -> anyhow::Result<()> {
        // Models are loaded on a thread of the runtime.
        let runtime = Builder::new_multi_thread().enable_all().thread_stack_size(LOADING_STACK).build()?;
        let result = runtime.block_on(self.converse());
        // A thread may still load the model or wait for a line.
        runtime.shutdown_background();
        result
    }

    /// Talks until the user leaves. The terminal has its mode again however that ends.
    async fn converse(self) -> anyhow::Result<()> {
        let input = Input::new()?;
        let keyboard = input.reads_keys().then(Keyboard::held).transpose()?;
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut terminate = signal(SignalKind::terminate())?;
        let loading = tokio::task::spawn_blocking(move || self.load());
        let talking = async {
            let talk = tokio::select! {
                loaded = loading => loaded??,
                _ = interrupt.recv() => bail!("interrupted while the model was loaded"),
            };
            talk.run(input, keyboard.as_ref()).await
        };
        tokio::select! {
            result = talking => result,
            _ = terminate.recv() => bail!("terminated"),
        }
    }

    fn load(mut self) -> anyhow::Result<Talk> {
        let checkpoint = self.model.checkpoint()?;
        let texts = self.model.texts(&self.model.name(), &checkpoint)?;
        if texts.template.is_missing() {
            return Err(TemplateError::Missing.into());
        }
        // A slot for the conversation, and two for its prefixes.
        let engine = self.model.engine(&checkpoint, self.model.limits(1, None, 2))?;
        let texts = texts.with_ends(engine.ends(), engine.capacity().vocabulary);
        let service = Service::start(engine.into_executor(), self.model.scheduling(true), 1);
        Ok(Talk { system: self.system.take(), messages: vec![], attempts: 0, flags: self, texts, service })
    }
}

/// The stack of a thread that loads a model: that of a main thread.
const LOADING_STACK: usize = 8 << 20;

/// A conversation.
struct Talk {
    flags: Chat,
    texts: Texts,
    service: Service,
    system: Option<String>,
    /// Messages of the user and the assistant by turns.
    messages: Vec<Value>,
    /// How often the last message was answered. Each answer has another seed.
    attempts: u64,
}

impl Talk {
    /// Answers what is typed. `keyboard` holds keys while an answer is written.
    async fn run(mut self, mut input: Input, keyboard: Option<&Keyboard>) -> anyhow::Result<()> {
        let in_terminal = input.is_editor();
        if in_terminal {
            eprintln!("{}. /help lists commands; Ctrl-D leaves.", self.texts.name);
        }
        loop {
            let mut interrupt = signal(SignalKind::interrupt())?;
            let waiting = tokio::task::spawn_blocking(move || (input.next(), input));
            let line = tokio::select! {
                waited = waiting => {
                    let (line, back) = waited?;
                    input = back;
                    line?
                }
                // The editor reads Ctrl-C as a key.
                _ = interrupt.recv(), if keyboard.is_none() => return Ok(()),
            };
            let text = match line {
                Line::Text(text) => text,
                Line::Interrupted => {
                    eprintln!("(Ctrl-D or /exit leaves)");
                    continue;
                }
                Line::NotText => {
                    eprintln!("(the line is not UTF-8 and was dropped)");
                    continue;
                }
                Line::End => return Ok(()),
            };
            let done = match Entry::of(&text) {
                Ok(Entry::Exit) => return Ok(()),
                Ok(entry) => self.enter(entry, keyboard).await,
                Err(wrong) => Err(anyhow!(wrong)),
            };
            match done {
                // Nobody corrects a script while it runs.
                Err(error) if !in_terminal || is_final(&error) => return Err(error),
                Err(error) => eprintln!("{error:#}"),
                Ok(()) => {}
            }
        }
    }

    /// Does what was typed.
    async fn enter(&mut self, entry: Entry<'_>, keyboard: Option<&Keyboard>) -> anyhow::Result<()> {
        match entry {
            Entry::Message(text) => {
                self.messages.push(json!({ "role": "user", "content": text }));
                self.attempts = 0;
                if let Err(error) = self.answer(keyboard).await {
                    self.messages.pop();
                    return Err(error);
                }
            }
            Entry::Regenerate => {
                if self.messages.is_empty() {
                    bail!("there is no message to answer");
                }
                let last = self.messages.pop();
                self.attempts += 1;
                if let Err(error) = self.answer(keyboard).await {
                    self.messages.extend(last);
                    return Err(error);
                }
            }
            Entry::Clear => {
                self.messages.clear();
                eprintln!("(the conversation is forgotten)");
            }
            Entry::System(None) => eprintln!("{}", self.system.as_deref().unwrap_or("(no system message)")),
            Entry::System(Some("none")) => self.system = None,
            Entry::System(Some(text)) => self.system = Some(text.to_owned()),
            Entry::Save(path) => {
                self.save(path).map_err(|error| anyhow!("cannot write {path}: {error}"))?;
                eprintln!("(the conversation is in {path})");
            }
            Entry::Help => {
                for (name, argument, purpose) in COMMANDS {
                    eprintln!("{:18} {purpose}", format!("{name} {argument}"));
                }
                eprintln!("{KEYS}");
            }
            Entry::Nothing | Entry::Exit => {}
        }
        Ok(())
    }

    /// Answers the last message of the user, until Ctrl-C. If the answer cannot begin, the message is dropped.
    async fn answer(&mut self, keyboard: Option<&Keyboard>) -> anyhow::Result<()> {
        // A signal of before counts no more.
        let mut interrupt = signal(SignalKind::interrupt())?;
        let mut resumed = signal(SignalKind::from_raw(Signal::SIGCONT as i32))?;
        let (request, parser) = self.request()?;
        let mut generation = self.service.submit(request)?;
        let mut answer = Answer::default();
        {
            let mut printing = pin!(answer.print(&mut generation, &self.texts.tokenizer, parser));
            loop {
                tokio::select! {
                    result = &mut printing => break result?,
                    _ = interrupt.recv() => break eprintln!(" [stopped]"),
                    // A shell had the terminal meanwhile.
                    _ = resumed.recv() => keyboard.map_or(Ok(()), Keyboard::hold)?,
                }
            }
        }
        self.messages.push(json!({ "role": "assistant", "content": answer.content }));
        Ok(())
    }

    /// What is generated next, and what reads it.
    fn request(&self) -> anyhow::Result<(Request, Parser)> {
        let mut conversation =
            Conversation { messages: self.all(), add_generation_prompt: true, ..Conversation::default() };
        if let Some(think) = self.flags.think {
            conversation.variables.insert("enable_thinking".to_owned(), think.into());
        }
        let text = self.texts.template.render(&conversation)?;
        let context = self.service.limits().context;
        let prompt = self.texts.tokenizer.encode_within(&text, false, context as usize, || true)?;
        let left = context.saturating_sub(prompt.len() as u32);
        let defaults = self.texts.for_chat();
        let draw = self.flags.sampling.draw(defaults);
        let request = Request {
            prompt,
            max_tokens: self.flags.tokens.or(defaults.max_tokens).unwrap_or(left).clamp(1, left.max(1)),
            min_tokens: 0,
            stop_tokens: self.texts.stops.clone(),
            draw: Draw { seed: draw.seed.wrapping_add(self.attempts), ..draw },
            log_probabilities: None,
            prompt_log_probabilities: None,
            guide: None,
        };
        let reasoning = self.texts.thinks();
        let starts_in_reasoning = reasoning && text.trim_end().ends_with("<think>");
        Ok((
            request,
            Parser::new(ParserOptions { starts_in_reasoning, reasoning, ..ParserOptions::default() }),
        ))
    }

    /// All messages, the system's first.
    fn all(&self) -> Vec<Value> {
        let system = self.system.iter().map(|text| json!({ "role": "system", "content": text }));
        system.chain(self.messages.iter().cloned()).collect()
    }

    /// Writes a new file: one that is there may be another conversation.
    fn save(&self, path: &str) -> std::io::Result<()> {
        let mut file = std::fs::File::create_new(path)?;
        let text = serde_json::to_string_pretty(&json!({ "messages": self.all() }))?;
        writeln!(file, "{text}")
    }
}

/// Whether nothing can be answered after this.
fn is_final(error: &anyhow::Error) -> bool {
    let failed = matches!(error.downcast_ref(), Some(SubmitError::Failed(_)));
    failed || error.is::<Failed>() || error.is::<std::io::Error>()
}
