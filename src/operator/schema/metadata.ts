/**
 * Object metadata as the API server takes it, unknown fields refused. Fields that only the server sets may be
 * in a manifest (an exported object has them) and mean nothing there.
 */
export const metadataSchema = {
  type: "object",
  required: ["name"],
  additionalProperties: false,
  properties: {
    name: {
      type: "string",
      maxLength: 253,
      pattern: "^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$",
    },
    namespace: { type: "string", maxLength: 63, pattern: "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$" },
    labels: {
      type: "object",
      propertyNames: { format: "qualified-name" },
      additionalProperties: {
        type: "string",
        maxLength: 63,
        pattern: "^(([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9])?$",
      },
    },
    annotations: {
      type: "object",
      propertyNames: { format: "qualified-name" },
      additionalProperties: { type: "string" },
    },
    uid: { type: "string" },
    resourceVersion: { type: "string" },
    generation: { type: "integer" },
    creationTimestamp: { type: "string" },
    deletionTimestamp: { type: "string" },
    deletionGracePeriodSeconds: { type: "integer" },
    selfLink: { type: "string" },
    finalizers: { type: "array", items: { type: "string" } },
    ownerReferences: { type: "array", items: { type: "object" } },
    managedFields: { type: "array", items: { type: "object" } },
  },
} as const;

const name = /^([A-Za-z0-9][-A-Za-z0-9_.]*)?[A-Za-z0-9]$/;
const prefix = /^[a-z0-9]([-a-z0-9]*[a-z0-9])?(\.[a-z0-9]([-a-z0-9]*[a-z0-9])?)*$/;

/**
 * Whether a text can be the key of a label or an annotation: `[prefix/]name`, at most 253 and 63 characters.
 */
export function isQualifiedName(text: string): boolean {
  const parts = text.split("/");
  if (parts.length > 2) return false;
  const last = parts.at(-1) ?? "";
  if (last.length > 63 || !name.test(last)) return false;
  const [first] = parts;
  return parts.length === 1 || (first !== undefined && first.length <= 253 && prefix.test(first));
}
