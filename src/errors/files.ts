// Errors about code snapshots and data manifests.

import { entry } from "./entry.ts";
import { RELEASED } from "./runs.ts";

export const FILES = {
  code_snapshot_missing: entry<{ job: string }>({
    status: 404,
    exit: 3,
    retry: "never",
    message: (d) => `Run ${d.job} has no code snapshot.`,
    hint: "`svc code ls` lists the runs that have one. Nothing was changed.",
  }),
  code_snapshot_damaged: entry<{ id: string; why: string }>({
    status: 500,
    exit: 1,
    retry: "never",
    message: (d) => `The code snapshot ${d.id} cannot be restored: ${d.why}.`,
    hint: `Resubmit the run to take a new code snapshot. Nothing else was changed. ${RELEASED}`,
  }),
  code_file_not_found: entry<{ path: string; id: string }>({
    status: 404,
    exit: 3,
    retry: "never",
    message: (d) => `The code snapshot ${d.id} has no file ${d.path}.`,
    hint: "`svc code ls JOB` lists its files.",
  }),
  code_file_not_kept: entry<{ path: string; id: string }>({
    status: 404,
    exit: 3,
    retry: "never",
    message: (d) =>
      `The code snapshot ${d.id} recorded only the size and the digest or time of ${d.path}, not its content.`,
    hint: "A local run works in the project directory itself, so svc records large files and data but does not copy them.",
  }),
  restore_refused: entry<{ directory: string; why: string; remedy: string }>({
    status: 409,
    exit: 1,
    retry: "never",
    message: (d) => `The code was not restored into ${d.directory}: ${d.why}.`,
    hint: (d) => d.remedy,
  }),
  data_name_refused: entry<{ name: string; why: string }>({
    status: 400,
    exit: 2,
    retry: "never",
    message: (d) => `${d.name} is not a valid name for data: ${d.why}.`,
    hint: "Use 1 to 100 letters, digits, dots, dashes and underscores, beginning with a letter or digit. Nothing was changed.",
  }),
  data_not_found: entry<{ name: string }>({
    status: 404,
    exit: 3,
    retry: "never",
    message: (d) => `No data is named ${d.name}.`,
    hint: "`svc data ls` lists the data; `svc data add NAME PATH` adds some.",
  }),
  data_path_refused: entry<{ path: string; why: string }>({
    status: 400,
    exit: 2,
    retry: "never",
    message: (d) => `${d.path} cannot be added as data: ${d.why}.`,
    hint: "Use folders or files that you can read. Nothing was changed.",
  }),
  data_manifest_damaged: entry<{ name: string; why: string }>({
    status: 500,
    exit: 1,
    retry: "never",
    message: (d) => `The manifest of the data ${d.name} cannot be used: ${d.why}.`,
    hint: "Add the data again with `svc data add`. The files themselves were not changed.",
  }),
  data_unavailable: entry<{ name: string; why: string; unknown?: boolean }>({
    status: 400,
    exit: 2,
    retry: "never",
    message: (d) => `The data ${d.name} cannot be used: ${d.why}. Nothing was started.`,
    hint: (d) =>
      d.unknown === true
        ? "`svc data ls` lists the names of this home; `svc data add NAME PATH` adds one."
        : "`svc data verify NAME` lists what differs; `svc data add NAME PATH` records the files in their present state.",
  }),
  data_changed: entry<{ name: string; why: string }>({
    status: 409,
    exit: 1,
    retry: "never",
    message: (d) => `The data ${d.name} has changed since the run was submitted: ${d.why}. svc releases the machine.`,
    hint: "`svc data verify NAME` lists what differs. Add it again with `svc data add` and submit the run again.",
  }),
  data_too_large: entry<{ machine: string; need: string; free: string }>({
    status: 409,
    exit: 1,
    retry: "never",
    message: (d) =>
      `The data of the run needs ${d.need} more on ${d.machine}, which has ${d.free} free. svc releases the machine.`,
    hint: "Raise disk_gb and submit the run again.",
  }),
} as const;
