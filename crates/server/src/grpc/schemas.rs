//! `google.pubsub.v1.SchemaService`.

use tonic::{Request, Response, Status};
use wire::protobuf::Empty;
use wire::pubsub::schema_service_server::SchemaService;
use wire::pubsub::{
    CommitSchemaRequest, CreateSchemaRequest, DeleteSchemaRequest, DeleteSchemaRevisionRequest,
    GetSchemaRequest, ListSchemaRevisionsRequest, ListSchemaRevisionsResponse, ListSchemasRequest,
    ListSchemasResponse, RollbackSchemaRequest, Schema, ValidateMessageRequest,
    ValidateMessageResponse, ValidateSchemaRequest, ValidateSchemaResponse,
};

use super::Service;

#[tonic::async_trait]
impl SchemaService for Service {
    async fn create_schema(
        &self,
        request: Request<CreateSchemaRequest>,
    ) -> Result<Response<Schema>, Status> {
        Ok(Response::new(self.api.create_schema(request.into_inner()).await?))
    }

    async fn get_schema(
        &self,
        request: Request<GetSchemaRequest>,
    ) -> Result<Response<Schema>, Status> {
        Ok(Response::new(self.api.get_schema(request.get_ref())?))
    }

    async fn list_schemas(
        &self,
        request: Request<ListSchemasRequest>,
    ) -> Result<Response<ListSchemasResponse>, Status> {
        Ok(Response::new(self.api.list_schemas(request.get_ref())?))
    }

    async fn list_schema_revisions(
        &self,
        request: Request<ListSchemaRevisionsRequest>,
    ) -> Result<Response<ListSchemaRevisionsResponse>, Status> {
        Ok(Response::new(self.api.list_schema_revisions(request.get_ref())?))
    }

    async fn commit_schema(
        &self,
        request: Request<CommitSchemaRequest>,
    ) -> Result<Response<Schema>, Status> {
        Ok(Response::new(self.api.commit_schema(request.into_inner()).await?))
    }

    async fn rollback_schema(
        &self,
        request: Request<RollbackSchemaRequest>,
    ) -> Result<Response<Schema>, Status> {
        Ok(Response::new(self.api.rollback_schema(request.get_ref()).await?))
    }

    async fn delete_schema_revision(
        &self,
        request: Request<DeleteSchemaRevisionRequest>,
    ) -> Result<Response<Schema>, Status> {
        Ok(Response::new(self.api.delete_schema_revision(request.get_ref()).await?))
    }

    async fn delete_schema(
        &self,
        request: Request<DeleteSchemaRequest>,
    ) -> Result<Response<Empty>, Status> {
        Ok(Response::new(self.api.delete_schema(request.get_ref()).await?))
    }

    async fn validate_schema(
        &self,
        request: Request<ValidateSchemaRequest>,
    ) -> Result<Response<ValidateSchemaResponse>, Status> {
        Ok(Response::new(self.api.validate_schema(request.into_inner()).await?))
    }

    async fn validate_message(
        &self,
        request: Request<ValidateMessageRequest>,
    ) -> Result<Response<ValidateMessageResponse>, Status> {
        Ok(Response::new(self.api.validate_message(request.into_inner()).await?))
    }
}
