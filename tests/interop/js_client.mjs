// The official JavaScript client, as its registry gives it, against a server of ours: one wire, a list of scenarios.
//
//     node js_client.mjs WIRE SERVER ADMIN BRISK
//
// The arguments are those of python_client.py. A line `ok NAME` is written for each scenario that passes; the first that
// fails ends the run, with what was sent and received.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { createRequire } from 'node:module';
import net from 'node:net';
import { inspect } from 'node:util';
import { setTimeout as sleep } from 'node:timers/promises';

const require = createRequire(new URL('../../target/node/', import.meta.url));
const sdk = require('@a2a-js/sdk');
const clients = require('@a2a-js/sdk/client');
const { GrpcTransportFactory } = require('@a2a-js/sdk/client/grpc');

const [WIRE, SERVER, ADMIN, BRISK] = process.argv.slice(2);
const IS_GRPC = WIRE === 'GRPC';
const EXTENSION = 'https://example.com/extensions/strict';
const State = sdk.TaskState;

// What was sent and received since the scenario began.
let log = [];

function note(what, value) {
  const text = typeof value === 'string' ? value : inspect(value, { depth: 12, breakLength: Infinity });
  log.push(`${what}: ${text.length < 3000 ? text : `${text.slice(0, 3000)} ...`}`);
}

// Notes each HTTP request and answer, and what the events of streams carry beside their data.
class Wiretap {
  headers = new Headers();
  ids = [];
  comments = 0;
  text = '';

  fetch = async (url, init) => {
    note('request', `${init?.method ?? 'GET'} ${url} ${JSON.stringify(init?.headers)} ${init?.body ?? ''}`);
    const answer = await fetch(url, init);
    note('response', `${answer.status} ${JSON.stringify([...answer.headers])}`);
    this.headers = answer.headers;
    this.text = '';
    if (!answer.body) return answer;
    const see = (chunk, out) => {
      const text = Buffer.from(chunk).toString();
      note('bytes', text);
      this.text += text;
      for (const line of text.split('\n')) {
        if (line.startsWith(':')) this.comments += 1;
        if (line.startsWith('id:')) this.ids.push(line.slice(3).trim());
      }
      out.enqueue(chunk);
    };
    const body = answer.body.pipeThrough(new TransformStream({ transform: see }));
    return new Response(body, { status: answer.status, statusText: answer.statusText, headers: answer.headers });
  };
}

// A client of one agent, found by the client's own resolver.
class Peer {
  static async of({ url = SERVER, card, config } = {}) {
    const peer = new Peer();
    peer.tap = new Wiretap();
    const fetchImpl = peer.tap.fetch;
    const factory = new clients.ClientFactory({
      transports: [
        new clients.JsonRpcTransportFactory({ fetchImpl }),
        new clients.RestTransportFactory({ fetchImpl }),
        new GrpcTransportFactory(),
      ],
      preferredTransports: [WIRE],
      cardResolver: new clients.DefaultAgentCardResolver({ fetchImpl }),
      clientConfig: config,
    });
    peer.client = card ? await factory.createFromAgentCard(card) : await factory.createFromUrl(url);
    peer.card = peer.client.agentCard;
    return peer;
  }

  async send(parts, fields, options) {
    const request = askFor(parts, fields);
    note('send', request);
    const answer = await this.client.sendMessage(request, options);
    note('answer', answer);
    return answer;
  }

  async sendForTask(parts, fields) {
    const answer = await this.send(parts, fields);
    assert.ok('status' in answer, 'expected a task');
    return answer;
  }

  async *stream(parts, fields, options) {
    const request = askFor(parts, fields);
    note('stream', request);
    yield* noted(this.client.sendMessageStream(request, options));
  }

  async *subscribe(id, options) {
    note('subscribe', id);
    yield* noted(this.client.resubscribeTask(sdk.SubscribeToTaskRequest.fromJSON({ id }), options));
  }

  async get(id, fields) {
    const got = await this.client.getTask(sdk.GetTaskRequest.fromJSON({ id, ...fields }));
    note('got', got);
    return got;
  }

  async cancel(id) {
    const got = await this.client.cancelTask(sdk.CancelTaskRequest.fromJSON({ id }));
    note('canceled', got);
    return got;
  }

  async list(fields = {}) {
    const got = await this.client.listTasks(sdk.ListTasksRequest.fromJSON(fields));
    note('list', got);
    return got;
  }

