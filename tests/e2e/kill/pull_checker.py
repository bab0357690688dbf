"""Knows what was published and what each subscription was given by pulls and streams, and says
which promise broke. Faults begin with the promise's name:

D1  an answered publish reaches every subscription whose filter it matches
D2  nothing arrives that was not published, or changed
A1  an answered ack sticks: with exactly-once at once, otherwise with the next commit
O1  per lane: `lane_rules.py`
X1  a message is acked or becomes one dead letter, after as many attempts as it may have, and
    never both or neither; a letter is replayed once
F1  nothing arrives that does not match the filter

While the server lives everything is only noted. When it is gone and all its answers are read, the
life is judged as a whole, in the order in which the server gave leases out.
"""

import collections
import threading
import time

import lane_rules
from lane_rules import Past
from leases import Lease, parts

FAULTS_MAX = 30
# An ack on a stream is not answered: after so long it has reached the server.
STREAM_ACK_SECONDS = 1.5
ORIGINAL = "original_message_id"
ORIGIN = "original_subscription"


class Message:
    """One that was sent to be published, answered or not."""

    __slots__ = ("token", "key", "kind", "id")

    def __init__(self, token, key, kind):
        self.token = token
        self.key = key
        self.kind = kind
        self.id = None


class Subscription:
    """`ordering` is "none", "key" or "fifo"; `kind` is the only kind its filter lets through."""

    def __init__(self, name, ordering="none", once=False, attempts_max=None, kind=None):
        self.name = name
        self.ordering = ordering
        self.kind = kind
        self.past = Past(once, attempts_max)
        # Leases of the present life, by number.
        self.leases = {}
        # Id → its last lease, and whether that was acked; over all lives.
        self.last = {}
        # Replayed messages: id → key, and the original's id → ids.
        self.copies = {}
        self.copied = collections.defaultdict(set)

    def wants(self, message):
        return self.kind is None or message.kind == self.kind

    def lane_of(self, key):
        """The lane of a message; `None` = it is in none."""
        if self.ordering == "fifo":
            return ""
        return key if self.ordering == "key" and key else None


class Letters:
    """Dead letters as the subscription on their topic was given them."""

    def __init__(self):
        self.past = Past()
        self.leases = {}
        # (subscription, the original's id) → ids of letters.
        self.of = collections.defaultdict(set)
        # The same → when the first was seen, and in which life.
        self.seen = {}


