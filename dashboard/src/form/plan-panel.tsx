// The plan of the new run page: machines in the order of the attempts, prices, files to send, and refusals.

import { runsHere } from "../../../src/providers/descriptors.ts";
import { LeftOutList } from "../parts/left-out-list.tsx";
import { historyWords } from "../../../src/domain/host-history.ts";
import { bytes } from "../../../src/domain/bytes.ts";
import { longDuration } from "../../../src/domain/long-duration.ts";
import type { InstallPlan } from "../../../src/schemas/install.ts";
import type { Plan, PlanCandidate, PlanOffer } from "../../../src/schemas/plan.ts";
import { plural, usd, usdPerHour } from "../format.ts";
import { Banner } from "../parts/banner.tsx";
import { offerWords } from "../parts/offer-words.ts";
import { withCode } from "../parts/with-code.tsx";
import { sentenceOf } from "./problem-words.ts";
import type { PlanState } from "./use-plan.ts";

/** Shows next to the form what the run would rent, send and cost. */
export function PlanPanel({ plan, problem, busy }: PlanState) {
  return (
    <section className="panel plan" aria-labelledby="plan" aria-busy={busy}>
      <div className="panel-head">
        <h2 id="plan">Cost preview</h2>
        <span className="quiet small-text" role="status">
          {busy ? "updating…" : plan ? "up to date" : ""}
        </span>
      </div>
      {plan === null && !problem && (
        <p className="quiet">{busy ? "Asking the provider for prices…" : "Enter a script to see the plan here."}</p>
      )}
      {problem && (problem.errors ?? []).length === 0 && <p className="quiet">{problem.detail}</p>}
      {problem?.errors?.map(({ field, message }) => (
        <p key={`${field} ${message}`} className="bad">
          {withCode(sentenceOf(message, field))}
        </p>
      ))}
      {plan && <Told plan={plan} />}
    </section>
  );
}

function Told({ plan }: { plan: Plan }) {
  return (
    <>
      {plan.refusals.length > 0 && (
        <Banner tone="bad" title="This run would be refused">
          {plan.refusals.map((refusal) => (
            <p key={`${refusal.code} ${refusal.field}`}>
              {withCode(sentenceOf(refusal.message, refusal.field))} {withCode(refusal.hint)}
            </p>
          ))}
        </Banner>
      )}
      <dl className="facts">
        <div className="fact">
          <dt>{plan.nodes > 1 ? `Price of ${plan.nodes} machines` : "Price"}</dt>
          <dd className="plan-price num">{priceWords(plan)}</dd>
        </div>
        {plan.cost_max_usd !== null && plan.cost_max_usd > 0 && (
          <div className="fact">
            <dt>Maximum, by the {plan.cost_max_usd === plan.budget_usd ? "budget" : "time limit"}</dt>
            <dd className="num">{usd(plan.cost_max_usd)}</dd>
          </div>
        )}
        {plan.budget_lasts_seconds !== null && plan.price_per_hour_usd !== 0 && (
          <div className="fact">
            <dt>The budget lasts for</dt>
            <dd className="num" title="From the order of the machine until svc asks the script to stop.">
              {longDuration(Math.max(0, Math.floor(plan.budget_lasts_seconds)))}
            </dd>
          </div>
        )}
        {plan.history && (
          <div className="fact">
            <dt>Your machines of this kind</dt>
            <dd className="num">{historyWords(plan.history)}</dd>
          </div>
        )}
        {plan.code && (
          <div className="fact">
            <dt>{plan.code.sent ? "Sent" : "Kept as a record"}</dt>
            <dd className="num">
              {plural(plan.code.files, "file")}, {bytes(plan.code.bytes)}
            </dd>
          </div>
        )}
        {plan.start && (
          <div className="fact">
            <dt>Started by</dt>
            <dd>
              <code title={plan.start.words}>{plan.start.command.join(" ")}</code>
            </dd>
          </div>
        )}
        {plan.account?.balance_usd !== undefined && plan.account.balance_usd !== null && (
          <div className="fact">
            <dt>Balance</dt>
            <dd className="num">{usd(plan.account.balance_usd)}</dd>
          </div>
        )}
      </dl>
      {plan.warnings.map((warning) => (
        <p key={warning} className="plan-warning">
          {withCode(warning)}
        </p>
      ))}
      {plan.install && <Installed install={plan.install} />}
      {plan.candidates.length > 1 ? (
        <Candidates plan={plan} />
      ) : (
        plan.offers.length > 0 && !runsHere(plan.provider) && <Offers plan={plan} />
      )}
      {plan.code && plan.code.largest.length > 0 && plan.code.bytes > 1_000_000 && (
        <details className="more-fields">
          <summary>Largest files</summary>
          <ul className="plain small-text">
            {plan.code.largest.map((file) => (
              <li key={file.path}>
                <bdi>{file.path}</bdi> <span className="quiet num">{bytes(file.size)}</span>
              </li>
            ))}
          </ul>
        </details>
      )}
      {plan.code?.left_out && <LeftOutList leftOut={plan.code.left_out} />}
      <details className="more-fields" open>
        <summary>What ends this run</summary>
        <ul className="plan-stops small-text">
          {plan.stops.map((stop) => (
            <li key={stop}>{withCode(stop)}</li>
          ))}
        </ul>
      </details>
    </>
  );
}

