// The placements of a run on its overview.

import { costText } from "../../../src/domain/money.ts";
import { accountWords, endWords, placeWords, rentedNothing } from "../../../src/domain/placement-words.ts";
import type { JobRecord } from "../../../src/schemas/job.ts";
import type { Placement, Waiting } from "../../../src/schemas/placement.ts";
import { usdPerHour } from "../format.ts";
import { At, Span } from "../parts/time.tsx";
import { withCode } from "../parts/with-code.tsx";
import { hasEnded } from "../../../src/schemas/names.ts";
import { useData } from "../store.ts";
import { LimitWaitPanel } from "./limit-wait.tsx";

/** The machines that a run has used, one after the other; nothing for a run that has used one and saved nothing by it. */
export function PlacementsPanel({ job }: { job: JobRecord }) {
  const told = useData((data) => data.placements[job.id]);
  if (!told) return null;
  const { placements, waiting } = told;
  const tells = placements.length > 1 || placements.some((each) => each.saved_usd !== null);
  if (!tells && waiting === null) return null;
  return (
    <>
      {waiting !== null &&
        (waiting.limit === null ? (
          <WaitingPanel waiting={waiting} />
        ) : (
          <LimitWaitPanel wait={waiting.limit} since={waiting.since} />
        ))}
      {tells && (
        <section className="panel" aria-labelledby="placements-title">
          <h2 id="placements-title">Placements</h2>
          <ol className="plain placements">
            {placements.map((placement) => (
              <Row key={placement.n} placement={placement} />
            ))}
          </ol>
        </section>
      )}
    </>
  );
}

/** A machine without a reported price costs an unknown amount. */
const cost = (placement: Placement): string => {
  const { cost_usd, price_per_hour_usd } = placement;
  return rentedNothing(placement) ? "no cost" : costText({ cost_usd, machines: [{ price_per_hour_usd }] });
};

function Row({ placement }: { placement: Placement }) {
  const { n, error, goes_on, status, price_per_hour_usd: price } = placement;
  const tone = !hasEnded(status) ? "active" : status === "succeeded" ? "good" : goes_on ? "warn" : "bad";
  const parts = accountWords(placement);
  return (
    <li className="placement">
      <span className="placement-n num">{n}</span>
      <span className="placement-where">
        <bdi>{placeWords(placement)}</bdi>
      </span>
      <span className={`placement-end placement-${tone}`}>{endWords(placement)}</span>
      <span className="placement-figures num quiet">
        <Span from={placement.opened_at} to={placement.closed_at} />
        {price !== null && ` · ${usdPerHour(price)}`} · {cost(placement)}
      </span>
      {(error !== null || parts.length > 0) && (
        <span className="placement-words quiet">
          {error !== null && (
            <bdi className="placement-why" title={error.message}>
              {withCode(error.message)}
            </bdi>
          )}
          {parts.length > 0 && <strong>{parts.join(" · ")}</strong>}
        </span>
      )}
    </li>
  );
}

function WaitingPanel({ waiting }: { waiting: Waiting }) {
  return (
    <section className="panel" aria-labelledby="waiting-title">
      <h2 id="waiting-title">Waiting for a machine</h2>
      <p>
        Since <At at={waiting.since} />
        {waiting.next_at === null ? (
          ", asking now"
        ) : (
          <>
            , next look <At at={waiting.next_at} />
          </>
        )}
        {waiting.until !== null && (
          <>
            , gives up <At at={waiting.until} />
          </>
        )}
        . No machine exists and nothing is billed.
      </p>
      {waiting.tried.length > 0 && (
        <div className="scroll-x" tabIndex={0} role="region" aria-label="Table of candidates">
          <table className="small-table">
            <thead>
              <tr>
                <th scope="col">Candidate</th>
                <th scope="col">Why not</th>
              </tr>
            </thead>
            <tbody>
              {waiting.tried.map(({ candidate, provider, gpus, why }) => (
                <tr key={candidate}>
                  <td>
                    {provider} <span className="quiet">{gpus}</span>
                  </td>
                  <td className="wrap">
                    <bdi>{why}</bdi>
                  </td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}
