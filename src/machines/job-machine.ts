// The life of a job. Pure: the engine folds events through `transition`, commits the result, and only then acts.
//
// M1. Seven states are the contract's; in `waiting` nothing is billed. If a state waits for several nodes, the nodes are in the context.
// M2. A step or a timer belongs to the state that requested it: leaving the state cancels it.
// M3. From every state tagged `billable` the only way to `terminal` leads through `terminating`.
// M4. `terminating` ends only by proof (`terminate.done` of every node). Nothing else leaves it: no kill, no failure, no timer.
// M5. The outcome is decided once, on the way into `terminating`, and only a collection that failed or was given up can turn a success into a failure after that.
// M6. Another placement begins only where `terminating` ends (ADR 0027). A kill, or the end of the control plane, that comes before then
//     decides the outcome of a failed placement: no other follows.
// M7. A budget decides the way into `terminating`, the end of its downloads, and whether another placement follows. The sums come
//     with the events: the machine does not count.
// M8. A run that the limits of the home hold neither searches nor orders until `job.admitted`. It is let in once, for all of its placements.

import { and, assign, setup } from "xstate";
import type { JobError, Outcome, StepName } from "../schemas/job.ts";
import {
  NO_FURTHER_PLACEMENTS,
  type JobContext,
  type JobEvent,
  type JobInput,
  type NodePhase,
  type PlacementFailure,
} from "./job-context.ts";
import { closing, type ClosePlacement, type OpenPlacement, type SetTimer, type StartSteps } from "./effects.ts";
import { forNext, isLossBehind, mayGoOn } from "./next-placement.ts";
import {
  allNodes,
  changed,
  checkpointOf,
  collectTimer,
  decided,
  failureOf,
  goesOn,
  isAsked,
  isCollecting,
  isNode,
  lackOf,
  othersAt,
  PHASE_LIMIT_MS,
  runtimeTimer,
  searches,
  SOON,
  uncollected,
} from "./job-rules.ts";
import { describeError } from "../errors/index.ts";

/** Raise this with every change of states, events, context or effects, and add a migration (src/machines/versions.ts). */
export const JOB_MACHINE_VERSION = 6;

