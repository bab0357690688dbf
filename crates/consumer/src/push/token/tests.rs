use std::sync::LazyLock;
use std::time::Duration;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::{KeyPair, KeySize};
use aws_lc_rs::signature::{
    ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, RSA_PKCS1_SHA256,
};
use serde_json::{Value, json};

use super::*;

const NOW: Timestamp = Timestamp(1_800_000_000_000_000);
const EMAIL: &str = "pusher@project.iam.gserviceaccount.com";
const AUDIENCE: &str = "https://example.com/push";

/// A pair of each kind: making one takes a while.
static RSA: LazyLock<KeyPair> = LazyLock::new(|| KeyPair::generate(KeySize::Rsa2048).unwrap());
static P256: LazyLock<EcdsaKeyPair> =
    LazyLock::new(|| EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING).unwrap());

fn encoded(bytes: impl AsRef<[u8]>) -> String {
    URL_SAFE_NO_PAD.encode(bytes)
}

fn key_set() -> String {
    // The key of 2,048 bits as DER has it: a sequence of the modulus and 65,537.
    let modulus = &RSA.public_key().as_ref()[9..265];
    let point = P256.public_key().as_ref();
    json!({"keys": [
        {"kid": "r", "kty": "RSA", "use": "sig", "alg": "RS256",
            "n": encoded(modulus), "e": "AQAB"},
        {"kid": "e", "kty": "EC", "crv": "P-256",
            "x": encoded(&point[1..33]), "y": encoded(&point[33..])},
        {"kid": "other", "kty": "oct", "k": "AAAA"},
    ]})
    .to_string()
}

fn sign(alg: &str, signed: &[u8]) -> Vec<u8> {
    let random = SystemRandom::new();
    match alg {
        "RS256" => {
            let mut signature = vec![0; RSA.public_modulus_len()];
            RSA.sign(&RSA_PKCS1_SHA256, &random, signed, &mut signature).unwrap();
            signature
        }
        "ES256" => P256.sign(&random, signed).unwrap().as_ref().to_vec(),
        _ => Vec::new(),
    }
}

fn claims() -> Value {
    json!({
        "iss": "https://accounts.google.com",
        "aud": AUDIENCE,
        "email": EMAIL,
        "email_verified": true,
        "iat": 1_800_000_000,
        "exp": 1_800_003_600,
    })
}

fn token(alg: &str, kid: &str, claims: &Value) -> String {
    let header = json!({"alg": alg, "kid": kid, "typ": "JWT"});
    let signed = format!("{}.{}", encoded(header.to_string()), encoded(claims.to_string()));
    let signature = encoded(sign(alg, signed.as_bytes()));
    format!("{signed}.{signature}")
}

fn bearer(token: &str) -> HeaderMap {
    let mut headers = HeaderMap::new();
    headers.insert(header::AUTHORIZATION, format!("Bearer {token}").parse().unwrap());
    headers
}

fn gatekeeper() -> Gatekeeper {
    Gatekeeper::new(Oidc {
        audience: AUDIENCE.to_owned(),
        email: Some(EMAIL.to_owned()),
        issuer: None,
        keys: Keys::Set(key_set()),
    })
    .unwrap()
}

