"""The official Python client, as its registry gives it, against a server of ours: one wire, a list of scenarios.

    python_client.py WIRE SERVER ADMIN BRISK MUTE

WIRE is JSONRPC, HTTP+JSON or GRPC. SERVER has the agents `kit` (conformance, the default one), `other` (echo) and `strict`
(conformance, requires an extension); ADMIN is its operators' port. BRISK and MUTE are servers with `kit` alone: the one
pings after 300 ms of silence, the other never. A line `ok NAME` is written for each scenario that passes; the first
that fails ends the run, with what was sent and received."""

import asyncio
import base64
import json
import sys
import traceback
import uuid
from urllib.parse import urlsplit

import grpc
import httpx
from a2a.client import A2ACardResolver, ClientCallContext, ClientConfig, ClientFactory, create_client
from a2a.client.errors import A2AClientError, A2AClientTimeoutError
from a2a.client.service_parameters import ServiceParametersFactory, with_a2a_extensions
from a2a.types import a2a_pb2 as pb
from a2a.utils import errors
from google.protobuf import json_format, struct_pb2

WIRE, SERVER, ADMIN, BRISK, MUTE = sys.argv[1:]
IS_GRPC = WIRE == "GRPC"
EXTENSION = "https://example.com/extensions/strict"

COMPLETED = pb.TASK_STATE_COMPLETED
WORKING = pb.TASK_STATE_WORKING

# What was sent and received since the scenario began.
log = []


def note(what, value):
    text = json_format.MessageToJson(value, indent=None) if hasattr(value, "DESCRIPTOR") else str(value)
    log.append(f"{what}: {text if len(text) < 3000 else text[:3000] + ' ...'}")


class Wiretap(httpx.AsyncHTTPTransport):
    """Notes each HTTP request and answer, and counts the comments of event streams."""

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


class Rewrite(grpc.aio.UnaryUnaryClientInterceptor):
    """Sends another protocol version than the client's own."""

    async def intercept_unary_unary(self, continuation, details, request):
        metadata = [(key, "99.0" if key == "a2a-version" else value) for key, value in details.metadata]
        return await continuation(details._replace(metadata=grpc.aio.Metadata(*metadata)), request)


def config(**settings):
    settings.setdefault("grpc_channel_factory", lambda url: grpc.aio.insecure_channel(url))
    return ClientConfig(supported_protocol_bindings=[WIRE], **settings)


class Peer:
    """The client of one agent, in both its modes. It finds the agent by the client's own resolver."""

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
        """Asks until the task has the state."""
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
    """A call with headers, or metadata, of its own."""
    return ClientCallContext(service_parameters=parameters)


async def refused(kind, call):
    """The error of this kind that the call must end with."""
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


def value_of(plain):
    value = struct_pb2.Value()
    json_format.ParseDict(plain, value)
    return value


def equal(got, wanted):
    assert got == wanted, f"expected {wanted!r}, got {got!r}"


# The scenarios.


async def card_by_the_resolver():
    async with httpx.AsyncClient() as http:
        card = await A2ACardResolver(http, SERVER).get_agent_card()
        note("card", card)
        equal(card.name, "kit")
        equal(sorted(i.protocol_binding for i in card.supported_interfaces), ["GRPC", "HTTP+JSON", "JSONRPC"])
        equal({i.protocol_version for i in card.supported_interfaces}, {"1.0"})
        assert card.capabilities.streaming and card.skills and card.default_input_modes
        answer = await http.get(f"{SERVER}/.well-known/agent-card.json")
        # No key that the schema does not know.
        json_format.ParseDict(answer.json(), pb.AgentCard())
        again = await http.get(str(answer.url), headers={"If-None-Match": answer.headers["etag"]})
        equal(again.status_code, 304)


async def client_from_nothing_but_the_address():
    client = await create_client(SERVER, config())
    events = await all_of(client.send_message(ask_for("echo hi")))
    equal(state_of(events[-1]), COMPLETED)
    # It has no extended card, so the client gives the one that it has.
    equal((await client.get_extended_agent_card(pb.GetExtendedAgentCardRequest())).name, "kit")
    await client.close()


