"""The authorizer over gRPC: envoy.service.auth.v3.Authorization/Check.

The messages are declared here with the fields that are used, under Envoy's numbers (api/envoy/service/auth/v3);
protobuf passes over all others. They live in a pool of their own, beside whatever Envoy types a program may have.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import grpc
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from worklease.errors import FencingError
from worklease.fencing.authorizer.checker import Checker
from worklease.fencing.http import CONTENT_TYPE, problem
from worklease.fencing.token import Token

SERVICE: Final = "envoy.service.auth.v3.Authorization"
PERMISSION_DENIED: Final = 7  # google.rpc.Code

_PACKAGE: Final = "worklease.ext_authz"
_MESSAGES: Final[dict[str, dict[str, tuple[int, str]]]] = {
    "CheckRequest": {"attributes": (1, "AttributeContext")},
    "AttributeContext": {"request": (4, "Request")},
    "Request": {"http": (2, "HttpRequest")},
    "HttpRequest": {"headers": (3, "repeated HeadersEntry"), "header_map": (13, "HeaderMap")},
    "HeadersEntry": {"key": (1, "string"), "value": (2, "string")},
    "HeaderMap": {"headers": (1, "repeated HeaderValue")},
    "HeaderValue": {"key": (1, "string"), "value": (2, "string"), "raw_value": (3, "bytes")},
    "CheckResponse": {
        "status": (1, "Status"),
        "denied_response": (2, "DeniedHttpResponse"),
        "ok_response": (3, "OkHttpResponse"),
    },
    "Status": {"code": (1, "int32"), "message": (2, "string")},
    "DeniedHttpResponse": {
        "status": (1, "HttpStatus"),
        "headers": (2, "repeated HeaderValueOption"),
        "body": (3, "string"),
    },
    "OkHttpResponse": {},
    "HttpStatus": {"code": (1, "int32")},
    "HeaderValueOption": {"header": (1, "HeaderValue")},
}


def _declare() -> dict[str, Any]:
    field = descriptor_pb2.FieldDescriptorProto
    scalars = {"string": field.TYPE_STRING, "bytes": field.TYPE_BYTES, "int32": field.TYPE_INT32}
    file = descriptor_pb2.FileDescriptorProto(name="worklease/ext_authz.proto", package=_PACKAGE, syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field_name, (number, kind) in fields.items():
            repeated = kind.startswith("repeated ")
            kind = kind.removeprefix("repeated ")
            added = message.field.add(
                name=field_name, number=number, label=field.LABEL_REPEATED if repeated else field.LABEL_OPTIONAL
            )
            if kind in scalars:
                added.type = scalars[kind]
            else:
                added.type, added.type_name = field.TYPE_MESSAGE, f".{_PACKAGE}.{kind}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")) for name in _MESSAGES
    }


messages: Final = _declare()
_ALLOWED: Final[bytes] = messages["CheckResponse"](status={"code": 0}, ok_response={}).SerializeToString()


def handler(checker: Checker) -> grpc.GenericRpcHandler:
    """What a grpc.aio server serves."""

    async def check(request: Any, context: Any) -> bytes:
        try:
            await checker.check(Token.from_headers(_headers(request.attributes.request.http)))
        except FencingError as error:
            return _denied(error)
        return _ALLOWED

    return grpc.method_handlers_generic_handler(
        SERVICE,
        {"Check": grpc.unary_unary_rpc_method_handler(check, request_deserializer=messages["CheckRequest"].FromString)},
    )


def _headers(http: Any) -> Iterator[tuple[str, str | bytes]]:
    """The request's headers. Envoy joins repeated ones with commas, unless it was told to send them raw."""
    for entry in http.headers:
        yield entry.key, entry.value
    for header in http.header_map.headers:
        yield header.key, header.raw_value or header.value


def _denied(error: FencingError) -> bytes:
    status, body = problem(error)
    response = messages["CheckResponse"](
        status={"code": PERMISSION_DENIED, "message": type(error).__name__},
        denied_response={
            "status": {"code": status},
            "headers": [{"header": {"key": "content-type", "value": CONTENT_TYPE}}],
            "body": body.decode(),
        },
    )
    serialized: bytes = response.SerializeToString()
    return serialized
