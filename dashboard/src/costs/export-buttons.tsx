// The buttons that download the shown amounts.

import { save } from "../parts/save.ts";

interface ExportButtonsProps {
  /** Name of the files, without its ending. */
  name: string;
  json: unknown;
  csv: () => string;
}

export function ExportButtons({ name, json, csv }: ExportButtonsProps) {
  const saveJson = () =>
    save(new Blob([`${JSON.stringify(json, null, 2)}\n`], { type: "application/json" }), `${name}.json`);
  const saveCsv = () => save(new Blob([csv()], { type: "text/csv;charset=utf-8" }), `${name}.csv`);
  return (
    <p className="actions">
      <button type="button" className="button small" onClick={saveCsv}>
        Save as CSV
      </button>
      <button type="button" className="button small" onClick={saveJson}>
        Save as JSON
      </button>
    </p>
  );
}
