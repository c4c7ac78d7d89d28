//! An answer on its way from tokens to the terminal.

use std::io::{IsTerminal, Write, stdout};

use warpwright_llm_serving::scheduler::Finished;
use warpwright_llm_serving::service::Generation;
use warpwright_llm_serving::text::{Parser, Part};
use warpwright_llm_serving::tokenizer::{Detokenizer, Tokenizer};

use crate::terminal;

/// What was said so far. It stays when the answer is stopped.
#[derive(Default)]
pub(super) struct Answer {
    /// What the conversation keeps: no reasoning.
    pub(super) content: String,
    tokens: usize,
    reasons: bool,
}

impl Answer {
    /// Prints an answer while it is generated.
    ///
    /// # Errors
    /// The engine failed, or nobody reads the output.
    pub(super) async fn print(
        &mut self,
        generation: &mut Generation,
        tokenizer: &Tokenizer,
        mut parser: Parser,
    ) -> anyhow::Result<()> {
        let mut detokenizer = Detokenizer::default();
        let mut is_cut = false;
        while let Some(update) = generation.next().await {
            let update = update?;
            self.tokens += update.tokens.len();
            is_cut = update.finished == Some(Finished::Length);
            let tokens = update.tokens.iter().map(|sampled| sampled.token);
            for token in tokens.filter(|token| !tokenizer.is_special(*token)) {
                let text = detokenizer.push(tokenizer.bytes(token));
                self.write(parser.push(&text))?;
            }
        }
        self.write(parser.push(&detokenizer.finish()))?;
        self.write(parser.finish())?;
        terminal::write("\n")?;
        if is_cut {
            eprintln!(
                "[the answer was cut after {} tokens; --tokens and --max-model-len allow more]",
                self.tokens
            );
        }
        Ok(())
    }

    /// Writes parts; reasoning is dim in a terminal.
    fn write(&mut self, parts: Vec<Part>) -> std::io::Result<()> {
        for part in parts {
            match part {
                Part::Content(text) => {
                    if std::mem::take(&mut self.reasons) {
                        terminal::write("\n\n")?;
                    }
                    terminal::write(&text)?;
                    self.content += &text;
                }
                Part::Reasoning(text) => {
                    self.reasons = true;
                    dim(&text)?;
                }
                // There are no tools here.
                Part::Call(_) | Part::Arguments(_) => {}
            }
        }
        Ok(())
    }
}

fn dim(text: &str) -> std::io::Result<()> {
    if !stdout().is_terminal() {
        return terminal::write(text);
    }
    write!(stdout(), "\x1b[2m{}\x1b[0m", terminal::shown(text))?;
    stdout().flush()
}
