import { request } from "node:http";
import type { z } from "zod";
import { jsonOf } from "../domain/parsed-lines.ts";
import { SvcError } from "../errors/index.ts";
import { Health } from "../schemas/job.ts";

const DEADLINE_MS = 500;
const ANSWER_BYTES_MAX = 16 * 1024;

/** `port_taken`, naming the holder if it is another control plane of this user. */
export async function portTaken(host: string, port: number, cause: unknown): Promise<SvcError> {
  const health = await healthOf(host === "0.0.0.0" ? "127.0.0.1" : host === "::" ? "::1" : host, port);
  const holder = health
    ? ` by another svc (process ${health.pid}, home ${JSON.stringify(health.home.slice(0, 500))})`
    : "";
  return new SvcError("port_taken", { host, port, holder }, { cause });
}

/** Null if the listener does not answer as svc does, in time. Sends nothing secret. */
function healthOf(host: string, port: number): Promise<z.infer<typeof Health> | null> {
  return new Promise((resolve) => {
    const asking = request({ host, port, path: "/v1/health", signal: AbortSignal.timeout(DEADLINE_MS) }, (response) => {
      let text = "";
      response.setEncoding("utf8");
      response.on("data", (part: string) => {
        text += part;
        if (text.length > ANSWER_BYTES_MAX) asking.destroy();
      });
      response.on("error", () => resolve(null));
      response.on("close", () => resolve(null));
      response.on("end", () => resolve(Health.safeParse(jsonOf(text)).data ?? null));
    });
    asking.on("error", () => resolve(null));
    asking.end();
  });
}
