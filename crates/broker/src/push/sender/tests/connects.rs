use ipnet::IpNet;
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use super::peer::Peer;
use super::*;

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

/// Listens without accepting, with its queue already full, so that further connects hang.
struct Hanging {
    address: SocketAddr,
    _listener: TcpListener,
    _waiting: Vec<TcpStream>,
}

impl Hanging {
    async fn start() -> Self {
        let socket = TcpSocket::new_v4().unwrap();
        socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
        let listener = socket.listen(1).unwrap();
        let address = listener.local_addr().unwrap();
        let mut waiting = Vec::new();
        // A full queue holds one more than requested.
        for _ in 0..2 {
            waiting.push(TcpStream::connect(address).await.unwrap());
        }
        Self { address, _listener: listener, _waiting: waiting }
    }
}

#[tokio::test]
async fn a_refused_port_is_a_failed_connect_that_names_the_address() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let endpoint = format!("http://user:pass@{address}/push?key=secret");
    let no_answer = Fixture::new().send(request(&endpoint)).await.unwrap_err();
    assert_eq!((no_answer.class, no_answer.address), (Class::Connect, Some(address)));
    let message = no_answer.message;
    assert!(message.contains(&address.to_string()) && message.contains("refused"), "{message}");
    assert!(!message.contains("pass") && !message.contains("secret"), "{message}");
}

#[tokio::test]
async fn an_unknown_host_is_named() {
    let fixture = Fixture::new();
    let message = assert_class(fixture.send(request("http://nowhere/")).await, Class::Dns);
    assert!(message.contains("nowhere") && message.contains("name not known"), "{message}");

    let sender = Arc::new(Sender::new(options(), Arc::new(FakeClock::default())).unwrap());
    let result = sender.send(request("http://nonexistent.invalid/x")).await;
    let message = assert_class(result, Class::Dns);
    assert!(message.contains("nonexistent.invalid"), "{message}");
}

#[tokio::test]
async fn the_systems_names_are_found() {
    let peer = Peer::answering(OK).await;
    let sender = Arc::new(Sender::new(options(), Arc::new(FakeClock::default())).unwrap());
    let endpoint = format!("http://localhost:{}/", peer.address.port());
    let answer = sender.send(request(&endpoint)).await.unwrap();
    assert_eq!(answer.address, peer.address);
}

#[tokio::test]
async fn the_next_address_is_tried_if_one_refuses() {
    let peer = Peer::answering(OK).await;
    let names: [(&str, &[&str]); 1] = [("both", &["127.0.0.2", "::1", "127.0.0.1"])];
    let fixture = Fixture::with(options(), &names);
    let endpoint = format!("http://both:{}/", peer.address.port());
    assert_eq!(fixture.send(request(&endpoint)).await.unwrap().address, peer.address);
}

#[tokio::test]
async fn the_next_address_is_tried_beside_one_that_hangs() {
    let hanging = Hanging::start().await;
    let port = hanging.address.port();
    let listener = TcpListener::bind(("127.0.0.3", port)).await.unwrap();
    let names: [(&str, &[&str]); 1] = [("both", &["127.0.0.1", "127.0.0.3"])];
    let fixture = Fixture::with(options(), &names);
    let _sending = fixture.start(request(&format!("http://both:{port}/")));
    let pause = Duration::from_millis(250);
    fixture.clock.is_slept_for(pause).await;
    fixture.clock.advance(pause);
    listener.accept().await.unwrap();
}

#[tokio::test]
async fn private_addresses_are_refused_however_they_are_written() {
    let peer = Peer::answering(OK).await;
    let port = peer.address.port();
    let names: [(&str, &[&str]); 2] =
        [("inside", &["127.0.0.1"]), ("mixed", &["8.8.8.8", "::ffff:127.0.0.1"])];
    let fixture = Fixture::with(SenderOptions { guard: Guard::default(), ..options() }, &names);
    for host in ["127.0.0.1", "[::1]", "[::ffff:7f00:1]", "inside", "mixed"] {
        let result = fixture.send(request(&format!("http://{host}:{port}/"))).await;
        let message = assert_class(result, Class::Blocked);
        assert!(message.contains("push.allow"), "{message}");
    }
    assert_eq!(peer.accepts(), 0);
}

