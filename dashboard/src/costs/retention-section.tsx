// The rule that deletes old runs, on the page of costs: a form, the runs that it would delete now, and those that it has deleted.

import { useEffect, useState, type FormEvent } from "react";
import { bytes } from "../../../src/domain/bytes.ts";
import { inOrder } from "../../../src/domain/terminal-text.ts";
import { ageMs } from "../../../src/domain/retention.ts";
import { parseBest } from "../../../src/schemas/best.ts";
import type { Problem } from "../../../src/schemas/job.ts";
import type { HomeRetention, OldRuns, RetentionRule } from "../../../src/schemas/retention.ts";
import { asProblem, get, query, sendJson } from "../api.ts";
import { plural } from "../format.ts";
import { Banner, ProblemBanner } from "../parts/banner.tsx";
import { At } from "../parts/time.tsx";
import { useAnswer } from "../parts/use-answer.ts";
import { Link, runPath } from "../router.tsx";

const SHOWN = 8;
const TYPED_MS = 300;

const readRetention = () => get<HomeRetention>("/v1/retention");

export function RetentionSection() {
  const { data, problem, reload } = useAnswer(readRetention);
  return (
    <section className="panel" aria-labelledby="retention-title">
      <h2 id="retention-title">Old runs</h2>
      {problem && <ProblemBanner problem={problem} />}
      {data !== null && <RetentionForm key={JSON.stringify(data.rule)} now={data} reload={reload} />}
      {data !== null && data.removed.length > 0 && <Removed removed={data.removed} />}
    </section>
  );
}

interface Texts {
  age: string;
  best: string;
  newest: string;
}
const textsOf = (rule: RetentionRule | null): Texts => ({
  age: rule?.older_than ?? "",
  best: rule?.keep_best ?? "",
  newest: String(rule?.keep_newest ?? ""),
});

/** The errors of the fields. */
function errorsOf({ age, best, newest }: Texts): Partial<Record<keyof Texts, string>> {
  const isAge = (ageMs(age.trim()) ?? 0) > 0;
  const isCount = newest.trim() === "" || /^[1-9]\d{0,4}$/.test(newest.trim());
  return {
    ...(isAge ? {} : { age: "This must be a number and m, h, d or w, such as 30d." }),
    ...(best.trim() === "" || parseBest(best.trim()) !== null
      ? {}
      : { best: "This must be METRIC:N, such as loss:3, or METRIC:N:max." }),
    ...(isCount ? {} : { newest: "This must be a whole number of at least 1." }),
  };
}

const ruleOf = ({ age, best, newest }: Texts): RetentionRule => ({
  older_than: age.trim(),
  keep_best: best.trim() || null,
  keep_newest: newest.trim() === "" ? null : Number(newest),
});

function RetentionForm({ now, reload }: { now: HomeRetention; reload: () => void }) {
  const [texts, setTexts] = useState(() => textsOf(now.rule));
  const [tried, setTried] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const errors = errorsOf(texts);
  const isValid = Object.keys(errors).length === 0;
  const due = usePreview(isValid ? ruleOf(texts) : null);
  const put = async (rule: RetentionRule | null) => {
    if (busy) return;
    setBusy(true);
    setProblem(null);
    try {
      await sendJson<HomeRetention>("PUT", "/v1/retention", { rule });
      reload();
    } catch (error) {
      setProblem(asProblem(error));
    }
    setBusy(false);
  };
  const submit = (event: FormEvent) => {
    event.preventDefault();
    setTried(true);
    if (isValid) void put(ruleOf(texts));
  };
  const field = (name: keyof Texts, title: string, placeholder: string) => {
    const isWrong = errors[name] !== undefined && (tried || texts[name].trim() !== "");
    return (
      <div className="field">
        <label htmlFor={`retention-${name}`}>{title}</label>
        <input
          id={`retention-${name}`}
          type="text"
          autoComplete="off"
          spellCheck={false}
          placeholder={placeholder}
          value={texts[name]}
          aria-invalid={isWrong}
          aria-describedby={isWrong ? `retention-${name}-error` : undefined}
          onChange={({ target: { value } }) => setTexts((all) => ({ ...all, [name]: value }))}
        />
        {isWrong && (
          <p id={`retention-${name}-error`} className="field-error">
            {errors[name]}
          </p>
        )}
      </div>
    );
  };
  return (
    <form className="form" noValidate onSubmit={submit}>
      <p>
        {now.rule === null
          ? "No rule is set: nothing is deleted by age."
          : "Once an hour svc deletes the ended runs that this rule selects, with their logs, metrics and checkpoints on this computer."}
      </p>
      {now.doubt !== null && (
        <Banner tone="warn" title="The date is in doubt">
          <p>{now.doubt}</p>
        </Banner>
      )}
      <div className="retention-fields">
        {field("age", "Ended longer ago than", "30d")}
        {field("best", "Keep the best by", "loss:3")}
        {field("newest", "Keep the newest", "20")}
      </div>
      <div aria-live="polite">{due && <Due due={due} />}</div>
      <p className="quiet small-text">
        Archived runs stay. So do runs that an unfinished run resumes from, whose machine is not confirmed gone, or
        whose files are still being copied. Deleted runs cannot be restored; their costs stay counted. svc applies a
        saved rule after an hour, then once an hour, and each time it starts.
      </p>
      {problem && <ProblemBanner problem={problem} />}
      <div className="actions">
        {now.rule !== null && (
          <button type="button" className="button" aria-disabled={busy} onClick={() => void put(null)}>
            Remove rule
          </button>
        )}
        <button type="submit" className="button" aria-disabled={busy}>
          {busy ? "Saving…" : "Save rule"}
        </button>
      </div>
    </form>
  );
}

