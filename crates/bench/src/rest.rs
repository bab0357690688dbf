//! REST calls, for the settings that gRPC has no field for.

use std::future::poll_fn;
use std::time::Duration;

use anyhow::{Context, Result, bail, ensure};
use bytes::Bytes;
use h2::RecvStream;
use h2::client::SendRequest;
use http::{Method, Request, StatusCode, Uri, Version};
use serde_json::Value;
use tokio::time::timeout;

/// A call that is not answered after so long has failed.
const CALL_TIME_MAX: Duration = Duration::from_secs(30);

/// Makes REST calls on a connection that it shares with others.
#[derive(Clone)]
pub(crate) struct Rest {
    sender: SendRequest<Bytes>,
    authority: String,
}

impl Rest {
    /// A caller on an open connection.
    pub(crate) fn new(sender: SendRequest<Bytes>, authority: String) -> Self {
        Self { sender, authority }
    }

    /// Creates something.
    pub(crate) async fn put(&self, name: &str, body: &Value) -> Result<()> {
        self.call(Method::PUT, &format!("/v1/{name}"), body).await.map(drop)
    }

    /// Changes something.
    pub(crate) async fn patch(&self, name: &str, body: &Value) -> Result<()> {
        self.call(Method::PATCH, &format!("/v1/{name}"), body).await.map(drop)
    }

    /// Calls any path; the body of the answer.
    pub(crate) async fn call(&self, method: Method, path: &str, body: &Value) -> Result<Bytes> {
        let answered = timeout(CALL_TIME_MAX, self.exchange(&method, path, body)).await;
        answered
            .with_context(|| format!("{method} {path} was not answered"))?
            .with_context(|| format!("{method} {path}"))
    }

    async fn exchange(&self, method: &Method, path: &str, body: &Value) -> Result<Bytes> {
        let body = if body.is_null() { Bytes::new() } else { serde_json::to_vec(body)?.into() };
        let (status, mut body) = self.send(method, path, body).await?;
        let mut text = Vec::new();
        while let Some(data) = body.data().await {
            let data = data?;
            body.flow_control().release_capacity(data.len())?;
            text.extend_from_slice(&data);
        }
        if !status.is_success() {
            bail!("the server answered HTTP {status}: {}", String::from_utf8_lossy(&text));
        }
        Ok(text.into())
    }

    /// Opens a stream of events.
    pub(crate) async fn stream(&self, path: &str) -> Result<RecvStream> {
        let opened = timeout(CALL_TIME_MAX, self.send(&Method::GET, path, Bytes::new())).await;
        let (status, body) = opened.with_context(|| format!("{path} was not opened"))??;
        ensure!(status.is_success(), "the server answered HTTP {status} to {path}");
        Ok(body)
    }

    async fn send(
        &self,
        method: &Method,
        path: &str,
        body: Bytes,
    ) -> Result<(StatusCode, RecvStream)> {
        let uri = Uri::builder()
            .scheme("http")
            .authority(self.authority.as_str())
            .path_and_query(path)
            .build()?;
        let mut request = Request::new(());
        *request.method_mut() = method.clone();
        *request.uri_mut() = uri;
        *request.version_mut() = Version::HTTP_2;
        let mut sender = self.sender.clone();
        poll_fn(|context| sender.poll_ready(context)).await?;
        let (response, mut stream) = sender.send_request(request, body.is_empty())?;
        if !body.is_empty() {
            stream.send_data(body, true)?;
        }
        let response = response.await?;
        Ok((response.status(), response.into_body()))
    }
}