#[tokio::test]
async fn odd_spellings_of_addresses_are_judged_by_what_they_lead_to() {
    let guarded = SenderOptions { guard: Guard::default(), ..options() };
    let sender = Arc::new(Sender::new(guarded, Arc::new(FakeClock::default())).unwrap());
    for host in ["127.1", "2130706433", "0x7f.0.0.1", "017700000001", "0"] {
        let result = sender.send(request(&format!("http://{host}:9/"))).await;
        let class = result.map(|answer| answer.status).unwrap_err().class;
        assert!(matches!(class, Class::Blocked | Class::Dns), "{host}: {class:?}");
    }
}

#[tokio::test]
async fn listed_addresses_are_connected_to() {
    let peer = Peer::answering(OK).await;
    let allow: Vec<IpNet> = vec!["127.0.0.1/32".parse().unwrap()];
    let guard = Guard { allow, ..Guard::default() };
    let fixture = Fixture::with(SenderOptions { guard, ..options() }, &[]);
    assert_eq!(fixture.send(to(peer.address)).await.unwrap().status, StatusCode::OK);
}

#[tokio::test]
async fn a_connect_that_hangs_ends_with_the_connect_timeout() {
    let hanging = Hanging::start().await;
    let fixture = Fixture::new();
    let sending = fixture.start(to(hanging.address));
    fixture.clock.is_slept_for(5 * SECOND).await;
    fixture.clock.advance(5 * SECOND);
    let message = assert_class(sending.await.unwrap(), Class::Connect);
    assert!(message.contains("5s"), "{message}");
    assert_eq!(fixture.sender.connector.hosts_with_connects(), 0);
}

#[tokio::test]
async fn a_timeout_shorter_than_that_of_connects_counts_first() {
    let hanging = Hanging::start().await;
    let fixture = Fixture::new();
    let sending = fixture.start(Request { timeout: SECOND, ..to(hanging.address) });
    fixture.clock.is_slept_for(5 * SECOND).await;
    fixture.clock.advance(SECOND);
    let message = assert_class(sending.await.unwrap(), Class::Timeout);
    assert!(message.contains("1s"), "{message}");
}

#[tokio::test]
async fn a_host_that_hangs_leaves_connects_for_others() {
    let (hanging, peer) = (Hanging::start().await, Peer::answering(OK).await);
    let names: [(&str, &[&str]); 2] = [("hanging", &["127.0.0.1"]), ("well", &["127.0.0.1"])];
    let limits = SenderOptions { connects_max: 3, connects_per_host_max: 2, ..options() };
    let fixture = Fixture::with(limits, &names);
    let endpoint = format!("http://hanging:{}/", hanging.address.port());
    let request_of = |timeout| Request { timeout: timeout * SECOND, ..request(&endpoint) };
    let stuck = [4, 6, 7, 8, 9].map(|timeout| fixture.start(request_of(timeout)));
    // Two connect, the others wait for them.
    fixture.clock.is_slept_for_times(5 * SECOND, 2).await;
    let endpoint = format!("http://well:{}/", peer.address.port());
    assert_eq!(fixture.send(request(&endpoint)).await.unwrap().status, StatusCode::OK);
    assert_eq!(fixture.sender.connector.hosts_with_connects(), 1);

    fixture.clock.advance(4 * SECOND);
    for sending in &stuck {
        sending.abort();
    }
    for sending in stuck {
        drop(sending.await);
    }
    assert_eq!(fixture.sender.connector.hosts_with_connects(), 0);
}

/// Names for hosts that each have their own limit, all on this machine.
const HOSTS: [(&str, &[&str]); 5] = [
    ("well", &["127.0.0.1"]),
    ("hangs1", &["127.0.0.1"]),
    ("hangs2", &["127.0.0.1"]),
    ("hangs3", &["127.0.0.1"]),
    ("hangs4", &["127.0.0.1"]),
];

fn named(host: &str, address: SocketAddr) -> Request {
    request(&format!("http://{host}:{}/", address.port()))
}

#[tokio::test]
async fn who_waits_for_other_connects_too_long_was_no_attempt() {
    let hanging = Hanging::start().await;
    let limits = SenderOptions { connects_per_host_max: 1, ..options() };
    let fixture = Fixture::with(limits, &[]);
    let first = fixture.start(to(hanging.address));
    fixture.clock.is_slept_for(5 * SECOND).await;
    let second = fixture.start(Request { timeout: SECOND, ..to(hanging.address) });
    fixture.clock.is_slept_for(SECOND).await;
    fixture.clock.advance(SECOND);
    let no_answer = second.await.unwrap().unwrap_err();
    assert!(
        no_answer.is_ours && no_answer.message.contains("other connection attempts"),
        "{no_answer:?}"
    );
    fixture.clock.advance(4 * SECOND);
    assert!(!first.await.unwrap().unwrap_err().is_ours, "that one did connect");
}

