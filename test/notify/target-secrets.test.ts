// Secrets in the settings of a target: its secret, and tokens in an address or in arguments.

import { readFileSync } from "node:fs";
import { createServer as createTcp, type AddressInfo } from "node:net";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import { Redactor } from "../../src/domain/redaction.ts";
import { ANSWER_BYTES_MAX } from "../../src/notify/post.ts";
import { NotifyWorld, Receiver } from "./world.ts";

const TOKEN = "tok3n-of-the-receiver";
const inside = { allow_private: true } as const;

describe("a token of a target", () => {
  it("is masked from the start of the next process on, before any message needs it", async () => {
    const before = await NotifyWorld.open();
    const address = `https://hooks.example/services/T0/B0/${TOKEN}`;
    process.env["SVC_TEST_HOOK"] = address;
    try {
      await before.add("team", { kind: "slack", secret_ref: "env://SVC_TEST_HOOK" });
      await before.add("cmd", { kind: "command", argv: ["tell", "--token=an0ther-token"] });
      await before.add("hook", { kind: "webhook", url: `https://hooks.example/?room=1&auth=${TOKEN}-of-hook` });
      const world = await NotifyWorld.open(before);
      world.targets.maskSecrets();
      expect(world.secrets).toEqual(expect.arrayContaining([address, TOKEN, `/services/T0/B0/${TOKEN}`]));
      expect(world.secrets).toEqual(expect.arrayContaining(["an0ther-token", `${TOKEN}-of-hook`]));
      delete process.env["SVC_TEST_HOOK"];
      world.targets.maskSecrets();
    } finally {
      delete process.env["SVC_TEST_HOOK"];
    }
  });

  it("is kept in the store of credentials, and the target holds its reference alone", async () => {
    const world = await NotifyWorld.open();
    const address = `https://hooks.example/services/T0/B0/${TOKEN}`;
    await world.add("team", { kind: "slack" }, address);
    await world.add("other", { kind: "slack", secret_ref: `literal://${address}-2` });
    for (const name of ["team", "other"])
      expect(world.targets.get(name)?.target).toMatchObject({ secret_ref: `store://notify/${name}/secret` });
    expect(JSON.stringify(world.rows.targets())).not.toContain(TOKEN);
    const store = readFileSync(join(world.h.home, "credentials.json"), "utf8");
    expect(JSON.parse(store)).toMatchObject({
      notify: { team: { secret: address }, other: { secret: `${address}-2` } },
    });
  });

  it("is in no error that quotes the receiver: whole, its path, or the token alone", async () => {
    const [world, receiver] = [await NotifyWorld.open(), await Receiver.open()];
    const path = `/services/T0/B0/${TOKEN}`;
    await world.add("team", { kind: "slack", ...inside }, receiver.url + path);
    await world.add("hook", { kind: "webhook", url: `${receiver.url}${path}?key=${TOKEN}-2`, ...inside });
    await world.add("cmd", { kind: "command", argv: ["sh", "-c", 'echo "$1" >&2; exit 1', "sh", `--token=${TOKEN}`] });
    for (const name of ["team", "hook", "cmd"]) {
      receiver.answers = [{ status: 404, body: `Cannot POST ${path}?key=${TOKEN}-2, no ${TOKEN}` }];
      const error = await world.service.test(name).catch((e: unknown) => e);
      expect(String(error)).toContain(`target ${name}`);
      expect(String(error)).not.toContain(TOKEN);
    }
    expect(JSON.stringify(world.service.deliveries({ limit: 9 }))).not.toContain(TOKEN);
  });

  it("leaves no part of itself in an error, wherever the quote of the receiver ends", async () => {
    const [world, receiver] = [await NotifyWorld.open(), await Receiver.open()];
    const part = TOKEN.slice(0, 12);
    await world.add("team", { kind: "slack", ...inside }, `${receiver.url}/services/T0/B0/${TOKEN}`);
    await world.add("hook", { kind: "webhook", url: `${receiver.url}/services/T0/B0/${TOKEN}`, ...inside });
    // Express answers so: what it was asked for begins after 130 characters of markup.
    const answers = [185, 170, 160].map((at) => `Cannot POST ${"x".repeat(at - 12)}${TOKEN} is unknown`);
    // Line feeds take no room in an error: the end of what svc reads is quoted.
    answers.push(`${"\n".repeat(ANSWER_BYTES_MAX - part.length)}${TOKEN}`);
    for (const name of ["team", "hook"])
      for (const body of answers) {
        receiver.answers = [{ status: 404, body }];
        const error = await world.service.test(name).catch((e: unknown) => e);
        expect(String(error)).toContain("answers 404");
        expect(String(error)).not.toContain(part.slice(0, 8));
      }
    for (const [i, lead] of [185, 1_990].entries()) {
      const script = `head -c ${lead} /dev/zero | tr '\\0' '${i === 0 ? "x" : "\\n"}' >&2; echo "$1" >&2; exit 1`;
      await world.add("cmd", { kind: "command", argv: ["sh", "-c", script, "sh", `--token=${TOKEN}`] });
      const error = await world.service.test("cmd").catch((e: unknown) => e);
      expect(String(error)).toContain("sh ended with 1");
      expect(String(error)).not.toContain(part.slice(0, 8));
    }
    const mail = createTcp((socket) => socket.on("error", () => undefined).end(`554 ${"x".repeat(155)} ${TOKEN}\r\n`));
    await new Promise<void>((up) => mail.listen(0, "127.0.0.1", up));
    try {
      const { port } = mail.address() as AddressInfo;
      const people = { from: "svc@example.com", to: ["me@example.com"] };
      await world.add("mail", { kind: "email", host: "127.0.0.1", port, ...people, ...inside }, TOKEN);
      const error = await world.service.test("mail").catch((e: unknown) => e);
      expect(String(error)).toContain("554");
      expect(String(error)).not.toContain(part.slice(0, 8));
    } finally {
      mail.close();
    }
  });

  it("stays when a caller sends back the settings in which it was masked, and a mask never takes its place", async () => {
    const [world, receiver] = [await NotifyWorld.open(), await Receiver.open()];
    const url = `${receiver.url}/hook?token=${TOKEN}`;
    const argv = ["tell", "--token", TOKEN];
    await world.add("hook", { kind: "webhook", url, ...inside });
    await world.add("cmd", { kind: "command", argv });
    const masked = new Redactor(world.secrets);
    const shown = world.service.overview().targets.map(({ settings }) => masked.redactValue(settings));
    expect(JSON.stringify(shown)).not.toContain(TOKEN);
    await world.add("hook", { kind: "webhook", url: masked.redactText(url), events: ["failed"], ...inside });
    await world.add("cmd", { kind: "command", argv: masked.redactValue(argv), events: ["failed"] });
    expect(world.targets.get("hook")?.target).toMatchObject({ url, events: ["failed"] });
    expect(world.targets.get("cmd")?.target).toMatchObject({ argv, events: ["failed"] });
    for (const target of [
      { kind: "webhook", url: masked.redactText(`${url}&more=1`), ...inside },
      { kind: "command", argv: masked.redactValue([...argv, "more"]) },
    ] as const) {
      await expect(world.add(target.kind === "webhook" ? "hook" : "cmd", target)).rejects.toMatchObject({
        code: "invalid_request",
      });
      await expect(world.add("new", target)).rejects.toThrow("write it there again");
    }
  });
});
