//! `postrider.live.v1.Live`: live subscriptions, and streams of gateways.
//!
//! A stream's requests are read between its frames: a gateway that takes no frames is not heard
//! either, so that nothing has to be kept for it.

mod convert;

use std::collections::VecDeque;
use std::time::Duration;

use broker::{LiveStart, LiveStream};
use domain::live::Refusal as LiveRefusal;
use domain::{Invalid, Offset, TopicName};
use futures::stream::unfold;
use tonic::{Request, Response, Status, Streaming};
use wire::live::live_server::Live;
use wire::live::{
    DeleteRequest, Frame, HeartbeatRequest, Outcome, RegisterRequest, Registration, Results,
    Resume, StreamRequest, frame, outcome, resume,
};

use super::Service;
use super::framed::{Framed, Nothing};
use crate::api::{Api, LIVE_BATCH_MAX, LIVE_TURN};
use crate::status::Refusal;

type Result<T, E = Status> = std::result::Result<T, E>;

#[tonic::async_trait]
impl Live for Service {
    type StreamStream = Nothing<Frame>;

    async fn stream(
        &self,
        request: Request<Streaming<StreamRequest>>,
    ) -> Result<Response<Self::StreamStream>> {
        let talk = Talk::open(&self.api, request.into_inner(), self.first_request_timeout).await?;
        let frames = unfold(Some(talk), |talk| async move {
            let mut talk = talk?;
            match talk.next().await {
                Ok(frame) => Some((Ok(frame), Some(talk))),
                Err(status) => Some((Err(status), None)),
            }
        });
        Ok(Framed::attach(Box::pin(frames)))
    }

    async fn register(&self, request: Request<RegisterRequest>) -> Result<Response<Results>> {
        let register = request.into_inner().subscriptions;
        let work = Work { register, ..Work::default() };
        Ok(Response::new(work.run(&self.api, None).await?))
    }

    async fn heartbeat(&self, request: Request<HeartbeatRequest>) -> Result<Response<Results>> {
        let HeartbeatRequest { subscription_ids: heartbeat, gateway_id } = request.into_inner();
        let work = Work { heartbeat, ..Work::default() };
        Ok(Response::new(work.run(&self.api, Some(&gateway_id)).await?))
    }

    async fn delete(&self, request: Request<DeleteRequest>) -> Result<Response<Results>> {
        let DeleteRequest { subscription_ids: delete, gateway_id } = request.into_inner();
        let work = Work { delete, ..Work::default() };
        Ok(Response::new(work.run(&self.api, Some(&gateway_id)).await?))
    }
}

/// A stream and what comes in beside it.
struct Talk {
    api: Api,
    gateway: String,
    stream: LiveStream,
    /// `None` = the gateway has nothing more to say.
    requests: Option<Streaming<StreamRequest>>,
    ready: VecDeque<Frame>,
    /// The number of the last frame.
    last: u64,
}

impl Talk {
    async fn open(
        api: &Api,
        mut requests: Streaming<StreamRequest>,
        first_request_timeout: Duration,
    ) -> Result<Self> {
        let first = tokio::time::timeout(first_request_timeout, requests.message()).await;
        let first = match first {
            Ok(first) => {
                first?.ok_or_else(|| Status::invalid_argument("the stream has no request"))?
            }
            Err(_) => return Err(Status::deadline_exceeded("the first request did not come")),
        };
        let start = start(first.resume.clone()).map_err(Refusal::from)?;
        let stream = api.live().open(&first.gateway_id, &start).map_err(Refusal::from)?;
        let mut talk = Self {
            api: api.clone(),
            gateway: first.gateway_id.clone(),
            stream,
            requests: Some(requests),
            ready: VecDeque::new(),
            last: 0,
        };
        talk.take_in(first).await?;
        Ok(talk)
    }

    async fn next(&mut self) -> Result<Frame> {
        loop {
            if let Some(frame) = self.ready.pop_front() {
                return Ok(frame);
            }
            tokio::select! {
                frames = self.stream.next() => {
                    let Some(frames) = frames else { return Err(self.ended()) };
                    for frame in frames {
                        self.last = frame.sequence;
                        self.ready.push_back(convert::frame(&frame)?);
                    }
                }
                request = next_request(&mut self.requests) => match request? {
                    Some(request) => self.take_in(request).await?,
                    None => self.requests = None,
                }
            }
        }
    }

