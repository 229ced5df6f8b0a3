"""Reads an OpenRPC document and checks it, including references, against the schema of OpenRPC 1.3."""

import json
import pathlib
import subprocess
import sys

from jsonschema import Draft7Validator
from referencing import Registry
from referencing.jsonschema import DRAFT7

MODULE = pathlib.Path(__file__).parents[2] / "target/node/node_modules/@open-rpc/meta-schema"


def main() -> int:
    document = json.load(sys.stdin)
    # The package has its schema only as a script.
    print_schema = f"JSON.stringify(require({json.dumps(str(MODULE))}).openrpcDocument)"
    schema = json.loads(subprocess.run(["node", "-p", print_schema], check=True, capture_output=True).stdout)
    # Its references to JSON Schema draft 7 use their own names.
    draft7 = {key: value for key, value in Draft7Validator.META_SCHEMA.items() if key != "$id"}
    own = {"JSONSchemaObject": {"properties": {"$ref": draft7["properties"]["$ref"]}}}
    draft7["definitions"] = {**draft7["definitions"], **own}
    names = ["https://meta.json-schema.tools/", "https://meta.json-schema.tools"]
    registry = Registry().with_resources([(name, DRAFT7.create_resource(draft7)) for name in names])
    validator = Draft7Validator(schema, registry=registry)
    wrong = [f"{error.json_path}: {error.message[:300]}" for error in validator.iter_errors(document)]
    wrong += [f"{reference} leads nowhere" for reference in references(document) if not found(document, reference)]
    for name, part in document["components"]["schemas"].items():
        Draft7Validator.check_schema(part)
    if wrong:
        print("\n".join(wrong), file=sys.stderr)
        return 1
    print(f"valid, with {len(document['methods'])} methods")
    return 0


def references(part):
    if isinstance(part, dict):
        if isinstance(part.get("$ref"), str):
            yield part["$ref"]
        for value in part.values():
            yield from references(value)
    elif isinstance(part, list):
        for value in part:
            yield from references(value)


def found(document, reference) -> bool:
    for name in reference.removeprefix("#/").split("/"):
        if name not in document:
            return False
        document = document[name]
    return True


sys.exit(main())
