//! A request for a token, and what its answer means.

use bytes::Bytes;
use http::{Request, StatusCode};
use http_body_util::Full;
use serde::Deserialize;

use super::credentials::AccessError;
use crate::fetch;

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
    let (status, body) = fetch::answer(request)
        .await
        .map_err(|problem| AccessError::Unreachable { at: uri.to_string(), problem })?;
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
