// The bar above every page: the pages with their keys, and what machines cost at present.

import type { LedgerMachine } from "../../../src/schemas/job.ts";
import { plural, timeOfDay } from "../format.ts";
import { Link, usePlace } from "../router.tsx";
import { isDoubtful, isFree, perHourOf, RETURNING } from "../machines.ts";
import { useData } from "../store.ts";
import { tryAgain } from "../sync.ts";
import { NoticeBell } from "../notify/notice-bell.tsx";
import { MachineTable } from "./machine-table.tsx";
import { useReturning } from "./returning.ts";
import { SettingsMenu } from "./settings-menu.tsx";

export const PLACES: readonly { path: string; name: string; key: string }[] = [
  { path: "/", name: "Runs", key: "r" },
  { path: "/machines", name: "Machines", key: "m" },
  { path: "/costs", name: "Costs", key: "s" },
  { path: "/connect", name: "Connect", key: "c" },
  { path: "/gpus", name: "GPUs", key: "u" },
  { path: "/models", name: "Models", key: "o" },
  { path: "/data", name: "Data", key: "d" },
];

const isAt = (path: string, place: string): boolean =>
  place === "/" ? path === "/" || path.startsWith("/runs") : path.startsWith(place);

export function TopBar({ onKeys }: { onKeys: () => void }) {
  const { path } = usePlace();
  return (
    <header className="top">
      <div className="top-in">
        <Link href="/" className="brand" aria-label="svc, all runs">
          <svg viewBox="0 0 32 32" aria-hidden="true">
            <rect width="32" height="32" rx="8" />
            <path d="M7 22h4v-6H7zM14 22h4V10h-4zM21 22h4v-9h-4z" />
          </svg>
          <span className="brand-name">svc</span>
        </Link>
        <nav className="places" aria-label="Main">
          {PLACES.map(({ path: place, name }) => (
            <Link key={place} href={place} aria-current={isAt(path, place) ? "page" : undefined}>
              {name}
            </Link>
          ))}
        </nav>
        <div className="top-end">
          <Money />
          <Connection />
          <NoticeBell />
          <SettingsMenu onKeys={onKeys} />
          <Link href="/new" className="button primary">
            <span aria-hidden="true">+ </span>New run
          </Link>
        </div>
      </div>
    </header>
  );
}

function Money() {
  const machines = useData((data) => data.machines);
  const { isLeaving, isAlarming } = useReturning();
  const offline = useData((data) => data.connection.state === "offline");
  if (machines === null) return <span className="money" />;
  const priced = machines.filter((machine) => !isFree(machine));
  const leaving = priced.filter(isLeaving);
  const doubt = priced.filter(isAlarming);
  const paid = priced.filter((machine) => !isDoubtful(machine));
  if (priced.length === 0) return <span className="money quiet">{offline ? "" : "No costs"}</span>;
  return (
    <details className="money">
      <summary>
        {paid.length > 0 && <Paying machines={paid} />}
        {leaving.length > 0 && (
          <span title={RETURNING}>
            <span className="roomy">Releasing {plural(leaving.length, "machine")}</span>
            <span className="terse">{leaving.length} ending</span>
          </span>
        )}
        {doubt.length > 0 && (
          <span className="doubt">
            {doubt.length} <span className="roomy">may still cost money</span>
            <span className="terse">in doubt</span>
          </span>
        )}
      </summary>
      <div className="money-list">
        <MachineTable machines={[...doubt, ...leaving, ...paid].slice(0, 12)} />
        <p className="small-text">
          <Link href="/machines">All machines and reconcile</Link>
        </p>
      </div>
    </details>
  );
}

function Paying({ machines }: { machines: readonly LedgerMachine[] }) {
  const prices = machines.map((machine) => machine.price_per_hour_usd);
  const known = prices.filter((price) => price !== null);
  return (
    <span className="paying" title={`Paying ${perHourOf(prices)}`}>
      {prices.every((price) => price === null) ? (
        "Price unknown"
      ) : (
        <>
          <span className="roomy">Paying </span>
          <strong className="num roomy">{perHourOf(prices)}</strong>
          {/* On a narrow screen: the known prices, with a mark if some are unknown. */}
          <strong className="num terse">
            {perHourOf(known)}
            {known.length < prices.length && (
              <>
                {" "}
                + <abbr title="machines of unknown price">?</abbr>
              </>
            )}
          </strong>
        </>
      )}
      <span className="wide"> · {plural(machines.length, "machine")}</span>
    </span>
  );
}

const CONNECTION = { connecting: "Connecting…", live: "Live", reconnecting: "Reconnecting…" } as const;

function Connection() {
  const { state, sinceMs } = useData((data) => data.connection);
  const text = state === "offline" ? `Offline since ${timeOfDay(sinceMs)}` : CONNECTION[state];
  return (
    <span className={`connection connection-${state}`} role="status" title={text}>
      <span className="dot" aria-hidden="true" />
      <span className="connection-text">{text}</span>
    </span>
  );
}

/** Shown above every page while nothing new can arrive: the age of the data. */
export function StaleNotice() {
  const { state, sinceMs } = useData((data) => data.connection);
  if (state !== "offline") return null;
  return (
    <p className="stale" role="status">
      The control plane does not answer: start it again with <code>svc serve</code>. Rented machines keep running and
      may cost money. This page shows the state of {timeOfDay(sinceMs)}, clocks included, and updates itself when svc is
      back.{" "}
      <button type="button" className="button small" onClick={tryAgain}>
        Try again now
      </button>
    </p>
  );
}
