//! An RSA key pair, kept in a file.

use std::fs::{File, OpenOptions};
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

use aws_lc_rs::encoding::AsDer;
use aws_lc_rs::rand::SystemRandom;
use aws_lc_rs::rsa::KeySize;
use aws_lc_rs::signature::{KeyPair, RSA_PKCS1_SHA256, RsaKeyPair};
use aws_lc_rs::{digest, rsa};
use base64::Engine;
use base64::engine::general_purpose::{STANDARD, URL_SAFE_NO_PAD};

/// The file's name; what is being written has another.
pub const NAME: &str = "oidc-key.pem";
const NAME_NEW: &str = "oidc-key.pem.new";
const BEGIN: &str = "-----BEGIN PRIVATE KEY-----";
const END: &str = "-----END PRIVATE KEY-----";

/// A key pair, and what is told about its public half.
pub(super) struct Key {
    pair: RsaKeyPair,
    /// The thumbprint of RFC 7638.
    pub(super) id: String,
    /// In base64 for URLs.
    pub(super) modulus: String,
    /// In base64 for URLs.
    pub(super) exponent: String,
}

impl Key {
    /// Reads the key pair kept in `folder`; `None` = there is none yet.
    pub(super) fn read(folder: &Path) -> io::Result<Option<Self>> {
        let path = folder.join(NAME);
        let text = match std::fs::read_to_string(&path) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
            Err(error) => return Err(about(&path, error)),
        };
        let lines = text.lines().filter(|line| !line.starts_with("-----"));
        let base64: String = lines.map(str::trim).collect();
        let der = STANDARD.decode(base64).map_err(|error| about(&path, error))?;
        let pair = RsaKeyPair::from_pkcs8(&der).map_err(|error| about(&path, error))?;
        Self::new(pair).map(Some)
    }

    /// Makes a key pair, and keeps it in `folder` if there is one.
    pub(super) fn make(folder: Option<&Path>) -> io::Result<Self> {
        let pair = rsa::KeyPair::generate(KeySize::Rsa2048).map_err(io::Error::other)?;
        if let Some(folder) = folder {
            let der = pair.as_der().map_err(io::Error::other)?;
            keep(folder, der.as_ref()).map_err(|error| about(&folder.join(NAME), error))?;
        }
        Self::new(pair)
    }

    /// The signature of `text` (RSASSA-PKCS1-v1_5 with SHA-256).
    pub(super) fn sign(&self, text: &[u8]) -> io::Result<Vec<u8>> {
        let mut signature = vec![0; self.pair.public_modulus_len()];
        self.pair
            .sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), text, &mut signature)
            .map_err(io::Error::other)?;
        Ok(signature)
    }

    fn new(pair: RsaKeyPair) -> io::Result<Self> {
        let (modulus, exponent) = numbers(pair.public_key().as_ref())
            .ok_or_else(|| io::Error::other("the public key is not two numbers"))?;
        let modulus = URL_SAFE_NO_PAD.encode(modulus);
        let exponent = URL_SAFE_NO_PAD.encode(exponent);
        let shown = format!(r#"{{"e":"{exponent}","kty":"RSA","n":"{modulus}"}}"#);
        let id = URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, shown.as_bytes()));
        Ok(Self { pair, id, modulus, exponent })
    }
}

/// Writes the file under another name first, so that half a key is never found under its own.
fn keep(folder: &Path, der: &[u8]) -> io::Result<()> {
    let (new, path) = (folder.join(NAME_NEW), folder.join(NAME));
    match std::fs::remove_file(&new) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
        _ => {}
    }
    let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
    file.write_all(pem(der).as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&new, &path)?;
    File::open(folder)?.sync_all()
}

fn pem(der: &[u8]) -> String {
    const LINE: usize = 64;
    let base64 = STANDARD.encode(der);
    let mut text = format!("{BEGIN}\n");
    let mut rest = base64.as_str();
    while !rest.is_empty() {
        let (line, behind) = rest.split_at(rest.len().min(LINE));
        text.push_str(line);
        text.push('\n');
        rest = behind;
    }
    text + END + "\n"
}

/// Modulus and exponent of a DER sequence of the two, without leading zeros.
fn numbers(der: &[u8]) -> Option<(&[u8], &[u8])> {
    const SEQUENCE: u8 = 0x30;
    let (both, _) = take(der, SEQUENCE)?;
    let (modulus, rest) = take_number(both)?;
    let (exponent, _) = take_number(rest)?;
    Some((modulus, exponent))
}

fn take_number(der: &[u8]) -> Option<(&[u8], &[u8])> {
    const INTEGER: u8 = 0x02;
    let (number, rest) = take(der, INTEGER)?;
    let zeros = number.iter().take_while(|byte| **byte == 0).count();
    Some((number.get(zeros..)?, rest))
}

/// The content of the value that `der` begins with, and what is behind it.
fn take(der: &[u8], tag: u8) -> Option<(&[u8], &[u8])> {
    let (&found, rest) = der.split_first()?;
    let (&first, rest) = rest.split_first()?;
    let (length, rest) = if first < 0x80 {
        (usize::from(first), rest)
    } else {
        let (digits, rest) = rest.split_at_checked(usize::from(first & 0x7f))?;
        let length = digits.iter().try_fold(0_usize, |length, byte| {
            length.checked_mul(256).map(|length| length | usize::from(*byte))
        });
        (length?, rest)
    };
    (found == tag).then(|| rest.split_at_checked(length)).flatten()
}

fn about(path: &Path, error: impl std::fmt::Display) -> io::Error {
    io::Error::other(format!("key file {}: {error}", path.display()))
}
