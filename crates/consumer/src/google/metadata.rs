//! Tokens from the metadata server of Google's machines.

use bytes::Bytes;
use http::Request;
use http_body_util::Full;

use super::ask::{self, Token};
use super::credentials::AccessError;

/// The variable that names another metadata server, as Google's libraries have it.
const HOST_VARIABLE: &str = "GCE_METADATA_HOST";
const HOST: &str = "metadata.google.internal";
const PATH: &str = "/computeMetadata/v1/instance/service-accounts/default/token";

/// The metadata server that the environment names, or the usual one.
pub(super) fn host() -> String {
    std::env::var(HOST_VARIABLE).ok().filter(|host| !host.is_empty()).unwrap_or(HOST.to_owned())
}

/// A token of the machine's service account.
pub(super) async fn token(host: &str) -> Result<Token, AccessError> {
    let address = format!("http://{host}{PATH}");
    let request = Request::get(&address)
        .header("metadata-flavor", "Google")
        .body(Full::new(Bytes::new()))
        .map_err(|error| AccessError::Refused { at: address, said: error.to_string() })?;
    ask::token(request).await
}
