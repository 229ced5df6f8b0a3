// Signs and verifies agent cards with other people's library for JavaScript; reads and writes what card_signing.py does.
// Cards go in as JSON: of its own card objects the library forgets the security schemes when it makes the canonical form.

import { createRequire } from "node:module";
import { createPrivateKey, createPublicKey } from "node:crypto";
import { readFileSync } from "node:fs";

const require = createRequire(new URL("../../target/node/", import.meta.url));
const { generateAgentCardSignature, verifyAgentCardSignature } = require("@a2a-js/sdk");

// It tells the console of every signature that does not hold.
console.debug = () => {};

const task = JSON.parse(readFileSync(0, "utf8"));
const keys = Object.fromEntries(
  task.jwks.keys.map((key) => [key.kid, createPublicKey({ key, format: "jwk" })]),
);
const verify = verifyAgentCardSignature(async (kid) => keys[kid]);
const sign = generateAgentCardSignature(createPrivateKey(task.key), task.header);

const verified = [];
for (const card of task.verify) {
  try {
    await verify(card);
    verified.push(true);
  } catch (error) {
    verified.push(String(error));
  }
}
const signed = [];
for (const card of task.sign) {
  signed.push(await sign(card));
}
process.stdout.write(JSON.stringify({ verified, signed }));
