//! Splits an answer into reasoning, content and tool calls while it arrives.

use std::sync::Arc;

use super::call::{CALL, CALL_END, Call, CallForm, FUNCTION, FUNCTION_END, Opening, Progress, Tool};
use super::stop::overlap;

/// A part of an answer.
#[derive(Clone, Debug, PartialEq)]
pub enum Part {
    /// Text before `</think>`.
    Reasoning(String),
    /// Text for the user.
    Content(String),
    /// A call of the function of this name begins.
    Call(String),
    /// More of the arguments of the last call, as JSON text.
    Arguments(String),
}

/// What the next text is a part of, as far as is known.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Place {
    /// Before `</think>`.
    Reasoning,
    /// For the user.
    Content,
    /// A tool call.
    Call,
    /// No text: the end of the answer.
    End,
}

/// What to look for.
#[derive(Clone, Debug, Default)]
pub struct ParserOptions {
    /// Whether the prompt ends inside `<think>`: the answer begins with reasoning.
    pub starts_in_reasoning: bool,
    /// Whether reasoning is a part of its own. Otherwise it is content, with its tags.
    pub reasoning: bool,
    /// The tools that may be called, which all answers of a request share. With none, tool calls are content.
    pub tools: Arc<[Tool]>,
    /// How the model writes calls. Those in the form of Qwen's are found, too.
    pub form: Arc<CallForm>,
}

#[derive(Clone, Debug)]
enum State {
    /// Before the first character: reasoning may begin here.
    Start,
    Reasoning,
    Content,
    /// After this mark of a call.
    Opening(String),
    Call(Call),
    /// After a call.
    Called,
}

/// White space that is left out where content begins.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Lead {
    None,
    /// The line breaks after `</think>`.
    Lines,
    /// All between calls.
    Space,
}

/// Splits an answer.
#[derive(Clone, Debug)]
pub struct Parser {
    options: ParserOptions,
    state: State,
    held: String,
    lead: Lead,
    /// Whether reasoning is open: a call may be inside of it.
    thinks: bool,
    thought: bool,
    /// Whether there was content.
    said: bool,
    /// White space that counts only if text follows it.
    space: String,
    complete_calls: usize,
}

const THINK: &str = "<think>";
const THINK_END: &str = "</think>";

impl Parser {
    /// A parser at the beginning of an answer.
    pub fn new(options: ParserOptions) -> Parser {
        let state = match (options.reasoning, options.starts_in_reasoning) {
            (true, true) => State::Reasoning,
            _ if options.form.before_text().is_some() => State::Opening(String::new()),
            (false, _) => State::Content,
            (true, false) => State::Start,
        };
        let thinks = matches!(state, State::Reasoning);
        Parser {
            options,
            state,
            held: String::new(),
            lead: Lead::None,
            thinks,
            thought: false,
            said: false,
            space: String::new(),
            complete_calls: 0,
        }
    }

    /// The parts that `text` completes.
    pub fn push(&mut self, text: &str) -> Vec<Part> {
        self.held.push_str(text);
        let mut parts = Vec::new();
        while self.advance(&mut parts) {}
        parts
    }

    /// The last parts of an answer that its model ended.
    pub fn finish(&mut self) -> Vec<Part> {
        self.end(false)
    }

    /// The last parts of an answer that was cut. The beginning of a tag is left out.
    pub fn cut(&mut self) -> Vec<Part> {
        self.end(true)
    }

    fn end(&mut self, is_cut: bool) -> Vec<Part> {
        let mut held = std::mem::take(&mut self.held);
        let mut parts = Vec::new();
        // What is held outside of calls is the beginning of a tag. A single `<` is likelier text.
        if is_cut && held.trim_start().len() > 1 {
            held.clear();
        }
        match self.state.clone() {
            State::Reasoning => self.think(&held, &mut parts),
            State::Opening(_) if is_cut => {}
            State::Opening(mark) => {
                let text = format!("{mark}{held}");
                self.pass(&text, &mut parts);
            }
            // The rest of a call that was not finished.
            State::Call(_) | State::Called => {}
            State::Start | State::Content => self.say(&held, &mut parts),
        }
        if !self.thinks && self.lead == Lead::None && !self.space.is_empty() {
            parts.push(Part::Content(std::mem::take(&mut self.space)));
        }
        parts
    }

