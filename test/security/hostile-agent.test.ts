// A machine whose agent floods svc: what it sends is refused before it is parsed, as one byte limit lets it stop the control plane for a minute.

import { Duplex } from "node:stream";
import { afterEach, expect, it, onTestFinished, vi } from "vitest";
import { z } from "zod";
import { AgentClient } from "../../src/ssh/agent-client.ts";
import { RemoteHost } from "../../src/ssh/remote-host.ts";
import { DEADLINE_MS } from "../deadline.ts";

const signal = new AbortController().signal;
const source = Buffer.from("pass");

/** An agent that answers each call with these bytes; `%` stands for the call's id. */
async function agent(
  answers: Record<string, (send: (head: string, body?: Buffer) => void) => void>,
): Promise<AgentClient> {
  let heard = "";
  let isGreeted = false;
  const channel: Duplex = new Duplex({
    read: () => undefined,
    write: (data: Buffer, _, done) => {
      heard += data.toString("latin1");
      const nonce = isGreeted ? null : /NONCE = "(\w+)"\n/.exec(heard);
      if (nonce) {
        [isGreeted, heard] = [true, ""];
        channel.push(`SVC-AGENT ${nonce[1]}\n`);
      }
      const lines = isGreeted ? heard.split("\n") : [];
      if (isGreeted) heard = lines.pop() ?? "";
      for (const line of lines) {
        const { id, op } = JSON.parse(line) as { id: number; op: string };
        answers[op]?.((head, body) => {
          const length = body ? `,"bytes":${body.length}` : "";
          channel.push(`{"id":${id}${length},${head}}\n`);
          if (body) channel.push(body);
        });
      }
      done();
    },
  });
  const stderr = new Duplex({ read: () => undefined });
  const client = await AgentClient.open(Object.assign(channel, { stderr }), {
    machine: "m1",
    source,
    signal,
  });
  onTestFinished(() => client.close());
  return client;
}
const host = (client: AgentClient): RemoteHost =>
  new RemoteHost({
    machine: "m1",
    runDir: "/r",
    agent: () => Promise.resolve(client),
    runner: { source, version: "1" } as never,
  });

/** The longest text that was parsed meanwhile. */
function longestParsed(): () => number {
  const parse = vi.spyOn(JSON, "parse");
  return () => parse.mock.calls.reduce((longest, [text]) => Math.max(longest, text.length), 0);
}
afterEach(() => void vi.restoreAllMocks());

const FLOOD = `[${"[[[]]],".repeat(100_000)}0]`;

it("A listing with a row of very many or deeply nested values is refused without being parsed", async () => {
  const rows = [
    FLOOD,
    `[${"0,".repeat(100_000)}0]`,
    `${"[".repeat(100_000)}${"]".repeat(100_000)}`,
    `{"a":{"b":${FLOOD}}}`,
  ];
  for (const row of rows) {
    const client = await agent({ list: (send) => send('"ok":{"full":false}', Buffer.from(`${row}\n`)) });
    const longest = longestParsed();
    await expect(host(client).listCheckpoints(signal)).rejects.toMatchObject({ code: "machine_unfit" });
    expect(longest()).toBeLessThan(100_000);
  }
});

it("A listing of empty lines is an empty one", async () => {
  const client = await agent({ list: (send) => send('"ok":{"full":false}', Buffer.alloc(1 << 20, "\n")) });
  expect(await host(client).listCheckpoints(signal)).toEqual([]);
});

it("An answer with very many values ends the agent without being parsed", async () => {
  const client = await agent({ read_pieces: (send) => send(`"ok":{"pieces":[${"0,".repeat(30_000)}0]}`) });
  const longest = longestParsed();
  await expect(host(client).readPieces([], signal)).rejects.toMatchObject({ code: "machine_unfit" });
  expect(longest()).toBeLessThan(60_000);
  expect(client.closed).toBe(true);
});

it("An agent that sends keepalives without end is ended, before and after its answer", async () => {
  const flood = (send: (head: string) => void): void => {
    for (let i = 0; i < 1_000; i++) send('"alive":true');
  };
  const waiting = await agent({ hello: flood });
  await expect(waiting.call("hello", {}, z.unknown(), { signal })).rejects.toMatchObject({ code: "machine_unfit" });
  const late = await agent({
    hello: (send) => {
      send('"ok":1');
      flood(send);
    },
  });
  await late.call("hello", {}, z.unknown(), { signal });
  await vi.waitFor(() => expect(late.closed).toBe(true), DEADLINE_MS);
});
