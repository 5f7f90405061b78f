// The run spec: what a user asks for. One zod schema gives the type, the check at the door, the OpenAPI document, the CLI
// messages and the dashboard's form; `title`, `description` and `unit` travel with it through `z.toJSONSchema`.

import { z } from "zod";
import { BEST } from "./best.ts";
import { line } from "./line.ts";
import { CHOICES, RETRYABLE, SPOT_CHOICES } from "./names.ts";
import { RuleLines } from "./rule-lines.ts";
import { PROVIDER_NAMES, THIS_COMPUTER } from "../providers/descriptors.ts";
import { Sinks } from "./sink.ts";
import { Tags } from "./tags.ts";

export const ProviderName = z
  .enum(PROVIDER_NAMES)
  .meta({ id: "ProviderName", title: "Provider", description: "The provider of the machine." });
export type ProviderName = z.infer<typeof ProviderName>;

const minutes = (what: string) =>
  z
    .number({ error: "must be a finite number of minutes" })
    .min(0, "must be 0 or more")
    .max(5_256_000, "must be at most ten years")
    .meta({ unit: "minutes", description: what });

const whole = (max: number, min = 1) =>
  z
    .number({ error: "must be a whole number" })
    .int("must be a whole number")
    .min(min, `must be at least ${min}`)
    .max(max, `must be at most ${max}`);

export const GpuRequest = z
  .string()
  .regex(
    /^(cpu|[A-Za-z0-9][A-Za-z0-9 ._/+-]{0,62}(:[1-9][0-9]{0,2})?)$/,
    "must be `cpu`, `cpu:<COUNT>`, `<MODEL>` or `<MODEL>:<COUNT>`, for example A100:4",
  )
  .meta({
    id: "GpuRequest",
    title: "GPUs",
    description:
      "`cpu`, `<MODEL>` (one GPU) or `<MODEL>:<COUNT>` on one machine; `cpu:<COUNT>` for that many processes, which torchrun starts where PyTorch is installed.",
  });

export const PriceCap = z
  .number({ error: "must be a finite number of dollars per hour" })
  .positive("must be more than 0")
  .max(1_000_000, "must be at most 1000000")
  .meta({
    id: "PriceCap",
    title: "Price cap",
    unit: "usd_per_hour",
    description: "Refuse machines that cost more than this. Not enforced if the provider reports no price.",
  });

export const BudgetUsd = z
  .number({ error: "must be a finite number of dollars" })
  .positive("must be more than 0")
  .max(1_000_000, "must be at most 1000000")
  .meta({
    id: "BudgetUsd",
    title: "Budget",
    unit: "usd",
    description:
      "Ceiling for everything that the run costs, failed machines included. The machine itself ends in time, also while this computer sleeps.",
  });

/** Variables that svc sets for every run: a caller's value would be silently lost, so it is refused. */
const SET_BY_SVC =
  /^SVC_(JOB_ID|CHECKPOINT_DIR|DATA_DIR|RESUME_FROM|ATTEMPT|PLACEMENT|NODE_RANK|NUM_NODES|NODE_IPS|MASTER_ADDR|GPUS_PER_NODE|METRICS_MARK|RUN_DIR|RUN_NONCE)$/;

export const EnvName = z
  .string()
  .regex(/^[A-Za-z_][A-Za-z0-9_]{0,127}$/, "must be a valid environment variable name")
  .refine((name) => !SET_BY_SVC.test(name), "must not be a variable that svc sets itself");

/** Values that name a secret instead of holding one. `file://` and `literal://` belong to the owner's registry alone. */
export const EnvValue = z
  .string()
  .max(32_768, "must be at most 32768 characters")
  .refine((s) => !s.includes("\u0000"), "must not contain a NUL character")
  .refine((s) => s.isWellFormed(), "must be well-formed Unicode")
  .refine(
    (s) => !/^(file|literal):\/\//.test(s),
    "must not begin with file:// or literal://, which only the owner's registry may use; use env:// or store://",
  );

export const KeepCheckpoints = z
  .strictObject({
    last: whole(100_000)
      .optional()
      .meta({ title: "Last", description: "How many of the newest complete checkpoints to keep." }),
    best: z
      .string()
      .regex(BEST, "must be METRIC:N, for example loss:3, or METRIC:N:max when higher is better")
      .optional()
      .meta({
        title: "Best",
        description: "`loss:3` keeps the three with the lowest loss at their step, `acc:3:max` those with the highest.",
      }),
    rotation: z.enum(["ignore", "follow"]).optional().meta({
      title: "Rotation",
      description: "`follow` also removes local copies of files that the script has removed on its machine.",
    }),
  })
  .refine(
    ({ last, best, rotation }) => last !== undefined || best !== undefined || rotation !== undefined,
    "must set last, best or rotation",
  )
  .meta({
    id: "KeepCheckpoints",
    title: "Keep checkpoints",
    description:
      "The complete checkpoints to keep on this computer (default: all). The newest complete one is always kept.",
  });
