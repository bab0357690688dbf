//! Tokens for a service account, whose key is in a file.

use std::fmt;
use std::path::Path;

use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::signature::{RSA_PKCS1_SHA256, RsaKeyPair};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};
use bytes::Bytes;
use domain::Timestamp;
use http::{Request, header};
use http_body_util::Full;
use serde::{Deserialize, Serialize};

use super::ask::{self, Token};
use super::credentials::{AccessError, FILE_VARIABLE};

/// How long the grant asks a token for.
const VALID_S: u64 = 3_600;
/// A key file is a few kilobytes.
const FILE_BYTES_MAX: u64 = 1 << 20;
const TOKEN_URI: &str = "https://oauth2.googleapis.com/token";
const KIND: &str = "service_account";
/// What asks for a token in exchange for what the account has signed.
const GRANT: &str = "grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3Ajwt-bearer&assertion=";

/// An account that signs for itself.
pub(super) struct ServiceAccount {
    file: KeyFile,
    pair: RsaKeyPair,
    scope: String,
}

/// The fields of a key file that count.
#[derive(Deserialize)]
struct KeyFile {
    #[serde(rename = "type")]
    kind: String,
    #[serde(default)]
    client_email: String,
    #[serde(default)]
    private_key: String,
    #[serde(default)]
    private_key_id: String,
    #[serde(default)]
    project_id: Option<String>,
    #[serde(default = "token_uri")]
    token_uri: String,
}

fn token_uri() -> String {
    TOKEN_URI.to_owned()
}

#[derive(Serialize)]
struct Header<'a> {
    alg: &'static str,
    kid: &'a str,
    typ: &'static str,
}

#[derive(Serialize)]
struct Claims<'a> {
    iss: &'a str,
    scope: &'a str,
    aud: &'a str,
    iat: u64,
    exp: u64,
}

impl fmt::Debug for ServiceAccount {
    /// Without the key.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ServiceAccount({})", self.file.client_email)
    }
}

impl ServiceAccount {
    /// Reads a key file.
    pub(super) fn read(path: &Path, scope: &str) -> Result<Self, AccessError> {
        let wrong = |problem: String| AccessError::File { path: path.to_owned(), problem };
        let size = std::fs::metadata(path).map_err(|error| wrong(error.to_string()))?.len();
        if size > FILE_BYTES_MAX {
            return Err(wrong(format!("{size} bytes is too large for a key file")));
        }
        let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
        Self::parse(&text, scope).map_err(wrong)
    }

    fn parse(text: &str, scope: &str) -> Result<Self, String> {
        let file: KeyFile = serde_json::from_str(text).map_err(|error| error.to_string())?;
        if file.kind != KIND {
            return Err(format!(
                "type is {:?}, but must be {KIND:?}: create a key for a service account and set \
                 {FILE_VARIABLE} to its file",
                file.kind
            ));
        }
        for (field, value) in
            [("client_email", &file.client_email), ("private_key", &file.private_key)]
        {
            if value.is_empty() {
                return Err(format!("{field} is missing: create a new key for the account"));
            }
        }
        let lines = file.private_key.lines().filter(|line| !line.starts_with("-----"));
        let base64: String = lines.map(str::trim).collect();
        let der = STANDARD.decode(base64).map_err(|error| format!("private_key: {error}"))?;
        let pair = RsaKeyPair::from_pkcs8(&der)
            .map_err(|error| format!("private_key is not an RSA key in PKCS #8: {error}"))?;
        Ok(Self { file, pair, scope: scope.to_owned() })
    }

    /// The project the account belongs to.
    pub(super) fn project(&self) -> Option<&str> {
        self.file.project_id.as_deref()
    }

    /// Exchanges what the account has signed for a token.
    pub(super) async fn token(&self, now: Timestamp) -> Result<Token, AccessError> {
        let refused = |said: String| AccessError::Refused { at: self.file.token_uri.clone(), said };
        let signed = self.signed(now).map_err(refused)?;
        let request = Request::post(&self.file.token_uri)
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(Full::new(Bytes::from(format!("{GRANT}{signed}"))))
            .map_err(|error| refused(error.to_string()))?;
        ask::token(request).await
    }

    /// What the account says of itself, with its signature.
    fn signed(&self, now: Timestamp) -> Result<String, String> {
        let iat = now.seconds();
        let header = Header { alg: "RS256", kid: &self.file.private_key_id, typ: "JWT" };
        let claims = Claims {
            iss: &self.file.client_email,
            scope: &self.scope,
            aud: &self.file.token_uri,
            iat,
            exp: iat + VALID_S,
        };
        let mut text = String::new();
        let json = |error: serde_json::Error| error.to_string();
        URL_SAFE_NO_PAD.encode_string(serde_json::to_vec(&header).map_err(json)?, &mut text);
        text.push('.');
        URL_SAFE_NO_PAD.encode_string(serde_json::to_vec(&claims).map_err(json)?, &mut text);
        let mut signature = vec![0; self.pair.public_modulus_len()];
        self.pair
            .sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text.as_bytes(), &mut signature)
            .map_err(|error| format!("cannot sign: {error}"))?;
        text.push('.');
        URL_SAFE_NO_PAD.encode_string(signature, &mut text);
        Ok(text)
    }
}
