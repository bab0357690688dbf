//! Names of topics and their like: whole ones, and short ones to be completed.

use super::Failure;
use super::client::At;

/// A whole name such as `projects/p/topics/orders`.
///
/// Only its shape is checked; what an id may look like is for the server to say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Name(String);

impl Name {
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// The part behind the last slash.
    pub(super) fn id(&self) -> &str {
        self.0.rsplit('/').next().unwrap_or_default()
    }

    /// The path of the resource.
    pub(super) fn path(&self) -> String {
        path(&self.0)
    }

    /// The sibling in `collection` with this id.
    pub(super) fn sibling(&self, collection: &str, id: &str) -> Self {
        let project = self.0.split('/').nth(1).unwrap_or_default();
        Self(format!("projects/{project}/{collection}/{id}"))
    }
}

impl std::fmt::Display for Name {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

/// The path of the resource with this whole name, with what means something else in a path
/// written in another way.
pub(super) fn path(name: &str) -> String {
    let segments: Vec<String> = name.split('/').map(super::client::encode).collect();
    format!("/v1/{}", segments.join("/"))
}

impl At {
    pub(super) fn topic(&self, text: &str) -> Result<Name, Failure> {
        self.name(text, "topics")
    }

    pub(super) fn subscription(&self, text: &str) -> Result<Name, Failure> {
        self.name(text, "subscriptions")
    }

    pub(super) fn snapshot(&self, text: &str) -> Result<Name, Failure> {
        self.name(text, "snapshots")
    }

    pub(super) fn schema(&self, text: &str) -> Result<Name, Failure> {
        self.name(text, "schemas")
    }

    /// `projects/{project}`, which must be given.
    pub(super) fn project(&self) -> Result<String, Failure> {
        match self.project.as_deref().filter(|project| !project.is_empty()) {
            Some(project) => {
                let id = project.strip_prefix("projects/").unwrap_or(project);
                if id.is_empty() || id.contains('/') {
                    return Err(Failure::usage(format!("--project: {project:?} is not a project")));
                }
                Ok(format!("projects/{id}"))
            }
            None => Err(Failure::usage("which project? Give --project or POSTRIDER_PROJECT")),
        }
    }

    fn name(&self, text: &str, collection: &str) -> Result<Name, Failure> {
        if text.is_empty() {
            return Err(Failure::usage("the name is empty"));
        }
        if !text.contains('/') {
            let project = self.project().map_err(|failure| {
                let problem = failure.problem;
                Failure::usage(format!("{text:?} is a short name: {problem}, or the full name"))
            })?;
            return Ok(Name(format!("{project}/{collection}/{text}")));
        }
        let parts: Vec<&str> = text.split('/').collect();
        match parts[..] {
            ["projects", project, of, id]
                if of == collection && !project.is_empty() && !id.is_empty() =>
            {
                Ok(Name(text.to_owned()))
            }
            _ => {
                let problem =
                    format!("{text:?} is not of the form projects/{{project}}/{collection}/{{id}}");
                Err(Failure::usage(problem))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(project: &str) -> At {
        At { project: Some(project.to_owned()), ..At::default() }
    }

    fn topic(at: &At, text: &str) -> Option<String> {
        at.topic(text).ok().map(|name| name.as_str().to_owned())
    }

    #[test]
    fn short_names_are_completed_and_whole_ones_are_kept() {
        let whole = Some("projects/p/topics/orders".to_owned());
        for project in ["p", "projects/p"] {
            assert_eq!(topic(&at(project), "orders"), whole);
        }
        assert_eq!(topic(&at("q"), "projects/p/topics/orders"), whole);
        assert_eq!(topic(&At::default(), "projects/p/topics/orders"), whole);
    }

    #[test]
    fn what_is_no_name_is_a_mistake_of_the_command_line() {
        for (project, text) in [
            ("", "orders"),
            ("a/b", "orders"),
            ("p", ""),
            ("p", "projects/p/subscriptions/s"),
            ("p", "projects/p/topics/"),
            ("p", "topics/orders"),
            ("p", "projects/p/topics/a/b"),
        ] {
            let failure = at(project).topic(text).err().unwrap();
            assert_eq!(failure.code, 2, "{text}");
        }
        let short = At::default().subscription("s").err().unwrap().problem;
        assert!(short.contains("--project"), "{short}");
    }

    #[test]
    fn a_path_holds_any_name_and_a_sibling_is_in_its_project() {
        let name = at("p").subscription("50%?").ok().unwrap();
        assert_eq!(name.path(), "/v1/projects/p/subscriptions/50%25%3F");
        assert_eq!(name.id(), "50%?");
        assert_eq!(name.sibling("topics", "t").as_str(), "projects/p/topics/t");
    }
}
