// The table of machines, for the Machines page and for dialogs that end runs.

import type { LedgerMachine } from "../../../src/schemas/job.ts";
import { age, machineState, usd, usdPerHour } from "../format.ts";
import { RETURNING } from "../machines.ts";
import { Link, runPath } from "../router.tsx";
import { useReturning } from "./returning.ts";

interface MachineTableProps {
  machines: readonly LedgerMachine[];
  /** The table's name, if it is a part of the page. */
  name?: string;
  full?: boolean;
}

/** Machines that may cost money, with their cost and their run. `full` has every column. */
export function MachineTable({ machines, name, full = false }: MachineTableProps) {
  const { isLeaving, isAlarming } = useReturning();
  const noteOf = (machine: LedgerMachine) => (isLeaving(machine) ? RETURNING : machine.note?.message);
  return (
    <div
      className="scroll-x"
      tabIndex={full ? 0 : undefined}
      role={full ? "region" : undefined}
      aria-label={full ? name : undefined}
    >
      <table className="small-table machine-table machine-cards">
        <thead>
          <tr>
            <th scope="col">Machine</th>
            <th scope="col">State</th>
            {full && <th scope="col">Address</th>}
            <th scope="col" className="right">
              Price
            </th>
            <th scope="col" className="right">
              Age
            </th>
            {full && (
              <th scope="col" className="right">
                Cost so far
              </th>
            )}
            <th scope="col">Run</th>
          </tr>
        </thead>
        <tbody>
          {machines.map((machine) => (
            <tr key={`${machine.provider}/${machine.name}`}>
              <td>
                <bdi>{machine.name}</bdi> <span className="quiet">{machine.provider}</span>
                {full && noteOf(machine) && <p className="quiet small-text">{noteOf(machine)}</p>}
              </td>
              <td data-label="State" className={isAlarming(machine) ? "doubt" : ""} title={noteOf(machine) ?? ""}>
                {machineState(machine.state)}
              </td>
              {full && <td className="num machine-address">{machine.address ?? "none"}</td>}
              <td data-label="Price" className="right num">
                {usdPerHour(machine.price_per_hour_usd)}
              </td>
              <td data-label="Age" className="right num">
                {age(machine.age_seconds * 1000)}
              </td>
              {full && (
                <td data-label="Cost so far" className="right num">
                  {usd(machine.cost_usd)}
                </td>
              )}
              <td data-label="Run">
                {machine.job_id ? <Link href={runPath(machine.job_id)}>{machine.job_id}</Link> : "none"}
              </td>
            </tr>
          ))}
        </tbody>
      </table>
    </div>
  );
}
