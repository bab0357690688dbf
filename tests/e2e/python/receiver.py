"""A real HTTP receiver of pushes: notes every request and answers as its path was told to.

Answers are numbers (a status) or functions of `answers.py`; they are used one after another, the
last one again and again. A path nobody spoke of answers 200.
"""

import base64
import json
import socket
import struct
import threading
import time

WAIT_SECONDS = 30
HEAD_BYTES_MAX = 1024 * 1024
TLS_FIRST_BYTE = b"\x16"


class Request:
    """One request as it came, and when its answer began."""

    def __init__(self, method, path, fields, body):
        self.arrived = time.time()
        self.method = method
        self.path = path
        self.fields = fields
        self.body = body
        # Just before the first byte of the answer; so two requests that overlap by these times
        # did overlap.
        self.answered = None
        # The sender closed the connection before an answer was begun.
        self.gone = None

    @property
    def headers(self):
        """Lower-case name → value; repeated ones are joined with a comma."""
        found = {}
        for name, value in self.fields:
            name = name.lower()
            found[name] = f"{found[name]}, {value}" if name in found else value
        return found

    @property
    def json(self):
        return json.loads(self.body)

    @property
    def message(self):
        """The message of a wrapped push."""
        return self.json["message"]

    @property
    def data(self):
        return base64.b64decode(self.message.get("data", ""))

    @property
    def id(self):
        return self.message["messageId"]

    @property
    def batch(self):
        """The data of every message of a batch."""
        return [base64.b64decode(one["message"].get("data", "")) for one in self.json]

    @property
    def sequence(self):
        return int(self.headers["postrider-sequence"])

    def __repr__(self):
        return f"{self.method} {self.path} {self.body[:200]!r}"


class Exchange:
    """One request and the connection its answer goes to."""

    def __init__(self, receiver, connection, request):
        self.receiver = receiver
        self.connection = connection
        self.request = request

    def send(self, raw):
        """False if the sender is gone."""
        if self.request.answered is None:
            self.request.answered = time.time()
        try:
            self.connection.sendall(raw)
        except OSError:
            return False
        return True

    def wait(self, event=None, seconds=None):
        """Waits for the event or the time; False if the sender or the receiver went before."""
        ends = None if seconds is None else time.monotonic() + seconds
        while not self.receiver.closing.is_set():
            if event is not None and event.is_set():
                return True
            if ends is not None and time.monotonic() >= ends:
                return True
            if self.sender_gone():
                return False
            step = 0.01 if ends is None else min(0.01, max(0, ends - time.monotonic()))
            (event or self.receiver.closing).wait(step)
        return False

    def sender_gone(self):
        self.connection.setblocking(False)
        try:
            gone = self.connection.recv(1, socket.MSG_PEEK) == b""
        except BlockingIOError:
            gone = False
        except OSError:
            gone = True
        finally:
            self.connection.settimeout(WAIT_SECONDS)
        if gone:
            self.receiver.note_gone(self.request)
        return gone

    def reset(self):
        """Ends the connection with a reset in place of a proper end."""
        self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.connection.close()


