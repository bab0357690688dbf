//! Topics.

use domain::topic::Change;
use domain::{Topic, TopicName};
use schemas::DELETED_SCHEMA;
use wire::pubsub;

use super::wanted::{Wanted, googles};
use crate::status::Result;

impl Wanted<Topic> {
    /// The topic to be made.
    pub(crate) fn made(&self) -> Result<Topic> {
        let plain = Topic::new(TopicName::parse("name", self.name("name"))?);
        Ok(self.given()?.apply(&plain)?)
    }

    /// What an update changes: the settings that `paths` name.
    pub(crate) fn change(&self, paths: &[String]) -> Result<Change> {
        self.masked(paths)
    }

    /// Whether `path` names what cannot be changed, and the update gives it as it is.
    pub(crate) fn is_unchanged(&self, path: &str, current: &broker::Topic) -> bool {
        self.repeats(path, &current.settings(), &topic_to_wire(current))
    }
}

/// `wire` without the numbers that stand for no word this version knows: JSON has no text for them.
/// They count as not given, and so only where they are asked for.
pub(crate) fn with_known_words(mut wire: pubsub::Topic) -> pubsub::Topic {
    if pubsub::topic::State::try_from(wire.state).is_err() {
        wire.state = 0;
    }
    if let Some(settings) = &mut wire.schema_settings
        && pubsub::Encoding::try_from(settings.encoding).is_err()
    {
        settings.encoding = 0;
    }
    if let Some(settings) = &mut wire.ingestion_data_source_settings {
        forget_states(settings);
    }
    wire
}

fn forget_states(settings: &mut pubsub::IngestionDataSourceSettings) {
    use pubsub::ingestion_data_source_settings::Source;
    use pubsub::platform_logs_settings::Severity;
    match &mut settings.source {
        Some(Source::AwsKinesis(source)) => source.state = 0,
        Some(Source::CloudStorage(source)) => source.state = 0,
        Some(Source::AzureEventHubs(source)) => source.state = 0,
        Some(Source::AwsMsk(source)) => source.state = 0,
        Some(Source::ConfluentCloud(source)) => source.state = 0,
        None => {}
    }
    if let Some(logs) = &mut settings.platform_logs_settings
        && Severity::try_from(logs.severity).is_err()
    {
        logs.severity = 0;
    }
}

/// A topic as it is shown. Only what is Google's is in it.
pub(crate) fn topic_to_wire(topic: &broker::Topic) -> pubsub::Topic {
    let mut wire = settings_to_wire(&topic.settings());
    if let Some(settings) = wire.schema_settings.as_mut().filter(|_| topic.is_schema_deleted()) {
        DELETED_SCHEMA.clone_into(&mut settings.schema);
    }
    wire
}

/// What follows from the settings alone.
pub(super) fn settings_to_wire(settings: &Topic) -> pubsub::Topic {
    pubsub::Topic {
        name: settings.name.to_string(),
        state: match settings.ingestion {
            // What it ingests from is not here.
            Some(_) => pubsub::topic::State::IngestionResourceError.into(),
            None => pubsub::topic::State::Active.into(),
        },
        ..googles(settings)
    }
}
