//! Deleting dead letters, with a confirmation so nobody does it by mistake.

use std::io::{BufRead, IsTerminal};

use clap::Args;
use serde_json::Value;

use super::list::letters;
use super::{Of, WHAT, Which, selection};
use crate::cli::client::{At, Client, Ours};
use crate::cli::table::plain;
use crate::cli::topic::LIST_MAX;
use crate::cli::{Failure, ask, print, print_json};

#[derive(Debug, Args)]
pub(in crate::cli) struct Delete {
    /// The ids of the dead letters
    ids: Vec<String>,
    #[command(flatten)]
    of: Of,
    #[command(flatten)]
    which: Which,
    /// All of them
    #[arg(long)]
    all: bool,
    /// Letters nobody has handled, as list shows them, replayed ones, or both
    #[arg(long, default_value = "waiting", value_parser = ["waiting", "replayed", "all"],
          conflicts_with = "ids")]
    state: String,
    /// How many there are, to confirm; without it you are asked
    #[arg(long, value_name = "NUMBER", conflicts_with = "yes")]
    confirm: Option<u64>,
    /// Delete however many there are, without asking
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    at: At,
}

pub(super) fn delete(arguments: &Delete) -> Result<(), Failure> {
    let at = &arguments.at;
    let name = arguments.of.name(at)?;
    let client = Client::new(at)?;
    let mut body = selection(&arguments.ids, &arguments.which, arguments.all, &client)?;
    let count = match arguments.confirm {
        Some(count) => count,
        None => {
            let count = if arguments.ids.is_empty() {
                letters(&client, &name, &arguments.which, &arguments.state, LIST_MAX)?.len()
            } else {
                arguments.ids.len()
            };
            if !arguments.yes {
                confirm(count, name.as_str())?;
            }
            count as u64
        }
    };
    body.insert("confirm".to_owned(), count.into());
    // Who names letters one by one has seen them, in whatever state they are.
    let state = if arguments.ids.is_empty() { arguments.state.as_str() } else { "all" };
    body.insert("state".to_owned(), state.into());
    let asked = format!("{}/deadLetters:delete", name.path());
    let answer = client.post_ours(WHAT, Ours::Of(&name), &asked, &Value::Object(body))?;
    if at.json {
        return print_json(&answer);
    }
    print(&format!("deleted {} dead letters of {name}\n", plain(&answer["deleted"])))
}

fn confirm(count: usize, of: &str) -> Result<(), Failure> {
    if !std::io::stdin().is_terminal() {
        let problem = format!(
            "this deletes {count} dead letters of {of} for good: give --confirm {count}, or --yes"
        );
        return Err(Failure::usage(problem));
    }
    ask(&format!("Delete {count} dead letters of {of} for good? Type {count} to confirm: "));
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    read.map_err(|error| Failure::failed(format!("cannot read the answer: {error}")))?;
    if answer.trim() == count.to_string() {
        return Ok(());
    }
    Err(Failure::failed("not confirmed; nothing was deleted"))
}
