//! Consumers and how much each may hold.

use super::Effects;

/// One consumer of a subscription: a stream, a single pull call, or a push sender.
///
/// Never issued twice by one `Delivery`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConsumerId(pub u64);

/// How much a consumer may hold at a time.
///
/// A consumer that holds nothing gets one record no matter how large it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Flow {
    /// Outstanding messages; 0 = no limit.
    pub messages_max: u64,
    /// Bytes of outstanding messages; 0 = no limit.
    pub bytes_max: u64,
}

/// A consumer's limits and what it holds now.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Load {
    flow: Flow,
    messages: u64,
    bytes: u64,
}

impl Load {
    /// How many more messages it may hold.
    pub(super) fn messages_room(&self) -> u64 {
        match self.flow.messages_max {
            0 => u64::MAX,
            max => max.saturating_sub(self.messages),
        }
    }

    /// How many more bytes it may hold; a single record may exceed this if it holds nothing.
    pub(super) fn bytes_room(&self) -> u64 {
        match self.flow.bytes_max {
            0 => u64::MAX,
            max => max.saturating_sub(self.bytes),
        }
    }

    /// Whether one more record of `bytes` fits.
    pub(super) fn fits(&self, bytes: u64) -> bool {
        self.messages_room() > 0 && (self.messages == 0 || bytes <= self.bytes_room())
    }

    pub(super) fn add(&mut self, bytes: u64) {
        self.messages += 1;
        self.bytes += bytes;
    }

    fn remove(&mut self, bytes: u64) {
        debug_assert!(self.messages > 0 && self.bytes >= bytes, "more came back than was given");
        self.messages = self.messages.saturating_sub(1);
        self.bytes = self.bytes.saturating_sub(bytes);
    }
}

#[derive(Debug, Default)]
pub(super) struct Consumers {
    slots: Vec<Slot>,
    /// Closed slots and the generation their next consumers will have.
    vacant: Vec<(u32, u32)>,
    /// Told to wait although they had room, because the subscription had none.
    stalled: Vec<ConsumerId>,
    /// Told to wait because the next record did not fit. The next one after it may be smaller.
    blocked: Vec<ConsumerId>,
}

#[derive(Debug, Default)]
struct Slot {
    /// How many consumers had this slot before, to tell their ids apart.
    generation: u32,
    is_open: bool,
    load: Load,
    /// It was told to wait until something of this many bytes fits.
    waits_for: Option<u64>,
}

