import { expect, it } from "vitest";
import { Redactor } from "../../src/domain/redaction.ts";
import type { RemoteFile } from "../../src/providers/host.ts";
import { withHiddenNames } from "../../src/steps/hidden-names.ts";

const file = (path: string): RemoteFile => ({ path, size: 1, mtimeMs: 1, inode: 1 });

it("names of checkpoints lose their secrets, stay apart, and lead back to the file", async () => {
  const fetched: string[] = [];
  const listing = ["plain.bin", "run-s3cret-one/a", "run-s3cret-two/a", "run-***redacted***/a"].map(file);
  const host = {
    listCheckpoints: () => Promise.resolve(listing),
    fetchCheckpoint: (f: RemoteFile) => Promise.resolve(void fetched.push(f.path)),
  };
  const hidden = withHiddenNames(host, new Redactor(["s3cret-one", "s3cret-two"]));
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
  expect(withHiddenNames(host, new Redactor([]))).toBe(host);
});
