//! Exporting for one subscription: leases messages, writes them to an object, and acks them when
//! the object is complete.
//!
//! ```text
//!   room ─► lease ─► into the open object ─┬─► next lease
//!                                          └─► full, old enough, or no more room: complete ─► ack
//! ```
//!
//! There is one consumer and one open object at a time, so messages of a lane are written in order.
//! What the store refuses is no message's fault: its leases are given back, which costs no attempt,
//! and the exporter waits before it leases again. A message that cannot be written as the settings
//! ask fails on its own, and has its attempts counted.

use std::future::poll_fn;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use domain::delivery::{AckId, ConsumerId, Failure, Lease};
use domain::export::{CloudStorage, ExportState, Filling, object_name};
use domain::push::Settlement;
use domain::{Message, message};
use export::{Bucket, Encoder, Outgoing, Upload};
use tokio::sync::Notify;

use super::exports::Shared;
use super::layouts::{Shape, Unfit};
use super::room::Hold;
use crate::consumer::{Leasing, Want};
use crate::error::{Error, Result};
use crate::subscription::Subscription;

/// Messages and bytes that are leased at a time.
const LEASE_RECORDS: usize = 1_000;
const LEASE_BYTES: usize = 1 << 20;
/// A lease outlasts the time an object may be open by this much: the exporter ends it, never the
/// deadline. A store has this long for the last part.
const LEASE_MARGIN: Duration = Duration::from_secs(30 * 60);

/// How long to wait after something that should not happen.
const ERROR_SLEEP: Duration = Duration::from_secs(1);
/// How long to wait after a store failed, doubling up to the longest.
const BACKOFF_MIN: Duration = Duration::from_secs(1);
const BACKOFF_MAX: Duration = Duration::from_secs(60);

/// How a message fails that cannot be written.
const UNFIT: &str = "schema_mismatch";

/// One subscription being exported. Dropping it gives back every lease it has.
pub(super) struct Exporter {
    shared: Arc<Shared>,
    subscription: Arc<Subscription>,
    settings: Arc<domain::Subscription>,
    storage: CloudStorage,
    bucket: Option<Bucket>,
    consumer: ConsumerId,
    leasing: Leasing,
    /// Room for the next leases, kept while they are read from disk.
    hold: Option<Hold>,
    open: Option<Open>,
    /// Leases that are not in the open object yet, the next one last.
    coming: Vec<AckId>,
    /// Failures of the store, one after the other.
    failures: u32,
    /// How many seeks the subscription had done when last checked.
    seeks: u64,
}

/// An object that is being written.
struct Open {
    shape: Shape,
    encoder: Encoder,
    /// `None` while it is being completed.
    upload: Option<Upload>,
    filling: Filling,
    bytes: u64,
    /// Leases of the messages in it.
    leases: Vec<AckId>,
    hold: Hold,
    name: String,
}

/// What an exporter does next.
enum Next {
    /// The settings or the server have changed.
    LookAgain,
    /// The open object is to be completed.
    Complete,
    /// Messages came.
    Leased(Vec<Lease>, Hold),
    /// It cannot lease.
    Refused(Error),
}

impl Exporter {
    /// Starts exporting. `None` if there is nothing to export.
    pub(super) fn new(shared: Arc<Shared>, subscription: Arc<Subscription>) -> Option<Self> {
        let settings = subscription.settings();
        let storage = settings.cloud_storage.clone().filter(|_| settings.is_exported())?;
        let consumer = subscription.open_push_consumer().ok()?;
        Some(Self {
            leasing: Leasing::new(Arc::clone(&subscription)),
            seeks: subscription.seeks(),
            shared,
            subscription,
            settings,
            storage,
            bucket: None,
            consumer,
            hold: None,
            open: None,
            coming: Vec::new(),
            failures: 0,
        })
    }