/** The installation before the script starts. */
function Installed({ install }: { install: InstallPlan }) {
  if (install.does === "nothing") return <p className="quiet small-text">{withCode(install.words)}</p>;
  return (
    <details className="more-fields">
      <summary>Packages to install</summary>
      <p className="small-text">{withCode(install.words)}</p>
      <ol className="plan-stops small-text">
        {install.steps.map((step, i) => (
          <li key={`${i} ${step}`}>
            <bdi>{step}</bdi>
          </li>
        ))}
      </ol>
      {install.packages.length > 0 && <p className="small-text quiet">{install.packages.join(", ")}</p>}
      {install.notes.map((note) => (
        <p key={note} className="small-text quiet">
          {note}
        </p>
      ))}
    </details>
  );
}

function priceWords(plan: Plan): string {
  if (runsHere(plan.provider)) return "free";
  if (plan.price_per_hour_usd !== null) return usdPerHour(plan.price_per_hour_usd);
  return plan.refusals.length > 0 ? "–" : "not reported";
}

function Offers({ plan }: { plan: Plan }) {
  const good = plan.offers.findIndex((offer) => offer.within_cap && offer.avoided === null);
  const first = good === -1 ? plan.offers.findIndex((offer) => offer.within_cap) : good;
  const which = plan.offers.some((offer) => !offer.within_cap)
    ? "the cheapest within the cap"
    : plan.offers.some((offer) => offer.price_per_hour_usd !== null)
      ? "the cheapest available"
      : "the first available";
  return (
    <div className="scroll-x">
      <table className="small-table offers">
        <caption className="quiet small-text">
          {plural(plan.offers_total, "offer")} now; {which} is rented
        </caption>
        <tbody>
          {plan.offers.slice(0, 6).map((offer, i) => (
            <OfferRow key={`${offer.id} ${i}`} offer={offer} chosen={i === first} />
          ))}
        </tbody>
      </table>
    </div>
  );
}

/** Each candidate with its turn, its cheapest offer, and why it is refused now. */
function Candidates({ plan }: { plan: Plan }) {
  return (
    <div className="scroll-x" tabIndex={0} role="region" aria-label="Table of candidates">
      <table className="small-table offers candidates-plan">
        <caption className="quiet small-text">
          {plural(plan.offers_total, "offer")} now;{" "}
          {plan.order.length > 0 ? "tried in this order" : "no candidate has a machine"}
        </caption>
        <tbody>
          {[...plan.candidates]
            .sort((a, b) => turnOf(plan, a) - turnOf(plan, b))
            .map((candidate) => (
              <CandidateRow key={candidate.candidate} plan={plan} candidate={candidate} />
            ))}
        </tbody>
      </table>
    </div>
  );
}

const turnOf = ({ order }: Plan, { candidate }: PlanCandidate): number =>
  order.includes(candidate) ? order.indexOf(candidate) : order.length + candidate;

function CandidateRow({ plan, candidate }: { plan: Plan; candidate: PlanCandidate }) {
  const turn = plan.order.indexOf(candidate.candidate);
  const offers = plan.offers.filter((offer) => offer.candidate === candidate.candidate);
  const best = offers.find((offer) => offer.within_cap) ?? offers[0];
  const start = candidate.expected_start;
  const facts = [
    ...(best?.spot ? ["spot"] : []),
    ...(best ? [`${plural(candidate.offers_total, "offer")}, ${Math.round(best.age_seconds)} s old`] : []),
    ...(start ? [`starts in about ${longDuration(Math.round(start.seconds))} (${plural(start.runs, "run")})`] : []),
    ...(candidate.history ? [historyWords(candidate.history)] : []),
  ];
  return (
    <tr className={turn < 0 ? "quiet" : undefined}>
      <td className="num">{turn < 0 ? "–" : turn + 1}</td>
      <td className="wrap">
        {candidate.provider} <bdi>{candidate.gpus}</bdi>
        {candidate.region !== null && <bdi>, {candidate.region}</bdi>}
        <span className="candidate-why">
          {candidate.refusal ? (
            <bdi className="bad">{withCode(candidate.refusal.message)}</bdi>
          ) : (
            <span className="quiet">{facts.join(" · ")}</span>
          )}
        </span>
      </td>
      <td className="right num">{usdPerHour(best?.price_per_hour_usd ?? null)}</td>
    </tr>
  );
}

function OfferRow({ offer, chosen }: { offer: PlanOffer; chosen: boolean }) {
  return (
    <tr className={offer.within_cap ? undefined : "quiet"}>
      <td>
        <bdi>{offerWords(offer)}</bdi>
        {chosen && <span className="good"> ← this one</span>}
        {!offer.within_cap && <span> above the cap</span>}
        {offer.avoided && (
          <p className="quiet offer-avoided">
            tried last: <bdi>{offer.avoided}</bdi>
          </p>
        )}
      </td>
      <td className="right num">{usdPerHour(offer.price_per_hour_usd)}</td>
    </tr>
  );
}