    /// What the next text is a part of.
    pub fn place(&self) -> Place {
        match &self.state {
            State::Reasoning => Place::Reasoning,
            State::Start | State::Content => Place::Content,
            State::Opening(mark) if mark.is_empty() => Place::Content,
            State::Opening(_) | State::Call(_) | State::Called => Place::Call,
        }
    }

    /// Whether a special token of this text belongs to a call.
    pub fn reads(&self, token: &str) -> bool {
        !self.options.tools.is_empty() && self.options.form.has(token)
    }

    /// Calls that are complete.
    pub fn complete_calls(&self) -> usize {
        self.complete_calls
    }

    /// Takes in one tag or the text before one. False if more text is needed.
    fn advance(&mut self, parts: &mut Vec<Part>) -> bool {
        let state = std::mem::replace(&mut self.state, State::Content);
        match state {
            State::Start => {
                let begun = self.held.trim_start();
                if let Some(rest) = begun.strip_prefix(THINK) {
                    self.held = rest.to_owned();
                    self.thinks = true;
                    self.state = State::Reasoning;
                } else if begun.is_empty() || THINK.starts_with(begun) {
                    self.state = State::Start;
                    return false;
                }
                true
            }
            State::Reasoning => self.until_tag(State::Reasoning, &[THINK_END], parts),
            State::Content if self.may_be_bare() => {
                let begun = self.held.trim_start();
                let is_begun = !begun.is_empty();
                self.state = if is_begun { State::Opening(String::new()) } else { State::Content };
                is_begun
            }
            State::Content => self.until_tag(State::Content, &[], parts),
            State::Opening(mark) => self.open(mark, parts),
            State::Call(mut call) => {
                let is_complete = call.advance(&mut self.held, parts) == Progress::Complete;
                if is_complete {
                    self.complete_calls += 1;
                    self.lead = Lead::Space;
                    self.state = State::Called;
                } else {
                    self.state = State::Call(call);
                }
                is_complete
            }
            State::Called => self.after_call(),
        }
    }

    /// Whether the answer begins with an object that may be a call.
    fn may_be_bare(&self) -> bool {
        let may_begin = self.held.trim_start().is_empty() || self.held.trim_start().starts_with(['{', '[']);
        !self.said && !self.options.tools.is_empty() && self.options.form.is_bare() && may_begin
    }

    /// Reads what follows the mark of a call.
    fn open(&mut self, mark: String, parts: &mut Vec<Part>) -> bool {
        if let Some(before_text) = self.options.form.before_text() {
            // An answer may begin with the mark or, where the prompt ends with it, after it.
            let own = if mark.is_empty() { self.options.form.mark() } else { &mark };
            if mark.is_empty()
                && let Some(rest) = self.held.strip_prefix(own)
            {
                (self.state, self.held) = (State::Opening(own.to_owned()), rest.to_owned());
                return true;
            }
            if let Some(rest) = self.held.strip_prefix(&before_text) {
                (self.state, self.held) = (State::Content, rest.to_owned());
                return true;
            }
            let held = self.held.as_str();
            if before_text.starts_with(held) || (mark.is_empty() && own.starts_with(held)) {
                self.state = State::Opening(mark);
                return false;
            }
        }
        let form = (&*self.options.form, mark.is_empty());
        match Call::open(&mut self.held, &self.options.tools, form, parts) {
            Opening::Unknown => {
                self.state = State::Opening(mark);
                false
            }
            Opening::None => {
                self.state = if self.thinks { State::Reasoning } else { State::Content };
                self.said = true;
                self.pass(&mark, parts);
                true
            }
            Opening::Call(call) => {
                self.space.clear();
                self.state = State::Call(call);
                true
            }
        }
    }

