"""Reads Avro files, as far as the tests need: no codec, and the types of the schemas they use."""

import json
import struct


def read_file(data):
    """The schema of a file and all its records. A file that is not whole is an error."""
    reader = Reader(data)
    assert reader.take(4) == b"Obj\x01"
    meta = reader.value({"type": "map", "values": "bytes"})
    assert meta["avro.codec"] == b"null"
    schema = json.loads(meta["avro.schema"])
    sync = reader.take(16)
    records = []
    while reader.at < len(data):
        count, length = reader.long(), reader.long()
        end = reader.at + length
        records += [reader.value(schema) for _ in range(count)]
        assert reader.at == end, "a block that does not end where it says"
        assert reader.take(16) == sync
    return schema, records


class Reader:
    def __init__(self, data):
        self.data = data
        self.at = 0

    def take(self, count):
        taken = self.data[self.at : self.at + count]
        assert len(taken) == count, "the file ends in the middle"
        self.at += count
        return taken

    def long(self):
        value, shift = 0, 0
        while True:
            byte = self.take(1)[0]
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return (value >> 1) ^ -(value & 1)

    def value(self, schema):
        kind = schema["type"] if isinstance(schema, dict) else schema
        match kind:
            case "null":
                return None
            case "boolean":
                return self.take(1) == b"\x01"
            case "int" | "long":
                return self.long()
            case "double":
                return struct.unpack("<d", self.take(8))[0]
            case "bytes":
                return self.take(self.long())
            case "string":
                return self.take(self.long()).decode()
            case "map":
                pairs = {}
                while count := self.long():
                    for _ in range(count):
                        key = self.value("string")
                        pairs[key] = self.value(schema["values"])
                return pairs
            case "record":
                return {field["name"]: self.value(field["type"]) for field in schema["fields"]}
        raise AssertionError(f"a type the tests do not use: {schema}")
