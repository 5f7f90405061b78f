// Names of machines carry everything needed to find their owner: installation, job, node, order.

/** The mark of this installation: svc never touches a machine whose name does not begin with it. */
export const installationPrefix = (installationId: string): string => `svc-${installationId.slice(0, 8)}-`;

/** The common part of the names of all orders for one node; the order's number follows. */
export const nodePrefix = (installationId: string, jobId: string, node: number): string =>
  `${installationPrefix(installationId)}${jobId}-n${node}-`;
