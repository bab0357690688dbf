"""Knows every message published, answered, delivered and acked, and says which promise broke.

Events go in as they happen; faults come out as lines that begin with the promise's name:

D1  an answered publish reaches every subscription that existed then
D2  nothing arrives changed, and nothing arrives that was not published
D3  an unanswered publish shows no holes inside one ordering key
D4  ids are unique and grow
A1  after a crash only what was outstanding, or acked just before, comes again
A2  a late ack, also with an id from before a restart, counts
R1  what was created exists after a restart, what was deleted stays deleted
L1  what is owed arrives in the end
"""

import itertools
import threading
import time

# An ack rides with the next commit, at most about 20 ms later; the rest is for the way to the
# server, the sync, and a machine that is busy with other things.
ACK_SETTLES_SECONDS = 0.3
# An ack on a stream is not answered: it may still have been in the client when the kill came.
STREAM_ACK_SETTLES_SECONDS = 1.5

PRESENT, ABSENT, UNSURE = "present", "absent", "unsure"
FAULTS_MAX = 50


class Message:
    """One published message and what is known of it."""

    __slots__ = ("token", "topic", "call", "key", "size", "id", "seen")

    def __init__(self, token, topic, call, key, size):
        self.token = token
        self.topic = topic
        self.call = call
        self.key = key
        self.size = size
        self.id = None
        self.seen = False


class Call:
    """One Publish call: when it began, and when it was answered if it was."""

    __slots__ = ("topic", "began", "answered", "messages", "id_above")

    def __init__(self, topic, began, id_above):
        self.topic = topic
        self.began = began
        self.answered = None
        self.messages = []
        self.id_above = id_above


class Delivery:
    """What one subscription has had of one message."""

    __slots__ = ("life", "nacked", "asked", "acked_at", "acked_life", "settles")

    def __init__(self, life):
        self.life = life
        self.nacked = False
        # Its ack was sent; if a kill took the answer away, it may or may not count.
        self.asked = False
        self.acked_at = None
        self.acked_life = None


class Subscription:
    def __init__(self, name, topic, asked):
        self.name = name
        self.topic = topic
        self.status = UNSURE
        self.asked = asked
        # The clock when it was certain to exist; owed is what was published after that.
        self.exists_since = None
        self.deliveries = {}
        self.settled = 0


class Topic:
    def __init__(self, name, label):
        self.name = name
        self.label = label
        self.status = UNSURE
        self.calls = []
        self.id_highest = 0
        self.answered = 0


