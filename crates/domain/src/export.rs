//! How messages are written to objects in a bucket: what a subscription asks for, when an object is
//! complete, what it is called, and how exporting goes.

mod filling;
mod name;

use std::time::Duration;

pub use filling::Filling;
pub use name::{DatetimeFormat, object_name};

use crate::limits::OBJECT_DURATION_DEFAULT;

/// A subscription's messages go to objects in a bucket.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CloudStorage {
    /// The bucket. What stands behind the name is a setting of the server.
    pub bucket: String,
    /// How the names of objects begin.
    pub prefix: String,
    /// How they end.
    pub suffix: String,
    /// How the time stands in them; `None` = as in `2027-01-15T08:00:00+00:00`.
    pub datetime: Option<DatetimeFormat>,
    /// What is in the objects.
    pub format: ObjectFormat,
    /// When an object is complete.
    pub limits: ObjectLimits,
    /// Google's account to write as: kept and shown; the server writes with its own credentials.
    pub service_account: String,
}

impl CloudStorage {
    /// Text objects in that bucket, with the defaults for all else.
    pub fn to_bucket(bucket: &str) -> Self {
        Self {
            bucket: bucket.to_owned(),
            prefix: String::new(),
            suffix: String::new(),
            datetime: None,
            format: ObjectFormat::Text,
            limits: ObjectLimits::default(),
            service_account: String::new(),
        }
    }
}

/// What is in an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ObjectFormat {
    /// The data of each message, with a line break behind it.
    Text,
    /// An Avro file with one record for each message.
    Avro {
        /// Whether a record also has the subscription, id, time and attributes of its message.
        write_metadata: bool,
        /// Whether records are those of the topic's schema, where a message has one.
        use_topic_schema: bool,
    },
}

/// When an object is complete: as soon as one of these is reached. It may be completed earlier.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ObjectLimits {
    /// So long after its first message came.
    pub duration: Duration,
    /// So many bytes; a single message may be larger. `None` = as many as one object may have.
    pub bytes: Option<u64>,
    /// So many messages; `None` = any number.
    pub messages: Option<u64>,
}

impl Default for ObjectLimits {
    fn default() -> Self {
        Self { duration: OBJECT_DURATION_DEFAULT, bytes: None, messages: None }
    }
}

/// How exporting goes, in Google's words.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ExportState {
    /// Objects can be written, or nobody has tried yet.
    #[default]
    Active,
    /// The server may not write there.
    PermissionDenied,
    /// There is no such bucket.
    NotFound,
    /// Messages do not fit the topic's schema, or it cannot be written as Avro.
    SchemaMismatch,
    /// The store does not answer, or not as it should. Google has no word for it and shows nothing
    /// of such times, so this is shown as `ACTIVE`; the subscription as a whole is not.
    Unavailable,
}

impl ExportState {
    /// Every state there is.
    pub const ALL: [Self; 5] = [
        Self::Active,
        Self::PermissionDenied,
        Self::NotFound,
        Self::SchemaMismatch,
        Self::Unavailable,
    ];

    /// Google's word for it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Active | Self::Unavailable => "ACTIVE",
            Self::PermissionDenied => "PERMISSION_DENIED",
            Self::NotFound => "NOT_FOUND",
            Self::SchemaMismatch => "SCHEMA_MISMATCH",
        }
    }
}
