//! Warnings about settings, which travel behind the answer: gRPC has no place for them inside.

use http::{HeaderMap, HeaderName, HeaderValue};
use http_body::Frame;
use http_body_util::BodyExt;
use tonic::Response;
use tonic::body::Body;

/// The trailing metadata that holds a warning, one entry for each.
const WARNING: HeaderName = HeaderName::from_static("postrider-warning");

/// Warnings on their way from a call to the end of its answer.
#[derive(Clone)]
pub(super) struct Warnings(Vec<String>);

impl Warnings {
    /// Sends `warnings` along with a call's answer.
    pub(super) fn attach<T>(warnings: Vec<String>, response: &mut Response<T>) {
        if !warnings.is_empty() {
            response.extensions_mut().insert(Self(warnings));
        }
    }

    /// Puts the warnings that a call attached into the trailers of its answer.
    pub(super) fn send(mut response: http::Response<Body>) -> http::Response<Body> {
        let Some(warnings) = response.extensions_mut().remove::<Self>() else { return response };
        response.map(|body| {
            Body::new(body.map_frame(move |frame| match frame.into_trailers() {
                Ok(trailers) => Frame::trailers(warnings.add_to(trailers)),
                Err(frame) => frame,
            }))
        })
    }

    fn add_to(&self, mut trailers: HeaderMap) -> HeaderMap {
        for warning in &self.0 {
            // What a header cannot hold is not worth losing the answer for.
            if let Ok(value) = HeaderValue::from_str(warning) {
                trailers.append(WARNING, value);
            }
        }
        trailers
    }
}

#[cfg(test)]
mod tests {
    use http_body_util::{Empty, Full};

    use super::*;

    /// The trailers of a call's answer once it was sent.
    async fn trailers(call: Response<Body>) -> Option<HeaderMap> {
        let (_, body, extensions) = call.into_parts();
        let mut answer = http::Response::new(body);
        *answer.extensions_mut() = extensions;
        let sent = Warnings::send(answer).into_body().collect().await;
        sent.unwrap().trailers().cloned()
    }

    fn with_trailers() -> Body {
        let status = HeaderMap::from_iter([(
            HeaderName::from_static("grpc-status"),
            HeaderValue::from_static("0"),
        )]);
        Body::new(Full::from("answer").with_trailers(async { Some(Ok(status)) }))
    }

    #[tokio::test]
    async fn each_warning_is_an_entry_of_the_trailers() {
        let mut call = Response::new(with_trailers());
        let warnings = vec!["one".to_owned(), "two".to_owned(), "not\na header".to_owned()];
        Warnings::attach(warnings, &mut call);
        let trailers = trailers(call).await.unwrap();
        let warnings: Vec<_> = trailers.get_all(WARNING).iter().collect();
        assert_eq!(warnings, ["one", "two"]);
        assert_eq!(trailers["grpc-status"], "0");
    }

    #[tokio::test]
    async fn an_answer_without_warnings_is_left_alone() {
        let mut call = Response::new(Body::new(Empty::new()));
        Warnings::attach(Vec::new(), &mut call);
        assert_eq!(trailers(call).await, None);
    }
}