def data_of(token, size):
    """The bytes a message with this token carries."""
    raw = token.encode() + b"|"
    return (raw * (size // len(raw) + 1))[: max(size, len(raw))]


class Checker:
    """All methods may be called from any thread."""

    def __init__(self):
        self.lock = threading.RLock()
        self.clock = itertools.count(1)
        self.numbers = itertools.count(1)
        self.life = 0
        self.killed_at = {}
        self.messages = {}
        self.ids = {}
        self.topics = {}
        self.subscriptions = {}
        self.faults = []
        self.delivered_count = 0
        self.acked_count = 0
        self.nacked_count = 0

    def fault(self, text):
        if len(self.faults) < FAULTS_MAX:
            self.faults.append(text)

    # Lives of the server process.

    def started(self):
        with self.lock:
            self.life += 1

    def killed(self):
        """To be called just before the kill."""
        with self.lock:
            self.killed_at[self.life] = time.monotonic()

    # Publishing.

    def publish_begins(self, topic, shapes):
        """`shapes` are (ordering key, size); gives the call with its messages."""
        with self.lock:
            known = self.topics[topic]
            call = Call(topic, next(self.clock), known.id_highest)
            for key, size in shapes:
                token = f"{topic.rsplit('/', 1)[1]}.{next(self.numbers)}.{size}"
                message = Message(token, topic, call, key, size)
                self.messages[token] = message
                call.messages.append(message)
            known.calls.append(call)
            return call

    def publish_answered(self, call, ids):
        with self.lock:
            call.answered = next(self.clock)
            if len(ids) != len(call.messages):
                self.fault(f"D4 {len(call.messages)} published, {len(ids)} ids in the answer")
            last = call.id_above
            for message, id in zip(call.messages, map(int, ids)):
                if id <= last:
                    self.fault(f"D4 id {id} of {message.token} is not above {last}")
                last = id
                self.learn_id(message, id)
            topic = self.topics[call.topic]
            topic.answered += len(ids)
            topic.id_highest = max(topic.id_highest, last)

    def learn_id(self, message, id):
        if message.id is None:
            message.id = id
            other = self.ids.setdefault((message.topic, id), message)
            if other is not message:
                self.fault(f"D4 id {id} is both {other.token}'s and {message.token}'s")
        elif message.id != id:
            self.fault(f"D4 {message.token} had id {message.id}, now {id}")

    # Delivery.

    def delivered(self, subscription, token, id, data, attributes, key, life):
        """A message has come; gives its token back if it is one of ours."""
        with self.lock:
            self.delivered_count += 1
            known = self.subscriptions[subscription]
            message = self.messages.get(token)
            if message is None or message.topic != known.topic:
                self.fault(f"D2 {subscription} got {token!r}, never published to {known.topic}")
                return
            self.check_content(message, data, attributes, key)
            self.learn_id(message, id)
            message.seen = True
            call = message.call
            if call.answered is not None and call.answered < known.asked:
                self.fault(f"D2 {subscription} got {token}, published before it was asked for")
            self.check_repeat(known, message, life)

    def check_content(self, message, data, attributes, key):
        if data != data_of(message.token, message.size):
            self.fault(f"D2 data of {message.token} has changed: {len(data)} bytes")
        if attributes != {"token": message.token} or key != message.key:
            self.fault(f"D2 attributes or key of {message.token} have changed")

    def check_repeat(self, subscription, message, life):
        before = subscription.deliveries.get(message.token)
        if before is None:
            subscription.deliveries[message.token] = Delivery(life)
            return
        name = f"{message.token} on {subscription.name}"
        if before.acked_at is not None:
            subscription.settled -= 1
            killed_at = self.killed_at.get(before.acked_life)
            if before.acked_life == life or killed_at is None:
                self.fault(f"A1 {name} came again in the same life after its ack")
            elif before.acked_at < killed_at - before.settles:
                ago = killed_at - before.acked_at
                self.fault(f"A1 {name} came again, acked {ago:.3f} s before the kill")
        elif before.life == life and not before.nacked:
            self.fault(f"A1 {name} was leased twice at once")
        subscription.deliveries[message.token] = Delivery(life)

    def ack_asked(self, subscription, tokens):
        """To be called just before the ack is sent."""
        with self.lock:
            known = self.subscriptions[subscription]
            for token in tokens:
                if token in known.deliveries:
                    known.deliveries[token].asked = True

    def acked(self, subscription, tokens, life, settles=None):
        """The ack was answered; `settles` seconds later it is durable for sure."""
        settles = ACK_SETTLES_SECONDS if settles is None else settles
        now = time.monotonic()
        with self.lock:
            known = self.subscriptions[subscription]
            for token in tokens:
                delivery = known.deliveries.get(token)
                if delivery is not None:
                    known.settled += delivery.acked_at is None
                    delivery.acked_at = now
                    delivery.acked_life = life
                    delivery.settles = settles
                    self.acked_count += 1

    def nacked(self, subscription, tokens):
        with self.lock:
            known = self.subscriptions[subscription]
            for token in tokens:
                delivery = known.deliveries.get(token)
                if delivery is not None:
                    delivery.nacked = True
                    self.nacked_count += 1

    # Resources.

    def topic_asked(self, name, label):
        with self.lock:
            self.topics[name] = Topic(name, label)

    def subscription_asked(self, name, topic):
        with self.lock:
            self.subscriptions[name] = Subscription(name, topic, next(self.clock))

    def exists(self, name):
        """Its creation was answered OK, or it was found to be there."""
        with self.lock:
            known = self.topics.get(name) or self.subscriptions[name]
            known.status = PRESENT
            if isinstance(known, Subscription) and known.exists_since is None:
                known.exists_since = next(self.clock)

    def deletion_asked(self, name):
        with self.lock:
            (self.topics.get(name) or self.subscriptions[name]).status = UNSURE

    def gone(self, name):
        with self.lock:
            (self.topics.get(name) or self.subscriptions[name]).status = ABSENT

    def check_resources(self, topics, subscriptions):
        """What the server lists: topic name → label, subscription name → topic name shown."""
        with self.lock:
            for known in self.topics.values():
                self.check_presence(known, known.name in topics)
                if known.status == PRESENT and topics.get(known.name) != known.label:
                    self.fault(f"R1 {known.name} shows label {topics.get(known.name)}")
            for known in self.subscriptions.values():
                self.check_presence(known, known.name in subscriptions)
                if known.status == PRESENT:
                    self.check_shown_topic(known, subscriptions[known.name])
            for name in [*topics, *subscriptions]:
                if name not in self.topics and name not in self.subscriptions:
                    self.fault(f"R1 {name} exists and nobody asked for it")

    def check_presence(self, known, listed):
        if known.status == PRESENT and not listed:
            self.fault(f"R1 {known.name} was created and is missing")
        elif known.status == ABSENT and listed:
            self.fault(f"R1 {known.name} was deleted and is back")
        elif known.status == UNSURE:
            if listed:
                self.exists(known.name)
            else:
                known.status = ABSENT

    def check_shown_topic(self, known, shown):
        topic = self.topics[known.topic]
        wanted = known.topic if topic.status == PRESENT else "_deleted-topic_"
        if shown != wanted:
            self.fault(f"R1 {known.name} shows topic {shown}, not {wanted}")

    # What is owed.

    def backlog_about(self, name):
        """Roughly how far a subscription of old is behind; cheap."""
        with self.lock:
            known = self.subscriptions[name]
            return self.topics[known.topic].answered - known.settled

    def owed(self, name):
        """Messages this subscription must still get, or has not acked yet."""
        with self.lock:
            known = self.subscriptions[name]
            if known.status != PRESENT or known.exists_since is None:
                return []
            return [
                message.token
                for call in self.topics[known.topic].calls
                for message in call.messages
                if self.is_owed(known, call, message)
            ]

    def is_owed(self, known, call, message):
        delivery = known.deliveries.get(message.token)
        if delivery is not None:
            unsure = delivery.asked and delivery.life < self.life
            return delivery.acked_at is None and not unsure
        published = call.answered is not None or message.seen
        return published and call.began > known.exists_since

    def check_drained(self):
        """Everything owed has come: looks for holes, then forgets the calls."""
        with self.lock:
            for known in self.subscriptions.values():
                owed = self.owed(known.name)
                unsettled = [token for token in owed if token in known.deliveries]
                lost = [token for token in owed if token not in known.deliveries]
                if unsettled:
                    self.fault(f"L1 not settled on {known.name}: {self.tell(unsettled)}")
                if lost:
                    self.fault(f"D1 never came to {known.name}: {self.tell(lost)}")
            for topic in self.topics.values():
                for call in topic.calls:
                    self.check_holes(call)
                topic.calls = []

    def tell(self, tokens):
        """How many, and the first and last with their ids."""
        first, last = self.messages[tokens[0]], self.messages[tokens[-1]]
        return f"{len(tokens)}, from {first.token} (id {first.id}) to {last.token} (id {last.id})"

    def check_holes(self, call):
        if call.answered is not None:
            return
        missing = {}
        for message in call.messages:
            if not message.seen:
                missing.setdefault(message.key, message)
            elif message.key and message.key in missing:
                hole = missing[message.key]
                self.fault(f"D3 {message.token} came without {hole.token} before it")
