"""A host that takes every connection and never says a word, on as many addresses as wanted."""

import resource
import selectors
import socket
import threading


class Silent:
    """Accepts on all of 127.0.0.0/8 and keeps what it accepts; reads and answers nothing."""

    def __init__(self):
        soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        self.listener = socket.socket()
        self.listener.bind(("0.0.0.0", 0))
        self.listener.listen(4096)
        self.listener.setblocking(False)
        self.port = self.listener.getsockname()[1]
        self.accepted = []
        self.closing = threading.Event()
        self.thread = threading.Thread(target=self.accept, daemon=True)
        self.thread.start()

    def accept(self):
        with selectors.DefaultSelector() as selector:
            selector.register(self.listener, selectors.EVENT_READ)
            while not self.closing.is_set():
                if not selector.select(timeout=0.1):
                    continue
                try:
                    self.accepted.append(self.listener.accept()[0])
                except OSError:
                    continue

    def url(self, number):
        """A different address, and so a different endpoint and host, for each number."""
        return f"http://127.1.{number // 250}.{number % 250 + 1}:{self.port}/silent"

    def close(self):
        self.closing.set()
        self.thread.join()
        for one in [self.listener, *self.accepted]:
            one.close()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()
