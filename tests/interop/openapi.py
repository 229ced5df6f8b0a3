"""Reads an OpenAPI document from the first line, then lines of `schema<TAB>JSON`. Checks that the document is valid OpenAPI 3.1
and that each JSON matches the document's schema with that name."""

import json
import sys

from jsonschema import Draft202012Validator
from openapi_spec_validator import OpenAPIV31SpecValidator


def main() -> int:
    document = json.loads(sys.stdin.readline())
    OpenAPIV31SpecValidator(document).validate()
    validators: dict = {}
    count = wrong = 0
    for line in sys.stdin:
        name, text = line.rstrip("\n").split("\t", 1)
        if name not in validators:
            schema = {"$ref": f"#/components/schemas/{name}", "components": document["components"]}
            # The server prints nothing that is not in the document, so an unknown property is a mistake.
            validators[name] = Draft202012Validator(closed(schema))
        for error in validators[name].iter_errors(json.loads(text)):
            print(f"{name}: {error.json_path}: {error.message[:300]}", file=sys.stderr)
            wrong += 1
        count += 1
    if wrong:
        return 1
    print(f"valid, and {count} messages")
    return 0


def closed(schema):
    """Returns the schema with objects that allow only the listed properties."""
    if isinstance(schema, list):
        return [closed(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    result = {key: closed(value) for key, value in schema.items()}
    if result.get("type") == "object" and isinstance(result.get("properties"), dict):
        result.setdefault("additionalProperties", False)
    return result


sys.exit(main())
