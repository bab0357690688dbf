//! `/v1/backups` and `/v1/backups/{name}`.

use serde::Deserialize;
use serde_json::{Value, json};
use wire::json::from_value;

use super::figures::seconds;
use super::postrider::show_time;
use crate::api::Api;
use crate::status::Result;

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Request {
    name: String,
}

/// Lists backups.
pub(super) async fn list(api: &Api) -> Result<Value> {
    let (folder, found) = api.list_backups().await?;
    let shown = found.iter().map(|kept| {
        json!({
            "name": kept.name,
            "folder": folder.join(&kept.name),
            "createTime": show_time(kept.made_at),
            "files": kept.files,
            "bytes": kept.bytes.to_string(),
        })
    });
    Ok(json!({"folder": folder, "backups": shown.collect::<Vec<Value>>()}))
}

/// Deletes a backup.
pub(super) async fn delete(api: &Api, request: Value) -> Result<Value> {
    let Request { name } = from_value(request)?;
    api.delete_backup(&name).await?;
    Ok(json!({}))
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
        "seconds": seconds(made.duration),
    }))
}
