use super::*;
use crate::load::{Exchange, Pool, batch_envelope, envelope, marked_envelope};

fn exchange(receiver: &Receiver, manner: Manner, number: usize) -> Exchange {
    let body = envelope(1024);
    Exchange::new(receiver.address(number), &path(manner, number), body).unwrap()
}

#[tokio::test]
async fn the_bare_client_sends_what_the_receiver_counts() {
    let receiver = Receiver::start(2).unwrap();
    receiver.expect(1500, false);
    let cpu = exchange(&receiver, Manner::Answers, 0).send(8, 1000).await.unwrap();
    exchange(&receiver, Manner::Answers, 1).send(1, 500).await.unwrap();
    let received = receiver.wait().await.unwrap();
    assert_eq!(received.messages, 1500);
    assert!(received.elapsed() > Duration::ZERO && cpu > Duration::ZERO);
    receiver.check(2).unwrap();
    assert!(receiver.check(3).is_err());
    assert!(receiver.take_connections_max() >= 8);
}

#[tokio::test]
async fn a_batch_counts_as_its_messages() {
    let receiver = Receiver::start(1).unwrap();
    receiver.expect(1000, false);
    let body = batch_envelope(1024, 100);
    let batch = Exchange::new(receiver.address(0), &path(Manner::Answers, 0), body).unwrap();
    batch.ordered().batch(100).send(1, 10).await.unwrap();
    assert_eq!(receiver.wait().await.unwrap().messages, 1000);
}

#[tokio::test]
async fn marks_are_kept_with_the_moment_they_came() {
    let receiver = Receiver::start(1).unwrap();
    receiver.expect(3, true);
    let start = clock::now();
    let pool = Pool::open(exchange(&receiver, Manner::Answers, 0), 2).await.unwrap();
    for mark in [7, 8, 9] {
        pool.send(0, marked_envelope(1024, mark)).await.unwrap();
    }
    receiver.wait().await.unwrap();
    let arrivals = receiver.take_arrivals();
    let marks: Vec<u64> = arrivals.iter().map(|arrival| arrival.mark).collect();
    assert_eq!(marks, [7, 8, 9]);
    assert!(arrivals.iter().all(|arrival| arrival.at > start));
}

#[tokio::test]
async fn a_failing_endpoint_answers_and_counts_only_its_failures() {
    let receiver = Receiver::start(1).unwrap();
    receiver.expect(1, false);
    let error = exchange(&receiver, Manner::Fails, 0).send(1, 1).await.unwrap_err();
    assert!(format!("{error:#}").contains("500"), "{error:#}");
    assert_eq!(receiver.failed(), 1);
    assert!(receiver.check(0).is_err());
}

#[tokio::test]
async fn a_request_to_no_endpoint_is_refused_and_ends_the_wait() {
    let receiver = Receiver::start(1).unwrap();
    receiver.expect(1, false);
    let lost = Exchange::new(receiver.address(0), "/nowhere", envelope(10)).unwrap();
    assert!(lost.send(1, 1).await.is_err());
    let error = receiver.wait().await.unwrap_err();
    assert!(format!("{error:#}").contains("/nowhere"), "{error:#}");
}