  // Asks until the task has the state.
  async until(id, state) {
    for (let n = 0; n < 400; n += 1) {
      const got = await this.get(id);
      if (got.status.state === state) return got;
      await sleep(50);
    }
    throw new Error(`it never got ${sdk.taskStateToJSON(state)}`);
  }
}

async function* noted(stream) {
  for await (const event of stream) {
    note('event', event);
    yield event;
  }
}

// A request with a message of these parts; a string is a part of text.
function askFor(parts, { task, context, messageId = randomUUID(), metadata, ...configuration } = {}) {
  const request = sdk.SendMessageRequest.fromJSON({
    message: { messageId, role: 'ROLE_USER', taskId: task, contextId: context, metadata },
    configuration,
  });
  request.message.parts = [parts].flat().map((part) => (typeof part === 'string' ? text(part) : part));
  return request;
}

const part = (kind, value, fields) => ({
  content: { $case: kind, value },
  metadata: undefined,
  filename: '',
  mediaType: '',
  ...fields,
});
const text = (value) => part('text', value);
const service = (serviceParameters) => ({ serviceParameters });

// The error of this name that the call must end with.
async function refused(name, call) {
  try {
    if (call[Symbol.asyncIterator]) await allOf(call);
    else await (typeof call === 'function' ? call() : call);
  } catch (error) {
    note('error', error);
    assert.equal(error.name, name, `expected ${name}, got ${inspect(error)}`);
    assert.ok(error.message, 'an error without a text');
    return error;
  }
  return assert.fail(`expected ${name}, and it went well`);
}

async function allOf(stream) {
  const events = [];
  for await (const event of stream) events.push(event);
  return events;
}

const kind = (event) => event.payload?.$case;
const stateOf = (event) => event.payload.value.status?.state;
const texts = (artifacts) =>
  artifacts
    .flatMap((artifact) => artifact.parts)
    .map((one) => (one.content?.$case === 'text' ? one.content.value : ''))
    .join('');
const pieces = (events) =>
  events.filter((event) => kind(event) === 'artifactUpdate').map((event) => event.payload.value);
const last = (list) => list.at(-1);

// A door before the server that cuts every connection when told to.
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

// The scenarios.

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
  // It has no extended card, so the client gives the one that it has.
  assert.equal((await client.getAgentCard()).name, 'kit');
}

async function send(peer) {
  const task = await peer.sendForTask('echo hi', { metadata: { note: 'kept' } });
  assert.equal(task.status.state, State.TASK_STATE_COMPLETED);
  assert.equal(texts(task.artifacts), 'hi');
  assert.ok(task.id && task.contextId && task.status.timestamp);
  assert.deepEqual(task.history.map((message) => message.role), [sdk.Role.ROLE_USER]);
  assert.deepEqual(task.history[0].metadata, { note: 'kept' });
  assert.deepEqual(await peer.get(task.id), task);
}

async function states_that_end_a_task(peer) {
  for (const [verb, state] of [
    ['fail', State.TASK_STATE_FAILED],
    ['reject', State.TASK_STATE_REJECTED],
    ['boom', State.TASK_STATE_FAILED],
  ]) {
    const task = await peer.sendForTask(verb);
    assert.equal(task.status.state, state);
    assert.ok(task.status.message.parts[0].content.value);
    assert.equal(stateOf(last(await allOf(peer.stream(verb)))), state);
  }
}

