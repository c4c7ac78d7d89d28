//! Splits an answer into reasoning, content and tool calls while it arrives.

use super::stop::overlap;
use super::tools::{self, Tool, ToolCall};

/// A part of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// Text before `</think>`.
    Reasoning(String),
    /// Text for the user.
    Content(String),
    /// A whole tool call.
    ToolCall(ToolCall),
}

/// What to look for.
#[derive(Clone, Debug, Default)]
pub struct ParserOptions {
    /// Whether the prompt ends inside `<think>`: the answer begins with reasoning.
    pub starts_in_reasoning: bool,
    /// Whether reasoning is a part of its own. Otherwise it is content, with its tags.
    pub reasoning: bool,
    /// The tools that may be called. With none, tool calls are content.
    pub tools: Vec<Tool>,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum State {
    /// Before the first character: reasoning may begin here.
    Start,
    Reasoning,
    Content,
    ToolCall,
}

/// Splits an answer.
#[derive(Clone, Debug)]
pub struct Parser {
    options: ParserOptions,
    state: State,
    held: String,
    /// Whether content has begun. White space between the parts belongs to the form.
    spoken: bool,
    thought: bool,
    /// White space that counts only if text follows it.
    space: String,
}

const THINK: &str = "<think>";
const THINK_END: &str = "</think>";
const CALL: &str = "<tool_call>";
const CALL_END: &str = "</tool_call>";

impl Parser {
    /// A parser at the beginning of an answer.
    pub fn new(options: ParserOptions) -> Parser {
        let state = match (options.reasoning, options.starts_in_reasoning) {
            (false, _) => State::Content,
            (true, true) => State::Reasoning,
            (true, false) => State::Start,
        };
        // Without anything to find, text passes as it is.
        let spoken = !options.reasoning;
        Parser { options, state, held: String::new(), spoken, thought: false, space: String::new() }
    }

    /// The parts that `text` completes.
    pub fn push(&mut self, text: &str) -> Vec<Part> {
        self.held.push_str(text);
        let mut parts = Vec::new();
        while self.advance(&mut parts) {}
        parts
    }

    /// The last parts. A tool call that was not finished is content.
    pub fn finish(&mut self) -> Vec<Part> {
        let held = std::mem::take(&mut self.held);
        let mut parts = Vec::new();
        match self.state {
            State::Reasoning => self.think(&held, &mut parts),
            State::ToolCall => self.say(&format!("{CALL}{held}"), &mut parts),
            State::Start | State::Content => self.say(&held, &mut parts),
        }
        if self.spoken && self.state != State::Reasoning && !self.space.is_empty() {
            parts.push(Part::Content(std::mem::take(&mut self.space)));
        }
        parts
    }

    /// Takes in one tag or the text before one. False if more text is needed.
    fn advance(&mut self, parts: &mut Vec<Part>) -> bool {
        match self.state {
            State::Start => {
                let begun = self.held.trim_start();
                if let Some(rest) = begun.strip_prefix(THINK) {
                    self.held = rest.to_owned();
                    self.state = State::Reasoning;
                } else if begun.is_empty() || THINK.starts_with(begun) {
                    return false;
                } else {
                    self.state = State::Content;
                }
                true
            }
            State::Reasoning => {
                let (text, complete) = self.until(THINK_END);
                self.think(&text, parts);
                if complete {
                    self.space.clear();
                    self.state = State::Content;
                }
                complete
            }
            State::Content if self.options.tools.is_empty() => {
                let text = std::mem::take(&mut self.held);
                self.say(&text, parts);
                false
            }
            State::Content => {
                let (text, complete) = self.until(CALL);
                self.say(&text, parts);
                if complete {
                    self.state = State::ToolCall;
                }
                complete
            }
            State::ToolCall => {
                let Some(end) = self.held.find(CALL_END) else { return false };
                let rest = self.held.split_off(end + CALL_END.len());
                let call = std::mem::replace(&mut self.held, rest);
                match tools::parse(&call[..end], &self.options.tools) {
                    Some(call) => {
                        // White space between calls is no content.
                        self.space.clear();
                        self.spoken = false;
                        parts.push(Part::ToolCall(call));
                    }
                    None => self.say(&format!("{CALL}{call}"), parts),
                }
                self.state = State::Content;
                true
            }
        }
    }

    /// The text before `tag`, and whether the tag is there. What may be its beginning is kept.
    fn until(&mut self, tag: &str) -> (String, bool) {
        match self.held.find(tag) {
            Some(at) => {
                let rest = self.held.split_off(at + tag.len());
                let mut text = std::mem::replace(&mut self.held, rest);
                text.truncate(at);
                (text, true)
            }
            None => {
                let keep = overlap(&self.held, tag);
                let rest = self.held.split_off(self.held.len() - keep);
                (std::mem::replace(&mut self.held, rest), false)
            }
        }
    }

    fn think(&mut self, text: &str, parts: &mut Vec<Part>) {
        let text = self.space.clone() + text;
        let text = if self.thought { &text } else { text.trim_start() };
        // White space before the tag that ends reasoning is no reasoning.
        let kept = text.trim_end();
        self.space = text[kept.len()..].to_owned();
        if !kept.is_empty() {
            self.thought = true;
            parts.push(Part::Reasoning(kept.to_owned()));
        }
    }

    fn say(&mut self, text: &str, parts: &mut Vec<Part>) {
        let text = self.space.clone() + text;
        let text = if self.spoken { &text } else { text.trim_start() };
        // Nor is white space before a tool call content.
        let kept = if self.options.tools.is_empty() { text } else { text.trim_end() };
        self.space = text[kept.len()..].to_owned();
        if !kept.is_empty() {
            self.spoken = true;
            parts.push(Part::Content(kept.to_owned()));
        }
    }
}
