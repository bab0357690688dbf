//! `google.pubsub.v1.SchemaService`: the one call of it that there is.

use std::future::{Ready, ready};

use http::Request;
use tonic::codec::CompressionEncoding;
use tonic::server::{Grpc, UnaryService};
use tonic::{Response, Status};
use wire::codec::Counting;
use wire::pubsub::{ListSchemasRequest, ListSchemasResponse};

use crate::api::Api;
use crate::gate::Making;
use crate::net::Paced;

/// Lists the schemas.
struct ListSchemas(Api);

impl UnaryService<ListSchemasRequest> for ListSchemas {
    type Response = ListSchemasResponse;
    type Future = Ready<Result<Response<ListSchemasResponse>, Status>>;

    fn call(&mut self, request: tonic::Request<ListSchemasRequest>) -> Self::Future {
        let listed = self.0.list_schemas(request.get_ref());
        ready(listed.map(Response::new).map_err(Status::from))
    }
}

/// Answers `ListSchemas`.
pub(super) fn list(api: Api, request: Request<Paced>) -> Making {
    Box::pin(async move {
        let codec = Counting::<ListSchemasResponse, ListSchemasRequest>::default();
        let mut grpc = Grpc::new(codec).accept_compressed(CompressionEncoding::Gzip);
        Ok(grpc.unary(ListSchemas(api), request).await)
    })
}
