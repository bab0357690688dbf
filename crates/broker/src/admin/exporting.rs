//! What is looked at when someone says which bucket a subscription writes to.

use domain::export::CloudStorage;

use super::Admin;
use crate::error::Result;

impl Admin {
    /// Refuses a bucket where the server has no place for any. What is not changed stays.
    pub(super) fn check_bucket(
        &self,
        before: Option<&domain::Subscription>,
        after: &domain::Subscription,
    ) -> Result<()> {
        let old = before.and_then(|before| before.cloud_storage.as_ref());
        if old == after.cloud_storage.as_ref() {
            return Ok(());
        }
        self.dependants.export.check_place(after)
    }

    /// Puts on record that a subscription writes elsewhere or otherwise than before.
    pub(super) fn audit_export(
        &self,
        before: Option<&domain::Subscription>,
        after: &domain::Subscription,
    ) {
        let old = before.and_then(|before| before.cloud_storage.as_ref());
        let new = after.cloud_storage.as_ref();
        if old != new {
            let details = format!("{} -> {}", shown(old), shown(new));
            self.host.auditor.record("change export", after.name.to_string(), Some(details));
        }
    }
}

fn shown(storage: Option<&CloudStorage>) -> String {
    match storage {
        Some(CloudStorage { bucket, prefix, .. }) => format!("{bucket}/{prefix}"),
        None => "none".to_owned(),
    }
}
