// The runs page of a fresh home.

import { useRef, useState } from "react";
import type { Problem } from "../../../src/schemas/job.ts";
import type { Summary } from "../../../src/schemas/plan.ts";
import { api, asProblem } from "../api.ts";
import { newKey } from "../form/new-key.ts";
import { ProblemBanner } from "../parts/banner.tsx";
import { plural } from "../format.ts";
import { useAnswer } from "../parts/use-answer.ts";
import { Link, navigate, runPath } from "../router.tsx";
import { store } from "../store.ts";

const PYTHON = `import svc
svc.run(task={"entrypoint": "train.py"}, provider="local")`;

const readArchived = () => api.summary({ archived: "only" });

/** The page before the first run: what svc does, and a local run in one click. */
export function FirstRun({ example }: { example: Summary["example"] }) {
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);
  const key = useRef(newKey());
  const { data: archived } = useAnswer(readArchived);
  const start = async () => {
    if (busy) return;
    setBusy(true);
    try {
      const job = await api.submit(example, key.current);
      store.trigger.jobLoaded({ job });
      navigate(runPath(job.id));
    } catch (error) {
      setProblem(asProblem(error));
      setBusy(false);
    }
  };
  return (
    <div className="empty">
      <h1>No runs yet</h1>
      <p>
        A run sends your project to a machine, starts your script there, downloads logs, metrics and checkpoints, and
        releases the machine. The provider <code>local</code> does the same on this computer and costs nothing.
      </p>
      {problem && <ProblemBanner problem={problem} />}
      <p className="actions">
        {example && (
          <button type="button" className="button primary" aria-disabled={busy} onClick={() => void start()}>
            {busy ? "Starting…" : "Run the digits example here"}
          </button>
        )}
        <Link href="/new" className={example ? "button" : "button primary"}>
          Start your own script
        </Link>
        <Link href="/connect" className="button">
          Connect a provider
        </Link>
      </p>
      {archived !== null && archived.total > 0 && (
        <p>
          <Link href="/?archived=only">{plural(archived.total, "archived run")}</Link>
        </p>
      )}
      {example && (
        <p className="quiet small-text">
          The example learns to recognize handwritten digits in plain Python. It takes about a minute and needs no
          packages.
        </p>
      )}
      <ol className="steps-in-words">
        <li>
          <strong>Here first.</strong> See the timeline, the log, the charts and the checkpoints of a run on this
          computer.
        </li>
        <li>
          <strong>Then a provider.</strong> Add an API key, and the form shows prices before you pay.
        </li>
        <li>
          <strong>Or from code.</strong> The same run from Python:
          <pre className="code">{PYTHON}</pre>
        </li>
      </ol>
    </div>
  );
}
