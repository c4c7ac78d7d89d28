//! Metrics for Prometheus, by the names that vLLM has made common.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::scheduler::MOST_DRAFTS;
use crate::service::{Service, Status};

type Labels = Vec<(String, String)>;

/// All metrics.
pub(super) struct Metrics {
    registry: Registry,
    running: Gauge,
    waiting: Gauge,
    cache_usage: Gauge<f64, AtomicU64>,
    counters: Vec<Counter>,
    accepted_at: Family<Labels, Counter>,
    /// Tokens of prompts.
    prompt_tokens: Counter,
    /// Tokens of answers.
    pub(super) generation_tokens: Counter,
    time_to_first_token: Histogram,
    /// Between the tokens of an answer.
    pub(super) inter_token_latency: Histogram,
    token_time: Histogram,
    latency: Histogram,
    queue: Histogram,
    inference: Histogram,
    prefill: Histogram,
    decode: Histogram,
    prompts: Histogram,
    answers: Histogram,
    most_tokens: Histogram,
    /// Answers of one request.
    pub(super) choices: Histogram,
    success: Family<Labels, Counter>,
}

/// When the parts of an answer began.
#[derive(Clone, Copy, Debug)]
pub(super) struct Times {
    pub(super) arrived: Instant,
    pub(super) admitted: Option<Instant>,
    pub(super) first: Option<Instant>,
    pub(super) last: Option<Instant>,
}

/// vLLM's bounds in seconds, for tokens and for requests.
const OF_FIRST_TOKENS: [f64; 21] = [
    0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0,
    80.0, 160.0, 640.0,
];
const OF_TOKENS: [f64; 18] =
    [0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1.0, 2.5, 5.0, 7.5, 10.0, 20.0, 40.0];
const OF_REQUESTS: [f64; 21] = [
    0.3, 0.5, 0.8, 1.0, 1.5, 2.0, 2.5, 5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 60.0, 120.0, 240.0, 480.0,
    960.0, 1920.0, 7680.0,
];
/// Bounds in tokens.
const SIZES: [f64; 18] = [
    1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0, 1000.0, 2000.0, 5000.0, 10000.0, 20000.0, 50000.0,
    100_000.0, 200_000.0, 500_000.0,
];
const CHOICES: [f64; 5] = [1.0, 2.0, 5.0, 10.0, 20.0];

/// Counters of the scheduler, in the order of [`counts`].
const COUNTERS: [(&str, &str); 6] = [
    ("vllm:prefix_cache_queries", "Prompt tokens looked up"),
    ("vllm:prefix_cache_hits", "Prompt tokens found"),
    ("vllm:num_preemptions", "Sequences that lost their pages"),
    ("vllm:spec_decode_num_drafts", "Steps of sequences that verified drafts"),
    ("vllm:spec_decode_num_draft_tokens", "Drafted tokens"),
    ("vllm:spec_decode_num_accepted_tokens", "Accepted drafts"),
];

fn counts(status: &Status) -> [u64; 6] {
    let counts = &status.counts;
    let accepted = counts.accepted.iter().sum();
    let drafts = (counts.drafts, counts.draft_tokens);
    [counts.prefix_queries, counts.prefix_hits, counts.preemptions, drafts.0, drafts.1, accepted]
}

