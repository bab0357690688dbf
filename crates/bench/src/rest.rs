//! REST calls, for the settings that gRPC has no field for.

use std::future::poll_fn;
use std::time::Duration;

use anyhow::{Context, Result, bail};
use bytes::Bytes;
use h2::client::SendRequest;
use http::{Method, Request, Uri, Version};
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
        self.call(Method::PUT, name, body).await
    }

    /// Changes something.
    pub(crate) async fn patch(&self, name: &str, body: &Value) -> Result<()> {
        self.call(Method::PATCH, name, body).await
    }

    async fn call(&self, method: Method, name: &str, body: &Value) -> Result<()> {
        let what = || format!("{method} {name}");
        let answered = timeout(CALL_TIME_MAX, self.send(&method, name, body)).await;
        answered.with_context(|| format!("{method} {name} was not answered"))?.with_context(what)
    }

    async fn send(&self, method: &Method, name: &str, body: &Value) -> Result<()> {
        let uri = Uri::builder()
            .scheme("http")
            .authority(self.authority.as_str())
            .path_and_query(format!("/v1/{name}"))
            .build()?;
        let mut request = Request::new(());
        *request.method_mut() = method.clone();
        *request.uri_mut() = uri;
        *request.version_mut() = Version::HTTP_2;
        let mut sender = self.sender.clone();
        poll_fn(|context| sender.poll_ready(context)).await?;
        let (response, mut stream) = sender.send_request(request, false)?;
        stream.send_data(serde_json::to_vec(body)?.into(), true)?;
        let response = response.await?;
        let status = response.status();
        let mut body = response.into_body();
        let mut text = Vec::new();
        while let Some(data) = body.data().await {
            let data = data?;
            body.flow_control().release_capacity(data.len())?;
            text.extend_from_slice(&data);
        }
        if !status.is_success() {
            bail!("the server answered HTTP {status}: {}", String::from_utf8_lossy(&text));
        }
        Ok(())
    }
}
