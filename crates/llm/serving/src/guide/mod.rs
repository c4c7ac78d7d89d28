//! Grammars: which tokens keep an answer in a JSON schema, a regular expression or a form of tool
//! calls.

mod calls;
mod choice;
mod reasoning;
mod schema;
mod tokens;
mod work;

use std::sync::Arc;

use llguidance::api::TopLevelGrammar;
use llguidance::toktrie::{ApproximateTokEnv, TokEnv, TokRxInfo, TokTrie};
use llguidance::{Matcher, ParserFactory};
use serde_json::{Value, json};
use warpwright_llm_step::{Token, TokenMask};

use crate::panics::caught;
use crate::scheduler::Guide;
use crate::tokenizer::Tokenizer;
pub use calls::tool_calls;
use choice::ChoiceGuide;
use reasoning::AfterReasoning;
use schema::prepared;
pub use tokens::TokenGuide;

/// Compiles grammars for one vocabulary.
pub struct Grammars {
    factory: ParserFactory,
    vocabulary: u32,
    stops: Arc<[Token]>,
    think_end: Option<Token>,
    call: Option<Token>,
    /// All tokens but those that end an answer.
    free: Arc<TokenMask>,
}

/// A grammar cannot be compiled.
#[derive(Debug, thiserror::Error)]
#[error("{0}")]
pub struct GrammarError(String);

/// What an answer has to be.
#[derive(Clone, Debug, PartialEq)]
pub enum Grammar {
    /// A JSON value of this schema.
    JsonSchema(Value),
    /// Any JSON object.
    JsonObject,
    /// A text that matches all of a regular expression.
    Regex(String),
    /// One of these texts.
    Choice(Vec<String>),
    /// A grammar in the Lark syntax of llguidance.
    Lark(String),
    /// Tool calls, in the Lark syntax of llguidance.
    ToolCalls(String),
}

/// The most bytes of a grammar. Compiling one takes some seconds per MiB.
const MOST_BYTES: usize = 512 << 10;
/// The stack for compiling a grammar, which walks references and rules by recursion: bytes for each byte of the grammar,
/// and at least. A link of a chain of references takes some 5 KB, and has 22 bytes or more.
const STACK: (usize, usize) = (2048, 4 << 20);

impl Grammars {
    /// For a tokenizer, a model's padded vocabulary, and the tokens that end an answer.
    pub fn new(tokenizer: &Tokenizer, vocabulary: u32, stops: &[Token]) -> Result<Grammars, GrammarError> {
        // A padded tokenizer may have tokens that the model lacks. A model without an end gets one for its grammars.
        let mut stops: Vec<Token> = stops.iter().copied().filter(|stop| *stop < vocabulary).collect();
        if stops.is_empty() {
            stops.push(0);
        }
        let stops: Arc<[Token]> = stops.into();
        let words: Vec<Vec<u8>> = (0..vocabulary)
            .map(|token| {
                let bytes = tokenizer.bytes(token);
                if tokenizer.is_special(token) || stops.contains(&token) {
                    [&[TokTrie::SPECIAL_TOKEN_MARKER], bytes].concat()
                } else {
                    bytes.to_vec()
                }
            })
            .collect();
        let eos = stops.first().copied().unwrap_or(0);
        let trie = TokTrie::from(&TokRxInfo::new(vocabulary, eos), &words);
        let environment: TokEnv = Arc::new(ApproximateTokEnv::new(trie));
        let mut factory =
            ParserFactory::new_simple(&environment).map_err(|error| GrammarError(error.to_string()))?;
        factory.quiet();
        // A client has the grammar.
        factory.limits_mut().verbose_errors = false;
        let free = (0..vocabulary).filter(|token| !stops.contains(token));
        Ok(Grammars {
            free: Arc::new(TokenMask::from_tokens(vocabulary, free)),
            factory,
            vocabulary,
            stops,
            think_end: tokenizer.token("</think>"),
            call: tokenizer.token("<tool_call>"),
        })
    }

    /// The tokens that end an answer with a grammar.
    pub fn ends(&self) -> &[Token] {
        &self.stops
    }

    /// A guide for one answer. `after_reasoning` lets everything but the end pass until `</think>`.
    pub fn guide(&self, grammar: &Grammar, after_reasoning: bool) -> Result<Box<dyn Guide>, GrammarError> {
        let guide = self.of_answer(grammar)?;
        let is_call = matches!(grammar, Grammar::ToolCalls(_));
        Ok(match self.think_end.filter(|_| after_reasoning) {
            None => guide,
            Some(end) => Box::new(AfterReasoning {
                guide,
                end,
                call: self.call.filter(|_| is_call),
                free: self.free.clone(),
                has_ended: false,
            }),
        })
    }

