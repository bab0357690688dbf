//! Every state of a store's disk and database while a script runs, to be recovered one by one.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use parking_lot::Mutex;
use rusqlite::Connection;
use storage::disk::Options;
use tempfile::TempDir;
use testkit::SimDisk;
use testkit::disk::{Call, Cut, Traced};

use crate::bed::{Bed, Running, folder};
use crate::history::{History, Mark};
use crate::owner::Owner;

/// A state just before a disk call.
#[derive(Clone)]
pub(crate) struct Moment {
    pub(crate) disk: SimDisk,
    pub(crate) mark: Mark,
    /// Which copy of the database belongs to it.
    pub(crate) database: usize,
    /// The call that comes next.
    pub(crate) next: Traced,
}

/// A copy of the database after one of its commits.
#[derive(Clone)]
pub(crate) struct Copy {
    pub(crate) path: PathBuf,
    /// Definitions it must hold.
    pub(crate) defined: usize,
}

pub(crate) struct Film {
    pub(crate) history: Arc<History>,
    pub(crate) moments: Vec<Moment>,
    pub(crate) copies: Vec<Copy>,
    _folder: TempDir,
}

/// Records a film while it lives.
pub(crate) struct Camera {
    disk: SimDisk,
    history: Arc<History>,
    shots: Arc<Mutex<Shots>>,
    folder: TempDir,
}

struct Shots {
    moments: Vec<Moment>,
    copies: Vec<Copy>,
    database: Connection,
    version: Option<i64>,
    last: Option<Call>,
}

impl Camera {
    /// Starts to record; the store must be open, so that its database exists.
    pub(crate) fn on(bed: &Bed, history: &Arc<History>) -> Self {
        let folder = folder();
        let database = Connection::open(bed.database()).expect("the database");
        let (moments, copies) = (Vec::new(), Vec::new());
        let shots = Shots { moments, copies, database, version: None, last: None };
        let shots = Arc::new(Mutex::new(shots));
        let (disk, history) = (bed.disk.clone(), Arc::clone(history));
        let (film, notes) = (Arc::clone(&shots), Arc::clone(&history));
        let path = folder.path().to_owned();
        disk.observe(move |disk, call| film.lock().shoot(disk, call, &notes, &path));
        Self { disk, history, shots, folder }
    }

    /// Stops recording. Everything that was to be recorded must have been answered.
    pub(crate) fn develop(self) -> Film {
        self.disk.observe_no_more();
        let end = Traced {
            number: self.disk.calls() + 1,
            call: Call::Len,
            name: "(end)".to_owned(),
            at: 0,
            length: 0,
            failed: false,
        };
        let mut shots = self.shots.lock();
        shots.last = None;
        shots.shoot(&self.disk, &end, &self.history, self.folder.path());
        let (moments, copies) = (shots.moments.clone(), shots.copies.clone());
        Film { history: self.history, moments, copies, _folder: self.folder }
    }
}

impl Shots {
    fn shoot(&mut self, disk: &SimDisk, call: &Traced, history: &History, folder: &Path) {
        let before = history.mark();
        let idle = matches!(self.last, Some(Call::Open | Call::List | Call::Read | Call::Len));
        self.last = Some(call.call);
        let known = self.moments.last().is_some_and(|last| {
            idle && last.mark.answered == before.answered && last.mark.defined == before.defined
        });
        if known && self.version == Some(self.data_version()) {
            return;
        }
        // The database and the disk belong together if no commit came between looking at them.
        let (fork, database) = loop {
            let database = self.copy_database(folder, before.defined);
            let fork = disk.fork();
            if self.version == Some(self.data_version()) {
                break (fork, database);
            }
        };
        let mark = Mark { sent: history.mark().sent, ..before };
        self.moments.push(Moment { disk: fork, mark, database, next: call.clone() });
    }

    fn data_version(&self) -> i64 {
        self.database.query_row("PRAGMA data_version", [], |row| row.get(0)).expect("a version")
    }

    /// The number of the copy of the database as it is now.
    fn copy_database(&mut self, folder: &Path, defined: usize) -> usize {
        let version = self.data_version();
        if self.version != Some(version) {
            let path = folder.join(format!("copy {}", self.copies.len()));
            let name = path.to_str().expect("a path in UTF-8");
            self.database.execute("VACUUM INTO ?1", [name]).expect("a copy");
            self.copies.push(Copy { path, defined });
            self.version = Some(version);
        }
        self.copies.len() - 1
    }
}

impl Film {
    /// The store that is found when the power goes at that moment.
    pub(crate) fn bed(&self, moment: &Moment, cut: Cut, database: usize) -> Bed {
        Bed::of(moment.disk.power_cut_with(cut), &self.copies[database].path)
    }

    /// Recovers the store at that moment and checks it; says where it was if it fails.
    pub(crate) async fn recover(&self, number: usize, cut: Cut, database: usize) {
        let moment = &self.moments[number];
        let mark = Mark { defined: self.copies[database].defined, ..moment.mark };
        let bed = self.bed(moment, cut, database);
        if number.is_multiple_of(5) {
            let disk = Arc::new(bed.disk.clone());
            let report = storage::disk::verify_on(disk, &bed.database(), &|_| Ok(()));
            let faults = report.expect("a report").faults;
            assert!(faults.is_empty(), "a power cut is no fault: {faults:?} {cut:?} {number}");
        }
        if let Err(what) = recovers(&bed, &self.history, mark).await {
            panic!(
                "{what}\nat moment {number} of {}, {cut:?}, database {database} (its own: {}), \
                 before {:?}",
                self.moments.len(),
                moment.database,
                moment.next,
            );
        }
    }
}

/// Opens the store, checks it against the history, and sees that it takes messages again. How
/// many commits it holds.
pub(crate) async fn recovers(bed: &Bed, history: &History, mark: Mark) -> Result<usize, String> {
    let engine = bed.open().map_err(|error| format!("does not open: {error}"))?;
    let found = check(&engine, history, mark).await;
    bed.close();
    found
}

async fn check(engine: &Running, history: &History, mark: Mark) -> Result<usize, String> {
    let held = history.find_fault(engine, mark).await?;
    history.takes_messages(engine, mark).await?;
    Ok(held)
}

/// Runs `rounds` of the script on a fresh store and records them.
pub(crate) async fn of_script(rounds: usize) -> Film {
    of_script_with(crate::bed::tiny(), rounds).await
}

/// The same with these options.
pub(crate) async fn of_script_with(options: Options, rounds: usize) -> Film {
    let bed = Bed::new();
    let mut owner = Owner::new(bed.open_with(options).expect("a fresh store"));
    crate::script::set_up(&mut owner).await.expect("a working store");
    let camera = Camera::on(&bed, &owner.history);
    for number in 0..rounds {
        crate::script::round(&mut owner, number).await;
    }
    assert!(owner.errors.is_empty(), "{:?}", owner.errors);
    let film = camera.develop();
    bed.close();
    film
}