export type KeepCheckpoints = z.infer<typeof KeepCheckpoints>;

export const SpotChoice = z.enum(SPOT_CHOICES).meta({
  id: "SpotChoice",
  title: "Spot",
  description:
    "`prefer` takes a spot machine where one is offered, `only` takes nothing else. The provider may take a spot machine back at any time.",
});

export type SpotChoice = z.infer<typeof SpotChoice>;

const minVram = whole(10_000).meta({ title: "Min VRAM", unit: "gb", description: "Minimum memory per GPU." });
const region = line(64).meta({ title: "Region", description: "A hint in the provider's own naming." });
const image = line(512).meta({ title: "Image", description: "Container image or VM image family." });

/** Each candidate costs one request to a provider in every search. */
const CANDIDATES_MAX = 16;

export const Candidate = z
  .strictObject({
    provider: ProviderName,
    gpus: GpuRequest.optional(),
    region: region.optional(),
    price_cap: PriceCap.optional(),
    min_vram_gb: minVram.optional(),
    image: image.optional(),
    spot: SpotChoice.optional(),
  })
  .meta({
    id: "Candidate",
    title: "Candidate",
    description: "A machine that the run may use. Fields that it leaves out are the run's own.",
  });
export type Candidate = z.infer<typeof Candidate>;

/** For a text, zod gives the reason of the second choice alone, and for anything else that of the union. */
const NO_REASON = `must be ${RETRYABLE.join(", ")} or exit:<1 to 255>`;

export const RetryRules = z
  .strictObject({
    max: whole(20, 0).meta({ title: "Max", description: "How many further machines the run may use after failures." }),
    on: z
      .array(
        z.union(
          [z.enum(RETRYABLE), z.string().regex(/^exit:(?:[1-9]|[1-9]\d|1\d\d|2[0-4]\d|25[0-5])$/, NO_REASON)],
          NO_REASON,
        ),
      )
      .max(32)
      .meta({
        title: "On",
        description:
          "Failures after which the run continues on another machine: machine_lost, preempted, machine_unfit, boot_failed, install_failed, oom, or exit:<code> for an exit code of the script.",
      }),
  })
  .meta({
    id: "RetryRules",
    title: "Retry",
    description:
      "When a run continues on another machine. Default: twice after machine_unfit or boot_failed; also after machine_lost or preempted if a complete checkpoint was saved or the script had not started.",
  });
export type RetryRules = z.infer<typeof RetryRules>;

