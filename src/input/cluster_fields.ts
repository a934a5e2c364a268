import { z } from "zod";

/** The id of a cluster in the API. */
export const clusterId = z
  .string()
  .regex(/^[A-Za-z0-9-]{1,64}$/, "must be at most 64 letters, digits and hyphens");

/** The name of a Kubernetes namespace. */
export const namespaceName = z
  .string()
  .regex(/^[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?$/, "must be the name of a namespace");

/** The uid of a Kubernetes namespace. */
export const namespaceUid = z.string().regex(/^[A-Za-z0-9-]{1,64}$/, "must be the uid of a namespace");

/** The namespace and the name of a Kubernetes object. */
export const objectPlace = z.object({
  namespace: namespaceName,
  name: z.string().regex(/^[a-z0-9]([-a-z0-9.]{0,251}[a-z0-9])?$/, "must be the name of an object"),
});
export type ObjectPlace = z.infer<typeof objectPlace>;
