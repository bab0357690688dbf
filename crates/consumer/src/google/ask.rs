//! One HTTP request for a token, and its answer.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;
use serde::Deserialize;

use super::connect::Connect;
use super::credentials::AccessError;

/// How long a token may take to come.
const TIMEOUT: Duration = Duration::from_secs(20);
/// An answer is a token of some kilobytes, or an error.
const ANSWER_BYTES_MAX: usize = 64 * 1024;
/// So much of a refusal is shown.
const SHOWN_CHARACTERS_MAX: usize = 300;

/// A token, and how long it is good.
#[derive(Deserialize)]
pub(super) struct Token {
    pub(super) access_token: String,
    pub(super) expires_in: u64,
}

/// Sends the request to where its address says, and reads the token in the answer.
pub(super) async fn token(request: Request<Full<Bytes>>) -> Result<Token, AccessError> {
    let uri = request.uri().clone();
    let asked = tokio::time::timeout(TIMEOUT, answer(request)).await;
    let answered = asked.unwrap_or_else(|_| Err(format!("no answer within {TIMEOUT:?}")));
    let (status, body) =
        answered.map_err(|problem| AccessError::Unreachable { at: uri.to_string(), problem })?;
    if status.is_server_error() || status == StatusCode::TOO_MANY_REQUESTS {
        let problem = format!("answered {status}");
        return Err(AccessError::Unreachable { at: uri.to_string(), problem });
    }
    let refused = |said: String| AccessError::Refused { at: uri.to_string(), said };
    if status != StatusCode::OK {
        let said: String =
            String::from_utf8_lossy(&body).chars().take(SHOWN_CHARACTERS_MAX).collect();
        return Err(refused(format!("{status}: {}", said.trim())));
    }
    serde_json::from_slice(&body).map_err(|error| refused(format!("not a token: {error}")))
}

async fn answer(request: Request<Full<Bytes>>) -> Result<(StatusCode, Bytes), String> {
    let connect = Connect::of(request.uri()).ok_or("not an address that can be asked")?;
    let request = with_host(request, &connect);
    let stream = connect.open(b"http/1.1").await.map_err(|error| error.to_string())?;
    let handshake = http1::handshake(TokioIo::new(stream)).await;
    let (mut sender, connection) = handshake.map_err(|error| error.to_string())?;
    let answered = async {
        let response = sender.send_request(request).await.map_err(|error| error.to_string())?;
        let status = response.status();
        let body = Limited::new(response.into_body(), ANSWER_BYTES_MAX).collect().await;
        Ok((status, body.map_err(|error| error.to_string())?.to_bytes()))
    };
    let mut connection = std::pin::pin!(connection);
    let mut answered = std::pin::pin!(answered);
    tokio::select! {
        answer = &mut answered => answer,
        // The whole answer may have come with the end of the connection.
        ended = &mut connection => match ended {
            Ok(()) => answered.await,
            Err(error) => Err(error.to_string()),
        },
    }
}

/// The request as HTTP/1.1 has it: the path in the first line, the host in a header.
fn with_host(mut request: Request<Full<Bytes>>, connect: &Connect) -> Request<Full<Bytes>> {
    if let Ok(host) = connect.authority.parse() {
        request.headers_mut().insert(header::HOST, host);
    }
    let path = request.uri().path_and_query().map(|path| Uri::from(path.clone()));
    *request.uri_mut() = path.unwrap_or_default();
    request
}
