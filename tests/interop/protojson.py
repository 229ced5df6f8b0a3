"""Reads lines of `message<TAB>protobuf in base64<TAB>JSON`, checks that Google's JSON library reads the JSON as that
message, and prints the message as that library writes it, one line each."""

import base64
import sys

from a2a.types import a2a_pb2
from google.protobuf import json_format


def main() -> int:
    wrong = 0
    for line in sys.stdin.buffer:
        name, protobuf, text = line.decode().rstrip("\n").split("\t", 2)
        kind = getattr(a2a_pb2, name)
        message = kind.FromString(base64.b64decode(protobuf))
        try:
            read = json_format.Parse(text, kind(), ignore_unknown_fields=False)
        except json_format.ParseError as error:
            print(f"{name}: {error}: {text}", file=sys.stderr)
            wrong += 1
            continue
        if read != message:
            print(f"{name}: {text}\nread as {read}\nsent as {message}", file=sys.stderr)
            wrong += 1
        print(json_format.MessageToJson(message, indent=None))
    return 1 if wrong else 0


sys.exit(main())
