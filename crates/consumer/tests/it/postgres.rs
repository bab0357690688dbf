//! The PostgreSQL store against a server of its own, where PostgreSQL is installed.

use std::path::{Path as Folder, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use deadpool_postgres::{Manager, Pool};
use futures::FutureExt;
use postrider_consumer::effects::{Note, Once, Path, Postgres, StoreError, conformance};
use postrider_consumer::{Failure, Timestamp};
use tempfile::TempDir;
use tokio_postgres::NoTls;

use crate::rig::soon;

/// A PostgreSQL of its own, over a socket in its folder. It ends with the test.
struct Cluster {
    child: Child,
    folder: TempDir,
}

impl Drop for Cluster {
    fn drop(&mut self) {
        // SIGINT is PostgreSQL's word for a quick, clean end.
        let pid = rustix::process::Pid::from_child(&self.child);
        let told = rustix::process::kill_process(pid, rustix::process::Signal::INT);
        let ended = self.child.wait();
        drop((told, ended));
    }
}

/// Where `initdb` and `postgres` are; Debian keeps them out of the way.
fn installed() -> Option<PathBuf> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let mut folders: Vec<PathBuf> = std::env::split_paths(&path).collect();
    if let Ok(versions) = std::fs::read_dir("/usr/lib/postgresql") {
        folders.extend(versions.flatten().map(|version| version.path().join("bin")));
    }
    let has_both =
        |folder: &PathBuf| ["initdb", "postgres"].iter().all(|name| folder.join(name).exists());
    folders.into_iter().find(has_both)
}

/// The program as somebody else where this is root, whom PostgreSQL does not run as.
fn program(bin: &Folder, name: &str) -> Command {
    if !rustix::process::getuid().is_root() {
        return Command::new(bin.join(name));
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid=nobody", "--regid=nogroup", "--clear-groups"]).arg(bin.join(name));
    command
}

impl Cluster {
    /// `None`, and a word about it, where PostgreSQL is not installed.
    async fn start(test: &str) -> Option<Self> {
        let Some(bin) = installed() else {
            println!("{test}: skipped, PostgreSQL (initdb and postgres) is not installed");
            return None;
        };
        let folder = TempDir::new().unwrap();
        if rustix::process::getuid().is_root() {
            let owned = Command::new("chown").arg("nobody:nogroup").arg(folder.path()).status();
            assert!(owned.unwrap().success());
        }
        let data = folder.path().join("data");
        let made = program(&bin, "initdb")
            .args(["--auth=trust", "--username=test", "--no-sync", "-D"])
            .arg(&data)
            .current_dir(folder.path())
            .output()
            .unwrap();
        assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
        let child = program(&bin, "postgres")
            .args(["-c", "listen_addresses=", "-c", "fsync=off", "-k"])
            .arg(folder.path())
            .arg("-D")
            .arg(&data)
            .current_dir(folder.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        let cluster = Self { child, folder };
        cluster.ready().await;
        Some(cluster)
    }

    /// It answers as soon as it can, and does not say when that is.
    async fn ready(&self) {
        soon("PostgreSQL ready", async {
            while self.pool(1).get().await.is_err() {
                tokio::time::sleep(Duration::from_millis(50)).await;
            }
        })
        .await;
    }

    fn pool(&self, size: usize) -> Pool {
        let mut config = tokio_postgres::Config::new();
        config.host_path(self.folder.path()).user("test").dbname("postgres");
        Pool::builder(Manager::new(config, NoTls)).max_size(size).build().unwrap()
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgresql_keeps_the_promises() {
    let Some(cluster) = Cluster::start("postgresql_keeps_the_promises").await else { return };
    let store = Postgres::new(cluster.pool(8));
    let without = store.document(&path("c", "d")).await;
    assert!(matches!(without, Err(StoreError::Config(_))), "{without:?}: there are no tables");
    store.create_tables().await.unwrap();
    store.create_tables().await.unwrap();
    conformance::run(Arc::new(store.clone())).await;
    own_sql_and_the_note_are_one_transaction(&cluster, &store).await;
}

fn path(collection: &str, id: &str) -> Path {
    Path { collection: collection.to_owned(), id: id.to_owned() }
}

async fn own_sql_and_the_note_are_one_transaction(cluster: &Cluster, store: &Postgres) {
    let client = cluster.pool(1).get().await.unwrap();
    client.batch_execute("CREATE TABLE orders (id text)").await.unwrap();
    let note = Note { dedupe: path("notes", "m1"), until: Timestamp(u64::MAX) };
    let add = |id: &'static str, fails: bool| {
        store.in_transaction(&note, move |transaction| {
            async move {
                transaction.execute("INSERT INTO orders VALUES ($1)", &[&id]).await.unwrap();
                let row = transaction.query_one("SELECT count(*) FROM orders", &[]).await.unwrap();
                if fails { Err(StoreError::Transient(Failure::default())) } else { Ok(row.get(0)) }
            }
            .boxed()
        })
    };
    assert!(add("first", true).await.is_err());
    let second: Once<i64> = add("second", false).await.unwrap();
    assert_eq!(second, Once::Done(1), "the first left nothing behind");
    assert_eq!(add("third", false).await.unwrap(), Once::Duplicate);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_postgresql_that_is_away_is_transient() {
    let mut config = tokio_postgres::Config::new();
    config.host_path("/nowhere").user("test");
    let pool = Pool::builder(Manager::new(config, NoTls)).max_size(1).build().unwrap();
    let read = Postgres::new(pool).document(&path("c", "d")).await;
    assert!(matches!(read, Err(StoreError::Transient(_))), "{read:?}");
}