    /// Passes the text before the first of the tags and of the marks of calls, which count if there are tools.
    fn until_tag(&mut self, state: State, tags: &[&str], parts: &mut Vec<Part>) -> bool {
        let form = self.options.form.clone();
        let of_calls = [CALL, FUNCTION, form.mark(), form.function()];
        let of_calls = of_calls.iter().filter(|tag| !self.options.tools.is_empty() && !tag.is_empty());
        let tags: Vec<&str> = tags.iter().chain(of_calls).copied().collect();
        let found = tags.iter().filter_map(|tag| Some((self.held.find(tag)?, *tag))).min();
        let Some((at, tag)) = found else {
            let keep = tags.iter().map(|tag| overlap(&self.held, tag)).max().unwrap_or(0);
            let rest = self.held.split_off(self.held.len() - keep);
            let text = std::mem::replace(&mut self.held, rest);
            self.state = state;
            self.pass(&text, parts);
            return false;
        };
        if tag == FUNCTION || tag == form.function() {
            let name_end = if tag == FUNCTION { ">" } else { form.name_end() };
            return self.bare_function(at, state, (tag, name_end), parts);
        }
        let rest = self.held.split_off(at + tag.len());
        let mut text = std::mem::replace(&mut self.held, rest);
        text.truncate(at);
        self.state = state;
        self.pass(&text, parts);
        if tag == THINK_END {
            self.space.clear();
            self.thinks = false;
            self.lead = Lead::Lines;
            self.state = State::Content;
        } else {
            self.state = State::Opening(tag.to_owned());
        }
        true
    }

    /// A call without `<tool_call>` is one if there is a tool of its name, which stands after the tag and before
    /// `name_end`.
    fn bare_function(
        &mut self,
        at: usize,
        state: State,
        (tag, name_end): (&str, &str),
        parts: &mut Vec<Part>,
    ) -> bool {
        let rest = self.held.split_off(at);
        let text = std::mem::replace(&mut self.held, rest);
        self.state = state;
        self.pass(&text, parts);
        let name = &self.held[tag.len()..];
        let is_tool = |tool: &Tool| {
            name.strip_prefix(tool.name.as_str()).is_some_and(|rest| rest.starts_with(name_end))
        };
        let may_be = |tool: &Tool| format!("{}{name_end}", tool.name).starts_with(name);
        if self.options.tools.iter().any(is_tool) {
            self.state = State::Opening(CALL.to_owned());
            return true;
        }
        if self.options.tools.iter().any(may_be) {
            return false;
        }
        let rest = self.held.split_off(tag.len());
        let tag = std::mem::replace(&mut self.held, rest);
        self.pass(&tag, parts);
        true
    }

    /// Reads what may follow a call: its closing tag, another call, or the end of the reasoning that it is inside of.
    fn after_call(&mut self) -> bool {
        let form = self.options.form.clone();
        // The ends of an object and of a list around calls, where a call has ended before them.
        self.held = self.held.trim_start_matches(|c: char| c.is_whitespace() || "}]".contains(c)).to_owned();
        let next = self.held.trim_start_matches([',', ';']).trim_start();
        if next.starts_with('{') {
            self.held = next.to_owned();
            self.state = State::Opening(form.mark().to_owned());
            return true;
        }
        let (between, [function_end, end]) = (form.next_mark(), form.ends());
        let ends_reasoning = if self.thinks { THINK_END } else { "" };
        let tags = [ends_reasoning, FUNCTION_END, CALL_END, CALL, form.mark(), between, function_end, end];
        let mut tags = tags.into_iter().filter(|tag| !tag.is_empty());
        if let Some(tag) = tags.clone().filter(|tag| self.held.starts_with(*tag)).max_by_key(|tag| tag.len())
        {
            self.held.drain(..tag.len());
            self.thinks &= tag != THINK_END;
            let opens = [CALL, form.mark(), between].contains(&tag);
            self.state = if opens { State::Opening(tag.to_owned()) } else { State::Called };
            return true;
        }
        if next.is_empty() || tags.any(|tag| tag.starts_with(self.held.as_str())) {
            self.state = State::Called;
            return false;
        }
        // Reasoning that a call interrupts has ended.
        self.thinks = false;
        self.state = State::Content;
        true
    }

    /// Passes text on as the part that it stands in.
    fn pass(&mut self, text: &str, parts: &mut Vec<Part>) {
        if self.thinks { self.think(text, parts) } else { self.say(text, parts) }
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
        let text = match self.lead {
            Lead::None => &text,
            Lead::Lines => text.trim_start_matches(['\n', '\r']),
            Lead::Space => text.trim_start(),
        };
        // Nor is white space before a tool call content.
        let kept = if self.options.tools.is_empty() { text } else { text.trim_end() };
        self.space = text[kept.len()..].to_owned();
        if !text.is_empty() {
            self.lead = if self.lead == Lead::Space && kept.is_empty() { Lead::Space } else { Lead::None };
        }
        if !kept.is_empty() {
            self.said = true;
            parts.push(Part::Content(kept.to_owned()));
        }
    }
}
