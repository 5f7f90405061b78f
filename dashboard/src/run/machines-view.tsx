import type { JobRecord } from "../../../src/schemas/job.ts";
import { machineState, usdPerHour } from "../format.ts";
import { Span } from "../parts/time.tsx";
import { Link } from "../router.tsx";
import { isActive } from "../status.ts";

export function MachinesView({ job }: { job: JobRecord }) {
  if (job.machines.length === 0) return <p className="quiet pad">{isActive(job) ? "None yet." : "None."}</p>;
  return (
    <>
      <div className="scroll-x" tabIndex={0} role="region" aria-label="Table of machines">
        <table className="small-table">
          <thead>
            <tr>
              <th scope="col">Name</th>
              <th scope="col">State</th>
              <th scope="col" className="right">
                Price
              </th>
              <th scope="col" className="right">
                Held
              </th>
            </tr>
          </thead>
          <tbody>
            {job.machines.map((machine) => (
              <tr key={machine.name}>
                <td>
                  <code title={machine.address ?? ""}>{machine.name}</code>
                </td>
                <td>{machineState(machine.state)}</td>
                <td className="right num">{usdPerHour(machine.price_per_hour_usd)}</td>
                <td className="right">
                  <Span from={machine.created_at} to={machine.terminated_at} />
                </td>
              </tr>
            ))}
          </tbody>
        </table>
      </div>
      <p className="small-text gap-above">
        <Link href={`/costs?run=${encodeURIComponent(job.id)}`}>Receipt</Link>
      </p>
    </>
  );
}
