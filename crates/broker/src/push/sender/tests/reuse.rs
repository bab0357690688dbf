use tokio::sync::mpsc;

use super::peer::{Call, Peer};
use super::*;

const OK: &str = "HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok";

#[tokio::test]
async fn a_request_arrives_whole_and_so_does_its_answer() {
    let (seen, mut requests) = mpsc::unbounded_channel();
    let peer = Peer::start(move |mut call: Call| {
        let seen = seen.clone();
        async move {
            while let Some(request) = call.request().await {
                seen.send(request).unwrap();
                call.write("HTTP/1.1 201 Created\r\nx-from: peer\r\ncontent-length: 4\r\n\r\ndone")
                    .await;
            }
        }
    })
    .await;
    let fixture = Fixture::new();
    let port = peer.address.port();
    let mut sent = request(&format!("http://user:pass@127.0.0.1:{port}/a/b?key=1"));
    sent.method = Method::PUT;
    let answer = fixture.send(sent).await.unwrap();
    assert_eq!((answer.status.as_u16(), &answer.body[..]), (201, &b"done"[..]));
    assert_eq!(answer.headers["x-from"], "peer");
    assert_eq!(answer.address, peer.address);
    let seen = requests.recv().await.unwrap();
    assert!(seen.starts_with("PUT /a/b?key=1 HTTP/1.1\r\n"), "{seen}");
    assert!(seen.contains(&format!("host: 127.0.0.1:{port}\r\n")), "{seen}");
    assert!(seen.contains("x-test: yes\r\n") && seen.contains("content-length: 5\r\n"), "{seen}");
    assert!(seen.ends_with("\r\n\r\nhello"), "{seen}");

    let mut empty = request(&format!("http://127.0.0.1:{port}"));
    empty.body = Bytes::new();
    fixture.send(empty).await.unwrap();
    let seen = requests.recv().await.unwrap();
    assert!(seen.starts_with("POST / HTTP/1.1\r\n"), "{seen}");
    assert_eq!(seen.matches("content-length: 0\r\n").count(), 1, "{seen}");
}

#[tokio::test]
async fn one_connection_serves_one_request_after_the_other() {
    let answers = [
        OK,
        "HTTP/1.1 204 No Content\r\n\r\n",
        "HTTP/1.1 500 Oh\r\ncontent-length: 0\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n2\r\nde\r\n0\r\n\r\n",
        "HTTP/1.1 200 OK\r\ntransfer-encoding: chunked\r\ntrailer: x\r\n\r\n1\r\na\r\n0\r\nx: y\r\n\r\n",
    ];
    let peer = Peer::start(move |mut call: Call| async move {
        for answer in answers.iter().cycle() {
            if call.request().await.is_none() {
                return;
            }
            call.write(answer).await;
        }
    })
    .await;
    let fixture = Fixture::new();
    for _ in 0..3 {
        for (status, body) in [(200, "ok"), (204, ""), (500, ""), (200, "abcde"), (200, "a")] {
            let answer = fixture.send(to(peer.address)).await.unwrap();
            assert_eq!((answer.status.as_u16(), &answer.body[..]), (status, body.as_bytes()));
        }
    }
    assert_eq!((peer.accepts(), fixture.sender.pool.kept()), (1, 1));
}

#[tokio::test]
async fn requests_at_the_same_time_have_a_connection_each() {
    let (seen, mut requests) = mpsc::unbounded_channel();
    let (go, gone) = watch::channel(false);
    let peer = Peer::start(move |mut call: Call| {
        let (seen, mut gone) = (seen.clone(), gone.clone());
        async move {
            while call.request().await.is_some() {
                seen.send(()).unwrap();
                gone.wait_for(|go| *go).await.unwrap();
                call.write(OK).await;
            }
        }
    })
    .await;
    let fixture = Fixture::new();
    let both = [fixture.start(to(peer.address)), fixture.start(to(peer.address))];
    for _ in 0..2 {
        requests.recv().await.unwrap();
    }
    go.send_replace(true);
    for one in both {
        one.await.unwrap().unwrap();
    }
    assert_eq!((peer.accepts(), fixture.sender.pool.kept()), (2, 2));
}