class PullChecker:
    """All methods may be called from any thread."""

    def __init__(self):
        self.lock = threading.RLock()
        self.life = 0
        # Token → message, and id → message of what is known to be in the topic.
        self.tokens = {}
        self.messages = {}
        self.subscriptions = {}
        self.letters = Letters()
        # What was answered up to then is durable: a later publish was.
        self.proven = 0.0
        # All up to here was drained; all up to there was so twice, and is forgotten.
        self.drained_to = 0
        self.over_to = 0
        self.faults = []
        self.delivered_count = 0
        self.nacked_count = 0

    def fault(self, text):
        if len(self.faults) < FAULTS_MAX:
            self.faults.append(f"life {self.life}: {text}")

    def add(self, name, **rules):
        self.subscriptions[name] = Subscription(name, **rules)

    def started(self):
        """To be called when the process before has gone and its life is judged."""
        with self.lock:
            self.life += 1
            self.proven = 0.0

    # Publishing.

    def publish_begins(self, messages):
        """`messages` are (token, key, kind); gives the time."""
        with self.lock:
            self.tokens.update({one[0]: Message(*one) for one in messages})
            return time.monotonic()

    def publish_answered(self, messages, ids, began):
        """Commits become durable in order, so acks answered before this one began are so too."""
        with self.lock:
            self.proven = max(self.proven, began)
            for (token, _, _), id in zip(messages, map(int, ids)):
                self.learn(self.tokens[token], id)

    def learn(self, message, id):
        if message.id is None:
            message.id = id
        known = self.messages.setdefault(id, message)
        if known is not message or message.id != id:
            self.fault(f"D4 {message.token} is {message.id} and {id}, which is {known.token}")

    # Deliveries.

    def delivered(self, name, consumer, began, received):
        """A message has come; gives its lease. `began`: nothing was leased for this before."""
        message = received.message
        offset, _, number = parts(received.ack_id)
        id = int(message.message_id)
        with self.lock:
            self.delivered_count += 1
            lease = Lease(
                number, id, message.ordering_key, consumer, self.life, began,
                received.delivery_attempt,
            )
            if offset != id:
                self.fault(f"D2 the ack id of {id} is that of {offset}")
            known = self.subscriptions[name]
            if id <= self.over_to:
                self.fault(f"A1 {name} got {id}, settled long ago")
                return lease
            attributes = dict(message.attributes)
            original = attributes.pop(ORIGINAL, None)
            self.check_content(name, message, attributes, original)
            if original is not None:
                known.copies[id] = message.ordering_key
                known.copied[int(original)].add(id)
            elif message.data.decode() in self.tokens:
                self.learn(self.tokens[message.data.decode()], id)
            known.leases[number] = lease
            self.note_last(known, lease)
            return lease

    def check_content(self, name, message, attributes, original):
        token = message.data.decode(errors="replace")
        known = self.tokens.get(token)
        if known is None or attributes != {"kind": known.kind} or message.ordering_key != known.key:
            self.fault(f"D2 {name} got {token!r}, changed or never published")
        elif not self.subscriptions[name].wants(known):
            self.fault(f"F1 {name} got {token!r} of kind {known.kind!r}")
        elif original is not None and known.id not in (None, int(original)):
            self.fault(f"D2 {name} got {token!r} replayed as {original}, which is {known.id}")

    def note_last(self, known, lease):
        before = known.last.get(lease.id)
        if before is None or (before.life, before.number) < (lease.life, lease.number):
            known.last[lease.id] = lease

    def acking(self, leases):
        """To be called just before the ack is sent."""
        with self.lock:
            for lease in leases:
                lease.ack_asked = time.monotonic()

    def acked(self, leases, on_stream=False):
        """The ack was answered, or was sent on a stream."""
        with self.lock:
            for lease in leases:
                lease.ack_answered = time.monotonic() + (STREAM_ACK_SECONDS if on_stream else 0)

    def nacking(self, leases):
        with self.lock:
            self.nacked_count += len(leases)
            for lease in leases:
                lease.nack_asked = time.monotonic()

    def nacked(self, leases):
        with self.lock:
            for lease in leases:
                lease.nack_answered = time.monotonic()

    # Dead letters.

    def letter(self, received, began):
        """The subscription on the dead letter topic was given one; gives its lease."""
        message = received.message
        _, _, number = parts(received.ack_id)
        with self.lock:
            lease = Lease(number, int(message.message_id), life=self.life, began=began)
            self.letters.leases[number] = lease
            name = message.attributes.get(ORIGIN, "").rsplit("/", 1)[-1]
            original = int(message.attributes.get(ORIGINAL, 0))
            known = self.subscriptions.get(name)
            if known is None or known.past.attempts_max is None:
                self.fault(f"X1 a letter of {name!r}, which has no dead letter topic")
                return lease
            if message.data.decode(errors="replace") not in self.tokens:
                self.fault(f"D2 letter {lease.id} is {message.data!r}, never published")
            if message.attributes.get("attempts") != str(known.past.attempts_max):
                self.fault(f"X1 letter {lease.id} says {dict(message.attributes)}")
            self.letters.of[name, original].add(lease.id)
            self.letters.seen.setdefault((name, original), (time.monotonic(), self.life))
            known.past.letters.add(original)
            return lease

    def letters_to_replay(self, name):
        """The original's id → its letter's id, of letters whose replay nobody has seen."""
        with self.lock:
            copied = self.subscriptions[name].copied
            known = self.letters.of.items()
            return {
                original: min(ids)
                for (of, original), ids in known
                if of == name and not copied.get(original)
            }

    # Judging.

    def ended(self, asked_to_end=0.0):
        """The process is gone and all it said is read. One that was asked to end, at this time,
        has saved all that it had answered by then."""
        with self.lock:
            proven = max(self.proven, asked_to_end)
            for known in self.subscriptions.values():
                self.judge(known, proven)
                known.leases = {}
            for fault in lane_rules.judge_free(
                self.letters.past, in_order(self.letters.leases), proven
            ):
                self.fault(f"letters: {fault}")
            self.letters.leases = {}

    def judge(self, known, proven):
        lanes = collections.defaultdict(list)
        for lease in in_order(known.leases):
            lanes[known.lane_of(lease.key)].append(lease)
        free = lanes.pop(None, [])
        faults = lane_rules.judge_free(known.past, free, proven)
        ids = self.lanes(known)
        for key, leases in lanes.items():
            faults += lane_rules.judge_lane(known.past, ids[key], leases, proven)
        faults += self.judge_letters(known)
        for fault in faults:
            self.fault(f"{known.name}: {fault}")

    def lanes(self, known):
        """Lane → ids known to be in it."""
        lanes = collections.defaultdict(list)
        for id, message in self.messages.items():
            if known.wants(message):
                lanes[known.lane_of(message.key)].append(id)
        for id, key in known.copies.items():
            lanes[known.lane_of(key)].append(id)
        return {key: sorted(ids) for key, ids in lanes.items()}

    def judge_letters(self, known):
        faults = []
        for (name, original), ids in self.letters.of.items():
            if name != known.name:
                continue
            nacks = known.past.nacks[original]
            if len(ids) > 1:
                faults.append(f"X1 {original} became the letters {sorted(ids)}")
            if nacks < known.past.attempts_max:
                faults.append(f"X1 {original} became a letter after {nacks} failures")
            if original in known.past.sure:
                faults.append(f"X1 {original} became a letter although it was acked for good")
        for lease in known.leases.values():
            at, life = self.letters.seen.get((known.name, lease.id), (0, None))
            if life is not None and (life < lease.life or at < lease.began):
                faults.append(f"X1 {lease} came although it was a dead letter")
        for original, ids in known.copied.items():
            if len(ids) > 1:
                faults.append(f"X1 the letter of {original} was replayed as {sorted(ids)}")
        return faults

    # What is owed.

    def owed(self, name, replayed=()):
        """What this subscription must still get, or has not acked: ids. `replayed`: originals."""
        with self.lock:
            known = self.subscriptions[name]
            wanted = [id for id, message in self.messages.items() if known.wants(message)]
            owed = [id for id in [*wanted, *known.copies] if not self.is_done(known, id)]
            return owed + [id for id in replayed if not known.copied[id]]

    def is_done(self, known, id):
        last = known.last.get(id)
        if last is not None and last.ack_asked is not None and not last.is_void:
            return True
        return id in known.past.letters or id in known.past.sure

    def owed_about(self):
        """Roughly how far the one furthest behind is behind; cheap."""
        with self.lock:
            whole = [known for known in self.subscriptions.values() if known.kind is None]
            return max(len(self.messages) - len(known.last) for known in whole)

    def check_drained(self, ends, replayed):
        """All that is owed must come until then. `replayed`: subscription → originals."""
        for name, known in self.subscriptions.items():
            behind = replayed.get(name, ())
            while (owed := self.owed(name, behind)) and time.monotonic() < ends:
                time.sleep(0.02)
            if owed:
                last = known.last.get(owed[0])
                self.fault(f"D1 {len(owed)} owed to {name}, first {owed[0]}, last seen as {last}")

    def forget(self):
        """After all was drained: what was drained the time before is over for good."""
        with self.lock:
            floor, self.drained_to = self.drained_to, max(self.messages, default=0)
            self.over_to = floor
            old = [id for id in self.messages if id <= floor]
            for id in old:
                del self.tokens[self.messages.pop(id).token]
            for known in self.subscriptions.values():
                for id in [id for id in known.copies if id <= floor]:
                    del known.copies[id]
                for id in [id for id in known.last if id <= floor]:
                    del known.last[id]


def in_order(leases):
    return [leases[number] for number in sorted(leases)]
