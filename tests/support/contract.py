"""specs/execd.yaml as tests use it: finds operations and checks real answers against them.

    contract = Contract.load()
    contract.check_answer("GET", "/ping", 200, headers, b"")   # raises Mismatch

The part of JSON Schema that the contract uses is checked; a keyword that is not known here is an error,
so that nothing in the contract is silently without effect.
"""
import json
import re
from pathlib import Path

import yaml

PATH = Path(__file__).resolve().parent.parent.parent / "specs/execd.yaml"
METHODS = ["get", "head", "post", "put", "patch", "delete", "options", "trace"]
# Said of every operation in the contract's introduction, and not repeated there.
COMMON = {(400, "INVALID_REQUEST"), (401, "UNAUTHORIZED"), (404, "NOT_FOUND"), (405, "METHOD_NOT_ALLOWED"),
          (408, "REQUEST_TIMEOUT"), (413, "REQUEST_TOO_LARGE"), (431, "HEADERS_TOO_LARGE"),
          (501, "NOT_IMPLEMENTED"), (505, "HTTP_VERSION_NOT_SUPPORTED"), (503, "RUNTIME_ERROR")}
TYPES = {"object": dict, "array": list, "string": str, "boolean": bool, "null": type(None)}
WITHOUT_EFFECT = {"description", "default", "example", "examples", "format", "title"}


class Mismatch(AssertionError):
    pass


def has_type(value, name):
    if name == "integer":
        return isinstance(value, int) and not isinstance(value, bool)
    if name == "number":
        return isinstance(value, (int, float)) and not isinstance(value, bool)
    return isinstance(value, TYPES[name])