    /// Does what a request says, and keeps what became of it for the next frame.
    async fn take_in(&mut self, request: StreamRequest) -> Result<()> {
        let StreamRequest { mut register, heartbeat, delete, .. } = request;
        for one in register.iter_mut().filter(|one| one.gateway_id.is_empty()) {
            one.gateway_id.clone_from(&self.gateway);
        }
        let work = Work { register, heartbeat, delete };
        if work.is_empty() {
            return Ok(());
        }
        let results = work.run(&self.api, Some(&self.gateway)).await?;
        let kind = Some(frame::Kind::Results(results));
        self.ready.push_back(Frame { sequence: self.last, kind });
        Ok(())
    }

    fn ended(&self) -> Status {
        if self.api.live().is_serving() {
            return Status::aborted("replaced by another stream of the gateway");
        }
        Status::unavailable("the server is stopping; reconnect")
    }
}

async fn next_request(
    requests: &mut Option<Streaming<StreamRequest>>,
) -> Result<Option<StreamRequest>> {
    match requests {
        Some(requests) => requests.message().await,
        None => std::future::pending().await,
    }
}

fn start(resume: Option<Resume>) -> Result<LiveStart, Invalid> {
    Ok(match resume.and_then(|resume| resume.from) {
        None => LiveStart::Last,
        Some(resume::From::Sequence(sequence)) => LiveStart::Sequence(sequence),
        Some(resume::From::Place(place)) => {
            let topic = Some(place.topic).filter(|topic| !topic.is_empty());
            let topic = topic.map(|topic| TopicName::parse("resume.place.topic", &topic));
            LiveStart::Offset(topic.transpose()?, Offset(place.offset))
        }
    })
}

/// What a request asks for.
#[derive(Default)]
struct Work {
    register: Vec<Registration>,
    heartbeat: Vec<String>,
    delete: Vec<String>,
}

impl Work {
    fn is_empty(&self) -> bool {
        self.register.is_empty() && self.heartbeat.is_empty() && self.delete.is_empty()
    }

    /// Does it, for the gateway that asks if that is known, which may be an empty text.
    async fn run(self, api: &Api, gateway: Option<&str>) -> Result<Results> {
        let count = self.register.len() + self.heartbeat.len() + self.delete.len();
        if count > LIVE_BATCH_MAX {
            let problem = format!("{count} subscriptions, at most {LIVE_BATCH_MAX} are allowed");
            return Err(Status::invalid_argument(problem));
        }
        let owner = gateway.filter(|gateway| !gateway.is_empty());
        let mut results = Vec::with_capacity(count);
        let warning = if self.register.is_empty() { None } else { api.live_warning() };
        for one in self.register {
            take_turns(results.len()).await;
            results.push(register(api, one, owner));
        }
        for id in self.heartbeat {
            take_turns(results.len()).await;
            let renewed = api.live().heartbeat(&id, owner);
            results.push(outcome(id, renewed.map(convert::renewed)));
        }
        for id in self.delete {
            take_turns(results.len()).await;
            let deleted = api.live().delete(&id, owner);
            results.push(outcome(id, deleted.map(convert::deleted)));
        }
        Ok(Results { results, warning: warning.unwrap_or_default() })
    }
}

/// A batch must not keep others from being served.
async fn take_turns(done: usize) {
    if done % LIVE_TURN == LIVE_TURN - 1 {
        tokio::task::yield_now().await;
    }
}

fn register(api: &Api, one: Registration, owner: Option<&str>) -> Outcome {
    let id = one.subscription_id.clone();
    let problem = "is not the stream's gateway";
    let registered = match owner {
        Some(owner) if *owner != one.gateway_id => Err(Invalid::new("gatewayId", problem).into()),
        _ => api.live().register(convert::registration(one)),
    };
    outcome(id, registered.map(|registered| convert::registered(&registered)))
}

fn outcome(id: String, kind: std::result::Result<outcome::Kind, LiveRefusal>) -> Outcome {
    let kind = kind.unwrap_or_else(|refusal| convert::fault(&refusal));
    Outcome { subscription_id: id, kind: Some(kind) }
}
