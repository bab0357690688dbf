//! The connection to a server: Postrider, Google's, or the emulator.

use std::sync::Arc;
use std::time::Duration;

use futures::future::BoxFuture;
use tonic::metadata::MetadataValue;
use tonic::transport::{Channel, ClientTlsConfig, Endpoint};
use tonic::{Request, Status};
use wire::live::live_client::LiveClient;
use wire::pubsub::GetSubscriptionRequest;
use wire::pubsub::publisher_client::PublisherClient;
use wire::pubsub::subscriber_client::SubscriberClient;

use crate::{Failure, Known, Order, StartError};

/// Google's server. Needs tokens.
pub const GOOGLE: &str = "https://pubsub.googleapis.com";

/// How long connecting may take.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// How often a silent connection is asked whether it is still there, and how long it may think.
const KEEP_ALIVE_INTERVAL: Duration = Duration::from_secs(30);
const KEEP_ALIVE_TIMEOUT: Duration = Duration::from_secs(10);
/// How long one call that is no stream may take.
const CALL_TIMEOUT: Duration = Duration::from_secs(30);
/// Bytes of one answer, at most. Servers send far less at a time.
const ANSWER_BYTES_MAX: usize = 64 << 20;
/// The label that makes a whole subscription one lane.
const FIFO_LABEL: &str = "postrider-fifo";

/// Where bearer tokens come from.
pub trait TokenSource: Send + Sync + 'static {
    /// A token that is good for a while. Asked for each call and each stream, so it should be
    /// kept while it is good.
    fn token(&self) -> BoxFuture<'_, Result<String, Failure>>;
}

/// A connection, made when it is first used and made again when it is lost. Cheap to clone.
#[derive(Clone)]
pub struct Connection {
    channel: Channel,
    tokens: Option<Arc<dyn TokenSource>>,
}

impl Connection {
    /// A connection to `http://host:port` in plain text, as Postrider and the emulator speak, or
    /// to `https://host` with TLS. To be called inside a Tokio runtime.
    pub fn open(address: &str) -> Result<Self, StartError> {
        let refused = |_| StartError::Endpoint(address.to_owned());
        let mut endpoint = Endpoint::from_shared(address.to_owned())
            .map_err(refused)?
            .connect_timeout(CONNECT_TIMEOUT)
            .tcp_nodelay(true)
            .http2_keep_alive_interval(KEEP_ALIVE_INTERVAL)
            .keep_alive_timeout(KEEP_ALIVE_TIMEOUT)
            .keep_alive_while_idle(true);
        match endpoint.uri().scheme_str() {
            Some("http") => {}
            Some("https") => {
                let roots = ClientTlsConfig::new().with_webpki_roots();
                endpoint = endpoint.tls_config(roots).map_err(refused)?;
            }
            _ => return Err(StartError::Endpoint(address.to_owned())),
        }
        Ok(Self::over(endpoint.connect_lazy()))
    }

    /// A connection over a channel that was set up elsewhere.
    pub fn over(channel: Channel) -> Self {
        Self { channel, tokens: None }
    }

    /// Sends a token with each call.
    #[must_use]
    pub fn with_tokens(self, tokens: Arc<dyn TokenSource>) -> Self {
        Self { tokens: Some(tokens), ..self }
    }

    /// Asks the server what is to be known of a subscription.
    pub async fn ask(&self, subscription: &str) -> Result<Known, StartError> {
        let failed = |status| StartError::Ask {
            subscription: subscription.to_owned(),
            status: Box::new(status),
        };
        let asked = GetSubscriptionRequest { subscription: subscription.to_owned() };
        let request = self.call(asked).await.map_err(failed)?;
        let answer = self.subscriber().get_subscription(request).await.map_err(failed)?;
        Ok(known(answer.into_inner()))
    }

    pub(crate) fn subscriber(&self) -> SubscriberClient<Channel> {
        SubscriberClient::new(self.channel.clone()).max_decoding_message_size(ANSWER_BYTES_MAX)
    }

    pub(crate) fn live(&self) -> LiveClient<Channel> {
        LiveClient::new(self.channel.clone()).max_decoding_message_size(ANSWER_BYTES_MAX)
    }

    pub(crate) fn publisher(&self) -> PublisherClient<Channel> {
        PublisherClient::new(self.channel.clone()).max_encoding_message_size(ANSWER_BYTES_MAX)
    }

    /// A request that must be answered in time, with a token if there are any.
    pub(crate) async fn call<T>(&self, body: T) -> Result<Request<T>, Status> {
        let mut request = self.stream(body).await?;
        request.set_timeout(CALL_TIMEOUT);
        Ok(request)
    }

    /// A request whose answer may never end.
    pub(crate) async fn stream<T>(&self, body: T) -> Result<Request<T>, Status> {
        let mut request = Request::new(body);
        if let Some(tokens) = &self.tokens {
            let token = tokens.token().await.map_err(|failure| no_token(&failure))?;
            let mut value = MetadataValue::try_from(format!("Bearer {token}"))
                .map_err(|_| Status::unauthenticated("the token is not a valid header value"))?;
            value.set_sensitive(true);
            request.metadata_mut().insert("authorization", value);
        }
        Ok(request)
    }
}

/// Worth another try: a token may be had later.
fn no_token(failure: &Failure) -> Status {
    Status::unavailable(format!("no token: {}", failure.message))
}

fn known(subscription: wire::pubsub::Subscription) -> Known {
    let policy = subscription.dead_letter_policy;
    let is_fifo = subscription.labels.get(FIFO_LABEL).is_some_and(|value| value == "true");
    let order = match (is_fifo, subscription.enable_message_ordering) {
        (true, _) => Order::Fifo,
        (false, true) => Order::ByKey,
        (false, false) => Order::None,
    };
    let topic = policy.as_ref().map(|policy| policy.dead_letter_topic.clone());
    Known {
        subscription: Some(subscription.name),
        topic: Some(subscription.topic),
        has_dead_letter_policy: policy.is_some(),
        dead_letter_topic: topic.filter(|topic| !topic.is_empty()),
        order,
    }
}
