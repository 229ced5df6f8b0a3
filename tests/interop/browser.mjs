// A page of another origin calls a server from a real browser, using only fetch and EventSource.
// Arguments: the server's URL, and a port for the page. The origin http://127.0.0.1:PORT is allowed, http://localhost:PORT
// is not. Prints a line for each check that passes, and exits with 1 at the first that fails.

import { createRequire } from "node:module";
import { createServer } from "node:http";

const require = createRequire(new URL("../../target/node/", import.meta.url));
const { chromium } = require("playwright-core");
const [server, port] = process.argv.slice(2);

const pages = createServer((_, response) => {
  response.writeHead(200, { "content-type": "text/html" });
  response.end("<!doctype html><title>a page</title>");
});
await new Promise((ready) => pages.listen(Number(port), ready));

const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? "/usr/bin/chromium",
  args: [
    "--no-sandbox",
    "--host-resolver-rules=MAP rebound.test 127.0.0.1",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
  ],
});

async function open(origin, target = server) {
  const page = await (await browser.newContext()).newPage();
  await page.goto(origin);
  await page.addScriptTag({ content: `(${library})(${JSON.stringify(target)})` });
  return page;
}

// The code that runs in the page.
function library(server) {
  const headers = { "A2A-Version": "1.0", "Content-Type": "application/json" };
  const message = (text) => ({
    message: { messageId: crypto.randomUUID(), role: "ROLE_USER", parts: [{ text }] },
  });
  const post = (path, body, more = {}) =>
    fetch(server + path, { method: "POST", headers: { ...headers, ...more }, body: JSON.stringify(body) });
  const rpc = (method, params) => post("/", { jsonrpc: "2.0", id: 7, method, params });
  // Yields the data of a stream's events as they arrive.
  async function* events(response) {
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let buffer = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      buffer += value;
      for (let end; (end = buffer.indexOf("\n")) >= 0; buffer = buffer.slice(end + 1)) {
        const line = buffer.slice(0, end);
        if (line.startsWith("data:")) yield JSON.parse(line.slice(5));
      }
    }
  }
  // Opens a gate once a stream has begun, which shows that the stream was not held back until its end.
  async function through(response, key, payload) {
    const seen = [];
    for await (const event of events(response)) {
      const { task, statusUpdate, artifactUpdate } = payload(event);
      if (statusUpdate?.status.state === "TASK_STATE_WORKING") await post("/message:send", message(`open ${key}`));
      seen.push(task ? "task" : artifactUpdate ? "piece" : statusUpdate.status.state);
    }
    return seen;
  }
  globalThis.page = { server, headers, message, post, rpc, through };
}

const expected = ["task", "TASK_STATE_WORKING", "piece", "piece", "TASK_STATE_COMPLETED"];

