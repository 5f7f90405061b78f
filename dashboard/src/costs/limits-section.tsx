// The limits of the home on the page of costs: what is used, reserved and left, a form that changes them, and the runs that wait for them.

import { useState, type FormEvent } from "react";
import type { Problem } from "../../../src/schemas/job.ts";
import { isMoney, LIMIT_NAMES, type LimitName } from "../../../src/schemas/limit-names.ts";
import type { HomeLimits, LimitsChange } from "../../../src/schemas/limits.ts";
import { asProblem, get, sendJson } from "../api.ts";
import { sentenceOf } from "../form/problem-words.ts";
import { isNumber } from "../form/schema-fields.ts";
import { DASH, plural, usd } from "../format.ts";
import { ProblemBanner } from "../parts/banner.tsx";
import { useAnswer } from "../parts/use-answer.ts";
import { Link } from "../router.tsx";

const NAMES: Readonly<Record<LimitName, string>> = {
  usd_per_day: "Dollars per day",
  usd_per_month: "Dollars per month",
  usd_per_hour: "Dollars per hour",
  max_machines: "Machines",
  max_gpus: "GPUs",
};

const readLimits = () => get<HomeLimits>("/v1/limits");

export function LimitsSection() {
  const { data, problem, reload } = useAnswer(readLimits);
  return (
    <section className="panel" aria-labelledby="limits-title">
      <h2 id="limits-title">Limits of all runs</h2>
      {problem && <ProblemBanner problem={problem} />}
      {data !== null && (
        <LimitsForm key={JSON.stringify(LIMIT_NAMES.map((name) => data[name].limit))} now={data} reload={reload} />
      )}
      {data !== null && data.waiting.length > 0 && (
        <>
          <h3>Waiting for a limit</h3>
          <ol className="limit-waits">
            {data.waiting.map(({ job_id, why }) => (
              <li key={job_id}>
                <Link href={`/runs/${job_id}`}>
                  <code>{job_id}</code>
                </Link>{" "}
                <bdi>{why}.</bdi>
              </li>
            ))}
          </ol>
        </>
      )}
    </section>
  );
}

function LimitsForm({ now, reload }: { now: HomeLimits; reload: () => void }) {
  const [before] = useState(() => textsOf(now));
  const [texts, setTexts] = useState(before);
  const [errors, setErrors] = useState<Partial<Record<string, string>>>({});
  const [problem, setProblem] = useState<Problem | null>(null);
  const [busy, setBusy] = useState(false);
  const changed = LIMIT_NAMES.filter((name) => texts[name].trim() !== before[name]);
  const save = async () => {
    const wrong = changed.filter((name) => texts[name].trim() !== "" && !isNumber(texts[name]));
    setProblem(null);
    setErrors(Object.fromEntries(wrong.map((name) => [name, "This must be a number."])));
    if (wrong.length > 0 || busy || changed.length === 0) return;
    setBusy(true);
    const values = changed.map((name) => [name, texts[name].trim() === "" ? null : Number(texts[name])]);
    const change: LimitsChange = Object.fromEntries(values) as LimitsChange;
    try {
      await sendJson<HomeLimits>("PUT", "/v1/limits", change);
      reload();
    } catch (error) {
      const refused = asProblem(error);
      const fields = refused.errors ?? [];
      setErrors(Object.fromEntries(fields.map(({ field, message }) => [field, sentenceOf(message, field)])));
      setProblem(fields.length > 0 ? null : refused);
    }
    setBusy(false);
  };
  const submit = (event: FormEvent) => {
    event.preventDefault();
    void save();
  };
  // A cap is not what such a machine costs.
  const unpriced = now.machines_without_price;
  const over = LIMIT_NAMES.filter((name) => {
    const { limit, used, reserved } = now[name];
    return limit !== null && used + (reserved ?? 0) > limit;
  });
  return (
    <form className="form" noValidate onSubmit={submit}>
      <div className="scroll-x" tabIndex={0} role="region" aria-label="Table of limits">
        <table className="small-table limit-table">
          <thead>
            <tr>
              <th scope="col">Limit</th>
              <th scope="col">At most</th>
              <th scope="col" className="right">
                Used
              </th>
              <th scope="col" className="right">
                Reserved
              </th>
              <th scope="col" className="right">
                Left
              </th>
            </tr>
          </thead>
          <tbody>
            {LIMIT_NAMES.map((name) => (
              <tr key={name}>
                <th scope="row">
                  <label htmlFor={`limit-${name}`}>{NAMES[name]}</label>
                </th>
                <td>
                  <input
                    id={`limit-${name}`}
                    className="limit-input"
                    type="text"
                    inputMode="decimal"
                    autoComplete="off"
                    placeholder="no limit"
                    value={texts[name]}
                    aria-invalid={errors[name] !== undefined}
                    aria-describedby={errors[name] === undefined ? undefined : `limit-${name}-error`}
                    onChange={(event) => {
                      const { value } = event.target;
                      setTexts((all) => ({ ...all, [name]: value }));
                    }}
                  />
                  {errors[name] !== undefined && (
                    <p id={`limit-${name}-error`} className="field-error">
                      {errors[name]}
                    </p>
                  )}
                </td>
                <td className="right num">
                  {amount(name, now[name].used)}
                  {name === "usd_per_hour" && unpriced > 0 && (
                    <>
                      {" "}
                      + <abbr title="machines of unknown price">?</abbr>
                    </>
                  )}
                </td>
                <td className="right num">
                  {now[name].reserved === null ? "unknown" : amount(name, now[name].reserved)}
                </td>
                <td className="right num">{now[name].limit === null ? DASH : amount(name, now[name].left)}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      {unpriced > 0 && (
        <p>
          {NAMES.usd_per_hour} does not count {plural(unpriced, "machine")} of unknown price as used. At most the price
          cap is reserved for {unpriced === 1 ? "it" : "them"}.
        </p>
      )}
      {over.length > 0 && (
        <p>
          {over.map((name) => NAMES[name]).join(", ")}: less than what is used and reserved. Runs that are under way
          continue; no other starts until there is room.
        </p>
      )}
      <p className="quiet small-text">
        A run that does not fit now waits at no cost. One that can never fit, or whose cost is unknown, is refused. Runs
        on this computer and in notebooks do not count. An empty field removes the limit.
      </p>
      {problem && <ProblemBanner problem={problem} />}
      <div className="actions">
        <button type="submit" className="button" aria-disabled={busy || changed.length === 0}>
          {busy ? "Saving…" : "Save limits"}
        </button>
      </div>
    </form>
  );
}

const textsOf = (now: HomeLimits): Record<LimitName, string> => {
  const text = (name: LimitName): string => String(now[name].limit ?? "");
  return {
    usd_per_day: text("usd_per_day"),
    usd_per_month: text("usd_per_month"),
    usd_per_hour: text("usd_per_hour"),
    max_machines: text("max_machines"),
    max_gpus: text("max_gpus"),
  };
};

const amount = (name: LimitName, value: number | null): string =>
  value === null ? "unknown" : isMoney(name) ? usd(value) : String(value);
