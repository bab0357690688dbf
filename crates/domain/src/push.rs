//! How a subscription pushes: where, in what format, with what signature, and how much at a time.
//! The outcome of a push, and what follows from it, is in `outcome.rs`.

mod accounts;
mod batch_size;
mod class;
mod header;
mod outcome;

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;

use crate::error::Invalid;
use crate::limits::{
    SECRET_BYTES_MAX, SECRET_BYTES_MIN, SECRET_PREVIOUS_VALID, SECRETS_PREVIOUS_MAX,
};
use crate::time::Timestamp;

pub use accounts::{Accounts, Pattern};
pub use batch_size::BatchSize;
pub use class::{Class, Health};
pub use header::{is_attribute_header, is_reserved_header, is_secret_header};
pub use outcome::{Outcome, Settlement, Success};

/// Maximum bytes of an endpoint's address.
pub const ENDPOINT_BYTES_MAX: usize = 2_048;

/// Where and in what format messages are pushed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushConfig {
    /// The endpoint.
    pub endpoint: Endpoint,
    /// Google's free attributes, such as `x-goog-version`: stored and shown.
    pub attributes: BTreeMap<String, String>,
    /// How long an answer may take, if set for push.
    pub timeout: Option<Duration>,
    /// The token to send; `None` = no token.
    pub oidc: Option<OidcToken>,
    /// What the body looks like.
    pub form: Form,
}

impl PushConfig {
    /// Pushes to `endpoint` as Google does by default.
    pub fn new(endpoint: Endpoint) -> Self {
        Self {
            endpoint,
            attributes: BTreeMap::new(),
            timeout: None,
            oidc: None,
            form: Form::Wrapped,
        }
    }
}

/// What the body of a push looks like.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Form {
    /// Google's JSON object around the message.
    #[default]
    Wrapped,
    /// The data alone.
    Unwrapped {
        /// Whether ids and attributes are sent as headers.
        write_metadata: bool,
    },
}

/// The account a token names as the sender, and its audience.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OidcToken {
    /// The account the token is made for.
    pub service_account_email: String,
    /// Whom it is meant for; empty = the endpoint.
    pub audience: String,
}

/// The HTTP address that messages are pushed to.
#[derive(Clone, PartialEq, Eq)]
pub struct Endpoint {
    text: Arc<str>,
    uri: http::Uri,
}

impl Endpoint {
    /// Parses an address that starts with `http://` or `https://` and names a host.
    pub fn parse(field: &str, text: &str) -> Result<Self, Invalid> {
        let bad = |problem: String| Err(Invalid::new(field, problem));
        if text.len() > ENDPOINT_BYTES_MAX {
            let bytes = text.len();
            return bad(format!("{bytes} bytes, at most {ENDPOINT_BYTES_MAX} are allowed"));
        }
        if text.contains('#') {
            return bad("an endpoint cannot have a #fragment: it would never be sent".to_owned());
        }
        let uri: http::Uri = match text.parse() {
            Ok(uri) => uri,
            Err(error) => return bad(format!("not an HTTP address: {error}")),
        };
        match uri.scheme_str() {
            Some("http" | "https") => {}
            Some(other) => {
                let other: String = other.chars().take(32).collect();
                return bad(format!("begins with {other}://, http:// or https:// is needed"));
            }
            None => return bad("must begin with http:// or https://".to_owned()),
        }
        if uri.host().is_none_or(|host| host.trim_matches(['[', ']']).is_empty()) {
            return bad("names no host".to_owned());
        }
        if uri.authority().is_some_and(has_stray_bracket) {
            return bad("brackets belong around an IPv6 address, and nowhere else".to_owned());
        }
        let port = uri.authority().and_then(port_text);
        if port.is_some_and(|port| port.parse::<u16>().is_ok_and(|port| port > 0)) || port.is_none()
        {
            return Ok(Self { text: text.into(), uri });
        }
        bad("its port is not 1 to 65535".to_owned())
    }

