//! Connections.

use std::future::Future;
use std::sync::Arc;

use axum::Router;
use axum::serve::Listener;
use hyper::server::conn::http1;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::server::graceful::GracefulShutdown;
use hyper_util::service::TowerToHyperService;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::Limits;

/// Serves connections until `stop` is ready, and then those that there are until their requests are
/// answered.
pub(super) async fn serve(
    mut listener: TcpListener,
    router: Router,
    limits: &Limits,
    stop: impl Future<Output = ()>,
) {
    let mut protocol = http1::Builder::new();
    protocol.timer(TokioTimer::new()).header_read_timeout(limits.body_time);
    let connections = Arc::new(Semaphore::new(limits.connections));
    let graceful = GracefulShutdown::new();
    let mut stop = std::pin::pin!(stop);
    loop {
        let (stream, permit) = tokio::select! {
            () = &mut stop => break,
            Some(accepted) = accept(&mut listener, &connections) => accepted,
        };
        let service = TowerToHyperService::new(router.clone());
        let connection = graceful.watch(protocol.serve_connection(TokioIo::new(stream), service));
        tokio::spawn(async move {
            // A connection that fails is its client's.
            drop(connection.await);
            drop(permit);
        });
    }
    drop(listener);
    graceful.shutdown().await;
}

/// The next connection, when there is room for it.
async fn accept(
    listener: &mut TcpListener,
    connections: &Arc<Semaphore>,
) -> Option<(TcpStream, OwnedSemaphorePermit)> {
    let permit = connections.clone().acquire_owned().await.ok()?;
    let (stream, _) = Listener::accept(listener).await;
    // Tokens are small packets that shall not wait for each other. A connection without the option
    // works, too.
    drop(stream.set_nodelay(true));
    Some((stream, permit))
}