async def send(peer):
    task = await peer.send_for_task("echo hi", metadata={"note": "kept"})
    equal(task.status.state, COMPLETED)
    equal(texts(task.artifacts), "hi")
    assert task.id and task.context_id and task.status.HasField("timestamp")
    equal([m.role for m in task.history], [pb.ROLE_USER])
    equal(dict(task.history[0].metadata), {"note": "kept"})
    equal(await peer.get(task.id), task)


async def states_that_end_a_task(peer):
    for verb, state in [("fail", pb.TASK_STATE_FAILED), ("reject", pb.TASK_STATE_REJECTED), ("boom", pb.TASK_STATE_FAILED)]:
        task = await peer.send_for_task(verb)
        equal(task.status.state, state)
        assert task.status.message.parts[0].text
        equal(state_of((await all_of(peer.stream(verb)))[-1]), state)


async def stream(peer):
    events = await all_of(peer.stream("chunks 3"))
    equal(kind(events[0]), "task")
    task = events[0].task
    for event in events[1:]:
        inner = getattr(event, kind(event))
        equal((inner.task_id, inner.context_id), (task.id, task.context_id))
    equal([(p.append, p.last_chunk) for p in pieces(events)], [(False, False), (True, False), (True, True)])
    equal(state_of(events[-1]), COMPLETED)
    got = await peer.get(task.id)
    equal(len(got.artifacts), 1)
    equal(len(texts(got.artifacts)), 300)


async def follow_up_after_input_required(peer):
    asked = await peer.send_for_task("ask")
    equal(asked.status.state, pb.TASK_STATE_INPUT_REQUIRED)
    assert asked.status.message.parts[0].text
    answered = await peer.send_for_task("blue", task=asked.id)
    equal((answered.id, answered.context_id, answered.status.state), (asked.id, asked.context_id, COMPLETED))
    said = [m.parts[0].text for m in answered.history if m.role == pb.ROLE_USER]
    equal(said, ["ask", "blue"])


async def follow_up_in_streams(peer):
    events = await all_of(peer.stream("ask"))
    equal(state_of(events[-1]), pb.TASK_STATE_INPUT_REQUIRED)
    task = events[0].task
    events = await all_of(peer.stream("blue", task=task.id, context_id=task.context_id))
    equal(events[0].task.id, task.id)
    equal(state_of(events[-1]), COMPLETED)


async def a_context_holds_several_tasks(peer):
    context = f"ctx-{uuid.uuid4()}"
    tasks = [await peer.send_for_task(f"echo {n}", context_id=context) for n in range(3)]
    equal({task.context_id for task in tasks}, {context})
    listed = await peer.list(context_id=context)
    equal([t.id for t in listed.tasks], [t.id for t in reversed(tasks)])


async def list_tasks(peer):
    context = f"ctx-{uuid.uuid4()}"
    ids = [(await peer.send_for_task(f"echo {n}", context_id=context)).id for n in range(5)]
    seen, token = [], ""
    while True:
        page = await peer.list(context_id=context, page_size=2, page_token=token)
        equal((page.total_size, page.page_size), (5, 2))
        seen += [task.id for task in page.tasks]
        token = page.next_page_token
        if not token:
            break
    equal(seen, ids[::-1])
    bare, full = await peer.list(context_id=context), await peer.list(context_id=context, include_artifacts=True)
    assert not any(task.artifacts for task in bare.tasks)
    equal(texts(full.tasks[0].artifacts), "4")
    equal(len((await peer.list(context_id=context, status=pb.TASK_STATE_FAILED)).tasks), 0)
    equal(len((await peer.list(context_id=context, status=COMPLETED, history_length=0)).tasks[0].history), 0)
    # Inclusive: the third newest and what came later.
    since = bare.tasks[2].status.timestamp
    later = await peer.list(context_id=context, status_timestamp_after=since)
    assert ids[2:] == [task.id for task in reversed(later.tasks)][-3:], "the tasks from this time on"
    for wrong in [{"page_size": 101}, {"page_size": -1}, {"page_token": "garbage"}]:
        await refused(errors.InvalidParamsError, peer.list(**wrong))


async def get_with_history_length(peer):
    asked = await peer.send_for_task("ask")
    task = await peer.send_for_task("blue", task=asked.id)
    everything = (await peer.get(task.id)).history
    equal(len((await peer.get(task.id, history_length=0)).history), 0)
    equal(list((await peer.get(task.id, history_length=1)).history), [everything[-1]])
    equal((await peer.get(task.id, history_length=1000)).history, everything)
    short = await peer.send_for_task("echo hi", history_length=0)
    equal(len(short.history), 0)
    await refused(errors.InvalidParamsError, peer.get(task.id, history_length=-1))


