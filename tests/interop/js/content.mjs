// Scenarios: parts of every kind and size are returned as they were sent.

import assert from 'node:assert/strict';
import { randomUUID } from 'node:crypto';

import { allOf, IS_GRPC, part, pieces, text, texts } from './peer.mjs';

export async function parts_of_every_kind(peer) {
  const numbers = { n: 3, neg: -1, big: 1700000000000, f: 1.5, z: 0 };
  const data = { ...numbers, no: null, e: {}, l: [], in: { a: [null, { b: [[]] }] } };
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

export async function data_of_every_kind(peer) {
  const nested = [{ n: 3, no: null, e: {}, l: [], z: 0 }, [1, null, 'x', [[]]]];
  for (const value of [...nested, 5, -0.5, 's', '', null, true, false, {}, []]) {
    const task = await peer.sendForTask(['data', part('data', value)]);
    const streamed = pieces(await allOf(peer.stream(['data', part('data', value)])))[0].artifact;
    const { artifacts } = await peer.get(task.id);
    if (value === null && !IS_GRPC) {
      // The client treats a `data` of null as absent, although the server sent it.
      assert.match(peer.tap.text, /"artifacts":\[\{[^\]]*"parts":\[\{"data":null\}\]/);
      continue;
    }
    for (const artifact of [task.artifacts[0], streamed, artifacts[0]]) {
      assert.deepEqual(artifact.parts[0].content, { $case: 'data', value });
    }
  }
}

export async function artifacts_of_every_kind(peer) {
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

export async function large_messages(peer) {
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

export async function text_of_every_kind(peer) {
  const odd = 'a\r\nb\rc\nd\x0be\x0cf\x1cg\x1dh\x1ei\x85j\u2028k\u2029l\ufeff m\x00n 🦀 é \\ " </script> \x7f';
  const task = await peer.sendForTask(`echo ${odd}`);
  assert.equal(texts(task.artifacts), odd);
  assert.equal(texts(pieces(await allOf(peer.stream(`echo ${odd}`))).map((piece) => piece.artifact)), odd);
  assert.equal(texts((await peer.get(task.id)).artifacts), odd);
}