#[tokio::test]
async fn an_idle_connection_closed_by_the_endpoint_is_no_error() {
    let (closed, mut closes) = mpsc::unbounded_channel();
    let peer = Peer::start(move |mut call: Call| {
        let closed = closed.clone();
        async move {
            call.request().await.unwrap();
            call.write(OK).await;
            drop(call);
            closed.send(()).unwrap();
        }
    })
    .await;
    let fixture = Fixture::new();
    for count in 1..=5 {
        fixture.send(to(peer.address)).await.unwrap();
        closes.recv().await.unwrap();
        assert_eq!(peer.accepts(), count);
    }
}

/// Answers `before` requests with 200 on the first connection, then does `last` on it; serves all
/// others well. Reports how many requests came in.
async fn failing(
    before: usize,
    last: fn(Call) -> BoxFuture<'static, ()>,
) -> (Peer, watch::Receiver<usize>) {
    let (seen, requests) = watch::channel(0);
    let seen = Arc::new(seen);
    let peer = Peer::start(move |mut call: Call| {
        let seen = Arc::clone(&seen);
        async move {
            let mut served = 0;
            while call.request().await.is_some() {
                seen.send_modify(|count| *count += 1);
                if call.number == 1 && served == before {
                    return last(call).await;
                }
                served += 1;
                call.write(OK).await;
            }
        }
    })
    .await;
    (peer, requests)
}

#[tokio::test]
async fn a_request_that_was_sent_is_not_sent_again_when_its_connection_ends() {
    let ends: [fn(Call) -> BoxFuture<'static, ()>; 2] =
        [|call| Box::pin(async move { drop(call) }), |call| Box::pin(async move { call.reset() })];
    for end in ends {
        let (peer, requests) = failing(1, end).await;
        let fixture = Fixture::new();
        assert_eq!(fixture.send(to(peer.address)).await.unwrap().status, StatusCode::OK);
        let no_answer = fixture.send(to(peer.address)).await.unwrap_err();
        assert_eq!((no_answer.class, no_answer.is_ours), (Class::Protocol, false));
        assert_eq!((peer.accepts(), *requests.borrow()), (1, 2));
    }
}

/// Answers one request on each connection and then closes it, in a separate thread: the test's
/// runtime notices nothing while the test waits for the thread.
fn closing() -> (SocketAddr, std::sync::mpsc::Receiver<()>) {
    use std::io::{Read, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let (closed, closes) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for _ in 0..3 {
            let (mut stream, _) = listener.accept().unwrap();
            let mut text = Vec::new();
            while !text.ends_with(b"hello") {
                let mut bytes = [0; 1024];
                let count = stream.read(&mut bytes).unwrap();
                text.extend_from_slice(&bytes[..count]);
            }
            stream.write_all(OK.as_bytes()).unwrap();
            drop(stream);
            closed.send(()).unwrap();
        }
    });
    (address, closes)
}

#[tokio::test]
async fn a_used_connection_closed_before_the_request_went_out_is_replaced() {
    let (address, closes) = closing();
    let fixture = Fixture::new();
    for _ in 0..3 {
        let answer = fixture.send(to(address)).await.unwrap();
        assert_eq!(answer.status, StatusCode::OK);
        closes.recv().unwrap();
    }
}

#[tokio::test]
async fn a_fresh_connection_closed_before_the_answer_is_not_replaced() {
    let (peer, requests) = failing(0, |call| Box::pin(async move { drop(call) })).await;
    let fixture = Fixture::new();
    let message = assert_class(fixture.send(to(peer.address)).await, Class::Protocol);
    assert!(message.contains("closed the connection"), "{message}");
    assert_eq!((peer.accepts(), *requests.borrow()), (1, 1));
}

#[tokio::test]
async fn after_a_byte_of_the_answer_nothing_is_sent_again() {
    let starts: [fn(Call) -> BoxFuture<'static, ()>; 2] = [
        |mut call| Box::pin(async move { call.write("HTTP/1.1 2").await }),
        |mut call| Box::pin(async move { call.write("HTTP/1.1 100 Continue\r\n\r\n").await }),
    ];
    for start in starts {
        let (peer, requests) = failing(1, start).await;
        let fixture = Fixture::new();
        fixture.send(to(peer.address)).await.unwrap();
        assert_class(fixture.send(to(peer.address)).await, Class::Protocol);
        assert_eq!((peer.accepts(), *requests.borrow()), (1, 2));
    }
}

