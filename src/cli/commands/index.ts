// Every command, in the order of `svc --help`. Importing one is cheap: large modules are loaded when it runs.

import type { Command } from "../command.ts";
import { code } from "./code.ts";
import { costs } from "./costs.ts";
import { completionOf } from "./completion.ts";
import { credentials } from "./credentials.ts";
import { data } from "./data.ts";
import { debugDump } from "./debug-dump.ts";
import { demo } from "./demo.ts";
import { docs } from "./docs.ts";
import { doctor } from "./doctor.ts";
import { gpus } from "./gpus.ts";
import { jobs } from "./jobs.ts";
import { kill } from "./kill.ts";
import { limits } from "./limits.ts";
import { logs } from "./logs.ts";
import { notify } from "./notify.ts";
import { offers } from "./offers.ts";
import { open } from "./open.ts";
import { plan } from "./plan.ts";
import { prune } from "./prune.ts";
import { reconcile } from "./reconcile.ts";
import { rm } from "./rm.ts";
import { run } from "./run.ts";
import { serve } from "./serve.ts";
import { set } from "./set.ts";
import { sim } from "./sim.ts";
import { ssh } from "./ssh.ts";
import { timeline } from "./timeline.ts";
import { top } from "./top.ts";
import { wait } from "./wait.ts";

export const COMMANDS: Command[] = [
  serve,
  open,
  jobs,
  top,
  logs,
  timeline,
  costs,
  limits,
  wait,
  kill,
  set,
  rm,
  prune,
  reconcile,
  run,
  plan,
  offers,
  gpus,
  credentials,
  notify,
  code,
  data,
  ssh,
  demo,
  sim,
  docs,
  doctor,
  debugDump,
  completionOf(() => COMMANDS),
];
