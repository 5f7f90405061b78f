// The life of a job. Pure: the engine folds events through `transition`, commits the result, and only then acts.
//
// M1. The seven states are the contract's. If a state waits for several nodes, the nodes are in the context.
// M2. A step or a timer belongs to the state that requested it: leaving the state cancels it.
// M3. From every state tagged `billable` the only way to `terminal` leads through `terminating`.
// M4. `terminating` ends only by proof (`terminate.done` of every node). Nothing else leaves it: no kill, no failure, no timer.
// M5. The outcome is decided once, on the way into `terminating`, and only a collection that failed or was given up can spoil a success after that.

import { assign, setup } from "xstate";
import type { JobError, Outcome, StepName } from "../schemas/job.ts";
import type { JobContext, JobEvent, JobInput, NodePhase, TimerName } from "./job-context.ts";

/** Raise this with every change of states, events, context or effects, and add a migration (src/machines/versions.ts). */
export const JOB_MACHINE_VERSION = 2;

const MINUTE_MS = 60_000;

/** How long each state may take before the machine is released. */
export const PHASE_LIMIT_MS = {
  provisioning: 45 * MINUTE_MS,
  awaiting_ssh: 20 * MINUTE_MS,
  syncing: 6 * 60 * MINUTE_MS,
  installing: 2 * 60 * MINUTE_MS,
} as const;

/** Limits for downloading log and checkpoints after the end: short if a user waits for a kill. */
export const COLLECT_LIMIT_MS = { asked: 10 * MINUTE_MS, ended: 2 * 60 * MINUTE_MS } as const;

export interface StartSteps {
  step: StepName;
  nodes: number[];
}
export interface SetTimer {
  timer: TimerName;
  after_ms: number;
  /** If the timer is already set, the earlier instant counts. */
  at_most?: true;
}

const SOON: SetTimer = { timer: "collect", after_ms: COLLECT_LIMIT_MS.asked, at_most: true };

const allNodes = (context: JobContext): number[] => context.nodes.map((n) => n.node);

/** Whether every node except `node` has already reached `phase`: then the current event completes the set. */
const othersAt = (context: JobContext, node: number, phase: NodePhase): boolean =>
  context.nodes.every((n) => n.node === node || n.phase === phase);

const isCollecting = ({ nodes }: JobContext): boolean =>
  nodes.some((n) => n.phase !== "collected" && n.phase !== "released");

/** Whether a user or a shutdown waits for the end. */
const isAsked = ({ outcome }: JobContext): boolean => outcome === "cancelled" || outcome === "interrupted";

const isNode = (event: JobEvent): event is Extract<JobEvent, { node: number }> => "node" in event;

