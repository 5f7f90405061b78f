import type { LedgerMachine } from "../../../src/schemas/job.ts";
import { age, plural, timeOfDay, usd, usdPerHour, words } from "../format.ts";
import { Link, runPath } from "../router.tsx";
import { useData } from "../store.ts";

const free = (machine: LedgerMachine) => machine.provider === "local" || machine.price_per_hour_usd === 0;

/** Machines whose end is not proven although nobody uses them, or whose very existence is not known. */
const doubtful = (machine: LedgerMachine) => !free(machine) && (machine.state !== "held" || machine.job_id === null);

export function TopBar() {
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
        <Money />
        <Connection />
        <Link href="/new" className="button primary">
          <span aria-hidden="true">+ </span>New run
        </Link>
      </div>
    </header>
  );
}

function Money() {
  const machines = useData((data) => data.machines);
  if (machines === null) return <span className="money" />;
  const paid = machines.filter((machine) => !free(machine) && !doubtful(machine));
  const doubt = machines.filter(doubtful);
  const perHour = paid.reduce((sum, machine) => sum + (machine.price_per_hour_usd ?? 0), 0);
  const unpriced = paid.some((machine) => machine.price_per_hour_usd === null);
  if (machines.length === 0 || (paid.length === 0 && doubt.length === 0)) {
    return <span className="money quiet">Paying for nothing</span>;
  }
  return (
    <details className="money">
      <summary>
        {paid.length > 0 && (
          <span>
            Paying <strong className="num">{usd(perHour)}/h</strong>
            {unpriced && " and more"}
            <span className="wide"> · {plural(paid.length, "machine")}</span>
          </span>
        )}
        {doubt.length > 0 && <span className="doubt">{doubt.length} may still cost money</span>}
      </summary>
      <div className="money-list">
        <table>
          <thead>
            <tr>
              <th scope="col">Machine</th>
              <th scope="col">State</th>
              <th scope="col" className="right">
                Price
              </th>
              <th scope="col" className="right">
                Age
              </th>
              <th scope="col">Run</th>
            </tr>
          </thead>
          <tbody>
            {[...doubt, ...paid].map((machine) => (
              <tr key={`${machine.provider}/${machine.name}`}>
                <td>
                  <bdi>{machine.name}</bdi> <span className="quiet">{machine.provider}</span>
                </td>
                <td className={doubtful(machine) ? "doubt" : ""} title={machine.note ?? ""}>
                  {words(machine.state)}
                </td>
                <td className="right num">{usdPerHour(machine.price_per_hour_usd)}</td>
                <td className="right num">{age(machine.age_seconds * 1000)}</td>
                <td>{machine.job_id ? <Link href={runPath(machine.job_id)}>{machine.job_id}</Link> : "none"}</td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </details>
  );
}

const CONNECTION = { connecting: "Connecting…", live: "Live", reconnecting: "Reconnecting…" } as const;

function Connection() {
  const { state, sinceMs } = useData((data) => data.connection);
  const text = state === "offline" ? `Offline since ${timeOfDay(sinceMs)}` : CONNECTION[state];
  return (
    <span className={`connection connection-${state}`} role="status">
      <span className="dot" aria-hidden="true" />
      <span className="connection-text">{text}</span>
    </span>
  );
}
