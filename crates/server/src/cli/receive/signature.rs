//! Whether a request is signed as Standard Webhooks has it.

use aws_lc_rs::hmac;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use domain::Timestamp;
use domain::push::Secret;
use http::HeaderMap;

/// How far the time of a signature may be from ours, in seconds.
const TOLERANCE_S: u64 = 300;

/// What is known of a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Check {
    /// No secret was given to check with.
    Unchecked,
    /// It is right.
    Good,
    /// Why it is not.
    Bad(&'static str),
}

impl Check {
    pub(super) fn is_bad(self) -> bool {
        matches!(self, Self::Bad(_))
    }

    /// For programs.
    pub(super) fn word(self) -> &'static str {
        match self {
            Self::Unchecked => "unchecked",
            Self::Good => "good",
            Self::Bad(_) => "bad",
        }
    }

    /// For people; `None` where there is nothing to say.
    pub(super) fn text(self) -> Option<String> {
        match self {
            Self::Unchecked => None,
            Self::Good => Some("signed".to_owned()),
            Self::Bad(why) => Some(format!("BAD SIGNATURE: {why}")),
        }
    }

    pub(super) fn problem(self) -> Option<String> {
        match self {
            Self::Bad(why) => Some(why.to_owned()),
            _ => None,
        }
    }
}

/// Checks the signatures of a request against `secret`; one that is right is enough.
pub(super) fn check(
    secret: Option<&Secret>,
    headers: &HeaderMap,
    body: &[u8],
    now: Timestamp,
) -> Check {
    let Some(secret) = secret else { return Check::Unchecked };
    let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
    let names = ["webhook-id", "webhook-timestamp", "webhook-signature"];
    let [Some(id), Some(time), Some(signatures)] = names.map(header) else {
        return Check::Bad("it has none");
    };
    let Ok(seconds) = time.parse::<u64>() else { return Check::Bad("its time is no number") };
    if now.seconds().abs_diff(seconds) > TOLERANCE_S {
        return Check::Bad("its time is more than five minutes off");
    }
    let key = hmac::Key::new(hmac::HMAC_SHA256, secret.bytes());
    let signed = [id.as_bytes(), b".", time.as_bytes(), b".", body].concat();
    let is_right = |signature: &str| {
        let decoded = signature.strip_prefix("v1,").and_then(|text| STANDARD.decode(text).ok());
        decoded.is_some_and(|tag| hmac::verify(&key, &signed, &tag).is_ok())
    };
    if signatures.split(' ').any(is_right) {
        return Check::Good;
    }
    Check::Bad("another secret, or a changed request")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The example that goes with the specification.
    const SECRET: &str = "whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw";
    const BODY: &[u8] = br#"{"test": 2432232314}"#;
    const SIGNATURE: &str = "v1,g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=";
    const NOW: Timestamp = Timestamp(1_614_265_330_000_000);

    fn headers(signature: &str) -> HeaderMap {
        let mut headers = HeaderMap::new();
        headers.insert("webhook-id", "msg_p5jXN8AQM9LWM0D4loKWxJek".parse().unwrap());
        headers.insert("webhook-timestamp", "1614265330".parse().unwrap());
        headers.insert("webhook-signature", signature.parse().unwrap());
        headers
    }

    #[test]
    fn the_signature_of_the_specification_is_good_and_nothing_else() {
        let secret = Secret::parse("s", SECRET).unwrap();
        let checked =
            |headers: &HeaderMap, body: &[u8], now| check(Some(&secret), headers, body, now).word();
        assert_eq!(checked(&headers(SIGNATURE), BODY, NOW), "good");
        assert_eq!(checked(&headers(&format!("v1,AAAA {SIGNATURE}")), BODY, NOW), "good");
        assert_eq!(checked(&headers(SIGNATURE), b"{}", NOW), "bad");
        assert_eq!(checked(&headers("v1,AAAA"), BODY, NOW), "bad");
        assert_eq!(checked(&HeaderMap::new(), BODY, NOW), "bad");
        let late = NOW.plus(std::time::Duration::from_secs(TOLERANCE_S + 1));
        assert_eq!(checked(&headers(SIGNATURE), BODY, late), "bad");
        assert_eq!(check(None, &HeaderMap::new(), BODY, NOW), Check::Unchecked);
    }
}