    /// Exports until the subscription or the server ends it.
    pub(super) async fn run(&mut self, changed: &Notify) {
        if let Err(error) = self.check_bucket().await {
            // Nothing is due yet, so nobody waits: this only tells of it early.
            self.note_failure(error.kind.state(), &error.to_string());
        }
        while self.look_again() {
            if self.shared.is_draining() || self.subscription.serving().is_over() {
                if let Err(error) = self.complete().await {
                    self.fail(&error).await;
                }
                return;
            }
            let done = match self.next(changed).await {
                Next::LookAgain => Ok(()),
                Next::Complete => self.complete().await,
                Next::Leased(leases, hold) => self.take(leases, hold).await,
                Next::Refused(error) => {
                    self.pause_after(&error, changed).await;
                    Ok(())
                }
            };
            if let Err(error) = done {
                let wait = self.fail(&error).await;
                self.sleep(wait, changed).await;
            }
        }
    }

    async fn check_bucket(&mut self) -> Result<(), export::Error> {
        self.bucket()?.check().await
    }

    /// The bucket, which is opened with the first object.
    fn bucket(&mut self) -> Result<Bucket, export::Error> {
        let bucket = match self.bucket.take() {
            Some(bucket) => bucket,
            None => self.shared.bucket(&self.storage.bucket)?,
        };
        self.bucket = Some(bucket.clone());
        Ok(bucket)
    }

    /// Checks the settings again. False: exporting ends here.
    fn look_again(&mut self) -> bool {
        let settings = self.subscription.settings();
        if self.subscription.is_deleted() || !settings.is_exported() {
            return false;
        }
        self.notice_seek();
        if Arc::ptr_eq(&settings, &self.settings) {
            return true;
        }
        if let Some(storage) = settings.cloud_storage.clone().filter(|new| *new != self.storage) {
            // What is in the open object goes where the new settings say.
            self.give_back();
            (self.storage, self.bucket, self.failures) = (storage, None, 0);
            self.subscription.exported().forget_trouble();
        }
        self.settings = settings;
        true
    }

    /// After a seek, messages in the open object may not be this subscription's anymore.
    fn notice_seek(&mut self) {
        let seeks = self.subscription.seeks();
        if std::mem::replace(&mut self.seeks, seeks) != seeks {
            self.give_back();
        }
    }

    /// Waits for what is to be done next.
    async fn next(&mut self, changed: &Notify) -> Next {
        let clock = Arc::clone(&self.shared.runtime.clock);
        let room = Arc::clone(&self.shared.room);
        let until = self.open.as_ref().map(|open| open.filling.until());
        let holds = self.holds_room();
        tokio::select! {
            biased;
            () = changed.notified() => Next::LookAgain,
            () = clock.sleep_until(until.unwrap_or_default()), if until.is_some() => Next::Complete,
            next = poll_fn(|context| self.poll_lease(context)) => next,
            // Others have no room, so that what is kept here for larger parts is sent now.
            () = room.wanted(), if holds => Next::Complete,
        }
    }

    /// Whether the open object has bytes in memory, which completing it frees.
    fn holds_room(&self) -> bool {
        self.open.as_ref().is_some_and(|open| open.hold.bytes() > 0)
    }

    fn poll_lease(&mut self, context: &mut Context<'_>) -> Poll<Next> {
        let hold = match self.hold.take() {
            Some(hold) => hold,
            None => match self.shared.room.hold(LEASE_BYTES, context.waker()) {
                Some(hold) => hold,
                None if self.holds_room() => return Poll::Ready(Next::Complete),
                None => return Poll::Pending,
            },
        };
        match self.leasing.poll_lease(self.consumer, &self.want(), context) {
            Poll::Ready(Ok(leases)) => Poll::Ready(Next::Leased(leases, hold)),
            Poll::Ready(Err(error)) => Poll::Ready(Next::Refused(error)),
            Poll::Pending => {
                // Who only waits for messages takes no room from others.
                self.hold = self.leasing.is_reading().then_some(hold);
                // An object cannot have more messages than the server has room for leases.
                match self.open.is_some() && self.subscription.is_held_back() {
                    true => Poll::Ready(Next::Complete),
                    false => Poll::Pending,
                }
            }
        }
    }

