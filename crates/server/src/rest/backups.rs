//! `PUT /v1/backups/{name}`.

use serde::Deserialize;
use serde_json::{Value, json};
use wire::json::from_value;

use crate::api::Api;
use crate::status::Result;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    name: String,
}

/// Makes a backup.
pub(super) async fn make(api: &Api, request: Value) -> Result<Value> {
    let Request { name } = from_value(request)?;
    let made = api.backup(&name).await?;
    Ok(json!({
        "name": made.name,
        "folder": made.folder,
        "files": made.copied.files,
        "bytes": made.copied.bytes.to_string(),
        "seconds": made.duration.as_secs_f64(),
    }))
}
