//! Where a gateway's stream begins, and the stream as Server-Sent Events.

use std::convert::Infallible;

use broker::{LiveStart, LiveStream};
use bytes::Bytes;
use domain::{Offset, TopicName};
use futures::stream::unfold;
use http::header::{CACHE_CONTROL, CONTENT_TYPE};
use http::{HeaderMap, HeaderName, HeaderValue, Response};
use http_body::Frame;
use http_body_util::StreamBody;
use tonic::body::Body;

use super::fault::Fault;
use super::query::{Query, number};
use super::{Result, show};

/// What a browser sends when it connects again.
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");

/// What a stream of events is.
pub(super) const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");

/// Where the stream starts. `Last-Event-ID` knows better than the address, which is the same each
/// time a client connects again.
pub(super) fn start(query: Option<&str>, headers: &HeaderMap) -> Result<LiveStart> {
    let mut query = Query::read(query, &["sequence", "topic", "offset"])?;
    let sequence = query.number("sequence")?;
    let offset = query.number("offset")?.map(Offset);
    let topic = query.take("topic").map(|name| TopicName::parse("topic", &name)).transpose()?;
    if sequence.is_some() && offset.is_some() {
        return Err(Fault::argument("offset", "give a sequence or an offset, not both"));
    }
    if topic.is_some() && offset.is_none() {
        return Err(Fault::argument("offset", "is required with a topic"));
    }
    let last = headers.get(LAST_EVENT_ID).map(|last| last.to_str().unwrap_or("?"));
    if let Some(last) = last.filter(|last| !last.is_empty()) {
        return Ok(LiveStart::Sequence(number("Last-Event-ID", last)?));
    }
    Ok(match (sequence, offset) {
        (Some(sequence), _) => LiveStart::Sequence(sequence),
        (None, Some(offset)) => LiveStart::Offset(topic, offset),
        (None, None) => LiveStart::Last,
    })
}

/// The stream as Server-Sent Events: one event for each frame, one write for all that are there.
pub(super) fn events(stream: LiveStream) -> Response<Body> {
    let writes = unfold(stream, |mut stream| async move {
        let frames = stream.next().await?;
        let mut out = Vec::new();
        for frame in frames {
            out.extend_from_slice(format!("id: {}\ndata: ", frame.sequence).as_bytes());
            show::put_frame(&mut out, &frame);
            out.extend_from_slice(b"\n\n");
        }
        Some((Ok::<_, Infallible>(Frame::data(Bytes::from(out))), stream))
    });
    let mut response = Response::new(Body::new(StreamBody::new(writes)));
    let headers = response.headers_mut();
    headers.insert(CONTENT_TYPE, EVENTS);
    headers.insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    // Proxies that gather answers would keep frames back.
    headers.insert("x-accel-buffering", HeaderValue::from_static("no"));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn begin(query: &str, last: Option<&'static str>) -> Result<LiveStart> {
        let last = last.map(|last| (LAST_EVENT_ID, HeaderValue::from_static(last)));
        start(Some(query), &last.into_iter().collect())
    }

    #[test]
    fn a_stream_begins_where_it_is_told_to() {
        let topic = TopicName::parse("topic", "projects/p/topics/changes").unwrap();
        assert_eq!(begin("", None).unwrap(), LiveStart::Last);
        assert_eq!(begin("", Some("")).unwrap(), LiveStart::Last);
        assert_eq!(begin("sequence=7", None).unwrap(), LiveStart::Sequence(7));
        assert_eq!(begin("sequence=7", Some("9")).unwrap(), LiveStart::Sequence(9));
        assert_eq!(begin("offset=7", None).unwrap(), LiveStart::Offset(None, Offset(7)));
        let both = begin("offset=7&topic=projects/p/topics/changes", None).unwrap();
        assert_eq!(both, LiveStart::Offset(Some(topic), Offset(7)));
    }

    #[test]
    fn bad_beginnings_are_refused_by_name() {
        for (query, last, field) in [
            ("sequence=x", None, "sequence"),
            ("sequence=-1", None, "sequence"),
            ("offset=1.5", None, "offset"),
            ("offset=1&sequence=1", None, "offset"),
            ("topic=projects/p/topics/changes", None, "offset"),
            ("topic=t&offset=1", None, "topic"),
            ("from=1", None, "from"),
            ("", Some("x"), "Last-Event-ID"),
        ] {
            let fault = begin(query, last).unwrap_err();
            assert_eq!((fault.status.as_u16(), fault.field.as_deref()), (400, Some(field)));
        }
    }
}
