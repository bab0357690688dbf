//! gRPC: which service a call is for, and what is special about the transport.

mod called;
mod framed;
mod live;
mod publisher;
mod schemas;
mod streaming_pull;
mod subscriber;
mod warnings;

use std::time::Duration;

use domain::limits::{ACK_REQUEST_BYTES_MAX, REQUEST_BYTES_MAX};
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
use wire::pubsub::schema_service_server::SchemaServiceServer;
use wire::pubsub::subscriber_server::SubscriberServer;

use called::Called;
use framed::Framed;
use warnings::Warnings;

use crate::api::Api;
use crate::gate::Answer;
use crate::net::{Charge, Pace, Paced};
use crate::status::Refusal;

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
    schemas: SchemaServiceServer<Service>,
    live: LiveServer<Service>,
    /// Health and reflection, which are not called often enough to need a fast path.
    others: Routes,
    pace: Pace,
}

/// The services whose health is reported, besides the server as a whole.
pub(crate) const SERVICES: [&str; 4] = [
    "google.pubsub.v1.Publisher",
    "google.pubsub.v1.Subscriber",
    "google.pubsub.v1.SchemaService",
    "postrider.live.v1.Live",
];

/// Bytes of a call of the Subscriber, at most: ack ids are the longest it takes, and the transport
/// keeps as much for as long as a stream is open.
const SUBSCRIBER_BYTES_MAX: usize = 4 * ACK_REQUEST_BYTES_MAX;

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
        pace: Pace,
    ) -> Result<Self, ReflectionError> {
        let service = Service { api, first_request_timeout: pace.pause_max };
        let publisher = PublisherServer::new(service.clone())
            .accept_compressed(CompressionEncoding::Gzip)
            .max_decoding_message_size(REQUEST_BYTES_MAX);
        let schemas = SchemaServiceServer::new(service.clone())
            .accept_compressed(CompressionEncoding::Gzip)
            .max_decoding_message_size(REQUEST_BYTES_MAX);
        let live = LiveServer::new(service.clone()).max_decoding_message_size(REQUEST_BYTES_MAX);
        let subscriber = SubscriberServer::new(service)
            .accept_compressed(CompressionEncoding::Gzip)
            .max_decoding_message_size(SUBSCRIBER_BYTES_MAX);
        let health = HealthServer::new(HealthService::from_health_reporter(health.clone()));
        let others = Routes::new(health)
            .add_service(describe().build_v1()?)
            .add_service(describe().build_v1alpha()?)
            .prepare();
        Ok(Self { publisher, subscriber, schemas, live, others, pace })
    }

    /// Hands a call to its service. No layers in between: this is the hot path.
    pub(crate) fn call(&self, request: Request<Incoming>, charge: Charge) -> Answer {
        let path = request.uri().path();
        match Called::find(path) {
            Called::Publisher => {
                let request = request.map(|body| Paced::call(body, self.pace));
                Answer::new(self.publisher.clone().call(request), Some(charge))
            }
            Called::Subscriber => {
                let request = request.map(|body| Paced::call(body, self.pace));
                Answer::new(self.subscriber.clone().call(request), Some(charge))
            }
            Called::StreamingPull => {
                let request = request.map(|body| Paced::stream(body, charge));
                Answer::new(self.subscriber.clone().call(request), None)
            }
            Called::Live => {
                let request = request.map(|body| Paced::call(body, self.pace));
                Answer::new(self.live.clone().call(request), Some(charge))
            }
            Called::LiveStream => {
                let request = request.map(|body| Paced::stream(body, charge));
                Answer::new(self.live.clone().call(request), None)
            }
            Called::Schemas => {
                let request = request.map(|body| Paced::call(body, self.pace));
                Answer::new(self.schemas.clone().call(request), Some(charge))
            }
            Called::Other => {
                let request = request.map(|body| Paced::stream(body, charge));
                Answer::new(Box::pin(self.others.clone().call(request)), None)
            }
            Called::Missing(service, call) => {
                let refusal = Refusal::no_such_call(service, call);
                Answer::ready(Status::from(refusal).into_http())
            }
        }
    }
}

fn describe() -> tonic_reflection::server::Builder<'static> {
    tonic_reflection::server::Builder::configure()
        .register_encoded_file_descriptor_set(wire::FILE_DESCRIPTOR_SET)
        .register_encoded_file_descriptor_set(tonic_health::pb::FILE_DESCRIPTOR_SET)
}

/// What is said about every answer before it is sent.
pub(crate) fn finish(response: Response<Body>) -> Response<Body> {
    Warnings::send(Framed::put(as_google_says(response)))
}

/// The transport calls a request that is too long out of range; Google calls it invalid.
fn as_google_says(response: Response<Body>) -> Response<Body> {
    match response.extensions().get::<Status>() {
        Some(status) if status.code() == Code::OutOfRange => too_long(status).into_http(),
        _ => response,
    }
}

fn too_long(status: &Status) -> Status {
    let bytes = status.message().rsplit("too large: ").next().unwrap_or_default();
    Status::invalid_argument(format!("the request is too long: {bytes}"))
}
