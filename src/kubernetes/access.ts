import type { RequestOptions } from "node:https";
import type { KubeConfig } from "@kubernetes/client-node";
import type { Clock } from "../clock.ts";
import { StartError } from "../config.ts";

/** TLS options of a connection to the cluster. */
export type ClusterTls = {
  ca?: Buffer | string;
  cert?: Buffer | string;
  key?: Buffer | string;
  servername?: string;
  rejectUnauthorized?: boolean;
};

/** Headers and TLS options of one call. */
export type ClusterCredentials = { headers: Record<string, string>; tls: ClusterTls };

/** The address of a cluster, and the credentials of the caller. */
export type ClusterAccess = {
  /** Base URL, which may have a path. */
  server: string;
  proxyUrl?: string | undefined;
  /** Namespace of the kubeconfig's context or of the pod; `undefined` if there is none. */
  namespace: string | undefined;
  /** Reads files again after at most a minute. */
  credentials(): Promise<ClusterCredentials>;
  /** Makes the next call of `credentials` read everything again, for use after a refusal. */
  forget(): void;
};

type Options = {
  /** Path of a kubeconfig. If absent, the process must run as a pod in the cluster. */
  file?: string | undefined;
  /** If absent, the kubeconfig's current context is used. */
  context?: string | undefined;
  clock: Clock;
  /** For tests: the folder that replaces `/` for a pod's files. */
  podRoot?: string;
};

const MAX_AGE_MS = 60_000;

/**
 * Opens access to a cluster through a kubeconfig (tokens, client certificates, exec plugins) or a pod's
 * service account. Throws `StartError` if the configuration is unusable.
 */
export async function openAccess({ clock, ...source }: Options): Promise<ClusterAccess> {
  let config = await loadConfig(source);
  const server = serverOf(config, source.file);
  let cached: { credentials: ClusterCredentials; at: number } | undefined;
  let reading: Promise<ClusterCredentials> | undefined;
  let refused = false;

  async function read(): Promise<ClusterCredentials> {
    const isPlugin = Boolean(config.getCurrentUser()?.exec);
    // Keeps a plugin's configuration, because the library caches the plugin's answer while it is valid.
    if (cached !== undefined && (refused || !isPlugin)) config = await loadConfig(source);
    const credentials = await credentialsOf(config);
    cached = { credentials, at: clock.now().getTime() };
    refused = false;
    return credentials;
  }

  return {
    server,
    proxyUrl: proxyOf(config, source.file),
    namespace: config.getContextObject(config.getCurrentContext())?.namespace,
    async credentials() {
      const age = cached === undefined ? Number.NaN : clock.now().getTime() - cached.at;
      if (cached !== undefined && !refused && age >= 0 && age < MAX_AGE_MS) return cached.credentials;
      reading ??= read().finally(() => {
        reading = undefined;
      });
      try {
        return await reading;
      } catch (error) {
        // Returns the former credentials: their file may be missing only because it is being replaced.
        if (cached !== undefined) return cached.credentials;
        throw error;
      }
    },
    forget() {
      refused = true;
    },
  };
}

async function loadConfig({ file, context, podRoot }: Omit<Options, "clock">): Promise<KubeConfig> {
  // Loads the library only here, because it is large and a process without a cluster does not need it.
  const { KubeConfig } = await import("@kubernetes/client-node");
  const config = new KubeConfig();
  try {
    if (file === undefined) {
      config.loadFromCluster(podRoot);
    } else {
      config.loadFromFile(file);
    }
  } catch {
    throw new StartError(`${nameOf(file)} cannot be read.`);
  }
  if (context !== undefined) config.setCurrentContext(context);
  return config;
}

function nameOf(file: string | undefined): string {
  return file === undefined ? "The pod's service account" : `The kubeconfig ${file}`;
}

function serverOf(config: KubeConfig, file: string | undefined): string {
  const cluster = config.getCurrentCluster();
  if (cluster === null || config.getCurrentUser() === null) {
    throw new StartError(
      `${nameOf(file)} has no context "${config.getCurrentContext()}" with a cluster and a user.`,
    );
  }
  if (URL.parse(cluster.server)?.protocol !== "https:") {
    throw new StartError(
      file === undefined
        ? "There is no cluster: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set."
        : `${nameOf(file)} has a server that is not an https URL.`,
    );
  }
  return cluster.server.replace(/\/$/, "");
}

/** Returns the URL of the proxy. The URL may contain a password, so no error quotes the URL. */
function proxyOf(config: KubeConfig, file: string | undefined): string | undefined {
  const { proxyUrl } = config.getCurrentCluster() ?? {};
  if (!proxyUrl) return undefined;
  const protocol = URL.parse(proxyUrl)?.protocol;
  if (protocol === "http:" || protocol === "https:") return proxyUrl;
  throw new StartError(`${nameOf(file)} has a proxy-url that is not an http or https URL.`);
}

async function credentialsOf(config: KubeConfig): Promise<ClusterCredentials> {
  const options: RequestOptions = {};
  await config.applyToHTTPSOptions(options);
  const { ca, cert, key, servername, rejectUnauthorized, auth } = options;
  const basic = typeof auth === "string" ? { authorization: `Basic ${btoa(auth)}` } : {};
  const given = Object.entries(options.headers ?? {}).map(([name, value]) => [
    name.toLowerCase(),
    String(value).trim(),
  ]);
  const tls = { ca, cert, key, servername, rejectUnauthorized };
  return {
    headers: { ...basic, ...Object.fromEntries(given) },
    tls: Object.fromEntries(Object.entries(tls).filter(([, value]) => value !== undefined)) as ClusterTls,
  };
}
