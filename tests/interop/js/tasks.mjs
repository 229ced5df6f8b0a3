// Scenarios: tasks from their first message to their end, and several agents on one server.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';

import { ADMIN, allOf, kind, last, Peer, refused, sdk, SERVER, State, stateOf, texts } from './peer.mjs';

export async function send(peer) {
  const task = await peer.sendForTask('echo hi', { metadata: { note: 'kept' } });
  assert.equal(task.status.state, State.TASK_STATE_COMPLETED);
  assert.equal(texts(task.artifacts), 'hi');
  assert.ok(task.id && task.contextId && task.status.timestamp);
  assert.deepEqual(task.history.map((message) => message.role), [sdk.Role.ROLE_USER]);
  assert.deepEqual(task.history[0].metadata, { note: 'kept' });
  assert.deepEqual(await peer.get(task.id), task);
}

export async function states_that_end_a_task(peer) {
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

export async function follow_up_after_input_required(peer) {
  const asked = await peer.sendForTask('ask');
  assert.equal(asked.status.state, State.TASK_STATE_INPUT_REQUIRED);
  assert.ok(asked.status.message.parts[0].content.value);
  const answered = await peer.sendForTask('blue', { task: asked.id });
  assert.deepEqual([answered.id, answered.contextId], [asked.id, asked.contextId]);
  assert.equal(answered.status.state, State.TASK_STATE_COMPLETED);
  const mine = answered.history.filter((message) => message.role === sdk.Role.ROLE_USER);
  assert.deepEqual(mine.map((message) => message.parts[0].content.value), ['ask', 'blue']);
}

export async function list_tasks(peer) {
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

export async function get_with_history_length(peer) {
  const asked = await peer.sendForTask('ask');
  const { id } = await peer.sendForTask('blue', { task: asked.id });
  const { history } = await peer.get(id);
  assert.deepEqual((await peer.get(id, { historyLength: 0 })).history, []);
  assert.deepEqual((await peer.get(id, { historyLength: 1 })).history, [last(history)]);
  assert.deepEqual((await peer.get(id, { historyLength: 1000 })).history, history);
  assert.deepEqual((await peer.sendForTask('echo hi', { historyLength: 0 })).history, []);
  await refused('RequestMalformedError', peer.get(id, { historyLength: -1 }));
}

export async function cancel(peer) {
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

export async function message_only_answers(peer) {
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

export async function return_immediately(peer) {
  const task = await peer.sendForTask('slow 1', { returnImmediately: true });
  assert.ok([State.TASK_STATE_SUBMITTED, State.TASK_STATE_WORKING].includes(task.status.state));
  assert.equal(texts((await peer.until(task.id, State.TASK_STATE_COMPLETED)).artifacts), 'slow 1');
}

export async function authorisation_of_a_waiting_sender(peer) {
  const task = await peer.sendForTask('auth');
  assert.equal(task.status.state, State.TASK_STATE_AUTH_REQUIRED);
  await fetch(`${ADMIN}/test/resume/${task.id}`, { method: 'POST' });
  await peer.until(task.id, State.TASK_STATE_COMPLETED);
}

export async function push_notifications(peer) {
  const task = await peer.sendForTask('echo hi');
  const url = 'https://example.com/hook';
  const made = sdk.TaskPushNotificationConfig.fromJSON({ taskId: task.id, id: 'hook', url, token: 't' });
  const one = sdk.GetTaskPushNotificationConfigRequest.fromJSON({ taskId: task.id, id: 'hook' });
  if (!peer.card.capabilities.pushNotifications) {
    // The client itself refuses this call, but a configuration within a message reaches the server.
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

export async function a_second_agent_by_its_card(peer) {
  // Without the slash, the client's resolver would look next to the agent's path instead of below it.
  const other = await Peer.of({ url: `${SERVER}/other/` });
  assert.equal(other.card.name, 'other');
  for (const one of other.card.supportedInterfaces)
    assert.equal(one.tenant || '', one.protocolBinding === 'GRPC' ? 'other' : '');
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
