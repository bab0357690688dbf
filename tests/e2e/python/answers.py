"""What a receiver may answer besides a plain status: late, half, never, endless, garbage."""

import threading

from receiver import status

GIB = 1024**3


def after(seconds, code=200, **fields):
    """An answer that comes so many seconds late."""
    return lambda exchange: exchange.wait(seconds=seconds) and status(code, **fields)(exchange)


class Gate:
    """Holds requests until it is opened; `hold` is the answer to give to a path."""

    def __init__(self, code=200, **fields):
        self.event = threading.Event()
        self.then = status(code, **fields)

    def open(self):
        self.event.set()

    def hold(self, exchange):
        return exchange.wait(self.event) and self.then(exchange)


def never(exchange):
    """No answer for as long as the sender waits."""
    exchange.wait()
    return False


def nothing(exchange):
    """The connection ends in place of an answer."""
    return False


def reset(exchange):
    """The connection is reset in place of an answer."""
    exchange.reset()
    return False


def raw(*parts):
    """These bytes, and the end of the connection."""

    def answer(exchange):
        for part in parts:
            exchange.send(part)
        return False

    return answer


def half_a_head(exchange):
    return raw(b"HTTP/1.1 200 OK\r\ncontent-le")(exchange)


def garbage(exchange):
    return raw(b"\x16\x03\x01\x00\xffthis is not HTTP\r\n\r\n")(exchange)


def half_a_body(code=200):
    """A hundred bytes announced, ten sent, then the end."""
    return raw(b"HTTP/1.1 %d Whatever\r\ncontent-length: 100\r\n\r\n0123456789" % code)


def stalled_body(code=200):
    """A body that begins and does not go on; the connection stays open."""

    def answer(exchange):
        exchange.send(b"HTTP/1.1 %d Whatever\r\ncontent-length: 100\r\n\r\n0123456789" % code)
        exchange.wait()
        return False

    return answer


def head_only(code, after_it=b""):
    """Status line and headers that announce no body; the connection stays open."""

    def answer(exchange):
        exchange.send(b"HTTP/1.1 %d Whatever\r\n\r\n" % code + after_it)
        exchange.wait()
        return False

    return answer


def endless_body(code=200, counted=None):
    """A body of 1 GiB, made while it is sent; `counted` notes the bytes that were taken."""
    block = b"x" * 65536

    def answer(exchange):
        exchange.send(b"HTTP/1.1 %d Whatever\r\ncontent-length: %d\r\n\r\n" % (code, GIB))
        sent = 0
        while sent < GIB and not exchange.receiver.closing.is_set() and exchange.send(block):
            sent += len(block)
        if counted is not None:
            counted.append(sent)
        return False

    return answer


def trickling_body(code=200):
    """A chunked body of which a byte comes every 50 ms, without an end."""

    def answer(exchange):
        exchange.send(b"HTTP/1.1 %d Whatever\r\ntransfer-encoding: chunked\r\n\r\n" % code)
        while exchange.send(b"1\r\nx\r\n") and exchange.wait(seconds=0.05):
            pass
        return False

    return answer


def interim(*codes, then=200):
    """1xx answers before the real one."""
    before = b"".join(b"HTTP/1.1 %d Whatever\r\n\r\n" % code for code in codes)
    return lambda exchange: exchange.send(before) and status(then)(exchange)
