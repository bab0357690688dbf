//! The running broker: publishing, subscriptions, and the chores beside them.
//!
//! The rules are in `domain`, the bytes in `storage`; here they meet time, tasks and locks. One
//! short lock guards one subscription, the caller runs its state machine inline, and no lock is
//! held across an await.

mod admin;
mod alerts;
mod audit;
mod broker;
mod catalogue;
mod changed;
mod compiling;
mod consumer;
mod courier;
mod damaged;
mod dead_letter;
mod dead_letter_admin;
mod definition;
mod delivery_log;
mod directory;
mod error;
mod expiries;
mod export;
mod figures;
#[doc(hidden)]
pub mod fuzzing;
mod guard;
mod handled_letters;
mod lease;
mod live;
mod maintenance;
mod options;
mod parcel;
mod peek;
mod push;
mod ranges;
mod registry;
mod remembered;
mod replay;
mod runtime;
mod schema;
mod secret;
mod seek;
mod serving;
mod settings;
mod shards;
mod snapshot;
mod source;
mod status;
mod subscription;
mod tail;
mod timers;
mod topic;
mod transform;
mod upkeep;
mod waiters;

pub use ::export::Place as ExportPlace;
pub use admin::check_definition;
pub use alerts::AlertView;
pub use audit::{Audit, AuditAct, AuditLog, asked_by, peer as asking_peer};
pub use broker::Broker;
pub use catalogue::Page;
pub use clock::{Clock, SystemClock, tasks};
pub use consumer::Consumer;
pub use dead_letter_admin::{
    FoundLetter, LetterPage, LetterPlace, LetterQuery, LetterState, LettersWanted, ReplayRequest,
};
pub use definition::Unreadable;
pub use error::{Error, Failed, Rejected, Resource, Result};
pub use figures::{
    Cause, ExportFigures, FifoFigures, LeftAlone, Obstacles, SubscriptionFigures, TopicFigures,
};
pub use live::{
    Change, Live, LiveEvent, LiveFigures, LiveFrame, LiveIds, LiveMatch, LiveMessage,
    LiveRegistered, LiveStart, LiveStream, LiveView, Lost,
};
pub use maintenance::ClockStatus;
pub use options::{
    AlertOptions, ExportOptions, LiveOptions, LogOptions, Options, PushOptions, RetryDefault,
    Success, TransformOptions,
};
pub use parcel::{Parcel, Peers, Piece, SourceId};
pub use peek::{Peek, PeekFrom, PeekPage, Peeked, WAIT_MAX as PEEK_WAIT_MAX};
pub use push::token::{ISSUER as TOKEN_ISSUER, KEY_FILE};
pub use replay::{Replay, ReplayState};
pub use schema::{Against, Revised, Schema};
pub use secret::{make_id, make_secret};
pub use seek::SeekTarget;
pub use snapshot::Snapshot;
pub use status::{Degraded, ShardCounts, ShardStatus, Status};
#[doc(hidden)]
pub use storage::planted;
pub use storage::{AttemptPage, AttemptQuery, HistogramSnapshot, LogFigures, NumberedAttempt};
pub use subscription::{AckReport, Cursor, Subscription};
pub use topic::{Published, Topic};
pub use transform::TransformFigures;