/** The runs that the rule would delete now, a moment after it was typed. */
function usePreview(rule: RetentionRule | null): OldRuns | null {
  const path = rule === null ? null : `/v1/retention/preview${query({ ...rule })}`;
  const [found, setFound] = useState<{ path: string; due: OldRuns } | null>(null);
  useEffect(() => {
    if (path === null) return;
    const left = new AbortController();
    const timer = setTimeout(() => {
      get<OldRuns>(path, left.signal).then(
        (due) => setFound({ path, due }),
        // Saving the rule reports what is wrong.
        () => undefined,
      );
    }, TYPED_MS);
    return () => {
      clearTimeout(timer);
      left.abort();
    };
  }, [path]);
  return found !== null && found.path === path ? found.due : null;
}

function Due({ due }: { due: OldRuns }) {
  const { kept } = due;
  const stays = [
    kept.best > 0 && `${kept.best} among the best`,
    kept.newest > 0 && `${kept.newest} among the newest`,
    kept.archived > 0 && `${kept.archived} archived`,
    kept.in_use > 0 && `${kept.in_use} in use`,
  ].filter((each) => each !== false);
  return (
    <>
      <p>
        <strong>
          {due.count === 0 ? "No run would go now." : `${plural(due.count, "run")} would go now, ${bytes(due.bytes)}`}
        </strong>
        {due.unmeasured > 0 && ` and ${due.unmeasured} of unknown size`}
        {due.count > 0 && "."}
        {stays.length > 0 && <span className="quiet"> As old, but kept: {stays.join(", ")}.</span>}
      </p>
      {due.count > 0 && (
        <ul className="plain retention-list" aria-label="Runs that would go now">
          {due.runs.slice(0, SHOWN).map(({ id, label, ended_at, disk_bytes }) => (
            <li key={id}>
              <Link href={runPath(id)}>
                <bdi>{inOrder(label ?? id)}</bdi>
              </Link>
              <span className="quiet num">
                {" "}
                ended <At at={ended_at} />, {disk_bytes === null ? "size unknown" : bytes(disk_bytes)}
              </span>
            </li>
          ))}
          {due.count > SHOWN && <li className="quiet">and {due.count - SHOWN} more</li>}
        </ul>
      )}
    </>
  );
}

const Removed = ({ removed }: Pick<HomeRetention, "removed">) => (
  <details className="retention-past">
    <summary>
      The rule has deleted {removed.length === 50 ? "50 runs or more" : plural(removed.length, "run")},{" "}
      {bytes(removed.reduce((sum, run) => sum + run.freed_bytes, 0))}
    </summary>
    <ul className="plain retention-list">
      {removed.map(({ id, label, at, freed_bytes }) => (
        <li key={id}>
          <bdi>{inOrder(label ?? id)}</bdi>{" "}
          <span className="quiet num">
            {label !== null && <code>{id} </code>}
            <At at={at} />, {bytes(freed_bytes)}
          </span>
        </li>
      ))}
    </ul>
  </details>
);
