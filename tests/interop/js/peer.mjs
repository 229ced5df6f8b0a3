// The client under test, a log of what it sends and receives, and checks that scenarios share.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { createRequire } from 'node:module';
import { setTimeout as sleep } from 'node:timers/promises';
import { inspect } from 'node:util';

const require = createRequire(new URL('../../../target/node/', import.meta.url));
export const sdk = require('@a2a-js/sdk');
export const clients = require('@a2a-js/sdk/client');
export const { GrpcTransportFactory } = require('@a2a-js/sdk/client/grpc');

export const [WIRE, SERVER, ADMIN, BRISK] = process.argv.slice(2);
export const IS_GRPC = WIRE === 'GRPC';
export const State = sdk.TaskState;

// Everything sent and received since the scenario began.
export const log = [];

export function note(what, value) {
  const text = typeof value === 'string' ? value : inspect(value, { depth: 12, breakLength: Infinity });
  log.push(`${what}: ${text.length < 3000 ? text : `${text.slice(0, 3000)} ...`}`);
}

// Logs each HTTP request and answer, and everything in event streams besides the data.
export class Wiretap {
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

// Returns a client of one agent, which it finds with the client's own resolver.
export class Peer {
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

  // Polls until the task has the state.
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

// Returns a request with a message of these parts. A string stands for a text part.
export function askFor(parts, { task, context, messageId = randomUUID(), metadata, ...configuration } = {}) {
  const request = sdk.SendMessageRequest.fromJSON({
    message: { messageId, role: 'ROLE_USER', taskId: task, contextId: context, metadata },
    configuration,
  });
  request.message.parts = [parts].flat().map((part) => (typeof part === 'string' ? text(part) : part));
  return request;
}

export const part = (kind, value, fields) => ({
  content: { $case: kind, value },
  metadata: undefined,
  filename: '',
  mediaType: '',
  ...fields,
});

export const text = (value) => part('text', value);
export const service = (serviceParameters) => ({ serviceParameters });

// Returns the error with this name that the call must end with.
export async function refused(name, call) {
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

export async function allOf(stream) {
  const events = [];
  for await (const event of stream) events.push(event);
  return events;
}

export const kind = (event) => event.payload?.$case;
export const stateOf = (event) => event.payload.value.status?.state;

export const texts = (artifacts) =>
  artifacts
    .flatMap((artifact) => artifact.parts)
    .map((one) => (one.content?.$case === 'text' ? one.content.value : ''))
    .join('');

export const pieces = (events) =>
  events.filter((event) => kind(event) === 'artifactUpdate').map((event) => event.payload.value);

export const last = (list) => list.at(-1);
