//! The one place that every request passes: who may ask, and which face of the server answers.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use domain::web::{Caller, Head, Hosts, Page, Refused};
use http::header::{CONTENT_TYPE, HOST, ORIGIN};
use http::{HeaderMap, HeaderName, Request, Response};
use hyper::body::Incoming;
use tonic::body::Body;
use tonic::{Code, Status};

use crate::grpc::{self, Grpc};
use crate::live_api::{self, LiveApi};
use crate::net::{Answered, Charge, Exhausted, Front, Kind, Outlet, Room, Share};
use crate::rest::{self, Rest};
use crate::status::Refusal;

const SITE: HeaderName = HeaderName::from_static("sec-fetch-site");
const MODE: HeaderName = HeaderName::from_static("sec-fetch-mode");
const DEST: HeaderName = HeaderName::from_static("sec-fetch-dest");

/// Sends a request to gRPC, to what is for gateways, or to REST, unless it is refused.
#[derive(Clone)]
pub(crate) struct Gate {
    pub(crate) hosts: Arc<Hosts>,
    pub(crate) grpc: Grpc,
    pub(crate) live: LiveApi,
    pub(crate) rest: Rest,
}

impl Front for Gate {
    type Answer = Answering;

    fn answer(
        &self,
        mut request: Request<Incoming>,
        share: &Arc<Share>,
        outlet: &Arc<Outlet>,
    ) -> Answering {
        let kind = kind(request.uri().path());
        if kind == Kind::Stream {
            // What a stream has still to say counts before it is made.
            request.extensions_mut().insert(Arc::clone(outlet));
        }
        let answer = self.make(request, share);
        Answering { answer, room: outlet.room(kind) }
    }
}

impl Gate {
    fn make(&self, request: Request<Incoming>, share: &Arc<Share>) -> Answer {
        let caller = match self.hosts.check(&head(&request)) {
            Ok(caller) => caller,
            Err(refused) => return refuse(&request, refused.into()),
        };
        let charge = match admit(&request, share) {
            Ok(charge) => charge,
            Err(refusal) => return refuse(&request, refusal),
        };
        if grpc::is_grpc(&request) {
            return self.grpc.call(request, charge);
        }
        if live_api::is_live(request.uri().path()) {
            if caller == Caller::Visit {
                return refuse(&request, Refused::CrossSite.into());
            }
            let live = self.live.clone();
            let answer = async move { Ok(live.answer(request, caller).await) };
            return Answer::new(Box::pin(answer), Some(charge));
        }
        let rest = self.rest.clone();
        Answer::new(Box::pin(async move { Ok(rest.answer(request).await) }), Some(charge))
    }
}

/// A place for the call, and memory for its headers.
fn admit(request: &Request<Incoming>, share: &Arc<Share>) -> Result<Charge, Refusal> {
    /// What a header takes besides its text, about.
    const HEADER_BYTES: usize = 64;
    let mut charge = share.admit().map_err(|Exhausted| {
        let problem = "too many calls and streams are open; try again later, or see \
                       limits.calls_max";
        Refusal::new(Code::ResourceExhausted, problem)
    })?;
    let headers = request.headers().iter();
    let bytes = headers.map(|(name, value)| name.as_str().len() + value.len() + HEADER_BYTES).sum();
    charge.reach(bytes)?;
    Ok(charge)
}

/// The answer to a request, in the making.
pub(crate) struct Answer {
    making: Making,
    /// What the call takes; a stream of gRPC holds its own.
    charge: Option<Charge>,
}

/// Makes an answer.
pub(crate) type Making = Pin<Box<dyn Future<Output = Result<Response<Body>, Infallible>> + Send>>;

impl Answer {
    pub(crate) fn new(making: Making, charge: Option<Charge>) -> Self {
        Self { making, charge }
    }

    /// One that was made at once.
    pub(crate) fn ready(response: Response<Body>) -> Self {
        Self::new(Box::pin(std::future::ready(Ok(response))), None)
    }

