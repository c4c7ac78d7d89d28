//! Server-sent events.

use std::convert::Infallible;
use std::future::Future;
use std::time::Duration;

use axum::http::header;
use axum::response::sse::{Event, KeepAlive, Sse};
use axum::response::{IntoResponse, Response};
use futures_util::stream;
use serde_json::Value;
use tokio::sync::mpsc;

/// Where a task writes events. Writing waits for a slow client.
pub(super) struct Events(mpsc::Sender<Event>);

impl Events {
    /// An event without a name.
    pub(super) async fn data(&self, value: &Value) {
        self.send(Event::default().data(value.to_string())).await;
    }

    /// An event with a name.
    pub(super) async fn named(&self, name: &str, value: &Value) {
        self.send(Event::default().event(name).data(value.to_string())).await;
    }

    /// The end of OpenAI's streams.
    pub(super) async fn done(&self) {
        self.send(Event::default().data("[DONE]")).await;
    }

    async fn send(&self, event: Event) {
        // `respond` ends the task of a client that has disconnected.
        drop(self.0.send(event).await);
    }
}

/// Comments keep proxies from closing a connection on which nothing happens.
const KEEP_ALIVE: Duration = Duration::from_secs(10);

/// With the character set: some clients take a text without one for Latin-1.
const CONTENT_TYPE: &str = "text/event-stream; charset=utf-8";

/// Runs a task that writes events. The task is dropped when the client disconnects, or after `time`
/// if the client does not read.
pub(super) fn respond<F>(time: Duration, task: impl FnOnce(Events) -> F) -> Response
where
    F: Future<Output = ()> + Send + 'static,
{
    let (sender, mut receiver) = mpsc::channel(16);
    let task = task(Events(sender.clone()));
    tokio::spawn(async move {
        tokio::select! {
            () = task => {}
            () = sender.closed() => {}
            () = tokio::time::sleep(time) => {}
        }
    });
    let events = stream::poll_fn(move |context| {
        receiver.poll_recv(context).map(|event| event.map(Ok::<_, Infallible>))
    });
    let events = Sse::new(events).keep_alive(KeepAlive::new().interval(KEEP_ALIVE));
    ([(header::CONTENT_TYPE, CONTENT_TYPE)], events).into_response()
}
