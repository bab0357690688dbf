//! Names, masks and what is given out to come back.

use domain::delivery::AckId;
use domain::setting::Document;
use domain::{
    ProjectName, SchemaName, SnapshotName, SubscriptionName, TopicName, subscription, topic,
};

/// Any text as the name of each kind, and as a path of an update mask.
pub(super) fn names(input: &[u8]) -> String {
    let text = String::from_utf8_lossy(input);
    let mut said = String::new();
    let mut note = |parsed: Result<String, domain::Invalid>| match parsed {
        Ok(shown) => {
            assert_eq!(shown, text, "a name is what it was");
            said.push_str("a name ");
        }
        Err(invalid) => said.push_str(&invalid.problem),
    };
    note(ProjectName::parse("name", &text).map(|name| name.as_str().to_owned()));
    note(TopicName::parse("name", &text).map(|name| {
        assert_eq!(name.as_str(), format!("{}/topics/{}", name.project().as_str(), name.id()));
        assert!(name.is_in(&name.project()));
        name.as_str().to_owned()
    }));
    note(SubscriptionName::parse("name", &text).map(|name| name.as_str().to_owned()));
    note(SnapshotName::parse("name", &text).map(|name| name.as_str().to_owned()));
    note(SchemaName::parse("name", &text).map(|name| name.as_str().to_owned()));
    let mask = [text.clone().into_owned()];
    let topic = topic::Change::by_mask(&Document::default(), true, &mask);
    let mask = subscription::Change::by_mask(&Document::default(), true, &mask);
    format!("{said} {mask:?} {topic:?}")
}

/// Any text as an ack id and as the token of a page.
pub(super) fn given_out(input: &[u8]) -> String {
    let text = String::from_utf8_lossy(input);
    let id = AckId::parse(&text);
    if let Ok(id) = &id {
        assert_eq!(id.to_string(), text, "an id is what it was");
    }
    format!("{} {}", id.is_ok(), server::fuzzing::page_token(&text))
}
