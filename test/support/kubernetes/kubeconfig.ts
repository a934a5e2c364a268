import type { Kubernetes } from "./server.ts";

type Caller = { token: string; as?: string | undefined; namespace?: string };

/** Returns a kubeconfig with one context as JSON. JSON is valid YAML. */
export function kubeconfigText(
  { url, ca }: Pick<Kubernetes, "url" | "ca">,
  { token, as, namespace }: Caller,
): string {
  const cluster = { server: url, "certificate-authority-data": Buffer.from(ca).toString("base64") };
  const context = { cluster: "test", user: "test", ...(namespace !== undefined && { namespace }) };
  return JSON.stringify({
    apiVersion: "v1",
    kind: "Config",
    "current-context": "test",
    clusters: [{ name: "test", cluster }],
    users: [{ name: "test", user: { token, ...(as !== undefined && { as }) } }],
    contexts: [{ name: "test", context }],
  });
}
