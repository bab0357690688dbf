//! Running until it is told to end.

use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::response::IntoResponse;
use axum::routing::get;
use consumer::firestore::{Client, Figures, FirestoreEffects, Retry, Visibility};
use consumer::google::Credentials;
use consumer::materialize::Materializer;
use consumer::{Connection, Consumer, Known, Metrics, StartError, pull, push};
use http::StatusCode;
use http::header::CONTENT_TYPE;
use tokio::sync::watch;
use tonic::Code;

use super::config::{Config, PullSource, PushSource, Source};
use super::lines::{Which, lines, show_progress};
use crate::cli::serve::Signals;
use crate::cli::{Failure, note, warn};
use crate::config::{Format, Level, Log};
use crate::logging;

/// What tokens for Google's Pub/Sub must be good for.
const PUBSUB_SCOPE: &str = "https://www.googleapis.com/auth/pubsub";
/// Who asks for metrics, at a time.
const OBSERVERS_MAX: usize = 64;
/// How long who asks for metrics may take at the end.
const OBSERVERS_GRACE: Duration = Duration::from_secs(1);

/// What was made of the file.
struct Ready {
    client: Client,
    effects: FirestoreEffects,
    visibility: Option<Visibility>,
    figures: Arc<Figures>,
    config: Config,
    which: Option<Which>,
}

pub(super) fn run(config: Config, which: Option<Which>) -> Result<(), Failure> {
    logging::start(&Log {
        level: Level::Info,
        format: Format::Auto,
        service: String::new(),
        env: String::new(),
        failures_per_second: 0,
    });
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .thread_name("materialize")
        .enable_all()
        .build()
        .map_err(|error| Failure::failed(format!("cannot start threads: {error}")))?;
    let ended = runtime.block_on(materialize(config, which));
    runtime.shutdown_background();
    ended
}

async fn materialize(config: Config, which: Option<Which>) -> Result<(), Failure> {
    let mut signals = Signals::new()?;
    let client = Client::new(&config.firestore).map_err(Failure::usage)?;
    let visibility = config.visibility.as_ref();
    let visibility = visibility.map(|collection| Visibility::new(client.clone(), collection));
    let effects = FirestoreEffects::new(client.clone(), Retry::default());
    let figures = effects.figures();
    let (stop, stopped) = watch::channel(false);
    let work = async {
        match config.source.clone() {
            Source::Pull(source) => {
                let ready = Ready { client, effects, visibility, figures, config, which };
                pulling(ready, &source, &stopped).await
            }
            Source::Push(source) => {
                let ready = Ready { client, effects, visibility, figures, config, which };
                pushing(ready, &source, &stopped).await
            }
        }
    };
    let mut work = std::pin::pin!(work);
    tokio::select! {
        ended = &mut work => return ended,
        () = signals.next() => {}
    }
    note("stopping: messages being handled may finish, the rest are nacked");
    stop.send_replace(true);
    tokio::select! {
        ended = work => ended,
        // Who asks twice does not want to wait: what is outstanding comes again.
        () = signals.next() => Ok(()),
    }
}

async fn pulling(
    ready: Ready,
    source: &PullSource,
    stopped: &watch::Receiver<bool>,
) -> Result<(), Failure> {
    let mut connection = Connection::open(source.address()).map_err(Failure::usage)?;
    if source.is_google() {
        let credentials = match &ready.config.firestore.key_file {
            Some(file) => Credentials::service_account(file, PUBSUB_SCOPE),
            None => Credentials::from_environment(PUBSUB_SCOPE),
        };
        connection = connection.with_tokens(Arc::new(credentials.map_err(Failure::usage)?));
    }
    let options = source.options().map_err(Failure::usage)?;
    let known = connection.ask(&source.subscription).await;
    let known = known.map_err(|error| cannot_ask(source, error))?;
    check_access(&ready.client).await?;
    let observe = ready.config.observe.clone();
    let (consumer, figures) = ready.consumer(known)?;
    let metrics = Arc::clone(consumer.metrics());
    let observed = observed(observe.as_deref(), &metrics, figures, stopped).await?;
    note(&format!("pulling {} from {}", source.subscription, source.address()));
    let work = pull::run(connection, consumer, options, ended(stopped));
    tokio::select! {
        ended = work => ended.map_err(Failure::failed),
        () = show_progress(&metrics) => Ok(()),
        () = observed => Ok(()),
    }
}

