// Signs and verifies agent cards with another library for JavaScript. Input and output are those of card_signing.py.
// Cards are passed as JSON, because the library drops the security schemes of its own card objects from the canonical form.

import { createRequire } from "node:module";
import { createPrivateKey, createPublicKey } from "node:crypto";
import { readFileSync } from "node:fs";

const require = createRequire(new URL("../../target/node/", import.meta.url));
const { generateAgentCardSignature, verifyAgentCardSignature } = require("@a2a-js/sdk");

// The library logs every signature that does not verify.
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