class Contract:
    def __init__(self, document):
        self.document = document
        self.paths = document["paths"]

    @classmethod
    def load(cls):
        return cls(yaml.safe_load(PATH.read_text(encoding="utf-8")))

    def resolve(self, node):
        """The node itself, or what its $ref names."""
        while isinstance(node, dict) and "$ref" in node:
            target = self.document
            reference = node["$ref"]
            if not reference.startswith("#/"):
                raise Mismatch(f"{reference} leaves the document")
            for word in reference[2:].split("/"):
                if not isinstance(target, dict) or word not in target:
                    raise Mismatch(f"{reference} names nothing")
                target = target[word]
            node = target
        return node

    def operations(self):
        """(METHOD, template, operation) of all of them."""
        for template, item in self.paths.items():
            for method in METHODS:
                if method in item:
                    yield method.upper(), template, item[method]

    def find(self, method, path):
        """The template and operation that serve a request; literal segments win over parameters."""
        best = None
        for template in self.paths:
            pattern = re.sub(r"\{path\}", ".*", template)
            pattern = re.sub(r"\{\w+\}", "[^/]+", pattern)
            if re.fullmatch(pattern, path.split("?")[0]):
                if best is None or template.count("{") < best.count("{"):
                    best = template
        operation = self.paths.get(best, {}).get(method.lower()) if best else None
        return best, operation

    # --- values against schemas -------------------------------------------------------------------

    def validate(self, value, schema, where="value"):
        schema = self.resolve(schema)
        for keyword, wanted in schema.items():
            if keyword in WITHOUT_EFFECT or keyword.startswith("x-"):
                continue
            check = getattr(self, "_check_" + keyword, None)
            if check is None:
                raise Mismatch(f"{where}: the schema has {keyword!r}, which contract.py does not know")
            check(value, wanted, schema, where)

    def _check_type(self, value, wanted, _, where):
        names = wanted if isinstance(wanted, list) else [wanted]
        if not any(has_type(value, name) for name in names):
            raise Mismatch(f"{where} is {value!r}, not of type {wanted}")

    def _check_required(self, value, wanted, _, where):
        missing = [name for name in wanted if isinstance(value, dict) and name not in value]
        if missing:
            raise Mismatch(f"{where} lacks {missing}: {value!r}")

    def _check_properties(self, value, wanted, _, where):
        for name, schema in wanted.items():
            if isinstance(value, dict) and name in value:
                self.validate(value[name], schema, f"{where}.{name}")

    def _check_additionalProperties(self, value, wanted, schema, where):
        known = schema.get("properties", {})
        for name in value if isinstance(value, dict) else ():
            if name in known or wanted is True:
                continue
            if wanted is False:
                raise Mismatch(f"{where} has the unknown {name!r}: {value!r}")
            self.validate(value[name], wanted, f"{where}.{name}")

    def _check_items(self, value, wanted, _, where):
        for index, item in enumerate(value if isinstance(value, list) else ()):
            self.validate(item, wanted, f"{where}[{index}]")

    def _check_enum(self, value, wanted, _, where):
        if value not in wanted:
            raise Mismatch(f"{where} is {value!r}, none of {wanted}")

    def _check_oneOf(self, value, wanted, _, where):
        fits = 0
        for schema in wanted:
            try:
                self.validate(value, schema, where)
                fits += 1
            except Mismatch:
                pass
        if fits != 1:
            raise Mismatch(f"{where} fits {fits} of {len(wanted)} alternatives: {value!r}")

    def _check_minimum(self, value, wanted, _, where):
        if has_type(value, "number") and value < wanted:
            raise Mismatch(f"{where} is {value}, below {wanted}")

    def _check_maximum(self, value, wanted, _, where):
        if has_type(value, "number") and value > wanted:
            raise Mismatch(f"{where} is {value}, above {wanted}")

    def _check_pattern(self, value, wanted, _, where):
        if isinstance(value, str) and not re.search(wanted, value):
            raise Mismatch(f"{where} is {value!r}, which does not match {wanted}")

    def _length(self, value, least, most, kind, where):
        if isinstance(value, kind) and not least <= len(value) <= most:
            raise Mismatch(f"{where} has length {len(value)}, not {least} to {most}")

    def _check_minLength(self, value, wanted, _, where):
        self._length(value, wanted, len(value) if isinstance(value, str) else 0, str, where)

    def _check_maxLength(self, value, wanted, _, where):
        self._length(value, 0, wanted, str, where)

    def _check_minItems(self, value, wanted, _, where):
        self._length(value, wanted, len(value) if isinstance(value, list) else 0, list, where)

    def _check_maxItems(self, value, wanted, _, where):
        self._length(value, 0, wanted, list, where)

    def _check_maxProperties(self, value, wanted, _, where):
        self._length(value, 0, wanted, dict, where)

    # --- answers ----------------------------------------------------------------------------------

    def check_answer(self, method, path, status, headers, body):
        """A real answer against the operation that serves this request."""
        template, operation = self.find(method, path)
        if operation is None:
            raise Mismatch(f"{method} {path} is not in the contract")
        where = f"{method} {template} {status}"
        responses = operation["responses"]
        if str(status) not in responses and "default" in responses:
            return  # what somebody else answered
        if status >= 400:
            self.check_error(operation, status, body, where)
            if (status, json.loads(body)["code"]) in COMMON:
                return
        if str(status) not in responses:
            raise Mismatch(f"{where} is not documented: {body[:300]!r}")
        response = self.resolve(responses[str(status)])
        self._check_headers(response, headers, where)
        self._check_body(response, headers, body, where)

    def check_error(self, operation, status, body, where):
        try:
            error = json.loads(body)
        except ValueError:
            raise Mismatch(f"{where}: the error is not JSON: {body[:300]!r}") from None
        self.validate(error, {"$ref": "#/components/schemas/Error"}, where)
        codes = operation.get("x-opensandbox-errors", {}).get(str(status), [])
        if error["code"] not in codes and (status, error["code"]) not in COMMON:
            raise Mismatch(f"{where}: {error['code']} is not documented there ({error['message']})")

    def _check_headers(self, response, headers, where):
        for name, header in response.get("headers", {}).items():
            header = self.resolve(header)
            text = headers.get(name)
            if text is None:
                if header.get("required"):
                    raise Mismatch(f"{where} lacks the header {name}")
                continue
            kind = self.resolve(header["schema"]).get("type")
            value = int(text) if kind == "integer" and re.fullmatch(r"-?\d+", text) else text
            self.validate(value, header["schema"], f"{where}, header {name}")

    def _check_body(self, response, headers, body, where):
        content = response.get("content", {})
        if not content:
            if body:
                raise Mismatch(f"{where} has a body: {body[:300]!r}")
            return
        media = headers.get("Content-Type", "").split(";")[0].strip()
        if media not in content:
            raise Mismatch(f"{where} is {media!r}, not one of {list(content)}")
        schema = content[media]["schema"]
        if media == "application/json":
            self.validate(json.loads(body), schema, where)
        elif media == "text/event-stream":
            text = body.decode("utf-8")
            if not text.endswith("\n\n"):
                raise Mismatch(f"{where} does not end with an empty line: {text[-80:]!r}")
            for line in text[:-2].split("\n\n"):
                self.validate(json.loads(line), schema, where)
