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
    /// More are given up than are handled.
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
    /// Consumers wait because too much is delivered and not acked.
    OutstandingLimit,
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
            Self::OutstandingLimit => "outstanding_limit",
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
pub static RULES: [Rule; 12] = [
    Rule {
        name: RuleName::DeadLetters,
        title: "dead letters are waiting",
        meaning: "Messages ran out of attempts and are in the dead letter topic. Nobody has \
                  replayed, deleted or acked them yet.",
        remedy: &[
            "See what they are and why they failed: \
             `postrider dead-letter list --subscription <subscription>`.",
            "Fix the cause: the consumer, or the producer of messages it cannot read.",
            "Replay them to that subscription only: `postrider dead-letter replay --subscription \
             <subscription> --all`; or, if nobody needs them, delete them with `postrider \
             dead-letter delete`.",
        ],
        levels: &[
            warning(Measure::DeadLettersWaiting, 0, 5),
            critical(Measure::DeadLettersWaiting, 0, 15),
            level(Part::Burst, Severity::Critical, Measure::DeadLettersArrived, 10, 10),
        ],
    },
    Rule {
        name: RuleName::DeadLetterGrowth,
        title: "dead letters arrive faster than they are handled",
        meaning: "For half an hour, more messages were given up than were replayed, deleted or \
                  acked: this is not a brief failure.",
        remedy: &[
            "Find what they have in common: `postrider dead-letter list --subscription \
             <subscription>` shows the class and the last error of each.",
            "Stop the flow while you fix it: pause the subscription (`postrider.paused`), which \
             keeps its backlog.",
            "Resume it, then replay what was given up.",
        ],
        levels: &[critical(Measure::DeadLettersGrowth, 0, 30)],
    },
    Rule {
        name: RuleName::Push5xx,
        title: "the endpoint is failing",
        meaning: "Pushes get 5xx, time out, or cannot connect: capacity, quota, or something \
                  behind the endpoint. They are retried.",
        remedy: &[
            "See what the endpoint says: `postrider attempts <subscription>`.",
            "Check the endpoint's logs and its dependencies.",
            "Nothing needs to be resent by hand: failed pushes are retried. If attempts run out \
             first, see dead_letters.",
        ],
        levels: &[
            warning(Measure::PushesFailed, PERCENT, 5),
            critical(Measure::PushesFailed, 5 * PERCENT, 5),
            level(Part::Sustained, Severity::Critical, Measure::PushesFailed, 0, 15),
        ],
    },
    Rule {
        name: RuleName::Push4xx,
        title: "the endpoint is refusing messages",
        meaning: "Pushes get 4xx (or a redirect): the producer sends messages the consumer cannot \
                  read, the endpoint moved, or its credentials changed.",
        remedy: &[
            "See which messages and what the endpoint says: `postrider attempts <subscription>`.",
            "Check recent changes to the producer, the endpoint's address and its credentials.",
            "Refused messages are retried until their attempts run out, or forever without a dead \
             letter policy: `postrider lint` tells you if it is missing.",
        ],
        levels: &[
            warning(Measure::PushesRefused, PERCENT / 10, 10),
            critical(Measure::PushesRefused, PERCENT, 10),
        ],
    },
    Rule {
        name: RuleName::OldestUnackedAge,
        title: "messages are waiting too long",
        meaning: "The oldest unacked message was published a while ago: there are no consumers, \
                  they are too slow, or one message is stuck.",
        remedy: &[
            "Check whether anything is being delivered and acked: `postrider top`.",
            "Nothing outstanding: no consumer is connected, or the subscription is paused. \
             `postrider subscription describe <subscription>` says so.",
            "Many outstanding and few acks: the consumers are too slow or too few.",
            "One message stuck: `postrider lane list <subscription>` or `postrider attempts \
             <subscription>` names it; release or skip it.",
        ],
        levels: &[
            warning(Measure::OldestUnackedAge, 0, 5),
            critical(Measure::OldestUnackedAge, 0, 15),
        ],
    },
    Rule {
        name: RuleName::BacklogGrowing,
        title: "the backlog is growing",
        meaning: "Messages have been arriving faster than they are acked for a while.",
        remedy: &[
            "See whether the publish rate or the ack rate changed: the dashboard, or `postrider \
             top`.",
            "Add consumers. For push, check the endpoint's window: if it is small, the endpoint is \
             slow or failing.",
            "If nobody needs the subscription, delete it or seek it to now.",
        ],
        levels: &[warning(Measure::BacklogGrowth, 0, 15), critical(Measure::BacklogGrowth, 0, 30)],
    },
    Rule {
        name: RuleName::FifoBlocked,
        title: "a FIFO subscription is blocked",
        meaning: "The first message keeps failing, and all others wait behind it.",
        remedy: &[
            "See the message and its error: `postrider lane list <subscription>` and \
             `postrider attempts <subscription>`.",
            "Fix the consumer and retry the message now: `postrider lane release <subscription> \
             --key ''`.",
            "Or give up on the message so the others can continue: `postrider lane skip \
             <subscription> --key ''`; with a dead letter policy it is kept there.",
        ],
        levels: &[warning(Measure::FifoBlocked, 0, 5)],
    },
    Rule {
        name: RuleName::LaneBlocked,
        title: "a lane is blocked",
        meaning: "The first message of a lane (of one ordering key, or of one value of `laneBy`) \
                  keeps failing, and all others of that lane wait behind it. Other lanes continue.",
        remedy: &[
            "See which lanes and why: `postrider lane list <subscription>` names the key, the \
             message, its last failure and when it will be retried; `postrider attempts \
             <subscription>` shows what the endpoint said.",
            "Fix the consumer, and retry the message now: `postrider lane release <subscription> \
             --key <key>`.",
            "Or give up on it so the rest of the lane can continue: `postrider lane skip \
             <subscription> --key <key>`; with a dead letter policy it is kept there.",
        ],
        levels: &[warning(Measure::LaneBlocked, 0, 5)],
    },
    Rule {
        name: RuleName::LaneHalted,
        title: "lanes are waiting for an operator",
        meaning: "With `poison: halt`, a message that runs out of attempts stops its lane. Nothing \
                  in that lane is delivered until someone decides.",
        remedy: &[
            "See which lanes: `postrider lane list <subscription>`; those in state `halted` are \
             waiting for you.",
            "Fix the cause and retry the message: `postrider lane release <subscription> --key \
             <key>`.",
            "Or give up on it: `postrider lane skip <subscription> --key <key>`; with a dead \
             letter policy it is kept there, without one it is dropped.",
        ],
        levels: &[warning(Measure::LanesHalted, 0, 1), critical(Measure::LanesHalted, 0, 15)],
    },
    Rule {
        name: RuleName::ClockJumped,
        title: "the clock jumped forward",
        meaning: "The server's clock is more than an hour ahead of the time that has passed since \
                  it was last trusted: it was set, or the server was off for that long. So that a \
                  wrong clock deletes nothing, retention and expiry are suspended until the time \
                  is confirmed. Everything else continues; the store grows.",
        remedy: &[
            "See what the clock shows and what was expected: `postrider clock`.",
            "If the time is right, for example because the machine was off: `postrider clock \
             confirm`. Everything past its retention or expired is then removed at once; \
             `postrider clock` says how many subscriptions and snapshots that is.",
            "If the time is wrong, set the machine's clock (`timedatectl`, NTP). Retention and \
             expiry then resume automatically.",
            "If you do nothing, a clock that runs steadily for a day is trusted.",
        ],
        levels: &[warning(Measure::ClockAhead, 0, 1)],
    },
    Rule {
        name: RuleName::LogNotTrimmed,
        title: "the log cannot be emptied",
        meaning: "Saving progress, or moving messages out of the write-ahead log, keeps failing. \
                  Deliveries and acks continue, and messages are accepted until the log reaches \
                  `storage.wal_max`; then publishing is refused.",
        remedy: &[
            "See what is wrong: `degraded` in `GET /status` names it, and so does the server's \
             log.",
            "Fix it: the disk, permissions on the data folder, or the limit on open files \
             (`LimitNOFILE`).",
            "The server retries every second and recovers automatically.",
        ],
        levels: &[critical(Measure::LogStuck, 0, 0)],
    },
    Rule {
        name: RuleName::OutstandingLimit,
        title: "too many messages are outstanding",
        meaning: "The messages that are delivered and not acked, or waiting to be retried, in all \
                  subscriptions together come near `limits.outstanding_max`. Subscriptions that \
                  have many of them get no new messages until some are acked; the others \
                  continue.",
        remedy: &[
            "See which subscriptions have most of them: `postrider top`, column outstanding.",
            "Find consumers that receive but do not ack, and push endpoints that keep failing.",
            "If consumers need that many at a time, raise `limits.outstanding_max`: each takes \
             about 160 bytes of memory.",
        ],
        levels: &[warning(Measure::OutstandingUsed, 75 * PERCENT, 5)],
    },
];
