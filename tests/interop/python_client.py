"""Runs scenarios with the official, unchanged Python client against our server over one binding.

    python_client.py WIRE SERVER ADMIN BRISK MUTE

WIRE is JSONRPC, HTTP+JSON or GRPC. SERVER has the agents `kit` (conformance, the default one), `other` (echo) and
`strict` (conformance, requires an extension); ADMIN is its admin port. BRISK and MUTE are servers with `kit`
alone: the first pings after 300 ms without events, the second never. A line `ok NAME` is written for each scenario that
passes; the first that fails ends the run, with what was sent and received."""

import asyncio
import sys
import traceback

from python import content, refusals, streams, tasks, wire
from python.peer import WIRE, Peer, log

# The scenarios of the first list create their own clients. The others share one.
ALONE = [wire.card_by_the_resolver, wire.client_from_nothing_but_the_address]
SHARED = [
    tasks.send,
    tasks.states_that_end_a_task,
    streams.stream,
    tasks.follow_up_after_input_required,
    streams.follow_up_in_streams,
    tasks.a_context_holds_several_tasks,
    tasks.list_tasks,
    tasks.get_with_history_length,
    tasks.cancel,
    streams.subscribe_after_leaving_a_stream,
    streams.subscribe_after_the_connection_was_cut,
    streams.resume_after_the_last_event_seen,
    refusals.task_not_found,
    refusals.unsupported_operation,
    refusals.version_not_supported,
    refusals.content_type_not_supported,
    refusals.invalid_params,
    tasks.push_notifications,
    content.parts_of_every_kind,
    content.data_of_every_kind,
    content.artifacts_of_every_kind,
    tasks.a_second_agent_by_its_card,
    streams.silence_that_the_client_would_not_bear,
    streams.long_silence_with_short_pings,
    tasks.message_only_answers,
    tasks.return_immediately,
    refusals.extensions,
    content.large_messages,
    content.text_of_every_kind,
    streams.authorisation_in_a_stream,
    tasks.authorisation_of_a_waiting_sender,
    streams.twenty_streams_at_once,
    streams.twenty_subscribers_of_one_task,
]
OVER_HTTP = [
    wire.an_upgrade_that_is_offered_is_not_taken,
    wire.an_older_name_of_a_filter,
    wire.answers_hold_no_unknown_key,
]
OF_THE_WIRE = {
    "JSONRPC": OVER_HTTP + [wire.envelopes_of_json_rpc],
    "HTTP+JSON": OVER_HTTP + [wire.ways_to_subscribe],
    "GRPC": [],
}


async def main():
    # Without a time limit, a hanging scenario would print nothing.
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
