//! `postrider receive`: a local endpoint that shows what is pushed to it.

mod order;
mod signature;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use broker::{Clock, SystemClock};
use clap::Args;
use consumer::push::Verifier;
use domain::push::Secret;
use http::{HeaderMap, StatusCode};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;

use order::{Chain, Order, Piece, Verdict};
use signature::Check;

use super::endpoint::{Answer, Arrived, serve};
use super::values::duration;
use super::{Failure, messages, note, print};

pub(super) const EXAMPLES: &str = "\
Examples:
  postrider receive                                  on http://127.0.0.1:9000/, answers 200
  postrider receive --listen 127.0.0.1:0 --secret whsec_…
  postrider receive --status 500 --times 3           fails three times, then answers 200
  postrider receive --delay 2s --count 10 --json

Push to it with: postrider subscription create hooks --topic orders --endpoint http://127.0.0.1:9000/

Each request is one line: the response, whether its signature and order are right, and the message.
Order is checked with the headers postrider-sequence and postrider-previous-sequence. With --count
it stops after that many requests, with exit code 1 if a signature or the order was wrong.";

#[derive(Debug, Args)]
pub(super) struct Arguments {
    /// The address to listen on; port 0 picks any free port
    #[arg(long, value_name = "ADDRESS:PORT", default_value = "127.0.0.1:9000")]
    listen: SocketAddr,
    /// Check Standard Webhooks signatures with this secret, whsec_…
    #[arg(long)]
    secret: Option<String>,
    /// The status to answer with
    #[arg(long, value_name = "CODE", default_value_t = 200,
          value_parser = clap::value_parser!(u16).range(200..600))]
    status: u16,
    /// Use that status only this many times, then 200
    #[arg(long, value_name = "NUMBER")]
    times: Option<u64>,
    /// Wait this long before each answer
    #[arg(long, value_name = "DURATION", default_value = "0s", value_parser = duration)]
    delay: Duration,
    /// Stop after this many requests
    #[arg(long, value_name = "NUMBER", value_parser = clap::value_parser!(u64).range(1..))]
    count: Option<u64>,
    /// Print one JSON object per request
    #[arg(long)]
    json: bool,
}

pub(super) fn run(arguments: &Arguments) -> Result<(), Failure> {
    let secret = arguments.secret.as_deref().map(|text| Secret::parse("--secret", text));
    let secret = secret.transpose().map_err(Failure::usage)?;
    let verifier = Verifier::new(secret.as_slice());
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    let runtime = runtime.map_err(|error| Failure::failed(format!("cannot start: {error}")))?;
    runtime.block_on(receive(arguments, verifier))
}

async fn receive(arguments: &Arguments, verifier: Option<Verifier>) -> Result<(), Failure> {
    let failed = |error| Failure::failed(format!("cannot listen on {}: {error}", arguments.listen));
    let listener = TcpListener::bind(arguments.listen).await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    print_listening(arguments, address)?;
    let (enough, mut seen) = watch::channel(false);
    let receiver = Arc::new(Receiver {
        script: Script { status: arguments.status, times: arguments.times },
        delay: arguments.delay,
        count: arguments.count,
        is_json: arguments.json,
        verifier,
        clock: SystemClock::start(),
        tally: Mutex::default(),
        enough,
    });
    let answering = Arc::clone(&receiver);
    let end = async move {
        tokio::select! {
            // The sender lives as long as the receiver, so this ends only when it says so.
            _ = seen.wait_for(|enough| *enough) => {}
            _ = tokio::signal::ctrl_c() => {}
        }
    };
    serve(listener, Arc::new(move |arrived: &Arrived| answering.answer(arrived)), end).await;
    receiver.verdict()
}

fn print_listening(arguments: &Arguments, address: SocketAddr) -> Result<(), Failure> {
    if arguments.json {
        return print(&format!("{}\n", json!({"listening": format!("http://{address}/")})));
    }
    print(&format!("Listening on http://{address}/ until Ctrl-C\n"))
}

/// Which status a request gets.
struct Script {
    status: u16,
    times: Option<u64>,
}

impl Script {
    /// For the request with this number, from 0.
    fn status(&self, number: u64) -> StatusCode {
        let is_scripted = self.times.is_none_or(|times| number < times);
        let code = if is_scripted { self.status } else { 200 };
        StatusCode::from_u16(code).unwrap_or(StatusCode::OK)
    }
}

/// Takes requests in, one at a time.
struct Receiver {
    script: Script,
    delay: Duration,
    count: Option<u64>,
    is_json: bool,
    verifier: Option<Verifier>,
    clock: SystemClock,
    tally: Mutex<Tally>,
    enough: watch::Sender<bool>,
}

#[derive(Default)]
struct Tally {
    requests: u64,
    order: Order,
    bad_signatures: u64,
    bad_order: u64,
    cannot_print: Option<Failure>,
}

