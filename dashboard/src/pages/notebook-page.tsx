// The page with the cell that connects a notebook runtime.

import { useState } from "react";
import type { Problem } from "../../../src/schemas/job.ts";
import { api, asProblem } from "../api.ts";
import { Banner, ProblemBanner } from "../parts/banner.tsx";
import { CodeBlock, CopyCode } from "../parts/code-block.tsx";
import { save } from "../parts/save.ts";
import { useAnswer } from "../parts/use-answer.ts";
import { Link } from "../router.tsx";
import { useTitle } from "../parts/title.ts";

export function NotebookPage() {
  useTitle("Notebook");
  const { data, problem } = useAnswer(api.notebookCell);
  const [failure, setFailure] = useState<Problem | null>(null);
  const download = async () => {
    setFailure(null);
    try {
      save(await api.notebookFile(), "svc-connect.ipynb");
    } catch (error) {
      setFailure(asProblem(error));
    }
  };
  return (
    <div className="page page-form">
      <div className="page-head">
        <h1>Connect a notebook</h1>
        <Link href="/connect">All connections</Link>
      </div>
      <ol className="steps-in-words">
        <li>Open a notebook with a GPU and paste this cell into it, or open the downloaded notebook there.</li>
        <li>
          Run the cell. It starts an SSH daemon, accepts this installation’s public key, and asks for the token of a
          tunnel.
        </li>
        <li>
          The cell prints a line. Paste it at <Link href="/connect?open=notebook">Connect</Link>, and runs with the
          provider <code>notebook</code> go there.
        </li>
      </ol>
      <Banner tone="warn" title="Read the notebook provider’s terms first">
        <p>
          Some providers forbid SSH and tunnels. svc does not own the notebook: shut it down yourself when you are done.
        </p>
      </Banner>
      {(problem ?? failure) && <ProblemBanner problem={(problem ?? failure)!} />}
      {data === null && !problem && <p className="quiet pad">Reading the cell…</p>}
      {data && (
        <section className="panel gap-above">
          <div className="panel-head">
            <h2>The cell</h2>
            <span className="actions">
              <CopyCode code={data.cell} name="the cell" />
              <button type="button" className="button small" onClick={() => void download()}>
                Download as a notebook
              </button>
            </span>
          </div>
          <CodeBlock code={data.cell} name="the cell" tall bare />
        </section>
      )}
    </div>
  );
}
