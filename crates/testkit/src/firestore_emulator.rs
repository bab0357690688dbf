//! Google's Firestore emulator as a process of its own, where it is installed.

use std::io::{BufRead, BufReader, Write};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

/// The gcloud component.
const COMPONENT: &str = "cloud-firestore-emulator";
/// Where packages put gcloud when it is not on the path.
const ROOTS: [&str; 2] = ["/usr/lib/google-cloud-sdk", "/usr/share/google-cloud-sdk"];
const MAIN: &str = "com.google.cloud.datastore.emulator.firestore.CloudFirestore";
/// The last line it prints before it serves.
const READY: &str = "Dev App Server is now running";

/// A running emulator. It is killed when this is dropped.
#[derive(Debug)]
pub struct FirestoreEmulator {
    child: Child,
    address: String,
}

impl FirestoreEmulator {
    /// Starts it on a free port and returns once it serves. `None` = it is not installed, which
    /// is said by name on standard error.
    pub fn start() -> Option<Self> {
        let Some(jar) = jar() else {
            let said = writeln!(
                std::io::stderr(),
                "skipped: the Firestore emulator ({COMPONENT}) or java is not installed; with \
                 both this would have run against it too"
            );
            drop(said);
            return None;
        };
        let port = free_port()?;
        let mut child = Command::new("java")
            .args(["-Duser.language=en", "-cp"])
            .arg(jar)
            .args([MAIN, "start", "--host=127.0.0.1", &format!("--port={port}")])
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn()
            .ok()?;
        let mut lines = BufReader::new(child.stdout.take()?).lines();
        let is_ready = lines.any(|line| line.is_ok_and(|line| line.contains(READY)));
        // It must not be held up by what nobody reads.
        std::thread::spawn(move || lines.for_each(drop));
        let emulator = Self { child, address: format!("127.0.0.1:{port}") };
        assert!(is_ready, "the Firestore emulator ended before it served");
        Some(emulator)
    }

    /// `host:port`, as `FIRESTORE_EMULATOR_HOST` has it.
    pub fn address(&self) -> &str {
        &self.address
    }
}

impl Drop for FirestoreEmulator {
    fn drop(&mut self) {
        drop(self.child.kill());
        drop(self.child.wait());
    }
}

fn jar() -> Option<PathBuf> {
    let has_java = Command::new("java").arg("-version").stderr(Stdio::null()).status();
    if !has_java.is_ok_and(|status| status.success()) {
        return None;
    }
    let of_path = std::env::var_os("PATH").into_iter().flat_map(|path| {
        std::env::split_paths(&path).map(|folder| folder.join("gcloud")).collect::<Vec<_>>()
    });
    // `gcloud` is a link to `bin/gcloud` in the folder that is looked for.
    let linked = of_path.filter_map(|gcloud| gcloud.canonicalize().ok());
    let roots = linked.filter_map(|gcloud| Some(gcloud.parent()?.parent()?.to_owned()));
    roots
        .chain(ROOTS.map(PathBuf::from))
        .map(|root| {
            root.join(Path::new("platform").join(COMPONENT)).join(format!("{COMPONENT}.jar"))
        })
        .find(|jar| jar.exists())
}

fn free_port() -> Option<u16> {
    Some(TcpListener::bind("127.0.0.1:0").ok()?.local_addr().ok()?.port())
}
