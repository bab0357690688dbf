//! Names of resources: `projects/{project}/topics/{topic}` and its siblings.
//!
//! The id after the last slash follows Google's rule to the letter: 3 to 255 characters, a letter
//! first, then letters, digits and `- _ . ~ + %`, and never starting with `goog`. Project ids are
//! less restricted than Google's, because test setups use ids such as `p`, `my_project` or a
//! project number: 1 to 127 letters, digits and `- _ . :`, a letter or digit first.

use std::borrow::Borrow;
use std::fmt;
use std::sync::Arc;

use crate::error::Invalid;
use crate::limits::{PROJECT_ID_CHARS_MAX, RESOURCE_ID_CHARS_MAX, RESOURCE_ID_CHARS_MIN};

/// What a subscription shows instead of its topic's name once the topic is deleted.
pub const DELETED_TOPIC: &str = "_deleted-topic_";

/// The server's own project: only the server creates and changes what is in it.
pub const OWN_PROJECT: &str = "_postrider";

/// `projects/{project}`.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ProjectName(Arc<str>);

impl ProjectName {
    /// Parses `projects/{project}`; `field` is the request field that contains it.
    pub fn parse(field: &str, text: &str) -> Result<Self, Invalid> {
        let id = text.strip_prefix(PROJECTS).filter(|id| !id.contains('/'));
        match id {
            Some(id) if is_project_id(id) => Ok(Self(text.into())),
            _ => Err(bad_name(field, text, "projects/{project}")),
        }
    }

    /// The part after `projects/`.
    pub fn id(&self) -> &str {
        self.0.strip_prefix(PROJECTS).unwrap_or_default()
    }

    /// The whole name.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ProjectName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// Defines a name of the form `projects/{project}/{collection}/{id}`. Each is one shared string,
/// cheap to clone, ordered and hashed as that string.
macro_rules! resource_name {
    ($(#[$doc:meta])* $name:ident, $collection:literal, $shape:literal) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub struct $name(Arc<str>);

        impl $name {
            /// The form of such a name.
            pub const SHAPE: &'static str = $shape;

            /// Parses a name; `field` is the request field that contains it.
            pub fn parse(field: &str, text: &str) -> Result<Self, Invalid> {
                check(text, $collection).map_err(|wrong| wrong.invalid(field, text, $shape))?;
                Ok(Self(text.into()))
            }

            /// The project the resource is in.
            pub fn project(&self) -> ProjectName {
                let (project, _) = split(&self.0, $collection).unwrap_or_default();
                ProjectName(format!("{PROJECTS}{project}").into())
            }

            /// Whether the resource is in `project`, without building that project's name.
            pub fn is_in(&self, project: &ProjectName) -> bool {
                split(&self.0, $collection).is_some_and(|(own, _)| own == project.id())
            }

            /// Whether the server itself creates and changes the resource.
            pub fn is_own(&self) -> bool {
                split(&self.0, $collection).is_some_and(|(own, _)| own == OWN_PROJECT)
            }

            /// Refuses a resource that only the server itself creates and changes.
            pub fn check_not_own(&self, field: &str) -> Result<(), Invalid> {
                if !self.is_own() {
                    return Ok(());
                }
                let problem = format!(
                    "project {OWN_PROJECT} belongs to the server and cannot be changed; you can \
                     read it and subscribe to it"
                );
                Err(Invalid::new(field, problem))
            }

            /// The part after the last slash.
            pub fn id(&self) -> &str {
                split(&self.0, $collection).unwrap_or_default().1
            }

            /// The whole name.
            pub fn as_str(&self) -> &str {
                &self.0
            }
        }

        impl fmt::Display for $name {
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(&self.0)
            }
        }

        impl Borrow<str> for $name {
            fn borrow(&self) -> &str {
                &self.0
            }
        }
    };
}

resource_name!(
    /// `projects/{project}/topics/{topic}`.
    TopicName, "topics", "projects/{project}/topics/{topic}"
);
resource_name!(
    /// `projects/{project}/subscriptions/{subscription}`.
    SubscriptionName, "subscriptions", "projects/{project}/subscriptions/{subscription}"
);
resource_name!(
    /// `projects/{project}/snapshots/{snapshot}`.
    SnapshotName, "snapshots", "projects/{project}/snapshots/{snapshot}"
);
resource_name!(
    /// `projects/{project}/schemas/{schema}`.
    SchemaName, "schemas", "projects/{project}/schemas/{schema}"
);

const PROJECTS: &str = "projects/";

/// What is wrong with a name.
enum Wrong {
    Shape,
    Id,
}

impl Wrong {
    fn invalid(self, field: &str, text: &str, shape: &str) -> Invalid {
        match self {
            Self::Shape => bad_name(field, text, shape),
            Self::Id => Invalid::new(
                field,
                format!(
                    "{} has a bad id: {RESOURCE_ID_CHARS_MIN} to {RESOURCE_ID_CHARS_MAX} \
                     letters, digits and - _ . ~ + %, a letter first, not beginning with goog",
                    quoted(text)
                ),
            ),
        }
    }
}

fn bad_name(field: &str, text: &str, shape: &str) -> Invalid {
    Invalid::new(field, format!("{} is not of the form {shape}", quoted(text)))
}

/// The text in quotes, shortened: a name of a megabyte must not end up in the answer.
fn quoted(text: &str) -> String {
    const SHOWN: usize = 300;
    match text.char_indices().nth(SHOWN) {
        Some((cut, _)) => format!("{:?}…", text.get(..cut).unwrap_or_default()),
        None => format!("{text:?}"),
    }
}

fn check(text: &str, collection: &str) -> Result<(), Wrong> {
    let (project, id) = split(text, collection).ok_or(Wrong::Shape)?;
    if !is_project_id(project) {
        return Err(Wrong::Shape);
    }
    if is_resource_id(id) { Ok(()) } else { Err(Wrong::Id) }
}

/// `(project, id)` of `projects/{project}/{collection}/{id}`.
fn split<'text>(text: &'text str, collection: &str) -> Option<(&'text str, &'text str)> {
    let (project, rest) = text.strip_prefix(PROJECTS)?.split_once('/')?;
    let id = rest.strip_prefix(collection)?.strip_prefix('/')?;
    (!id.contains('/')).then_some((project, id))
}

