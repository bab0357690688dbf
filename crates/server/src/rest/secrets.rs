//! `/v1/{subscription}:rotateSecret`: a new signing secret, with those before it for a day each.

use domain::Invalid;
use domain::push::Secret;
use serde::Deserialize;
use serde_json::{Value, json};
use wire::json::from_value;

use super::postrider::show_time;
use crate::api::Api;
use crate::status::Result;

pub(super) async fn rotate(api: &Api, request: Value) -> Result<Value> {
    let request: Request = from_value(request)?;
    let secret = request.secret()?;
    let (secret, until) = api.rotate_secret(&request.subscription, secret).await?;
    Ok(json!({"secret": secret.text(), "previousValidUntil": show_time(until)}))
}

#[derive(Default, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
struct Request {
    subscription: String,
    secret: Option<String>,
}

impl Request {
    fn secret(&self) -> Result<Option<Secret>, Invalid> {
        self.secret.as_deref().map(|text| Secret::parse("secret", text)).transpose()
    }
}
