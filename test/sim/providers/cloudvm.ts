// The simulated cloud: its compute API and its token endpoint over loopback.
//
// Faults: all answer faults of http-server.ts; lost_after_create, error_after_create, error_before_create, slow_create;
// listing_lag (list and get); no_capacity, sold_out and offer_taken (a stockout inside the operation); delete_ignored,
// delete_errors, delete_lost; hostile_strings (addresses); boot_never (stays STAGING), boot_fails (halts itself),
// bad_hosts, busy_hosts and dead_hosts; and those of machine-faults.ts, where `port_swap` is another address. The API reports no
// prices, so it has no price faults. Further switches: `stockouts`, `quota`, `denied`, `unreachable`, `pageSize`, and
// those of `instances` and `desk`.

import { userInfo } from "node:os";
import { ACCELERATOR_TYPES, IMAGE_FAMILIES, IMAGE_PROJECT, machineType, regionOf, ZONES } from "./cloudvm-catalogue.ts";
import { BadFilter } from "./cloudvm-filter.ts";
import { CloudError, readInsert, type InsertOrder, type Json } from "./cloudvm-insert.ts";
import {
  CloudInstances,
  type CloudTimings,
  type Instance,
  type Operation,
  type OperationFailure,
} from "./cloudvm-instances.ts";
import { aggregatedPage, failed, listPage, missing } from "./cloudvm-list.ts";
import { quotaExceeded, shownInstance, shownOperation, stockout } from "./cloudvm-shown.ts";
import { TokenDesk } from "./cloudvm-token.ts";
import { during } from "./faults.ts";
import { startServer, type Call, type Reply, type Route, type SimServer } from "./http-server.ts";
import { usersOf, type ProviderSim, type SimParts } from "./parts.ts";

export interface CloudvmOptions extends SimParts {
  port?: number;
  project?: string;
  zone?: string;
  timings?: Partial<CloudTimings>;
  /** The port of every machine's sshd for users. */
  sshPort?: number;
  onCall?(line: string): void;
}

export type Denied = "forbidden" | "accessNotConfigured";

const TIMINGS: CloudTimings = {
  operationPendingMs: 50,
  provisioningMs: 100,
  stagingMs: 150,
  guestAgentMs: 150,
  deletingMs: 150,
  noticeMs: 300,
  stockoutMs: 150,
  queuedMs: 150,
};
const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i;
const ZERO_UUID = "00000000-0000-0000-0000-000000000000";
const WAIT_MS_MAX = 120_000;
const USD_PER_GPU_HOUR = 2;

export class CloudvmSim implements ProviderSim {
  readonly name = "cloudvm";
  readonly project: string;
  readonly zone: string;
  readonly desk: TokenDesk;
  readonly instances: CloudInstances;
  /** Zones without capacity. */
  readonly stockouts = new Set<string>();
  /** Zones that do not answer. */
  readonly unreachable = new Set<string>();
  /** A quota that every insert exceeds, reported at once or in the operation. */
  quota: { metric: string; limit: number; how: "at once" | "in the operation" } | null = null;
  denied: Denied | null = null;
  /** Names of the project's reservations. */
  readonly reservations = new Set<string>();
  pageSize = 500;

  readonly #parts: SimParts;
  #server: SimServer | undefined;
  #port = 0;
  #turn = 0;