impl Metrics {
    /// Metrics of one model and its service.
    pub(super) fn new(model: &str, service: &Service) -> Metrics {
        let mut registry = Registry::default();
        let r = registry.sub_registry_with_label(("model_name".into(), model.to_owned().into()));
        let mut times = |name: &str, help: &str, bounds: &[f64]| {
            let histogram = Histogram::new(bounds.iter().copied());
            r.register(format!("vllm:{name}"), help, histogram.clone());
            histogram
        };
        let time_to_first_token =
            times("time_to_first_token_seconds", "Time to the first token", &OF_FIRST_TOKENS);
        let inter_token_latency = times("inter_token_latency_seconds", "Time between tokens", &OF_TOKENS);
        let token_time = times(
            "request_time_per_output_token_seconds",
            "Mean time between tokens of an answer",
            &OF_TOKENS,
        );
        let latency = times("e2e_request_latency_seconds", "Time of whole answers", &OF_REQUESTS);
        let queue = times("request_queue_time_seconds", "Time until an answer has memory", &OF_REQUESTS);
        let inference =
            times("request_inference_time_seconds", "Time from then to the last token", &OF_REQUESTS);
        let prefill =
            times("request_prefill_time_seconds", "Time from then to the first token", &OF_REQUESTS);
        let decode =
            times("request_decode_time_seconds", "Time from the first to the last token", &OF_REQUESTS);
        let prompts = times("request_prompt_tokens", "Tokens of a prompt", &SIZES);
        let answers = times("request_generation_tokens", "Tokens of an answer", &SIZES);
        let most_tokens = times("request_params_max_tokens", "Tokens that an answer may have", &SIZES);
        let choices = times("request_params_n", "Answers of a request", &CHOICES);
        let metrics = Metrics {
            registry: Registry::default(),
            running: Gauge::default(),
            waiting: Gauge::default(),
            cache_usage: Gauge::default(),
            counters: COUNTERS.iter().map(|_| Counter::default()).collect(),
            accepted_at: Family::default(),
            prompt_tokens: Counter::default(),
            generation_tokens: Counter::default(),
            success: Family::default(),
            time_to_first_token,
            inter_token_latency,
            token_time,
            latency,
            queue,
            inference,
            prefill,
            decode,
            prompts,
            answers,
            most_tokens,
            choices,
        };
        let m = &metrics;
        r.register("vllm:num_requests_running", "Sequences that hold memory", m.running.clone());
        r.register("vllm:num_requests_waiting", "Sequences that wait for memory", m.waiting.clone());
        r.register("vllm:kv_cache_usage_perc", "Pages in use, 1 for all", m.cache_usage.clone());
        for ((name, help), counter) in COUNTERS.iter().zip(&m.counters) {
            r.register(*name, *help, counter.clone());
        }
        let accepted = "vllm:spec_decode_num_accepted_tokens_per_pos";
        r.register(accepted, "Accepted drafts by their place", m.accepted_at.clone());
        r.register("vllm:iteration_tokens_total", "Tokens of each step", service.step_tokens());
        r.register("vllm:prompt_tokens", "Tokens of prompts", m.prompt_tokens.clone());
        r.register("vllm:generation_tokens", "Tokens of answers", m.generation_tokens.clone());
        r.register("vllm:request_success", "Answers by their end", m.success.clone());
        let cache = service.cache();
        let family: Family<Labels, Gauge> = Family::default();
        let label = |name: &str, value: String| (name.to_owned(), value);
        let labels = vec![
            label("block_size", cache.page_tokens.to_string()),
            label("num_gpu_blocks", cache.pages.to_string()),
            label("enable_prefix_caching", if cache.prefixes { "True" } else { "False" }.to_owned()),
        ];
        family.get_or_create(&labels).set(1);
        r.register("vllm:cache_config_info", "What the cache is made of", family);
        Metrics { registry, ..metrics }
    }

    /// A request of this size was accepted.
    pub(super) fn arrived(&self, prompt: usize, most: u32) {
        self.prompt_tokens.inc_by(prompt as u64);
        self.prompts.observe(prompt as f64);
        self.most_tokens.observe(f64::from(most));
    }

    /// The first token of an answer has come.
    pub(super) fn first_token(&self, times: &Times) {
        let now = times.first.unwrap_or_else(Instant::now);
        self.time_to_first_token.observe((now - times.arrived).as_secs_f64());
    }

    /// An answer has ended after these tokens.
    pub(super) fn finished(&self, reason: &str, times: &Times, tokens: usize) {
        self.latency.observe(times.arrived.elapsed().as_secs_f64());
        self.answers.observe(tokens as f64);
        let observe = |histogram: &Histogram, from: Option<Instant>, to: Option<Instant>| {
            if let (Some(from), Some(to)) = (from, to) {
                histogram.observe(to.saturating_duration_since(from).as_secs_f64());
            }
        };
        observe(&self.queue, Some(times.arrived), times.admitted);
        observe(&self.prefill, times.admitted, times.first);
        observe(&self.decode, times.first, times.last);
        observe(&self.inference, times.admitted, times.last);
        if let (Some(first), Some(last), true) = (times.first, times.last, tokens > 1) {
            self.token_time.observe((last - first).as_secs_f64() / (tokens - 1) as f64);
        }
        self.success.get_or_create(&vec![("finished_reason".to_owned(), reason.to_owned())]).inc();
    }

    /// The text that Prometheus reads.
    pub(super) fn encode(&self, status: &Status) -> String {
        let usage = &status.usage;
        self.running.set(i64::from(usage.running));
        self.waiting.set(i64::from(usage.waiting));
        // Pages that only prefixes hold are free for any sequence.
        let held = usage.used_pages.saturating_sub(usage.idle_pages);
        self.cache_usage.set(f64::from(held) / f64::from(usage.pages.max(1)));
        for (counter, value) in self.counters.iter().zip(counts(status)) {
            counter.inner().store(value, Ordering::Relaxed);
        }
        for position in 0..MOST_DRAFTS {
            let accepted = status.counts.accepted[position];
            if accepted > 0 {
                let labels = vec![("position".to_owned(), position.to_string())];
                self.accepted_at.get_or_create(&labels).inner().store(accepted, Ordering::Relaxed);
            }
        }
        let mut text = String::new();
        match encode(&mut text, &self.registry) {
            Ok(()) => text,
            Err(error) => unreachable!("writing to a string: {error}"),
        }
    }
}