    fn poll(&mut self, context: &mut Context<'_>) -> Poll<Response<Body>> {
        let making = self.making.as_mut();
        let Ok(response) = ready!(match &mut self.charge {
            Some(charge) => charge.work(|| making.poll(context)),
            None => making.poll(context),
        });
        let response = live_api::keep_while_open(response, &mut self.charge);
        Poll::Ready(grpc::finish(response))
    }
}

/// An answer that is made when there is room for it.
pub(crate) struct Answering {
    answer: Answer,
    room: Room,
}

impl Future for Answering {
    type Output = Result<Response<Answered>, Infallible>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let Self { answer, room } = &mut *self;
        let kind = room.kind();
        room.work(context, |context, outlet| {
            let response = ready!(answer.poll(context));
            let room = outlet.room(kind);
            Poll::Ready(Ok(response.map(|body| Answered::begin(body, room, context))))
        })
    }
}

/// What the answer to a request for a path may hold.
fn kind(path: &str) -> Kind {
    const STREAMS: [&str; 3] = ["/StreamingPull", "/postrider.live.v1.Live/Stream", "/stream"];
    const MESSAGES: [&str; 4] = ["/Pull", ":pull", "/messages", "/deadLetters"];
    let is_one_of = |ends: &[&str]| ends.iter().any(|end| path.ends_with(end));
    if is_one_of(&STREAMS) {
        Kind::Stream
    } else if is_one_of(&MESSAGES) {
        Kind::Messages
    } else {
        Kind::Brief
    }
}

/// What of a request tells who made it. Programs send nothing that only browsers do, so that for
/// them hardly anything is looked up.
fn head(request: &Request<Incoming>) -> Head<'_> {
    let headers = request.headers();
    let mut hosts = headers.get_all(HOST).iter();
    let (host, second) = (hosts.next(), hosts.next());
    let is_page = headers.contains_key(ORIGIN) || headers.contains_key(SITE);
    Head {
        authority: request.uri().authority().map(http::uri::Authority::as_str),
        host: host.map(|host| host.to_str().unwrap_or(NO_TEXT)),
        has_second_host: second.is_some(),
        page: is_page.then(|| Page {
            verb: request.method().as_str(),
            origin: one(headers, &ORIGIN),
            site: one(headers, &SITE),
            mode: one(headers, &MODE),
            dest: one(headers, &DEST),
            content_type: one(headers, &CONTENT_TYPE),
        }),
    }
}

/// What stands for a header that cannot be read: it fits nothing.
const NO_TEXT: &str = "?";

/// The only value of a header.
fn one<'headers>(headers: &'headers HeaderMap, name: &HeaderName) -> Option<&'headers str> {
    let mut values = headers.get_all(name).iter();
    let (first, second) = (values.next()?, values.next());
    Some(first.to_str().ok().filter(|_| second.is_none()).unwrap_or(NO_TEXT))
}

/// Says no in the way that the asker would have been answered.
fn refuse(request: &Request<Incoming>, refusal: Refusal) -> Answer {
    tracing::debug!(problem = %refusal, path = request.uri().path(), "request refused");
    Answer::ready(if grpc::is_grpc(request) {
        Status::from(refusal).into_http()
    } else if live_api::is_live(request.uri().path()) {
        live_api::refused(refusal)
    } else {
        rest::refused(&refusal)
    })
}

impl From<Exhausted> for Refusal {
    fn from(exhausted: Exhausted) -> Self {
        Self::new(Code::ResourceExhausted, exhausted.to_string())
    }
}

impl From<Refused> for Refusal {
    fn from(refused: Refused) -> Self {
        let code = match &refused {
            Refused::TwoHosts | Refused::HostsDiffer { .. } | Refused::ContentType(_) => {
                Code::InvalidArgument
            }
            Refused::Host(_) | Refused::Origin(_) | Refused::CrossSite => Code::PermissionDenied,
        };
        Self::new(code, refused.to_string())
    }
}
