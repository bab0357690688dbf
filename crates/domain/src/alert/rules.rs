//! The rules: one table.

use std::fmt;
use std::time::Duration;

use super::Severity;
use super::measure::Measure;
use crate::error::Invalid;

/// What one rule watches, when it fires, and what to do then.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Its name.
    pub name: RuleName,
    /// What is wrong, in a few words.
    pub title: &'static str,
    /// What it means, in a sentence or two.
    pub meaning: &'static str,
    /// What to do, step by step, in Markdown.
    pub remedy: &'static [&'static str],
    /// When it fires; each has another `part`.
    pub levels: &'static [Level],
}

/// When a rule fires, and how bad that is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Level {
    /// Its name within the rule.
    pub part: Part,
    /// How bad it is.
    pub severity: Severity,
    /// What is looked at.
    pub measure: Measure,
    /// What the measure must exceed, unless its time is the bound: a number, or millionths.
    pub above: u32,
    /// How long it must last, how old it may be, or how far back is looked: the measure says.
    pub time: Duration,
}

/// The name of a rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum RuleName {
    /// Messages were given up.
    DeadLetters,
    /// More are given up than are dealt with.
    DeadLetterGrowth,
    /// Endpoints fail.
    Push5xx,
    /// Endpoints refuse.
    Push4xx,
    /// Messages wait too long.
    OldestUnackedAge,
    /// More comes in than goes out.
    BacklogGrowing,
    /// A FIFO subscription stands still.
    FifoBlocked,
    /// Lanes of keys stand still.
    LaneBlocked,
    /// Lanes wait for an operator.
    LaneHalted,
    /// The server's clock jumped forward.
    ClockJumped,
    /// The server's log cannot be emptied.
    LogNotTrimmed,
}

impl RuleName {
    /// The name in settings, answers and metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::DeadLetters => "dead_letters",
            Self::DeadLetterGrowth => "dead_letter_growth",
            Self::Push5xx => "push_5xx",
            Self::Push4xx => "push_4xx",
            Self::OldestUnackedAge => "oldest_unacked_age",
            Self::BacklogGrowing => "backlog_growing",
            Self::FifoBlocked => "fifo_blocked",
            Self::LaneBlocked => "lane_blocked",
            Self::LaneHalted => "lane_halted",
            Self::ClockJumped => "clock_jumped",
            Self::LogNotTrimmed => "log_not_trimmed",
        }
    }

    /// Reads a name; `field` is what holds it.
    pub fn parse(field: &str, text: &str) -> Result<Self, Invalid> {
        let found = RULES.iter().find(|rule| rule.name.as_str() == text);
        found.map(|rule| rule.name).ok_or_else(|| {
            let names: Vec<&str> = RULES.iter().map(|rule| rule.name.as_str()).collect();
            Invalid::new(field, format!("no such rule; there are {}", names.join(", ")))
        })
    }

    /// Where the page is that says what to do.
    pub fn runbook(self) -> String {
        format!("docs/operating/alerts.md#{}", self.as_str())
    }
}

impl fmt::Display for RuleName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The name of a level within its rule.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Part {
    /// The one of severity warning.
    Warning,
    /// The one of severity critical.
    Critical,
    /// Many at once.
    Burst,
    /// Few, but for long.
    Sustained,
}

impl Part {
    /// The name in settings.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Warning => "warning",
            Self::Critical => "critical",
            Self::Burst => "burst",
            Self::Sustained => "sustained",
        }
    }
}

impl Rule {
    /// The rule of that name.
    pub fn of(name: RuleName) -> Option<&'static Self> {
        RULES.iter().find(|rule| rule.name == name)
    }

    /// Its level of that name.
    pub fn level(&self, part: Part) -> Option<&'static Level> {
        self.levels.iter().find(|level| level.part == part)
    }

    /// Reads the name of one of its levels; `field` is what holds it.
    pub fn parse_part(&self, field: &str, text: &str) -> Result<Part, Invalid> {
        let found = self.levels.iter().find(|level| level.part.as_str() == text);
        found.map(|level| level.part).ok_or_else(|| {
            let parts: Vec<&str> = self.levels.iter().map(|level| level.part.as_str()).collect();
            let (name, parts) = (self.name, parts.join(", "));
            Invalid::new(field, format!("no such level; {name} has {parts}"))
        })
    }
}