    fn of_answer(&self, grammar: &Grammar) -> Result<Box<dyn Guide>, GrammarError> {
        let bytes = match grammar {
            Grammar::JsonSchema(schema) => schema.to_string().len(),
            Grammar::Regex(text) | Grammar::Lark(text) | Grammar::ToolCalls(text) => text.len(),
            Grammar::JsonObject | Grammar::Choice(_) => 0,
        };
        if bytes > MOST_BYTES {
            return Err(GrammarError(format!("it has {bytes} bytes, and may have {MOST_BYTES}")));
        }
        match grammar {
            Grammar::JsonSchema(schema) => work::check([schema])?,
            Grammar::Lark(lark) => work::check(&schemas(lark))?,
            // The schemas of tools are checked before the grammar is made of them.
            Grammar::ToolCalls(_) | Grammar::JsonObject | Grammar::Regex(_) | Grammar::Choice(_) => {}
        }
        let top = match grammar {
            Grammar::JsonSchema(schema) => TopLevelGrammar::from_json_schema(prepared(schema)),
            Grammar::JsonObject => TopLevelGrammar::from_json_schema(prepared(&json!({ "type": "object" }))),
            Grammar::Regex(regex) => TopLevelGrammar::from_regex(regex),
            Grammar::Choice(choices) => {
                let environment = self.factory.tok_env().clone();
                return Ok(Box::new(ChoiceGuide::new(choices, environment, self.stops.clone())));
            }
            Grammar::Lark(lark) | Grammar::ToolCalls(lark) => TopLevelGrammar::from_lark(lark.clone()),
        };
        let matcher = self.matcher(top, bytes)?;
        if let Some(error) = matcher.get_error() {
            return Err(GrammarError(readable(&error)));
        }
        Ok(Box::new(MatcherGuide { matcher, vocabulary: self.vocabulary, stops: self.stops.clone() }))
    }

    /// Compiles a grammar of this size, on a thread with the stack for it.
    fn matcher(&self, top: TopLevelGrammar, bytes: usize) -> Result<Matcher, GrammarError> {
        let thread = std::thread::Builder::new().stack_size(STACK.1.max(STACK.0 * bytes));
        std::thread::scope(|scope| {
            let compile = || caught(|| Matcher::new(self.factory.create_parser(top)));
            let run = thread.spawn_scoped(scope, compile).map_err(|error| GrammarError(error.to_string()))?;
            run.join().ok().flatten().ok_or_else(|| GrammarError("it is too large".to_owned()))
        })
    }
}

/// The schemas in a grammar in Lark's syntax.
fn schemas(lark: &str) -> Vec<Value> {
    let schema = |text| serde_json::Deserializer::from_str(text).into_iter().next()?.ok();
    lark.split("%json").skip(1).filter_map(schema).collect()
}

/// The most characters of an error.
const LONGEST_ERROR: usize = 500;

/// What an error of the library says to a client.
fn readable(error: &str) -> String {
    let line = error.lines().next().unwrap_or_default();
    if line.contains("coerce_one_of") {
        return "alternatives of `oneOf` may both fit a value; use `anyOf`, or give each a property with another `const`"
            .to_owned();
    }
    if line.contains("panic") || line.contains("fuel") || line.contains("too large") || line.contains("limit")
    {
        return "it is too large".to_owned();
    }
    error.chars().take(LONGEST_ERROR).collect()
}

struct MatcherGuide {
    matcher: Matcher,
    vocabulary: u32,
    stops: Arc<[Token]>,
}

impl std::fmt::Debug for MatcherGuide {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("MatcherGuide").finish_non_exhaustive()
    }
}

impl Guide for MatcherGuide {
    fn allowed(&mut self) -> Arc<TokenMask> {
        let only_stops = || TokenMask::from_tokens(self.vocabulary, self.stops.iter().copied());
        // A matcher that has failed or ended allows the end and nothing else.
        let Ok(mask) = self.matcher.compute_mask_or_eos() else { return Arc::new(only_stops()) };
        let mut words = mask.as_slice().to_vec();
        words.resize(self.vocabulary.div_ceil(32) as usize, 0);
        let may_end = self.stops.first().is_some_and(|stop| mask.is_allowed(*stop));
        if may_end {
            self.stops.iter().for_each(|stop| words[*stop as usize / 32] |= 1 << (stop % 32));
        }
        if words.iter().all(|word| *word == 0) {
            return Arc::new(only_stops());
        }
        Arc::new(TokenMask::from_words(words))
    }

    fn advance(&mut self, token: Token) {
        // An error stays in the matcher: `allowed` then ends the answer.
        drop(self.matcher.consume_token(token));
    }

    fn another(&self) -> Box<dyn Guide> {
        // Clones share the states of the lexer, which are most of its memory. One thread has all guides.
        Box::new(MatcherGuide {
            matcher: self.matcher.clone(),
            vocabulary: self.vocabulary,
            stops: self.stops.clone(),
        })
    }
}
