// Scenarios: streams that are read, abandoned, interrupted, idle or concurrent.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import net from 'node:net';

import {
  ADMIN,
  allOf,
  BRISK,
  IS_GRPC,
  kind,
  last,
  note,
  Peer,
  pieces,
  refused,
  SERVER,
  service,
  State,
  stateOf,
  texts,
} from './peer.mjs';

export async function stream(peer) {
  const events = await allOf(peer.stream('chunks 3'));
  assert.equal(kind(events[0]), 'task');
  const task = events[0].payload.value;
  for (const event of events.slice(1)) {
    assert.equal(event.payload.value.taskId, task.id);
    assert.equal(event.payload.value.contextId, task.contextId);
  }
  const flags = pieces(events).map((piece) => [piece.append, piece.lastChunk]);
  assert.deepEqual(flags, [[false, false], [true, false], [true, true]]);
  assert.equal(stateOf(last(events)), State.TASK_STATE_COMPLETED);
  const got = await peer.get(task.id);
  assert.deepEqual([got.artifacts.length, texts(got.artifacts).length], [1, 300]);
}

export async function follow_up_in_streams(peer) {
  const asked = await allOf(peer.stream('ask'));
  assert.equal(stateOf(last(asked)), State.TASK_STATE_INPUT_REQUIRED);
  const { id, contextId } = asked[0].payload.value;
  const answered = await allOf(peer.stream('blue', { task: id, context: contextId }));
  assert.equal(answered[0].payload.value.id, id);
  assert.equal(stateOf(last(answered)), State.TASK_STATE_COMPLETED);
}

export async function subscribe_after_leaving_a_stream(peer) {
  let id;
  for await (const event of peer.stream('slow 1')) {
    id = event.payload.value.id;
    break;
  }
  const events = await allOf(peer.subscribe(id));
  assert.deepEqual([kind(events[0]), events[0].payload.value.id], ['task', id]);
  assert.equal(texts(pieces(events).map((piece) => piece.artifact)), 'slow 1');
  assert.equal(stateOf(last(events)), State.TASK_STATE_COMPLETED);
  await refused('UnsupportedOperationError', peer.subscribe(id));
}

export async function subscribe_after_a_stream_was_aborted(peer) {
  const abort = new AbortController();
  let id;
  try {
    for await (const event of peer.stream('slow 1', {}, { signal: abort.signal })) {
      id ??= event.payload.value.id;
      abort.abort();
    }
    assert.fail('the stream went on');
  } catch (error) {
    note('aborted', error);
    assert.notEqual(error.code, 'ERR_ASSERTION');
  }
  assert.equal(stateOf(last(await allOf(peer.subscribe(id)))), State.TASK_STATE_COMPLETED);
}

// A TCP proxy in front of the server that cuts every connection on request.
class Cutter {
  sockets = [];

  async open() {
    const { hostname, port } = new URL(SERVER);
    this.server = net.createServer((socket) => {
      const up = net.connect(Number(port), hostname);
      for (const one of [socket, up]) one.on('error', () => {});
      this.sockets.push(socket, up);
      socket.pipe(up).pipe(socket);
    });
    await new Promise((ready) => this.server.listen(0, '127.0.0.1', ready));
    return this;
  }

  cut() {
    for (const socket of this.sockets) socket.resetAndDestroy();
    this.server.close();
  }

  cardFor(card) {
    const through = structuredClone(card);
    const door = `127.0.0.1:${this.server.address().port}`;
    for (const one of through.supportedInterfaces) one.url = one.url.replace(new URL(SERVER).host, door);
    return through;
  }
}

