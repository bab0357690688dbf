//! What a change gives of the settings that depend on each other, and how they are joined.

use super::Subscription;
use super::cloud_storage::CloudStorageChange;
use super::policies::{DeadLetterChange, RetryChange};
use super::push_change::{PushChange, PushRetry, SigningAsk};
use crate::backoff::Backoff;
use crate::error::Invalid;
use crate::push::Secret;

/// What a change gives of the settings that depend on each other.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Joined {
    /// The retry policy.
    pub retry_policy: RetryChange,
    /// The dead letter policy.
    pub dead_letter_policy: DeadLetterChange,
    /// How often a message is tried; `Some(None)` = as the dead letter policy says.
    pub attempts_max: Option<Option<u32>>,
    /// Where and in what form messages are pushed.
    pub push: PushChange,
    /// The retry policy and the attempts, given inside the push config; `Some(None)` ends both.
    pub push_retry: Option<Option<PushRetry>>,
    /// Which bucket messages are written to, and how.
    pub cloud_storage: CloudStorageChange,
    /// How pushes are signed.
    pub signing: Option<SigningAsk>,
    /// A secret for the case that signing is turned on without one.
    pub spare_secret: Option<Secret>,
}

impl Joined {
    /// `edited` with what is given here.
    pub(super) fn apply(mut self, edited: Subscription) -> Result<Subscription, Invalid> {
        self.take_push_retry(&edited)?;
        let attempts_max = self.attempts_max.unwrap_or(edited.attempts_max);
        let asked = attempts_max.or(edited.backoff.as_ref().and_then(Backoff::attempts));
        Ok(Subscription {
            retry_policy: self.retry_policy.apply(edited.retry_policy),
            dead_letter_policy: self.dead_letter_policy.apply(edited.dead_letter_policy, asked)?,
            attempts_max,
            push: self.push.apply(edited.push)?,
            cloud_storage: self.cloud_storage.apply(edited.cloud_storage)?,
            signing: match self.signing {
                Some(ask) => ask.apply(edited.signing, self.spare_secret)?,
                None => edited.signing,
            },
            ..edited
        })
    }

    /// Puts what is given inside the push config where it belongs.
    fn take_push_retry(&mut self, current: &Subscription) -> Result<(), Invalid> {
        let Some(retry) = self.push_retry.take() else { return Ok(()) };
        PushRetry::only(self.retry_policy != RetryChange::default())?;
        self.retry_policy.whole = Some(retry.map(|retry| retry.policy));
        let asked = self.attempts_max.flatten();
        let dead_letter = self.dead_letter_policy.attempts_after(current);
        self.attempts_max = Some(match retry {
            Some(retry) => Some(retry.attempts_max(asked, dead_letter)?),
            None => asked,
        });
        Ok(())
    }
}
