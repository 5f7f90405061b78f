// The SHA-256 of the files on the Checkpoints tab: of one file by a click in its row, or of all of them, one after the
// other, to be copied as lines that `sha256sum -c` reads.

import { useEffect, useRef, useState } from "react";
import type { CheckpointFile } from "../../../src/schemas/job.ts";
import { asProblem } from "../api.ts";
import { number, plural } from "../format.ts";
import { save } from "../parts/save.ts";
import { runApi } from "./run-api.ts";

type Answer = { sha256: string } | { problem: string };

/** A file that was written again has another key, so an old digest is never shown for it. */
const keyOf = ({ path, modified_at }: CheckpointFile): string => `${path}/${modified_at}`;

/** The line for a file, by the rules of `sha256sum`: a name with a backslash or a line break is escaped. */
export function sumLine(sha256: string, path: string): string {
  const name = path.replaceAll("\\", "\\\\").replaceAll("\n", "\\n").replaceAll("\r", "\\r");
  return `${name === path ? "" : "\\"}${sha256}  ${name}\n`;
}

export interface Digests {
  of: (file: CheckpointFile) => Answer | "busy" | undefined;
  compute: (file: CheckpointFile) => void;
  /** Computes those that are missing; the server reads one file at a time. */
  computeAll: () => void;
  stop: () => void;
  isComputingAll: boolean;
}

export function useDigests(jobId: string, files: readonly CheckpointFile[]): Digests {
  const [answers, setAnswers] = useState<ReadonlyMap<string, Answer | "busy">>(new Map());
  const [all, setAll] = useState<AbortController | null>(null);
  const left = useRef(new AbortController());
  useEffect(() => {
    const leaving = (left.current = new AbortController());
    return () => leaving.abort();
  }, []);
  const put = (key: string, answer: Answer | "busy" | null) =>
    setAnswers((before) => {
      const next = new Map(before);
      if (answer === null) next.delete(key);
      else next.set(key, answer);
      return next;
    });
  const ask = async (file: CheckpointFile, signal: AbortSignal) => {
    const key = keyOf(file);
    put(key, "busy");
    try {
      const { sha256 } = await runApi.digest(jobId, file.path, signal);
      put(key, { sha256 });
    } catch (error) {
      put(key, signal.aborted ? null : { problem: asProblem(error).detail });
    }
  };
  const computeAll = async () => {
    const stopped = new AbortController();
    const signal = AbortSignal.any([stopped.signal, left.current.signal]);
    setAll(stopped);
    for (const file of files) {
      if (signal.aborted) break;
      const known = answers.get(keyOf(file));
      if (known === undefined || (known !== "busy" && "problem" in known)) await ask(file, signal);
    }
    setAll(null);
  };
  return {
    of: (file) => answers.get(keyOf(file)),
    compute: (file) => void ask(file, left.current.signal),
    computeAll: () => void computeAll(),
    stop: () => all?.abort(),
    isComputingAll: all !== null,
  };
}

/** Computes all digests; then copies them. */
export function AllDigests(props: { jobId: string; files: readonly CheckpointFile[]; digests: Digests }) {
  const { jobId, files, digests } = props;
  const [done, setDone] = useState("");
  const known = files.flatMap((file) => {
    const answer = digests.of(file);
    return answer !== undefined && answer !== "busy" && "sha256" in answer ? [sumLine(answer.sha256, file.path)] : [];
  });
  const failed = files.filter((file) => {
    const answer = digests.of(file);
    return answer !== undefined && answer !== "busy" && "problem" in answer;
  }).length;
  const copy = async () => {
    const text = known.join("");
    try {
      await navigator.clipboard.writeText(text);
      setDone(`Copied ${plural(known.length, "line")}.`);
    } catch {
      // Browsers offer the clipboard only in a secure context.
      save(new Blob([text], { type: "text/plain" }), `${jobId}-SHA256SUMS`);
    }
  };
  const words = digests.isComputingAll
    ? `${number(known.length)} of ${plural(files.length, "file")} read`
    : failed > 0
      ? `${plural(failed, "file")} could not be read.`
      : done;
  return (
    <>
      <span className="quiet num" role="status">
        {words}
      </span>
      {digests.isComputingAll ? (
        <button type="button" className="button small" onClick={digests.stop}>
          Stop
        </button>
      ) : known.length > 0 && known.length + failed === files.length ? (
        <button
          type="button"
          className="button small"
          title="As lines for sha256sum -c, in the directory of the unpacked archive"
          onClick={() => void copy()}
        >
          {failed === 0 ? "Copy all digests" : `Copy ${plural(known.length, "digest")}`}
        </button>
      ) : (
        <button
          type="button"
          className="button small"
          title="The server reads every file, one after the other, so large files take a while."
          onClick={digests.computeAll}
        >
          Compute all digests
        </button>
      )}
    </>
  );
}

/** Computed on demand, because it reads the whole file. */
export function Digest({ file, digests }: { file: CheckpointFile; digests: Digests }) {
  const answer = digests.of(file);
  if (answer === undefined || answer === "busy") {
    return (
      <button
        type="button"
        className="button small"
        disabled={answer === "busy"}
        onClick={() => digests.compute(file)}
        aria-label={`Compute the SHA-256 of ${file.path}`}
      >
        {answer === "busy" ? "Computing…" : "Compute"}
      </button>
    );
  }
  if ("problem" in answer) return <span className="bad">{answer.problem}</span>;
  return (
    <code className="digest" title={answer.sha256}>
      {answer.sha256}
    </code>
  );
}