    fn want(&self) -> Want {
        let left = self.open.as_ref().map_or(u64::MAX, |open| open.filling.messages_left());
        let asked = self.storage.limits.messages.unwrap_or(u64::MAX).min(left);
        let records_max = usize::try_from(asked).unwrap_or(usize::MAX).clamp(1, LEASE_RECORDS);
        Want {
            records_max,
            bytes_max: LEASE_BYTES,
            ack_deadline: Some(self.storage.limits.duration + LEASE_MARGIN),
            fetch_records: LEASE_RECORDS,
            fetch_bytes: LEASE_BYTES,
            is_push: true,
            ..Want::default()
        }
    }

    /// Writes what was leased to the open object, and begins others as necessary.
    async fn take(&mut self, leases: Vec<Lease>, mut hold: Hold) -> Result<(), export::Error> {
        self.coming = leases.iter().rev().map(|lease| lease.ack_id).collect();
        self.notice_seek();
        if self.coming.is_empty() {
            return Ok(());
        }
        // Once in the record, once in what is made of it.
        let bytes: usize = leases.iter().map(|lease| lease.record.body.len()).sum();
        hold.set(bytes.saturating_mul(2));
        for lease in leases {
            match Self::read(&lease) {
                Ok(message) => match self.add(&lease, &message).await? {
                    Ok(()) => {}
                    Err(unfit) => return self.refuse(unfit),
                },
                Err(malformed) => return self.refuse(malformed),
            }
        }
        self.flush().await?;
        match self.open.as_ref().is_some_and(|open| open.filling.is_full()) {
            true => self.complete().await,
            false => Ok(()),
        }
    }

    fn read(lease: &Lease) -> Result<Message, Unfit> {
        message::decode(&lease.record.body).map_err(|malformed| malformed.to_string())
    }

    /// Adds the next message to an object that takes it.
    async fn add(
        &mut self,
        lease: &Lease,
        message: &Message,
    ) -> Result<Result<(), Unfit>, export::Error> {
        let format = self.storage.format;
        if self.open.as_ref().is_some_and(|open| !open.shape.fits(format, message)) {
            self.complete().await?;
        }
        let shape = match &self.open {
            Some(open) => Ok(open.shape.clone()),
            None => Shape::of(format, message, &self.shared.schemas),
        };
        let (shape, data) = match shape.and_then(|shape| Ok((shape.data(message)?, shape.clone())))
        {
            Ok((data, shape)) => (shape, data),
            Err(unfit) => return Ok(Err(unfit)),
        };
        let id = lease.record.offset.to_string();
        let subscription = Arc::clone(&self.subscription);
        let outgoing = Outgoing {
            subscription: subscription.name().as_str(),
            id: &id,
            publish_time: lease.record.publish_time,
            attributes: &message.attributes,
            ordering_key: &message.ordering_key,
            data: &data,
        };
        loop {
            if self.open.is_none() {
                self.open = Some(self.begin(shape.clone()).await?);
            }
            let Some(open) = &mut self.open else { continue };
            let record = open.encoder.record(&outgoing);
            let length = open.encoder.length_with(&record);
            if !open.filling.takes(length) {
                self.complete().await?;
                continue;
            }
            open.encoder.add(&record);
            open.filling.note(length);
            open.leases.extend(self.coming.pop());
            return Ok(Ok(()));
        }
    }

    async fn begin(&mut self, shape: Shape) -> Result<Open, export::Error> {
        let now = self.shared.runtime.now();
        let mut unique = [0; 16];
        aws_lc_rs::rand::fill(&mut unique)
            .map_err(|error| export::Error::new(export::Kind::Unavailable, error))?;
        let id: String = unique.iter().map(|byte| format!("{byte:02x}")).collect();
        let name = object_name(&self.storage, now.wall, &id);
        let upload = self.bucket()?.begin(name.clone(), &id).await?;
        let encoder = match &shape.layout {
            None => Encoder::text(),
            Some(layout) => Encoder::avro(Arc::clone(layout), unique),
        };
        Ok(Open {
            shape,
            encoder,
            upload: Some(upload),
            filling: Filling::begin(self.storage.limits, now.moment),
            bytes: 0,
            leases: Vec::new(),
            hold: self.shared.room.nothing(),
            name,
        })
    }

