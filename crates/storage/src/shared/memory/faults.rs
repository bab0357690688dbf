//! What can go wrong between an engine and its store, call by call, as a test decides.

use std::collections::VecDeque;
use std::time::Duration;

use domain::ShardId;
use parking_lot::Mutex;

/// What a call asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Asked {
    /// `Chunks::head`.
    Head,
    /// `Chunks::take`.
    Take,
    /// `Chunks::release`.
    Release,
    /// `Chunks::append`.
    Append,
    /// `Chunks::read`.
    Read,
    /// `Chunks::trim`.
    Trim,
    /// `Chunks::put_blocks`.
    PutBlocks,
    /// `Chunks::read_blocks`.
    ReadBlocks,
    /// `Chunks::drop_blocks`.
    DropBlocks,
    /// `Chunks::save`.
    Save,
    /// `Chunks::saved`.
    Saved,
    /// `Catalogue::get` and `list`.
    Lookup,
    /// `Catalogue::put`.
    Put,
    /// `Catalogue::delete`.
    Delete,
    /// `Catalogue::serial`.
    Serial,
    /// One step of `Catalogue::changes`. Only `Refuse` counts, which ends the stream.
    Changes,
    /// `Members::join`.
    Join,
    /// `Members::renew`.
    Renew,
    /// `Members::leave`.
    Leave,
    /// `Members::view`.
    View,
    /// All of `AttemptHistory`.
    Attempts,
}

/// One call on its way to the store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// What it asks for.
    pub asked: Asked,
    /// Of which shard; `None` = of the whole store.
    pub shard: Option<ShardId>,
}

/// What becomes of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// It happens and is answered.
    None,
    /// It does not happen: `Unavailable`.
    Refuse,
    /// It does not happen, but who knows: `Indeterminate`.
    LoseCall,
    /// It happens, but who knows: `Indeterminate`.
    LoseAnswer,
    /// It happens after this time, and is answered then. Also if nobody waits any more.
    Delay(Duration),
    /// It happens, and is answered after this time.
    DelayAnswer(Duration),
    /// `Indeterminate`; it happens after this time.
    Late(Duration),
    /// It happens and is answered, and happens once more after this time.
    Twice(Duration),
    /// A later owner came and went: the shard has a new epoch, and the call happens after that.
    Fence,
    /// It does not happen, and is never answered.
    Silence,
    /// It happens, and is never answered.
    SilenceAfter,
    /// Only so many of the first rows are saved: `Indeterminate`. Any other call than a save:
    /// `LoseCall`.
    Torn(usize),
}

/// Decides what becomes of each call.
pub trait Faults: Send + Sync {
    /// What becomes of this one.
    fn decide(&self, call: Call) -> Fault;
}

/// Nothing goes wrong.
#[derive(Clone, Copy, Debug, Default)]
pub struct NoFaults;

impl Faults for NoFaults {
    fn decide(&self, _: Call) -> Fault {
        Fault::None
    }
}

/// One fault after the other, each for the next call of its kind; nothing goes wrong in between.
#[derive(Debug, Default)]
pub struct Script(Mutex<VecDeque<(Asked, Fault)>>);

impl Script {
    /// Adds a fault for the next call of that kind that none was added for yet.
    pub fn add(&self, asked: Asked, fault: Fault) {
        self.0.lock().push_back((asked, fault));
    }

    /// Faults that no call has met yet.
    pub fn left(&self) -> usize {
        self.0.lock().len()
    }

    /// From now on nothing goes wrong.
    pub fn clear(&self) {
        self.0.lock().clear();
    }
}

impl Faults for Script {
    fn decide(&self, call: Call) -> Fault {
        let mut script = self.0.lock();
        let place = script.iter().position(|(asked, _)| *asked == call.asked);
        place.and_then(|place| script.remove(place)).map_or(Fault::None, |(_, fault)| fault)
    }
}

/// Faults drawn from a seed: the same calls in the same order meet the same faults.
#[derive(Debug)]
pub struct Seeded {
    state: Mutex<u64>,
    /// How many calls in a thousand go wrong.
    per_mille: u64,
    /// The longest delay.
    delay_max: Duration,
    /// Whether calls may fence their shard or never be answered.
    is_harsh: bool,
}

impl Seeded {
    /// Faults of this seed in `per_mille` calls of a thousand, with delays of up to `delay_max`.
    pub fn new(seed: u64, per_mille: u64, delay_max: Duration) -> Self {
        Self { state: Mutex::new(seed), per_mille, delay_max, is_harsh: false }
    }

    /// Fences and silences as well. Only the engine core has an answer to silence.
    #[must_use]
    pub fn harsh(self) -> Self {
        Self { is_harsh: true, ..self }
    }

    /// The next number (the `splitmix64` sequence).
    fn draw(state: &mut u64) -> u64 {
        *state = state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut mixed = *state;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }
}

impl Faults for Seeded {
    fn decide(&self, call: Call) -> Fault {
        let mut state = self.state.lock();
        if Self::draw(&mut state) % 1_000 >= self.per_mille {
            return Fault::None;
        }
        let micros = u64::try_from(self.delay_max.as_micros()).unwrap_or(u64::MAX).max(1);
        let time = Duration::from_micros(Self::draw(&mut state) % micros);
        let is_core = call.asked <= Asked::Saved;
        match Self::draw(&mut state) % 11 {
            0 => Fault::Refuse,
            1 => Fault::LoseCall,
            2 => Fault::LoseAnswer,
            3 => Fault::Delay(time),
            4 => Fault::DelayAnswer(time),
            5 => Fault::Late(time),
            6 | 7 => Fault::Twice(time),
            8 if self.is_harsh && is_core => Fault::Silence,
            9 if self.is_harsh && is_core => Fault::SilenceAfter,
            10 if self.is_harsh
                && call.shard.is_some()
                && Self::draw(&mut state).is_multiple_of(8) =>
            {
                Fault::Fence
            }
            _ => Fault::Torn(usize::try_from(Self::draw(&mut state) % 8).unwrap_or(0)),
        }
    }
}
