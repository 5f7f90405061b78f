// The pod host's second API. Its errors are problem documents with a status of their own.

import { during, strike } from "./faults.ts";
import type { Call, Reply, Route } from "./http-server.ts";
import type { SimParts } from "./parts.ts";
import { Refused, type Caller, type PodOrders } from "./podhost-orders.ts";
import type { PodhostPods, PodRequest } from "./podhost-pods.ts";

const FIELDS =
  "name image args entrypoint cmd disk ports env startSsh startJupyter cloud dataCenterIds countryCodes gpu mounts registry globalNetworking templateId";

const GPU_FIELDS = ["id", "count", "minCudaVersion", "minRamPerGpu", "minVcpuCountPerGpu"];

const problem = (status: number, title: string, detail: string, errors: unknown[] = []): Reply => ({
  status,
  json: { title, status, detail, ...(errors.length > 0 ? { errors } : {}) },
  headers: { "content-type": "application/problem+json" },
});

class Unprocessable extends Error {}

/**
 * A page of a list, and the start of the next one. Like the real API, it refuses a cursor that it has not given out.
 */
function paged(
  name: "pods" | "gpus",
  rows: readonly Record<string, unknown>[],
  query: URLSearchParams,
  size: number,
): Reply {
  const cursor = query.get("cursor");
  const from = cursor === null ? 0 : Number(/^at:(\d+)$/.exec(Buffer.from(cursor, "base64url").toString("utf8"))?.[1]);
  if (!Number.isInteger(from)) throw new Unprocessable("cursor is malformed");
  const next = from + size;
  const hasNextPage = next < rows.length;
  const nextCursor = hasNextPage ? Buffer.from(`at:${next}`).toString("base64url") : null;
  return { json: { [name]: rows.slice(from, next), pagination: { nextCursor, hasNextPage } } };
}

export function restRoutes(
  parts: SimParts,
  pods: PodhostPods,
  orders: PodOrders,
  callerOf: (call: Call) => Caller | null,
  pageSize: () => number,
): Route[] {
  const { faults, clock } = parts;
  const guarded =
    (run: (call: Call, caller: Caller) => Reply | Promise<Reply>) =>
    async (call: Call): Promise<Reply> => {
      const caller = callerOf(call);
      if (!caller || caller.kind === "nobody")
        return problem(401, "Unauthorized", "The API key is missing or not valid.");
      try {
        return await run(call, caller);
      } catch (error) {
        if (error instanceof Unprocessable) return problem(422, "Unprocessable Entity", error.message);
        if (!(error instanceof Refused)) throw error;
        if (error.forbidden) return problem(403, "Forbidden", "The API key may not do this.");
        if (error.message.includes("balance is too low")) return problem(402, "Payment Required", error.message);
        if (error.message.startsWith("Something went wrong"))
          return problem(500, "Internal Server Error", error.message);
        return problem(400, "Bad Request", error.message);
      }
    };
  const gone = (): Reply => problem(404, "Not Found", "pod not found");
  const seen = (id: string | undefined) => pods.seen().find((pod) => pod.id === id);

  async function create(call: Call, caller: Caller): Promise<Reply> {
    orders.mayChange(caller, null);
    const request = orders.checked("pods", orderOf(call.body));
    if (faults.take("error_before_create")) return problem(500, "Internal Server Error", "upstream");
    const late = strike(faults, "slow_create");
    if (late !== null) {
      await clock.wait(late / 3);
      void clock.wait((late * 2) / 3).then(() => orders.make(request));
      return { lost: true };
    }
    const pod = orders.make(request);
    if (faults.take("lost_after_create")) return { lost: true };
    // The server made the pod and then failed to read it.
    if (faults.take("error_after_create")) return problem(500, "Internal Server Error", "Something went wrong.");
    return orders.spoilt({ status: 201, json: orders.shownByRest(pod) });
  }

  async function remove(call: Call, caller: Caller): Promise<Reply> {
    const id = call.params["id"] ?? "";
    orders.mayChange(caller, id);
    if (during(parts, "delete_errors")) return problem(500, "Internal Server Error", "Something went wrong.");
    if (!(await orders.terminate(id, caller))) return gone();
    return faults.take("delete_lost") ? { lost: true } : { status: 204 };
  }

  return [
    { method: "GET", path: "/v2/account/ssh-keys", run: guarded(() => ({ json: { sshKeys: [] } })) },
    { method: "GET", path: "/v2/registries", run: guarded(() => ({ json: { registries: [] } })) },
    {
      method: "GET",
      path: "/v2/catalog/gpus",
      run: (call) => {
        const gpus = orders.catalogue(Number(call.query.get("count") ?? 1));
        // Its pages are larger than those of pods.
        return orders.spoilt(paged("gpus", gpus, call.query, pageSize() * 5));
      },
    },
    { method: "POST", path: "/v2/pods", run: guarded(create) },
    {
      method: "GET",
      path: "/v2/pods",
      run: guarded(({ query }, caller) => {
        if (caller.kind === "pod") throw new Refused("Forbidden", { forbidden: true });
        const shown = pods.seen().map((pod) => orders.shownByRest(pod));
        return orders.spoilt(paged("pods", shown, query, pageSize()));
      }),
    },
    {
      method: "GET",
      path: "/v2/pods/:id",
      run: guarded(({ params }, caller) => {
        const pod = seen(params["id"]);
        if (caller.kind === "pod" && caller.pod !== pod) throw new Refused("Forbidden", { forbidden: true });
        return pod ? orders.spoilt({ json: orders.shownByRest(pod) }) : gone();
      }),
    },
    {
      method: "GET",
      path: "/v2/pods/:id/logs",
      run: guarded(({ params }) => {
        const pod = seen(params["id"]);
        return pod ? { text: pod.log } : gone();
      }),
    },
    { method: "DELETE", path: "/v2/pods/:id", run: guarded(remove) },
    {
      method: "POST",
      path: "/v2/pods/:id/action",
      run: guarded(async (call, caller) => {
        const id = call.params["id"] ?? "";
        orders.mayChange(caller, id);
        const { action } = (call.body ?? {}) as { action?: unknown };
        if (action !== "stop") throw new Unprocessable("action must be one of: stop, start, restart, reset");
        const pod = orders.find(id);
        if (!pod) return gone();
        await orders.stop(pod);
        return orders.spoilt({ json: orders.shownByRest(pod) });
      }),
    },
  ];
}

