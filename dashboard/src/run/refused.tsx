// The message above a run that ended before anything was rented, with the offers that the provider had.

import { isOffersSeen, refusalOf, type OffersSeen } from "../../../src/domain/refusal.ts";
import type { JobError, JobRecord } from "../../../src/schemas/job.ts";
import { plural, usdPerHour } from "../format.ts";
import { Banner } from "../parts/banner.tsx";
import { offerWords } from "../parts/offer-words.ts";
import { withCode } from "../parts/with-code.tsx";
import { Link } from "../router.tsx";
import { useData } from "../store.ts";

export function Refused({ job, error }: { job: JobRecord; error: JobError }) {
  const seen = useData((data) => data.timelines[job.id]?.steps.findLast(({ detail }) => isOffersSeen(detail))?.detail);
  return (
    <Banner tone="info" title={refusalOf(job) === "refused" ? "Refused, nothing rented" : "No machine, nothing rented"}>
      <p>
        <bdi>{error.message}</bdi> {withCode(error.hint)} <code className="quiet">{error.code}</code>
      </p>
      {isOffersSeen(seen) && <Seen seen={seen} />}
      <p>
        <Link href={`/new?from=${encodeURIComponent(job.id)}`}>Change the request and start it</Link>
      </p>
    </Banner>
  );
}

const Seen = ({ seen }: { seen: OffersSeen }) => (
  <div className="scroll-x">
    <table className="small-table offers refused-offers">
      <caption className="quiet small-text">
        {seen.offers_total > seen.offers_seen.length
          ? `The cheapest ${seen.offers_seen.length} of ${seen.offers_total.toLocaleString("en-US")} offers at that time`
          : `${plural(seen.offers_total, "offer")} then`}
      </caption>
      <tbody>
        {seen.offers_seen.map((offer, i) => (
          <tr key={`${i} ${offer.id}`}>
            <td className="wrap">
              <bdi>{offerWords(offer)}</bdi>
            </td>
            <td className="right num">{usdPerHour(offer.price_per_hour_usd)}</td>
          </tr>
        ))}
      </tbody>
    </table>
  </div>
);
