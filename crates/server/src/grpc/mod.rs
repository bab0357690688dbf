//! gRPC: which service a call is for, and what is special about the transport.

mod live;
mod publisher;
mod streaming_pull;
mod subscriber;
mod warnings;

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;

use domain::limits::REQUEST_BYTES_MAX;
use http::{Request, Response, header};
use hyper::body::Incoming;
use tonic::body::Body;
use tonic::codec::CompressionEncoding;
use tonic::service::Routes;
use tonic::{Code, Status};
use tonic_health::pb::health_server::HealthServer;
use tonic_health::server::{HealthReporter, HealthService};
use tower::Service as _;
use wire::live::live_server::LiveServer;
use wire::pubsub::publisher_server::PublisherServer;
use wire::pubsub::subscriber_server::SubscriberServer;

use warnings::Warnings;

use crate::api::Api;
use crate::net::Paced;

/// What calls of the services of Pub/Sub and of ours are answered with.
#[derive(Clone)]
pub(crate) struct Service {
    api: Api,
    /// How long a stream may take to send its first request.
    first_request_timeout: Duration,
}

/// All gRPC services of the port.
#[derive(Clone)]
pub(crate) struct Grpc {
    publisher: PublisherServer<Service>,
    subscriber: SubscriberServer<Service>,
    live: LiveServer<Service>,
    /// Health and reflection, which are not called often enough to have a way of their own.
    others: Routes,
    body_timeout: Duration,
}

/// The services whose health is reported, besides the server as a whole.
pub(crate) const SERVICES: [&str; 3] =
    ["google.pubsub.v1.Publisher", "google.pubsub.v1.Subscriber", "postrider.live.v1.Live"];

const PUBLISHER: &str = "/google.pubsub.v1.Publisher/";
const SUBSCRIBER: &str = "/google.pubsub.v1.Subscriber/";
const LIVE: &str = "/postrider.live.v1.Live/";
const LIVE_STREAM: &str = "/postrider.live.v1.Live/Stream";
const STREAMING_PULL: &str = "/google.pubsub.v1.Subscriber/StreamingPull";

/// Whether a request is a gRPC call, whatever it is for.
pub(crate) fn is_grpc<B>(request: &Request<B>) -> bool {
    let kind = request.headers().get(header::CONTENT_TYPE);
    kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"))
}

/// Reflection's own description cannot be read, which a test excludes.
pub(crate) type ReflectionError = tonic_reflection::server::Error;

impl Grpc {
    pub(crate) fn new(
        api: Api,
        health: &HealthReporter,
        body_timeout: Duration,
    ) -> Result<Self, ReflectionError> {
        let service = Service { api, first_request_timeout: body_timeout };
        let publisher = PublisherServer::new(service.clone())
            .accept_compressed(CompressionEncoding::Gzip)
            .max_decoding_message_size(REQUEST_BYTES_MAX);
        let live = LiveServer::new(service.clone()).max_decoding_message_size(REQUEST_BYTES_MAX);
        let subscriber = SubscriberServer::new(service)
            .accept_compressed(CompressionEncoding::Gzip)
            .max_decoding_message_size(REQUEST_BYTES_MAX);
        let health = HealthServer::new(HealthService::from_health_reporter(health.clone()));
        let others = Routes::new(health)
            .add_service(describe().build_v1()?)
            .add_service(describe().build_v1alpha()?)
            .prepare();
        Ok(Self { publisher, subscriber, live, others, body_timeout })
    }

    /// Hands a call to its service. No layers in between: this is the hot path.
    pub(crate) fn call(&self, request: Request<Incoming>) -> Answer {
        let path = request.uri().path();
        if path.starts_with(PUBLISHER) {
            let request = self.paced(request, Some(self.body_timeout));
            Answer(self.publisher.clone().call(request))
        } else if path.starts_with(SUBSCRIBER) {
            // A stream is silent while its client has nothing to say; pings watch over it.
            let pause_max = (path != STREAMING_PULL).then_some(self.body_timeout);
            let request = self.paced(request, pause_max);
            Answer(self.subscriber.clone().call(request))
        } else if path.starts_with(LIVE) {
            let pause_max = (path != LIVE_STREAM).then_some(self.body_timeout);
            let request = self.paced(request, pause_max);
            Answer(self.live.clone().call(request))
        } else {
            let request = self.paced(request, None);
            Answer(Box::pin(self.others.clone().call(request)))
        }
    }

    fn paced(&self, request: Request<Incoming>, pause_max: Option<Duration>) -> Request<Paced> {
        request.map(|body| Paced::new(body, pause_max))
    }
}

fn describe() -> tonic_reflection::server::Builder<'static> {
    tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(wire::FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
}

/// The answer to a request, in the making.
pub(crate) struct Answer(
    pub(crate) Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>,
);

impl Future for Answer {
    type Output = Result<Response<Body>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Ok(response) = ready!(self.0.as_mut().poll(context));
        Poll::Ready(Ok(Warnings::send(as_google_says(response))))
    }
}

/// The transport calls a request that is too long out of range; Google calls it invalid.
fn as_google_says(response: Response<Body>) -> Response<Body> {
    match response.extensions().get::<Status>() {
        Some(status) if status.code() == Code::OutOfRange => {
            let problem = format!("the request is longer than {REQUEST_BYTES_MAX} bytes");
            Status::invalid_argument(problem).into_http()
        }
        _ => response,
    }
}
