//! A handler without code: messages are routed, and what comes of them is written.

use crate::effects::Effects;
use crate::firestore::Visibility;
use crate::router::{Routed, Router};
use crate::{Failure, Handled, Handler, Message, Outcome, clock};

/// Routes messages and writes them into a store.
#[derive(Debug)]
pub struct Materializer<E> {
    router: Router,
    effects: E,
    visibility: Option<Visibility>,
}

impl<E: Effects> Materializer<E> {
    /// Writes what `router` says into `effects`.
    pub fn new(router: Router, effects: E) -> Self {
        Self { router, effects, visibility: None }
    }

    /// Records every delivery as well, poison too.
    #[must_use]
    pub fn with_visibility(self, visibility: Visibility) -> Self {
        Self { visibility: Some(visibility), ..self }
    }
}

impl<E: Effects> Handler for Materializer<E> {
    type Event = Box<Routed>;

    /// Never fails: what is poison is recorded too, and its line names the route.
    fn decode(&self, message: &Message) -> Result<Box<Routed>, Failure> {
        Ok(Box::new(self.router.route(message, clock::wall())))
    }

    async fn handle(&self, event: Box<Routed>, message: &Message) -> Handled {
        if let Some(visibility) = &self.visibility
            && let Err(status) = visibility.record(message, clock::wall()).await
        {
            tracing::warn!(message_id = message.id, %status, "a delivery was not recorded");
        }
        let Routed { write, about } = *event;
        let outcome = match write {
            Ok(write) => self.effects.apply(&write).await.into(),
            Err(failure) => Outcome::Poison(failure),
        };
        Handled { outcome, about }
    }
}
