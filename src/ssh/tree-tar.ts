// Sends a tree as tar over the open connection, if rsync is unusable or slower. `tree.ts` calls it.

import { SvcError } from "../errors/index.ts";
import { inAnyShell, quote } from "../domain/shell-words.ts";
import { digestOf, FileChanged, tarOf, type TarFile } from "../files/tar-writer.ts";
import { fileLimitMet } from "./file-limit.ts";
import type { Report, TreeOptions } from "./tree-options.ts";
import { diskFailure, PLAINLY, type TreeState } from "./tree-manifest.ts";
import { howEnded, shortLine } from "./words.ts";

/** If the machine accepts no byte for this long, it counts as gone. */
const STALLED_MS = 60_000;
/** The exit code of a machine without tar. */
const NO_TAR = 73;

/** Sends files that are missing, changed here or changed there. */
export async function pushByTar(
  options: TreeOptions & { state: TreeState; report: Report },
): Promise<{ digests: Map<string, string>; sentBytes: number } | "no tar there"> {
  const { connection, machine, tree, state, signal, report } = options;
  const digests = new Map<string, string>();
  const total = tree.files.reduce((sum, { size }) => sum + size, 0);
  let files = 0;
  let bytes = 0;
  const missing: TarFile[] = [];
  for (const listed of tree.files) {
    const file: TarFile = tree.followLinks ? { ...listed, followLinks: true } : listed;
    signal.throwIfAborted();
    const pushed = state.pushed.get(file.path);
    const there =
      pushed !== undefined &&
      pushed.digest !== null &&
      pushed.size === file.size &&
      pushed.executable === file.executable &&
      state.present.has(file.path) &&
      !state.written.has(file.path);
    const digest = there ? await digestOf(tree.from, file) : null;
    if (digest !== null && digest === pushed?.digest) {
      digests.set(file.path, digest);
      files += 1;
      bytes += file.size;
      report({ files, bytes });
    } else missing.push(file);
  }
  if (missing.length === 0) return { digests, sentBytes: 0 };

  let sentBytes = 0;
  const stalled = new AbortController();
  let timer: NodeJS.Timeout | undefined;
  const alive = (): void => {
    clearTimeout(timer);
    timer = setTimeout(
      () => stalled.abort(new SvcError("ssh_unreachable", { machine, why: "it takes no data any more" })),
      STALLED_MS,
    );
  };
  async function* archive(): AsyncGenerator<Buffer, void> {
    const packed = (file: TarFile, sha256: string): void => {
      digests.set(file.path, sha256);
      files += 1;
    };
    for await (const part of tarOf(tree.from, missing, packed)) {
      alive();
      sentBytes += part.length;
      yield part;
      report({ files, bytes: Math.min(bytes + sentBytes, total) });
    }
  }
  const keptTimes = missing.some((file) => file.mtimeMs !== undefined);
  alive();
  try {
    // -m: files that the run writes later are then newer than the manifest, even if other files keep their old times.
    // -o: the files belong to the user who logs in.
    const script = `${PLAINLY}umask 022; cd -- ${quote(tree.to)} || exit 71; command -v tar >/dev/null || exit ${NO_TAR}; exec tar -x ${keptTimes ? "" : "-m "}-o -f -`;
    const done = await connection.exec(inAnyShell(script), {
      stdin: archive(),
      signal: AbortSignal.any([signal, stalled.signal]),
      timeoutMs: 7 * 24 * 3_600_000,
    });
    if (done.code === 0) return { digests, sentBytes };
    if (done.code === NO_TAR) return "no tar there";
    const why = `tar there ended with ${howEnded(done)}`;
    throw (
      (await fileLimitMet(options)) ??
      diskFailure(machine, done.stderr.toString("utf8")) ??
      new SvcError("sync_failed", { machine, why })
    );
  } catch (e) {
    if (e instanceof FileChanged) {
      throw new SvcError(
        "sync_failed",
        { machine, why: `${shortLine(e.path)} ${e.why} while it was sent` },
        { cause: e },
      );
    }
    throw e;
  } finally {
    clearTimeout(timer);
  }
}
