// Describes obstacles to renting with an account.

import { Project } from "./wire.ts";

export function warningsOf(body: unknown): string[] {
  const project = Project.safeParse(body);
  if (!project.success) return [];
  const { commonInstanceMetadata: metadata, quotas } = project.data;
  const osLogin = metadata?.items.some(
    ({ key, value }) => key === "enable-oslogin" && /^(true|1|y|yes)$/i.test(value ?? ""),
  );
  const gpus = quotas.find(({ metric }) => metric === "GPUS_ALL_REGIONS");
  return [
    ...(osLogin
      ? [
          "OS Login is on for the whole project; svc turns it off for its own machines, unless a policy of the organisation forbids that: then they cannot be reached.",
        ]
      : []),
    ...(gpus?.limit === 0
      ? [
          "The project's quota GPUS_ALL_REGIONS is 0: ask the provider to raise it, else no machine with a GPU can be had.",
        ]
      : []),
  ];
}