async def cancel(peer):
    events = []

    async def watch():
        async for event in peer.stream("slow 30"):
            events.append(event)

    watching = asyncio.create_task(watch())
    while not any(state_of(event) == WORKING for event in events):
        await asyncio.sleep(0.01)
    canceled = await peer.cancel(events[0].task.id)
    equal(canceled.status.state, pb.TASK_STATE_CANCELED)
    await watching
    equal(state_of(events[-1]), pb.TASK_STATE_CANCELED)
    await refused(errors.TaskNotCancelableError, peer.cancel(canceled.id))


async def subscribe_after_leaving_a_stream(peer):
    async for event in peer.stream("slow 1"):
        task = event.task.id
        break
    events = await all_of(peer.subscribe(task))
    equal((kind(events[0]), events[0].task.id), ("task", task))
    equal(state_of(events[-1]), COMPLETED)
    equal("".join(texts([p.artifact]) for p in pieces(events)), "slow 1")
    error = await refused(errors.UnsupportedOperationError, peer.subscribe(task))
    assert "ended" in error.message or "terminal" in error.message or "finished" in error.message, error.message


async def subscribe_after_the_connection_was_cut(peer):
    """The connection itself breaks, after the first event; what was missed is in the snapshot, and nothing comes twice."""
    key = uuid.uuid4().hex
    async with Cutter() as cutter:
        async with Peer(card=cutter.card_for(peer.card)) as cut:
            events = []
            try:
                async for event in cut.stream(f"gate {key} chunks 20"):
                    events.append(event)
                    if state_of(event) == WORKING:
                        cutter.cut()
            except A2AClientError as error:
                note("cut", repr(error))
            else:
                # An HTTP stream that ends early is an error of the network's.
                raise AssertionError("the client took a cut connection for the end of a stream")
    task = events[0].task.id
    rest = []

    async def watch():
        async for event in peer.subscribe(task):
            rest.append(event)

    watching = asyncio.create_task(watch())
    while not rest:
        await asyncio.sleep(0.01)
    await peer.send(f"open {key}")
    await watching
    whole = texts(rest[0].task.artifacts) + "".join(texts([p.artifact]) for p in pieces(rest))
    equal(whole, "0123456789" * 200)
    equal(state_of(rest[-1]), COMPLETED)


class Cutter:
    """A door before the server that cuts every connection when told to."""

    async def __aenter__(self):
        self.writers = []
        target = urlsplit(SERVER)

        async def serve(reader, writer):
            up_reader, up_writer = await asyncio.open_connection(target.hostname, target.port)
            self.writers += [writer, up_writer]
            await asyncio.gather(self.copy(reader, up_writer), self.copy(up_reader, writer))

        self.server = await asyncio.start_server(serve, "127.0.0.1", 0)
        self.port = self.server.sockets[0].getsockname()[1]
        return self

    async def __aexit__(self, *_):
        self.cut()
        self.server.close()

    @staticmethod
    async def copy(reader, writer):
        try:
            while data := await reader.read(65536):
                writer.write(data)
                await writer.drain()
            writer.close()
        except OSError:
            writer.close()

    def cut(self):
        for writer in self.writers:
            writer.transport.abort()

    def card_for(self, card):
        through = pb.AgentCard()
        through.CopyFrom(card)
        for interface in through.supported_interfaces:
            address = urlsplit(interface.url if "//" in interface.url else f"//{interface.url}")
            interface.url = interface.url.replace(address.netloc, f"127.0.0.1:{self.port}")
        return through


