// `svc notify`: the targets and rules of notifications, a test message, and the history. A secret is read from
// standard input and never from the command line.

import type { NotifyTargetBody, Notifications, ShownTarget, Tested, Deliveries } from "../../schemas/notify.ts";
import { needsSecret, TARGET_KINDS } from "../../schemas/notify-names.ts";
import { safeField } from "../../domain/terminal-text.ts";
import { usage } from "../argv.ts";
import type { Command, Input } from "../command.ts";
import { runningClient, withOwnControlPlane } from "../control-plane.ts";
import type { Io } from "../io.ts";
import { readSecret } from "../read-secret.ts";
import { instant, printJson, table } from "../text.ts";

/** The operations, over HTTP or in this process. */
interface Desk {
  overview(): Notifications | Promise<Notifications>;
  save(name: string, body: NotifyTargetBody): Promise<ShownTarget>;
  remove(name: string): Promise<unknown>;
  test(name: string): Promise<Tested>;
  setRules(lines: readonly string[]): Promise<string[]>;
  deliveries(query: { limit: number }): Deliveries | Promise<Deliveries>;
}

const VERBS = ["list", "add", "test", "rm", "rules", "history"] as const;
const SHOWN = 50;

export const notify: Command = {
  name: "notify",
  args: "[verb] [name] [...fields]",
  summary: "List, add, test or remove notification targets; set rules; show what was sent",
  options: [],
  exits: [
    ["3", "no such target"],
    ["4", "the target's secret is missing"],
    ["5", "control plane not reachable"],
  ],
  examples: [
    "svc notify",
    "svc notify add phone ntfy topic=my-long-random-topic",
    "svc notify add team slack < webhook-url.txt",
    "svc notify add mail email host=smtp.example.com from=me@example.com to=me@example.com secret",
    "svc notify test phone",
    'svc notify rules "waiting 30m" "loss is nan, stop"',
    "svc notify history",
  ],
  async run(input, io) {
    const [given = "list", name, ...fields] = input.args;
    const verb = VERBS.find((each) => each === given);
    if (verb === undefined)
      throw usage(`Unknown action \`svc notify ${safeField(given)}\`.`, `Use ${VERBS.join(", ")}.`);
    if ((verb === "list" || verb === "history") && name !== undefined)
      throw usage(`\`svc notify ${verb}\` takes no further arguments.`, `\`svc notify ${verb}\` lists everything.`);
    if (verb === "list") return withDesk(io, async (desk) => listed(await desk.overview(), input, io));
    if (verb === "history")
      return withDesk(io, async (desk) => history(await desk.deliveries({ limit: SHOWN }), input, io));
    if (verb === "rules") return rules(name === undefined ? [] : [name, ...fields], input, io);
    if (name === undefined) throw usage(`\`svc notify ${verb}\` needs NAME.`, "`svc notify` lists the targets.");
    if (verb === "add") {
      const body = await bodyOf(fields, io);
      return withDesk(io, async (desk) => {
        const saved = await desk.save(name, body);
        if (input.json) await printJson(io, saved);
        else io.err(`Saved ${saved.name}. \`svc notify test ${saved.name}\` sends a test message.`);
        return 0;
      });
    }
    return withDesk(io, async (desk) => {
      if (verb === "rm") {
        await desk.remove(name);
        io.err(`Removed ${safeField(name)}.`);
        return 0;
      }
      const tested = await desk.test(name);
      if (input.json) await printJson(io, tested);
      else io.err(`${safeField(name)} has accepted a test message after ${tested.seconds.toFixed(1)} s.`);
      return 0;
    });
  },
};

async function withDesk(io: Io, use: (desk: Desk) => Promise<number>): Promise<number> {
  const client = await runningClient(io);
  if (!client) return withOwnControlPlane(io, "look", (cp) => use(cp.notifications));
  return use({
    overview: () => client.notifications(),
    save: (name, body) => client.saveNotifyTarget(name, body),
    remove: (name) => client.removeNotifyTarget(name),
    test: (name) => client.testNotifyTarget(name),
    setRules: (lines) => client.setNotifyRules(lines),
    deliveries: ({ limit }) => client.notifyDeliveries(limit),
  });
}

