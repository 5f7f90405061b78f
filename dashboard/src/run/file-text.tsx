// One file of a snapshot on the Code tab: its text with numbers and colours, with long lines wrapped on request.

import { useEffect, useState, type CSSProperties, type ReactNode } from "react";
import { bytes } from "../../../src/domain/bytes.ts";
import { inOrder } from "../../../src/domain/terminal-text.ts";
import type { Problem } from "../../../src/schemas/job.ts";
import { asProblem } from "../api.ts";
import { languageOf } from "./language.ts";
import { remember, remembered } from "./place.ts";
import { runApi } from "./run-api.ts";

const SHOWN_BYTES = 512 * 1024;
/** Longer ones take the page a noticeable time. */
const HIGHLIGHTED_CHARS = 200_000;

export function FileText({ id, path, size }: { id: string; path: string; size: number }) {
  const [state, setState] = useState<{ text: string | null } | { problem: Problem } | null>(null);
  const [wrap, setWrap] = useState(() => remembered("code.wrap"));
  useEffect(() => {
    let gone = false;
    runApi.codeFile(id, path, SHOWN_BYTES).then(
      (text) => !gone && setState({ text }),
      (error: unknown) => !gone && setState({ problem: asProblem(error) }),
    );
    return () => void (gone = true);
  }, [id, path]);
  const head = (
    <div className="panel-head">
      <h2>
        <bdi>{inOrder(path)}</bdi>
      </h2>
      <div className="actions">
        <button
          type="button"
          className="button small toggle"
          aria-pressed={wrap}
          onClick={() => {
            remember("code.wrap", !wrap);
            setWrap(!wrap);
          }}
        >
          Wrap
        </button>
        <a href={runApi.codeFileUrl(id, path)} download={path.split("/").at(-1)}>
          Download
        </a>
      </div>
    </div>
  );
  if (state === null)
    return (
      <>
        {head}
        <p className="quiet">Reading the file…</p>
      </>
    );
  if ("problem" in state)
    return (
      <>
        {head}
        <p className="bad">{state.problem.detail}</p>
      </>
    );
  return (
    <>
      {head}
      {state.text === null ? (
        <p className="quiet">This file is not text ({bytes(size)}).</p>
      ) : (
        <>
          <NumberedText text={state.text} name={path} wrap={wrap} />
          {size > SHOWN_BYTES && <p className="quiet">Only the first {bytes(SHOWN_BYTES)} are shown.</p>}
        </>
      )}
    </>
  );
}

function NumberedText({ text, name, wrap }: { text: string; name: string; wrap: boolean }) {
  const plain = text.replace(/\n$/, "");
  const coloured = useHighlighted(name, plain);
  const lines: readonly ReactNode[] = coloured ?? plain.split("\n");
  return (
    <div
      className={wrap ? "code-text code-wraps" : "code-text"}
      tabIndex={0}
      role="region"
      aria-label={`Text of ${name}`}
    >
      {wrap ? (
        <pre style={{ "--digits": `${String(lines.length).length}ch` } as CSSProperties}>
          {lines.map((line, i) => (
            <span key={i} className="code-line">
              {line}
              {"\n"}
            </span>
          ))}
        </pre>
      ) : (
        <>
          <pre aria-hidden="true" className="code-numbers">
            {lines.map((_, i) => i + 1).join("\n")}
          </pre>
          <pre>{coloured === null ? plain : coloured.flatMap((line, i) => (i === 0 ? [line] : ["\n", line]))}</pre>
        </>
      )}
    </div>
  );
}

/** The lines with their colours; null until the highlighter is there, and for a file without a known language. */
function useHighlighted(name: string, text: string): ReactNode[] | null {
  const language = languageOf(name);
  const [coloured, setColoured] = useState<{ text: string; lines: ReactNode[] } | null>(null);
  useEffect(() => {
    if (language === null || text.length > HIGHLIGHTED_CHARS) return;
    let gone = false;
    void import("./highlight.ts").then(
      ({ highlighted }) => gone || setColoured({ text, lines: highlighted(language, text) }),
      // Without colours it is as true.
      () => undefined,
    );
    return () => void (gone = true);
  }, [language, text]);
  return coloured?.text === text ? coloured.lines : null;
}
