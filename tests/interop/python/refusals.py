"""Scenarios: a refused call raises the client's own typed errors."""

import uuid

import grpc
from a2a.client import ClientCallContext
from a2a.client.service_parameters import ServiceParametersFactory, with_a2a_extensions
from a2a.types import a2a_pb2 as pb
from a2a.utils import errors

from python.peer import COMPLETED, IS_GRPC, SERVER, Peer, all_of, equal, log, refused, service, state_of


class Rewrite(grpc.aio.UnaryUnaryClientInterceptor):
    """Sends another protocol version than the client's own."""

    async def intercept_unary_unary(self, continuation, details, request):
        metadata = [(key, "99.0" if key == "a2a-version" else value) for key, value in details.metadata]
        return await continuation(details._replace(metadata=grpc.aio.Metadata(*metadata)), request)


EXTENSION = "https://example.com/extensions/strict"


async def task_not_found(peer):
    none = str(uuid.uuid4())
    await refused(errors.TaskNotFoundError, peer.get(none))
    await refused(errors.TaskNotFoundError, peer.cancel(none))
    await refused(errors.TaskNotFoundError, peer.subscribe(none))
    before = (await peer.list(page_size=1)).total_size
    await refused(errors.TaskNotFoundError, peer.send("echo hi", task=none))
    await refused(errors.TaskNotFoundError, peer.stream("echo hi", task=none))
    equal((await peer.list(page_size=1)).total_size, before)


async def unsupported_operation(peer):
    task = await peer.send_for_task("echo hi")
    await refused(errors.UnsupportedOperationError, peer.send("echo again", task=task.id))
    await refused(errors.UnsupportedOperationError, peer.stream("echo again", task=task.id))
    equal(await peer.get(task.id), task)


async def version_not_supported(peer):
    if IS_GRPC:
        channel = lambda url: grpc.aio.insecure_channel(url, interceptors=[Rewrite()])
        async with Peer(grpc_channel_factory=channel) as other:
            error = await refused(errors.VersionNotSupportedError, other.send("echo hi"))
    else:
        context = service(**{"A2A-Version": "99.0"})
        error = await refused(errors.VersionNotSupportedError, peer.send("echo hi", context=context))
        await refused(errors.VersionNotSupportedError, peer.stream("echo hi", context=context))
        # No version means 0.3, which is not supported. The message says what to send.
        none = service(**{"A2A-Version": ""})
        unnamed = await refused(errors.VersionNotSupportedError, peer.send("echo hi", context=none))
        assert "a2a-version" in unnamed.message.lower(), unnamed.message
        equal((await peer.send("echo hi", context=service(**{"A2A-Version": "1.0.7"}))).task.status.state, COMPLETED)
    assert "1.0" in error.message, error.message


async def content_type_not_supported(peer):
    picture = pb.Part(raw=b"\x89PNG", media_type="image/png")
    await refused(errors.ContentTypeNotSupportedError, peer.send("echo hi", picture))
    await refused(errors.ContentTypeNotSupportedError, peer.stream("echo hi", picture))


async def invalid_params(peer):
    wrong = [
        (dict(parts=["echo hi"], message_id=""), "message.messageId"),
        (dict(parts=[]), "message.parts"),
        (dict(parts=["echo hi", pb.Part(media_type="text/plain")]), "message.parts[1]"),
    ]
    for fields, path in wrong:
        parts = fields.pop("parts")
        for call in [peer.send, peer.stream]:
            error = await refused(errors.InvalidParamsError, call(*parts, **fields))
            if IS_GRPC:
                fields_named = [violation["field"] for violation in error.data["errors"]]
                assert any(field.startswith(path) for field in fields_named), fields_named
            else:
                # Over HTTP the client keeps only the first detail, so its text must name the field.
                assert path in error.message, error.message
            log.clear()


async def extensions(peer):
    async with Peer(f"{SERVER}/strict") as strict:
        equal([e.uri for e in strict.card.capabilities.extensions if e.required], [EXTENSION])
        await refused(errors.ExtensionSupportRequiredError, strict.send("echo hi"))
        await refused(errors.ExtensionSupportRequiredError, strict.stream("echo hi"))
        named = ServiceParametersFactory.create([with_a2a_extensions(["https://example.com/none", EXTENSION])])
        context = ClientCallContext(service_parameters=named)
        equal((await strict.send("echo hi", context=context)).task.status.state, COMPLETED)
        if not IS_GRPC:
            equal(strict.tap.headers.get("a2a-extensions"), EXTENSION)
        equal(state_of((await all_of(strict.stream("echo hi", context=context)))[-1]), COMPLETED)