async fn pushing(
    ready: Ready,
    source: &PushSource,
    stopped: &watch::Receiver<bool>,
) -> Result<(), Failure> {
    let options = source.options().map_err(Failure::usage)?;
    check_access(&ready.client).await?;
    let known = Known {
        subscription: source.subscription.clone(),
        has_dead_letter_policy: source.dead_letter_policy,
        ..Known::default()
    };
    let observe = ready.config.observe.clone();
    let (consumer, figures) = ready.consumer(known)?;
    let metrics = Arc::clone(consumer.metrics());
    let (connections_max, grace) = (options.connections_max, options.shutdown_grace);
    let path = options.path.clone();
    let mut router = push::router(consumer, options).map_err(Failure::usage)?;
    if observe.is_none() {
        router = router.merge(observe_router(&metrics, Arc::clone(&figures)));
    }
    let observed = observed(observe.as_deref(), &metrics, figures, stopped).await?;
    let server = push::Server::bind(&source.listen).await.map_err(Failure::failed)?;
    note(&format!("listening on http://{}{path}", server.address()));
    let work = server.serve_router(router, connections_max, grace, ended(stopped));
    tokio::select! {
        () = work => Ok(()),
        () = show_progress(&metrics) => Ok(()),
        () = observed => Ok(()),
    }
}

fn cannot_ask(source: &PullSource, error: StartError) -> Failure {
    match &error {
        StartError::Ask { status, .. } if status.code() == Code::NotFound => {
            Failure::not_found(format!(
                "{} does not exist at {}: create it and its topic first, or use --create",
                source.subscription,
                source.address()
            ))
        }
        _ => Failure::failed(error),
    }
}

/// Fails early instead of taking messages that can never be written.
async fn check_access(client: &Client) -> Result<(), Failure> {
    if client.is_of_machine() {
        note("no emulator or key file is set: asking Google's metadata server");
    }
    match client.check_access().await {
        Ok(()) => Ok(()),
        Err(error) if client.is_of_machine() || error.is_lasting() => {
            Err(Failure::failed(format!(
                "no access to Firestore: {error}; set an emulator (FIRESTORE_EMULATOR_HOST or \
                 firestore.emulator), or a service account's key file \
                 (GOOGLE_APPLICATION_CREDENTIALS or firestore.key_file)"
            )))
        }
        Err(error) => {
            warn(&format!("no access to Firestore yet, retrying with each message: {error}"));
            Ok(())
        }
    }
}

impl Ready {
    fn consumer(
        self,
        known: Known,
    ) -> Result<(Consumer<Materializer<FirestoreEffects>>, Arc<Figures>), Failure> {
        let mut handler = Materializer::new(self.config.router, self.effects);
        if let Some(visibility) = self.visibility {
            handler = handler.with_visibility(visibility);
        }
        let lines = lines(self.which);
        let consumer = Consumer::with_lines(handler, self.config.settings, known, lines);
        Ok((consumer.map_err(Failure::usage)?, self.figures))
    }
}

/// Resolves when it is told to end.
async fn ended(stopped: &watch::Receiver<bool>) {
    let mut stopped = stopped.clone();
    // Who could tell is gone only when the program is.
    drop(stopped.wait_for(|stopped| *stopped).await);
}

/// Shows metrics and health on their own port, where one is set, as long as it is polled.
async fn observed(
    listen: Option<&str>,
    metrics: &Arc<Metrics>,
    figures: Arc<Figures>,
    stopped: &watch::Receiver<bool>,
) -> Result<impl Future<Output = ()> + use<>, Failure> {
    let server = match listen {
        Some(listen) => Some(push::Server::bind(listen).await.map_err(Failure::failed)?),
        None => None,
    };
    if let Some(server) = &server {
        note(&format!("metrics and health on http://{}", server.address()));
    }
    let router = observe_router(metrics, figures);
    let stopped = stopped.clone();
    Ok(async move {
        if let Some(server) = server {
            let stop = ended(&stopped);
            server.serve_router(router, OBSERVERS_MAX, OBSERVERS_GRACE, stop).await;
        }
        // The work decides when it is over.
        std::future::pending().await
    })
}

/// `/health` of the consumer, and `/metrics` of the consumer and of Firestore.
fn observe_router(metrics: &Arc<Metrics>, figures: Arc<Figures>) -> Router {
    let shown = Arc::clone(metrics);
    let text = move || {
        let text = format!("{}{}", shown.text(), figures.text());
        async move { ([(CONTENT_TYPE, "text/plain; version=0.0.4")], text).into_response() }
    };
    let asked = Arc::clone(metrics);
    let health = move || {
        let is_healthy = asked.is_healthy();
        async move {
            match is_healthy {
                true => (StatusCode::OK, "ok\n"),
                false => (StatusCode::SERVICE_UNAVAILABLE, "no stream\n"),
            }
        }
    };
    Router::new().route("/metrics", get(text)).route("/health", get(health))
}
