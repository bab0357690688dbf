//! The rows of the table, by what they measure.

mod behaviour;
mod comparison;
mod consume;
mod delivery;
mod gate;
mod latency;
mod live;
mod publish;
mod push;
mod rate;

pub(crate) use delivery::{STREAM_BATCH, STREAM_IN_FLIGHT};

use anyhow::Result;

use crate::report::Report;
use crate::target::Workshop;

/// Which rows to run.
pub(crate) struct Selection {
    prefixes: Vec<String>,
}

impl Selection {
    /// Rows whose name begins with one of these; all, if there are none.
    pub(crate) fn new(prefixes: Vec<String>) -> Self {
        Self { prefixes }
    }

    fn holds(&self, name: &str) -> bool {
        self.prefixes.is_empty() || self.prefixes.iter().any(|prefix| name.starts_with(prefix))
    }

    /// Whether any of these rows, which are measured together, is to run.
    fn holds_any(&self, names: &[String]) -> bool {
        names.iter().any(|name| self.holds(name))
    }
}

/// Runs the selected rows.
pub(crate) async fn run(workshop: &Workshop, selection: &Selection) -> Result<Report> {
    let mut report = Report::new(workshop);
    publish::run(workshop, selection, &mut report).await?;
    delivery::run(workshop, selection, &mut report).await?;
    latency::run(workshop, selection, &mut report).await?;
    comparison::growth(workshop, selection, &mut report).await?;
    comparison::subscriptions(workshop, selection, &mut report).await?;
    gate::run(workshop, selection, &mut report).await?;
    behaviour::run(workshop, selection, &mut report).await?;
    push::run(workshop, selection, &mut report).await?;
    live::run(workshop, selection, &mut report).await?;
    consume::run(workshop, selection, &mut report).await?;
    Ok(report)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_are_selected_by_the_beginning_of_their_names() {
        let some = Selection::new(vec!["publish/1x".to_owned(), "drain".to_owned()]);
        assert!(some.holds("publish/1x64"));
        assert!(some.holds("drain/200k"));
        assert!(!some.holds("publish/100x64"));
        assert!(Selection::new(Vec::new()).holds("anything"));
    }
}
