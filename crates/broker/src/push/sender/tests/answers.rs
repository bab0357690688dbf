use tokio::io::AsyncWriteExt;
use tokio::sync::mpsc;

use super::peer::{Call, Peer};
use super::*;
use crate::push::exchange::ANSWER_BYTES_MAX;

/// The result for a peer that sends `text` and keeps the connection open.
async fn answer_to(text: impl Into<Vec<u8>>) -> Result<Answer, NoAnswer> {
    let peer = Peer::saying(text.into()).await;
    let fixture = Fixture::new();
    let answer = fixture.send(to(peer.address)).await;
    assert_eq!(fixture.sender.pool.kept(), 0, "the connection is no longer of use");
    answer
}

/// A peer that sends `text`, keeps the connection open, and reports when it was closed.
async fn watched(text: &'static str) -> (Peer, mpsc::UnboundedReceiver<&'static str>) {
    let (tell, told) = mpsc::unbounded_channel();
    let peer = Peer::start(move |mut call: Call| {
        let tell = tell.clone();
        async move {
            call.request().await.unwrap();
            call.write(text).await;
            tell.send("answered").unwrap();
            call.closed().await;
            tell.send("closed").unwrap();
        }
    })
    .await;
    (peer, told)
}

#[tokio::test]
async fn no_or_half_an_answer_ends_with_the_timeout_and_the_connection() {
    for text in ["", "HTTP/1.1 200 OK\r\nx: y\r\n"] {
        let (peer, mut told) = watched(text).await;
        let fixture = Fixture::new();
        let sending = fixture.start(to(peer.address));
        assert_eq!(told.recv().await, Some("answered"));
        fixture.clock.advance(30 * SECOND - Duration::from_millis(1));
        tokio::task::yield_now().await;
        assert!(!sending.is_finished());
        fixture.clock.advance(Duration::from_millis(1));
        let no_answer = sending.await.unwrap().unwrap_err();
        assert_eq!((no_answer.class, no_answer.address), (Class::Timeout, Some(peer.address)));
        assert!(no_answer.message.contains("30s"), "{}", no_answer.message);
        assert_eq!(told.recv().await, Some("closed"));
    }
}

#[tokio::test]
async fn a_late_answer_that_is_in_time_counts() {
    let (seen, mut requests) = mpsc::unbounded_channel();
    let (go, gone) = watch::channel(false);
    let peer = Peer::start(move |mut call: Call| {
        let (seen, mut gone) = (seen.clone(), gone.clone());
        async move {
            call.request().await.unwrap();
            seen.send(()).unwrap();
            gone.wait_for(|go| *go).await.unwrap();
            call.write("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
            call.closed().await;
        }
    })
    .await;
    let fixture = Fixture::new();
    let sending = fixture.start(to(peer.address));
    requests.recv().await.unwrap();
    fixture.clock.advance(29 * SECOND);
    go.send_replace(true);
    assert_eq!(sending.await.unwrap().unwrap().status, StatusCode::OK);
}

#[tokio::test]
async fn a_body_that_stalls_is_cut_off_after_a_second_and_changes_nothing() {
    let text = "HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\nthe beginning";
    let (peer, mut told) = watched(text).await;
    let fixture = Fixture::new();
    let sending = fixture.start(to(peer.address));
    fixture.clock.is_slept_for(SECOND).await;
    fixture.clock.advance(SECOND);
    let answer = sending.await.unwrap().unwrap();
    assert_eq!((answer.status, &answer.body[..]), (StatusCode::OK, &b"the beginning"[..]));
    assert_eq!(told.recv().await, Some("answered"));
    assert_eq!(told.recv().await, Some("closed"));
    assert_eq!(fixture.sender.pool.kept(), 0);
}

#[tokio::test]
async fn a_stalled_body_is_not_waited_for_longer_than_the_timeout() {
    let (peer, _told) = watched("HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n").await;
    let fixture = Fixture::new();
    let timeout = Duration::from_millis(300);
    let sending = fixture.start(Request { timeout, ..to(peer.address) });
    // For the connection, for the request, and for the body.
    fixture.clock.is_slept_for_times(timeout, 3).await;
    fixture.clock.advance(timeout);
    assert_eq!(sending.await.unwrap().unwrap().status, StatusCode::OK);
}

#[tokio::test]
async fn a_body_that_breaks_off_changes_nothing() {
    let breaks: [fn(Call) -> BoxFuture<'static, ()>; 3] = [
        |call| Box::pin(async move { drop(call) }),
        |call| Box::pin(async move { call.reset() }),
        |mut call| Box::pin(async move { call.write("zz no chunk\r\n").await }),
    ];
    for end in breaks {
        let peer = Peer::start(move |mut call: Call| async move {
            call.request().await.unwrap();
            let head = "HTTP/1.1 503 Busy\r\nretry-after: 3\r\ntransfer-encoding: chunked\r\n\r\n";
            call.write(head).await;
            end(call).await;
        })
        .await;
        let fixture = Fixture::new();
        let answer = match fixture.send(to(peer.address)).await {
            Ok(answer) => answer,
            // A reset may overtake what was sent before it.
            Err(no_answer) => {
                assert_eq!(no_answer.class, Class::Protocol);
                continue;
            }
        };
        assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE);
        assert_eq!(answer.headers["retry-after"], "3");
        assert_eq!(fixture.sender.pool.kept(), 0);
    }
}

