import { mkdir, symlink } from "node:fs/promises";
import { join } from "node:path";
import { mavenJars } from "../../src/dev/kafka/jars.ts";
import { freePort } from "../../src/dev/process/ports.ts";
import { type RunningGateway, startGateway } from "./gateway.ts";

/** The newest version with all of its artifacts in Maven. Connector and worker must have the same version. */
const VERSION = "4.3.1";

/** Returns the jars of Kafka Connect and its file connector, or what is missing. */
export function connectJars() {
  return mavenJars(`kafka-connect-${VERSION}`, [
    `org.apache.kafka:connect-runtime:${VERSION}`,
    `org.apache.kafka:connect-file:${VERSION}`,
    "org.slf4j:slf4j-simple:1.7.36",
  ]);
}

/**
 * Starts Kafka Connect. Resolves when the connector is loaded. `worker` builds the worker's properties from
 * this machine's settings.
 */
export async function startConnect(
  jars: string,
  folder: string,
  { connector, worker }: { connector: string; worker: (settings: Record<string, string>) => string },
): Promise<RunningGateway> {
  const port = await freePort();
  const plugins = join(folder, "plugins");
  await mkdir(plugins, { recursive: true });
  const jar = `connect-file-${VERSION}.jar`;
  await symlink(join(jars, jar), join(plugins, jar)).catch((error: NodeJS.ErrnoException) => {
    if (error.code !== "EEXIST") throw error;
  });
  const properties = worker({
    "offset.storage.file.filename": join(folder, "offsets"),
    "plugin.path": plugins,
    listeners: `http://127.0.0.1:${port}`,
  });
  return startGateway({
    program: "java",
    files: () => ({ "worker.properties": properties, "connector.properties": connector }),
    args: (at) => [
      ...["-Xmx256m", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"],
      ...["-cp", `${jars}/*`, "org.apache.kafka.connect.cli.ConnectStandalone"],
      ...[join(at, "worker.properties"), join(at, "connector.properties")],
    ],
    isReady: () =>
      fetch(`http://127.0.0.1:${port}/connectors`).then(
        async (answer) => answer.ok && ((await answer.json()) as unknown[]).length > 0,
        () => false,
      ),
  });
}
