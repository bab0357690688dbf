//! The body of a request: read within bounds of size, time and memory, and unpacked.

use std::io::Read as _;

use bytes::{Bytes, BytesMut};
use domain::limits::JSON_BYTES_MAX;
use flate2::read::MultiGzDecoder;
use http::HeaderMap;
use http::header::CONTENT_ENCODING;
use http_body::Body as _;
use http_body_util::BodyExt;
use tonic::Code;
use wire::allowance;

use crate::net::{Broken, Exhausted, Paced};
use crate::status::{Refusal, Result};

/// How a body is packed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Packing {
    None,
    Gzip,
}

/// The text of a body; `None` = it is empty. There is memory for the tree that is made of it, which
/// is about as large.
pub(crate) async fn read_text(headers: &HeaderMap, body: Paced) -> Result<Option<Bytes>> {
    let packing = packing(headers)?;
    let mut text = read(body).await?;
    if text.is_empty() {
        return Ok(None);
    }
    if packing == Packing::Gzip {
        text = unpack(&text)?;
    }
    allowance::take(text.len())?;
    Ok(Some(text))
}

fn packing(headers: &HeaderMap) -> Result<Packing> {
    let mut given = headers.get_all(CONTENT_ENCODING).iter();
    let (first, second) = (given.next(), given.next());
    let Some(first) = first else { return Ok(Packing::None) };
    let is = |word: &str| first.as_bytes().eq_ignore_ascii_case(word.as_bytes());
    match second {
        None if is("gzip") || is("x-gzip") => Ok(Packing::Gzip),
        None if is("identity") => Ok(Packing::None),
        _ => {
            let problem = "content-encoding: only gzip is supported";
            Err(Refusal::new(Code::InvalidArgument, problem))
        }
    }
}

/// Reads a whole body.
async fn read(mut body: Paced) -> Result<Bytes> {
    let announced = usize::try_from(body.size_hint().lower()).unwrap_or(usize::MAX);
    if announced > JSON_BYTES_MAX {
        return Err(too_long());
    }
    // What cannot be kept is not read.
    if announced > allowance::left() {
        return Err(Exhausted.into());
    }
    let mut text = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(|error| broken(&*error))?.into_data() else { continue };
        if text.len().saturating_add(data.len()) > JSON_BYTES_MAX {
            return Err(too_long());
        }
        if text.is_empty() && body.is_end_stream() {
            return Ok(data);
        }
        text.reserve(data.len().max(announced.saturating_sub(text.len())));
        text.extend_from_slice(&data);
    }
    Ok(text.freeze())
}

fn broken(error: &(dyn std::error::Error + Send + Sync + 'static)) -> Refusal {
    match error.downcast_ref::<Broken>() {
        Some(broken) => Refusal::new(broken.code(), broken.to_string()),
        None => Refusal::new(Code::Cancelled, format!("the body could not be read: {error}")),
    }
}

/// Unpacks a body step by step: a short one cannot make a long one that nobody has room for.
fn unpack(packed: &[u8]) -> Result<Bytes> {
    let mut text = BytesMut::new();
    let mut step = [0; 16 << 10];
    let mut unpacked = MultiGzDecoder::new(packed);
    loop {
        let count = unpacked.read(&mut step).map_err(|error| {
            let problem = format!("the body is not well-formed gzip: {error}");
            Refusal::new(Code::InvalidArgument, problem)
        })?;
        if count == 0 {
            return Ok(text.freeze());
        }
        if text.len() + count > JSON_BYTES_MAX {
            return Err(too_long());
        }
        allowance::take(count)?;
        text.extend_from_slice(step.get(..count).unwrap_or_default());
    }
}

fn too_long() -> Refusal {
    let problem = format!("the body is longer than {JSON_BYTES_MAX} bytes");
    Refusal::new(Code::InvalidArgument, problem)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;
    use http::HeaderValue;

    use super::*;

    fn pack(text: &[u8]) -> Vec<u8> {
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(text).unwrap();
        packed.finish().unwrap()
    }

    #[test]
    fn a_packed_body_is_unpacked_within_bounds() {
        assert_eq!(&unpack(&pack(b"{\"a\":1}")).unwrap()[..], b"{\"a\":1}");
        let long = pack(&vec![b' '; JSON_BYTES_MAX + 1]);
        assert!(long.len() < JSON_BYTES_MAX / 100);
        assert_eq!(unpack(&long).unwrap_err().code, Code::InvalidArgument);
        let (refused, held) = allowance::with(0, 1 << 20, || unpack(&long));
        assert_eq!(refused.unwrap_err().code, Code::ResourceExhausted);
        assert!(held <= 1 << 20);
        for broken in [&b"{}"[..], &pack(b"{}")[..12], &[0x1f, 0x8b, 8]] {
            assert_eq!(unpack(broken).unwrap_err().code, Code::InvalidArgument, "{broken:?}");
        }
    }

    #[test]
    fn other_packings_are_refused() {
        let packed = |values: &[&'static str]| {
            let values = values.iter().map(|value| HeaderValue::from_static(value));
            packing(&values.map(|value| (CONTENT_ENCODING, value)).collect())
        };
        assert_eq!(packed(&[]), Ok(Packing::None));
        assert_eq!(packed(&["identity"]), Ok(Packing::None));
        assert_eq!(packed(&["GZIP"]), Ok(Packing::Gzip));
        assert_eq!(packed(&["x-gzip"]), Ok(Packing::Gzip));
        for other in [&["br"][..], &["gzip, gzip"], &["gzip", "gzip"], &[""]] {
            assert_eq!(packed(other).unwrap_err().code, Code::InvalidArgument, "{other:?}");
        }
    }
}