export const jobMachine = setup({
  types: { context: {} as JobContext, input: {} as JobInput, events: {} as JobEvent },
  guards: {
    lastNodeAt: ({ context, event }, { phase }: { phase: NodePhase }) =>
      isNode(event) && othersAt(context, event.node, phase),
    exitedBadly: ({ event }) => event.type === "stream.done" && (event.exit_code !== 0 || event.error !== null),
    failedStep: ({ event }, { step }: { step: StepName }) => event.type === "step.failed" && event.step === step,
    collecting: ({ context }) => isCollecting(context),
    collectingAtLeisure: ({ context }) => context.occupied && !isAsked(context) && isCollecting(context),
    hasMaxRuntime: ({ context }) => context.max_runtime_ms !== null,
  },
  actions: {
    // Effects: named here, carried out by the engine after the commit. Their implementations are never called.
    startSteps: (_, _params: StartSteps) => {},
    cancelSteps: (_, _params: { step: StepName }) => {},
    setTimer: (_, _params: SetTimer) => {},

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
    decide: assign({
      outcome: ({ context }, { outcome }: { outcome: Outcome }) => context.outcome ?? outcome,
      error: ({ context, event }) => context.error ?? ("error" in event ? event.error : null),
    }),
    spoilSuccess: assign({
      outcome: ({ context }) => (context.outcome === "succeeded" ? ("failed" as const) : context.outcome),
      error: ({ context, event }): JobError | null => context.error ?? ("error" in event ? event.error : null),
    }),
    markLateExit: assign({
      // If the end of the run was not observed the exit code stays unknown, whatever the other nodes end with.
      exit_code: ({ context, event }) =>
        context.exit_code ??
        (event.type === "collect.done" && context.error?.code !== "run_lost" ? event.exit_code : null),
    }),
    markEnded: assign({ ended_at: ({ event }) => event.at }),
  },
}).createMachine({
  id: "job",
  description: "One training run, from the wish for a machine to the proof that it is gone.",
  context: ({ input }) => ({
    job_id: input.job_id,
    max_runtime_ms: input.max_runtime_ms,
    nodes: Array.from({ length: input.nodes }, (_, node) => ({ node, phase: "waiting" as const, exit_code: null })),
    occupied: false,
    started_at: null,
    ended_at: null,
    outcome: null,
    exit_code: null,
    error: null,
  }),
  initial: "provisioning",
  // The exits that every state before `terminating` has.
  on: {
    "job.kill": { target: ".terminating", actions: { type: "decide", params: { outcome: "cancelled" } } },
    "control.end": { target: ".terminating", actions: { type: "decide", params: { outcome: "interrupted" } } },
    "step.failed": { target: ".terminating", actions: { type: "decide", params: { outcome: "failed" } } },
    "timer.phase": { target: ".terminating", actions: { type: "decide", params: { outcome: "failed" } } },
  },
  states: {
    provisioning: {
      description: "Asking the provider for a machine. From here on we may be paying.",
      tags: ["billable"],
      entry: [
        { type: "startSteps", params: ({ context }) => ({ step: "provision", nodes: allNodes(context) }) },
        { type: "setTimer", params: { timer: "phase", after_ms: PHASE_LIMIT_MS.provisioning } },
      ],
      on: {
        "provision.done": [
          {
            guard: { type: "lastNodeAt", params: { phase: "provisioned" } },
            target: "awaiting_ssh",
            actions: { type: "markNode", params: { phase: "provisioned" } },
          },
          { actions: { type: "markNode", params: { phase: "provisioned" } } },
        ],
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
      },
    },
    running: {
      description: "The script runs; log and metrics come home.",
      tags: ["billable"],
      entry: [
        { type: "startSteps", params: ({ context }) => ({ step: "launch", nodes: allNodes(context) }) },
        {
          // A limit of 0 ms requests no timer: the engine skips it.
          type: "setTimer",
          params: ({ context }) => ({ timer: "max_runtime", after_ms: context.max_runtime_ms ?? 0 }),
        },
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
      },
    },
    terminating: {
      description:
        "Stopping the run, bringing home what it left, and giving the machine back until the provider proves it gone.",
      tags: ["billable"],
      entry: [
        {
          type: "startSteps",
          params: ({ context }) => ({ step: context.occupied ? "collect" : "terminate", nodes: allNodes(context) }),
        },
        {
          type: "setTimer",
          params: ({ context }) => ({
            timer: "collect",
            after_ms: !context.occupied ? 0 : isAsked(context) ? COLLECT_LIMIT_MS.asked : COLLECT_LIMIT_MS.ended,
          }),
        },
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
            {
              type: "startSteps",
              params: ({ context }) => ({
                step: "terminate",
                nodes: context.nodes
                  .filter((n) => n.phase !== "collected" && n.phase !== "released")
                  .map((n) => n.node),
              }),
            },
            { type: "markCollectionOver" },
          ],
        },
        "step.failed": [
          {
            guard: { type: "failedStep", params: { step: "collect" } },
            actions: [
              { type: "spoilSuccess" },
              { type: "markNode", params: { phase: "collected" } },
              { type: "startSteps", params: ({ event }) => ({ step: "terminate", nodes: [event.node] }) },
            ],
          },
          {},
        ],
        "terminate.done": [
          {
            guard: { type: "lastNodeAt", params: { phase: "released" } },
            target: "terminal",
            actions: [{ type: "markNode", params: { phase: "released" } }, { type: "markEnded" }],
          },
          { actions: { type: "markNode", params: { phase: "released" } } },
        ],
        // The outcome is decided (M4, M5): only the waiting time for the rest of the downloads may change.
        "job.kill": [{ guard: "collectingAtLeisure", actions: { type: "setTimer", params: SOON } }, {}],
        "control.end": [{ guard: "collectingAtLeisure", actions: { type: "setTimer", params: SOON } }, {}],
        "timer.phase": {},
      },
    },
    terminal: {
      type: "final",
      description: "The machine is proven gone and everything it left is home. The record's status is the outcome.",
    },
  },
});
