import { isAbsolute } from "node:path";
import { z } from "zod";
import { viewFolder } from "../../files/view-folder.ts";
import { Folder } from "../../schemas/folder.ts";
import { invalid } from "../field-errors.ts";
import { ok, route } from "../route.ts";

/** The choices in the form of a new run. */
export const FOLDER_ROUTES = [
  route({
    method: "GET",
    path: "/v1/folder",
    id: "viewFolder",
    summary: "The folders and scripts in a folder of this computer",
    description:
      "For choosing a project directory and an entrypoint. It reads names only, never the content of a file.",
    query: z.strictObject({
      path: z
        .string()
        .max(4_096)
        .optional()
        .meta({ description: "An absolute path. Default: where `svc serve` was started." }),
    }),
    responses: { 200: { description: "The folder.", schema: Folder } },
    errors: ["invalid_request", "project_dir_refused"],
    async handle(call) {
      const path = call.query.path ?? call.projectDir;
      if (!isAbsolute(path) || path.includes("\0"))
        throw invalid([{ field: "path", message: "must be an absolute path" }]);
      return ok(await viewFolder(path));
    },
  }),
];