function orderOf(body: unknown): Omit<PodRequest, "gpu"> & { gpuIds: string[]; startSsh: boolean } {
  if (typeof body !== "object" || body === null || Array.isArray(body))
    throw new Unprocessable("the body must be an object");
  const given = body as Record<string, unknown>;
  for (const key of Object.keys(given))
    if (!FIELDS.split(" ").includes(key)) throw new Unprocessable(`unexpected property ${key}`);
  const {
    name,
    image,
    args,
    entrypoint,
    cmd,
    disk,
    ports = [],
    env = {},
    cloud = "SECURE",
    dataCenterIds = [],
    gpu,
  } = given;
  const must = (holds: boolean, what: string): void => {
    if (!holds) throw new Unprocessable(what);
  };
  const wish = (typeof gpu === "object" && gpu !== null ? gpu : {}) as Record<string, unknown>;
  must(typeof name === "string" && name.length <= 191, "name must be a string of at most 191 characters");
  must(typeof image === "string" && image !== "", "image must be a string");
  must(args === undefined || args === null || typeof args === "string", "args must be a string");
  must(
    Array.isArray(ports) && ports.every((port) => /^\d+\/(tcp|http)$/.test(String(port))),
    "ports must be like 22/tcp",
  );
  must(typeof env === "object" && env !== null && !Array.isArray(env), "env must be an object");
  must(
    Object.values(env as object).every((value) => typeof value === "string"),
    "env values must be strings",
  );
  must(cloud === "SECURE" || cloud === "COMMUNITY", "cloud must be SECURE or COMMUNITY");
  must(Array.isArray(dataCenterIds), "dataCenterIds must be a list");
  must(typeof wish["id"] === "string", "gpu.id must be a string");
  must(
    Object.keys(wish).every((key) => GPU_FIELDS.includes(key)),
    "gpu has an unexpected property",
  );
  return {
    name: String(name),
    imageName: String(image),
    gpuIds: [String(wish["id"])],
    gpuCount: typeof wish["count"] === "number" ? wish["count"] : 1,
    cloud: cloud === "COMMUNITY" ? "COMMUNITY" : "SECURE",
    dataCenterId: Array.isArray(dataCenterIds) && typeof dataCenterIds[0] === "string" ? dataCenterIds[0] : null,
    env: env as Record<string, string>,
    dockerArgs: typeof args === "string" ? args : cmd === undefined ? null : JSON.stringify({ entrypoint, cmd }),
    ports: (ports as unknown[]).map(String).join(","),
    containerDiskInGb: typeof disk === "number" ? disk : 20,
    volumeInGb: 0,
    interruptible: false,
    startSsh: given["startSsh"] === true,
    private: given["globalNetworking"] === true,
  };
}