// The connection breaks after the first events. Missed events are in the snapshot, and none is repeated.
export async function subscribe_after_the_connection_was_cut(peer) {
  const key = randomUUID();
  const cutter = await new Cutter().open();
  const cut = await Peer.of({ card: cutter.cardFor(peer.card) });
  const events = [];
  try {
    for await (const event of cut.stream(`gate ${key} chunks 20`)) {
      events.push(event);
      if (stateOf(event) === State.TASK_STATE_WORKING) cutter.cut();
    }
    assert.fail('the client took a cut connection for the end of a stream');
  } catch (error) {
    note('cut', error);
    assert.notEqual(error.code, 'ERR_ASSERTION');
  }
  const rest = [];
  for await (const event of peer.subscribe(events[0].payload.value.id)) {
    rest.push(event);
    if (rest.length === 1) await peer.send(`open ${key}`);
  }
  const whole = texts(rest[0].payload.value.artifacts) + texts(pieces(rest).map((piece) => piece.artifact));
  assert.equal(whole, '0123456789'.repeat(200));
  assert.equal(stateOf(last(rest)), State.TASK_STATE_COMPLETED);
}

// A stream resumes after the last event's id, even if the task has ended in the meantime.
export async function resume_after_the_last_event_seen(peer) {
  const key = randomUUID();
  peer.tap.ids = [];
  let id;
  for await (const event of peer.stream(`gate ${key} chunks 5`)) {
    id ??= event.payload.value.id;
    if (stateOf(event) === State.TASK_STATE_WORKING) break;
  }
  const cursor = last(peer.tap.ids);
  await peer.send(`open ${key}`);
  await peer.until(id, State.TASK_STATE_COMPLETED);
  const events = await allOf(peer.subscribe(id, service({ 'Last-Event-ID': cursor })));
  assert.equal(stateOf(events[0]), State.TASK_STATE_WORKING);
  assert.equal(texts(pieces(events).map((piece) => piece.artifact)), '0123456789'.repeat(50));
  assert.equal(stateOf(last(events)), State.TASK_STATE_COMPLETED);
}

export async function pings_are_no_events() {
  const brisk = await Peer.of({ url: BRISK });
  const events = await allOf(brisk.stream('silent 3'));
  assert.deepEqual(events.map(kind), ['task', 'artifactUpdate', 'statusUpdate']);
  assert.ok(IS_GRPC || brisk.tap.comments >= 5, `only ${brisk.tap.comments} pings`);
}

export async function authorisation_in_a_stream(peer) {
  const states = [];
  let id;
  for await (const event of peer.stream('auth')) {
    id ??= event.payload.value.id;
    states.push(stateOf(event));
    if (last(states) === State.TASK_STATE_AUTH_REQUIRED) {
      assert.equal((await fetch(`${ADMIN}/test/resume/${id}`, { method: 'POST' })).status, 204);
    }
  }
  const wanted = [State.TASK_STATE_AUTH_REQUIRED, State.TASK_STATE_WORKING, State.TASK_STATE_COMPLETED];
  assert.deepEqual(states.slice(-3), wanted);
}

export async function twenty_streams_at_once(peer) {
  const one = async (n) => {
    const events = await allOf(peer.stream(['chunks 30', `piece of ${n};`]));
    assert.deepEqual(pieces(events).map((piece) => texts([piece.artifact])), Array(30).fill(`piece of ${n};`));
    assert.equal(stateOf(last(events)), State.TASK_STATE_COMPLETED);
    return events[0].payload.value.id;
  };
  const ids = await Promise.all(Array.from({ length: 20 }, (_, n) => one(n)));
  assert.equal(new Set(ids).size, 20);
}

export async function twenty_subscribers_of_one_task(peer) {
  const key = randomUUID();
  const task = await peer.sendForTask(`gate ${key} chunks 40`, { returnImmediately: true });
  let begun = 0;
  const one = async () => {
    const events = [];
    for await (const event of peer.subscribe(task.id)) {
      if (events.push(event) === 1 && (begun += 1) === 20) await peer.send(`open ${key}`);
    }
    return texts(events[0].payload.value.artifacts) + texts(pieces(events).map((piece) => piece.artifact));
  };
  for (const whole of await Promise.all(Array.from({ length: 20 }, one))) {
    assert.equal(whole, '0123456789'.repeat(400));
  }
}
