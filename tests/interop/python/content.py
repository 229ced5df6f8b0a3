"""Scenarios: parts of every kind and size are returned as they were sent."""

import uuid

from a2a.types import a2a_pb2 as pb
from google.protobuf import json_format, struct_pb2

from python.peer import all_of, equal, pieces, texts


def value_of(plain):
    value = struct_pb2.Value()
    json_format.ParseDict(plain, value)
    return value


async def parts_of_every_kind(peer):
    numbers = {"n": 3, "neg": -1, "big": 1700000000000, "f": 1.5, "z": 0}
    data = {**numbers, "no": None, "e": {}, "l": [], "in": {"a": [None, {"b": [[]]}]}}
    parts = [
        pb.Part(text="echo hi"),
        pb.Part(raw=bytes(range(256)), filename="all.bin", media_type="application/octet-stream"),
        pb.Part(url="https://example.com/a?b=c#d", filename="a", media_type="text/plain"),
        pb.Part(data=value_of(data)),
        pb.Part(text="", media_type="text/plain"),
    ]
    parts[1].metadata.update({"deep": {"er": [1, "two", None]}})
    task = await peer.send_for_task(*parts)
    equal(list(task.history[0].parts), parts)
    equal(list((await peer.get(task.id)).history[0].parts), parts)


async def data_of_every_kind(peer):
    nested = [{"n": 3, "no": None, "e": {}, "l": [], "z": 0}, [1, None, "x", [[]]]]
    for plain in [*nested, 5, -0.5, "s", "", None, True, False, {}, []]:
        value = value_of(plain)
        task = await peer.send_for_task("data", pb.Part(data=value))
        equal(task.artifacts[0].parts[0].data, value)
        events = await all_of(peer.stream("data", pb.Part(data=value)))
        equal(pieces(events)[0].artifact.parts[0].data, value)
        equal((await peer.get(task.id)).artifacts[0].parts[0].data, value)


async def artifacts_of_every_kind(peer):
    file = {"filename": "output.txt", "media_type": "text/plain"}
    wanted = {
        "tck-artifact-text": pb.Part(text="Generated text content"),
        "tck-artifact-file": pb.Part(raw=b"tck", **file),
        "tck-artifact-file-url": pb.Part(url="https://example.com/output.txt", **file),
        "tck-artifact-data": pb.Part(data=value_of({"key": "value", "count": 42})),
    }
    for verb, part in wanted.items():
        task = await peer.send_for_task("go", message_id=f"{verb}-{uuid.uuid4()}")
        equal([list(artifact.parts) for artifact in task.artifacts], [[part]])


async def large_messages(peer):
    line = "0123456789abcdef" * 12_800
    equal(len(line), 204_800)
    task = await peer.send_for_task(f"echo {line}")
    equal(texts(task.artifacts), line)
    events = await all_of(peer.stream(f"echo {line}"))
    equal(texts(p.artifact for p in pieces(events)), line)
    for size in [48 << 10, 60_000, 200_000]:
        piece = ("é" + "x" * 97) * (size // 99 + 1)
        events = await all_of(peer.stream("chunks 3", piece))
        equal([texts([p.artifact]) for p in pieces(events)], [piece] * 3)


async def text_of_every_kind(peer):
    """The client's line reader treats more characters as line ends than an event stream has."""
    text = "a\r\nb\rc\nd\x0be\x0cf\x1cg\x1dh\x1ei\x85j\u2028k\u2029l\ufeff m\u0000n 🦀 é \\ \" </script> \x7f"
    task = await peer.send_for_task(f"echo {text}")
    equal(texts(task.artifacts), text)
    events = await all_of(peer.stream(f"echo {text}"))
    equal(texts(p.artifact for p in pieces(events)), text)
    equal(texts((await peer.get(task.id)).artifacts), text)
