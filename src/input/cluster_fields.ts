import { z } from "zod";

/** What the API calls a cluster. */
export const clusterId = z
  .string()
  .regex(/^[A-Za-z0-9-]{1,64}$/, "must be at most 64 letters, digits and hyphens");

/** The name of a namespace, as Kubernetes has it. */
export const namespaceName = z
  .string()
  .regex(/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/, "must be the name of a namespace");

/** Where an object of a cluster is. */
export const objectPlace = z.object({
  namespace: namespaceName,
  name: z.string().regex(/^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/, "must be the name of an object"),
});
export type ObjectPlace = z.infer<typeof objectPlace>;
