//! What can be asked of a disk, and how it can refuse.

use std::io;

/// A kind of call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[expect(missing_docs, reason = "each is the method of that name of `Disk` or `File`")]
pub enum Call {
    Open,
    Create,
    Rename,
    Remove,
    List,
    SyncFolder,
    Read,
    Write,
    Sync,
    Len,
    SetLen,
    Allocate,
}

/// A call as it was made.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traced {
    /// Its number on this disk, from 1.
    pub number: u64,
    /// What was asked.
    pub call: Call,
    /// Of which file or folder.
    pub name: String,
    /// From which byte on, where that means something.
    pub at: u64,
    /// How many bytes, where that means something.
    pub length: u64,
    /// Whether a fault was put in its way.
    pub failed: bool,
}

/// The error a fault answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Errno {
    /// `EIO`: the device failed.
    Io,
    /// `ENOSPC`: no space is left.
    NoSpace,
    /// `EMFILE`: too many files are open.
    TooManyFiles,
}

impl From<Errno> for io::Error {
    fn from(errno: Errno) -> Self {
        const EIO: i32 = 5;
        const ENOSPC: i32 = 28;
        const EMFILE: i32 = 24;
        Self::from_raw_os_error(match errno {
            Errno::Io => EIO,
            Errno::NoSpace => ENOSPC,
            Errno::TooManyFiles => EMFILE,
        })
    }
}

/// What a fault does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Effect {
    /// The call answers this error and does nothing, except that a failed sync loses what it
    /// should have written.
    Fail(Errno),
    /// A write puts down only its first bytes and answers `EIO`. Other calls just answer it.
    Tear(usize),
    /// This call and all later ones answer `EIO` and do nothing.
    PowerOff,
}

/// One fault to come.
#[derive(Clone, Copy, Debug)]
pub struct Fault {
    /// The kind of call it waits for; `None` = any.
    pub on: Option<Call>,
    /// It strikes at the n-th such call from now, counted from 1.
    pub nth: u64,
    /// What it does.
    pub effect: Effect,
}

/// The faults to come, and the calls so far.
#[derive(Default)]
pub(super) struct Faults {
    pub(super) coming: Vec<Fault>,
    pub(super) off: bool,
    pub(super) trace: Vec<Traced>,
}

impl Faults {
    /// Notes a call and says what is to happen to it.
    pub(super) fn meet(
        &mut self,
        call: Call,
        name: &str,
        at: u64,
        length: usize,
    ) -> Option<Effect> {
        let struck = self.strike(call);
        self.off |= struck == Some(Effect::PowerOff);
        let effect = if self.off { Some(Effect::PowerOff) } else { struck };
        let number = self.trace.len() as u64 + 1;
        let (name, length, failed) = (name.to_owned(), length as u64, effect.is_some());
        self.trace.push(Traced { number, call, name, at, length, failed });
        effect
    }

    fn strike(&mut self, call: Call) -> Option<Effect> {
        let mut struck = None;
        self.coming.retain_mut(|fault| {
            if fault.on.is_some_and(|on| on != call) {
                return true;
            }
            fault.nth = fault.nth.saturating_sub(1);
            if fault.nth == 0 {
                struck = Some(fault.effect);
            }
            fault.nth > 0
        });
        struck
    }
}

impl Effect {
    pub(super) fn error(self) -> io::Error {
        match self {
            Self::Fail(errno) => errno.into(),
            Self::Tear(_) | Self::PowerOff => Errno::Io.into(),
        }
    }
}
