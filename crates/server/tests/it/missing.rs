//! What is not built says so in words, and an empty list of schemas is a list.

use serde_json::json;
use tonic::Code;
use tonic::transport::Channel;
use wire::iam::GetIamPolicyRequest;
use wire::iam::iam_policy_client::IamPolicyClient;
use wire::pubsub::schema_service_client::SchemaServiceClient;
use wire::pubsub::{CreateSchemaRequest, ListSchemasRequest};

use crate::rig::Rig;

#[tokio::test]
async fn services_that_are_not_built_say_what_is_not_there() {
    let rig = Rig::start("memory").await;
    let channel = Channel::from_shared(format!("http://{}", rig.address)).unwrap();
    let channel = channel.connect().await.unwrap();
    let mut schemas = SchemaServiceClient::new(channel.clone());
    let request = ListSchemasRequest { parent: "projects/p".to_owned(), ..Default::default() };
    let listed = schemas.list_schemas(request).await.unwrap().into_inner();
    assert!(listed.schemas.is_empty() && listed.next_page_token.is_empty());
    let refused = schemas.list_schemas(ListSchemasRequest::default()).await.unwrap_err();
    assert_eq!(refused.code(), Code::InvalidArgument, "{refused}");
    let refused = schemas.create_schema(CreateSchemaRequest::default()).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unimplemented);
    assert!(refused.message().contains("no schemas yet"), "{refused}");
    let mut policies = IamPolicyClient::new(channel);
    let refused = policies.get_iam_policy(GetIamPolicyRequest::default()).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unimplemented);
    assert!(refused.message().contains("no access policies yet"), "{refused}");

    assert_eq!(rig.get("/v1/projects/p/schemas").await.ok(), json!({}));
    let refused = rig.get("/v1/projects/p/schemas/s").await.refused(501, "UNIMPLEMENTED");
    assert!(refused.contains("SchemaService/GetSchema"), "{refused}");
    let refused = rig.get("/v1/projects/p/topics/t:getIamPolicy").await;
    let refused = refused.refused(501, "UNIMPLEMENTED");
    assert!(refused.contains("no access policies yet"), "{refused}");
    rig.stop().await;
}