#[tokio::test]
async fn a_gibibyte_is_cut_off_after_the_first_bytes() {
    let (tell, mut told) = mpsc::unbounded_channel();
    let peer = Peer::start(move |mut call: Call| {
        let tell = tell.clone();
        async move {
            use tokio::io::AsyncWriteExt;
            call.request().await.unwrap();
            call.write("HTTP/1.1 200 OK\r\ncontent-length: 1073741824\r\n\r\n").await;
            let (chunk, mut sent) = (vec![b'x'; 64 * 1024], 0_usize);
            while sent < 1 << 30 && call.stream.write_all(&chunk).await.is_ok() {
                sent += chunk.len();
            }
            tell.send(sent).unwrap();
        }
    })
    .await;
    let fixture = Fixture::new();
    let answer = fixture.send(to(peer.address)).await.unwrap();
    assert_eq!((answer.status, answer.body.len()), (StatusCode::OK, ANSWER_BYTES_MAX));
    let sent = told.recv().await.unwrap();
    assert!(sent < 64 << 20, "{sent} bytes were taken");
    assert_eq!(fixture.sender.pool.kept(), 0);
}

#[tokio::test]
async fn a_body_as_large_as_allowed_is_read_whole_and_one_byte_more_is_not() {
    for (size, kept) in [(ANSWER_BYTES_MAX, 1), (ANSWER_BYTES_MAX + 1, 0)] {
        let mut text = format!("HTTP/1.1 200 OK\r\ncontent-length: {size}\r\n\r\n").into_bytes();
        text.resize(text.len() + size, b'x');
        let peer = Peer::saying(text).await;
        let fixture = Fixture::new();
        let answer = fixture.send(to(peer.address)).await.unwrap();
        assert_eq!(answer.body.len(), ANSWER_BYTES_MAX);
        assert_eq!(fixture.sender.pool.kept(), kept, "{size}");
    }
}

#[tokio::test]
async fn what_is_no_http_is_said_so() {
    for text in ["SSH-2.0-OpenSSH_9.2\r\n", "\0\u{1}\u{2}garbage\r\n\r\n", "HTTP/9 what\r\n\r\n"] {
        let message = assert_class(answer_to(text).await, Class::Protocol);
        assert!(message.contains("not HTTP/1.1"), "{message}");
    }
}

#[tokio::test]
async fn heads_without_bounds_are_refused() {
    let long = format!("HTTP/1.1 200 OK\r\nx: {}\r\n\r\n", "y".repeat(70 * 1024));
    let many = format!("HTTP/1.1 200 OK\r\n{}\r\n", "x: y\r\n".repeat(101));
    for text in [long, many] {
        let message = assert_class(answer_to(text).await, Class::Protocol);
        assert!(message.contains("too large"), "{message}");
    }
}

#[tokio::test]
async fn processing_counts_as_the_answer_at_once() {
    let answer = answer_to("HTTP/1.1 102 Processing\r\n\r\n").await.unwrap();
    assert_eq!(answer.status, StatusCode::PROCESSING);
    let text = "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 102 Processing\r\n\r\n";
    assert_eq!(answer_to(text).await.unwrap().status, StatusCode::PROCESSING);
}

#[tokio::test]
async fn other_informational_answers_are_passed_over() {
    let peer = Peer::answering(
        "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n\
         HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n",
    )
    .await;
    let fixture = Fixture::new();
    for _ in 0..2 {
        let answer = fixture.send(to(peer.address)).await.unwrap();
        assert_eq!(answer.status, StatusCode::ACCEPTED);
    }
    assert_eq!(peer.accepts(), 1);
}

#[tokio::test]
async fn interim_answers_without_end_are_cut_off_at_once() {
    const ENDLESS: &str = "HTTP/1.1 103 Early Hints\r\nlink: x\r\n\r\n";
    let (tell, mut told) = mpsc::unbounded_channel();
    let peer = Peer::start(move |mut call: Call| {
        let tell = tell.clone();
        async move {
            call.request().await.unwrap();
            let mut sent = 0;
            while call.stream.write_all(ENDLESS.as_bytes()).await.is_ok() {
                sent += 1;
            }
            tell.send(sent).unwrap();
        }
    })
    .await;
    // The clock stands still, so the timeout cannot be what ends it.
    let message = assert_class(Fixture::new().send(to(peer.address)).await, Class::Protocol);
    assert!(message.contains("interim"), "{message}");
    assert!(told.recv().await.unwrap() > 0);
}

