//! What is not built says so in words.

use tonic::Code;
use tonic::transport::Channel;
use wire::iam::GetIamPolicyRequest;
use wire::iam::iam_policy_client::IamPolicyClient;

use crate::rig::Rig;

#[tokio::test]
async fn services_that_are_not_built_say_what_is_not_there() {
    let rig = Rig::start("memory").await;
    let channel = Channel::from_shared(format!("http://{}", rig.address)).unwrap();
    let channel = channel.connect().await.unwrap();
    let mut policies = IamPolicyClient::new(channel);
    let refused = policies.get_iam_policy(GetIamPolicyRequest::default()).await.unwrap_err();
    assert_eq!(refused.code(), Code::Unimplemented);
    assert!(refused.message().contains("no access policies yet"), "{refused}");

    let refused = rig.get("/v1/projects/p/topics/t:getIamPolicy").await;
    let refused = refused.refused(501, "UNIMPLEMENTED");
    assert!(refused.contains("no access policies yet"), "{refused}");
    rig.stop().await;
}
