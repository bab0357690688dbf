//! `GET /metrics`.

use http::{HeaderMap, HeaderValue};
use tonic::Code;

use super::{Reply, Rest};
use crate::metrics::Format;
use crate::status::{Refusal, Result};

/// The answer if the path is this one.
pub(super) async fn find(
    rest: &Rest,
    verb: &str,
    path: &str,
    headers: &HeaderMap,
) -> Result<Option<Reply>> {
    if (verb, path) != ("GET", "/metrics") {
        return Ok(None);
    }
    let format = Format::asked(headers);
    let text = rest.0.metrics.text(format).await;
    let text = text.map_err(|error| Refusal::new(Code::Internal, error.to_string()))?;
    let kind = HeaderValue::from_static(format.content_type());
    Ok(Some(Reply::Typed(kind, text.into_bytes())))
}
