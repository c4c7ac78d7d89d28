//! Metrics for Prometheus, by the names that vLLM has made common.

use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;

use crate::service::Status;

/// All metrics.
pub(super) struct Metrics {
    registry: Registry,
    running: Gauge,
    waiting: Gauge,
    cache_usage: Gauge<f64, AtomicU64>,
    prefix_queries: Counter,
    prefix_hits: Counter,
    preemptions: Counter,
    /// Tokens of prompts.
    pub(super) prompt_tokens: Counter,
    /// Tokens of answers.
    pub(super) generation_tokens: Counter,
    /// From a request's arrival.
    pub(super) time_to_first_token: Histogram,
    /// Between the tokens of an answer.
    pub(super) inter_token_latency: Histogram,
    latency: Histogram,
    success: Family<Vec<(String, String)>, Counter>,
}

const SECONDS: [f64; 18] = [
    0.001, 0.0025, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1.0, 2.5, 5.0, 10.0, 20.0, 60.0,
];

impl Metrics {
    /// Metrics of one model, and the tokens of the steps of its service.
    pub(super) fn new(model: &str, step_tokens: Histogram) -> Metrics {
        let histogram = || Histogram::new(SECONDS);
        let mut metrics = Metrics {
            registry: Registry::default(),
            running: Gauge::default(),
            waiting: Gauge::default(),
            cache_usage: Gauge::default(),
            prefix_queries: Counter::default(),
            prefix_hits: Counter::default(),
            preemptions: Counter::default(),
            prompt_tokens: Counter::default(),
            generation_tokens: Counter::default(),
            time_to_first_token: histogram(),
            inter_token_latency: histogram(),
            latency: histogram(),
            success: Family::default(),
        };
        let mut registry = Registry::default();
        let labelled = registry.sub_registry_with_label(("model_name".into(), model.to_owned().into()));
        let m = &metrics;
        labelled.register("vllm:num_requests_running", "Sequences that hold memory", m.running.clone());
        labelled.register("vllm:num_requests_waiting", "Sequences that wait for memory", m.waiting.clone());
        labelled.register("vllm:kv_cache_usage_perc", "Pages in use, 1 for all", m.cache_usage.clone());
        labelled.register("vllm:prefix_cache_queries", "Prompt tokens looked up", m.prefix_queries.clone());
        labelled.register("vllm:prefix_cache_hits", "Prompt tokens found", m.prefix_hits.clone());
        labelled.register("vllm:num_preemptions", "Sequences that lost their pages", m.preemptions.clone());
        labelled.register("vllm:iteration_tokens_total", "Tokens of each step", step_tokens);
        labelled.register("vllm:prompt_tokens", "Tokens of prompts", m.prompt_tokens.clone());
        labelled.register("vllm:generation_tokens", "Tokens of answers", m.generation_tokens.clone());
        let first = m.time_to_first_token.clone();
        labelled.register("vllm:time_to_first_token_seconds", "Time to the first token", first);
        let between = m.inter_token_latency.clone();
        labelled.register("vllm:inter_token_latency_seconds", "Time between tokens", between);
        labelled.register("vllm:e2e_request_latency_seconds", "Time of whole answers", m.latency.clone());
        labelled.register("vllm:request_success", "Answers by their end", m.success.clone());
        metrics.registry = registry;
        metrics
    }

    /// An answer has ended.
    pub(super) fn finished(&self, reason: &str, after: Duration) {
        self.latency.observe(after.as_secs_f64());
        self.success.get_or_create(&vec![("finished_reason".to_owned(), reason.to_owned())]).inc();
    }

    /// The text that Prometheus reads.
    pub(super) fn encode(&self, status: &Status) -> String {
        let (usage, counts) = (&status.usage, &status.counts);
        self.running.set(i64::from(usage.running));
        self.waiting.set(i64::from(usage.waiting));
        // Pages that only prefixes hold are free for any sequence.
        let held = usage.used_pages.saturating_sub(usage.idle_pages);
        self.cache_usage.set(f64::from(held) / f64::from(usage.pages.max(1)));
        for (counter, value) in [
            (&self.prefix_queries, counts.prefix_queries),
            (&self.prefix_hits, counts.prefix_hits),
            (&self.preemptions, counts.preemptions),
        ] {
            counter.inner().store(value, Ordering::Relaxed);
        }
        let mut text = String::new();
        match encode(&mut text, &self.registry) {
            Ok(()) => text,
            Err(error) => unreachable!("writing to a string: {error}"),
        }
    }
}