/** The fields `key=value` after the kind; `to` and `events` are lists, `argv` is the rest of the words. */
async function bodyOf([kind = "", ...fields]: string[], io: Io): Promise<NotifyTargetBody> {
  const known = TARGET_KINDS.find((each) => each === kind);
  if (known === undefined)
    throw usage(
      kind === "" ? "`svc notify add` needs NAME and KIND." : `Unknown kind ${safeField(kind)}.`,
      `Use ${TARGET_KINDS.join(", ")}.`,
    );
  const target: Record<string, unknown> = { kind: known };
  // The other kinds take one with `secret`.
  let asks = needsSecret(known);
  if (known === "command") target["argv"] = fields;
  else
    for (const field of fields) {
      const [key = "", ...rest] = field.split("=");
      const value = rest.join("=");
      if (field === "secret") asks = true;
      else if (rest.length === 0)
        throw usage(
          `${safeField(field)} is not KEY=VALUE.`,
          "Only `secret` has no value: it is read from standard input.",
        );
      else if (key === "secret")
        throw usage(
          "A secret on the command line is visible to others.",
          "Write `secret` alone: it is read from standard input.",
        );
      else target[key] = valueOf(key, value);
    }
  if (target["secret_ref"] !== undefined) asks = false;
  const { NotifyTarget } = await import("../../schemas/notify.ts");
  const { checked } = await import("../../api/field-errors.ts");
  const valid = checked(NotifyTarget, target, "target");
  if (!asks) return { target: valid };
  const secret = await readSecret(`Secret of the ${known} target: `, io);
  if (secret === "")
    throw usage(
      `The secret of the ${known} target is empty.`,
      `It is read from standard input: \`svc notify add NAME ${known} … < secret.txt\`. Nothing was changed.`,
    );
  return { target: valid, secret };
}

function valueOf(key: string, value: string): unknown {
  if (key === "to" || key === "events") return value.split(",").map((part) => part.trim());
  if (key === "port") return /^\d+$/.test(value) ? Number(value) : value;
  if (key !== "allow_private") return value;
  return value === "true" ? true : value === "false" ? false : value;
}

async function listed(
  { targets, rules: lines, registry_rules: fixed }: Notifications,
  input: Input,
  io: Io,
): Promise<number> {
  if (input.json) {
    await printJson(io, { targets, rules: lines, registry_rules: fixed });
    return 0;
  }
  if (targets.length === 0) io.err("There is no target. `svc notify add phone ntfy topic=…` adds one.");
  else
    await io.out(
      table(
        io,
        [
          { title: "NAME" },
          { title: "KIND" },
          { title: "WAITING", right: true },
          { title: "LAST SENT" },
          { title: "ERROR" },
        ],
        targets.map((each) => [
          each.name,
          each.kind,
          String(each.waiting),
          instant(io, each.last_sent_at),
          safeField(each.error ?? ""),
        ]),
      ),
    );
  for (const line of lines) io.err(`rule: ${safeField(line)}`);
  for (const line of fixed) io.err(`rule of configure(): ${safeField(line)}`);
  return 0;
}

async function history({ deliveries }: Deliveries, input: Input, io: Io): Promise<number> {
  if (input.json) await printJson(io, { deliveries });
  else if (deliveries.length === 0) io.err("svc has not sent anything yet.");
  else
    await io.out(
      table(
        io,
        [
          { title: "AT" },
          { title: "TARGET" },
          { title: "STATE" },
          { title: "TRIES", right: true },
          { title: "TITLE" },
          { title: "ERROR" },
        ],
        deliveries.map((each) => [
          instant(io, each.created_at),
          each.target,
          each.state,
          String(each.attempts),
          safeField(each.title),
          safeField(each.error ?? ""),
        ]),
      ),
    );
  return 0;
}

/** Without lines it prints the rules; `none` removes them. */
async function rules(lines: string[], input: Input, io: Io): Promise<number> {
  return withDesk(io, async (desk) => {
    const now =
      lines.length === 0 ? (await desk.overview()).rules : await desk.setRules(lines.join() === "none" ? [] : lines);
    if (input.json) await printJson(io, { rules: now });
    else if (now.length === 0) io.err("There are no rules.");
    else await io.out(now.map((line) => `${safeField(line)}\n`).join(""));
    return 0;
  });
}
