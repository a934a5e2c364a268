import type { RequestOptions } from "node:https";
import type { KubeConfig } from "@kubernetes/client-node";
import type { Clock } from "../clock.ts";
import { StartError } from "../config.ts";

/** What a connection to the cluster is made with. */
export type ClusterTls = {
  ca?: Buffer | string;
  cert?: Buffer | string;
  key?: Buffer | string;
  servername?: string;
  rejectUnauthorized?: boolean;
};

/** What one call carries. */
export type ClusterCredentials = { headers: Record<string, string>; tls: ClusterTls };

/** Where a cluster is and who calls it. */
export type ClusterAccess = {
  /** Base URL; it may have a path. */
  server: string;
  /** The HTTP proxy on the way there. */
  proxyUrl?: string | undefined;
  /** Namespace of the context, or of the pod; `undefined` when there is none. */
  namespace: string | undefined;
  /** The credentials as they are now. Files are read again at least every minute. */
  credentials(): Promise<ClusterCredentials>;
  /** Reads everything again next time: the credentials were refused. */
  forget(): void;
};

type Options = {
  /** A kubeconfig. Without one the operator runs in the cluster, as a pod. */
  file?: string | undefined;
  /** One of its contexts, in place of its current one. */
  context?: string | undefined;
  clock: Clock;
  /** For tests: where a pod's files are. */
  podRoot?: string;
};

const MAX_AGE_MS = 60_000;

/**
 * Reads where the cluster is, by a kubeconfig (tokens, client certificates, exec plugins) or a pod's service
 * account. Throws `StartError`.
 */
export async function openAccess({ clock, ...source }: Options): Promise<ClusterAccess> {
  let config = await loadConfig(source);
  const server = serverOf(config, source.file);
  let held: { credentials: ClusterCredentials; at: number } | undefined;
  let reading: Promise<ClusterCredentials> | undefined;
  let refused = false;

  async function read(): Promise<ClusterCredentials> {
    const isPlugin = Boolean(config.getCurrentUser()?.exec);
    // A plugin says itself how long its answer is good for, and the library remembers that.
    if (held !== undefined && (refused || !isPlugin)) config = await loadConfig(source);
    const credentials = await credentialsOf(config);
    held = { credentials, at: clock.now().getTime() };
    refused = false;
    return credentials;
  }

  return {
    server,
    proxyUrl: proxyOf(config, source.file),
    namespace: config.getContextObject(config.getCurrentContext())?.namespace,
    async credentials() {
      const age = held === undefined ? Number.NaN : clock.now().getTime() - held.at;
      if (held !== undefined && !refused && age >= 0 && age < MAX_AGE_MS) return held.credentials;
      reading ??= read().finally(() => {
        reading = undefined;
      });
      try {
        return await reading;
      } catch (error) {
        // The former ones may be good for a while: a file is away for a moment while it is replaced.
        if (held !== undefined) return held.credentials;
        throw error;
      }
    },
    forget() {
      refused = true;
    },
  };
}

async function loadConfig({ file, context, podRoot }: Omit<Options, "clock">): Promise<KubeConfig> {
  // The library is large; who has no cluster does not load it.
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

/** What messages call the source of a configuration. */
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

/** The proxy of the kubeconfig. Its URL may hold a password, which no error quotes. */
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