impl Receiver {
    fn answer(&self, arrived: &Arrived) -> Answer {
        let mut tally = self.tally.lock();
        let status = self.script.status(tally.requests);
        tally.requests += 1;
        let signature = self.check_signature(arrived);
        let messages = Message::all(arrived);
        let pieces = pieces(&arrived.headers, &messages);
        let verdict = tally.order.all_arrived(&pieces, status.is_success());
        tally.bad_signatures += u64::from(signature.is_bad());
        tally.bad_order += u64::from(matches!(verdict, Verdict::Broken(_)));
        let shown = Shown { arrived, status, signature, verdict, messages };
        let text = if self.is_json { shown.json() } else { shown.text() };
        if let Err(failure) = print(&text) {
            tally.cannot_print = Some(failure);
        }
        if self.count.is_some_and(|count| tally.requests >= count) || tally.cannot_print.is_some() {
            self.enough.send_replace(true);
        }
        Answer { status, delay: self.delay }
    }

    fn check_signature(&self, arrived: &Arrived) -> Check {
        let now = self.clock.wall();
        signature::check(self.verifier.as_ref(), &arrived.headers, &arrived.body, now)
    }

    fn verdict(&self) -> Result<(), Failure> {
        let mut tally = self.tally.lock();
        if let Some(failure) = tally.cannot_print.take() {
            return Err(failure);
        }
        let Tally { requests, bad_signatures, bad_order, .. } = &*tally;
        note(&format!("{requests} requests"));
        if *bad_signatures + *bad_order == 0 {
            return Ok(());
        }
        let problem = format!("{bad_signatures} bad signatures, {bad_order} out of order");
        Err(Failure::failed(problem))
    }
}

/// What the headers say about the place of a request in its lane.
fn chain(headers: &HeaderMap) -> Option<Chain> {
    let number = |name: &str| headers.get(name)?.to_str().ok()?.parse::<u64>().ok();
    Some(Chain {
        sequence: number("postrider-sequence")?,
        previous: number("postrider-previous-sequence"),
        epoch: number("postrider-epoch"),
    })
}

/// The pieces of lanes that a request is: one, or one of each lane where its messages say so.
fn pieces(headers: &HeaderMap, messages: &[Message]) -> Vec<Piece> {
    let links = messages.iter().filter_map(|message| message.link);
    let mut pieces: Vec<Piece> = Vec::new();
    for link in links {
        let before = |piece: &&mut Piece| piece.ids.last().copied() == link.previous;
        match pieces.iter_mut().find(before) {
            Some(piece) => piece.ids.push(link.sequence),
            None => pieces.push(Piece { chain: link, ids: vec![link.sequence] }),
        }
    }
    if pieces.is_empty() {
        let ids = messages.iter().filter_map(|message| message.id).collect();
        pieces.extend(chain(headers).map(|chain| Piece { chain, ids }));
    }
    pieces
}

/// One message of a request.
struct Message {
    /// `None` where the request is no envelope and its headers do not tell.
    id: Option<u64>,
    attempt: Option<u64>,
    /// Where it stands, if the request has messages of several lanes.
    link: Option<Chain>,
    /// As Google's JSON has it, or made up from a body that is the data alone.
    json: Value,
}

impl Message {
    /// Those of an envelope, of an array of them, or the one that is the body itself.
    fn all(arrived: &Arrived) -> Vec<Self> {
        match serde_json::from_slice(&arrived.body) {
            Ok(Value::Array(envelopes)) if envelopes.iter().all(is_envelope) => {
                envelopes.iter().map(Self::of_envelope).collect()
            }
            Ok(envelope) if is_envelope(&envelope) => vec![Self::of_envelope(&envelope)],
            _ => vec![Self::bare(arrived)],
        }
    }

    fn of_envelope(envelope: &Value) -> Self {
        let json = envelope["message"].clone();
        let id = json["messageId"].as_str().and_then(|id| id.parse().ok());
        let number = |name: &str| envelope["postrider"][name].as_str()?.parse().ok();
        let previous = number("previousSequence");
        let link = number("sequence").map(|sequence| Chain { sequence, previous, epoch: None });
        Self { id, attempt: envelope["deliveryAttempt"].as_u64(), link, json }
    }

    fn bare(arrived: &Arrived) -> Self {
        let header = |name: &str| arrived.headers.get(name).and_then(|value| value.to_str().ok());
        let id = header("x-goog-pubsub-message-id").or_else(|| header("postrider-sequence"));
        let mut json = json!({"data": messages::encoded(&arrived.body)});
        json["messageId"] = id.unwrap_or_default().into();
        json["publishTime"] = header("x-goog-pubsub-publish-time").unwrap_or_default().into();
        Self { id: id.and_then(|id| id.parse().ok()), attempt: None, link: None, json }
    }
}

fn is_envelope(value: &Value) -> bool {
    value["message"].is_object()
}