async fn refusal(token: &str, now: Timestamp) -> &'static str {
    match gatekeeper().check(&bearer(token), now).await {
        Err(Refusal::Bad(why)) => why,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_token_of_either_algorithm_is_let_in() {
    for (alg, kid) in [("RS256", "r"), ("ES256", "e")] {
        let token = token(alg, kid, &claims());
        assert_eq!(gatekeeper().check(&bearer(&token), NOW).await, Ok(()), "{alg}");
    }
}

#[tokio::test]
async fn a_token_that_says_something_else_is_not() {
    for (field, value, why) in [
        ("iss", json!("https://evil.example"), "another issuer"),
        ("aud", json!("https://example.com/other"), "another audience"),
        ("aud", json!([AUDIENCE]), "claims are broken"),
        ("email", json!("mallory@example.com"), "another account"),
        ("email_verified", json!(false), "another account"),
        ("exp", json!(1_799_999_000), "expired"),
        ("exp", Value::Null, "claims are broken"),
        ("iat", json!(1_800_000_301), "not valid yet"),
        ("nbf", json!(1_800_000_301), "not valid yet"),
    ] {
        let mut claims = claims();
        claims[field] = value;
        let said = refusal(&token("RS256", "r", &claims), NOW).await;
        assert!(said.contains(why), "{field}: {said}");
    }
}

#[tokio::test]
async fn clocks_may_be_five_minutes_apart() {
    let token = token("RS256", "r", &claims());
    let at = |seconds: u64| NOW.plus(Duration::from_secs(seconds));
    let early = NOW.minus(Duration::from_secs(300));
    for good in [early, at(3_600), at(3_899)] {
        assert_eq!(gatekeeper().check(&bearer(&token), good).await, Ok(()), "{good:?}");
    }
    assert!(refusal(&token, at(3_900)).await.contains("expired"));
}

#[tokio::test]
async fn a_forged_token_is_not_let_in() {
    let good = token("RS256", "r", &claims());
    let (signed, signature) = good.rsplit_once('.').unwrap();
    let (header, _) = signed.split_once('.').unwrap();
    let mut changed = claims();
    changed["email"] = json!("mallory@example.com");
    let changed = format!("{header}.{}.{signature}", encoded(changed.to_string()));
    let none = token("none", "r", &claims());
    let empty = format!("{signed}.");
    let other_key = token("RS256", "nobody", &claims());
    // A token must not choose how it is checked: the RSA key as a secret, or for another curve.
    let confused = [token("HS256", "r", &claims()), token("ES256", "r", &claims())];
    for forged in [&changed, &none, &empty, &other_key, &confused[0], &confused[1]] {
        let why = refusal(forged, NOW).await;
        assert!(why.contains("signature is wrong") || why.contains("unknown key"), "{why}");
    }
}

#[tokio::test]
async fn what_is_no_token_is_not_let_in() {
    let long = "x".repeat(TOKEN_BYTES_MAX + 1);
    for broken in ["", ".", "..", "a.b.c", "a.b", "e30.e30.", long.as_str()] {
        refusal(broken, NOW).await;
    }
    let basic = HeaderMap::from_iter([(header::AUTHORIZATION, "Basic eDp5".parse().unwrap())]);
    for headers in [HeaderMap::new(), basic] {
        assert!(matches!(gatekeeper().check(&headers, NOW).await, Err(Refusal::Bad(_))));
    }
}

/// A key set that is answered when the test says so, and how often it was asked for.
struct SlowKeys {
    url: String,
    asked: tokio::sync::watch::Receiver<usize>,
    go: tokio::sync::watch::Sender<bool>,
    task: tokio::task::JoinHandle<()>,
}

impl SlowKeys {
    #[expect(clippy::disallowed_methods, reason = "ended by the test")]
    async fn start() -> Self {
        use tokio::io::{AsyncReadExt, AsyncWriteExt};
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/keys", listener.local_addr().unwrap());
        let (count, asked) = tokio::sync::watch::channel(0);
        let (go, gone) = tokio::sync::watch::channel(false);
        let body = key_set();
        let task = tokio::spawn(async move {
            while let Ok((mut stream, _)) = listener.accept().await {
                let mut gone = gone.clone();
                assert!(stream.read(&mut [0; 4_096]).await.unwrap() > 0);
                count.send_modify(|count| *count += 1);
                gone.wait_for(|go| *go).await.unwrap();
                let length = body.len();
                let head = format!("HTTP/1.1 200 OK\r\ncontent-length: {length}\r\n\r\n");
                stream.write_all(format!("{head}{body}").as_bytes()).await.unwrap();
            }
        });
        Self { url, asked, go, task }
    }
}

#[tokio::test]
async fn a_known_key_is_used_while_the_set_is_fetched_again() {
    let mut keys = SlowKeys::start().await;
    keys.go.send_replace(true);
    let ring = KeyRing::new(&Keys::Url(keys.url.clone())).unwrap();
    assert!(ring.key("r", NOW).await.unwrap().is_some());
    keys.go.send_replace(false);
    // A key that nobody has: the set is asked for again, and the answer does not come.
    let later = NOW.plus(Duration::from_secs(61));
    let mut stranger = std::pin::pin!(ring.key("nobody", later));
    tokio::select! {
        key = &mut stranger => panic!("{}", key.is_ok()),
        asked = keys.asked.wait_for(|asked| *asked == 2) => drop(asked.unwrap()),
    }
    for id in ["r", "e"] {
        assert!(ring.key(id, later).await.unwrap().is_some());
    }
    // The same for keys that are due to be fetched again.
    let old = NOW.plus(Duration::from_secs(2 * 60 * 60));
    assert!(ring.key("r", old).await.unwrap().is_some());
    keys.go.send_replace(true);
    assert!(stranger.await.unwrap().is_none());
    assert_eq!(*keys.asked.borrow(), 2);
    keys.task.abort();
}

#[tokio::test]
async fn keys_that_cannot_be_had_are_no_fault_of_the_token() {
    // Nothing listens on port 1.
    let keys = Keys::Url("http://127.0.0.1:1/keys".to_owned());
    let oidc = Oidc { audience: AUDIENCE.to_owned(), email: None, issuer: None, keys };
    let gatekeeper = Gatekeeper::new(oidc).unwrap();
    let checked = gatekeeper.check(&bearer(&token("RS256", "r", &claims())), NOW).await;
    assert!(matches!(checked, Err(Refusal::NoKeys(_))), "{checked:?}");
}

#[test]
fn a_key_set_without_a_usable_key_is_refused_at_start() {
    for text in ["", "{}", r#"{"keys":[]}"#, r#"{"keys":[{"kty":"oct","kid":"a"}]}"#] {
        assert!(KeyRing::new(&Keys::Set(text.to_owned())).is_err(), "{text}");
    }
}
