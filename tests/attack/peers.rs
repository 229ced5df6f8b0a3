//! Peers that do not behave: they ask and do not read, or send little that becomes much.

use std::io::Write as _;
use std::time::Duration;

use bytes::Bytes;
use flate2::Compression;
use flate2::write::GzEncoder;
use futures::future::join_all;
use h2::client::ResponseFuture;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;

use crate::support::Server;

/// Longer than any peer of these tests may be kept.
const LONG: Duration = Duration::from_secs(60);

/// A connection whose peer asked and does not read.
pub(crate) enum Unread {
    Http1(TcpStream),
    Http2(Vec<ResponseFuture>),
}

fn address(url: &str) -> &str {
    url.trim_start_matches("http://").split('/').next().unwrap()
}

/// Frames a message as gRPC does.
fn framed(message: &[u8], is_gzip: bool) -> Bytes {
    let mut frame = vec![u8::from(is_gzip)];
    frame.extend_from_slice(&u32::try_from(message.len()).unwrap().to_be_bytes());
    frame.extend_from_slice(message);
    frame.into()
}

fn grpc_request(server: &Server, method: &str, is_gzip: bool) -> http::Request<()> {
    let uri = format!("http://{}/lf.a2a.v1.A2AService/{method}", address(&server.url));
    let mut request = http::Request::post(uri)
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .header("a2a-version", "1.0");
    if is_gzip {
        request = request.header("grpc-encoding", "gzip");
    }
    request.body(()).unwrap()
}

impl Unread {
    /// Calls a method many times on one connection that has no window for any answer.
    pub(crate) async fn grpc(server: &Server, method: &str, times: usize, message: &impl prost::Message) -> Self {
        let socket = TcpStream::connect(address(&server.url)).await.unwrap();
        let (mut client, connection) =
            h2::client::Builder::new().initial_window_size(0).handshake::<_, Bytes>(socket).await.unwrap();
        tokio::spawn(connection);
        let body = framed(&message.encode_to_vec(), false);
        let mut answers = Vec::new();
        for _ in 0..times {
            client = client.ready().await.unwrap();
            let (answer, mut stream) = client.send_request(grpc_request(server, method, false), false).unwrap();
            stream.send_data(body.clone(), true).unwrap();
            answers.push(answer);
        }
        Self::Http2(answers)
    }

    /// Reads a path, or rather does not.
    pub(crate) async fn http1(server: &Server, path: &str) -> Self {
        Self::http1_from(server, path, "").await
    }

    /// The same, of a stream from this event on.
    pub(crate) async fn http1_from(server: &Server, path: &str, last_event: &str) -> Self {
        let socket = tokio::net::TcpSocket::new_v4().unwrap();
        // What the kernel keeps for a reader does not count.
        socket.set_recv_buffer_size(4096).unwrap();
        let mut stream = socket.connect(address(&server.url).parse().unwrap()).await.unwrap();
        let cursor = if last_event.is_empty() { String::new() } else { format!("last-event-id: {last_event}\r\n") };
        let head = format!("GET {path} HTTP/1.1\r\nhost: localhost\r\na2a-version: 1.0\r\n{cursor}\r\n");
        stream.write_all(head.as_bytes()).await.unwrap();
        Self::Http1(stream)
    }

    /// Waits until the server has given up: the streams are reset, or the connection is closed.
    pub(crate) async fn ended(&mut self) {
        match self {
            Self::Http1(stream) => {
                // Nothing is read before the connection has broken: a peer that reads would be served.
                let broken = async {
                    loop {
                        tokio::time::sleep(Duration::from_millis(50)).await;
                        if stream.write_all(b"x").await.is_err() {
                            return;
                        }
                    }
                };
                tokio::time::timeout(LONG, broken).await.expect("the server gives a connection up");
            }
            Self::Http2(answers) => {
                let ends = std::mem::take(answers).into_iter().map(|answer| async {
                    let Ok(response) = answer.await else { return };
                    let mut body = response.into_body();
                    // The window stays shut, as nothing is released.
                    while let Some(Ok(_)) = body.data().await {}
                });
                tokio::time::timeout(LONG, join_all(ends)).await.expect("the server resets the streams");
            }
        }
    }
}

pub(crate) fn gzip(bytes: &[u8]) -> Vec<u8> {
    let mut writer = GzEncoder::new(Vec::new(), Compression::best());
    writer.write_all(bytes).unwrap();
    writer.finish().unwrap()
}

/// Makes one call and returns its status.
pub(crate) async fn send_grpc(server: &Server, method: &str, message: &[u8], is_gzip: bool) -> u32 {
    let socket = TcpStream::connect(address(&server.url)).await.unwrap();
    let (client, connection) = h2::client::handshake(socket).await.unwrap();
    tokio::spawn(connection);
    let mut client = client.ready().await.unwrap();
    let (answer, mut stream) = client.send_request(grpc_request(server, method, is_gzip), false).unwrap();
    stream.send_data(framed(message, is_gzip), true).unwrap();
    let response = answer.await.unwrap();
    let status = |headers: &http::HeaderMap| Some(headers.get("grpc-status")?.to_str().unwrap().parse().unwrap());
    if let Some(status) = status(response.headers()) {
        return status;
    }
    let mut body = response.into_body();
    while let Some(data) = body.data().await {
        data.unwrap();
    }
    status(&body.trailers().await.unwrap().unwrap()).unwrap()
}

/// Makes one request and returns its status and body.
pub(crate) async fn http1(url: &str, verb: &str, path: &str, headers: &[(&str, &str)], body: &[u8]) -> (u16, Vec<u8>) {
    let mut stream = TcpStream::connect(address(url)).await.unwrap();
    let mut head = format!("{verb} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n");
    for (name, value) in headers {
        head.push_str(&format!("{name}: {value}\r\n"));
    }
    head.push_str(&format!("content-length: {}\r\n\r\n", body.len()));
    stream.write_all(head.as_bytes()).await.unwrap();
    stream.write_all(body).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n").unwrap();
    let status = std::str::from_utf8(&answer[9..12]).unwrap().parse().unwrap();
    (status, answer.split_off(end + 4))
}