/// What is printed of a request.
struct Shown<'arrived> {
    arrived: &'arrived Arrived,
    status: StatusCode,
    signature: Check,
    verdict: Verdict,
    messages: Vec<Message>,
}

impl Shown<'_> {
    fn text(&self) -> String {
        let mut head = format!("{} {}", self.status.as_u16(), self.arrived.path);
        for said in [self.signature.text(), self.verdict.text()].into_iter().flatten() {
            head.push_str(&format!("  {said}"));
        }
        let lines = self.messages.iter().map(|message| {
            let attempt = message.attempt.map(|attempt| format!("attempt {attempt}"));
            format!("{head}  {}", messages::line(&message.json, &attempt.unwrap_or_default()))
        });
        lines.collect()
    }

    fn json(&self) -> String {
        let messages: Vec<Value> = self
            .messages
            .iter()
            .map(|message| json!({"message": message.json, "deliveryAttempt": message.attempt}))
            .collect();
        let chain = chain(&self.arrived.headers);
        let shown = json!({
            "method": self.arrived.method.as_str(),
            "path": self.arrived.path,
            "status": self.status.as_u16(),
            "signature": self.signature.word(),
            "order": self.verdict.word(),
            "problem": self.signature.problem().or_else(|| self.verdict.problem()),
            "sequence": chain.map(|chain| chain.sequence),
            "previousSequence": chain.and_then(|chain| chain.previous),
            "epoch": chain.and_then(|chain| chain.epoch),
            "messages": messages,
        });
        format!("{shown}\n")
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use http::Method;

    use super::*;

    fn arrived(headers: &[(&'static str, &str)], body: &str) -> Arrived {
        let headers = headers
            .iter()
            .map(|(name, value)| (http::HeaderName::from_static(name), value.parse().unwrap()));
        Arrived {
            method: Method::POST,
            path: "/push".to_owned(),
            headers: headers.collect(),
            body: Bytes::copy_from_slice(body.as_bytes()),
        }
    }

    #[test]
    fn the_first_answers_are_as_told_and_the_others_good() {
        let script = Script { status: 500, times: Some(2) };
        assert_eq!([0, 1, 2].map(|number| script.status(number).as_u16()), [500, 500, 200]);
        let always = Script { status: 503, times: None };
        assert_eq!(always.status(1_000).as_u16(), 503);
    }

    #[test]
    fn messages_are_found_in_every_form() {
        let one = r#"{"message": {"messageId": "7", "data": "eA=="}, "deliveryAttempt": 2}"#;
        let found = Message::all(&arrived(&[], one));
        assert_eq!((found.len(), found[0].id, found[0].attempt), (1, Some(7), Some(2)));
        let found = Message::all(&arrived(&[], &format!("[{one}, {one}]")));
        assert_eq!(found.len(), 2);
        let found = Message::all(&arrived(&[("x-goog-pubsub-message-id", "9")], "raw"));
        assert_eq!((found[0].id, messages::data(&found[0].json)), (Some(9), b"raw".to_vec()));
        assert_eq!(Message::all(&arrived(&[], "[1]"))[0].id, None);
    }

    #[test]
    fn a_batch_of_several_lanes_is_a_piece_of_each() {
        let envelope = |id: u64, previous: Option<u64>| {
            let previous = previous.map(|previous| previous.to_string());
            let link = json!({"sequence": id.to_string(), "previousSequence": previous});
            json!({"message": {"messageId": id.to_string()}, "postrider": link})
        };
        let body = json!([
            envelope(5, Some(1)),
            envelope(6, None),
            {"message": {"messageId": "7"}},
            envelope(8, Some(5)),
            envelope(9, Some(6)),
        ]);
        let arrived = arrived(&[("postrider-sequence", "5")], &body.to_string());
        let found = pieces(&arrived.headers, &Message::all(&arrived));
        let ids: Vec<_> =
            found.iter().map(|piece| (piece.chain.previous, &piece.ids[..])).collect();
        assert_eq!(ids, [(Some(1), &[5, 8][..]), (None, &[6, 9])]);
    }

    #[test]
    fn a_request_is_shown_with_what_was_found_out() {
        let body = r#"{"message": {"messageId": "7", "publishTime": "t", "data": "eA=="}}"#;
        let arrived = arrived(&[("postrider-sequence", "7"), ("postrider-epoch", "3")], body);
        let shown = Shown {
            arrived: &arrived,
            status: StatusCode::OK,
            signature: Check::Unchecked,
            verdict: Verdict::InOrder,
            messages: Message::all(&arrived),
        };
        assert_eq!(shown.text(), "200 /push  in order  7  t  x\n");
        let json: Value = serde_json::from_str(&shown.json()).unwrap();
        assert_eq!((&json["sequence"], &json["epoch"]), (&json!(7), &json!(3)));
        assert_eq!((&json["order"], &json["signature"]), (&json!("in_order"), &json!("unchecked")));
        assert_eq!(json["messages"][0]["message"]["messageId"], "7");
    }
}
