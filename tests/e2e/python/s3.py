"""A small service with S3's API, for the tests: buckets in memory, and faults on demand.

What of Google's XML API is asked here is the same, but for the signature.
PUT of objects, uploads in parts, HEAD, GET and listing. An object is there when its PUT has come
whole or its parts were put together, and a listener can look at each at that moment.
"""

import random
import threading
import time
import urllib.parse
import uuid
import zlib
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PART_BYTES_MIN = 5 << 20


class S3:
    """Serves until it is closed. `faults` is the part of requests that fail or are slow."""

    def __init__(self, buckets=("bucket",), faults=0.0, seed=1, is_signed=True):
        self.objects = {bucket: {} for bucket in buckets}
        self.uploads = {}
        self.denied = set()
        self.faults = faults
        self.is_signed = is_signed
        self.random = random.Random(seed)
        self.lock = threading.Lock()
        self.failed = 0
        self.in_parts = 0
        service = self

        class Handler(Requests):
            s3 = service

        self.server = Service(("127.0.0.1", 0), Handler)
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    @property
    def url(self):
        return f"http://127.0.0.1:{self.server.server_address[1]}"

    def close(self):
        self.server.shutdown()
        self.server.server_close()

    def read(self, bucket):
        """All objects of a bucket, by name."""
        with self.lock:
            return dict(self.objects[bucket])

    def fault(self):
        """What is to go wrong with the next request: nothing, an error before or after it is
        done, or a slow answer."""
        with self.lock:
            # The first fails in any case, so that no run is without.
            is_first = self.faults > 0 and self.failed == 0
            if self.random.random() >= self.faults and not is_first:
                return None
            self.failed += 1
            return self.random.choice(["before", "after", "slow", "cut"])


class Service(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        """Whoever asked was killed, or is cut off on purpose: nothing to tell."""


class Requests(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    s3 = None

    def log_message(self, *_):
        pass

    def parse(self):
        path = urllib.parse.urlsplit(self.path)
        bucket, _, name = urllib.parse.unquote(path.path).lstrip("/").partition("/")
        query = dict(urllib.parse.parse_qsl(path.query, keep_blank_values=True))
        return bucket, name, query

    def answer(self, status, body=b"", **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def error(self, status, code):
        self.answer(status, f"<Error><Code>{code}</Code><Message>{code}</Message></Error>".encode())

    def handle_with(self, act):
        length = int(self.headers.get("Content-Length", 0))
        body = self.rfile.read(length)
        if len(body) < length:
            # Whoever sent it was killed: nothing of it counts.
            self.close_connection = True
            return
        bucket, name, query = self.parse()
        fault = self.s3.fault()
        if fault == "before":
            return self.error(500, "InternalError")
        if fault == "slow":
            time.sleep(0.3)
        if self.s3.is_signed and "Authorization" not in self.headers:
            return self.error(403, "AccessDenied")
        if bucket not in self.s3.objects:
            return self.error(404, "NoSuchBucket")
        if bucket in self.s3.denied:
            return self.error(403, "AccessDenied")
        reply = act(bucket, name, query, body)
        if fault == "after":
            return self.error(500, "InternalError")
        if fault == "cut":
            self.close_connection = True
            self.connection.close()
            return None
        status, body, headers = reply
        return self.answer(status, body, **headers)

    def do_PUT(self):
        self.handle_with(self.put)

    def do_POST(self):
        self.handle_with(self.post)

    def do_GET(self):
        self.handle_with(self.get)

    do_HEAD = do_GET

    def do_DELETE(self):
        self.handle_with(self.delete)

    def put(self, bucket, name, query, body):
        tag = f'"{zlib.crc32(body):08x}"'
        with self.s3.lock:
            if "uploadId" in query:
                parts = self.s3.uploads.get(query["uploadId"])
                if parts is None:
                    return 404, b"<Error><Code>NoSuchUpload</Code></Error>", {}
                parts[int(query["partNumber"])] = body
            else:
                self.s3.objects[bucket][name] = body
        return 200, b"", {"ETag": tag}

    def post(self, bucket, name, query, body):
        if "uploads" in query:
            upload = uuid.uuid4().hex
            with self.s3.lock:
                self.s3.uploads[upload] = {}
            text = (
                f"<InitiateMultipartUploadResult><Bucket>{bucket}</Bucket><Key>{name}</Key>"
                f"<UploadId>{upload}</UploadId></InitiateMultipartUploadResult>"
            )
            return 200, text.encode(), {}
        with self.s3.lock:
            parts = self.s3.uploads.pop(query["uploadId"], None)
            if parts is None and name not in self.s3.objects[bucket]:
                return 404, b"<Error><Code>NoSuchUpload</Code></Error>", {}
            if parts is not None:
                numbers = sorted(parts)
                assert all(len(parts[n]) >= PART_BYTES_MIN for n in numbers[:-1]), "small parts"
                self.s3.objects[bucket][name] = b"".join(parts[n] for n in numbers)
                self.s3.in_parts += 1
        text = (
            f"<CompleteMultipartUploadResult><Bucket>{bucket}</Bucket><Key>{name}</Key>"
            '<ETag>"whole"</ETag></CompleteMultipartUploadResult>'
        )
        return 200, text.encode(), {}

    def get(self, bucket, name, query, _):
        with self.s3.lock:
            if not name:
                keys = sorted(self.s3.objects[bucket])
                contents = "".join(f"<Contents><Key>{key}</Key></Contents>" for key in keys)
                return 200, f"<ListBucketResult>{contents}</ListBucketResult>".encode(), {}
            found = self.s3.objects[bucket].get(name)
        if found is None:
            return 404, b"<Error><Code>NoSuchKey</Code></Error>", {}
        return 200, found, {}

    def delete(self, bucket, name, query, _):
        with self.s3.lock:
            if "uploadId" in query:
                self.s3.uploads.pop(query["uploadId"], None)
            else:
                self.s3.objects[bucket].pop(name, None)
        return 204, b"", {}
