// Runs scenarios with the official, unchanged JavaScript client against our server over one binding.
//
//     node js_client.mjs WIRE SERVER ADMIN BRISK
//
// The arguments are those of python_client.py. A line `ok NAME` is written for each scenario that passes; the first
// that fails ends the run, with what was sent and received.

import assert from 'node:assert/strict';
import { inspect } from 'node:util';

import * as content from './js/content.mjs';
import * as refusals from './js/refusals.mjs';
import * as streams from './js/streams.mjs';
import * as tasks from './js/tasks.mjs';
import {
  allOf,
  askFor,
  clients,
  GrpcTransportFactory,
  last,
  log,
  Peer,
  SERVER,
  State,
  stateOf,
  WIRE,
} from './js/peer.mjs';

const EVERYWHERE = [
  tasks.send,
  tasks.states_that_end_a_task,
  streams.stream,
  tasks.follow_up_after_input_required,
  streams.follow_up_in_streams,
  tasks.list_tasks,
  tasks.get_with_history_length,
  tasks.cancel,
  streams.subscribe_after_leaving_a_stream,
  streams.subscribe_after_a_stream_was_aborted,
  streams.subscribe_after_the_connection_was_cut,
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
  streams.pings_are_no_events,
  tasks.message_only_answers,
  tasks.return_immediately,
  refusals.extensions,
  content.large_messages,
  content.text_of_every_kind,
  streams.authorisation_in_a_stream,
  tasks.authorisation_of_a_waiting_sender,
  streams.twenty_streams_at_once,
  streams.twenty_subscribers_of_one_task,
];
const OF_THE_WIRE = {
  JSONRPC: [streams.resume_after_the_last_event_seen, refusals.a_call_without_params],
  'HTTP+JSON': [streams.resume_after_the_last_event_seen],
  GRPC: [],
};

async function a_client_from_nothing_but_the_address() {
  const transports = [new GrpcTransportFactory()];
  const options = clients.ClientFactoryOptions.createFrom(clients.ClientFactoryOptions.default, {
    transports,
    preferredTransports: [WIRE],
  });
  const client = await new clients.ClientFactory(options).createFromUrl(SERVER);
  assert.equal(client.agentCard.name, 'kit');
  assert.equal(client.transport.protocolName, WIRE);
  const events = await allOf(client.sendMessageStream(askFor('echo hi')));
  assert.equal(stateOf(last(events)), State.TASK_STATE_COMPLETED);
  // There is no extended card, so the client returns the public one.
  assert.equal((await client.getAgentCard()).name, 'kit');
}

async function run(scenario, peer) {
  log.length = 0;
  const late = AbortSignal.timeout(60_000);
  const hangs = new Promise((_, reject) => {
    late.addEventListener('abort', () => reject(new Error('not done after 60 s')));
  });
  try {
    await Promise.race([scenario(peer), hangs]);
  } catch (error) {
    console.log(`FAILED ${scenario.name}\n${log.slice(-60).join('\n')}\n${inspect(error)}`);
    process.exit(1);
  }
  console.log(`ok ${scenario.name}`);
}

await run(a_client_from_nothing_but_the_address);
const peer = await Peer.of();
for (const scenario of [...EVERYWHERE, ...OF_THE_WIRE[WIRE]]) await run(scenario, peer);
// Open connections would keep the process alive.
process.exit(0);
