import { delimiter } from "node:path";
import { mavenJars } from "../../src/dev/kafka/jars.ts";
import { type RunningGateway, startGateway } from "./gateway.ts";

const VERSION = "4.18.0";

/** Returns the jars that the documented example needs, or what is missing to download them. */
export function camelJars() {
  const parts = ["main", "kafka", "http", "yaml-dsl"];
  return mavenJars(`camel-${VERSION}`, [
    ...parts.map((part) => `org.apache.camel:camel-${part}:${VERSION}`),
    "org.slf4j:slf4j-simple:2.0.17",
  ]);
}

/** Runs Camel as the documented example describes. Resolves when `isReady` resolves. */
export async function startCamel(
  jars: string,
  files: Record<string, string>,
  env: Record<string, string>,
  isReady: () => Promise<boolean>,
): Promise<RunningGateway> {
  return startGateway({
    program: "env",
    files: () => files,
    args: () => [
      ...Object.entries(env).map(([name, value]) => `${name}=${value}`),
      "java",
      ...["-Xmx256m", "-XX:TieredStopAtLevel=1", "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn"],
      ...["-cp", [".", `${jars}/*`].join(delimiter), "org.apache.camel.main.Main"],
    ],
    isReady,
  });
}