export const jobMachine = setup({
  types: { context: {} as JobContext, input: {} as JobInput, events: {} as JobEvent },
  guards: {
    lastNodeAt: ({ context, event }, { phase }: { phase: NodePhase }) =>
      isNode(event) && othersAt(context, event.node, phase),
    exitedBadly: ({ event }) => event.type === "stream.done" && (event.exit_code !== 0 || event.error !== null),
    failedStep: ({ event }, { step }: { step: StepName }) => event.type === "step.failed" && event.step === step,
    collecting: ({ context }) => isCollecting(context),
    collectingAtLeisure: ({ context }) => context.occupied && !isAsked(context) && isCollecting(context),
    isReleasedAndGoesOn: ({ context, event }) =>
      isNode(event) && othersAt(context, event.node, "released") && goesOn(context, event) !== null,
    mayGoOn: ({ context }) => mayGoOn(context),
    isPlaced: ({ context }) => context.candidate !== null && !context.held,
    isHeld: ({ context }) => context.held,
    hasMaxRuntime: ({ context }) => context.max_runtime_ms !== null,
    isNews: ({ context, event }) => event.type === "budget.warned" && event.percent > context.warned,
  },
  actions: {
    // Effects: named here, carried out by the engine after the commit. Their implementations are never called.
    startSteps: (_, _params: StartSteps) => {},
    cancelSteps: (_, _params: { step: StepName }) => {},
    setTimer: (_, _params: SetTimer) => {},
    openPlacement: (_, _params: OpenPlacement) => {},
    closePlacement: (_, _params: ClosePlacement) => {},

    /** Records the start of the search, from which its time is counted. */
    beginSearch: assign({
      searching_since: ({ context, event }) => (context.held ? null : (context.searching_since ?? event.at)),
    }),
    admit: assign({ held: false }),
    endSearch: assign({ searching_since: null, refusals: [] }),
    markCandidate: assign({
      candidate: ({ context, event }) => (event.type === "place.done" ? event.candidate : context.candidate),
    }),
    countPlacement: assign({ placement: ({ context }) => context.placement + 1 }),
    markCheckpoint: assign({ checkpoint: ({ context, event }) => checkpointOf(event) ?? context.checkpoint }),
    beginNext: assign(({ context, event }) => {
      const next = goesOn(context, event);
      return next === null ? context : forNext(context, next, context.checkpoint, event.at);
    }),
    overrule: assign({
      outcome: (_, { outcome }: { outcome: Outcome }) => outcome,
      error: ({ context, event }) => ("error" in event ? event.error : context.error),
    }),
    markRunning: assign({ running_since: ({ event }) => event.at }),
    markRan: assign({
      ran_ms: ({ context, event }) =>
        context.ran_ms + (context.running_since === null ? 0 : Math.max(0, event.at - context.running_since)),
      running_since: null,
    }),

    markNode: assign({
      nodes: ({ context, event }, { phase }: { phase: NodePhase }) =>
        !isNode(event) ? context.nodes : context.nodes.map((n) => (n.node === event.node ? { ...n, phase } : n)),
    }),
    markExit: assign({
      nodes: ({ context, event }) =>
        event.type !== "stream.done"
          ? context.nodes
          : context.nodes.map((n) =>
              n.node === event.node ? { ...n, phase: "ended" as const, exit_code: event.exit_code } : n,
            ),
      exit_code: ({ context, event }) =>
        event.type !== "stream.done" || (context.exit_code ?? 0) !== 0 ? context.exit_code : event.exit_code,
      error: ({ context, event }) => (event.type === "stream.done" ? (context.error ?? event.error) : context.error),
    }),
    markOccupied: assign({ occupied: true }),
    markStarted: assign({ started_at: ({ context, event }) => context.started_at ?? event.at }),
    markCollectionOver: assign({
      nodes: ({ context }) =>
        context.nodes.map((n) => (n.phase === "released" ? n : { ...n, phase: "collected" as const })),
    }),
    /** `step`: the step of the state that timed out. */
    decide: assign({
      outcome: ({ context }, { outcome }: { outcome: Outcome; step?: StepName }) => context.outcome ?? outcome,
      error: ({ context, event }) => context.error ?? ("error" in event ? event.error : null),
      failure: ({ context, event }, { outcome, step }: { outcome: Outcome; step?: StepName }) =>
        context.outcome === null && outcome === "failed" ? failureOf(event, step) : context.failure,
    }),
    spoilSuccess: assign({
      outcome: ({ context }) => (context.outcome === "succeeded" ? ("failed" as const) : context.outcome),
      error: ({ context, event }): JobError | null => context.error ?? ("error" in event ? event.error : null),
    }),
    /**
     * A script that fails because a machine of its gang was lost, or because its own machine is being stopped, ends before the provider
     * reports the loss. The loss is the reason.
     */
    markLostMachine: assign(({ context, event }) => {
      if (event.type !== "step.failed" || !isLossBehind(context, event)) return context;
      const failure: PlacementFailure = { kind: event.failure ?? "machine_lost", step: "stream" };
      return { ...context, failure, error: event.error };
    }),
    markLateExit: assign({
      // If the end of the run was not observed the exit code stays unknown, whatever the other nodes end with.
      exit_code: ({ context, event }) =>
        context.exit_code ??
        (event.type === "collect.done" && context.error?.code !== "run_lost" ? event.exit_code : null),
    }),
    /** If the same failure has come back without a new checkpoint, the error says so. */
    nameStandstill: assign({
      error: ({ context, event }) =>
        context.error !== null && decided(context, event) === "no_progress"
          ? describeError("no_progress", { why: context.error.message })
          : context.error,
    }),
    /** A placement that the budget does not allow: the job ends for that reason, and its error names both. */
    nameLack: assign(({ context, event }) => {
      const lack = lackOf(event);
      const wanted = decided(context, event);
      if (lack === null || wanted === null || wanted === "no_progress") return context;
      return { ...context, outcome: "timed_out" as const, error: lack };
    }),
    markWarned: assign({
      warned: ({ context, event }) => (event.type === "budget.warned" ? event.percent : context.warned),
    }),
    change: assign(({ context, event }) => changed(context, event)),
    /** The budget ends the downloads of a run that had succeeded. */
    cutSuccess: assign(({ context, event }) =>
      event.type === "budget.spent" && context.outcome === "succeeded"
        ? { ...context, outcome: "timed_out" as const, error: event.error }
        : context,
    ),
    markEnded: assign({ ended_at: ({ event }) => event.at }),
  },
}).createMachine({
  id: "job",
  description: "One training run, from the wish for a machine to the proof that it is gone.",
  context: ({ input }) => ({
    job_id: input.job_id,
    max_runtime_ms: input.max_runtime_ms,
    budget_micro: input.budget_micro ?? null,
    warned: 0,
    rules: input.rules ?? NO_FURTHER_PLACEMENTS,
    placement: 0,
    candidate: input.rules?.searches === true ? null : 0,
    on_demand: false,
    held: input.held ?? false,
    searching_since: input.held === true ? null : input.at,
    refusals: [],
    bad_images: [],
    failure: null,
    checkpoint: null,
    retries: 0,
    preemptions: 0,
    seen: {},
    ran_ms: 0,
    running_since: null,
    nodes: Array.from({ length: input.nodes }, (_, node) => ({ node, phase: "waiting" as const, exit_code: null })),
    occupied: false,
    started_at: null,
    ended_at: null,
    outcome: null,
    exit_code: null,
    error: null,
  }),
  initial: "waiting",
  // The exits that every state before `terminating` has.
  on: {
    "job.kill": { target: ".terminating", actions: { type: "decide", params: { outcome: "cancelled" } } },
    "control.end": { target: ".terminating", actions: { type: "decide", params: { outcome: "interrupted" } } },
    "step.failed": { target: ".terminating", actions: { type: "decide", params: { outcome: "failed" } } },
    "budget.reached": { target: ".terminating", actions: { type: "decide", params: { outcome: "timed_out" } } },
    "budget.warned": { guard: "isNews", actions: "markWarned" },
    "job.changed": { actions: "change" },
  },
  states: {
    waiting: {
      description:
        "No machine exists and nothing is billed; waits for a limit of the home, or looks for a candidate with a machine.",
      entry: [
        "beginSearch",
        {
          type: "startSteps",
          params: ({ context }) => ({ step: "place", nodes: searches(context) ? [0] : [] }),
        },
      ],
      // A job that keeps its candidate needs no search.
      always: { guard: "isPlaced", target: "provisioning" },
      on: {
        "job.admitted": { guard: "isHeld", target: "waiting", reenter: true, actions: "admit" },
        "place.done": { target: "provisioning", actions: "markCandidate" },
        "step.failed": {
          target: "terminal",
          actions: [{ type: "decide", params: { outcome: "failed" } }, "markEnded"],
        },
        "job.kill": {
          target: "terminal",
          actions: [{ type: "decide", params: { outcome: "cancelled" } }, "markEnded"],
        },
        "control.end": {
          target: "terminal",
          actions: [{ type: "decide", params: { outcome: "interrupted" } }, "markEnded"],
        },
        "budget.reached": {
          target: "terminal",
          actions: [{ type: "decide", params: { outcome: "timed_out" } }, "markEnded"],
        },
      },
    },
    provisioning: {
      description: "Asking the provider for a machine. From here on we may be paying.",
      tags: ["billable"],
      entry: [
        "countPlacement",
        {
          type: "openPlacement",
          params: ({ context }) => ({
            placement: context.placement,
            candidate: context.candidate ?? 0,
            on_demand: context.on_demand,
          }),
        },
        { type: "startSteps", params: ({ context }) => ({ step: "provision", nodes: allNodes(context) }) },
        { type: "setTimer", params: { timer: "phase", after_ms: PHASE_LIMIT_MS.provisioning } },
      ],
      on: {
        "provision.done": [
          {
            guard: { type: "lastNodeAt", params: { phase: "provisioned" } },
            target: "awaiting_ssh",
            actions: [{ type: "markNode", params: { phase: "provisioned" } }, "endSearch"],
          },
          { actions: { type: "markNode", params: { phase: "provisioned" } } },
        ],
        "timer.phase": {
          target: "terminating",
          actions: { type: "decide", params: { outcome: "failed", step: "provision" } },
        },
      },
    },
    awaiting_ssh: {
      description: "The machine exists; waiting until it can be reached.",
      tags: ["billable"],
      entry: [
        { type: "startSteps", params: ({ context }) => ({ step: "await_ssh", nodes: allNodes(context) }) },
        { type: "setTimer", params: { timer: "phase", after_ms: PHASE_LIMIT_MS.awaiting_ssh } },
      ],
      on: {
        "await_ssh.done": [
          {
            guard: { type: "lastNodeAt", params: { phase: "reachable" } },
            target: "syncing",
            actions: { type: "markNode", params: { phase: "reachable" } },
          },
          { actions: { type: "markNode", params: { phase: "reachable" } } },
        ],
        "timer.phase": {
          target: "terminating",
          actions: { type: "decide", params: { outcome: "failed", step: "await_ssh" } },
        },
      },
    },
    syncing: {
      description: "Bringing the project to the machine.",
      tags: ["billable"],
      entry: [
        { type: "startSteps", params: ({ context }) => ({ step: "sync", nodes: allNodes(context) }) },
        { type: "setTimer", params: { timer: "phase", after_ms: PHASE_LIMIT_MS.syncing } },
      ],
      on: {
        "sync.done": [
          {
            guard: { type: "lastNodeAt", params: { phase: "synced" } },
            target: "installing",
            actions: { type: "markNode", params: { phase: "synced" } },
          },
          { actions: { type: "markNode", params: { phase: "synced" } } },
        ],
        "timer.phase": {
          target: "terminating",
          actions: { type: "decide", params: { outcome: "failed", step: "sync" } },
        },
      },
    },
    installing: {
      description: "Installing what the project needs.",
      tags: ["billable"],
      entry: [
        "markOccupied",
        { type: "startSteps", params: ({ context }) => ({ step: "install", nodes: allNodes(context) }) },
        { type: "setTimer", params: { timer: "phase", after_ms: PHASE_LIMIT_MS.installing } },
      ],
      on: {
        "install.done": [
          {
            guard: { type: "lastNodeAt", params: { phase: "installed" } },
            target: "running",
            actions: { type: "markNode", params: { phase: "installed" } },
          },
          { actions: { type: "markNode", params: { phase: "installed" } } },
        ],
        "timer.phase": {
          target: "terminating",
          actions: { type: "decide", params: { outcome: "failed", step: "install" } },
        },
      },
    },
    running: {
      description: "The script runs; svc downloads its log and metrics.",
      tags: ["billable"],
      exit: "markRan",
      entry: [
        "markRunning",
        { type: "startSteps", params: ({ context }) => ({ step: "launch", nodes: allNodes(context) }) },
        { type: "setTimer", params: ({ context, event }) => runtimeTimer(context, event.at) },
      ],
      on: {
        "launch.done": {
          actions: [
            { type: "markNode", params: { phase: "launched" } },
            { type: "markStarted" },
            { type: "startSteps", params: ({ event }) => ({ step: "stream", nodes: [event.node] }) },
          ],
        },
        // The gang rule: the first node that fails ends all; success needs every node.
        "stream.done": [
          {
            guard: "exitedBadly",
            target: "terminating",
            actions: ["markExit", { type: "decide", params: { outcome: "failed" } }],
          },
          {
            guard: { type: "lastNodeAt", params: { phase: "ended" } },
            target: "terminating",
            actions: ["markExit", { type: "decide", params: { outcome: "succeeded" } }],
          },
          { actions: "markExit" },
        ],
        "watchdog.idle": { target: "terminating", actions: { type: "decide", params: { outcome: "timed_out" } } },
        "timer.max_runtime": {
          guard: "hasMaxRuntime",
          target: "terminating",
          actions: { type: "decide", params: { outcome: "timed_out" } },
        },
        "job.changed": {
          actions: ["change", { type: "setTimer", params: ({ context, event }) => runtimeTimer(context, event.at) }],
        },
      },
    },
    terminating: {
      description:
        "svc stops the run, downloads its files, and releases the machine until the provider confirms that it is gone.",
      tags: ["billable"],
      entry: [
        {
          type: "startSteps",
          params: ({ context }) => ({ step: context.occupied ? "collect" : "terminate", nodes: allNodes(context) }),
        },
        { type: "setTimer", params: ({ context }) => collectTimer(context) },
      ],
      on: {
        "collect.done": {
          actions: [
            { type: "markNode", params: { phase: "collected" } },
            { type: "markLateExit" },
            { type: "startSteps", params: ({ event }) => ({ step: "terminate", nodes: [event.node] }) },
          ],
        },
        "timer.collect": {
          guard: "collecting",
          actions: [
            { type: "spoilSuccess" },
            { type: "cancelSteps", params: { step: "collect" } },
            { type: "startSteps", params: ({ context }) => ({ step: "terminate", nodes: uncollected(context) }) },
            { type: "markCollectionOver" },
          ],
        },
        // The rest of the budget is needed for the release.
        "budget.spent": {
          guard: "collecting",
          actions: [
            "cutSuccess",
            { type: "cancelSteps", params: { step: "collect" } },
            { type: "startSteps", params: ({ context }) => ({ step: "terminate", nodes: uncollected(context) }) },
            { type: "markCollectionOver" },
          ],
        },
        "step.failed": [
          {
            guard: { type: "failedStep", params: { step: "collect" } },
            actions: [
              { type: "markLostMachine" },
              { type: "spoilSuccess" },
              { type: "markNode", params: { phase: "collected" } },
              { type: "startSteps", params: ({ event }) => ({ step: "terminate", nodes: [event.node] }) },
            ],
          },
          {},
        ],
        "terminate.done": [
          {
            guard: "isReleasedAndGoesOn",
            target: "waiting",
            actions: [
              { type: "markNode", params: { phase: "released" } },
              "markCheckpoint",
              { type: "closePlacement", params: ({ context }) => closing(context, true) },
              "beginNext",
            ],
          },
          {
            guard: { type: "lastNodeAt", params: { phase: "released" } },
            target: "terminal",
            actions: [
              { type: "markNode", params: { phase: "released" } },
              "markCheckpoint",
              { type: "closePlacement", params: ({ context }) => closing(context, false) },
              "nameStandstill",
              "nameLack",
              "markEnded",
            ],
          },
          { actions: [{ type: "markNode", params: { phase: "released" } }, "markCheckpoint"] },
        ],
        // The outcome is decided (M4, M5). Two things may change: whether another placement follows (M6), and the waiting time for the
        // rest of the downloads.
        "job.kill": [
          {
            guard: and(["mayGoOn", "collectingAtLeisure"]),
            actions: [
              { type: "overrule", params: { outcome: "cancelled" } },
              { type: "setTimer", params: SOON },
            ],
          },
          { guard: "mayGoOn", actions: { type: "overrule", params: { outcome: "cancelled" } } },
          { guard: "collectingAtLeisure", actions: { type: "setTimer", params: SOON } },
          {},
        ],
        "control.end": [
          {
            guard: and(["mayGoOn", "collectingAtLeisure"]),
            actions: [
              { type: "overrule", params: { outcome: "interrupted" } },
              { type: "setTimer", params: SOON },
            ],
          },
          { guard: "mayGoOn", actions: { type: "overrule", params: { outcome: "interrupted" } } },
          { guard: "collectingAtLeisure", actions: { type: "setTimer", params: SOON } },
          {},
        ],
        "budget.reached": { guard: "mayGoOn", actions: { type: "overrule", params: { outcome: "timed_out" } } },
        "timer.phase": {},
      },
    },
    terminal: {
      type: "final",
      description: "The machine is confirmed gone, and its files are downloaded. The record's status is the outcome.",
    },
  },
});
