//! A server on a socket, and a client that speaks HTTP by hand: what happens to connections.

use std::net::SocketAddr;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::client::Client;

/// A server on a socket.
pub(crate) struct Loopback {
    pub(crate) address: SocketAddr,
    shutdown: oneshot::Sender<()>,
    served: JoinHandle<()>,
}

impl Loopback {
    pub(crate) async fn start(client: &Client, grace: Duration) -> Loopback {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (shutdown, stopped) = oneshot::channel::<()>();
        let stop = async move { drop(stopped.await) };
        let served = tokio::spawn(client.server.clone().serve(listener, stop, grace));
        Loopback { address, shutdown, served }
    }

    /// Sends a request, whose answer is still to be read.
    pub(crate) async fn send(&self, path: &str, body: &str) -> std::io::Result<TcpStream> {
        let mut stream = TcpStream::connect(self.address).await?;
        let head = format!(
            "POST {path} HTTP/1.1\r\nHost: a\r\nConnection: close\r\nContent-Length: {}\r\n\r\n",
            body.len()
        );
        stream.write_all(format!("{head}{body}").as_bytes()).await?;
        Ok(stream)
    }

    /// The status and the body of an answer.
    pub(crate) async fn post(&self, path: &str, body: &str) -> std::io::Result<(u16, String)> {
        read(self.send(path, body).await?).await
    }

    /// Begins to drain.
    pub(crate) fn shut_down(self) -> JoinHandle<()> {
        drop(self.shutdown);
        self.served
    }
}

/// Reads until something has arrived after the head.
pub(crate) async fn read_some(stream: &mut TcpStream) {
    let (mut bytes, mut buffer) = (Vec::new(), [0; 1024]);
    while !bytes.windows(6).any(|window| window == b"data: ") {
        let read = stream.read(&mut buffer).await.unwrap();
        assert!(read > 0, "the connection ended");
        bytes.extend_from_slice(&buffer[..read]);
    }
}

/// The status and the body of an answer.
pub(crate) async fn read(mut stream: TcpStream) -> std::io::Result<(u16, String)> {
    let mut bytes = Vec::new();
    stream.read_to_end(&mut bytes).await?;
    let text = String::from_utf8_lossy(&bytes);
    let Some((head, body)) = text.split_once("\r\n\r\n") else { return Ok((0, text.into_owned())) };
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
    if !head.to_lowercase().contains("transfer-encoding: chunked") {
        return Ok((status, body.to_owned()));
    }
    let (mut joined, mut rest) = (Vec::new(), body.as_bytes());
    while let Some(line) = rest.windows(2).position(|window| window == b"\r\n") {
        let length =
            std::str::from_utf8(&rest[..line]).ok().and_then(|text| usize::from_str_radix(text, 16).ok());
        let Some(length) = length.filter(|length| rest.len() >= line + 4 + length) else { break };
        joined.extend_from_slice(&rest[line + 2..line + 2 + length]);
        rest = &rest[line + 4 + length..];
    }
    Ok((status, String::from_utf8_lossy(&joined).into_owned()))
}

/// Serves the toy model until the process is killed, for clients such as `scripts/sdk_calls.py`.
#[tokio::test(flavor = "multi_thread")]
#[ignore = "serves at WARPWRIGHT_ADDRESS without end"]
async fn serves_the_toy() {
    let address = std::env::var("WARPWRIGHT_ADDRESS").unwrap();
    let listener = TcpListener::bind(address).await.unwrap();
    let client = Client::new();
    let interrupt = async {
        let mut terminate =
            tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate()).unwrap();
        terminate.recv().await;
    };
    client.server.clone().serve(listener, interrupt, Duration::from_secs(2)).await;
}