impl Consumers {
    pub(super) fn open(&mut self, flow: Flow) -> ConsumerId {
        let (index, generation) = self.vacant.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            (u32::try_from(self.slots.len() - 1).unwrap_or(u32::MAX), 0)
        });
        if let Some(slot) = self.slots.get_mut(index as usize) {
            let load = Load { flow, ..Load::default() };
            *slot = Slot { generation, is_open: true, load, waits_for: None };
        }
        ConsumerId(u64::from(generation) << 32 | u64::from(index))
    }

    pub(super) fn close(&mut self, id: ConsumerId) {
        let Some(slot) = self.slot_mut(id) else { return };
        slot.is_open = false;
        // A slot that has used up its generations is never reused, so no id is issued twice.
        if let Some(generation) = slot.generation.checked_add(1) {
            self.vacant.push((index_of(id), generation));
        }
    }

    pub(super) fn set_flow(&mut self, id: ConsumerId, flow: Flow, effects: &mut Effects) {
        let Some(slot) = self.slot_mut(id) else { return };
        slot.load.flow = flow;
        slot.wake_if_it_fits(id, effects);
    }

    /// `id` is asking for records, so it is no longer waiting.
    pub(super) fn stop_waiting(&mut self, id: ConsumerId) {
        if let Some(slot) = self.slot_mut(id) {
            slot.waits_for = None;
        }
        self.stalled.retain(|stalled| *stalled != id);
    }

    /// What an open consumer holds.
    pub(super) fn load(&self, id: ConsumerId) -> Option<Load> {
        let slot = self.slots.get(index_of(id) as usize)?;
        slot.is(id).then_some(slot.load)
    }

    pub(super) fn set_load(&mut self, id: ConsumerId, load: Load) {
        if let Some(slot) = self.slot_mut(id) {
            slot.load = load;
        }
    }

    /// Notes that `id` was told to wait until something of `bytes` fits.
    pub(super) fn wait_for_room(&mut self, id: ConsumerId, bytes: u64) {
        let Some(slot) = self.slot_mut(id) else { return };
        slot.waits_for = Some(bytes);
        if slot.load.fits(1) && !self.blocked.contains(&id) {
            self.blocked.push(id);
        }
    }

    /// The next record changed: wakes the consumers that waited because the previous one was too
    /// large.
    pub(super) fn next_record_changed(&mut self, effects: &mut Effects) {
        for id in std::mem::take(&mut self.blocked) {
            if let Some(slot) = self.slot_mut(id)
                && slot.waits_for.take().is_some()
            {
                effects.freed.push(id);
            }
        }
    }

    /// Notes that `id` was told to wait until the subscription has fewer leases.
    pub(super) fn wait_for_any_lease_to_end(&mut self, id: ConsumerId) {
        self.stalled.push(id);
    }

    /// A lease of `bytes` ended: wakes the consumers that waited for that.
    pub(super) fn lease_ended(&mut self, id: ConsumerId, bytes: u64, effects: &mut Effects) {
        effects.freed.append(&mut self.stalled);
        // The consumer may already be closed: its leases outlive it.
        if let Some(slot) = self.slot_mut(id) {
            slot.load.remove(bytes);
            slot.wake_if_it_fits(id, effects);
        }
    }

    fn slot_mut(&mut self, id: ConsumerId) -> Option<&mut Slot> {
        self.slots.get_mut(index_of(id) as usize).filter(|slot| slot.is(id))
    }
}

impl Slot {
    fn is(&self, id: ConsumerId) -> bool {
        self.is_open && u64::from(self.generation) == id.0 >> 32
    }

    fn wake_if_it_fits(&mut self, id: ConsumerId, effects: &mut Effects) {
        if self.waits_for.is_some_and(|bytes| self.load.fits(bytes)) {
            self.waits_for = None;
            effects.freed.push(id);
        }
    }
}

fn index_of(id: ConsumerId) -> u32 {
    #[expect(clippy::cast_possible_truncation, reason = "the lower half is meant")]
    {
        id.0 as u32
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_id_is_never_given_out_twice() {
        let mut consumers = Consumers::default();
        let first = consumers.open(Flow::default());
        consumers.close(first);
        consumers.close(first);
        let second = consumers.open(Flow::default());
        let third = consumers.open(Flow::default());
        assert_ne!(first, second);
        assert_ne!(second, third);
        assert!(consumers.load(first).is_none());
        assert!(consumers.load(second).is_some());
    }

    #[test]
    fn a_lease_that_outlives_its_consumer_counts_for_nobody() {
        let (mut consumers, mut effects) = (Consumers::default(), Effects::default());
        let first = consumers.open(Flow::default());
        consumers.close(first);
        let second = consumers.open(Flow { messages_max: 1, bytes_max: 0 });
        let mut load = consumers.load(second).unwrap();
        load.add(10);
        consumers.set_load(second, load);
        consumers.wait_for_room(second, 10);
        consumers.lease_ended(first, 10, &mut effects);
        assert!(!consumers.load(second).unwrap().fits(1));
        assert_eq!(effects.freed, []);
        consumers.lease_ended(second, 10, &mut effects);
        assert_eq!(effects.freed, [second]);
    }

    #[test]
    fn a_record_larger_than_the_limit_fits_only_alone() {
        let mut load = Load { flow: Flow { messages_max: 0, bytes_max: 100 }, ..Load::default() };
        assert!(load.fits(500));
        load.add(40);
        assert!(load.fits(60) && !load.fits(61));
        load.add(60);
        assert!(!load.fits(1));
    }
}
