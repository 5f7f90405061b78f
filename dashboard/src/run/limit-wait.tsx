// Shows on the overview of a run which limit of the home holds it back.

import type { LimitWait } from "../../../src/schemas/limits.ts";
import { At } from "../parts/time.tsx";
import { Link } from "../router.tsx";

export const LimitWaitPanel = ({ wait, since }: { wait: LimitWait; since: string }) => (
  <section className="panel" aria-labelledby="limit-wait-title">
    <h2 id="limit-wait-title">Waiting for a limit</h2>
    <p>
      <bdi>{wait.why}.</bdi>
    </p>
    <p className="quiet">
      Number {wait.position} of {wait.of} since <At at={since} />
      {wait.passes > 0 && `, passed by ${wait.passes} younger`}. No machine exists and nothing is billed.{" "}
      <Link href="/costs">Show the limits</Link>
    </p>
  </section>
);
