//! What there is to tell about the server as a whole.

use std::sync::Arc;
use std::time::Duration;

use broker::Status;
use domain::lint::Finding;
use domain::{ProjectName, Timestamp};

use super::Api;
use crate::descriptors::Descriptors;
use crate::net::Connections;
use crate::server::Started;
use crate::status::Result;

/// What does not change while the server runs, and who is connected.
#[derive(Debug)]
pub(crate) struct About {
    pub(crate) started_at: Timestamp,
    pub(crate) started: Started,
    /// The engine's name.
    pub(crate) engine: &'static str,
    /// When a publish is answered; `None` with an engine that keeps nothing.
    pub(crate) durability: Option<&'static str>,
    pub(crate) connections: Connections,
    /// What the process may open.
    pub(crate) descriptors: Descriptors,
}

impl Api {
    /// The same, and what is to be told about the server.
    pub(crate) fn with_about(self, about: About) -> Self {
        Self { about: Some(Arc::new(about)), ..self }
    }

    pub(crate) fn about(&self) -> Option<&About> {
        self.about.as_deref()
    }

    /// Since when the server runs.
    pub(crate) fn uptime(&self) -> Duration {
        self.about().map_or(Duration::ZERO, |about| self.now().since(about.started_at))
    }

    /// How the broker is.
    pub(crate) fn status(&self) -> Status {
        self.broker.status()
    }

    /// What is worth putting right in a project; everywhere if it is `None`.
    pub(crate) fn lint(&self, project: Option<&str>) -> Result<Vec<Finding>> {
        let project = project.map(|name| ProjectName::parse("project", name)).transpose()?;
        Ok(self.broker.lint(project.as_ref()))
    }
}