async def resume_after_the_last_event_seen(peer):
    """With the id of the last event, a stream goes on behind it, even for a task that has ended meanwhile."""
    key = uuid.uuid4().hex
    if IS_GRPC:
        # gRPC has no place for event ids in its answers, so a cursor can only be made up: one that no store has had gives a
        # fresh task.
        stream = peer.stream("slow 1")
        task = (await anext(stream)).task.id
        await stream.aclose()
        events = await all_of(peer.subscribe(task, service(**{"last-event-id": "999.1"})))
        equal(kind(events[0]), "task")
        equal(state_of(events[-1]), COMPLETED)
        return
    peer.tap.ids.clear()
    seen = []
    async for event in peer.stream(f"gate {key} chunks 5"):
        seen.append(event)
        if state_of(event) == WORKING:
            break
    task, cursor = seen[0].task.id, peer.tap.ids[-1]
    await peer.send(f"open {key}")
    await peer.until(task, COMPLETED)
    events = await all_of(peer.subscribe(task, service(**{"Last-Event-ID": cursor})))
    equal(kind(events[0]), "task")
    equal(events[0].task.status.state, WORKING)
    equal("".join(texts([p.artifact]) for p in pieces(events)), "0123456789" * 50)
    equal(state_of(events[-1]), COMPLETED)


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
        # None at all means 0.3, which is not served; the text says what to send.
        unnamed = await refused(errors.VersionNotSupportedError, peer.send("echo hi", context=service(**{"A2A-Version": ""})))
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
                # Over HTTP the client keeps the first detail alone, so its text must name the field.
                assert path in error.message, error.message
            log.clear()
    # A part with two contents cannot be made with this library: they are members of one `oneof`.


async def push_notifications(peer):
    task = await peer.send_for_task("echo hi")
    made = pb.TaskPushNotificationConfig(task_id=task.id, id="hook", url="https://example.com/hook", token="t")
    if not peer.card.capabilities.push_notifications:
        await refused(
            errors.PushNotificationNotSupportedError, peer.client.create_task_push_notification_config(made)
        )
        inline = pb.TaskPushNotificationConfig(url="https://example.com/hook")
        await refused(
            errors.PushNotificationNotSupportedError, peer.send("echo hi", task_push_notification_config=inline)
        )
        return
    got = await peer.client.create_task_push_notification_config(made)
    equal((got.id, got.task_id, got.url), ("hook", task.id, "https://example.com/hook"))
    one = pb.GetTaskPushNotificationConfigRequest(task_id=task.id, id="hook")
    equal((await peer.client.get_task_push_notification_config(one)).url, made.url)
    listed = await peer.client.list_task_push_notification_configs(
        pb.ListTaskPushNotificationConfigsRequest(task_id=task.id)
    )
    equal([c.id for c in listed.configs], ["hook"])
    await peer.client.delete_task_push_notification_config(
        pb.DeleteTaskPushNotificationConfigRequest(task_id=task.id, id="hook")
    )
    await refused(errors.TaskNotFoundError, peer.client.get_task_push_notification_config(one))


async def parts_of_every_kind(peer):
    data = {"n": 3, "neg": -1, "big": 1700000000000, "f": 1.5, "z": 0, "no": None, "e": {}, "l": [], "in": {"a": [None, {"b": [[]]}]}}
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
    values = [{"n": 3, "no": None, "e": {}, "l": [], "z": 0}, [1, None, "x", [[]]], 5, -0.5, "s", "", None, True, False, {}, []]
    for plain in values:
        value = value_of(plain)
        task = await peer.send_for_task("data", pb.Part(data=value))
        equal(task.artifacts[0].parts[0].data, value)
        events = await all_of(peer.stream("data", pb.Part(data=value)))
        equal(pieces(events)[0].artifact.parts[0].data, value)
        equal((await peer.get(task.id)).artifacts[0].parts[0].data, value)


async def artifacts_of_every_kind(peer):
    wanted = {
        "tck-artifact-text": pb.Part(text="Generated text content"),
        "tck-artifact-file": pb.Part(raw=b"tck", filename="output.txt", media_type="text/plain"),
        "tck-artifact-file-url": pb.Part(url="https://example.com/output.txt", filename="output.txt", media_type="text/plain"),
        "tck-artifact-data": pb.Part(data=value_of({"key": "value", "count": 42})),
    }
    for verb, part in wanted.items():
        task = await peer.send_for_task("go", message_id=f"{verb}-{uuid.uuid4()}")
        equal([list(artifact.parts) for artifact in task.artifacts], [[part]])


