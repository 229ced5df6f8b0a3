// An agent served by another library over all three bindings: agent_server.py in JavaScript.

import { createRequire } from 'node:module';
import { setTimeout as sleep } from 'node:timers/promises';

const require = createRequire(new URL('../../target/node/', import.meta.url));
const express = require('express');
const grpc = require('@grpc/grpc-js');
const { AgentCard, Message, Task, TaskArtifactUpdateEvent, TaskState, TaskStatusUpdateEvent } = require('@a2a-js/sdk');
const { AgentEvent, DefaultRequestHandler, InMemoryTaskStore } = require('@a2a-js/sdk/server');
const { UserBuilder, agentCardHandler, jsonRpcHandler, restHandler } = require('@a2a-js/sdk/server/express');
const { A2AService, grpcService } = require('@a2a-js/sdk/server/grpc');

const canceled = new Set();

class Words {
  async execute({ taskId, contextId, task, userMessage }, bus) {
    const mine = { role: 'ROLE_AGENT', taskId, contextId };
    const said = (text) => Message.fromJSON({ ...mine, messageId: crypto.randomUUID(), parts: [{ text }] });
    const status = (state, message) => ({ state, message, timestamp: new Date().toISOString() });
    const update = (state, message) =>
      bus.publish(AgentEvent.statusUpdate({ taskId, contextId, status: status(state, message), metadata: undefined }));
    const words = userMessage.parts[0].content.value.split(' ');
    if (words[0] === 'say') {
      bus.publish(AgentEvent.message({ ...said(words.slice(1).join(' ')), taskId: '' }));
      bus.finished();
      return;
    }
    const first = { id: taskId, contextId, history: [Message.toJSON(userMessage)] };
    bus.publish(AgentEvent.task(task ?? { ...Task.fromJSON(first), status: status(TaskState.TASK_STATE_SUBMITTED) }));
    update(TaskState.TASK_STATE_WORKING);
    if (words[0] === 'ask') {
      update(TaskState.TASK_STATE_INPUT_REQUIRED, said('which?'));
      bus.finished();
      return;
    }
    for (const [at, word] of words.entries()) {
      if (canceled.has(taskId)) return;
      const artifact = { artifactId: 'a', parts: [{ text: `${word} ` }] };
      const piece = TaskArtifactUpdateEvent.fromJSON({ taskId, contextId, artifact, append: at > 0 });
      bus.publish(AgentEvent.artifactUpdate(piece));
      if (words[0] === 'slow') await sleep(200);
    }
    update(TaskState.TASK_STATE_COMPLETED);
    bus.finished();
  }

  async cancelTask(taskId, bus) {
    canceled.add(taskId);
    const status = { state: 'TASK_STATE_CANCELED', timestamp: new Date().toISOString() };
    bus.publish(AgentEvent.statusUpdate(TaskStatusUpdateEvent.fromJSON({ taskId, status })));
    bus.finished();
  }
}

const app = express();
const listener = await new Promise((ready) => {
  const server = app.listen(0, '127.0.0.1', () => ready(server));
});
const url = `http://127.0.0.1:${listener.address().port}`;
const grpcServer = new grpc.Server();
const anyPort = ['127.0.0.1:0', grpc.ServerCredentials.createInsecure()];
const grpcPort = await new Promise((ready, fail) => {
  grpcServer.bindAsync(...anyPort, (error, port) => (error ? fail(error) : ready(port)));
});
const card = AgentCard.fromJSON({
  name: 'words',
  description: 'Answers word by word',
  version: '1',
  defaultInputModes: ['text/plain'],
  defaultOutputModes: ['text/plain'],
  capabilities: { streaming: true },
  skills: [{ id: 'words', name: 'Words', description: 'Words', tags: ['words'] }],
  supportedInterfaces: [
    { url: `${url}/rpc`, protocolBinding: 'JSONRPC', protocolVersion: '1.0' },
    { url: `127.0.0.1:${grpcPort}`, protocolBinding: 'GRPC', protocolVersion: '1.0' },
    { url: `${url}/rest`, protocolBinding: 'HTTP+JSON', protocolVersion: '1.0' },
  ],
});
const requestHandler = new DefaultRequestHandler(card, new InMemoryTaskStore(), new Words());
const anyone = { requestHandler, userBuilder: UserBuilder.noAuthentication };
app.use('/.well-known/agent-card.json', agentCardHandler({ agentCardProvider: requestHandler }));
app.use('/rpc', jsonRpcHandler(anyone));
app.use('/rest', restHandler(anyone));
grpcServer.addService(A2AService, grpcService(anyone));
console.log(url);
