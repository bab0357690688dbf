//! One HTTP request and its answer, for key sets and tokens.

use std::time::Duration;

use bytes::Bytes;
use http::{Request, StatusCode, Uri, header};
use http_body_util::{BodyExt, Full, Limited};
use hyper::client::conn::http1;
use hyper_util::rt::TokioIo;

use crate::google::Connect;

/// Bytes of an answer, at most.
const ANSWER_BYTES_MAX: usize = 1 << 20;
/// How long a call may take as a whole.
const TIMEOUT: Duration = Duration::from_secs(20);

/// The body of a successful answer to `GET url`.
pub(crate) async fn get(url: &str) -> Result<Bytes, String> {
    let request = Request::get(url).header(header::ACCEPT, "application/json");
    let request = request.body(Full::default()).map_err(|error| error.to_string())?;
    match answer(request).await? {
        (status, body) if status.is_success() => Ok(body),
        (status, _) => Err(format!("answered {status}")),
    }
}

/// Sends a request to where its address says.
pub(crate) async fn answer(request: Request<Full<Bytes>>) -> Result<(StatusCode, Bytes), String> {
    let asked = tokio::time::timeout(TIMEOUT, exchange(request)).await;
    asked.unwrap_or_else(|_| Err(format!("no answer within {TIMEOUT:?}")))
}

async fn exchange(request: Request<Full<Bytes>>) -> Result<(StatusCode, Bytes), String> {
    let connect = Connect::of(request.uri()).ok_or("not an address such as https://host/path")?;
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