export const RunSpec = z
  .strictObject({
    entrypoint: line(1_024).meta({
      title: "Entrypoint",
      description:
        "Script inside project_dir, started with the interpreter of its first line (`#!…`) or by its extension (.py, .sh); or `-m package.module`.",
    }),
    args: z
      .array(
        z
          .string()
          .max(32_768, "must be at most 32768 characters")
          .refine((s) => !s.includes("\u0000"), "must not contain a NUL character")
          .refine((s) => s.isWellFormed(), "must be well-formed Unicode"),
      )
      .max(1_000)
      .default([])
      .meta({ title: "Arguments", description: "Passed to the script exactly as given." }),
    provider: ProviderName.default(THIS_COMPUTER),
    gpus: GpuRequest.default("cpu"),
    min_vram_gb: minVram.optional(),
    disk_gb: whole(1_000_000)
      .optional()
      .meta({ title: "Disk", unit: "gb", description: "Scratch disk on the machine." }),
    region: region.optional(),
    price_cap: PriceCap.optional(),
    project_dir: line(4_096).optional().meta({
      title: "Project directory",
      description:
        "Directory sent to the machine. Default: where `svc serve` was started; an SDK sends its own directory.",
    }),
    nodes: whole(64).default(1).meta({
      title: "Nodes",
      description: "Number of separate machines. More than 1 needs a provider that supports it.",
    }),
    terminate_on_exit: z.boolean().default(true).meta({
      title: "Terminate on exit",
      description: "End the run and release its machine when the control plane ends gracefully.",
    }),
    idle_timeout_minutes: minutes(
      "End a run that has been idle for this long; 0 turns it off. Default 30; off for local.",
    ).optional(),
    max_runtime_minutes: minutes("Hard limit, counted from launch; 0 means none.").optional(),
    budget_usd: BudgetUsd.optional(),
    rate_usd_per_hour: z
      .number({ error: "must be a finite number of dollars per hour" })
      .positive("must be more than 0")
      .max(1_000_000, "must be at most 1000000")
      .optional()
      .meta({
        title: "Rate",
        unit: "usd_per_hour",
        description: "Price of one machine, for a provider that reports none. Costs are then estimates.",
      }),
    orphan_grace_minutes: minutes(
      "How long a finished or idle machine waits for svc before it shuts itself down.",
    ).default(30),
    stop_grace_seconds: whole(3_600, 0).default(10).meta({
      title: "Stop grace",
      unit: "seconds",
      description:
        "Time between TERM and KILL when svc ends a run, enough to save a last checkpoint. A launcher of several processes gets 40 seconds by default.",
    }),
    env: z.record(EnvName, EnvValue).default({}).meta({
      title: "Environment",
      description:
        "Environment variables of the run. A value `env://NAME` or `store://path` is resolved and kept secret.",
    }),
    install: line(8_192).default("auto").meta({ title: "Install", description: "`auto`, `none`, or a shell command." }),
    python: line(4_096).optional().meta({
      title: "Python",
      description:
        "Interpreter of a local run: a command, a path, or the folder of an environment. An SDK sends its own; rented machines use theirs.",
    }),
    launcher: z.enum(["auto", "single", "torchrun", "ray"]).default("auto").meta({ title: "Launcher" }),
    image: image.optional(),
    data: z
      .array(line(128))
      .max(256)
      .default([])
      .meta({ title: "Data", description: "Names of the data to make available on the machine." }),
    resume_from: line(64).optional().meta({
      title: "Resume from",
      description: "A job whose last complete checkpoint this run starts from; `last` is the newest job.",
    }),
    resume_checkpoint: line(1_024).optional().meta({
      title: "Resume from checkpoint",
      description: "A complete checkpoint of the job in resume_from, by its path, instead of the last one.",
    }),
    keep_checkpoints: KeepCheckpoints.optional(),
    candidates: z
      .array(Candidate)
      .min(1, "must name at least one machine")
      .max(CANDIDATES_MAX, `must be at most ${CANDIDATES_MAX} machines`)
      .optional()
      .meta({
        title: "Candidates",
        description: "Machines that the run may use, instead of the one of its own fields.",
      }),
    choose: z.enum(CHOICES).optional().meta({
      title: "Choose",
      description:
        "`in_order` (default) takes the first candidate with an offer, `cheapest` the lowest price per hour.",
    }),
    wait_for_capacity_minutes: whole(10_080, 0).optional().meta({
      title: "Wait for capacity",
      unit: "minutes",
      description: "How long the run waits, at no cost, when no candidate has a machine. Default 0: about one minute.",
    }),
    retry: RetryRules.optional(),
    spot: SpotChoice.optional(),
    max_preemptions: whole(1_000, 0).optional().meta({
      title: "Max preemptions",
      description: "After so many preemptions (default 10) `prefer` rents on demand, and `only` ends the run.",
    }),
    health: z.enum(["quick", "off"]).optional().meta({
      title: "Health",
      description: "`quick` (default) tests the machine before the script starts; `off` skips the tests.",
    }),
    notify: RuleLines.optional().meta({
      title: "Notify",
      description:
        "Rules of this run, in addition to those of the home: `loss > 10`, `loss is nan, stop`, `loss silent 20m`, `no checkpoint 60m`, `waiting 30m`. With `, stop` at its end a rule also ends the run.",
    }),
    sinks: Sinks,
  })
  .meta({ id: "RunSpec", title: "Run spec" });

/** The spec with defaults applied, as the state machine carries it. */
export type RunSpec = z.infer<typeof RunSpec>;
/** The spec as a caller may write it. */
export type RunSpecInput = z.input<typeof RunSpec>;

export const SubmitBody = z
  .strictObject({
    label: line(200).nullish().meta({ title: "Label", description: "A name for people." }),
    tags: Tags.optional().meta({
      title: "Tags",
      description: "Words by which the run is found again. They can be changed at any time.",
    }),
    spec: RunSpec,
  })
  .meta({ id: "SubmitBody" });
export type SubmitBody = z.infer<typeof SubmitBody>;