async function stream(peer) {
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

async function follow_up_after_input_required(peer) {
  const asked = await peer.sendForTask('ask');
  assert.equal(asked.status.state, State.TASK_STATE_INPUT_REQUIRED);
  assert.ok(asked.status.message.parts[0].content.value);
  const answered = await peer.sendForTask('blue', { task: asked.id });
  assert.deepEqual([answered.id, answered.contextId], [asked.id, asked.contextId]);
  assert.equal(answered.status.state, State.TASK_STATE_COMPLETED);
  const mine = answered.history.filter((message) => message.role === sdk.Role.ROLE_USER);
  assert.deepEqual(mine.map((message) => message.parts[0].content.value), ['ask', 'blue']);
}

async function follow_up_in_streams(peer) {
  const asked = await allOf(peer.stream('ask'));
  assert.equal(stateOf(last(asked)), State.TASK_STATE_INPUT_REQUIRED);
  const { id, contextId } = asked[0].payload.value;
  const answered = await allOf(peer.stream('blue', { task: id, context: contextId }));
  assert.equal(answered[0].payload.value.id, id);
  assert.equal(stateOf(last(answered)), State.TASK_STATE_COMPLETED);
}

async function list_tasks(peer) {
  const contextId = `ctx-${randomUUID()}`;
  const ids = [];
  for (let n = 0; n < 5; n += 1) ids.push((await peer.sendForTask(`echo ${n}`, { context: contextId })).id);
  const seen = [];
  let pageToken = '';
  do {
    const page = await peer.list({ contextId, pageSize: 2, pageToken });
    assert.deepEqual([page.totalSize, page.pageSize], [5, 2]);
    seen.push(...page.tasks.map((task) => task.id));
    pageToken = page.nextPageToken;
  } while (pageToken);
  assert.deepEqual(seen, ids.toReversed());
  const bare = await peer.list({ contextId, includeArtifacts: false });
  const full = await peer.list({ contextId, includeArtifacts: true });
  assert.ok(bare.tasks.every((task) => task.artifacts.length === 0));
  assert.equal(texts(full.tasks[0].artifacts), '4');
  assert.equal((await peer.list({ contextId, status: 'TASK_STATE_FAILED' })).tasks.length, 0);
  const quiet = await peer.list({ contextId, status: 'TASK_STATE_COMPLETED', historyLength: 0 });
  assert.deepEqual([quiet.tasks.length, quiet.tasks[0].history.length], [5, 0]);
  const later = await peer.list({ contextId, statusTimestampAfter: bare.tasks[2].status.timestamp });
  assert.deepEqual(later.tasks.slice(0, 3).map((task) => task.id), ids.slice(2).toReversed());
  assert.equal((await peer.list({ contextId, statusTimestampAfter: '2999-01-01T00:00:00Z' })).tasks.length, 0);
  for (const wrong of [{ pageSize: 101 }, { pageSize: -1 }, { pageToken: 'garbage' }]) {
    await refused('RequestMalformedError', peer.list(wrong));
  }
}

async function get_with_history_length(peer) {
  const asked = await peer.sendForTask('ask');
  const { id } = await peer.sendForTask('blue', { task: asked.id });
  const { history } = await peer.get(id);
  assert.deepEqual((await peer.get(id, { historyLength: 0 })).history, []);
  assert.deepEqual((await peer.get(id, { historyLength: 1 })).history, [last(history)]);
  assert.deepEqual((await peer.get(id, { historyLength: 1000 })).history, history);
  assert.deepEqual((await peer.sendForTask('echo hi', { historyLength: 0 })).history, []);
  await refused('RequestMalformedError', peer.get(id, { historyLength: -1 }));
}

async function cancel(peer) {
  const events = [];
  for await (const event of peer.stream('slow 30')) {
    events.push(event);
    if (stateOf(event) === State.TASK_STATE_WORKING) {
      const canceled = await peer.cancel(events[0].payload.value.id);
      assert.equal(canceled.status.state, State.TASK_STATE_CANCELED);
    }
  }
  assert.equal(stateOf(last(events)), State.TASK_STATE_CANCELED);
  await refused('TaskNotCancelableError', peer.cancel(events[0].payload.value.id));
}

async function subscribe_after_leaving_a_stream(peer) {
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

async function subscribe_after_a_stream_was_aborted(peer) {
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

// The connection itself breaks, after the first events; what was missed is in the snapshot, and nothing comes twice.
async function subscribe_after_the_connection_was_cut(peer) {
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

// With the id of the last event, a stream goes on behind it, even for a task that has ended meanwhile.
async function resume_after_the_last_event_seen(peer) {
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

async function task_not_found(peer) {
  const none = randomUUID();
  await refused('TaskNotFoundError', peer.get(none));
  await refused('TaskNotFoundError', peer.cancel(none));
  await refused('TaskNotFoundError', peer.subscribe(none));
  const before = (await peer.list({ pageSize: 1 })).totalSize;
  await refused('TaskNotFoundError', peer.send('echo hi', { task: none }));
  await refused('TaskNotFoundError', peer.stream('echo hi', { task: none }));
  assert.equal((await peer.list({ pageSize: 1 })).totalSize, before);
}

async function unsupported_operation(peer) {
  const task = await peer.sendForTask('echo hi');
  await refused('UnsupportedOperationError', peer.send('echo again', { task: task.id }));
  await refused('UnsupportedOperationError', peer.stream('echo again', { task: task.id }));
  assert.deepEqual(await peer.get(task.id), task);
}

async function version_not_supported() {
  // The client sets its own version over the caller's; after that its interceptors may change it.
  const other = {
    before: async ({ options }) => {
      options.serviceParameters['A2A-Version'] = '99.0';
    },
    after: async () => {},
  };
  const peer = await Peer.of({ config: { interceptors: [other] } });
  const error = await refused('VersionNotSupportedError', peer.send('echo hi'));
  assert.match(error.message, /1\.0/);
  await refused('VersionNotSupportedError', peer.stream('echo hi'));
  await refused('VersionNotSupportedError', peer.get(randomUUID()));
}

async function content_type_not_supported(peer) {
  const picture = part('raw', Buffer.from('PNG'), { mediaType: 'image/png' });
  await refused('ContentTypeNotSupportedError', peer.send(['echo hi', picture]));
  await refused('ContentTypeNotSupportedError', peer.stream(['echo hi', picture]));
}

async function invalid_params(peer) {
  const empty = { content: undefined, metadata: undefined, filename: '', mediaType: 'text/plain' };
  for (const [parts, fields, path] of [
    ['echo hi', { messageId: '' }, 'message.messageId'],
    [[], {}, 'message.parts'],
    [['echo hi', empty], {}, 'message.parts[1]'],
  ]) {
    for (const call of [() => peer.send(parts, fields), () => allOf(peer.stream(parts, fields))]) {
      const error = await refused('RequestMalformedError', call);
      // Where the client keeps the details, they name the field; over HTTP+JSON it drops them, so the text must.
      if (WIRE === 'JSONRPC') {
        const details = error.data.find((one) => one['@type'].endsWith('BadRequest'));
        assert.ok(details.fieldViolations.some((one) => one.field.startsWith(path)), inspect(details));
      }
      if (IS_GRPC) assert.ok(error.statusDetailsBin.includes(path), error.statusDetailsBin.toString());
      assert.ok(error.message.includes(path), error.message);
    }
  }
}

async function push_notifications(peer) {
  const task = await peer.sendForTask('echo hi');
  const url = 'https://example.com/hook';
  const made = sdk.TaskPushNotificationConfig.fromJSON({ taskId: task.id, id: 'hook', url, token: 't' });
  const one = sdk.GetTaskPushNotificationConfigRequest.fromJSON({ taskId: task.id, id: 'hook' });
  if (!peer.card.capabilities.pushNotifications) {
    // The client itself refuses to make one; a configuration within a message reaches the server.
    await refused('PushNotificationNotSupportedError', async () => peer.client.createTaskPushNotificationConfig(made));
    await refused('PushNotificationNotSupportedError', peer.send('echo hi', { taskPushNotificationConfig: { url } }));
    await refused('PushNotificationNotSupportedError', peer.client.deleteTaskPushNotificationConfig(one));
    return;
  }
  const got = await peer.client.createTaskPushNotificationConfig(made);
  assert.deepEqual([got.id, got.taskId, got.url], ['hook', task.id, url]);
  assert.equal((await peer.client.getTaskPushNotificationConfig(one)).url, url);
  const all = sdk.ListTaskPushNotificationConfigsRequest.fromJSON({ taskId: task.id });
  const listed = await peer.client.listTaskPushNotificationConfig(all);
  assert.deepEqual(listed.configs.map((config) => config.id), ['hook']);
  await peer.client.deleteTaskPushNotificationConfig(one);
  await refused('TaskNotFoundError', peer.client.getTaskPushNotificationConfig(one));
}

async function parts_of_every_kind(peer) {
  const data = { n: 3, neg: -1, big: 1700000000000, f: 1.5, z: 0, no: null, e: {}, l: [], in: { a: [null, { b: [[]] }] } };
  const parts = [
    text('echo hi'),
    part('raw', Buffer.from([...Array(256).keys()]), {
      filename: 'all.bin',
      mediaType: 'application/octet-stream',
      metadata: { deep: { er: [1, 'two', null] } },
    }),
    part('url', 'https://example.com/a?b=c#d', { filename: 'a', mediaType: 'text/plain' }),
    part('data', data),
    part('text', '', { mediaType: 'text/plain' }),
  ];
  const task = await peer.sendForTask(parts);
  assert.deepEqual(task.history[0].parts, parts);
  assert.deepEqual((await peer.get(task.id)).history[0].parts, parts);
}

async function data_of_every_kind(peer) {
  const values = [{ n: 3, no: null, e: {}, l: [], z: 0 }, [1, null, 'x', [[]]], 5, -0.5, 's', '', null, true, false, {}, []];
  for (const value of values) {
    const task = await peer.sendForTask(['data', part('data', value)]);
    const streamed = pieces(await allOf(peer.stream(['data', part('data', value)])))[0].artifact;
    const { artifacts } = await peer.get(task.id);
    if (value === null && !IS_GRPC) {
      // The client takes a `data` that is null for one that is absent; the server sent it.
      assert.match(peer.tap.text, /"artifacts":\[\{[^\]]*"parts":\[\{"data":null\}\]/);
      continue;
    }
    for (const artifact of [task.artifacts[0], streamed, artifacts[0]]) {
      assert.deepEqual(artifact.parts[0].content, { $case: 'data', value });
    }
  }
}

async function artifacts_of_every_kind(peer) {
  const file = { filename: 'output.txt', mediaType: 'text/plain' };
  for (const [verb, wanted] of [
    ['tck-artifact-text', text('Generated text content')],
    ['tck-artifact-file', part('raw', Buffer.from('tck'), file)],
    ['tck-artifact-file-url', part('url', 'https://example.com/output.txt', file)],
    ['tck-artifact-data', part('data', { key: 'value', count: 42 })],
  ]) {
    const task = await peer.sendForTask('go', { messageId: `${verb}-${randomUUID()}` });
    assert.deepEqual(task.artifacts.map((artifact) => artifact.parts), [[wanted]]);
  }
}

async function a_second_agent_by_its_card(peer) {
  // Without the slash the client's resolver would look beside the agent's path, not below it.
  const other = await Peer.of({ url: `${SERVER}/other/` });
  assert.equal(other.card.name, 'other');
  assert.ok(other.card.supportedInterfaces.every((one) => one.tenant === 'other'));
  const task = await other.sendForTask('hello');
  assert.equal(texts(task.artifacts), 'hello');
  assert.equal(stateOf(last(await allOf(other.stream('hello')))), State.TASK_STATE_COMPLETED);
  assert.equal((await other.get(task.id, { historyLength: 0 })).id, task.id);
  assert.ok((await other.list()).tasks.some((one) => one.id === task.id));
  await refused('TaskNotCancelableError', other.cancel(task.id));
  await refused('UnsupportedOperationError', other.subscribe(task.id));
  await refused('TaskNotFoundError', peer.get(task.id));
  assert.ok(!(await peer.list()).tasks.some((one) => one.id === task.id));
  const nobody = sdk.GetTaskRequest.fromJSON({ id: task.id, tenant: 'nobody' });
  await refused('RequestMalformedError', peer.client.getTask(nobody));
}

async function pings_are_no_events() {
  const brisk = await Peer.of({ url: BRISK });
  const events = await allOf(brisk.stream('silent 3'));
  assert.deepEqual(events.map(kind), ['task', 'artifactUpdate', 'statusUpdate']);
  assert.ok(IS_GRPC || brisk.tap.comments >= 5, `only ${brisk.tap.comments} pings`);
}

async function message_only_answers(peer) {
  const before = (await peer.list({ pageSize: 1 })).totalSize;
  for (const answer of [await peer.send('msg hi'), await peer.send('msg hi', { returnImmediately: true })]) {
    assert.deepEqual([answer.parts[0].content.value, answer.role], ['hi', sdk.Role.ROLE_AGENT]);
    assert.ok(answer.messageId && answer.contextId && !answer.taskId);
  }
  const events = await allOf(peer.stream('msg hi'));
  assert.deepEqual(events.map(kind), ['message']);
  assert.equal(events[0].payload.value.parts[0].content.value, 'hi');
  assert.equal((await peer.list({ pageSize: 1 })).totalSize, before);
}

async function return_immediately(peer) {
  const task = await peer.sendForTask('slow 1', { returnImmediately: true });
  assert.ok([State.TASK_STATE_SUBMITTED, State.TASK_STATE_WORKING].includes(task.status.state));
  assert.equal(texts((await peer.until(task.id, State.TASK_STATE_COMPLETED)).artifacts), 'slow 1');
}

async function extensions() {
  const strict = await Peer.of({ url: `${SERVER}/strict/` });
  assert.deepEqual(strict.card.capabilities.extensions.map((one) => [one.uri, one.required]), [[EXTENSION, true]]);
  await refused('ExtensionSupportRequiredError', strict.send('echo hi'));
  await refused('ExtensionSupportRequiredError', strict.stream('echo hi'));
  const named = service(
    clients.ServiceParameters.create(clients.withA2AExtensions('https://example.com/none', EXTENSION)),
  );
  assert.equal((await strict.send('echo hi', {}, named)).status.state, State.TASK_STATE_COMPLETED);
  if (!IS_GRPC) assert.equal(strict.tap.headers.get('a2a-extensions'), EXTENSION);
  assert.equal(stateOf(last(await allOf(strict.stream('echo hi', {}, named)))), State.TASK_STATE_COMPLETED);
}

async function large_messages(peer) {
  const line = '0123456789abcdef'.repeat(12_800);
  assert.equal(texts((await peer.sendForTask(`echo ${line}`)).artifacts), line);
  const streamed = await allOf(peer.stream(`echo ${line}`));
  assert.equal(texts(pieces(streamed).map((piece) => piece.artifact)), line);
  for (const size of [48 << 10, 60_000, 200_000]) {
    const piece = `é${'x'.repeat(97)}`.repeat(Math.floor(size / 99) + 1);
    const got = pieces(await allOf(peer.stream(['chunks 3', piece])));
    assert.deepEqual(got.map((one) => texts([one.artifact])), [piece, piece, piece]);
  }
}

async function text_of_every_kind(peer) {
  const odd = 'a\r\nb\rc\nd\x0be\x0cf\x1cg\x1dh\x1ei\x85j\u2028k\u2029l\ufeff m\x00n 🦀 é \\ " </script> \x7f';
  const task = await peer.sendForTask(`echo ${odd}`);
  assert.equal(texts(task.artifacts), odd);
  assert.equal(texts(pieces(await allOf(peer.stream(`echo ${odd}`))).map((piece) => piece.artifact)), odd);
  assert.equal(texts((await peer.get(task.id)).artifacts), odd);
}

async function authorisation_in_a_stream(peer) {
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

async function authorisation_of_a_waiting_sender(peer) {
  const task = await peer.sendForTask('auth');
  assert.equal(task.status.state, State.TASK_STATE_AUTH_REQUIRED);
  await fetch(`${ADMIN}/test/resume/${task.id}`, { method: 'POST' });
  await peer.until(task.id, State.TASK_STATE_COMPLETED);
}

async function twenty_streams_at_once(peer) {
  const one = async (n) => {
    const events = await allOf(peer.stream(['chunks 30', `piece of ${n};`]));
    assert.deepEqual(pieces(events).map((piece) => texts([piece.artifact])), Array(30).fill(`piece of ${n};`));
    assert.equal(stateOf(last(events)), State.TASK_STATE_COMPLETED);
    return events[0].payload.value.id;
  };
  const ids = await Promise.all(Array.from({ length: 20 }, (_, n) => one(n)));
  assert.equal(new Set(ids).size, 20);
}

async function twenty_subscribers_of_one_task(peer) {
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

// The client sends no `params` at all where it has none.
async function a_call_without_params(peer) {
  // Under the client proper, no version is named for the caller.
  const call = (method, params) =>
    peer.client.transport.callExtensionMethod(method, params, service({ 'A2A-Version': '1.0' }));
  assert.ok(Array.isArray((await call('ListTasks')).result.tasks));
  await refused('UnsupportedOperationError', call('GetExtendedAgentCard'));
  await refused('RequestMalformedError', call('ListTasks', [1]));
  await refused('RequestMalformedError', call('Nope', {}));
}

const EVERYWHERE = [
  send,
  states_that_end_a_task,
  stream,
  follow_up_after_input_required,
  follow_up_in_streams,
  list_tasks,
  get_with_history_length,
  cancel,
  subscribe_after_leaving_a_stream,
  subscribe_after_a_stream_was_aborted,
  subscribe_after_the_connection_was_cut,
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
  pings_are_no_events,
  message_only_answers,
  return_immediately,
  extensions,
  large_messages,
  text_of_every_kind,
  authorisation_in_a_stream,
  authorisation_of_a_waiting_sender,
  twenty_streams_at_once,
  twenty_subscribers_of_one_task,
];
const OF_THE_WIRE = {
  JSONRPC: [resume_after_the_last_event_seen, a_call_without_params],
  'HTTP+JSON': [resume_after_the_last_event_seen],
  GRPC: [],
};

async function run(scenario, peer) {
  log = [];
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
// Open connections would keep the process.
process.exit(0);
