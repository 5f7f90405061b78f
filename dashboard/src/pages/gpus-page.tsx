// The GPUs page: known models, their memory, who offers them, and the cheapest price now.

import { useMemo, useState } from "react";
import type { Gpu } from "../../../src/schemas/job.ts";
import type { Offers } from "../../../src/schemas/offers.ts";
import { api } from "../api.ts";
import { usdPerHour } from "../format.ts";
import { ProblemBanner } from "../parts/banner.tsx";
import { useAnswer } from "../parts/use-answer.ts";
import { useTitle } from "../parts/title.ts";
import { Link, navigate, usePlace } from "../router.tsx";
import { PROVIDER_NAMES, REMOTE_NAMES } from "../../../src/providers/descriptors.ts";

const MOST_GB = 141;

export function GpusPage() {
  useTitle("GPUs");
  const { query } = usePlace();
  const provider = PROVIDER_NAMES.find((each) => each === query.get("provider")) ?? null;
  const [least, setLeast] = useState(0);
  const { data, problem } = useAnswer(api.gpus);
  const live = useAnswer(api.offers);
  const prices = useMemo(() => cheapest(live.data), [live.data]);
  const shown = (data?.gpus ?? []).filter(
    (gpu) => (provider === null || gpu.providers.includes(provider)) && gpu.vram_gb >= least,
  );
  return (
    <div className="page">
      <div className="page-head">
        <h1>GPUs</h1>
        <div className="filter-end">
          <label className="range">
            At least {least} GB
            <input
              type="range"
              min={0}
              max={80}
              step={8}
              value={least}
              onChange={(event) => setLeast(Number(event.target.value))}
            />
          </label>
          <select
            className="select"
            aria-label="Provider"
            value={provider ?? ""}
            onChange={(event) =>
              navigate(event.target.value ? `/gpus?provider=${event.target.value}` : "/gpus", { keepScroll: true })
            }
          >
            <option value="">All providers</option>
            {REMOTE_NAMES.map((each) => (
              <option key={each}>{each}</option>
            ))}
          </select>
        </div>
      </div>
      <p className="quiet prose">
        Not a complete list: <code>gpus</code> of a run accepts any model, as <code>MODEL:COUNT</code>. Memory is what
        one GPU of the model typically has. Prices are those of the cheapest machine with one GPU that a connected
        provider rents out now.{" "}
        <span role="status">
          {live.busy ? "Asking the providers for prices…" : live.problem ? live.problem.detail : ""}
        </span>
      </p>
      {problem && <ProblemBanner problem={problem} />}
      {data === null && !problem && <p className="quiet pad">Reading the catalogue…</p>}
      <ul className="gpu-grid plain">
        {shown.map((gpu) => (
          <GpuCard key={gpu.model} gpu={gpu} prices={prices} />
        ))}
      </ul>
      {data !== null && shown.length === 0 && <p className="quiet pad">No model in the catalogue matches.</p>}
    </div>
  );
}

/** By provider and model: the least price per hour of one GPU on demand. */
function cheapest(live: Offers | null): ReadonlyMap<string, number> {
  const found = new Map<string, number>();
  for (const { provider, gpus, price_per_hour_usd: price, spot } of live?.offers ?? []) {
    const key = `${provider} ${gpus.replace(/:1$/, "")}`;
    if (price !== null && !spot && price < (found.get(key) ?? Infinity)) found.set(key, price);
  }
  return found;
}

function GpuCard({ gpu, prices }: { gpu: Gpu; prices: ReadonlyMap<string, number> }) {
  const priceOf = (provider: string): number | null => prices.get(`${provider} ${gpu.model}`) ?? null;
  const sorted = gpu.providers.toSorted((a, b) => (priceOf(a) ?? Infinity) - (priceOf(b) ?? Infinity) || 0);
  return (
    <li className="gpu-card">
      <h2>{gpu.model}</h2>
      <p className="gpu-memory">
        <meter min={0} max={MOST_GB} value={gpu.vram_gb} aria-label={`${gpu.vram_gb} GB of memory`} />
        <span className="num">{gpu.vram_gb} GB</span>
      </p>
      <p className="chips">
        <span className="quiet small-text">New run on</span>
        {sorted.map((provider) => (
          <Link
            key={provider}
            className="chip"
            href={`/new?provider=${provider}&gpus=${encodeURIComponent(`${gpu.model}:1`)}`}
            aria-label={`New run on ${gpu.model} at ${provider}${priceOf(provider) === null ? "" : `, ${usdPerHour(priceOf(provider))}`}`}
          >
            {provider}
            {priceOf(provider) !== null && <strong className="num"> {usdPerHour(priceOf(provider))}</strong>}
          </Link>
        ))}
      </p>
    </li>
  );
}
