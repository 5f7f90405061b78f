// Names of machines carry everything needed to know whose they are: installation, job, node, order.

/** The mark of this installation: what does not begin so is never touched. */
export const installationPrefix = (installationId: string): string => `svc-${installationId.slice(0, 8)}-`;

/** The part that all orders for one node have in common; the order's number follows. */
export const nodePrefix = (installationId: string, jobId: string, node: number): string =>
  `${installationPrefix(installationId)}${jobId}-n${node}-`;
