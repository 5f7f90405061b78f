// Deliberate defects in how models are pulled from the hub and stored. Each is named by the invariant of the head that it breaks, and has the
// tests that must notice it.

import { single, type TestedMutant } from "./mutants.ts";

const PULL = "test/hub/pull.test.ts > ";
const titled = (...titles: string[]): string[] => titles.map((title) => `${PULL}${title}`);
const cache = single("cache place", "src/hub/cache-place.ts", titled("a pull into the cache"));
const folder = single("folder place", "src/hub/folder-place.ts", titled("a pull into a folder"));
const shared = single("folder place", "src/hub/folder-place.ts", ["test/hub/pull-beside-others.test.ts"]);
const blob = single("blob", "src/hub/fetch-blob.ts", titled("a bad connection", "an end in the middle"));
const pull = single("pull", "src/hub/pull.ts", titled("a pull into a folder"));
const pulls = single("pulls", "src/hub/pulls.ts", titled("an end in the middle"));
const transfer = single("hub transfer", "src/hub/transfer.ts", titled("follows a renamed model"));
const paths = single("hub paths", "src/hub/paths.ts", ["test/hub/names.test.ts"]);

export const HUB_MUTANTS: readonly TestedMutant[] = [
  cache(
    "C1: a snapshot holds absolute links",
    "const target = relative(dirname(join(snapshot, file.path)), whole);",
    "const target = join(dirname(whole), relative(dirname(whole), whole));",
  ),
  cache(
    "C2: an existing snapshot gains no file",
    "return this.#fill(snapshot, release, snapshot);",
    "return undefined;",
  ),
  cache(
    "C3: the branch leads to a snapshot that is not there yet",
    "if (release.revision !== release.commit) await this.#put",
    "if (release.revision === release.commit) await this.#put",
  ),
  cache(
    "C4: an unfinished blob has the name that the library resumes",
    "partial: `${whole}.svc-${this.#mark}.incomplete`",
    "partial: `${whole}.incomplete`",
  ),
  folder(
    "F1: the folder is filled file by file",
    'const tree = join(this.#staging, "tree");',
    "const tree = this.#target;",
  ),
  folder(
    "F2: the user's own files are removed",
    "if (existsSync(this.#target)) await this.#carryOver",
    "if (!existsSync(this.#target)) await this.#carryOver",
  ),
  shared(
    "F2: a file that was saved meanwhile goes back",
    "|| (entry.isFile() && (await this.#isSavedSince(source, target, path))))",
    ")",
  ),
  folder("F3: there is no bookkeeping", "await writeBooks(tree, release);", ""),
  folder(
    "F4: a finished tree is deleted after a crash",
    "if (!existsSync(this.#target) && existsSync(ready)) await rename(ready, this.#target);\n    else if",
    "if",
  ),
  blob("B1: the hash is not compared", "if (found === blobName(this.#file)) return;", "if (found.length > 0) return;"),
  blob(
    "B2: a cut download starts over",
    "if (size > this.#file.size) return this.#reset();",
    "if (size > 0) return this.#reset();",
  ),
  blob(
    "B3: the whole content is appended to the part",
    "if (this.#at > 0) await this.#reset();\n    if (reply.status === 416)",
    "if (reply.status === 416)",
  ),
  blob(
    "B4: content that does not match stays",
    "await this.#reset();\n    const why = `its hash is",
    "const why = `its hash is",
  ),
  pull(
    "Q1: files are requested by the branch",
    "open: (one: HubFile, from: number, s: AbortSignal) => client.open(asked, commit, one, from, s),",
    "open: (one: HubFile, from: number, s: AbortSignal) => client.open(asked, asked.revision, one, from, s),",
  ),
  pull(
    "Q2: a refusal is known only at the first download",
    "if (largest[0]) await patiently(() => client.probe(",
    "if (largest.length < 0) await patiently(() => client.probe(",
    titled("The refusal of a gated model"),
  ),
  pull(
    "Q2: the space on the disk does not count",
    "if (needed + ROOM_LEFT_BYTES <= free) return;",
    "if (needed >= 0) return;",
    titled("A model that does not fit"),
  ),
  pull(
    "Q3: a model without some files is published",
    "await fetchAll(largest, commit, parts, state);",
    "await fetchAll(largest.slice(1), commit, parts, state);",
  ),
  pulls(
    "H1: a pull that a crash cut off is forgotten",
    "this.#all.set(record.pull.id, record);\n    this.#records.save(record);",
    "this.#all.set(record.pull.id, record);",
    titled("is on record before its first request"),
  ),
  pulls(
    "H2: the end of the control plane does not interrupt a pull",
    'stop.abort(new SvcError("hub_pull_ended", { model: record.pull.model_id, how: "interrupted" }));\n    await Promise.all(',
    'stop.abort(new SvcError("hub_pull_ended", { model: record.pull.model_id, how: "cancelled" }));\n    await Promise.all(',
    titled("A graceful shutdown interrupts"),
  ),
  pulls(
    "H3: a pull with its own token is resumed without it",
    'if (record.own_token) void this.#end(record, "interrupted", null);\n      else this.#start',
    "this.#start",
    titled("An interrupted pull with its own token"),
  ),
  pulls(
    "H4: each gain is a hint",
    "if (left <= 0) return this.#hintNow(running);",
    "if (left < Infinity) return this.#hintNow(running);",
    titled("is on record before its first request"),
  ),
  paths("P2: a device of Windows is the name of a file", "if (DEVICE.test(", "if (path === segment && DEVICE.test("),
  transfer(
    "T2: a redirect from https to http is followed",
    '(next.protocol === "http:" && this.base.protocol === "http:")',
    'next.protocol === "http:"',
    ["test/hub/transfer.test.ts"],
  ),
  transfer(
    "T3: an answer without data is waited for",
    "const stalled = setTimeout(() => response.destroy(new Error(stalledFor(stallMs))), stallMs);",
    "const stalled = setTimeout(() => undefined, stallMs);",
    titled("A connection without data"),
  ),
];
