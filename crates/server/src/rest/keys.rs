//! What receivers of pushes need to check tokens: Google's paths, with our key.

use serde_json::json;

use super::{Reply, Rest, to_json};
use crate::status::Result;

const CERTS: &str = "/oauth2/v3/certs";

/// The answer if the path is one of these.
///
/// Nothing of it depends on who asks: the document may be kept by others.
pub(super) async fn find(rest: &Rest, verb: &str, path: &str) -> Result<Option<Reply>> {
    match (verb, path) {
        ("GET", CERTS) => {
            Ok(Some(Reply::Json(rest.0.api.broker().token_keys().await?.into_bytes())))
        }
        ("GET", "/.well-known/openid-configuration") => {
            let configuration = json!({
                "issuer": broker::TOKEN_ISSUER,
                "jwks_uri": format!("{}{CERTS}", rest.0.url),
                "response_types_supported": ["id_token"],
                "subject_types_supported": ["public"],
                "id_token_signing_alg_values_supported": ["RS256"],
                "claims_supported":
                    ["aud", "azp", "email", "email_verified", "exp", "iat", "iss", "sub"],
            });
            Ok(Some(Reply::Json(to_json(&configuration)?)))
        }
        _ => Ok(None),
    }
}
