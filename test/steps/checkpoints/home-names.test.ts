import { expect, it } from "vitest";
import { Redactor } from "../../../src/domain/redaction.ts";
import type { RemoteFile } from "../../../src/providers/host.ts";
import { withHomeNames } from "../../../src/steps/checkpoints/home-names.ts";

const file = (path: string): RemoteFile => ({ path, size: 1, mtimeMs: 1, inode: 1 });

it("names of checkpoints lose their secrets, stay distinct, and lead back to the file", async () => {
  const fetched: string[] = [];
  const listing = ["plain.bin", "run-s3cret-one/a", "run-s3cret-two/a", "run-***redacted***/a"].map(file);
  const host = {
    listCheckpoints: () => Promise.resolve(listing),
    fetchCheckpoint: (f: RemoteFile) => Promise.resolve(void fetched.push(f.path)),
  };
  const hidden = withHomeNames(host, new Redactor(["s3cret-one", "s3cret-two"]));
  const { signal } = new AbortController();
  const seen = await hidden.listCheckpoints(signal);
  expect(seen.map(({ path }) => path)).toEqual([
    "plain.bin",
    "run-***redacted***/a~",
    "run-***redacted***/a~~",
    "run-***redacted***/a",
  ]);
  for (const each of seen) await hidden.fetchCheckpoint(each, "/t", signal);
  expect(fetched).toEqual(listing.map(({ path }) => path));
});

it("names that are not UTF-8 or contain control characters are escaped, stay distinct, and lead back to the file", async () => {
  const fetched: string[] = [];
  const listing = ["plain.bin", "a\udcff.pt", "a%FF.pt", "new\nline", "dir\u001b[31m/x", "ä😀\u202e.bin", "c:\\x"].map(
    file,
  );
  const host = {
    listCheckpoints: () => Promise.resolve(listing),
    fetchCheckpoint: (f: RemoteFile) => Promise.resolve(void fetched.push(f.path)),
  };
  const safe = withHomeNames(host, new Redactor([]));
  const { signal } = new AbortController();
  const seen = await safe.listCheckpoints(signal);
  expect(seen.map(({ path, renamed }) => [path, renamed === true])).toEqual([
    ["plain.bin", false],
    ["a%FF.pt~", true],
    ["a%FF.pt", false],
    ["new%0Aline", true],
    ["dir%1B[31m/x", true],
    ["ä😀%E2%80%AE.bin", true],
    ["c%3A%5Cx", true],
  ]);
  for (const each of seen) await safe.fetchCheckpoint(each, "/t", signal);
  expect(fetched).toEqual(listing.map(({ path }) => path));
});
