"""Scenarios: tasks from their first message to their end, and several agents on one server."""

import asyncio
import uuid

import httpx
from a2a.types import a2a_pb2 as pb
from a2a.utils import errors

from python.peer import ADMIN, COMPLETED, SERVER, WORKING, Peer, all_of, equal, kind, refused, state_of, texts


async def send(peer):
    task = await peer.send_for_task("echo hi", metadata={"note": "kept"})
    equal(task.status.state, COMPLETED)
    equal(texts(task.artifacts), "hi")
    assert task.id and task.context_id and task.status.HasField("timestamp")
    equal([m.role for m in task.history], [pb.ROLE_USER])
    equal(dict(task.history[0].metadata), {"note": "kept"})
    equal(await peer.get(task.id), task)


async def states_that_end_a_task(peer):
    ends = {"fail": pb.TASK_STATE_FAILED, "reject": pb.TASK_STATE_REJECTED, "boom": pb.TASK_STATE_FAILED}
    for verb, state in ends.items():
        task = await peer.send_for_task(verb)
        equal(task.status.state, state)
        assert task.status.message.parts[0].text
        equal(state_of((await all_of(peer.stream(verb)))[-1]), state)


async def follow_up_after_input_required(peer):
    asked = await peer.send_for_task("ask")
    equal(asked.status.state, pb.TASK_STATE_INPUT_REQUIRED)
    assert asked.status.message.parts[0].text
    answered = await peer.send_for_task("blue", task=asked.id)
    equal((answered.id, answered.context_id, answered.status.state), (asked.id, asked.context_id, COMPLETED))
    said = [m.parts[0].text for m in answered.history if m.role == pb.ROLE_USER]
    equal(said, ["ask", "blue"])


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
    # The filter is inclusive: the third newest task and later ones.
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


async def authorisation_of_a_waiting_sender(peer):
    task = await peer.send_for_task("auth")
    equal(task.status.state, pb.TASK_STATE_AUTH_REQUIRED)
    async with httpx.AsyncClient() as admin:
        await admin.post(f"{ADMIN}/test/resume/{task.id}")
    await peer.until(task.id, COMPLETED)


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


async def a_second_agent_by_its_card(peer):
    async with Peer(f"{SERVER}/other") as other:
        named = {i.protocol_binding: i.tenant for i in other.card.supported_interfaces}
        equal((other.card.name, named), ("other", {"JSONRPC": "", "HTTP+JSON": "", "GRPC": "other"}))
        task = await other.send_for_task("hello")
        equal(texts(task.artifacts), "hello")
        events = await all_of(other.stream("hello"))
        equal(state_of(events[-1]), COMPLETED)
        equal((await other.get(task.id, history_length=0)).id, task.id)
        assert task.id in [t.id for t in (await other.list()).tasks]
        await refused(errors.TaskNotCancelableError, other.cancel(task.id))
        await refused(errors.UnsupportedOperationError, other.subscribe(task.id))
        # The first agent does not have this task.
        await refused(errors.TaskNotFoundError, peer.get(task.id))
        assert task.id not in [t.id for t in (await peer.list()).tasks]
    request = pb.GetTaskRequest(id=str(uuid.uuid4()), tenant="nobody")
    await refused(errors.InvalidParamsError, peer.client.get_task(request))
