// The place of a machine, and the API's paths below it.

export interface Place {
  project: string;
  zone: string;
}

/** The provider's form of names of machines, zones, regions, machine types and image families. */
export const NAME = /^[a-z](?:[-a-z0-9]{0,61}[a-z0-9])?$/;

export const zonePath = ({ project, zone }: Place): string => `/projects/${project}/zones/${zone}`;
export const instancePath = (place: Place, name: string): string => `${zonePath(place)}/instances/${name}`;
export const operationPath = (place: Place, operation: string): string => `${zonePath(place)}/operations/${operation}`;
