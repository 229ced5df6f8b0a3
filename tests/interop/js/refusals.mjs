// Scenarios: a refused call raises the client's own typed errors.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';
import { inspect } from 'node:util';

import {
  allOf,
  clients,
  IS_GRPC,
  last,
  part,
  Peer,
  refused,
  SERVER,
  service,
  State,
  stateOf,
  WIRE,
} from './peer.mjs';

const EXTENSION = 'https://example.com/extensions/strict';

export async function task_not_found(peer) {
  const none = randomUUID();
  await refused('TaskNotFoundError', peer.get(none));
  await refused('TaskNotFoundError', peer.cancel(none));
  await refused('TaskNotFoundError', peer.subscribe(none));
  const before = (await peer.list({ pageSize: 1 })).totalSize;
  await refused('TaskNotFoundError', peer.send('echo hi', { task: none }));
  await refused('TaskNotFoundError', peer.stream('echo hi', { task: none }));
  assert.equal((await peer.list({ pageSize: 1 })).totalSize, before);
}

export async function unsupported_operation(peer) {
  const task = await peer.sendForTask('echo hi');
  await refused('UnsupportedOperationError', peer.send('echo again', { task: task.id }));
  await refused('UnsupportedOperationError', peer.stream('echo again', { task: task.id }));
  assert.deepEqual(await peer.get(task.id), task);
}

export async function version_not_supported() {
  // The client overrides the caller's version with its own, which an interceptor can change.
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

export async function content_type_not_supported(peer) {
  const picture = part('raw', Buffer.from('PNG'), { mediaType: 'image/png' });
  await refused('ContentTypeNotSupportedError', peer.send(['echo hi', picture]));
  await refused('ContentTypeNotSupportedError', peer.stream(['echo hi', picture]));
}

export async function invalid_params(peer) {
  const empty = { content: undefined, metadata: undefined, filename: '', mediaType: 'text/plain' };
  for (const [parts, fields, path] of [
    ['echo hi', { messageId: '' }, 'message.messageId'],
    [[], {}, 'message.parts'],
    [['echo hi', empty], {}, 'message.parts[1]'],
  ]) {
    for (const call of [() => peer.send(parts, fields), () => allOf(peer.stream(parts, fields))]) {
      const error = await refused('RequestMalformedError', call);
      // The details name the field where the client keeps them. Over HTTP+JSON it drops them, so the message must name it.
      if (WIRE === 'JSONRPC') {
        const details = error.data.find((one) => one['@type'].endsWith('BadRequest'));
        assert.ok(details.fieldViolations.some((one) => one.field.startsWith(path)), inspect(details));
      }
      if (IS_GRPC) assert.ok(error.statusDetailsBin.includes(path), error.statusDetailsBin.toString());
      assert.ok(error.message.includes(path), error.message);
    }
  }
}

export async function extensions() {
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

// The client omits `params` if there are none.
export async function a_call_without_params(peer) {
  // The transport below the client does not add a version.
  const call = (method, params) =>
    peer.client.transport.callExtensionMethod(method, params, service({ 'A2A-Version': '1.0' }));
  assert.ok(Array.isArray((await call('ListTasks')).result.tasks));
  await refused('UnsupportedOperationError', call('GetExtendedAgentCard'));
  await refused('RequestMalformedError', call('ListTasks', [1]));
  await refused('RequestMalformedError', call('Nope', {}));
}