#[tokio::test]
async fn waiting_for_other_connects_does_not_count_against_the_timeout() {
    let hanging = Hanging::start().await;
    let (seen, mut requests) = tokio::sync::mpsc::unbounded_channel();
    let (go, gone) = watch::channel(false);
    let peer = Peer::start(move |mut call: super::peer::Call| {
        let (seen, mut gone) = (seen.clone(), gone.clone());
        async move {
            call.request().await.unwrap();
            seen.send(()).unwrap();
            gone.wait_for(|go| *go).await.unwrap();
            call.write(OK).await;
        }
    })
    .await;
    let limits = SenderOptions { connects_max: 1, ..options() };
    let fixture = Fixture::with(limits, &HOSTS);
    let stuck = fixture.start(named("hangs1", hanging.address));
    fixture.clock.is_slept_for(5 * SECOND).await;
    let timeout = 6 * SECOND;
    let sending = fixture.start(Request { timeout, ..named("well", peer.address) });
    fixture.clock.is_slept_for(timeout).await;
    fixture.clock.advance(5 * SECOND);
    assert_class(stuck.await.unwrap(), Class::Connect);
    requests.recv().await.unwrap();
    fixture.clock.is_slept_for(timeout).await;
    fixture.clock.advance(timeout - Duration::from_millis(1));
    go.send_replace(true);
    assert_eq!(sending.await.unwrap().unwrap().status, StatusCode::OK);
}

#[tokio::test]
async fn a_host_that_connected_well_does_not_wait_behind_those_that_hang() {
    let (hanging, peer) = (Hanging::start().await, Peer::answering(OK).await);
    let limits = SenderOptions { connects_max: 4, idle_max: 0, ..options() };
    let fixture = Fixture::with(limits, &HOSTS);
    fixture.send(named("well", peer.address)).await.unwrap();
    fixture.clock.advance(SECOND);
    let _stuck =
        ["hangs1", "hangs2", "hangs3"].map(|host| fixture.start(named(host, hanging.address)));
    fixture.clock.is_slept_for_times(5 * SECOND, 3).await;
    // Only the part is left that is not for a host of which nothing is known.
    let fourth = Request { timeout: SECOND, ..named("hangs4", hanging.address) };
    let fourth = fixture.start(fourth);
    fixture.clock.is_slept_for(SECOND).await;
    for _ in 0..2 {
        let answer = fixture.send(named("well", peer.address)).await.unwrap();
        assert_eq!(answer.status, StatusCode::OK);
    }
    fixture.clock.advance(SECOND);
    assert!(fourth.await.unwrap().unwrap_err().is_ours);
    assert_eq!(peer.accepts(), 3);
}

#[tokio::test]
async fn a_host_is_no_longer_proven_once_a_connect_fails() {
    let (hanging, peer) = (Hanging::start().await, Peer::answering(OK).await);
    let limits = SenderOptions { connects_max: 4, idle_max: 0, ..options() };
    let fixture = Fixture::with(limits, &HOSTS);
    fixture.send(named("well", peer.address)).await.unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let closed = listener.local_addr().unwrap();
    drop(listener);
    assert_class(fixture.send(named("well", closed)).await, Class::Connect);
    fixture.clock.advance(SECOND);
    let _stuck =
        ["hangs1", "hangs2", "hangs3"].map(|host| fixture.start(named(host, hanging.address)));
    fixture.clock.is_slept_for_times(5 * SECOND, 3).await;
    let sending = fixture.start(Request { timeout: SECOND, ..named("well", peer.address) });
    fixture.clock.is_slept_for(SECOND).await;
    fixture.clock.advance(SECOND);
    assert!(sending.await.unwrap().unwrap_err().is_ours);
}

#[tokio::test]
async fn connections_kept_for_later_make_room_for_new_ones() {
    let peers = [Peer::answering(OK).await, Peer::answering(OK).await, Peer::answering(OK).await];
    let fixture = Fixture::with(SenderOptions { sockets_max: 2, ..options() }, &[]);
    for peer in &peers {
        assert_eq!(fixture.send(to(peer.address)).await.unwrap().status, StatusCode::OK);
        assert!(fixture.sender.pool.kept() <= 2);
        fixture.clock.advance(SECOND);
    }
    assert_eq!(fixture.sender.pool.kept(), 2);
    // The two used last were kept, and are reused.
    for peer in &peers[1..] {
        assert_eq!(fixture.send(to(peer.address)).await.unwrap().status, StatusCode::OK);
        assert_eq!(peer.accepts(), 1);
    }
    fixture.sender.close_idle();
    assert_eq!(fixture.sender.connector.sockets_free(), 2);
}

