"""Scenarios: the card, and unusual requests that other HTTP clients send."""

import json
import uuid

import httpx
from a2a.client import A2ACardResolver, create_client
from a2a.types import a2a_pb2 as pb
from google.protobuf import json_format

from python.peer import COMPLETED, SERVER, WIRE, all_of, ask_for, config, equal, note, service, state_of


async def card_by_the_resolver():
    async with httpx.AsyncClient() as http:
        card = await A2ACardResolver(http, SERVER).get_agent_card()
        note("card", card)
        equal(card.name, "kit")
        equal(sorted(i.protocol_binding for i in card.supported_interfaces), ["GRPC", "HTTP+JSON", "JSONRPC"])
        equal({i.protocol_version for i in card.supported_interfaces}, {"1.0"})
        assert card.capabilities.streaming and card.skills and card.default_input_modes
        answer = await http.get(f"{SERVER}/.well-known/agent-card.json")
        # The card has no unknown fields.
        json_format.ParseDict(answer.json(), pb.AgentCard())
        again = await http.get(str(answer.url), headers={"If-None-Match": answer.headers["etag"]})
        equal(again.status_code, 304)


async def client_from_nothing_but_the_address():
    client = await create_client(SERVER, config())
    events = await all_of(client.send_message(ask_for("echo hi")))
    equal(state_of(events[-1]), COMPLETED)
    # There is no extended card, so the client returns the public one.
    equal((await client.get_extended_agent_card(pb.GetExtendedAgentCardRequest())).name, "kit")
    await client.close()


async def an_upgrade_that_is_offered_is_not_taken(peer):
    """Another client sends an HTTP/2 upgrade with its first request."""
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
    """JSON-RPC as other clients send it: ids of every type, no id, no params, a batch, a trailing slash."""

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
        # The only error is that there is no such task.
        equal(answer["error"]["code"], -32004)
    for path in ["/kit", "/kit/", "/other", "/other/"]:
        assert "result" in (await post({**call, "id": 1}, path)).json(), path


async def ways_to_subscribe(peer):
    """GET and POST, with and without a body, with and without the agent's name."""
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
    """The client ignores unknown fields, but older versions did not, so this check is strict."""
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