  private constructor(options: CloudvmOptions) {
    this.#parts = options;
    this.project = options.project ?? "sim-project";
    this.zone = options.zone ?? "us-central1-a";
    this.desk = new TokenDesk(this.project, () => options.clock.now());
    this.instances = new CloudInstances(options, { ...TIMINGS, ...options.timings }, this.desk.email, () => this.#port);
    this.instances.sshPort =
      options.sshPort ?? (options.fleet.kind === "namespaces" || userInfo().uid === 0 ? 22 : 2222);
  }

  static async start(options: CloudvmOptions): Promise<CloudvmSim> {
    const sim = new CloudvmSim(options);
    const find = (name: string): Instance | undefined =>
      [...sim.instances.all.values()].find((one) => one.machine?.name === name);
    const server = await startServer({
      parts: options,
      port: options.port ?? 0,
      routes: sim.#routes(),
      rateLimited: (_call, nth) =>
        failed(
          new CloudError(
            nth % 2 === 0 ? 403 : 429,
            "rateLimitExceeded",
            "Quota exceeded for quota metric 'Queries'.",
            "usageLimits",
          ),
        ),
      // A form-encoded body is not JSON.
      badJson: (call) =>
        call.path === "/token" ? sim.#token(call) : failed(new CloudError(400, "parseError", "Parse Error")),
      notFound: () => ({
        status: 404,
        text: "<!DOCTYPE html><title>Error 404 (Not Found)!!1</title>",
        headers: { "content-type": "text/html" },
      }),
      vanish: async (name) => {
        const instance = find(name);
        if (instance) await sim.instances.vanish(instance);
      },
      preempt: async (name) => {
        const instance = find(name);
        if (instance) await sim.instances.preempt(instance);
      },
      metadata: (call) => sim.#metadata(call),
      ...(options.onCall && { onCall: options.onCall }),
    });
    sim.#server = server;
    sim.#port = server.port;
    return sim;
  }

  get url(): string {
    return this.#server?.url ?? "";
  }

  /** The key file in the form that the cloud's console gives. */
  serviceAccount(): Record<string, string> {
    return {
      type: "service_account",
      project_id: this.project,
      private_key_id: this.desk.keyId,
      private_key: this.desk.privateKey,
      client_email: this.desk.email,
      client_id: "104242424242424242424",
      auth_uri: `${this.url}/auth`,
      token_uri: `${this.url}/token`,
      universe_domain: "googleapis.com",
    };
  }

  settings(): { env: Record<string, string>; credentials: Record<string, unknown> } {
    const { sshPort } = this.instances;
    return {
      env: { SVC_CLOUDVM_URL: this.url },
      credentials: {
        providers: {
          cloudvm: {
            service_account_json: JSON.stringify(this.serviceAccount()),
            project: this.project,
            zone: this.zone,
            metadata_url: `${this.url}/metadata/{name}`,
            ...(sshPort !== 22 && { ssh_port: sshPort }),
            ...usersOf(this.#parts.fleet),
          },
        },
      },
    };
  }

  /** A foreign machine in the project. */
  addForeign(name: string, labels: Record<string, string> = {}, zone = this.zone): void {
    this.instances.addForeign(zone, name, labels);
  }

  async close(): Promise<void> {
    await this.#server?.close();
    await Promise.all([...this.instances.all.values()].map((instance) => this.instances.vanish(instance)));
  }

  #routes(): Route[] {
    const base = "/compute/v1/projects/:project";
    const zoned = `${base}/zones/:zone`;
    const to =
      (run: (call: Call) => Reply | Json | Promise<Reply | Json>, anyProject = false) =>
      async (call: Call): Promise<Reply> => {
        try {
          this.#admit(call, anyProject);
          const answer = await run(call);
          return "kind" in answer ? { json: answer } : answer;
        } catch (error) {
          if (error instanceof CloudError) return failed(error);
          if (error instanceof BadFilter)
            return failed(
              new CloudError(
                400,
                "invalid",
                `Invalid value for field 'filter': '${error.message}'. Invalid list filter expression.`,
              ),
            );
          throw error;
        }
      };
    const get = (path: string, run: (call: Call) => Reply | Json | Promise<Reply | Json>, any = false): Route => ({
      method: "GET",
      path,
      run: to(run, any),
    });
    const post = (path: string, run: (call: Call) => Reply | Json | Promise<Reply | Json>): Route => ({
      method: "POST",
      path,
      run: to(run),
    });
    const named = (kind: string, names: readonly string[]): Json => ({
      kind: `compute#${kind}List`,
      items: names.map((name) => ({ kind: `compute#${kind}`, name })),
    });
    return [
      { method: "POST", path: "/token", run: (call) => this.#token(call) },
      get(base, () => ({
        kind: "compute#project",
        name: this.project,
        commonInstanceMetadata: {
          kind: "compute#metadata",
          ...(this.instances.projectOsLogin && { items: [{ key: "enable-oslogin", value: "TRUE" }] }),
        },
        quotas: [{ metric: "NETWORKS", limit: 5, usage: 1 }],
      })),
      get(`${base}/zones`, (call) =>
        this.#page(
          call,
          "zoneList",
          ZONES.map((name) => ({ kind: "compute#zone", name, status: "UP", region: regionOf(name) })),
        ),
      ),
      get(zoned, ({ params: { zone = "" } }) => {
        if (!ZONES.includes(zone)) throw missing(`projects/${this.project}/zones/${zone}`);
        return { kind: "compute#zone", name: zone, status: "UP" };
      }),
      get(`${base}/regions/:region`, ({ params: { region = "" } }) => {
        if (!ZONES.some((zone) => regionOf(zone) === region))
          throw missing(`projects/${this.project}/regions/${region}`);
        const limit = this.quota?.limit ?? 16;
        return {
          kind: "compute#region",
          name: region,
          quotas: ACCELERATOR_TYPES.map((type) => ({ metric: type.quotaMetric, limit, usage: 0 })),
        };
      }),
      get(`${zoned}/acceleratorTypes`, ({ params: { zone = "" } }) =>
        named(
          "acceleratorType",
          ACCELERATOR_TYPES.filter((type) => type.zones.includes(zone)).map((type) => type.name),
        ),
      ),
      get(`${zoned}/machineTypes/:type`, ({ params: { zone = "", type = "" } }) => {
        if (machineType(zone, type) === null)
          throw missing(`projects/${this.project}/zones/${zone}/machineTypes/${type}`);
        return { kind: "compute#machineType", name: type, zone };
      }),
      get(
        `${base}/global/images/family/:family`,
        ({ params: { project = "", family = "" } }) => {
          if (project !== IMAGE_PROJECT || !IMAGE_FAMILIES.includes(family))
            throw missing(`projects/${project}/global/images/family/${family}`);
          return { kind: "compute#image", name: `${family}-v20260701`, family, diskSizeGb: "50" };
        },
        true,
      ),
      get(`${base}/global/firewalls`, () => named("firewall", ["default-allow-ssh", "default-allow-internal"])),
      get(`${base}/aggregated/instances`, (call) =>
        aggregatedPage(
          call.query,
          { project: this.project, pageSize: this.pageSize, unreachable: this.unreachable },
          this.#rows((instance) => !this.unreachable.has(instance.order.zone)),
        ),
      ),
      get(`${zoned}/instances`, (call) => {
        const zone = this.#reachable(call);
        return this.#page(
          call,
          "instanceList",
          this.#rows((instance) => instance.order.zone === zone),
        );
      }),
      post(`${zoned}/instances`, (call) => this.#insert(call)),
      get(`${zoned}/instances/:name`, (call) => shownInstance(this.project, this.#instance(call, true))),
      { method: "DELETE", path: `${zoned}/instances/:name`, run: to((call) => this.#delete(call)) },
      post(`${zoned}/instances/:name/stop`, (call) => {
        const instance = this.#instance(call);
        const operation = this.instances.operation("stop", { id: instance.id, ...instance.order });
        void this.instances.stop(instance).then(() => operation.finish());
        return this.#shown(operation);
      }),
      get(`${zoned}/instances/:name/serialPort`, (call) => {
        const { order } = this.#instance(call);
        return { kind: "compute#serialPortOutput", contents: `${order.name} login: `, start: "0", next: "7" };
      }),
      get(`${zoned}/operations`, (call) => {
        const zone = this.#reachable(call);
        const rows = this.instances.operations.filter((one) => one.zone === zone).map((one) => this.#shown(one));
        return this.#page(
          call,
          "operationList",
          call.query.get("orderBy") === "creationTimestamp desc" ? rows.toReversed() : rows,
        );
      }),
      get(`${zoned}/operations/:name`, (call) => this.#shown(this.#operation(call))),
      post(`${zoned}/operations/:name/wait`, (call) => this.#wait(call)),
    ];
  }

  /** The metadata server of one machine. The cloud's own has a link-local address, which machines here cannot all have. */
  #metadata(call: Call): Reply {
    const name = /^\/metadata\/([^/]+)\/computeMetadata\/v1\/instance\/preempted$/.exec(call.path)?.[1];
    const instance = [...this.instances.all.values()].find((one) => one.order.name === name);
    if (instance === undefined) return { status: 404, text: "not found" };
    if (call.headers["metadata-flavor"] !== "Google")
      return { status: 403, text: "Missing Metadata-Flavor:Google header." };
    const headers = { "metadata-flavor": "Google", "content-type": "application/text" };
    return { text: instance.preempted ? "TRUE" : "FALSE", headers };
  }

  #token(call: Call): Reply {
    const { status, body } = this.desk.exchange(call.headers["content-type"], call.text, `${this.url}/token`);
    return { status, json: body };
  }

  #admit(call: Call, anyProject: boolean): void {
    if (!this.desk.accepts(call.headers.authorization))
      throw new CloudError(401, "authError", "Request had invalid authentication credentials.");
    const { project = "" } = call.params;
    if (!anyProject && project !== this.project)
      throw new CloudError(404, "notFound", `The resource 'projects/${project}' was not found`);
    if (this.denied === "accessNotConfigured")
      throw new CloudError(
        403,
        "accessNotConfigured",
        "Compute Engine API has not been used in project 104242 before or it is disabled. Enable it by visiting https://console.developers.google.com/apis/api/compute.googleapis.com/overview?project=104242 then retry.",
        "usageLimits",
      );
    if (this.denied === "forbidden" && call.method !== "GET")
      throw new CloudError(
        403,
        "forbidden",
        `Required 'compute.instances.create' permission for 'projects/${project}/zones/${call.params["zone"]}/instances/x'`,
      );
  }

  #reachable(call: Call): string {
    const { zone = "" } = call.params;
    if (!ZONES.includes(zone)) throw missing(`projects/${this.project}/zones/${zone}`);
    if (this.unreachable.has(zone)) throw new CloudError(503, "backendError", "The zone is currently unavailable.");
    return zone;
  }

  #instance(call: Call, look = false): Instance {
    const zone = this.#reachable(call);
    const { name = "" } = call.params;
    const instance = this.instances.find(zone, name);
    if (!instance || (look && this.instances.hidden(instance)))
      throw missing(`projects/${this.project}/zones/${zone}/instances/${name}`);
    return instance;
  }

  #operation(call: Call): Operation {
    const zone = this.#reachable(call);
    const { name = "" } = call.params;
    const operation = this.instances.operations.find(
      (one) => one.zone === zone && (one.name === name || one.id === name),
    );
    if (!operation) throw missing(`projects/${this.project}/zones/${zone}/operations/${name}`);
    return operation;
  }

  /** Returns when the operation has ended, or when the server's time limit of a wait is over, which may be at once. */
  async #wait(call: Call): Promise<Json> {
    const operation = this.#operation(call);
    this.#turn += 1;
    if (this.#turn % 3 !== 1) await Promise.race([operation.done, this.#parts.clock.wait(WAIT_MS_MAX)]);
    return this.#shown(operation);
  }

  #rows(wanted: (instance: Instance) => boolean): Json[] {
    return [...this.instances.all.values()]
      .filter((instance) => wanted(instance) && !this.instances.hidden(instance))
      .map((instance) => shownInstance(this.project, instance));
  }