#[tokio::test]
async fn an_answer_nobody_asked_for_ends_the_connection() {
    let (seen, mut spoken) = mpsc::unbounded_channel();
    let peer = Peer::start(move |mut call: Call| {
        let seen = seen.clone();
        async move {
            call.request().await.unwrap();
            call.write(OK).await;
            call.write("HTTP/1.1 408 Too slow\r\ncontent-length: 0\r\n\r\n").await;
            seen.send(()).unwrap();
            call.closed().await;
        }
    })
    .await;
    let fixture = Fixture::new();
    for _ in 0..2 {
        let answer = fixture.send(to(peer.address)).await.unwrap();
        assert_eq!(answer.status, StatusCode::OK);
        spoken.recv().await.unwrap();
        tokio::task::yield_now().await;
    }
    assert_eq!(peer.accepts(), 2);
}

/// Answers one request on each connection, and tells when we close it.
async fn telling_closes() -> (Peer, mpsc::UnboundedReceiver<()>) {
    let (closed, closes) = mpsc::unbounded_channel();
    let peer = Peer::start(move |mut call: Call| {
        let closed = closed.clone();
        async move {
            call.request().await.unwrap();
            call.write(OK).await;
            call.closed().await;
            closed.send(()).unwrap();
        }
    })
    .await;
    (peer, closes)
}

#[tokio::test]
async fn connections_not_used_for_a_minute_are_closed() {
    let (peer, mut closes) = telling_closes().await;
    let fixture = Fixture::new();
    fixture.send(to(peer.address)).await.unwrap();
    for _ in 0..2 {
        fixture.clock.is_slept_for(30 * SECOND).await;
        assert_eq!(fixture.sender.pool.kept(), 1);
        fixture.clock.advance(30 * SECOND);
    }
    closes.recv().await.unwrap();
    assert_eq!(fixture.sender.pool.kept(), 0);
}

#[tokio::test]
async fn idle_connections_are_closed_when_asked_for() {
    let (peer, mut closes) = telling_closes().await;
    let fixture = Fixture::new();
    fixture.send(to(peer.address)).await.unwrap();
    fixture.sender.close_idle();
    closes.recv().await.unwrap();
    assert_eq!(fixture.sender.pool.kept(), 0);
    fixture.send(to(peer.address)).await.unwrap();
    assert_eq!(peer.accepts(), 2);
}

#[tokio::test]
async fn no_more_connections_are_kept_than_allowed_and_the_last_used_stay() {
    let fixture = Fixture::with(SenderOptions { idle_max: 8, ..options() }, &[]);
    let mut peers = Vec::new();
    for _ in 0..9 {
        let peer = Peer::answering(OK).await;
        fixture.clock.advance(Duration::from_millis(1));
        fixture.send(to(peer.address)).await.unwrap();
        peers.push(peer);
        assert!(fixture.sender.pool.kept() <= 8);
    }
    assert_eq!(fixture.sender.pool.kept(), 7);
    for (index, accepts) in [(8, 1), (2, 1), (0, 2), (1, 2)] {
        let peer: &Peer = &peers[index];
        fixture.send(to(peer.address)).await.unwrap();
        assert_eq!(peer.accepts(), accepts, "peer {index}");
    }
}

#[tokio::test]
async fn nothing_is_kept_if_nothing_may_be_or_the_endpoint_says_close() {
    let peer = Peer::answering(OK).await;
    let fixture = Fixture::with(SenderOptions { idle_max: 0, ..options() }, &[]);
    for _ in 0..2 {
        fixture.send(to(peer.address)).await.unwrap();
    }
    assert_eq!(peer.accepts(), 2);

    let answer = "HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: 0\r\n\r\n";
    let peer = Peer::answering(answer).await;
    let fixture = Fixture::new();
    for _ in 0..2 {
        fixture.send(to(peer.address)).await.unwrap();
    }
    assert_eq!((peer.accepts(), fixture.sender.pool.kept()), (2, 0));
}
