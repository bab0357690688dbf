//! Whether a request is signed as Standard Webhooks has it.

use aws_lc_rs::hmac;
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use domain::Timestamp;
use domain::push::Secret;
use http::HeaderMap;

/// How far the time of a signature may be from ours, in seconds.
const TOLERANCE_S: u64 = 300;
/// Signatures of one request that are looked at, at most.
const SIGNATURES_MAX: usize = 16;

/// Checks signatures with any of a few keys. The keys are prepared once.
pub struct Verifier {
    keys: Vec<hmac::Key>,
}

impl Verifier {
    /// `None` if there are no secrets: then no signature is wanted.
    pub fn new(secrets: &[Secret]) -> Option<Self> {
        let key = |secret: &Secret| hmac::Key::new(hmac::HMAC_SHA256, secret.bytes());
        let keys: Vec<_> = secrets.iter().map(key).collect();
        (!keys.is_empty()).then_some(Self { keys })
    }

    /// Why a request is not signed as it should be. One signature that is right for one of the
    /// keys is enough.
    pub fn check(
        &self,
        headers: &HeaderMap,
        body: &[u8],
        now: Timestamp,
    ) -> Result<(), &'static str> {
        let header = |name: &str| headers.get(name).and_then(|value| value.to_str().ok());
        let names = ["webhook-id", "webhook-timestamp", "webhook-signature"];
        let [Some(id), Some(time), Some(signatures)] = names.map(header) else {
            return Err("the request is not signed");
        };
        let seconds: u64 = time.parse().map_err(|_| "the signature's time is not a number")?;
        if now.seconds().abs_diff(seconds) > TOLERANCE_S {
            return Err("the signature's time is more than five minutes off");
        }
        let signed = [id.as_bytes(), b".", time.as_bytes(), b".", body].concat();
        let mut signatures = signatures.split(' ').take(SIGNATURES_MAX);
        if signatures.any(|signature| self.is_right(signature, &signed)) {
            return Ok(());
        }
        Err("the signature uses another secret, or the request was changed")
    }

    fn is_right(&self, signature: &str, signed: &[u8]) -> bool {
        let decoded = signature.strip_prefix("v1,").and_then(|text| STANDARD.decode(text).ok());
        let right =
            |tag: Vec<u8>| self.keys.iter().any(|key| hmac::verify(key, signed, &tag).is_ok());
        decoded.is_some_and(right)
    }
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
    fn the_signature_of_the_specification_is_right_and_nothing_else() {
        let other = Secret::new(b"another secret of 24 bytes or more");
        let verifier = Verifier::new(&[other, Secret::parse("s", SECRET).unwrap()]).unwrap();
        let good = |signature: &str| verifier.check(&headers(signature), BODY, NOW).is_ok();
        assert!(good(SIGNATURE));
        assert!(good(&format!("v1,AAAA {SIGNATURE}")), "one that is right is enough");
        assert!(!good("v1,AAAA"));
        assert!(!good(""));
        assert!(!good(SIGNATURE.strip_prefix("v1,").unwrap()));
        assert!(verifier.check(&headers(SIGNATURE), b"{}", NOW).is_err());
        assert!(verifier.check(&HeaderMap::new(), BODY, NOW).is_err());
        let late = NOW.plus(std::time::Duration::from_secs(TOLERANCE_S + 1));
        assert!(verifier.check(&headers(SIGNATURE), BODY, late).is_err());
        assert!(Verifier::new(&[]).is_none());
    }

    #[test]
    fn many_signatures_are_not_all_looked_at() {
        let verifier = Verifier::new(&[Secret::parse("s", SECRET).unwrap()]).unwrap();
        let many = format!("{}{SIGNATURE}", "v1,AAAA ".repeat(SIGNATURES_MAX));
        assert!(verifier.check(&headers(&many), BODY, NOW).is_err());
    }
}
