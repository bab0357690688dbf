//! A running server, asked over REST about one subscription.

use std::time::Duration;

use bytes::Bytes;
use clap::Args;
use domain::SubscriptionName;
use http::{Method, Request, StatusCode, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;

use super::Failure;

/// How long the server may take for one answer.
const TIMEOUT: Duration = Duration::from_secs(30);

/// Bytes of an answer, at most.
const ANSWER_BYTES_MAX: usize = 4 << 20;

/// Where to ask.
#[derive(Clone, Debug, Args)]
pub(super) struct At {
    /// The server to ask
    #[arg(long, value_name = "URL", default_value = "http://127.0.0.1:8085")]
    server: String,
}

/// Calls about one subscription.
pub(super) struct Client {
    host: String,
    /// The path of the subscription.
    path: String,
    runtime: Runtime,
}

impl Client {
    /// For the subscription `name`.
    pub(super) fn new(name: &str, at: &At) -> Result<Self, Failure> {
        let name = SubscriptionName::parse("name", name).map_err(Failure::usage)?;
        let host = host(&at.server)?.to_owned();
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Failure::failed(format!("cannot start: {error}")))?;
        Ok(Self { host, path: path(&name), runtime })
    }

    /// What is at `path` behind the subscription's own.
    pub(super) fn get(&self, path: &str) -> Result<Value, Failure> {
        self.call(Method::GET, path, Bytes::new())
    }

    /// Asks for something to be done.
    pub(super) fn post(&self, path: &str, body: &Value) -> Result<Value, Failure> {
        self.call(Method::POST, path, body.to_string().into())
    }

    fn call(&self, verb: Method, path: &str, body: Bytes) -> Result<Value, Failure> {
        let failed = |problem: String| Failure::failed(format!("{}: {problem}", self.host));
        let path = format!("{}{path}", self.path);
        let asked = self.runtime.block_on(async {
            tokio::time::timeout(TIMEOUT, request(&self.host, verb, &path, body)).await
        });
        let answered = asked.map_err(|_| failed("did not answer in time".to_owned()))?;
        let (code, body) = answered.map_err(|error| failed(error.to_string()))?;
        let answer: Value = serde_json::from_slice(&body).unwrap_or_default();
        if code == StatusCode::OK {
            return Ok(answer);
        }
        let message = answer.pointer("/error/message").and_then(Value::as_str);
        Err(failed(message.map_or_else(|| format!("answered {code}"), str::to_owned)))
    }
}

/// The host and port of `http://host:port`; the scheme may be left out.
fn host(server: &str) -> Result<&str, Failure> {
    let host = server.strip_prefix("http://").unwrap_or(server).trim_end_matches('/');
    if host.is_empty() || host.contains('/') || !host.contains(':') {
        let problem = format!("{server:?} is not a server such as http://127.0.0.1:8085");
        return Err(Failure::usage(problem));
    }
    Ok(host)
}

/// Names may hold a percent sign, which means something else in a path.
fn path(name: &SubscriptionName) -> String {
    format!("/v1/{}", name.as_str().replace('%', "%25"))
}

type BoxError = Box<dyn std::error::Error + Send + Sync>;

async fn request(
    host: &str,
    verb: Method,
    path: &str,
    body: Bytes,
) -> Result<(StatusCode, Bytes), BoxError> {
    let stream = TcpStream::connect(host).await?;
    let (mut sender, connection) =
        hyper::client::conn::http1::handshake(TokioIo::new(stream)).await?;
    let request = Request::builder().method(verb).uri(path).header(header::HOST, host);
    let request = request.body(Full::new(body))?;
    let answered = async {
        let response = sender.send_request(request).await?;
        let code = response.status();
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await?;
        Ok((code, body.to_bytes()))
    };
    let mut connection = std::pin::pin!(connection);
    let mut answered = std::pin::pin!(answered);
    tokio::select! {
        answer = &mut answered => answer,
        // The whole answer may have come with the end of the connection.
        ended = &mut connection => match ended {
            Ok(()) => answered.await,
            Err(error) => Err(error.into()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_are_given_with_or_without_scheme() {
        for good in ["http://127.0.0.1:8085", "http://127.0.0.1:8085/", "127.0.0.1:8085"] {
            assert_eq!(host(good).ok(), Some("127.0.0.1:8085"), "{good}");
        }
        for bad in ["", "http://", "https://x:1", "localhost", "http://x:1/path"] {
            assert!(host(bad).is_err(), "{bad}");
        }
    }
}
