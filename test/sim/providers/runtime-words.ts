// The messages of a container runtime that cannot start an image, as podhost and market show it.

/** Another host may have a newer driver. */
export const NO_SUCH_DRIVER =
  "error creating container: nvidia-container-cli: requirement error: unsatisfied condition: cuda>=12.8, please update your driver\n";

export const noSuchImage = (image: string): string =>
  `Error response from daemon: manifest for ${image} not found: manifest unknown: manifest unknown\n`;
