//! Subscriptions that write to a bucket, which is a folder here.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;
use std::time::Duration;

use broker::{Error, ExportOptions, ExportPlace, Options, SeekTarget};
use domain::export::{CloudStorage, ExportState, ObjectFormat};
use domain::{Message, TopicName};
use tempfile::TempDir;

use crate::fixture::{
    Fixture, dead_letters_to, message, settings, settle, subscription_name, until,
};

const BUCKET: &str = "shop";
const PARTS: &str = ".postrider-parts";

/// A broker with a folder of buckets, of which one is there.
async fn exporting(options: Options) -> (TempDir, Fixture) {
    let folder = tempfile::tempdir().unwrap();
    fs::create_dir(folder.path().join(BUCKET)).unwrap();
    let place = Some(ExportPlace::Folder(folder.path().to_owned()));
    let export = ExportOptions { place, ..options.export.clone() };
    let fixture = Fixture::with(Options { export, ..options }).await;
    (folder, fixture)
}

fn to_bucket(topic: &TopicName, bucket: &str) -> domain::Subscription {
    let cloud_storage = Some(CloudStorage::to_bucket(bucket));
    domain::Subscription { cloud_storage, ..settings(topic, "sub") }
}

/// Every object of the bucket, in the order of their names; files that are not complete aside.
fn objects(folder: &TempDir) -> Vec<String> {
    let files = fs::read_dir(folder.path().join(BUCKET)).unwrap().flatten();
    let files = files.filter(|file| file.file_name() != PARTS);
    let files: BTreeMap<_, _> = files.map(|file| (file.file_name(), file.path())).collect();
    files.values().map(|file| fs::read_to_string(file).unwrap()).collect()
}

fn parts(folder: &Path) -> usize {
    fs::read_dir(folder.join(BUCKET).join(PARTS)).map_or(0, Iterator::count)
}

fn outstanding(fixture: &Fixture) -> usize {
    fixture.find("sub").outstanding()
}

fn state(fixture: &Fixture) -> ExportState {
    fixture.find("sub").export_figures().unwrap().state
}

#[tokio::test]
async fn an_object_is_complete_when_its_time_is_over_and_acked_only_then() {
    let (folder, fixture) = exporting(Options::default()).await;
    let topic = fixture.topic().await;
    fixture.subscribe(to_bucket(&topic, BUCKET)).await;
    fixture.publish(&topic, &["one", "two"]).await;
    until(|| outstanding(&fixture) == 2 && parts(folder.path()) == 1).await;
    fixture.clock.advance(Duration::from_secs(299));
    settle().await;
    assert_eq!((objects(&folder).len(), outstanding(&fixture)), (0, 2));
    fixture.publish(&topic, &["three"]).await;
    until(|| outstanding(&fixture) == 3).await;
    settle().await;
    fixture.clock.advance(Duration::from_secs(1));
    until(|| outstanding(&fixture) == 0).await;
    assert_eq!(objects(&folder), ["one\ntwo\nthree\n"]);
    assert_eq!(parts(folder.path()), 0);
    let figures = fixture.find("sub").export_figures().unwrap();
    assert_eq!((figures.objects, figures.messages, figures.bytes), (1, 3, 14));
    let pulled = fixture.broker.pull(&subscription_name("sub"), 1, Duration::ZERO).await;
    assert!(matches!(pulled, Err(Error::FailedPrecondition(_))));
}

#[tokio::test]
async fn objects_are_completed_early_when_no_more_may_be_outstanding() {
    let options = Options { outstanding_max: 1_000, ..Options::default() };
    let (folder, fixture) = exporting(options).await;
    let topic = fixture.topic().await;
    fixture.subscribe(to_bucket(&topic, BUCKET)).await;
    for _ in 0..5 {
        fixture.publish(&topic, &["x"; 1_000]).await;
    }
    until(|| objects(&folder).len() >= 5).await;
    let lines: Vec<usize> = objects(&folder).iter().map(|one| one.lines().count()).collect();
    assert!(lines.iter().all(|lines| (100..=1_000).contains(lines)), "{lines:?}");
}

