// The card of the Connect page with the rules of this home: one a line, with what svc understands of each.

import { useState, type FormEvent } from "react";
import type { Problem } from "../../../src/schemas/job.ts";
import { asProblem } from "../api.ts";
import { plural } from "../format.ts";
import { ruleWords } from "../notify/notice-words.ts";
import { notifyApi } from "../notify/notify-api.ts";
import { ProblemBanner } from "../parts/banner.tsx";
import { withCode } from "../parts/with-code.tsx";

interface RulesCardProps {
  rules: readonly string[];
  /** Further rules that configure() set. */
  fixed: readonly string[];
  open: boolean;
  onToggle: (open: boolean) => void;
  onChange: () => void;
}

export function RulesCard({ rules, fixed, open, onToggle, onChange }: RulesCardProps) {
  const count = rules.length + fixed.length;
  return (
    <details
      className="panel connect"
      id="notify-rules"
      open={open}
      onToggle={(event) => onToggle(event.currentTarget.open)}
    >
      <summary>
        <span className="connect-name">
          <strong>Rules</strong> <span className="quiet">when svc reports something about a run</span>
        </span>
        <span className="pill">{count === 0 ? "none" : plural(count, "rule")}</span>
      </summary>
      {fixed.length > 0 && (
        <div className="form">
          <p className="help">Set in code, by configure(), for all runs:</p>
          <ul className="rule-words">
            {fixed.map((line) => (
              <li key={line}>
                <code>{line}</code> <span className="quiet">{ruleWords(line).words}</span>
              </li>
            ))}
          </ul>
        </div>
      )}
      <RulesForm key={rules.join("\n")} rules={rules} onChange={onChange} />
    </details>
  );
}

function RulesForm({ rules, onChange }: Pick<RulesCardProps, "rules" | "onChange">) {
  const before = rules.join("\n");
  const [text, setText] = useState(before);
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);
  const lines = text.split("\n").filter((line) => line.trim() !== "");
  const told = lines.map((line) => ({ line, ...ruleWords(line) }));
  const isChanged = text !== before;
  const save = async () => {
    setBusy(true);
    setProblem(null);
    try {
      await notifyApi.setRules(lines);
      onChange();
    } catch (error) {
      setProblem(asProblem(error));
    }
    setBusy(false);
  };
  const submit = (event: FormEvent) => {
    event.preventDefault();
    if (!busy && isChanged) void save();
  };
  return (
    <form className="form" noValidate onSubmit={submit}>
      <div className="field field-wide">
        <label htmlFor="notify-rules-text">Rules of all runs, one a line</label>
        <textarea
          id="notify-rules-text"
          rows={Math.max(3, lines.length + 1)}
          spellCheck={false}
          aria-describedby="notify-rules-help notify-rules-words"
          aria-invalid={told.some(({ isWrong }) => isWrong) || undefined}
          value={text}
          onChange={(event) => setText(event.target.value)}
        />
        <p className="help" id="notify-rules-help">
          {withCode(
            "`waiting 30m`, `no checkpoint 60m`, `loss > 10`, `loss is nan`, `loss silent 20m`. With `, stop` at its end a rule also ends the run; its files are downloaded and the machine is released.",
          )}
        </p>
        <ul className="rule-words" id="notify-rules-words" aria-live="polite">
          {told.map(({ line, words, isWrong }, i) => (
            <li key={`${i} ${line}`} className={isWrong ? "bad" : "quiet"}>
              <bdi>{isWrong ? `“${line.trim()}” ${words}.` : words}</bdi>
            </li>
          ))}
        </ul>
      </div>
      <div className="actions">
        <button type="submit" className="button primary" aria-disabled={busy || !isChanged}>
          {busy ? "Saving…" : "Save rules"}
        </button>
      </div>
      {problem && <ProblemBanner problem={problem} />}
    </form>
  );
}
