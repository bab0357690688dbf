//! `--create`: makes what messages are read from, where it does not exist yet.

use http::{Method, StatusCode};
use serde_json::json;

use super::config::Source;
use crate::cli::client::{At, Client, Problem};
use crate::cli::create::{Created, create, failure};
use crate::cli::{Failure, note, subscription};

pub(super) fn run(source: &Source) -> Result<(), Failure> {
    let Source::Pull(source) = source else {
        return Err(Failure::usage(
            "--create: with way = \"push\" create the subscription on the server that pushes",
        ));
    };
    if source.is_google() {
        return Err(Failure::usage("--create: on Google's server, use gcloud pubsub instead"));
    }
    let at = At { server: Some(source.server.clone()), ..At::default() };
    let name = at.subscription(&source.subscription)?;
    let client = Client::new(&at)?;
    match client.call(Method::GET, &name.path(), None) {
        Ok(_) => return Ok(()),
        Err(Problem::Refused { code: StatusCode::NOT_FOUND, .. }) => {}
        Err(problem) => return Err(client.failure(problem)),
    }
    let Some(topic) = &source.topic else {
        return Err(Failure::usage(format!(
            "--create: {name} does not exist, and source.topic is not set"
        )));
    };
    let topic = at.topic(topic)?;
    let made = create(&client, &topic, &json!({}), true);
    if let Created::Made(_) = made.map_err(|problem| failure(&client, problem))? {
        note(&format!("made {topic}"));
    }
    subscription::make_standard(&client, &name, &topic)?;
    note(&format!("made {name}"));
    Ok(())
}
