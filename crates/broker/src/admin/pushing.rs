//! What is looked at when someone says where a subscription pushes.

use domain::Invalid;
use domain::push::{Endpoint, PushConfig};

use super::Admin;
use crate::error::{Error, Result};

const ACCOUNT: &str = "push_config.oidc_token.service_account_email";

impl Admin {
    /// Refuses a token of an account that may not be named. What is not changed stays as it is.
    pub(super) fn check_account(
        &self,
        before: Option<&domain::Subscription>,
        after: &domain::Subscription,
    ) -> Result<()> {
        let Some(push) = &after.push else { return Ok(()) };
        if before.is_some_and(|before| before.push.as_ref() == Some(push)) {
            return Ok(());
        }
        let Some(oidc) = &push.oidc else { return Ok(()) };
        let accounts = &self.host.options.push.oidc_accounts;
        let checked = accounts.check(&oidc.service_account_email);
        checked.map_err(|problem| Error::Forbidden(Invalid::new(ACCOUNT, problem)))
    }

    /// Puts on record that a subscription pushes elsewhere or otherwise than before.
    pub(super) fn audit_push(
        &self,
        before: Option<&domain::Subscription>,
        after: &domain::Subscription,
    ) {
        let old = before.and_then(|before| before.push.as_ref());
        let new = after.push.as_ref();
        let is_signed = |one: &domain::Subscription| one.signing.is_some();
        let was_signed = before.is_some_and(is_signed);
        let headers = before.map(|before| &before.headers);
        let has_new_headers = headers.is_some_and(|headers| *headers != after.headers);
        if old == new && was_signed == is_signed(after) && !has_new_headers {
            return;
        }
        let mut details = format!("{} -> {}", shown(old), shown(new));
        if was_signed != is_signed(after) {
            details.push_str(if is_signed(after) { ", now signed" } else { ", no longer signed" });
        }
        if has_new_headers {
            details.push_str(", other headers");
        }
        self.host.auditor.record("change push", after.name.to_string(), Some(details));
    }
}

/// Where pushes go, without what may be secret.
fn shown(push: Option<&PushConfig>) -> String {
    let Some(push) = push else { return "pull".to_owned() };
    let endpoint = Endpoint::shown(&push.endpoint);
    match &push.oidc {
        Some(oidc) => format!("{endpoint} as {}", oidc.service_account_email),
        None => endpoint,
    }
}
