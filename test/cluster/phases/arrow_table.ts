export type Arrow = { from: string; to: string; open: boolean };

/** Pods without the release's labels, in the same namespace and in a different one. */
export const STRANGERS = ["stranger", "elsewhere"] as const;
/**
 * Components whose labels the probe pods have. With them, a probe pod is part of the release for network
 * policies.
 */
const PARTS = [
  ...["api", "operator", "worker", "postgres", "console"],
  ...["keyvault", "keyvault-init", "keyvault-backup", "keyvault-certificates", "keyvault-renewal"],
] as const;
export const SOURCES: readonly string[] = [...PARTS, ...STRANGERS];

/** Targets of connections: ports of components, and targets outside the release. */
export const PORTS: readonly [component: string, port: number][] = [
  ["api", 8080],
  ["api", 8081],
  ["api", 9090],
  ["operator", 9090],
  ["worker", 9090],
  ["keyvault", 8443],
  ["keyvault", 9090],
  ["postgres", 5432],
];
const TARGETS: readonly string[] = [
  ...PORTS.map(([component, port]) => `${component}:${port}`),
  ...["apiserver", "dns", "machine"],
];

/** The allowed connections. In a trial, any pod may call the API, and webhooks may be sent anywhere. */
const ALLOWED: Record<string, readonly string[]> = {
  api: ["postgres:5432", "keyvault:8443", "apiserver", "dns"],
  operator: ["api:8081", "apiserver", "dns"],
  worker: ["postgres:5432", "api:8080", "apiserver", "dns", "machine"],
  keyvault: ["postgres:5432", "dns"],
  // The Job with which an administrator restores the vault or verifies its audit.
  "keyvault-init": ["postgres:5432", "dns"],
  "keyvault-backup": ["keyvault:8443", "dns"],
  // The Job's policy exists only while the Job runs, and Helm waits for the Job.
  "keyvault-certificates": [],
  "keyvault-renewal": ["apiserver", "dns"],
  postgres: [],
  // A component without allowed connections may connect nowhere.
  console: [],
  stranger: ["api:8080", "apiserver", "dns", "machine"],
  elsewhere: ["api:8080", "apiserver", "dns", "machine"],
};

/** Returns wrong results, and connections that were not tried or not expected. */
export function differencesOf(arrows: readonly Arrow[]): string[] {
  const found = new Map(arrows.map((arrow) => [`${arrow.from} → ${arrow.to}`, arrow]));
  const differences = SOURCES.flatMap((from) =>
    TARGETS.flatMap((to) => {
      const name = `${from} → ${to}`;
      const open = found.get(name)?.open;
      found.delete(name);
      if (open === undefined) return [`${name} was not tried`];
      return open === ALLOWED[from]?.includes(to) ? [] : [`${name} is ${open ? "open" : "closed"}`];
    }),
  );
  return [...differences, ...[...found.keys()].map((name) => `${name} is not in the table`)];
}

/** Returns one row per source, and one mark per target. */
export function arrowLines(arrows: readonly Arrow[]): string[] {
  const targets = [...new Set(arrows.map(({ to }) => to))];
  const width = Math.max(...SOURCES.map(({ length }) => length)) + 1;
  const rows = SOURCES.map((source) => {
    const marks = targets.map((target) => {
      const { open = false } = arrows.find(({ from, to }) => from === source && to === target) ?? {};
      return (open ? "open" : "-").padStart(target.length);
    });
    return `${source.padEnd(width)} ${marks.join("  ")}`;
  });
  return [`${"".padEnd(width)} ${targets.join("  ")}`, ...rows];
}
