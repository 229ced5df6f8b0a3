"""The client under test, a log of what it sends and receives, and checks that scenarios share."""

import asyncio
import sys
import uuid

import grpc
import httpx
from a2a.client import A2ACardResolver, ClientCallContext, ClientConfig, ClientFactory
from a2a.types import a2a_pb2 as pb
from a2a.utils import errors
from google.protobuf import json_format

WIRE, SERVER, ADMIN, BRISK, MUTE = sys.argv[1:]
IS_GRPC = WIRE == "GRPC"
COMPLETED = pb.TASK_STATE_COMPLETED
WORKING = pb.TASK_STATE_WORKING

# Everything sent and received since the scenario began.
log = []


def note(what, value):
    text = json_format.MessageToJson(value, indent=None) if hasattr(value, "DESCRIPTOR") else str(value)
    log.append(f"{what}: {text if len(text) < 3000 else text[:3000] + ' ...'}")


class Wiretap(httpx.AsyncHTTPTransport):
    """Logs each HTTP request and answer, and counts the comments of event streams."""

    def __init__(self):
        super().__init__()
        self.headers = httpx.Headers()
        self.ids = []
        self.comments = 0

    async def handle_async_request(self, request):
        note("request", f"{request.method} {request.url} {dict(request.headers)} {request.content[:2000]}")
        response = await super().handle_async_request(request)
        note("response", f"{response.status_code} {dict(response.headers)}")
        self.headers = response.headers
        response.stream = self.Stream(self, response.stream)
        return response

    class Stream(httpx.AsyncByteStream):
        def __init__(self, tap, inner):
            self.tap, self.inner = tap, inner

        async def __aiter__(self):
            async for chunk in self.inner:
                note("bytes", chunk)
                for line in chunk.split(b"\n"):
                    self.tap.comments += line.startswith(b":")
                    if line.startswith(b"id:"):
                        self.tap.ids.append(line[3:].strip().decode())
                yield chunk

        async def aclose(self):
            await self.inner.aclose()


def config(**settings):
    settings.setdefault("grpc_channel_factory", lambda url: grpc.aio.insecure_channel(url))
    return ClientConfig(supported_protocol_bindings=[WIRE], **settings)


class Peer:
    """The client of one agent, in both modes. It finds the agent with the client's own resolver."""

    def __init__(self, url=SERVER, **settings):
        self.url, self.settings = url, settings

    async def __aenter__(self):
        self.tap = Wiretap()
        self.http = self.settings.pop("httpx_client", None) or httpx.AsyncClient(transport=self.tap)
        self.card = self.settings.pop("card", None) or await A2ACardResolver(self.http, self.url).get_agent_card()
        make = lambda streaming: ClientFactory(
            config(httpx_client=self.http, streaming=streaming, **self.settings)
        ).create(self.card)
        self.client, self.plain = make(True), make(False)
        return self

    async def __aexit__(self, *_):
        await self.client.close()
        await self.plain.close()
        await self.http.aclose()

    async def stream(self, *parts, context=None, **fields):
        request = ask_for(*parts, **fields)
        note("stream", request)
        async for event in self.client.send_message(request, context=context):
            note("event", event)
            yield event

    async def send(self, *parts, context=None, **fields):
        request = ask_for(*parts, **fields)
        note("send", request)
        answers = [event async for event in self.plain.send_message(request, context=context)]
        [answer] = answers
        note("answer", answer)
        return answer

    async def send_for_task(self, *parts, **fields):
        answer = await self.send(*parts, **fields)
        assert answer.HasField("task"), "expected a task"
        return answer.task

    async def subscribe(self, task, context=None):
        note("subscribe", task)
        async for event in self.client.subscribe(pb.SubscribeToTaskRequest(id=task), context=context):
            note("event", event)
            yield event

    async def get(self, task, **fields):
        got = await self.client.get_task(pb.GetTaskRequest(id=task, **fields))
        note("got", got)
        return got

    async def cancel(self, task):
        got = await self.client.cancel_task(pb.CancelTaskRequest(id=task))
        note("canceled", got)
        return got

    async def list(self, **fields):
        got = await self.client.list_tasks(pb.ListTasksRequest(**fields))
        note("list", got)
        return got

    async def until(self, task, state):
        """Polls until the task has the state."""
        for _ in range(400):
            got = await self.get(task)
            if got.status.state == state:
                return got
            await asyncio.sleep(0.05)
        raise AssertionError(f"it never got {pb.TaskState.Name(state)}")


def ask_for(*parts, task="", context_id="", message_id=None, metadata=None, **configuration):
    parts = [pb.Part(text=part) if isinstance(part, str) else part for part in parts]
    message = pb.Message(
        message_id=str(uuid.uuid4()) if message_id is None else message_id,
        role=pb.ROLE_USER,
        parts=parts,
        task_id=task,
        context_id=context_id,
    )
    if metadata:
        message.metadata.update(metadata)
    return pb.SendMessageRequest(message=message, configuration=pb.SendMessageConfiguration(**configuration))


def service(**parameters):
    """Makes a call with extra headers or metadata."""
    return ClientCallContext(service_parameters=parameters)


async def refused(kind, call):
    """Returns the error of this type that the call must end with."""
    try:
        if hasattr(call, "__aiter__"):
            async for _ in call:
                pass
        else:
            await call
    except errors.A2AError as error:
        note("error", repr(error))
        assert type(error) is kind, f"expected {kind.__name__}, got {error!r}"
        assert error.message, "an error without a text"
        return error
    raise AssertionError(f"expected {kind.__name__}, and it went well")


async def all_of(stream):
    return [event async for event in stream]


def kind(event):
    return event.WhichOneof("payload")


def state_of(event):
    match kind(event):
        case "task":
            return event.task.status.state
        case "status_update":
            return event.status_update.status.state
    return None


def texts(artifacts):
    return "".join(part.text for artifact in artifacts for part in artifact.parts)


def pieces(events):
    return [event.artifact_update for event in events if kind(event) == "artifact_update"]


def equal(got, wanted):
    assert got == wanted, f"expected {wanted!r}, got {got!r}"
