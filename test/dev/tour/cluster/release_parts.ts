/** Returns the objects of an installed release that the tour reads, with these settings of its roles. */
export function releaseParts(
  settings: { api?: Record<string, string>; operator?: Record<string, string> } = {},
) {
  return [
    role("Deployment", "api", settings.api),
    role("Deployment", "operator", settings.operator),
    role("Deployment", "worker"),
    role("StatefulSet", "keyvault"),
    service("deputize-api-operator", "operator"),
    service("deputize-api", "http"),
  ];
}

function metadataOf(name: string, component: string) {
  return {
    name,
    labels: {
      "app.kubernetes.io/instance": "deputize",
      "app.kubernetes.io/part-of": "deputize",
      "app.kubernetes.io/component": component,
      "app.kubernetes.io/version": "1.2.3",
    },
  };
}

function role(kind: string, component: string, settings: Record<string, string> = {}) {
  const labels = { component };
  const env = Object.entries(settings).map(([name, value]) => ({ name, value }));
  const image = { image: "localhost/deputize:test", imagePullPolicy: "IfNotPresent" };
  return {
    apiVersion: "apps/v1",
    kind,
    metadata: metadataOf(`deputize-${component}`, component),
    spec: {
      replicas: 1,
      selector: { matchLabels: labels },
      ...(kind === "StatefulSet" && { serviceName: `deputize-${component}` }),
      template: { metadata: { labels }, spec: { containers: [{ name: component, ...image, env }] } },
    },
    status: { replicas: 1, readyReplicas: 1 },
  };
}

function service(name: string, port: string) {
  return {
    apiVersion: "v1",
    kind: "Service",
    metadata: metadataOf(name, "api"),
    spec: { ports: [{ name: port, port: 8080 }] },
    status: undefined,
  };
}
