//! The lengths of prompts and answers, and what a request of a steady state has left of its answer.

use warpwright_llm_step::random;

/// The deviations of the logarithms of lengths.
const PROMPT_SPREAD: f64 = 1.2;
const ANSWER_SPREAD: f64 = 1.0;
/// Tokens of the shortest prompt and answer.
const LEAST: u32 = 4;

/// What lengths are drawn from.
#[derive(Clone, Copy, Debug)]
pub(super) struct Lengths {
    pub(super) seed: u64,
    /// Tokens on average, before they are cut.
    pub(super) prompt: f64,
    pub(super) answer: f64,
    /// Tokens at most.
    pub(super) most: u32,
    /// Whether each length is the average.
    pub(super) are_same: bool,
    /// Every request of this number has a long prompt; 0: none.
    pub(super) long_every: u32,
    pub(super) long: u32,
    /// Tokens of a sequence at most.
    pub(super) context: u32,
}

impl Lengths {
    /// The tokens of a request's prompt and answer.
    pub(super) fn of(&self, number: u32) -> (u32, u32) {
        let mut random = Random::of(self.seed, number, 1);
        let prompt = self.length(&mut random, self.prompt, PROMPT_SPREAD);
        let answer = self.length(&mut random, self.answer, ANSWER_SPREAD);
        let is_long = self.long_every > 0 && (number + 1).is_multiple_of(self.long_every);
        (if is_long { self.long.min(self.context - answer) } else { prompt }, answer)
    }

    /// The same of a request that has run for a while, as requests have at any time of a steady state: a long answer
    /// is more likely, and the part of it that exists is in the prompt.
    pub(super) fn of_running(&self, number: u32) -> (u32, u32) {
        let (prompt, _) = self.of(number);
        let mut random = Random::of(self.seed, number, 3);
        let answer = loop {
            let answer = self.length(&mut random, self.answer, ANSWER_SPREAD);
            if random.below(self.most.max(answer)) < answer {
                break answer;
            }
        };
        let done = random.below(answer).min(self.context - answer);
        ((prompt + done).min(self.context - answer), answer - done)
    }

    fn length(&self, random: &mut Random, mean: f64, spread: f64) -> u32 {
        let spread = if self.are_same { 0.0 } else { spread };
        // The mean of a log-normal distribution is that of its logarithm plus half the variance.
        let tokens = mean * (spread * random.normal() - spread * spread / 2.0).exp();
        (tokens as u32).clamp(LEAST, self.most.max(LEAST))
    }

    /// The mean lengths of many requests, which are cut.
    pub(super) fn means(&self) -> (f64, f64) {
        const MANY: u32 = 10_000;
        let sum = (0..MANY)
            .map(|number| self.of(number))
            .fold((0.0, 0.0), |sum, (prompt, answer)| (sum.0 + f64::from(prompt), sum.1 + f64::from(answer)));
        (sum.0 / f64::from(MANY), sum.1 / f64::from(MANY))
    }
}

/// The random numbers of a request.
pub(super) struct Random(random::Random);

impl Random {
    /// The stream of a request.
    pub(super) fn of(seed: u64, number: u32, stream: u64) -> Random {
        let seed = random::mix(seed ^ (u64::from(number) << 20) ^ (stream << 52));
        Random(random::Random::new(seed))
    }

    pub(super) fn bits(&mut self) -> u64 {
        self.0.bits()
    }

    /// A number below `end`.
    fn below(&mut self, end: u32) -> u32 {
        (((self.bits() >> 32) * u64::from(end)) >> 32) as u32
    }

    /// A number of the standard normal distribution (Box and Muller, 1958).
    fn normal(&mut self) -> f64 {
        let mut uniform = || ((self.bits() >> 11) as f64 + 0.5) / (1u64 << 53) as f64;
        (-2.0 * uniform().ln()).sqrt() * (std::f64::consts::TAU * uniform()).cos()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LENGTHS: Lengths = Lengths {
        seed: 1,
        prompt: 215.0,
        answer: 200.0,
        most: 1024,
        are_same: false,
        long_every: 0,
        long: 0,
        context: 4096,
    };

    /// In a renewal process, what is left of the answer at any time has the mean E[n (n + 1)] / 2 E[n].
    #[test]
    fn running_requests_have_the_remainders_of_a_steady_state() {
        let number = 40_000;
        let of = |power: i32| -> f64 {
            (0..number).map(|number| f64::from(LENGTHS.of(number).1).powi(power)).sum::<f64>()
        };
        let wanted = (of(2) + of(1)) / (2.0 * of(1));
        let found = (0..number).map(|number| f64::from(LENGTHS.of_running(number).1)).sum::<f64>();
        let found = found / f64::from(number);
        assert!((found / wanted - 1.0).abs() < 0.02, "{found} tokens for {wanted}");
    }

    #[test]
    fn running_requests_fit_the_context() {
        let lengths = Lengths { context: 2048, long_every: 3, long: 8192, ..LENGTHS };
        for number in 0..1000 {
            let (prompt, answer) = lengths.of_running(number);
            assert!(prompt > 0 && answer > 0 && prompt + answer <= 2048, "{prompt} and {answer}");
        }
    }
}