class Receiver:
    """Listens on a free port of 127.0.0.1; every connection has a thread."""

    def __init__(self, tls=None):
        self.tls = tls
        self.changed = threading.Condition()
        self.requests = []
        self.scripts = {}
        self.connections = set()
        self.connected = 0
        self.closing = threading.Event()
        self.port = 0
        self.listener = None
        self.listen()

    # Being reachable.

    def listen(self):
        """Listens, on the same port as before if there was one."""
        listener = socket.socket()
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind(("127.0.0.1", self.port))
        listener.listen(1024)
        self.port = listener.getsockname()[1]
        self.listener = listener
        threading.Thread(target=self.accept, args=(listener,), daemon=True).start()

    def unplug(self):
        """Refuses connections and ends the open ones, until it listens again."""
        if self.listener is not None:
            # A close alone does not wake a thread that is waiting in accept.
            self.listener.shutdown(socket.SHUT_RDWR)
            self.listener.close()
            self.listener = None
        with self.changed:
            connections = list(self.connections)
        for connection in connections:
            try:
                connection.shutdown(socket.SHUT_RDWR)
            except OSError:
                pass

    def close(self):
        self.closing.set()
        self.unplug()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def url(self, path="/push"):
        return f"{'https' if self.tls else 'http'}://127.0.0.1:{self.port}{path}"

    # Being told what to answer, and telling what came.

    def on(self, path, *answers):
        """What the next requests to this path get; the last answer is repeated."""
        with self.changed:
            self.scripts[path] = list(answers)

    def at(self, path="/push"):
        """What has come to this path, in order of arrival."""
        with self.changed:
            return [one for one in self.requests if one.path == path]

    def wait(self, count, path="/push", seconds=WAIT_SECONDS):
        """The requests to this path as soon as there are that many."""
        self.wait_until(lambda: len(self.at(path)) >= count, seconds, f"{count} at {path}")
        return self.at(path)

    def wait_until(self, condition, seconds=WAIT_SECONDS, what="it"):
        """Waits for a change after which the condition holds."""
        with self.changed:
            done = self.changed.wait_for(condition, seconds)
            came = [f"{one.arrived:.3f} {one}" for one in self.requests[-20:]]
        assert done, f"waited {seconds} s for {what}; {len(self.requests)} came, last {came}"

    def note_gone(self, request):
        with self.changed:
            if request.gone is None:
                request.gone = time.time()
                self.changed.notify_all()

    # Serving.

    def accept(self, listener):
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            # Here, and not in its thread: whoever came first is counted first.
            with self.changed:
                self.connections.add(connection)
                self.connected += 1
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        raw = connection
        try:
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self.tls:
                connection = self.tls.wrap_socket(connection, server_side=True)
            reader = connection.makefile("rb")
            while not self.closing.is_set() and self.exchange(connection, reader):
                pass
        except (OSError, ValueError):
            # The sender ended the connection, or did not speak HTTP.
            pass
        finally:
            with self.changed:
                self.connections.discard(raw)
                self.changed.notify_all()
            connection.close()

    def exchange(self, connection, reader):
        """One request and its answer; whether the connection may go on."""
        if reader.peek(1)[:1] == TLS_FIRST_BYTE:
            connection.sendall(b"HTTP/1.1 400 Bad Request\r\n\r\n")
            return False
        request = read_request(reader)
        if request is None:
            return False
        with self.changed:
            script = self.scripts.get(request.path) or [200]
            answer = script.pop(0) if len(script) > 1 else script[0]
            self.requests.append(request)
            self.changed.notify_all()
        if isinstance(answer, int):
            answer = status(answer)
        return answer(Exchange(self, connection, request))


def status(code, body=b"", headers=None):
    """An ordinary answer."""
    body = body if isinstance(body, bytes) else body.encode()
    fields = "".join(f"{name}: {value}\r\n" for name, value in (headers or {}).items())
    bodiless = code == 204 or code == 304
    length = "" if bodiless else f"content-length: {len(body)}\r\n"
    raw = f"HTTP/1.1 {code} Whatever\r\n{fields}{length}\r\n".encode()
    return lambda exchange: exchange.send(raw + (b"" if bodiless else body))


def read_request(reader):
    """The next request of a connection; None at its end."""
    line = reader.readline(HEAD_BYTES_MAX)
    if not line.strip():
        return None
    method, path, version = line.decode("latin-1").split()
    if not version.startswith("HTTP/1."):
        raise ValueError(version)
    fields = []
    while (line := reader.readline(HEAD_BYTES_MAX)).strip():
        name, value = line.decode("latin-1").split(":", 1)
        fields.append((name, value.strip()))
    named = {name.lower(): value for name, value in fields}
    if named.get("transfer-encoding", "").lower() == "chunked":
        body = read_chunks(reader)
    else:
        body = reader.read(int(named.get("content-length", 0)))
    return Request(method, path, fields, body)


def read_chunks(reader):
    body = b""
    while size := int(reader.readline().split(b";")[0], 16):
        body += reader.read(size)
        reader.readline()
    while reader.readline().strip():
        pass
    return body


def overlap_max(requests):
    """How many of these requests waited for their answer at the same time."""
    now = time.time()
    moments = []
    for one in requests:
        ended = one.answered or one.gone or now
        moments += [(one.arrived, 1), (ended, -1)]
    # At the same moment an end counts before a beginning.
    moments.sort(key=lambda moment: (moment[0], moment[1]))
    running = most = 0
    for _, step in moments:
        running += step
        most = max(most, running)
    return most