async def a_second_agent_by_its_card(peer):
    async with Peer(f"{SERVER}/other") as other:
        equal((other.card.name, {i.tenant for i in other.card.supported_interfaces}), ("other", {"other"}))
        task = await other.send_for_task("hello")
        equal(texts(task.artifacts), "hello")
        events = await all_of(other.stream("hello"))
        equal(state_of(events[-1]), COMPLETED)
        equal((await other.get(task.id, history_length=0)).id, task.id)
        assert task.id in [t.id for t in (await other.list()).tasks]
        await refused(errors.TaskNotCancelableError, other.cancel(task.id))
        await refused(errors.UnsupportedOperationError, other.subscribe(task.id))
        # It is none of the first agent's.
        await refused(errors.TaskNotFoundError, peer.get(task.id))
        assert task.id not in [t.id for t in (await peer.list()).tasks]
    request = pb.GetTaskRequest(id=str(uuid.uuid4()), tenant="nobody")
    await refused(errors.InvalidParamsError, peer.client.get_task(request))


async def silence_that_the_client_would_not_bear(peer):
    """Over HTTP the client gives up after 5 s without a byte unless it is told otherwise; the server pings after 4."""
    peer.tap.comments = 0
    events = await all_of(peer.stream("silent 7"))
    equal(state_of(events[-1]), COMPLETED)
    assert IS_GRPC or peer.tap.comments >= 1, "no ping was seen"


async def long_silence_with_short_pings(peer):
    """As 45 s of silence are to a client that bears 5: many pings, and not one of them an event."""
    if IS_GRPC:
        # Here the client pings, and a server that found that too often would close the connection.
        options = [("grpc.keepalive_time_ms", 300), ("grpc.keepalive_timeout_ms", 500), ("grpc.http2.max_pings_without_data", 0)]
        async with Peer(grpc_channel_factory=lambda url: grpc.aio.insecure_channel(url, options=options)) as brisk:
            events = await all_of(brisk.stream("silent 4"))
        equal(state_of(events[-1]), COMPLETED)
        return
    async with Peer(BRISK) as brisk:
        events = await all_of(brisk.stream("silent 4", context=ClientCallContext(timeout=1.0)))
        equal(state_of(events[-1]), COMPLETED)
        equal([kind(event) for event in events], ["task", "artifact_update", "status_update"])
        assert brisk.tap.comments >= 8, f"only {brisk.tap.comments} pings"
    # That it was the pings: without them the client gives up.
    async with Peer(MUTE) as mute:
        await refused(A2AClientTimeoutError, mute.stream("silent 4", context=ClientCallContext(timeout=1.0)))
        equal(mute.tap.comments, 0)


async def message_only_answers(peer):
    before = (await peer.list(page_size=1)).total_size
    for answer in [await peer.send("msg hi"), await peer.send("msg hi", return_immediately=True)]:
        equal((kind(answer), answer.message.parts[0].text, answer.message.role), ("message", "hi", pb.ROLE_AGENT))
        assert answer.message.message_id and answer.message.context_id and not answer.message.task_id
    [event] = await all_of(peer.stream("msg hi"))
    equal((kind(event), event.message.parts[0].text), ("message", "hi"))
    equal((await peer.list(page_size=1)).total_size, before)


async def return_immediately(peer):
    async with Peer(polling=True) as polling:
        task = await polling.send_for_task("slow 1")
        assert task.status.state in (pb.TASK_STATE_SUBMITTED, WORKING), task.status
        done = await polling.until(task.id, COMPLETED)
        equal(texts(done.artifacts), "slow 1")


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
    """The client's reader of lines takes more characters for line ends than an event stream has."""
    text = "a\r\nb\rc\nd\x0be\x0cf\x1cg\x1dh\x1ei\x85j\u2028k\u2029l\ufeff m\u0000n 🦀 é \\ \" </script> \x7f"
    task = await peer.send_for_task(f"echo {text}")
    equal(texts(task.artifacts), text)
    events = await all_of(peer.stream(f"echo {text}"))
    equal(texts(p.artifact for p in pieces(events)), text)
    equal(texts((await peer.get(task.id)).artifacts), text)


async def authorisation_in_a_stream(peer):
    states = []
    async with httpx.AsyncClient() as admin:
        async for event in peer.stream("auth"):
            if state_of(event) is None:
                continue
            states.append(state_of(event))
            if kind(event) == "task":
                task = event.task.id
            if states[-1] == pb.TASK_STATE_AUTH_REQUIRED:
                answer = await admin.post(f"{ADMIN}/test/resume/{task}")
                equal(answer.status_code, 204)
    equal(states[-3:], [pb.TASK_STATE_AUTH_REQUIRED, WORKING, COMPLETED])