#[tokio::test]
async fn who_waits_for_a_socket_too_long_was_no_attempt() {
    let hanging = Hanging::start().await;
    let limits = SenderOptions { sockets_max: 1, ..options() };
    let fixture = Fixture::with(limits, &HOSTS);
    let first = fixture.start(named("hangs1", hanging.address));
    fixture.clock.is_slept_for(5 * SECOND).await;
    let second = Request { timeout: SECOND, ..named("hangs2", hanging.address) };
    let second = fixture.start(second);
    fixture.clock.is_slept_for(SECOND).await;
    fixture.clock.advance(SECOND);
    let no_answer = second.await.unwrap().unwrap_err();
    assert!(no_answer.is_ours && no_answer.message.contains("sockets"), "{no_answer:?}");
    fixture.clock.advance(4 * SECOND);
    assert!(!first.await.unwrap().unwrap_err().is_ours, "that one did connect");
    assert_eq!(fixture.sender.connector.sockets_free(), 1);
}

#[tokio::test]
async fn a_connection_that_becomes_idle_is_closed_for_whoever_waits_for_a_socket() {
    let (go, gone) = watch::channel(false);
    let slow = Peer::start(move |mut call: super::peer::Call| {
        let mut gone = gone.clone();
        async move {
            call.request().await.unwrap();
            gone.wait_for(|go| *go).await.unwrap();
            call.write(OK).await;
            call.closed().await;
        }
    })
    .await;
    let other = Peer::answering(OK).await;
    let limits = SenderOptions { sockets_max: 1, ..options() };
    let fixture = Fixture::with(limits, &[]);
    let first = fixture.start(to(slow.address));
    let second = Request { timeout: 7 * SECOND, ..to(other.address) };
    fixture.clock.is_slept_for(30 * SECOND).await;
    let second = fixture.start(second);
    fixture.clock.is_slept_for(7 * SECOND).await;
    go.send_replace(true);
    assert_eq!(first.await.unwrap().unwrap().status, StatusCode::OK);
    assert_eq!(second.await.unwrap().unwrap().status, StatusCode::OK);
}

#[tokio::test]
async fn the_next_address_is_tried_with_the_same_place_if_one_refuses() {
    let peer = Peer::answering(OK).await;
    let names: [(&str, &[&str]); 1] = [("both", &["127.0.0.2", "::1", "127.0.0.1"])];
    let fixture = Fixture::with(SenderOptions { sockets_max: 1, ..options() }, &names);
    let endpoint = format!("http://both:{}/", peer.address.port());
    assert_eq!(fixture.send(request(&endpoint)).await.unwrap().address, peer.address);
}

#[test]
fn the_limits_of_this_process_and_machine_are_known_by_their_errors() {
    for (code, is_ours) in [(24, true), (23, true), (105, true), (12, true), (111, false)] {
        let error = io::Error::from_raw_os_error(code);
        assert_eq!(super::super::sockets::are_used_up(&error), is_ours, "{error}");
    }
}

/// Never answers.
struct Silent;

impl Lookup for Silent {
    fn lookup(&self, _name: String) -> BoxFuture<'static, io::Result<Vec<IpAddr>>> {
        Box::pin(std::future::pending())
    }
}

#[tokio::test]
async fn a_lookup_that_hangs_is_the_hosts_fault_and_one_that_never_began_is_ours() {
    const LOOKUPS: usize = 32;
    let clock = Arc::new(FakeClock::default());
    let sender = Sender::with_lookup(options(), Arc::new(Silent), Arc::clone(&clock) as _).unwrap();
    let fixture = Fixture { sender: Arc::new(sender), clock };
    let start = |number: usize| fixture.start(request(&format!("http://host{number}/")));
    let sent: Vec<_> = (0..=LOOKUPS).map(start).collect();
    // Each waits for the lookup to begin, and all but one for its end.
    fixture.clock.is_slept_for_times(30 * SECOND, 2 * LOOKUPS + 1).await;
    fixture.clock.advance(30 * SECOND);
    let mut ours = 0;
    for sending in sent {
        let no_answer = sending.await.unwrap().unwrap_err();
        ours += usize::from(no_answer.is_ours);
        assert!(no_answer.is_ours || no_answer.class == Class::Timeout, "{no_answer:?}");
    }
    assert_eq!(ours, 1);
}