    /// Hands what was made over to the store.
    async fn flush(&mut self) -> Result<(), export::Error> {
        let Some(open) = &mut self.open else { return Ok(()) };
        let (made, Some(upload)) = (open.encoder.take(), &mut open.upload) else { return Ok(()) };
        if made.is_empty() {
            return Ok(());
        }
        open.bytes += made.len() as u64;
        open.hold.set(upload.held_bytes() + made.len());
        upload.write(made).await?;
        open.hold.set(upload.held_bytes());
        Ok(())
    }

    /// Completes the open object, if there is one, and acks what is in it.
    async fn complete(&mut self) -> Result<(), export::Error> {
        self.flush().await?;
        let Some(open) = &mut self.open else { return Ok(()) };
        if let Some(upload) = open.upload.take() {
            upload.complete().await?;
        }
        let Some(open) = self.open.take() else { return Ok(()) };
        self.subscription.ack_exported(self.shared.runtime.now(), &open.leases);
        self.failures = 0;
        let messages = open.filling.messages();
        let (subscription, object) = (self.subscription.name(), open.name.as_str());
        tracing::debug!(%subscription, object, messages, bytes = open.bytes, "object written");
        if self.subscription.exported().note_object(messages, open.bytes) {
            let bucket = &self.storage.bucket;
            tracing::info!(%subscription, bucket, "objects are written again");
        }
        Ok(())
    }

    /// The next message cannot be written: it fails, and those behind it come again, so that none
    /// overtakes it in its lane.
    fn refuse(&mut self, unfit: Unfit) -> Result<(), export::Error> {
        self.note_failure(ExportState::SchemaMismatch, &unfit);
        let failure = Failure { message: Some(unfit.into()), ..Failure::of(UNFIT) };
        let failed = self.coming.pop().map(|id| (id, Settlement::Fail(&failure)));
        let behind = self.coming.drain(..).rev().map(|id| (id, Settlement::GiveBack));
        let settled: Vec<_> = failed.into_iter().chain(behind).collect();
        self.subscription.settle_pushed(self.shared.runtime.now(), settled);
        Ok(())
    }

    /// The store failed: everything comes again. Returns how long to wait before.
    async fn fail(&mut self, error: &export::Error) -> Duration {
        self.note_failure(error.kind.state(), &error.to_string());
        let upload = self.open.as_mut().and_then(|open| open.upload.take());
        self.give_back();
        if let Some(upload) = upload {
            // What cannot be aborted is invisible all the same.
            drop(upload.abort().await);
        }
        let doubled = BACKOFF_MIN.saturating_mul(1 << self.failures.min(10));
        self.failures = self.failures.saturating_add(1);
        doubled.min(BACKOFF_MAX)
    }

    fn note_failure(&self, state: ExportState, error: &str) {
        self.subscription.exported().note_failure(state, error.to_owned());
        let (subscription, bucket) = (self.subscription.name(), &self.storage.bucket);
        tracing::warn!(%subscription, bucket, error, "cannot write messages to the bucket");
    }

    /// Gives up the open object. What it has counts as never delivered.
    fn give_back(&mut self) {
        let written = self.open.take().map(|open| open.leases).unwrap_or_default();
        let coming = std::mem::take(&mut self.coming).into_iter().rev();
        let leases: Vec<_> =
            written.into_iter().chain(coming).map(|id| (id, Settlement::GiveBack)).collect();
        if !leases.is_empty() {
            self.subscription.settle_pushed(self.shared.runtime.now(), leases);
        }
    }

    async fn pause_after(&mut self, error: &Error, changed: &Notify) {
        if matches!(error, Error::Closing) {
            // The server is stopping, and will say so in a moment.
            return changed.notified().await;
        }
        tracing::warn!(subscription = %self.subscription.name(), %error, "cannot export");
        self.sleep(ERROR_SLEEP, changed).await;
    }

    async fn sleep(&mut self, wait: Duration, changed: &Notify) {
        let clock = &self.shared.runtime.clock;
        tokio::select! {
            biased;
            () = changed.notified() => {}
            () = clock.sleep_until(clock.now().plus(wait)) => {}
        }
    }
}

impl Drop for Exporter {
    fn drop(&mut self) {
        self.give_back();
        self.leasing.let_go();
        self.subscription.close_push_consumer(self.consumer);
    }
}