async def authorisation_of_a_waiting_sender(peer):
    task = await peer.send_for_task("auth")
    equal(task.status.state, pb.TASK_STATE_AUTH_REQUIRED)
    async with httpx.AsyncClient() as admin:
        await admin.post(f"{ADMIN}/test/resume/{task.id}")
    await peer.until(task.id, COMPLETED)


async def twenty_streams_at_once(peer):
    async def one(n):
        events = await all_of(peer.stream("chunks 30", f"piece of {n};"))
        equal([texts([p.artifact]) for p in pieces(events)], [f"piece of {n};"] * 30)
        equal(state_of(events[-1]), COMPLETED)
        return events[0].task.id

    equal(len(set(await asyncio.gather(*map(one, range(20))))), 20)


async def twenty_subscribers_of_one_task(peer):
    key = uuid.uuid4().hex
    task = await peer.send_for_task(f"gate {key} chunks 40", return_immediately=True)
    begun = 0

    async def one():
        nonlocal begun
        events = []
        async for event in peer.subscribe(task.id):
            begun += not events
            events.append(event)
        return texts(events[0].task.artifacts) + "".join(texts([p.artifact]) for p in pieces(events))

    watching = [asyncio.create_task(one()) for _ in range(20)]
    while begun < 20:
        await asyncio.sleep(0.01)
    await peer.send(f"open {key}")
    for whole in await asyncio.gather(*watching):
        equal(whole, "0123456789" * 400)


async def an_upgrade_that_is_offered_is_not_taken(peer):
    """Another client offers HTTP/2 with every first request."""
    context = service(Connection="Upgrade, HTTP2-Settings", Upgrade="h2c", **{"HTTP2-Settings": "AAMAAABkAAQAAP__"})
    equal((await peer.send("echo hi", context=context)).task.status.state, COMPLETED)
    events = await all_of(peer.stream("echo hi", context=context))
    equal(state_of(events[-1]), COMPLETED)


async def an_older_name_of_a_filter(peer):
    """`lastUpdatedAfter`, which another client sends for `statusTimestampAfter`."""
    context = f"ctx-{uuid.uuid4()}"
    ids = [(await peer.send_for_task(f"echo {n}", context_id=context)).id for n in range(2)]
    since = (await peer.get(ids[1])).status.timestamp.ToJsonString()
    fields = {"contextId": context, "lastUpdatedAfter": since}
    if WIRE == "JSONRPC":
        body = {"jsonrpc": "2.0", "id": 1, "method": "ListTasks", "params": fields}
        answer = (await peer.http.post(f"{SERVER}/", json=body)).json()["result"]
    else:
        answer = (await peer.http.get(f"{SERVER}/tasks", params=fields)).json()
    equal([task["id"] for task in answer["tasks"]][0], ids[1])
    equal(answer["totalSize"], len(answer["tasks"]))
    fields["lastUpdatedAfter"] = "2999-01-01T00:00:00Z"
    if WIRE == "JSONRPC":
        body["params"] = fields
        answer = (await peer.http.post(f"{SERVER}/", json=body)).json()["result"]
    else:
        answer = (await peer.http.get(f"{SERVER}/tasks", params=fields)).json()
    equal(answer["tasks"], [])


async def envelopes_of_json_rpc(peer):
    """What other clients make of JSON-RPC: ids of every kind, no id, no params, a list of calls, a slash at the end."""

    async def post(body, path="/"):
        return await peer.http.post(f"{SERVER}{path}", json=body)

    call = {"jsonrpc": "2.0", "method": "ListTasks", "params": {"pageSize": 1}}
    for ident in [7, "7", 0, "", 9007199254740992, -1, None]:
        answer = (await post({**call, "id": ident})).json()
        assert "result" in answer, answer
        equal((type(answer["id"]), answer["id"]), (type(ident), ident))
    quiet = await post(call)
    equal((quiet.status_code, quiet.content), (204, b""))
    equal((await post({**call, "id": 1, "params": [1]})).json()["error"]["code"], -32602)
    equal((await post([{**call, "id": 1}])).json()["error"]["code"], -32600)
    for params in [{}, {"params": None}, {"params": {}}]:
        answer = (await post({"jsonrpc": "2.0", "id": 1, "method": "GetExtendedAgentCard", **params})).json()
        # There is none, and that is all that is wrong.
        equal(answer["error"]["code"], -32004)
    for path in ["/kit", "/kit/", "/other", "/other/"]:
        assert "result" in (await post({**call, "id": 1}, path)).json(), path


