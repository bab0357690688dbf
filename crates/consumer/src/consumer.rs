//! A handler and all that is done around it, however messages come.

use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::time::Duration;

use futures::FutureExt;
use tokio::time::Instant;

use crate::audit::Audit;
use crate::forward::Forwarder;
use crate::log::{Lines, Stdout, Template};
use crate::metrics::Metrics;
use crate::rules::{Answer, Level, Rules, Settle, Way};
use crate::{Failure, Handled, Handler, Known, Message, Outcome, Settings, StartError};

/// A handler with its settings. Cheap to clone; all clones share log and metrics.
///
/// Give it to `pull::run`, `push::router` or `push::Server`.
pub struct Consumer<H> {
    inner: Arc<Inner<H>>,
}

struct Inner<H> {
    handler: H,
    settings: Settings,
    known: Known,
    rules: Rules,
    lines: Arc<dyn Lines>,
    template: Template,
    metrics: Arc<Metrics>,
    audit: Option<Audit>,
}

impl<H> Clone for Consumer<H> {
    fn clone(&self) -> Self {
        Self { inner: Arc::clone(&self.inner) }
    }
}

impl<H: Handler> Consumer<H> {
    /// A consumer that writes its log lines to standard output. Refuses settings with which
    /// poison would come again forever.
    pub fn new(handler: H, settings: Settings, known: Known) -> Result<Self, StartError> {
        Self::with_lines(handler, settings, known, Arc::new(Stdout::default()))
    }

    /// A consumer that writes its log lines elsewhere.
    pub fn with_lines(
        handler: H,
        settings: Settings,
        known: Known,
        lines: Arc<dyn Lines>,
    ) -> Result<Self, StartError> {
        let rules = settings.rules(&known);
        rules.check()?;
        if settings.handle_timeout.is_zero() {
            let problem = "0 s, but a handler needs time: set one second or more".to_owned();
            return Err(StartError::Setting { field: "handle_timeout", problem });
        }
        let audit = settings.audit.as_deref().map(Audit::open).transpose()?;
        let metrics = Arc::new(Metrics::default());
        let template = Template::new(&settings, &known);
        let inner = Inner { handler, settings, known, rules, lines, template, metrics, audit };
        Ok(Self { inner: Arc::new(inner) })
    }