  #shown(operation: Operation): Json {
    return shownOperation(this.project, operation);
  }

  #page(call: Call, kind: string, rows: readonly Json[]): Json {
    return listPage(call.query, { kind, project: this.project, pageSize: this.pageSize }, rows);
  }

  #replayed(call: Call): Operation | undefined {
    const requestId = call.query.get("requestId");
    if (requestId === null) return undefined;
    if (!UUID.test(requestId) || requestId === ZERO_UUID)
      throw new CloudError(
        400,
        "invalid",
        `Invalid value for field 'requestId': '${requestId}'. Must be a valid UUID.`,
      );
    return this.instances.operations.find((one) => one.requestId === requestId);
  }

  async #insert(call: Call): Promise<Reply | Json> {
    const { faults, clock } = this.#parts;
    if (faults.take("error_before_create")) throw new CloudError(503, "backendError", "Backend Error");
    const zone = this.#reachable(call);
    const earlier = this.#replayed(call);
    if (earlier) return this.#shown(earlier);
    const order = readInsert(call.body, this.project, zone, this.reservations);
    const slow = faults.get("slow_create");
    if (slow !== null) {
      faults.clear("slow_create");
      await clock.wait(slow);
    }
    const taken = this.instances.find(zone, order.name);
    if (taken?.leaving)
      throw new CloudError(
        400,
        "resourceNotReady",
        `The resource 'projects/${this.project}/zones/${zone}/instances/${order.name}' is not ready`,
      );
    if (taken)
      throw new CloudError(
        409,
        "alreadyExists",
        `The resource 'projects/${this.project}/zones/${zone}/instances/${order.name}' already exists`,
      );
    const failure = this.#refusal(order);
    const usd = USD_PER_GPU_HOUR * (order.gpus?.count ?? 0.1);
    const operation = this.instances.insert(order, call.query.get("requestId"), usd, failure);
    if (failure === null) {
      if (faults.take("lost_after_create")) return { lost: true };
      if (faults.take("error_after_create")) throw new CloudError(503, "backendError", "Backend Error");
    }
    return this.#shown(operation);
  }

  /** The capacity error of the operation; a quota may also be refused at once. */
  #refusal(order: InsertOrder): OperationFailure | null {
    const { faults } = this.#parts;
    if (this.quota !== null) {
      const failure = quotaExceeded(this.quota.metric, regionOf(order.zone), this.quota.limit);
      if (this.quota.how === "in the operation") return failure;
      throw new CloudError(403, "quotaExceeded", failure.message, "usageLimits");
    }
    if (
      !this.stockouts.has(order.zone) &&
      !faults.take("no_capacity") &&
      !faults.take("offer_taken") &&
      !during(this.#parts, "sold_out")
    )
      return null;
    const elsewhere = ZONES.filter(
      (zone) => zone !== order.zone && !this.stockouts.has(zone) && machineType(zone, order.machineType) !== null,
    );
    return stockout(this.project, order, faults.get("no_capacity") === null ? elsewhere : []);
  }

  #delete(call: Call): Reply | Json {
    const { faults, ledger } = this.#parts;
    if (during(this.#parts, "delete_errors")) throw new CloudError(503, "backendError", "Backend Error");
    const earlier = this.#replayed(call);
    if (earlier) return this.#shown(earlier);
    const instance = this.#instance(call);
    this.#turn += 1;
    if (instance.leaving && this.#turn % 2 === 0)
      throw new CloudError(400, "resourceNotReady", `The resource '${instance.order.name}' is not ready`);
    const { order, id } = instance;
    ledger.calls.push(`terminate ${order.name}`);
    const requestId = call.query.get("requestId");
    const operation = this.instances.operation("delete", { id, zone: order.zone, name: order.name }, { requestId });
    operation.status = "RUNNING";
    if (faults.take("delete_ignored")) operation.finish();
    else void this.instances.remove(instance, "terminated").then(() => operation.finish());
    if (faults.take("delete_lost")) return { lost: true };
    return this.#shown(operation);
  }
}