async def ways_to_subscribe(peer):
    """GET and POST, with a body and without, with the agent's name and without."""
    for method, path, body in [
        ("GET", "", None),
        ("POST", "", None),
        ("POST", "", {}),
        ("GET", "/kit", None),
        ("POST", "/kit", {"tenant": "kit"}),
    ]:
        task = await peer.send_for_task("slow 0.7", return_immediately=True)
        url = f"{SERVER}{path}/tasks/{task.id}:subscribe"
        async with peer.http.stream(method, url, json=body, headers={"Accept": "text/event-stream"}) as answer:
            equal((answer.status_code, answer.headers["content-type"]), (200, "text/event-stream"))
            data = [json.loads(line[5:]) async for line in answer.aiter_lines() if line.startswith("data:")]
        equal((data[0]["task"]["id"], data[-1]["statusUpdate"]["status"]["state"]), (task.id, "TASK_STATE_COMPLETED"))


async def answers_hold_no_unknown_key(peer):
    """The client reads past keys that it does not know, which older ones did not; so this looks strictly."""
    task = await peer.send_for_task("ask")
    if WIRE == "JSONRPC":
        call = lambda method, params: {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        got = (await peer.http.post(f"{SERVER}/", json=call("GetTask", {"id": task.id}))).json()["result"]
        listed = (await peer.http.post(f"{SERVER}/", json=call("ListTasks", {}))).json()["result"]
        failed = (await peer.http.post(f"{SERVER}/", json=call("GetTask", {"id": "none"}))).json()
        equal(set(failed), {"jsonrpc", "id", "error"})
        equal(set(failed["error"]), {"code", "message", "data"})
    else:
        got = (await peer.http.get(f"{SERVER}/tasks/{task.id}")).json()
        listed = (await peer.http.get(f"{SERVER}/tasks")).json()
        failed = (await peer.http.get(f"{SERVER}/tasks/none")).json()
        equal((set(failed), set(failed["error"])), ({"error"}, {"code", "status", "message", "details"}))
    equal(json_format.ParseDict(got, pb.Task()), await peer.get(task.id))
    json_format.ParseDict(listed, pb.ListTasksResponse())


# Those of the first list make their own clients; the others share one.
ALONE = [card_by_the_resolver, client_from_nothing_but_the_address]
SHARED = [
    send,
    states_that_end_a_task,
    stream,
    follow_up_after_input_required,
    follow_up_in_streams,
    a_context_holds_several_tasks,
    list_tasks,
    get_with_history_length,
    cancel,
    subscribe_after_leaving_a_stream,
    subscribe_after_the_connection_was_cut,
    resume_after_the_last_event_seen,
    task_not_found,
    unsupported_operation,
    version_not_supported,
    content_type_not_supported,
    invalid_params,
    push_notifications,
    parts_of_every_kind,
    data_of_every_kind,
    artifacts_of_every_kind,
    a_second_agent_by_its_card,
    silence_that_the_client_would_not_bear,
    long_silence_with_short_pings,
    message_only_answers,
    return_immediately,
    extensions,
    large_messages,
    text_of_every_kind,
    authorisation_in_a_stream,
    authorisation_of_a_waiting_sender,
    twenty_streams_at_once,
    twenty_subscribers_of_one_task,
]
OVER_HTTP = [an_upgrade_that_is_offered_is_not_taken, an_older_name_of_a_filter, answers_hold_no_unknown_key]
OF_THE_WIRE = {"JSONRPC": OVER_HTTP + [envelopes_of_json_rpc], "HTTP+JSON": OVER_HTTP + [ways_to_subscribe], "GRPC": []}


async def main():
    # Left alone, a scenario that hangs says nothing.
    async def run(name, scenario):
        log.clear()
        try:
            await asyncio.wait_for(scenario, 60)
        except Exception:
            print(f"FAILED {name}\n" + "\n".join(log[-60:]) + "\n" + traceback.format_exc(), flush=True)
            sys.exit(1)
        print(f"ok {name}", flush=True)

    for scenario in ALONE:
        await run(scenario.__name__, scenario())
    async with Peer() as peer:
        for scenario in SHARED + OF_THE_WIRE[WIRE]:
            await run(scenario.__name__, scenario(peer))


asyncio.run(main())