const checks = {
  "http: a message is answered": async () => {
    const response = await page.post("/message:send", page.message("echo hi"));
    const { task } = await response.json();
    return [response.status, task.artifacts[0].parts[0].text];
  },
  "http: a stream comes event by event": async () => {
    const response = await page.post("/message:stream", page.message("gate http chunks 2"));
    return page.through(response, "http", (event) => event);
  },
  "http: an error is read, its headers too": async () => {
    const response = await fetch(`${page.server}/tasks/none`, { headers: page.headers });
    const wrong = await fetch(`${page.server}/message:send`, { headers: page.headers });
    return [response.status, (await response.json()).error.details[0].reason, wrong.status, wrong.headers.get("allow")];
  },
  "http: extensions in use are told": async () => {
    const uri = "https://example.com/extensions/mood";
    const response = await page.post("/message:send", page.message("echo hi"), { "A2A-Extensions": `${uri}, x:other` });
    return [response.status, response.headers.get("a2a-extensions")];
  },
  "http: an EventSource follows a task": async () => {
    const made = await page.post("/message:send", {
      ...page.message("gate source chunks 2"),
      configuration: { returnImmediately: true },
    });
    const { task } = await made.json();
    const source = new EventSource(`${page.server}/tasks/${task.id}:subscribe?A2A-Version=1.0`);
    const seen = [];
    await new Promise((done, fail) => {
      source.onerror = () => fail(new Error(`the source ended after ${seen}`));
      source.onmessage = ({ data, lastEventId }) => {
        const { statusUpdate } = JSON.parse(data);
        seen.push(/^[0-9a-z]+\.[0-9]+$/.test(lastEventId));
        if (seen.length === 1) page.post("/message:send", page.message("open source"));
        if (statusUpdate?.status.state === "TASK_STATE_COMPLETED") done(source.close());
      };
    });
    return [seen.length >= 4, seen.every(Boolean)];
  },
  "jsonrpc: a message is answered": async () => {
    const response = await page.rpc("SendMessage", page.message("echo hi"));
    const { id, result } = await response.json();
    return [response.status, id, result.task.artifacts[0].parts[0].text];
  },
  "jsonrpc: a stream comes event by event": async () => {
    const response = await page.rpc("SendStreamingMessage", page.message("gate rpc chunks 2"));
    return page.through(response, "rpc", ({ result }) => result);
  },
  "jsonrpc: an error is read": async () => {
    const response = await page.rpc("GetTask", { id: "none" });
    const { error } = await response.json();
    return [response.status, error.code, error.data[0].reason];
  },
  "card: it is read, its tag too, and asked for again by that": async () => {
    const url = `${page.server}/.well-known/agent-card.json`;
    const first = await fetch(url);
    const tag = first.headers.get("etag");
    const again = await fetch(url, { headers: { "If-None-Match": tag }, cache: "no-store" });
    return [first.status, (await first.json()).name, /^".+"$/.test(tag), again.status];
  },
  "grpc-web: a call is answered, and an error read": async () => {
    const call = (method, bytes) =>
      fetch(`${page.server}/lf.a2a.v1.A2AService/${method}`, {
        method: "POST",
        headers: { "Content-Type": "application/grpc-web+proto", "X-Grpc-Web": "1", "A2A-Version": "1.0" },
        body: new Uint8Array([0, 0, 0, 0, bytes.length, ...bytes]),
      });
    const text = (bytes) => new TextDecoder().decode(bytes);
    // GetTask of "none": field 2.
    const lost = await call("GetTask", [0x12, 4, ...new TextEncoder().encode("none")]);
    // ListTasks without parameters: a message, followed by the trailers.
    const listed = new Uint8Array(await (await call("ListTasks", [])).arrayBuffer());
    const length = new DataView(listed.buffer).getUint32(1);
    const trailers = listed.slice(5 + length);
    return [lost.headers.get("grpc-status"), listed[0], trailers[0], text(trailers.slice(5)).includes("grpc-status:0")];
  },
};
const results = {
  "http: a message is answered": [200, "hi"],
  "http: a stream comes event by event": expected,
  "http: an error is read, its headers too": [404, "TASK_NOT_FOUND", 405, "POST"],
  "http: extensions in use are told": [200, "https://example.com/extensions/mood"],
  "http: an EventSource follows a task": [true, true],
  "jsonrpc: a message is answered": [200, 7, "hi"],
  "jsonrpc: a stream comes event by event": expected,
  "jsonrpc: an error is read": [200, -32001, "TASK_NOT_FOUND"],
  "card: it is read, its tag too, and asked for again by that": [200, "kit", true, 304],
  "grpc-web: a call is answered, and an error read": ["5", 0, 0x80, true],
};

let failed = 0;
try {
  const allowed = await open(`http://127.0.0.1:${port}/`);
  for (const [name, check] of Object.entries(checks)) {
    const result = JSON.stringify(await allowed.evaluate(check));
    const right = result === JSON.stringify(results[name]);
    console.log(right ? `ok ${name}` : `failed ${name}: ${result}`);
    failed += !right;
  }
  // The same calls from a page that is not allowed: the browser withholds the answers.
  const other = await open(`http://localhost:${port}/`);
  for (const [name, check] of Object.entries(checks)) {
    const kept = await other.evaluate(check).then(
      (result) => JSON.stringify(result),
      (error) => /Failed to fetch/.test(error.message) || error.message,
    );
    console.log(kept === true ? `ok kept from others: ${name}` : `failed: others have ${name}: ${kept}`);
    failed += kept !== true;
  }
  // Requests that a browser sends without asking first run nothing either.
  const count = () => allowed.evaluate(async () => (await (await fetch(`${page.server}/tasks`, { headers: page.headers })).json()).totalSize);
  const before = await count();
  await other.evaluate(async () => {
    const { server, message } = page;
    const call = { jsonrpc: "2.0", id: 1, method: "SendMessage", params: message("from elsewhere") };
    for (const type of ["text/plain", "application/x-www-form-urlencoded", ""]) {
      for (const [path, body] of [["/message:send", message("from elsewhere")], ["/", call]]) {
        const blob = new Blob([JSON.stringify(body)], { type });
        await fetch(`${server}${path}?A2A-Version=1.0`, { method: "POST", mode: "no-cors", body: blob });
        navigator.sendBeacon(`${server}${path}?A2A-Version=1.0`, blob);
      }
    }
  });
  const after = await count();
  const unchanged = before > 0 && before === after;
  console.log(unchanged ? "ok nothing runs for others" : `failed: others ran ${after - before} tasks`);
  failed += !unchanged;
  // A page that the server itself shows may call it.
  const own = await open(`${server}/livez`);
  const found = await own.evaluate(async () => (await page.post("/message:send", page.message("echo hi"))).status);
  console.log(found === 200 ? "ok the server's own page" : `failed: the server's own page: ${found}`);
  failed += found !== 200;
  // A name that only points at the server is not the server's.
  const rebound = await (await browser.newContext()).newPage();
  const shown = await rebound.goto(`${server.replace("127.0.0.1", "rebound.test")}/livez`);
  console.log(shown.status() === 421 ? "ok another name" : `failed: another name: ${shown.status()}`);
  failed += shown.status() !== 421;
} finally {
  await browser.close();
  pages.close();
}
process.exit(failed ? 1 : 0);
