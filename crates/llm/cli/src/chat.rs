//! `chat`: a conversation in the terminal.

use std::io::{BufRead, IsTerminal, Write};

use anyhow::Context;
use clap::Args;
use serde_json::{Value, json};
use tokio::sync::mpsc;
use warpwright_llm_serving::model::Model as Texts;
use warpwright_llm_serving::scheduler::{Draw, Finished, Options, Request};
use warpwright_llm_serving::service::Service;
use warpwright_llm_serving::template::Conversation;
use warpwright_llm_serving::text::{Parser, ParserOptions, Part};
use warpwright_llm_serving::tokenizer::Detokenizer;

use crate::model::Model;

/// Talks to a model. Ctrl-C ends an answer; without one, it ends the program, as the end of the
/// input does.
#[derive(Debug, Args)]
pub struct Chat {
    #[command(flatten)]
    model: Model,
    /// A system message.
    #[arg(long, value_name = "TEXT")]
    system: Option<String>,
    /// Tokens of an answer at most. [default: what is left of the context]
    #[arg(short = 'n', long)]
    tokens: Option<u32>,
    /// Divides the logits; 0 takes the most probable token each time.
    #[arg(long, default_value_t = 0.7)]
    temperature: f32,
    /// The seed of random numbers.
    #[arg(long, default_value_t = 0)]
    seed: u64,
    /// Whether the model thinks before it answers, if it can. [default: the template's choice]
    #[arg(long)]
    think: Option<bool>,
}

impl Chat {
    /// Runs the verb.
    pub(crate) fn run(self) -> anyhow::Result<()> {
        let checkpoint = self.model.checkpoint()?;
        let mut texts = self.model.texts(&self.model.name(), &checkpoint)?;
        let options = Options { drafts: self.model.drafts(), ..Options::default() };
        // A slot for the conversation, and two for its prefixes.
        let engine = self.model.engine(&checkpoint, self.model.limits(1, None, 2))?;
        texts.stops.extend_from_slice(engine.ends());
        let service = Service::start(engine.into_executor(), options, 1);
        let runtime = tokio::runtime::Runtime::new()?;
        let result = runtime.block_on(self.talk(&texts, &service));
        // A thread may still wait for a line.
        runtime.shutdown_background();
        result
    }

    async fn talk(&self, texts: &Texts, service: &Service) -> anyhow::Result<()> {
        let mut interrupt = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::interrupt())?;
        let mut messages: Vec<Value> = Vec::new();
        messages.extend(self.system.iter().map(|text| json!({ "role": "system", "content": text })));
        let mut lines = lines();
        loop {
            prompt()?;
            let line = tokio::select! {
                line = lines.recv() => line,
                _ = interrupt.recv() => None,
            };
            let Some(line) = line else {
                println!();
                return Ok(());
            };
            if line.trim().is_empty() {
                continue;
            }
            messages.push(json!({ "role": "user", "content": line }));
            let mut answer = Answer::default();
            tokio::select! {
                result = self.answer(texts, service, &messages, &mut answer) => result?,
                _ = interrupt.recv() => println!(" [stopped]"),
            }
            messages.push(json!({ "role": "assistant", "content": answer.content }));
        }
    }

    /// Generates an answer and prints it. What there is of it stays in `answer` if this is dropped.
    async fn answer(
        &self,
        texts: &Texts,
        service: &Service,
        messages: &[Value],
        answer: &mut Answer,
    ) -> anyhow::Result<()> {
        let mut conversation = Conversation {
            messages: messages.to_vec(),
            add_generation_prompt: true,
            ..Conversation::default()
        };
        if let Some(think) = self.think {
            conversation.variables.insert("enable_thinking".to_owned(), think.into());
        }
        let text = texts.template.render(&conversation)?;
        let prompt = texts.tokenizer.encode(&text, false)?;
        let left = service.limits().context.saturating_sub(prompt.len() as u32);
        let mut generation = service.submit(Request {
            prompt,
            max_tokens: self.tokens.unwrap_or(left).clamp(1, left.max(1)),
            min_tokens: 0,
            stop_tokens: texts.stops.clone(),
            draw: Draw { temperature: self.temperature, seed: self.seed, ..Draw::greedy() },
            log_probabilities: None,
            prompt_log_probabilities: None,
            guide: None,
        })?;
        let thinks = texts.tokenizer.token("</think>").is_some();
        let mut parser = Parser::new(ParserOptions {
            starts_in_reasoning: thinks && text.trim_end().ends_with("<think>"),
            reasoning: thinks,
            tools: vec![],
        });
        let mut detokenizer = Detokenizer::default();
        while let Some(update) = generation.next().await {
            let update = update?;
            for sampled in update.tokens {
                if !texts.tokenizer.is_special(sampled.token) {
                    let text = detokenizer.push(texts.tokenizer.bytes(sampled.token));
                    answer.print(parser.push(&text))?;
                }
            }
            if update.finished == Some(Finished::Length) {
                answer.print(parser.push(&detokenizer.finish()))?;
                answer.print(parser.finish())?;
                println!(" [the answer is as long as it may be]");
                return Ok(());
            }
        }
        answer.print(parser.push(&detokenizer.finish()))?;
        answer.print(parser.finish())?;
        println!();
        Ok(())
    }
}

/// What was said.
#[derive(Default)]
struct Answer {
    content: String,
    reasons: bool,
}

impl Answer {
    /// Prints parts; reasoning is dim in a terminal.
    fn print(&mut self, parts: Vec<Part>) -> anyhow::Result<()> {
        let mut out = std::io::stdout();
        let dims = out.is_terminal();
        for part in parts {
            match part {
                Part::Reasoning(text) if dims => write!(out, "\x1b[2m{text}\x1b[0m")?,
                Part::Reasoning(text) => write!(out, "{text}")?,
                Part::Content(text) => {
                    if std::mem::take(&mut self.reasons) {
                        write!(out, "\n\n")?;
                    }
                    write!(out, "{text}")?;
                    self.content += &text;
                    continue;
                }
                Part::ToolCall(_) => continue,
            }
            self.reasons = true;
        }
        out.flush().context("cannot print")
    }
}

fn prompt() -> anyhow::Result<()> {
    print!("> ");
    std::io::stdout().flush().context("cannot print")
}

/// The lines of the input. A thread waits for them, so that Ctrl-C need not.
fn lines() -> mpsc::Receiver<String> {
    let (sender, receiver) = mpsc::channel(1);
    std::thread::spawn(move || {
        for line in std::io::stdin().lock().lines().map_while(Result::ok) {
            if sender.blocking_send(line).is_err() {
                return;
            }
        }
    });
    receiver
}