    /// The address as it was given.
    pub fn text(&self) -> &str {
        &self.text
    }

    /// The parsed address.
    pub fn uri(&self) -> &http::Uri {
        &self.uri
    }

    /// Whether it uses TLS.
    pub fn is_secure(&self) -> bool {
        self.uri.scheme_str() == Some("https")
    }

    /// The host; an IPv6 address without its brackets.
    pub fn host(&self) -> &str {
        let host = self.uri.host().unwrap_or_default();
        host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host)
    }

    /// The port, explicit or implied.
    pub fn port(&self) -> u16 {
        self.uri.port_u16().unwrap_or(if self.is_secure() { 443 } else { 80 })
    }

    /// The address without user, password and query: safe for logs.
    pub fn shown(&self) -> String {
        let scheme = self.uri.scheme_str().unwrap_or_default();
        let host = self.uri.host().unwrap_or_default();
        let port = self.uri.port_u16().map(|port| format!(":{port}")).unwrap_or_default();
        format!("{scheme}://{host}{port}{}", self.uri.path())
    }
}

/// The text after the host's colon, if there is one.
/// Whether there are brackets that do not hold the whole host.
fn has_stray_bracket(authority: &http::uri::Authority) -> bool {
    let text = authority.as_str();
    let text = text.rsplit_once('@').map_or(text, |(_, host)| host);
    let behind = match text.strip_prefix('[').map(|inside| inside.split_once(']')) {
        Some(Some((_, behind))) => behind,
        Some(None) => return true,
        None => text,
    };
    let is_host_done = text.starts_with('[') && !behind.is_empty() && !behind.starts_with(':');
    is_host_done || behind.contains(['[', ']'])
}

fn port_text(authority: &http::uri::Authority) -> Option<&str> {
    let text = authority.as_str();
    let text = text.rsplit_once('@').map_or(text, |(_, host)| host);
    match text.rsplit_once(']') {
        Some((_, behind)) => behind.strip_prefix(':'),
        None => text.rsplit_once(':').map(|(_, port)| port),
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.shown())
    }
}

/// The HTTP method of a push.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Method {
    /// POST.
    #[default]
    Post,
    /// PUT.
    Put,
    /// PATCH.
    Patch,
}

impl Method {
    /// Parses `POST`, `PUT` or `PATCH`.
    pub fn parse(field: &str, text: &str) -> Result<Self, Invalid> {
        match text {
            "POST" => Ok(Self::Post),
            "PUT" => Ok(Self::Put),
            "PATCH" => Ok(Self::Patch),
            _ => {
                let shown: String = text.chars().take(64).collect();
                Err(Invalid::new(field, format!("{shown:?} is not POST, PUT or PATCH")))
            }
        }
    }

    /// The method's name.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Post => "POST",
            Self::Put => "PUT",
            Self::Patch => "PATCH",
        }
    }
}

/// Several messages in one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchPush {
    /// Maximum messages in one request.
    pub messages: u32,
    /// Maximum bytes of the messages, though a single message may be larger.
    pub bytes: u32,
    /// How long a request waits for more messages.
    pub linger: Duration,
}

impl Default for BatchPush {
    /// The defaults.
    fn default() -> Self {
        Self { messages: 100, bytes: 1 << 20, linger: Duration::ZERO }
    }
}

/// Standard Webhooks signatures: the secret, and previous ones while they are valid.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Signing {
    /// The secret that signs requests.
    pub secret: Secret,
    /// Previous secrets, latest first, and until when each of them also signs requests. At most
    /// `SECRETS_PREVIOUS_MAX`.
    pub previous: Vec<(Secret, Timestamp)>,
}

impl Signing {
    /// Signs with `secret` alone.
    pub fn new(secret: Secret) -> Self {
        Self { secret, previous: Vec::new() }
    }