fn is_project_id(id: &str) -> bool {
    let is_own = id == OWN_PROJECT;
    let is_given = id.len() <= PROJECT_ID_CHARS_MAX
        && id.starts_with(|first: char| first.is_ascii_alphanumeric())
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.:".contains(&byte));
    is_own || is_given
}

fn is_resource_id(id: &str) -> bool {
    (RESOURCE_ID_CHARS_MIN..=RESOURCE_ID_CHARS_MAX).contains(&id.len())
        && id.starts_with(|first: char| first.is_ascii_alphabetic())
        && id.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_.~+%".contains(&byte))
        && !id.starts_with("goog")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn topic(id: &str) -> Result<TopicName, Invalid> {
        TopicName::parse("name", &format!("projects/p/topics/{id}"))
    }

    #[test]
    fn a_name_gives_its_parts_back() {
        let name = TopicName::parse("name", "projects/my-project/topics/orders").unwrap();
        assert_eq!(name.project().as_str(), "projects/my-project");
        assert_eq!(name.project().id(), "my-project");
        assert_eq!(name.id(), "orders");
        assert_eq!(name.to_string(), "projects/my-project/topics/orders");
        assert!(name.is_in(&name.project()));
        assert!(!name.is_in(&ProjectName::parse("project", "projects/my-projec").unwrap()));
    }

    #[test]
    fn ids_are_3_to_255_characters() {
        assert!(topic("ab").is_err());
        assert!(topic("abc").is_ok());
        assert!(topic(&"a".repeat(255)).is_ok());
        assert!(topic(&"a".repeat(256)).is_err());
    }

    #[test]
    fn ids_begin_with_a_letter_and_hold_only_what_google_allows() {
        assert!(topic("Az0-_.~+%").is_ok());
        for bad in ["1abc", "_abc", "-abc", "ab c", "ab/c", "abc!", "äbc", "abc\n", ""] {
            assert!(topic(bad).is_err(), "{bad:?} must be refused");
        }
    }

    #[test]
    fn ids_beginning_with_goog_are_refused() {
        assert!(topic("goog").is_err());
        assert!(topic("google-topic").is_err());
        assert!(topic("Google").is_ok());
        assert!(topic("agoog").is_ok());
    }

    #[test]
    fn the_shape_must_be_exact() {
        for bad in [
            "",
            "orders",
            "topics/orders",
            "projects/p/orders",
            "projects//topics/orders",
            "projects/p/subscriptions/orders",
            "projects/p/topics/orders/more",
            "/projects/p/topics/orders",
            "Projects/p/topics/orders",
            DELETED_TOPIC,
        ] {
            assert!(TopicName::parse("topic", bad).is_err(), "{bad:?} must be refused");
        }
    }

    #[test]
    fn project_ids_of_test_set_ups_are_accepted() {
        for good in ["p", "my_project", "my-project", "example.com:api", "123456", "A"] {
            assert!(ProjectName::parse("project", &format!("projects/{good}")).is_ok(), "{good}");
        }
        for bad in ["", "-p", "p/q", "p q", "ä", &"p".repeat(128)] {
            assert!(ProjectName::parse("project", &format!("projects/{bad}")).is_err(), "{bad}");
        }
        assert!(ProjectName::parse("project", "p").is_err());
    }

    #[test]
    fn the_servers_own_project_is_known_and_not_to_be_changed() {
        let own = TopicName::parse("topic", "projects/_postrider/topics/alerts").unwrap();
        assert!(own.is_own());
        assert_eq!(own.check_not_own("topic").unwrap_err().field, "topic");
        assert!(!topic("orders").unwrap().is_own());
        assert_eq!(topic("orders").unwrap().check_not_own("topic"), Ok(()));
        assert!(ProjectName::parse("project", "projects/_other").is_err());
    }

    #[test]
    fn each_kind_has_its_own_collection() {
        assert!(SubscriptionName::parse("name", "projects/p/subscriptions/sub").is_ok());
        assert!(SnapshotName::parse("name", "projects/p/snapshots/snap").is_ok());
        assert!(SchemaName::parse("name", "projects/p/schemas/schema").is_ok());
        assert!(SchemaName::parse("name", "projects/p/topics/schema").is_err());
    }

    #[test]
    fn the_error_names_the_field_and_never_repeats_a_huge_name() {
        let error = TopicName::parse("topic", &"x".repeat(1_000_000)).unwrap_err();
        assert_eq!(error.field, "topic");
        assert!(error.problem.len() < 500);
        assert!(error.problem.contains("projects/{project}/topics/{topic}"));
    }
}
