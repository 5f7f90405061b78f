// Errors about code snapshots and data manifests.

import { entry } from "./entry.ts";

export const FILES = {
  code_snapshot_missing: entry<{ job: string }>({
    status: 404,
    exit: 3,
    retry: "never",
    message: (d) => `Job ${d.job} has no code snapshot.`,
    hint: "`svc code ls` lists the jobs that have one. Nothing was changed.",
  }),
  code_snapshot_damaged: entry<{ id: string; why: string }>({
    status: 500,
    exit: 1,
    retry: "never",
    message: (d) => `The code snapshot ${d.id} cannot be restored: ${d.why}.`,
    hint: "Submit the run again: that keeps the project's code anew. Nothing else was changed.",
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
      `Of ${d.path} only size and digest or time were recorded in the code snapshot ${d.id}, not its content.`,
    hint: "A run on this computer works in the project directory: its large files and data are recorded and not copied.",
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
    message: (d) => `${d.name} cannot name data: ${d.why}.`,
    hint: "Use 1 to 100 letters, digits, dots, dashes and underscores, beginning with a letter or digit. Nothing was changed.",
  }),
  data_not_found: entry<{ name: string }>({
    status: 404,
    exit: 3,
    retry: "never",
    message: (d) => `There is no data called ${d.name}.`,
    hint: "`svc data ls` lists what there is; `svc data add NAME PATH` adds some.",
  }),
  data_path_refused: entry<{ path: string; why: string }>({
    status: 400,
    exit: 2,
    retry: "never",
    message: (d) => `${d.path} cannot be added as data: ${d.why}.`,
    hint: "Name folders or files that you may read. Nothing was changed.",
  }),
  data_manifest_damaged: entry<{ name: string; why: string }>({
    status: 500,
    exit: 1,
    retry: "never",
    message: (d) => `The manifest of the data ${d.name} cannot be used: ${d.why}.`,
    hint: "Add the data again with `svc data add`. The files themselves are not touched.",
  }),
  data_unavailable: entry<{ name: string; why: string }>({
    status: 400,
    exit: 2,
    retry: "never",
    message: (d) => `The data ${d.name} cannot be used: ${d.why}. Nothing was started.`,
    hint: "`svc data verify NAME` names what differs; `svc data add NAME PATH` takes the files as they are now.",
  }),
  data_changed: entry<{ name: string; why: string }>({
    status: 409,
    exit: 1,
    retry: "never",
    message: (d) =>
      `The data ${d.name} is not what it was when the run was submitted: ${d.why}. The machine is given back.`,
    hint: "`svc data verify NAME` names what differs. Add it again with `svc data add` and submit the run again.",
  }),
  data_too_large: entry<{ machine: string; need: string; free: string }>({
    status: 409,
    exit: 1,
    retry: "never",
    message: (d) =>
      `The data of the run takes ${d.need} more on ${d.machine}, where ${d.free} are free. The machine is given back.`,
    hint: "Raise disk_gb and submit the run again.",
  }),
} as const;
