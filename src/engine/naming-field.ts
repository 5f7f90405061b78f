import { SvcError } from "../errors/index.ts";

/** The error together with the field that it concerns, for a person who fills in a form. */
/** Rejections name the field that they concern. */
export const named = <T>(work: Promise<T>): Promise<T> =>
  work.catch((e: unknown) => {
    throw namingField(e);
  });

function namingField(e: unknown): unknown {
  if (!(e instanceof SvcError) || e.errors !== undefined) return e;
  const field = e.code.startsWith("entrypoint_")
    ? "spec.entrypoint"
    : e.code === "project_dir_refused"
      ? "spec.project_dir"
      : e.code === "resume_unavailable"
        ? "spec.resume_from"
        : e.code === "python_refused"
          ? "spec.python"
          : e.code === "install_refused"
            ? "spec.install"
            : null;
  return field === null ? e : new SvcError(e.code, e.data, { cause: e, errors: [{ field, message: e.message }] });
}
