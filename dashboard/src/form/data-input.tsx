// Chooses the data of a run from what `svc data add` and the Data page made.

import { bytes } from "../../../src/domain/bytes.ts";
import { api } from "../api.ts";
import { plural } from "../format.ts";
import { useAnswer } from "../parts/use-answer.ts";
import { Link } from "../router.tsx";
import { FieldFrame } from "./field-frame.tsx";
import type { OneFieldProps } from "./field-input.tsx";

/** The value has the names, one on each line. */
export function DataInput({ field, value, error, onChange }: OneFieldProps) {
  const { data, problem } = useAnswer(api.data);
  const chosen = value.split("\n").filter((name) => name !== "");
  const known = data?.data ?? [];
  /** From an earlier run or a link, and removed since. */
  const gone = data === null ? [] : chosen.filter((name) => known.every((each) => each.name !== name));
  const set = (name: string, isChosen: boolean) =>
    onChange([...chosen.filter((each) => each !== name), ...(isChosen ? [name] : [])].join("\n"));
  const choice = (name: string, about: string) => (
    <label key={name} className="switch">
      <input type="checkbox" checked={chosen.includes(name)} onChange={(event) => set(name, event.target.checked)} />
      <bdi>{name}</bdi> <span className="quiet">{about}</span>
    </label>
  );
  return (
    <FieldFrame field={field} error={error}>
      {known.map((each) => choice(each.name, `${plural(each.files, "file")}, ${bytes(each.bytes)}`))}
      {gone.map((name) => choice(name, "not on this computer any more"))}
      {problem && <p className="quiet">{problem.detail}</p>}
      {data !== null && known.length === 0 && (
        <p className="quiet">
          There is no data yet. <Link href="/data">Add data</Link>. This form keeps its entries.
        </p>
      )}
    </FieldFrame>
  );
}
