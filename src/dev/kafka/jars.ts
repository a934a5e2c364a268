import { execFile } from "node:child_process";
import { existsSync } from "node:fs";
import { mkdir, mkdtemp, rename, rm, writeFile } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import type { Step, Terminal } from "../terminal.ts";
import { UserError } from "../user_error.ts";

const run = promisify(execFile);

/** Version of Kafka for development and tests. */
export const KAFKA_VERSION = "4.4.0";
const LEAST_JAVA = 17;
const FETCH_MS = 10 * 60_000;

/** The folder with Kafka's jars. If it cannot be downloaded, `missing` names what the download needs. */
type KafkaJars = { jars: string; missing?: never } | { jars?: never; missing: string };

/**
 * Returns the folder with Kafka's jars and their dependencies. The first call downloads them with Maven into
 * `~/.cache/deputize`, after a call of `fetching`. If a download is impossible, returns what is missing.
 */
export function kafkaJars(fetching?: () => void): Promise<KafkaJars> {
  return mavenJars(`kafka-${KAFKA_VERSION}`, [`org.apache.kafka:kafka_2.13:${KAFKA_VERSION}`], fetching);
}

/** Like {@link kafkaJars}, for artifacts `<group>:<artifact>:<version>`. `name` names the cache folder. */
export async function mavenJars(
  name: string,
  artifacts: readonly string[],
  fetching: () => void = () => {},
): Promise<KafkaJars> {
  const java = await javaVersion();
  if (java === undefined || java < LEAST_JAVA) {
    const found = java === undefined ? "found none" : `found Java ${java}`;
    return { missing: `Java ${LEAST_JAVA} or newer (${found}): apt-get install -y openjdk-17-jre-headless` };
  }
  const cache = join(homedir(), ".cache", "deputize");
  const jars = join(cache, name);
  if (existsSync(jars)) return { jars };
  if ((await run("mvn", ["--version"]).catch(() => undefined)) === undefined) {
    return { missing: `Maven, to download ${name} the first time: apt-get install -y maven` };
  }
  await mkdir(cache, { recursive: true });
  fetching();
  return fetchJars(cache, name, artifacts);
}

async function fetchJars(cache: string, name: string, artifacts: readonly string[]): Promise<KafkaJars> {
  const jars = join(cache, name);
  const folder = await mkdtemp(join(cache, `${name}-unfinished-`));
  try {
    await writeFile(join(folder, "pom.xml"), projectOf(artifacts));
    const goal = ["dependency:copy-dependencies", "-DoutputDirectory=jars", "-DincludeScope=runtime"];
    await run("mvn", ["-q", "-B", ...goal], { cwd: folder, timeout: FETCH_MS });
    // Another process may have finished the same download first.
    await rename(join(folder, "jars"), jars).catch(async (error: unknown) => {
      if (!existsSync(jars)) throw error;
    });
    return { jars };
  } catch (error) {
    const { stdout = "", message = "" } = error as { stdout?: string; message?: string };
    const reason = (stdout.trim() || message).split("\n").slice(0, 2).join(" | ");
    return { missing: `${name}, which Maven cannot download: ${reason}` };
  } finally {
    await rm(folder, { recursive: true, force: true });
  }
}

function projectOf(artifacts: readonly string[]): string {
  const dependencies = artifacts.map((artifact) => {
    const [group, id, version] = artifact.split(":");
    return `<dependency><groupId>${group}</groupId><artifactId>${id}</artifactId><version>${version}</version></dependency>`;
  });
  return `<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion><groupId>deputize</groupId><artifactId>jars</artifactId><version>1</version>
  <dependencies>
    ${dependencies.join("\n    ")}
  </dependencies>
</project>
`;
}

async function javaVersion(): Promise<number | undefined> {
  const answer = await run("java", ["-version"]).catch(() => undefined);
  const version = /version "(\d+)/.exec(answer?.stderr ?? "")?.[1];
  return version === undefined ? undefined : Number(version);
}

/** Returns the folder with Kafka's jars. Throws `UserError` with what a download needs and is missing. */
export async function fetchKafka(terminal: Terminal): Promise<string> {
  let step: Step | undefined;
  const { jars, missing } = await kafkaJars(() => {
    step = terminal.step("kafka_jars", `Kafka ${KAFKA_VERSION}, downloaded by Maven once`);
  });
  if (jars !== undefined) {
    step?.done(jars);
    return jars;
  }
  const error = new UserError(
    `--kafka needs ${missing}`,
    "Or start without --kafka; the worker then delivers events without Kafka",
  );
  step?.fail(error);
  throw error;
}
