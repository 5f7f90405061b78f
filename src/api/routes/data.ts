// Data manifests over HTTP. The submission of a run decides which data a machine receives; these routes create, list
// and verify manifests.

import { isAbsolute } from "node:path";
import { z } from "zod";
import { addData } from "../../files/data/add.ts";
import { listData, readManifest, removeManifest, summaryOf } from "../../files/data/store.ts";
import { verifyData } from "../../files/data/verify.ts";
import { DataDetail, DataList, DataReport, DataSummary } from "../../schemas/data.ts";
import { line } from "../../schemas/line.ts";
import { ok, route, type Call } from "../route.ts";

const PAGE_MAX = 10_000;
const nameOf = (call: Call): string => call.params["name"] ?? "";

const DetailQuery = z.strictObject({
  limit: z.coerce.number().int().min(1).max(PAGE_MAX).default(1_000),
  cursor: z.string().max(4_096).optional(),
});

const AddBody = z
  .strictObject({
    name: line(128).meta({ title: "Name", description: "Letters, digits, dots, dashes and underscores." }),
    paths: z
      .array(line(4_096).refine(isAbsolute, "must be an absolute path on the computer of the control plane"))
      .min(1)
      .max(256),
    follow_links: z.boolean().default(false),
  })
  .meta({ id: "AddDataBody" });

const Added = z
  .object({ data: DataSummary, unchanged: z.boolean().nullable(), read_files: z.int(), read_bytes: z.int() })
  .meta({ id: "AddedData" });

/** Ends the work when its caller disconnects. */
function whileAsked(call: Call) {
  const gone = new AbortController();
  call.reply.raw.once("close", () => gone.abort(new Error("the caller disconnected")));
  return { home: call.cp.home, now: Date.now(), signal: gone.signal };
}

export const DATA_ROUTES = [
  route({
    method: "GET",
    path: "/v1/data",
    id: "listData",
    summary: "Data that runs can use by name",
    responses: { 200: { description: "Sorted by name.", schema: DataList } },
    errors: [],
    handle: (call) => ok(listData(call.cp.home)),
  }),
  route({
    method: "POST",
    path: "/v1/data",
    id: "addData",
    summary: "Add data, or record its present state",
    description:
      "Reads every new or changed file of `paths` and answers when it is done: 10 GB take about ten seconds. One " +
      "folder becomes the data itself; several paths appear in it under their own names.",
    body: AddBody,
    responses: { 201: { description: "The data that was added.", schema: Added } },
    errors: [
      "invalid_request",
      "invalid_json",
      "unsupported_media_type",
      "data_name_refused",
      "data_path_refused",
      "disk_full",
    ],
    async handle(call) {
      const { name, paths, follow_links } = call.body;
      return { status: 201, body: await addData({ name, paths, followLinks: follow_links }, whileAsked(call)) };
    },
  }),
  route({
    method: "GET",
    path: "/v1/data/{name}",
    id: "getData",
    summary: "One data set and its files",
    query: DetailQuery,
    responses: { 200: { description: "`next_cursor` is null on the last page.", schema: DataDetail } },
    errors: ["data_not_found", "data_manifest_damaged", "invalid_request"],
    handle(call) {
      const manifest = readManifest(call.cp.home, nameOf(call));
      const { limit, cursor } = call.query;
      const begin = cursor === undefined ? 0 : manifest.files.findIndex(([path]) => path > cursor);
      const page = begin < 0 ? [] : manifest.files.slice(begin, begin + limit);
      const more = begin >= 0 && begin + limit < manifest.files.length;
      const files = page.map(([path, size, sha256]) => ({ path, size, sha256 }));
      return ok({ data: summaryOf(manifest), files, next_cursor: more ? (files.at(-1)?.path ?? null) : null });
    },
  }),
  route({
    method: "POST",
    path: "/v1/data/{name}/verify",
    id: "verifyData",
    summary: "Check data against its manifest",
    description: "Reads only files that may have been modified, unless `full` is true. Lists what differs.",
    body: z.strictObject({ full: z.boolean().default(false) }).optional(),
    responses: { 200: { description: "The differences.", schema: DataReport } },
    errors: ["data_not_found", "data_manifest_damaged", "invalid_request", "invalid_json", "unsupported_media_type"],
    handle: async (call) => ok(await verifyData(nameOf(call), call.body?.full ?? false, whileAsked(call))),
  }),
  route({
    method: "DELETE",
    path: "/v1/data/{name}",
    id: "removeData",
    summary: "Remove data from the list; its files stay",
    responses: { 200: { description: "The name of the removed data.", schema: z.object({ removed: z.string() }) } },
    errors: ["data_not_found"],
    handle(call) {
      removeManifest(call.cp.home, nameOf(call));
      return ok({ removed: nameOf(call) });
    },
  }),
];
