// Mastra's A2A agent gets a question from our agent: it has to wait once, take the answer and finish.
//
// Usage: mastra.mjs URL
import assert from 'node:assert/strict';
import { createRequire } from 'node:module';
import { pathToFileURL } from 'node:url';

const modules = createRequire(new URL('../../target/mastra/', import.meta.url));
const { A2AAgent } = await import(pathToFileURL(modules.resolve('@mastra/core/a2a')));
const agent = new A2AAgent({ url: process.argv[2], protocolVersion: '1.0' });

const asked = await agent.generate('ask');
assert.equal(asked.task.status.state, 'input-required');
const answered = await agent.resumeGenerate('42', { runId: asked.runId });
assert.equal(answered.task.status.state, 'completed');

const stream = await agent.stream('ask');
for await (const _ of stream.fullStream);
const resumed = await agent.resumeStream('42', { runId: stream.runId });
const kinds = [];
for await (const chunk of resumed.fullStream) kinds.push(chunk.type);
assert.ok(!kinds.some((kind) => kind.includes('suspend')), kinds.join());

assert.match((await agent.generate('echo hello')).text, /hello/);
console.log('ok mastra');
process.exit(0);
