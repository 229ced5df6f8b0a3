"""Scenarios: streams that are read, abandoned, interrupted, idle or concurrent."""

import asyncio
import uuid
from urllib.parse import urlsplit

import grpc
import httpx
from a2a.client import ClientCallContext
from a2a.client.errors import A2AClientError, A2AClientTimeoutError
from a2a.types import a2a_pb2 as pb
from a2a.utils import errors

from python.peer import (
    ADMIN,
    BRISK,
    COMPLETED,
    IS_GRPC,
    MUTE,
    SERVER,
    WORKING,
    Peer,
    all_of,
    equal,
    kind,
    note,
    pieces,
    refused,
    service,
    state_of,
    texts,
)


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


async def follow_up_in_streams(peer):
    events = await all_of(peer.stream("ask"))
    equal(state_of(events[-1]), pb.TASK_STATE_INPUT_REQUIRED)
    task = events[0].task
    events = await all_of(peer.stream("blue", task=task.id, context_id=task.context_id))
    equal(events[0].task.id, task.id)
    equal(state_of(events[-1]), COMPLETED)


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
    """The connection breaks after the first events. Missed events are in the snapshot, and none is repeated."""
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
                # An HTTP stream that ends early is a network error.
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
    """A TCP proxy in front of the server that cuts every connection on request."""

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
    """A stream resumes after the last event's id, even if the task has ended in the meantime."""
    key = uuid.uuid4().hex
    if IS_GRPC:
        # gRPC answers carry no event ids, so a cursor can only be invented: one that no store has used
        # gets the current task.
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


async def silence_that_the_client_would_not_bear(peer):
    """Over HTTP the client gives up after 5 s without a byte by default. The server pings after 4 s."""
    peer.tap.comments = 0
    events = await all_of(peer.stream("silent 7"))
    equal(state_of(events[-1]), COMPLETED)
    assert IS_GRPC or peer.tap.comments >= 1, "no ping was seen"


async def long_silence_with_short_pings(peer):
    """A scaled-down long silence: many pings, and none of them is an event."""
    if IS_GRPC:
        # Over gRPC the client pings, and a server that considers this too often would close the connection.
        keepalive = {"keepalive_time_ms": 300, "keepalive_timeout_ms": 5000, "http2.max_pings_without_data": 0}
        options = [(f"grpc.{name}", value) for name, value in keepalive.items()]
        async with Peer(grpc_channel_factory=lambda url: grpc.aio.insecure_channel(url, options=options)) as brisk:
            events = await all_of(brisk.stream("silent 4"))
        equal(state_of(events[-1]), COMPLETED)
        return
    async with Peer(BRISK) as brisk:
        events = await all_of(brisk.stream("silent 6", context=ClientCallContext(timeout=2.0)))
        equal(state_of(events[-1]), COMPLETED)
        equal([kind(event) for event in events], ["task", "artifact_update", "status_update"])
        assert brisk.tap.comments >= 8, f"only {brisk.tap.comments} pings"
    # Proof that the pings made the difference: without them the client gives up.
    async with Peer(MUTE) as mute:
        await refused(A2AClientTimeoutError, mute.stream("silent 6", context=ClientCallContext(timeout=2.0)))
        equal(mute.tap.comments, 0)


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
