// The Data page: data sets that runs use by name, and the form that adds one.

import { useState } from "react";
import { bytes } from "../../../src/domain/bytes.ts";
import { api } from "../api.ts";
import { DataSet } from "../data/data-set.tsx";
import { worded } from "../form/data-words.ts";
import { TextField, useSmallForm } from "../form/small-form.tsx";
import { plural } from "../format.ts";
import { ProblemBanner } from "../parts/banner.tsx";
import { useTitle } from "../parts/title.ts";
import { useAnswer } from "../parts/use-answer.ts";
import { navigate, usePlace } from "../router.tsx";

export function DataPage() {
  useTitle("Data");
  const { query } = usePlace();
  const open = query.get("open");
  const { data, problem, reload } = useAnswer(api.data);
  return (
    <div className="page page-form">
      <div className="page-head">
        <h1>Data</h1>
        <p className="quiet">{data && plural(data.data.length, "data set")}</p>
      </div>
      <p className="quiet prose">
        A data set is a list of files with their sizes and SHA-256. A run that names it finds the files under{" "}
        <code>SVC_DATA_DIR</code> on its machine.
      </p>
      {problem && <ProblemBanner problem={problem} />}
      {data === null && !problem && <p className="quiet pad">Reading the data sets…</p>}
      {data?.data.map((each) => (
        <DataSet
          key={each.name}
          data={each}
          open={open === each.name}
          onToggle={(shown) => {
            if (shown !== (open === each.name))
              navigate(shown ? `/data?open=${encodeURIComponent(each.name)}` : "/data", {
                replace: true,
                keepScroll: true,
              });
          }}
          onChanged={reload}
        />
      ))}
      {data !== null && data.data.length === 0 && (
        <p className="pad">There is no data set yet. Add the first one below.</p>
      )}
      <AddData onAdded={reload} />
    </div>
  );
}

function AddData({ onAdded }: { onAdded: () => void }) {
  const [added, setAdded] = useState("");
  const { ref, busy, problem, onSubmit } = useSmallForm(async (text, given) => {
    setAdded("");
    const paths = text("paths")
      .split("\n")
      .map((path) => path.trim())
      .filter(Boolean);
    const { data, unchanged } = await api.addData({ name: text("name"), paths, follow_links: given.has("links") });
    setAdded(`${data.name}: ${plural(data.files, "file")}, ${bytes(data.bytes)}${unchanged ? ", unchanged" : ""}.`);
    onAdded();
  });
  return (
    <section className="panel" aria-labelledby="add-data">
      <h2 id="add-data">Add data</h2>
      <form ref={ref} className="form" onSubmit={onSubmit}>
        <div className="fields">
          <TextField label="Name" id="data-name" name="name" required placeholder="digits-8x8" wide />
          <div className="field field-wide">
            <label htmlFor="data-paths">Folders and files</label>
            <textarea
              id="data-paths"
              name="paths"
              rows={2}
              required
              spellCheck={false}
              aria-describedby="data-paths-help"
            />
            <p className="help" id="data-paths-help">
              Absolute paths on this computer, one per line. Every file is read once.
            </p>
          </div>
          <label className="switch field-wide">
            <input type="checkbox" name="links" /> Follow links
          </label>
        </div>
        <div className="actions">
          <button type="submit" className="button primary" aria-disabled={busy}>
            {busy ? "Reading every file…" : "Add"}
          </button>
          <span className="good" role="status">
            {added}
          </span>
        </div>
        {problem && <ProblemBanner problem={worded(problem)} />}
      </form>
    </section>
  );
}