#[tokio::test]
async fn a_few_interim_answers_before_each_final_one_are_fine() {
    let hint = "HTTP/1.1 103 Early Hints\r\n\r\n".repeat(16);
    let text = format!("{hint}HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
    let peer = Peer::answering(text.leak()).await;
    let fixture = Fixture::new();
    for _ in 0..3 {
        assert_eq!(fixture.send(to(peer.address)).await.unwrap().status, StatusCode::OK);
    }
    assert_eq!(peer.accepts(), 1);
}

#[tokio::test]
async fn a_switch_of_protocols_is_an_answer_and_the_end_of_the_connection() {
    let text = "HTTP/1.1 101 Switching Protocols\r\nupgrade: x\r\nconnection: upgrade\r\n\r\n";
    assert_eq!(answer_to(text).await.unwrap().status, StatusCode::SWITCHING_PROTOCOLS);
}

#[tokio::test]
async fn redirects_are_not_followed() {
    let other = Peer::answering("HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await;
    let text = format!(
        "HTTP/1.1 307 There\r\nlocation: http://{}/\r\ncontent-length: 0\r\n\r\n",
        other.address
    );
    let peer = Peer::saying(text.into_bytes()).await;
    let answer = Fixture::new().send(to(peer.address)).await.unwrap();
    assert_eq!((answer.status, other.accepts()), (StatusCode::TEMPORARY_REDIRECT, 0));
}

#[tokio::test]
async fn an_old_answer_ends_with_its_connection() {
    let peer = Peer::start(|mut call: Call| async move {
        call.request().await.unwrap();
        call.write("HTTP/1.0 200 OK\r\n\r\nuntil the end").await;
    })
    .await;
    let fixture = Fixture::new();
    let answer = fixture.send(to(peer.address)).await.unwrap();
    assert_eq!((answer.status, &answer.body[..]), (StatusCode::OK, &b"until the end"[..]));
    assert_eq!(fixture.sender.pool.kept(), 0);
}

#[tokio::test]
async fn an_answer_before_all_was_sent_counts_and_ends_the_connection() {
    let (tell, mut told) = mpsc::unbounded_channel();
    let peer = Peer::start(move |mut call: Call| {
        let tell = tell.clone();
        async move {
            use tokio::io::AsyncReadExt;
            call.stream.read_u8().await.unwrap();
            call.write("HTTP/1.1 413 Too much\r\ncontent-length: 0\r\n\r\n").await;
            tell.send(()).unwrap();
            std::future::pending().await
        }
    })
    .await;
    let fixture = Fixture::new();
    let body = Bytes::from(vec![b'x'; 64 << 20]);
    let answer = fixture.send(Request { body, ..to(peer.address) }).await.unwrap();
    assert_eq!(answer.status, StatusCode::PAYLOAD_TOO_LARGE);
    told.recv().await.unwrap();
    assert_eq!(fixture.sender.pool.kept(), 0);
}

#[tokio::test]
async fn a_reset_before_the_answer_is_named() {
    let peer = Peer::start(|mut call: Call| async move {
        call.request().await.unwrap();
        call.reset();
    })
    .await;
    let fixture = Fixture::new();
    let message = assert_class(fixture.send(to(peer.address)).await, Class::Protocol);
    assert!(message.contains("reset"), "{message}");
}

#[tokio::test]
async fn dropping_the_future_closes_the_connection_at_once() {
    let (peer, mut told) = watched("HTTP/1.1 200 OK\r\n").await;
    let fixture = Fixture::new();
    let sending = fixture.start(to(peer.address));
    assert_eq!(told.recv().await, Some("answered"));
    sending.abort();
    assert_eq!(told.recv().await, Some("closed"));
}

#[tokio::test]
async fn an_answer_that_comes_byte_by_byte_is_read_whole() {
    let peer = Peer::start(|mut call: Call| async move {
        while call.request().await.is_some() {
            for byte in "HTTP/1.1 200 OK\r\nx: y\r\ncontent-length: 2\r\n\r\nok".chars() {
                call.write(&byte.to_string()).await;
                tokio::task::yield_now().await;
            }
        }
    })
    .await;
    let fixture = Fixture::new();
    for _ in 0..2 {
        let answer = fixture.send(to(peer.address)).await.unwrap();
        assert_eq!((answer.headers["x"].to_str().unwrap(), &answer.body[..]), ("y", &b"ok"[..]));
    }
    assert_eq!(peer.accepts(), 1);
}
