"""Writes the published schema from the A2A SDK as an encoded FileDescriptorSet with all imports."""

import sys

from a2a.types import a2a_pb2
from google.protobuf import descriptor_pb2


def add(file, files: dict) -> None:
    if file.name in files:
        return
    for dependency in file.dependencies:
        add(dependency, files)
    files[file.name] = file.serialized_pb


def main() -> None:
    files: dict = {}
    add(a2a_pb2.DESCRIPTOR, files)
    result = descriptor_pb2.FileDescriptorSet()
    for encoded in files.values():
        result.file.add().MergeFromString(encoded)
    sys.stdout.buffer.write(result.SerializeToString())


main()