    /// Signs with `secret` from `now` on, and for a day also with the current one, so that a
    /// receiver that knows only one of them finds its signature. Older ones keep the rest of their
    /// own day; if there are too many the oldest goes. Passing the current secret changes nothing.
    pub fn rotated(&self, secret: Secret, now: Timestamp) -> Self {
        if secret == self.secret {
            return self.clone();
        }
        let until = now.plus(SECRET_PREVIOUS_VALID);
        let earlier = self.previous.iter().filter(|(_, until)| *until > now).cloned();
        let previous = std::iter::once((self.secret.clone(), until))
            .chain(earlier)
            .filter(|(earlier, _)| *earlier != secret)
            .take(SECRETS_PREVIOUS_MAX)
            .collect();
        Self { secret, previous }
    }

    /// Until when the last of the previous secrets is valid; `None` = none is.
    pub fn previous_valid_until(&self, now: Timestamp) -> Option<Timestamp> {
        self.previous.iter().map(|(_, until)| *until).filter(|until| *until > now).max()
    }
}

/// A signing secret. Never shown by `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub struct Secret(Arc<[u8]>);

/// The prefix of a secret's text, from Standard Webhooks.
const SECRET_PREFIX: &str = "whsec_";

impl Secret {
    /// A secret with these bytes.
    pub fn new(bytes: &[u8]) -> Self {
        Self(bytes.into())
    }

    /// Parses `whsec_` followed by the bytes in base64. The error never contains the input.
    pub fn parse(field: &str, text: &str) -> Result<Self, Invalid> {
        let encoded = text.strip_prefix(SECRET_PREFIX);
        let bytes = encoded.and_then(|encoded| STANDARD.decode(encoded).ok());
        let Some(bytes) = bytes else {
            return Err(Invalid::new(field, "must be whsec_ followed by base64"));
        };
        let secret = Self(bytes.into());
        secret.validate(field)?;
        Ok(secret)
    }

    /// The text that `parse` accepts.
    pub fn text(&self) -> String {
        format!("{SECRET_PREFIX}{}", STANDARD.encode(&self.0))
    }

    /// Checks its length.
    pub fn validate(&self, field: &str) -> Result<(), Invalid> {
        if (SECRET_BYTES_MIN..=SECRET_BYTES_MAX).contains(&self.0.len()) {
            return Ok(());
        }
        let problem = format!(
            "a secret of {} bytes, {SECRET_BYTES_MIN} to {SECRET_BYTES_MAX} are allowed",
            self.0.len()
        );
        Err(Invalid::new(field, problem))
    }