const fn warning(measure: Measure, above: u32, minutes: u64) -> Level {
    level(Part::Warning, Severity::Warning, measure, above, minutes)
}

const fn critical(measure: Measure, above: u32, minutes: u64) -> Level {
    level(Part::Critical, Severity::Critical, measure, above, minutes)
}

const fn level(
    part: Part,
    severity: Severity,
    measure: Measure,
    above: u32,
    minutes: u64,
) -> Level {
    Level { part, severity, measure, above, time: Duration::from_secs(60 * minutes) }
}

/// Millionths in one per cent.
const PERCENT: u32 = 10_000;

/// Every rule there is.
pub static RULES: [Rule; 11] = [
    Rule {
        name: RuleName::DeadLetters,
        title: "dead letters wait",
        meaning: "Messages were given up after their last attempt and lie in the dead letter \
                  topic. Nobody has replayed, deleted or acked them yet.",
        remedy: &[
            "See what they are and why they failed: \
             `postrider dead-letter list --subscription <subscription>`.",
            "Put the cause right: the consumer, or the producer of what it cannot read.",
            "Replay them, to that subscription alone: \
             `postrider dead-letter replay --subscription <subscription> --all`; or, where they \
             are of no use, delete them with `postrider dead-letter delete`.",
        ],
        levels: &[
            warning(Measure::DeadLettersWaiting, 0, 5),
            critical(Measure::DeadLettersWaiting, 0, 15),
            level(Part::Burst, Severity::Critical, Measure::DeadLettersArrived, 10, 10),
        ],
    },
    Rule {
        name: RuleName::DeadLetterGrowth,
        title: "dead letters come faster than they are dealt with",
        meaning: "For half an hour more messages were given up than were replayed, deleted or \
                  acked: the consumer fails for good, not for a moment.",
        remedy: &[
            "Find what they have in common: `postrider dead-letter list --subscription \
             <subscription>` shows the class and the last error of each.",
            "Stop the flow while you put it right: pause the subscription \
             (`postrider.paused`), which keeps its backlog.",
            "Resume it, then replay what was given up.",
        ],
        levels: &[critical(Measure::DeadLettersGrowth, 0, 30)],
    },
    Rule {
        name: RuleName::Push5xx,
        title: "the endpoint fails",
        meaning: "Pushes are answered with 5xx, time out, or reach nobody: capacity, quota, or \
                  something behind the endpoint. They are tried again.",
        remedy: &[
            "See what the endpoint says: `postrider attempts <subscription>`.",
            "Look at the endpoint's own logs and at what it depends on.",
            "Nothing needs to be sent again by hand: what failed is pushed again when the \
             endpoint answers. Where attempts run out first, see dead_letters.",
        ],
        levels: &[
            warning(Measure::PushesFailed, PERCENT, 5),
            critical(Measure::PushesFailed, 5 * PERCENT, 5),
            level(Part::Sustained, Severity::Critical, Measure::PushesFailed, 0, 15),
        ],
    },
    Rule {
        name: RuleName::Push4xx,
        title: "the endpoint refuses messages",
        meaning: "Pushes are answered with 4xx (or a redirect): the producer sends what the \
                  consumer cannot read, the endpoint moved, or its credentials changed.",
        remedy: &[
            "See which messages and what the endpoint says: `postrider attempts <subscription>`.",
            "Compare with the last change of the producer, of the endpoint's address and of its \
             credentials.",
            "What is refused is tried until its attempts run out, and without a dead letter \
             policy for ever: `postrider lint` says whether there is one.",
        ],
        levels: &[
            warning(Measure::PushesRefused, PERCENT / 10, 10),
            critical(Measure::PushesRefused, PERCENT, 10),
        ],
    },
    Rule {
        name: RuleName::OldestUnackedAge,
        title: "messages wait too long",
        meaning: "The oldest message that is not acked was published a while ago: nobody \
                  consumes, consumers are too slow, or one message is stuck.",
        remedy: &[
            "See whether anything is delivered and acked at all: `postrider top`.",
            "Nothing outstanding: no consumer is connected, or the subscription is paused. \
             `postrider subscription describe <subscription>` says so.",
            "Much outstanding and few acks: the consumers are too slow or too few.",
            "One message stuck: `postrider lane list <subscription>` or `postrider attempts \
             <subscription>` names it; release it, or skip it.",
        ],
        levels: &[
            warning(Measure::OldestUnackedAge, 0, 5),
            critical(Measure::OldestUnackedAge, 0, 15),
        ],
    },
    Rule {
        name: RuleName::BacklogGrowing,
        title: "the backlog grows",
        meaning: "More comes in than is acked, and has for a while.",
        remedy: &[
            "See which rate changed, that of publishing or that of acks: the dashboard, or \
             `postrider top`.",
            "Add consumers. On push, see whether the endpoint's window is small: it is slow or \
             it fails.",
            "A subscription nobody needs any more: delete it, or seek it to now.",
        ],
        levels: &[warning(Measure::BacklogGrowth, 0, 15), critical(Measure::BacklogGrowth, 0, 30)],
    },
    Rule {
        name: RuleName::FifoBlocked,
        title: "a FIFO subscription stands still",
        meaning: "The first message of the one lane keeps failing, and all others wait behind it.",
        remedy: &[
            "See the message and its error: `postrider lane list <subscription>` and \
             `postrider attempts <subscription>`.",
            "Put the consumer right and let it be tried at once: `postrider lane release \
             <subscription> --key ''`.",
            "Or give that message up, so that the others go on: `postrider lane skip \
             <subscription> --key ''`; with a dead letter policy it is kept there.",
        ],
        levels: &[warning(Measure::FifoBlocked, 0, 5)],
    },
    Rule {
        name: RuleName::LaneBlocked,
        title: "a lane stands still",
        meaning: "The first message of a lane (of one ordering key, or of one value of `laneBy`) \
                  keeps failing, and all others of that lane wait behind it. Other lanes go on.",
        remedy: &[
            "See which lanes and why: `postrider lane list <subscription>` names the key, the \
             message, its last failure and when it is tried again; `postrider attempts \
             <subscription>` shows what the endpoint said.",
            "Put the consumer right; or let the message be tried at once: `postrider lane release \
             <subscription> --key <key>`.",
            "Or give it up, so that the others of the lane go on: `postrider lane skip \
             <subscription> --key <key>`; with a dead letter policy it is kept there.",
        ],
        levels: &[warning(Measure::LaneBlocked, 0, 5)],
    },
    Rule {
        name: RuleName::LaneHalted,
        title: "lanes wait for an operator",
        meaning: "Under `poison: halt` a message that was tried as often as allowed stops its \
                  lane. Nothing of that lane is delivered until somebody decides.",
        remedy: &[
            "See which lanes: `postrider lane list <subscription>`; those in the state `halted` \
             wait for you.",
            "Put the cause right and let the message be tried anew: `postrider lane release \
             <subscription> --key <key>`.",
            "Or give it up: `postrider lane skip <subscription> --key <key>`; with a dead letter \
             policy it is kept there, without one it is dropped.",
        ],
        levels: &[warning(Measure::LanesHalted, 0, 1), critical(Measure::LanesHalted, 0, 15)],
    },
    Rule {
        name: RuleName::ClockJumped,
        title: "the clock jumped forward",
        meaning: "The server's clock is more than an hour ahead of the time that has passed since \
                  it was last believed: it was set, or the server was off for that long. So that \
                  nothing is lost to a wrong clock, no message is too old and nothing expires \
                  until the time is confirmed. Everything else goes on; the store grows.",
        remedy: &[
            "See what the clock shows and what was expected: `postrider clock`.",
            "The time is right, for instance because the machine was off: `postrider clock \
             confirm`. What is past its retention or has expired by then goes at once; \
             `postrider clock` says how many subscriptions and snapshots that is.",
            "The time is wrong: set the machine's clock (`timedatectl`, NTP). Retention and \
             expiry then go on by themselves.",
            "Left alone, a clock that runs steadily for a day is believed.",
        ],
        levels: &[warning(Measure::ClockAhead, 0, 1)],
    },
    Rule {
        name: RuleName::LogNotTrimmed,
        title: "the log cannot be emptied",
        meaning: "Progress cannot be saved, or messages cannot be moved out of the write-ahead \
                  log, again and again. Deliveries and acks go on, and messages are taken until \
                  the log has reached `storage.wal_max`; then publishing is refused.",
        remedy: &[
            "See what is wrong: `degraded` in `GET /status` names it, and so does the server's \
             log.",
            "Put it right: the disk, who may write to the data folder, how many files the server \
             may have open (`LimitNOFILE`).",
            "It is tried again every second, and all goes on by itself.",
        ],
        levels: &[critical(Measure::LogStuck, 0, 0)],
    },
];