    /// What was counted so far.
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.inner.metrics
    }

    /// What is known about the subscription.
    pub fn known(&self) -> &Known {
        &self.inner.known
    }

    pub(crate) fn rules(&self) -> Rules {
        self.inner.rules
    }

    /// Decodes and handles; a panic is transient.
    pub(crate) async fn handle(&self, message: &Message) -> Handled {
        let work = async {
            match self.inner.handler.decode(message) {
                Ok(event) => self.inner.handler.handle(event, message).await,
                Err(failure) => Outcome::Poison(failure).into(),
            }
        };
        let handled = AssertUnwindSafe(work).catch_unwind().await;
        handled.unwrap_or_else(|panic| Outcome::Transient(panicked(panic.as_ref())).into())
    }

    /// What `handling` comes to; if it takes too long it is dropped, and the outcome is transient.
    pub(crate) async fn in_time(
        &self,
        began: Instant,
        handling: impl Future<Output = Handled>,
    ) -> Handled {
        let timeout = self.inner.settings.handle_timeout;
        match tokio::time::timeout_at(began + timeout, handling).await {
            Ok(handled) => handled,
            Err(_) => Outcome::Transient(too_slow(timeout)).into(),
        }
    }

    /// Handles the message and does what the rules say: poison is forwarded or kept for audit,
    /// the line is written, the message is counted. Settling it is left to the caller.
    pub(crate) async fn run(&self, message: &Message, way: Way) -> Done {
        let began = Instant::now();
        let handled = self.in_time(began, self.handle(message)).await;
        self.finish(message, way, handled, began.elapsed(), None).await
    }

    /// As `finish`, without waiting for anything: `None` if poison must be put somewhere first.
    pub(crate) fn finish_now(
        &self,
        message: &Message,
        way: Way,
        handled: &Handled,
        took: Duration,
    ) -> Option<Answer> {
        let answer = self.inner.rules.answer(&handled.outcome, way);
        if answer.forward || answer.audit {
            return None;
        }
        self.tell(&Settled { message, way, handled, answer, took });
        Some(answer)
    }

    /// Does what the rules say of a message that was handled so.
    pub(crate) async fn finish(
        &self,
        message: &Message,
        way: Way,
        mut handled: Handled,
        took: Duration,
        forwarder: Option<&Forwarder>,
    ) -> Done {
        let mut answer = self.inner.rules.answer(&handled.outcome, way);
        if let Outcome::Poison(failure) = &mut handled.outcome
            && let Err(problem) = self.keep(message, failure, answer, forwarder).await
        {
            // Nothing keeps the message yet, so it must not be acked.
            failure.message = format!("{}; and {problem}", failure.message);
            answer = given_back(way);
        }
        self.tell(&Settled { message, way, handled: &handled, answer, took });
        Done { handled, answer }
    }

    /// Puts poison where it is kept, if the answer asks for that.
    async fn keep(
        &self,
        message: &Message,
        failure: &Failure,
        answer: Answer,
        forwarder: Option<&Forwarder>,
    ) -> Result<(), String> {
        if answer.forward {
            let Some(forwarder) = forwarder else {
                return Err("its dead letter topic is unknown: set dead_letter_topic".to_owned());
            };
            return forwarder.forward(message, failure).await;
        }
        match &self.inner.audit {
            Some(audit) if answer.audit => audit
                .append(message, failure, &self.inner.known)
                .map_err(|error| format!("its audit record could not be written: {error}")),
            _ => Ok(()),
        }
    }

    /// Writes the one line of a message, and counts it. Where the message itself could not be
    /// read, it is `Message::default()`.
    pub(crate) fn tell(&self, settled: &Settled<'_>) {
        let inner = &*self.inner;
        let level = settled.answer.level;
        if inner.lines.wants(level) {
            inner.lines.write(level, &inner.template.line(settled));
        }
        inner.metrics.count(settled);
    }

    /// Lets out the lines that were told: called before what they tell of is acked or answered.
    pub(crate) fn flush_lines(&self) {
        self.inner.lines.flush();
    }
}

/// What became of a message.
#[derive(Debug)]
pub(crate) struct Done {
    pub(crate) handled: Handled,
    pub(crate) answer: Answer,
}

/// How one delivery of a message ended.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settled<'a> {
    pub(crate) message: &'a Message,
    pub(crate) way: Way,
    pub(crate) handled: &'a Handled,
    pub(crate) answer: Answer,
    pub(crate) took: Duration,
}

/// The answer for a message that is given back, whatever its outcome.
pub(crate) fn given_back(way: Way) -> Answer {
    let settle = match way {
        Way::Push => Settle::Status(500),
        Way::Pull => Settle::Nack,
    };
    refused(settle)
}

/// The answer for a message that is given back so.
pub(crate) fn refused(settle: Settle) -> Answer {
    Answer { settle, forward: false, audit: false, level: Level::Error, retryable: true }
}

fn panicked(panic: &(dyn std::any::Any + Send)) -> Failure {
    let text = panic.downcast_ref::<&str>().copied();
    let text = text.or_else(|| panic.downcast_ref::<String>().map(String::as_str));
    Failure {
        kind: "Panic".to_owned(),
        code: None,
        message: format!("the handler panicked: {}", text.unwrap_or("no text")),
    }
}

fn too_slow(timeout: Duration) -> Failure {
    Failure {
        kind: "Timeout".to_owned(),
        code: None,
        message: format!(
            "the handler took longer than {} s; make it faster, or raise handle_timeout",
            timeout.as_secs_f64()
        ),
    }
}
