import { useMemo } from "react";
import type { JobRecord } from "../../../src/schemas/job.ts";
import { CodeTabs } from "../form/code-tabs.tsx";
import { bodyOf, maskedOf, valuesOf } from "../form/run-values.ts";
import { Link } from "../router.tsx";

/** The run's request, without secrets, and the same run as code. */
export function SpecView({ job }: { job: JobRecord }) {
  const body = useMemo(() => bodyOf(valuesOf(job)), [job]);
  const masked = maskedOf(job);
  return (
    <div className="two">
      <section className="panel" aria-labelledby="spec-title">
        <div className="panel-head">
          <h2 id="spec-title">Spec</h2>
          <Link href={`/new?from=${encodeURIComponent(job.id)}`}>Rerun with changes</Link>
        </div>
        <dl className="spec">
          {Object.entries(job.spec).map(([name, value]) => (
            <div key={name}>
              <dt>{name}</dt>
              <dd>
                <SpecValue value={value} />
              </dd>
            </div>
          ))}
        </dl>
      </section>
      <div className="stack">
        <CodeTabs body={body} projectDir={null} wrong="" />
        {masked.length > 0 && (
          <p className="quiet">
            The values of {masked.join(", ")} are not shown and not in this code: enter them again, preferably as
            references such as <code>env://NAME</code>.
          </p>
        )}
      </div>
    </div>
  );
}

function SpecValue({ value }: { value: unknown }) {
  const empty = value === null || (typeof value === "object" && Object.keys(value ?? {}).length === 0);
  if (empty) return <span className="quiet">none</span>;
  if (Array.isArray(value) && value.every((each) => typeof each === "string")) return <code>{value.join("\n")}</code>;
  return <code>{typeof value === "string" ? value : JSON.stringify(value, null, 2)}</code>;
}
