//! Rates and times of answers.

use std::fmt;
use std::ops::Range;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

/// One request, and when its tokens came.
pub(super) struct Timed {
    pub(super) number: u32,
    pub(super) prompt: u32,
    pub(super) begin: Instant,
    pub(super) tokens: Vec<Instant>,
}

/// What was measured.
pub(super) struct Figures {
    answers: usize,
    /// From the start of the load to that of the measurement.
    before: f64,
    seconds: f64,
    /// Tokens of the prompts whose first token came in that time, and of answers.
    prompt_tokens: u32,
    answer_tokens: usize,
    first: Times,
    between: Times,
    preemptions: u64,
    /// Mean lengths of the prompts and answers that are requested.
    means: (f64, f64),
}

impl Figures {
    /// The figures of a part of the load, which began at `begin`.
    pub(super) fn new(
        timed: &[Timed],
        (begin, during): (Instant, Range<Instant>),
        preemptions: u64,
        means: (f64, f64),
    ) -> Self {
        let is_during = |time: &&Instant| during.contains(*time);
        let first = || timed.iter().filter_map(|one| Some((one, one.tokens.first().filter(is_during)?)));
        let pairs = timed.iter().flat_map(|one| one.tokens.windows(2));
        let between = pairs.filter(|pair| during.contains(&pair[1])).map(|pair| pair[1] - pair[0]);
        Self {
            answers: first().count(),
            before: (during.start - begin).as_secs_f64(),
            seconds: (during.end - during.start).as_secs_f64(),
            prompt_tokens: first().map(|(one, _)| one.prompt).sum(),
            answer_tokens: timed.iter().flat_map(|one| &one.tokens).filter(is_during).count(),
            first: Times::new(first().map(|(one, first)| *first - one.begin).collect()),
            between: Times::new(between.collect()),
            preemptions,
            means,
        }
    }

    fn rates(&self) -> (f64, f64) {
        (f64::from(self.prompt_tokens) / self.seconds, self.answer_tokens as f64 / self.seconds)
    }

    pub(super) fn json(&self) -> Value {
        let (prompt, output) = self.rates();
        json!({ "answers": self.answers, "seconds_before": self.before, "seconds": self.seconds,
            "mean_prompt_tokens": self.means.0, "mean_answer_tokens": self.means.1,
            "prompt_tokens_per_second": prompt, "output_tokens_per_second": output,
            "first_token_ms": self.first.json(), "between_tokens_ms": self.between.json(),
            "preemptions": self.preemptions })
    }
}

impl fmt::Display for Figures {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { answers, before, seconds, first, between, preemptions, means, .. } = self;
        let (prompt, output) = self.rates();
        writeln!(f, "prompts of {:.0} tokens and answers of {:.0} on average", means.0, means.1)?;
        writeln!(f, "{answers} answers began in {seconds:.1} s, after {before:.1} s that are not counted")?;
        writeln!(f, "{prompt:.1} prompt tok/s, {output:.1} output tok/s")?;
        writeln!(f, "time to first token  {first}")?;
        writeln!(f, "between tokens       {between}")?;
        writeln!(f, "{preemptions} sequences gave up their pages")
    }
}

/// Times in order, of which the median and high ones are shown.
struct Times(Vec<Duration>);

impl Times {
    fn new(mut times: Vec<Duration>) -> Self {
        times.sort_unstable();
        Self(times)
    }

    /// The milliseconds that this part of the times does not exceed.
    fn milliseconds(&self, part: f64) -> f64 {
        let time = self.0.get(((self.0.len().max(1) - 1) as f64 * part) as usize);
        time.map_or(0.0, |time| time.as_secs_f64() * 1e3)
    }

    fn json(&self) -> Value {
        json!({ "median": self.milliseconds(0.5), "p90": self.milliseconds(0.9), "p99": self.milliseconds(0.99) })
    }
}

impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let at = |part| self.milliseconds(part);
        write!(f, "median {:.2} ms, p90 {:.2} ms, p99 {:.2} ms", at(0.5), at(0.9), at(0.99))
    }
}