    /// The bytes of the key.
    pub fn bytes(&self) -> &[u8] {
        &self.0
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(..)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn endpoints_are_http_addresses_with_a_host() {
        for (text, host, port, is_secure) in [
            ("http://localhost:8080/push", "localhost", 8080, false),
            ("https://example.com", "example.com", 443, true),
            ("http://[::1]:99/a?b=c", "::1", 99, false),
            ("http://10.0.0.1/", "10.0.0.1", 80, false),
            ("https://user:pass@example.com:8443/x", "example.com", 8443, true),
        ] {
            let endpoint = Endpoint::parse("push_endpoint", text).unwrap();
            assert_eq!((endpoint.host(), endpoint.port()), (host, port), "{text}");
            assert_eq!((endpoint.is_secure(), endpoint.text()), (is_secure, text));
        }
    }

    #[test]
    fn what_is_no_such_address_is_refused() {
        let long = format!("http://h/{}", "x".repeat(ENDPOINT_BYTES_MAX));
        for bad in [
            "",
            "/push",
            "example.com/push",
            "ftp://example.com/",
            "http://",
            "http:///x",
            "http://[]/",
            "http://h:0/",
            "http://h:65536/",
            "http://h:x/",
            "http://h:/",
            "http://a b/",
            "http://h/\n",
            "http://h/x#y",
            "http://ffff:[2001:db8::1]169.254.169.254:0/",
            "http://[::1]x/",
            "http://x[::1]:80/",
            &long,
        ] {
            let error = Endpoint::parse("push_config.push_endpoint", bad).unwrap_err();
            assert_eq!(error.field, "push_config.push_endpoint");
            assert!(error.problem.len() < 200, "{error}");
        }
    }

    #[test]
    fn what_is_shown_holds_no_secrets() {
        let endpoint = Endpoint::parse("f", "https://user:pass@example.com:8443/x?key=1").unwrap();
        assert_eq!(endpoint.shown(), "https://example.com:8443/x");
        assert_eq!(format!("{endpoint:?}"), "https://example.com:8443/x");
        assert_eq!(format!("{:?}", Secret::new(b"hush")), "Secret(..)");
    }

    #[test]
    fn a_secret_is_read_as_it_is_shown() {
        for bytes in [24, 32, 64] {
            let secret = Secret::new(&vec![0xfb; bytes]);
            assert!(secret.text().starts_with("whsec_"), "{bytes}");
            assert_eq!(Secret::parse("f", &secret.text()), Ok(secret));
        }
    }

    #[test]
    fn a_bad_secret_is_refused_without_showing_it() {
        let short = Secret::new(&[7; 23]).text();
        let long = Secret::new(&[7; 65]).text();
        let bare = STANDARD.encode([7; 32]);
        for bad in ["", "whsec_", "whsec_hush!", "hush", &short, &long, &bare] {
            let error = Secret::parse("postrider.signing.secret", bad).unwrap_err();
            assert_eq!(error.field, "postrider.signing.secret");
            assert!(!error.problem.contains("hush") && !error.problem.contains("BwcH"), "{error}");
        }
    }

    #[test]
    fn a_rotated_secret_counts_for_a_day() {
        let (old, new) = (Secret::new(&[1; 32]), Secret::new(&[2; 32]));
        let now = Timestamp(5_000_000);
        let until = now.plus(Duration::from_secs(86_400));
        let rotated = Signing::new(old.clone()).rotated(new.clone(), now);
        assert_eq!(rotated, Signing { secret: new.clone(), previous: vec![(old, until)] });
        assert_eq!(rotated.previous_valid_until(now), Some(until));
        assert_eq!(rotated.previous_valid_until(until), None);
        assert_eq!(rotated.rotated(new, now.plus(Duration::from_secs(60))), rotated);
    }

    #[test]
    fn each_earlier_secret_keeps_its_own_day() {
        let secret = |byte: u8| Secret::new(&[byte; 32]);
        let hour = |hours: u64| Timestamp(5_000_000).plus(Duration::from_secs(3_600 * hours));
        let first = Signing::new(secret(0)).rotated(secret(1), hour(0));
        let second = first.rotated(secret(2), hour(1));
        assert_eq!(second.previous, [(secret(1), hour(25)), (secret(0), hour(24))]);
        assert_eq!(second.previous_valid_until(hour(2)), Some(hour(25)));
        let third = second.rotated(secret(3), hour(24));
        assert_eq!(third.previous, [(secret(2), hour(48)), (secret(1), hour(25))]);
        let back = second.rotated(secret(0), hour(2));
        assert_eq!(back.previous, [(secret(2), hour(26)), (secret(1), hour(25))]);
    }

    #[test]
    fn of_too_many_earlier_secrets_the_oldest_goes() {
        let now = Timestamp(5_000_000);
        let secret = |byte: u8| Secret::new(&[byte; 32]);
        let many = (1..=7)
            .fold(Signing::new(secret(0)), |signing, byte| signing.rotated(secret(byte), now));
        let kept: Vec<Secret> = many.previous.into_iter().map(|(secret, _)| secret).collect();
        assert_eq!(kept, [6, 5, 4, 3, 2].map(secret));
    }
}
