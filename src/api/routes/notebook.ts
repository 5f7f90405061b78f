import { z } from "zod";
import { SvcError } from "../../errors/index.ts";
import { notebook as provider } from "../../providers/notebook/descriptor.ts";
import { ok, route } from "../route.ts";

const NOTEBOOK_TYPE = "application/x-ipynb+json";

/** Tells how to make a notebook runtime reachable. */
export const NOTEBOOK_ROUTE = route({
  method: "GET",
  path: "/v1/notebook/bootstrap",
  id: "notebookBootstrap",
  summary: "The cell that connects a notebook runtime",
  description:
    "Python source with the public key of this installation. It starts an SSH daemon on the runtime, opens a tunnel to it with a " +
    `token that it asks the user for, and prints the address of the runtime. With \`Accept: ${NOTEBOOK_TYPE}\` the response is a whole ` +
    "notebook instead. Read the notebook provider's terms before running it.",
  headers: { Accept: `\`${NOTEBOOK_TYPE}\` for a whole notebook` },
  responses: {
    200: { description: "The cell.", schema: z.object({ cell: z.string() }).meta({ id: "NotebookBootstrap" }) },
  },
  errors: ["provider_unavailable", "ssh_key_unusable"],
  async handle(call) {
    if (!call.cp.notebookBootstrap)
      throw new SvcError("provider_unavailable", {
        provider: provider.name,
        why: "this control plane has no SSH key",
      });
    const { cell, notebook } = await call.cp.notebookBootstrap();
    if (!wantsNotebook(call.request.headers.accept)) return { ...ok({ cell }), headers: { vary: "Accept" } };
    return {
      ...ok(notebook),
      headers: {
        vary: "Accept",
        "content-type": NOTEBOOK_TYPE,
        "content-disposition": 'attachment; filename="svc-connect.ipynb"',
      },
    };
  },
});

/** True if it is named with a quality above zero. A caller that accepts anything gets plain JSON. */
function wantsNotebook(accept: string | undefined): boolean {
  return (accept ?? "").split(",").some((range) => {
    const [type = "", ...parameters] = range.split(";").map((part) => part.trim().toLowerCase());
    return type === NOTEBOOK_TYPE && !parameters.some((p) => /^q\s*=\s*0(\.0*)?$/.test(p));
  });
}
