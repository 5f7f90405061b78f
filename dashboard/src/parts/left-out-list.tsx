import type { LeftOut } from "../../../src/schemas/job.ts";
import { withCode } from "./with-code.tsx";

/** The project files that are excluded from the run's code, folded. */
export function LeftOutList({ leftOut }: { leftOut: LeftOut }) {
  const { count, names, ignored } = leftOut;
  const more = count - names.length;
  return (
    <details className="more-fields">
      <summary>
        Left out of the code: {count}
        {ignored > 0 && ` and what git ignores (${ignored})`}
      </summary>
      <ul className="plain small-text">
        {names.map(({ path, why }) => (
          <li key={path}>
            <bdi>{path}</bdi> <span className="quiet">{withCode(why)}</span>
          </li>
        ))}
        {more > 0 && <li className="quiet">and {more.toLocaleString("en-US")} more</li>}
      </ul>
    </details>
  );
}
