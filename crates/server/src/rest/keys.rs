//! What receivers of pushes need to check tokens: Google's paths, with our key.

use http::header::HOST;
use http::{HeaderMap, HeaderValue};
use serde_json::json;

use super::{Reply, Rest, to_json};
use crate::status::Result;

const CERTS: &str = "/oauth2/v3/certs";
const FORWARDED_PROTO: &str = "x-forwarded-proto";

/// The answer if the path is one of these.
pub(super) async fn find(
    rest: &Rest,
    verb: &str,
    path: &str,
    headers: &HeaderMap,
) -> Result<Option<Reply>> {
    match (verb, path) {
        ("GET", CERTS) => {
            Ok(Some(Reply::Json(rest.0.api.broker().token_keys().await?.into_bytes())))
        }
        ("GET", "/.well-known/openid-configuration") => {
            let configuration = json!({
                "issuer": broker::TOKEN_ISSUER,
                "jwks_uri": format!("{}{CERTS}", origin(headers)),
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

/// Where the asker reached this server, as far as it can be told: what is in front of it may end
/// TLS. The document may be kept by others, so that no odd `host` gets into it.
fn origin(headers: &HeaderMap) -> String {
    let text = |name| headers.get(name).and_then(|value: &HeaderValue| value.to_str().ok());
    let is_secure =
        text(FORWARDED_PROTO).is_some_and(|scheme| scheme.eq_ignore_ascii_case("https"));
    let scheme = if is_secure { "https" } else { "http" };
    let host = text(HOST.as_str()).filter(|host| is_host(host)).unwrap_or("localhost");
    format!("{scheme}://{host}")
}

fn is_host(text: &str) -> bool {
    let is_fit = |byte: u8| byte.is_ascii_alphanumeric() || b".:_[]-".contains(&byte);
    !text.is_empty() && text.bytes().all(is_fit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_origin_is_what_the_asker_used() {
        for (host, scheme, expected) in [
            (Some("push.example.com:8085"), None, "http://push.example.com:8085"),
            (Some("a_b-c"), Some("https"), "https://a_b-c"),
            (Some("[::1]:8085"), Some("HTTPS"), "https://[::1]:8085"),
            (Some("here"), Some("http"), "http://here"),
            (Some("here"), Some("gopher"), "http://here"),
            (Some("evil.example/keys?"), None, "http://localhost"),
            (Some("user@evil.example"), Some("https"), "https://localhost"),
            (Some(""), None, "http://localhost"),
            (None, None, "http://localhost"),
        ] {
            let mut headers = HeaderMap::new();
            headers.extend(host.map(|host| (HOST, HeaderValue::from_static(host))));
            if let Some(scheme) = scheme {
                headers.insert(FORWARDED_PROTO, HeaderValue::from_static(scheme));
            }
            assert_eq!(origin(&headers), expected, "{host:?} {scheme:?}");
        }
    }
}
