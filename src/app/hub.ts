// Wires the hub's parts: the token, the place, and the target of events.

import type { Clock } from "../domain/clock.ts";
import { requireExtra } from "../domain/extras.ts";
import { JobIds } from "../domain/ids.ts";
import type { Engine } from "../engine/engine.ts";
import { messageOf } from "../errors/index.ts";
import { Pulls } from "../hub/pulls.ts";
import type { HubPullHint } from "../schemas/hub.ts";
import { readHub } from "../secrets/services.ts";

export interface HubParts {
  home: string;
  env: NodeJS.ProcessEnv;
  clock: Clock;
  engine: Engine;
  installationId: string;
  publish: (hint: HubPullHint) => void;
  log: (line: string) => void;
}

export function modelsOfHub({ home, env, clock, engine, installationId, publish, log }: HubParts): Pulls {
  const ids = new JobIds(clock.now);
  return new Pulls({
    home,
    mark: installationId.slice(0, 8),
    clock,
    newId: () => ids.next(),
    random: Math.random,
    userAgent: "svc",
    settings: () => readHub({ home, env }),
    requireExtra: () => requireExtra("hub", env),
    emit: async (type, data) => {
      try {
        await engine.commit((tx) => tx.feed(null, type, data));
      } catch (e) {
        log(`${type} could not be written down: ${messageOf(e)}`);
      }
    },
    hint: (pull) => publish({ type: "pull.progress", job_id: null, pull }),
  });
}
