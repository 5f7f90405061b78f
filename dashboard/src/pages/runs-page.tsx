// The first page: the list of runs with its filters, and the actions on selected runs.

import { useEffect, useMemo, useRef, useState } from "react";
import type { Problem } from "../../../src/schemas/job.ts";
import { api, asProblem } from "../api.ts";
import { useKeys } from "../keys.ts";
import { plural } from "../format.ts";
import { ProblemBanner } from "../parts/banner.tsx";
import { DeleteDialog } from "../parts/delete-dialog.tsx";
import { KillDialog } from "../parts/kill-dialog.tsx";
import { KillManyDialog } from "../parts/kill-many-dialog.tsx";
import { useTitle } from "../parts/title.ts";
import { Link } from "../router.tsx";
import { filterOf, isEverything, listPath } from "../run-filter.ts";
import { FirstRun } from "../runs/first-run.tsx";
import { paramsOf } from "../../../src/domain/run-params.ts";
import { changeAll } from "../runs/change-all.ts";
import { ColumnMenu } from "../runs/column-menu.tsx";
import { isMetric, sorted, viewOf } from "../runs/columns.ts";
import { useMetricBook } from "../runs/metric-book.ts";
import { SavedViews } from "../runs/saved-views.tsx";
import { countOf, RunFilters } from "../runs/run-filters.tsx";
import { RunTable } from "../runs/run-table.tsx";
import { TagsDialog } from "../runs/tags-dialog.tsx";
import { SelectionBar } from "../runs/selection-bar.tsx";
import { isActive, isKillable, isSelectable } from "../status.ts";
import { useData } from "../store.ts";
import { readCountsAgain, showList } from "../sync.ts";

export function RunsPage({ query }: { query: URLSearchParams }) {
  const asked = listPath(filterOf(query));
  const filter = useMemo(() => filterOf(new URLSearchParams(asked.slice(2))), [asked]);
  useTitle("Runs");
  useEffect(() => showList(filter), [filter]);
  const list = useData((data) => data.list);
  const jobs = useData((data) => data.jobs);
  const summary = useData((data) => data.summary);
  const [killing, setKilling] = useState<string | null>(null);
  const [killingMany, setKillingMany] = useState(false);
  const [deleting, setDeleting] = useState(false);
  const [tagging, setTagging] = useState(false);
  const [problem, setProblem] = useState<Problem | null>(null);
  // A selection belongs to one list only.
  const [selection, setSelection] = useState<{ list: string; ids: ReadonlySet<string> }>({ list: asked, ids: NOBODY });
  const selected = selection.list === asked ? selection.ids : NOBODY;
  const select = (chosen: ReadonlySet<string>) => setSelection({ list: asked, ids: chosen });
  const search = useRef<HTMLInputElement>(null);
  const here = listPath(list.filter) === asked;
  const listed = here ? list.ids : NONE;
  const places = query.toString();
  const view = useMemo(() => viewOf(new URLSearchParams(places)), [places]);
  const [choosing, setChoosing] = useState(false);
  const wanted = useMemo(() => [...new Set(view.columns.filter(isMetric).map(({ name }) => name))], [view]);
  const book = useMetricBook(listed, jobs, wanted, choosing || wanted.length > 0);
  const metrics = book.runs;
  const ids = useMemo(() => sorted(listed, view, jobs, metrics), [listed, view, jobs, metrics]);
  const params = useMemo(
    () => (choosing ? [...new Set(listed.flatMap((id) => Object.keys(paramsOf(jobs[id]?.args ?? []))))].sort() : NONE),
    [choosing, listed, jobs],
  );
  const isCut = view.sort !== null && list.nextCursor !== null && listed.length >= SORTED_MAX;
  const loading = list.phase === "loading" || !here;
  const target = killing === null ? undefined : jobs[killing];
  const chosen = [...selected].flatMap((id) => jobs[id] ?? []).filter(isSelectable);

  const lastToggled = useRef<string | null>(null);
  const toggle = (id: string, alsoBetween: boolean) => {
    const [at, from] = [ids.indexOf(id), ids.indexOf(lastToggled.current ?? "")];
    const between = alsoBetween && from !== -1 ? ids.slice(Math.min(at, from), Math.max(at, from) + 1) : [id];
    lastToggled.current = id;
    const those = new Set(between.filter((each) => jobs[each] && isSelectable(jobs[each])));
    select(new Set(selected.has(id) ? [...selected].filter((each) => !those.has(each)) : [...selected, ...those]));
  };
  const archive = async (isArchived: boolean) => {
    setProblem(null);
    try {
      await changeAll(
        chosen.filter((job) => !isActive(job)),
        (job) => api.archive(job.id, isArchived),
      );
    } catch (error) {
      return setProblem(asProblem(error));
    }
    select(NOBODY);
    readCountsAgain();
  };
  useKeys("Runs", [
    { keys: "/", does: "Search", run: () => search.current?.focus() },
    { keys: "Escape", does: "Select nothing", run: () => select(NOBODY) },
  ]);

  if (!loading && list.phase === "ready" && isEverything(filter) && ids.length === 0)
    return <FirstRun example={summary?.example ?? null} />;
  return (
    <div className="page">
      <div className="page-head">
        <h1>Runs</h1>
        <p className="quiet num">{summary && plural(countOf(summary, filter.status), "run")}</p>
        <div className="list-tools">
          <ColumnMenu view={view} metrics={book.names} params={params} onOpen={setChoosing} />
          <SavedViews />
        </div>
      </div>
      <RunFilters view={view} filter={filter} summary={summary} search={search} />
      {problem && <ProblemBanner problem={problem} />}
      {list.problem && here && <ProblemBanner problem={list.problem} />}
      {ids.length > 0 && (
        <RunTable
          ids={ids}
          jobs={jobs}
          complete={list.nextCursor === null || isCut}
          selected={selected}
          onToggle={toggle}
          onSelect={(these) => select(new Set(these))}
          onKill={setKilling}
          view={view}
          metrics={metrics}
          eager={view.sort !== null && listed.length < SORTED_MAX}
        />
      )}
      {isCut && (
        <p className="quiet more">
          Sorted among the newest {listed.length.toLocaleString("en-US")} runs. Narrow the list to sort all of them.
        </p>
      )}
      {loading && <p className="quiet pad">Reading the runs…</p>}
      {!loading && ids.length === 0 && list.phase === "ready" && (
        <p className="quiet pad">
          No matching runs. <Link href="/">Show all runs</Link>.
        </p>
      )}
      {chosen.length > 0 && (
        <SelectionBar
          jobs={chosen}
          onKill={() => setKillingMany(true)}
          onDelete={() => setDeleting(true)}
          onTags={() => setTagging(true)}
          onArchive={(isArchived) => void archive(isArchived)}
          onClear={() => select(NOBODY)}
        />
      )}
      {target && <KillDialog job={target} onClose={() => setKilling(null)} />}
      {killingMany && <KillManyDialog jobs={chosen.filter(isKillable)} onClose={() => setKillingMany(false)} />}
      {tagging && <TagsDialog jobs={chosen} onClose={() => setTagging(false)} />}
      {deleting && <DeleteDialog jobs={chosen.filter((job) => !isActive(job))} onClose={() => setDeleting(false)} />}
    </div>
  );
}

/** An order by a value needs the runs at hand: at most the newest so many. */
const SORTED_MAX = 1_000;
const NONE: readonly string[] = [];
const NOBODY: ReadonlySet<string> = new Set();