#[tokio::test]
async fn a_stop_completes_the_open_object_and_a_crash_writes_it_again() {
    let (folder, mut fixture) = exporting(Options::default()).await;
    let topic = fixture.topic().await;
    fixture.subscribe(to_bucket(&topic, BUCKET)).await;
    fixture.publish(&topic, &["one"]).await;
    until(|| parts(folder.path()) == 1).await;
    fixture.broker.close(Duration::from_secs(5)).await.unwrap();
    assert_eq!(objects(&folder), ["one\n"]);
    fs::write(folder.path().join(BUCKET).join(PARTS).join("left.part"), "half").unwrap();
    fixture.open_again().await;
    assert_eq!(parts(folder.path()), 0, "what a killed server left is removed");
    fixture.publish(&topic, &["two"]).await;
    until(|| parts(folder.path()) == 1).await;
    // No time to complete it: it is not acked.
    fixture.broker.hurry();
    fixture.reopen().await;
    until(|| parts(folder.path()) == 1).await;
    fixture.clock.advance(Duration::from_secs(300));
    until(|| outstanding(&fixture) == 0 && objects(&folder).len() >= 2).await;
    let mut all = objects(&folder);
    all.sort();
    // Its completion may have been under way.
    all.dedup();
    assert_eq!(all, ["one\n", "two\n"]);
}

#[tokio::test]
async fn a_missing_bucket_costs_no_attempts_and_is_tried_again() {
    let (folder, fixture) = exporting(Options::default()).await;
    let topic = fixture.topic().await;
    fixture.subscribe(to_bucket(&topic, "later")).await;
    until(|| state(&fixture) == ExportState::NotFound).await;
    fixture.publish(&topic, &["one"]).await;
    until(|| fixture.find("sub").export_figures().unwrap().failures == 2).await;
    until(|| outstanding(&fixture) == 0).await;
    fs::create_dir(folder.path().join("later")).unwrap();
    fixture.clock.advance(Duration::from_secs(1));
    until(|| outstanding(&fixture) == 1).await;
    settle().await;
    fixture.clock.advance(Duration::from_secs(300));
    until(|| state(&fixture) == ExportState::Active).await;
    assert_eq!(fixture.broker.figures()[0].nacks, 0);
}

#[tokio::test]
async fn after_a_seek_the_open_object_is_written_anew() {
    let (folder, fixture) = exporting(Options::default()).await;
    let topic = fixture.topic().await;
    fixture.subscribe(to_bucket(&topic, BUCKET)).await;
    fixture.publish(&topic, &["one"]).await;
    until(|| parts(folder.path()) == 1).await;
    let later = fixture.now().plus(Duration::from_secs(1));
    fixture.broker.seek(&subscription_name("sub"), SeekTarget::Time(later)).await.unwrap();
    fixture.clock.advance(Duration::from_secs(2));
    fixture.publish(&topic, &["two"]).await;
    until(|| outstanding(&fixture) == 1).await;
    settle().await;
    fixture.clock.advance(Duration::from_secs(300));
    until(|| !objects(&folder).is_empty()).await;
    assert_eq!(objects(&folder), ["two\n"]);
}

#[tokio::test]
async fn a_message_that_does_not_fit_becomes_a_dead_letter_and_others_go_on() {
    let (folder, fixture) = exporting(Options::default()).await;
    let (topic, _) = (fixture.topic().await, fixture.topic_of("dead").await);
    let format = ObjectFormat::Avro { write_metadata: false, use_topic_schema: true };
    let storage = CloudStorage { format, ..CloudStorage::to_bucket(BUCKET) };
    let policy = dead_letters_to("dead");
    let settings = domain::Subscription {
        cloud_storage: Some(storage),
        dead_letter_policy: policy,
        ..to_bucket(&topic, BUCKET)
    };
    fixture.subscribe(settings).await;
    // As if the schema had been deleted since.
    let attributes = [
        (domain::message::SCHEMA_NAME, "projects/p/schemas/gone"),
        (domain::message::SCHEMA_ENCODING, "JSON"),
        (domain::message::SCHEMA_REVISION, "00000001"),
    ];
    let attributes = attributes.map(|(name, value)| (name.to_owned(), value.to_owned())).into();
    let unfit = Message { attributes, ..message("unfit") };
    fixture.broker.publish(&topic, vec![unfit, message("plain")]).await.unwrap();
    until(|| state(&fixture) == ExportState::SchemaMismatch).await;
    until(|| {
        fixture.clock.advance(Duration::from_secs(1));
        fixture.find("sub").dead_lettered() == 1
    })
    .await;
    fixture.publish(&topic, &["later"]).await;
    until(|| {
        fixture.clock.advance(Duration::from_secs(60));
        outstanding(&fixture) == 0 && state(&fixture) == ExportState::Active
    })
    .await;
    assert_eq!(fixture.find("sub").export_figures().unwrap().messages, 2);
    assert_eq!(parts(folder.path()), 0);
}

#[tokio::test]
async fn without_a_place_for_buckets_a_subscription_is_refused() {
    let fixture = Fixture::new().await;
    let topic = fixture.topic().await;
    let refused = fixture.broker.create_subscription(to_bucket(&topic, BUCKET)).await;
    let Err(Error::FailedPrecondition(why)) = refused else { panic!("accepted") };
    assert!(why.contains("export.folder"), "{why}");
}
